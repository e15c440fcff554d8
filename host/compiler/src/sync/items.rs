//! Nodes on streams in execution order, with what must be over before each of them.
use super::plan::SyncPoint;
use crate::error::EventFault;
use crate::error::{CompileError, Result};
use crate::ids::{NodeKey, StreamId};
use crate::streams::activation::Wakers;
use crate::streams::branches::Branch;
use crate::streams::logical::attached::waits_itself;
use crate::streams::order::{ahead_of, ahead_of_attached, parents_of};
use crate::streams::{ExecutionOrder, StreamPlan};
use ge_ir::Model;
use ge_planners::events::check::{Join, PlanFault, PlanView, SyncKind, check_plan};
use ge_planners::events::transitive::{Event, minimum_events_after};
use ge_planners::streams::dag::Rows;

/// Positions of nodes on streams ("items") in execution order, and what must be over before each of
/// them.
#[derive(Default)]
pub struct Items {
    /// Node and stream of each item, in execution order. Attached items come directly after the
    /// node's own, or before it if that waits for them.
    pub(super) points: Vec<SyncPoint>,
    /// Pairs of an item and a later one that must wait for it.
    pub(super) edges: Vec<(u32, u32)>,
    /// Stream of each item.
    pub(super) stream: Vec<u32>,
    /// Wakers with the first items of the streams that they wake: an order that needs no event.
    pub(super) starts: Vec<(u32, u32)>,
    /// Attached items with their node's own item, which waits for them by an event among the node's
    /// own tasks.
    pub(super) within: Vec<(u32, u32)>,
    /// Streams that any one of several nodes wakes.
    pub(super) joins: Vec<Join>,
    /// For each stream, whether it runs only if a switch chooses it.
    pub(super) conditional: Vec<bool>,
    /// The branches that contain each item; empty if there are no branches.
    pub(super) branches: Vec<Branch>,
}

impl Items {
    /// Collects the items of a stream plan.
    pub(super) fn gather(model: &Model, streams: &StreamPlan, order: &ExecutionOrder) -> Items {
        let parents = parents_of(model);
        let n = order.line().len();
        let wakers = Wakers::of(model, streams);
        let regions = streams.regions(model);
        let mut out = Items { conditional: wakers.conditional.clone(), ..Items::default() };
        let mut tail: Vec<Option<u32>> = vec![None; streams.streams.len().max(1)];
        // Items of each node of the line: its own, or, for a node without a task, the items whose
        // order it passes on.
        let mut of: Vec<Vec<u32>> = vec![Vec::new(); n];
        let net_output = model.root().net_output().map(|o| NodeKey::new(0, o.id()));
        for i in 0..n {
            let key = order.line()[i];
            let mut before: Vec<u32> = Vec::new();
            for p in ahead_of(model, streams, key, &parents) {
                let p = order.position(p);
                if p < i {
                    before.extend_from_slice(&of[p]);
                }
            }
            let Some((own, _)) = order.stand(i) else {
                of[i] = out.last_of_each_stream(before);
                continue;
            };
            if Some(key) == net_output {
                // Nothing waits for streams that a switch may leave asleep; streams of a body end
                // with it.
                let outside = |s: usize| regions.get(s).is_none_or(|r| *r == 0);
                let runs = |s: usize| !out.conditional.get(s).is_some_and(|c| *c) && outside(s);
                before.extend(tail.iter().flatten().filter(|t| runs(out.stream[**t as usize] as usize)));
            }
            if let Some(region) = streams.flow.as_ref().and_then(|f| f.joined_at(key)) {
                let of_it = |s: usize| regions.get(s) == Some(&region);
                before.extend(tail.iter().flatten().filter(|t| of_it(out.stream[**t as usize] as usize)));
            }
            before.sort_unstable();
            before.dedup();
            let ahead = tail.get(own.0 as usize).copied().flatten();
            let beside =
                if streams.attached[key].is_empty() { None } else { ahead_of_attached(model, streams, key, &wakers) };
            let beside = beside.map(|needed| {
                let at = needed.iter().map(|p| order.position(*p)).filter(|p| *p < i);
                let mut items: Vec<u32> = at.flat_map(|p| of[p].iter().copied()).collect();
                items.sort_unstable();
                items.dedup();
                items
            });
            let mut stands: Vec<(bool, StreamId)> = vec![(false, own)];
            stands.extend(streams.attached[key].iter().map(|s| (true, *s)));
            let itself = stands.len() > 1 && key.get(model).is_some_and(waits_itself);
            if itself {
                stands.rotate_left(1);
                let main = (out.points.len() + stands.len() - 1) as u32;
                out.within.extend((out.points.len() as u32..main).map(|a| (a, main)));
            }
            for (side, s) in stands {
                let item = out.points.len() as u32;
                // Attached work that may read anything must not run ahead of its node's own stream.
                if let Some(a) = ahead.filter(|a| side && beside.is_none() && !before.contains(a)) {
                    out.edges.push((a, item));
                }
                let needed = beside.as_ref().filter(|_| side).unwrap_or(&before);
                out.points.push(SyncPoint { node: key, stream: s });
                out.stream.push(s.0);
                out.edges.extend(needed.iter().map(|p| (*p, item)));
                if let Some(t) = tail.get_mut(s.0 as usize) {
                    if t.replace(item).is_none() {
                        let woken = wakers.before(streams, s).iter().filter(|w| order.position(**w) < i);
                        let from = woken.filter_map(|w| of[order.position(*w)].first());
                        let ends: Vec<u32> = from.copied().collect();
                        match ends.as_slice() {
                            [] => {}
                            [w] => out.starts.push((*w, item)),
                            _ => {
                                let all = 0..streams.streams.len() as u32;
                                let beside = all.filter(|c| wakers.beside(StreamId(*c), s)).collect();
                                out.joins.push(Join { first: item, wakers: ends, beside });
                            }
                        }
                    }
                }
                if !(side && itself) {
                    of[i].push(item);
                }
            }
        }
        if !order.branches().is_empty() {
            out.branches = out.points.iter().map(|p| order.branches().at(p.node).to_vec()).collect();
        }
        out
    }

    /// Items of one node each, without edges.
    #[cfg(test)]
    pub(super) fn plain(stream: &[u32]) -> Items {
        Items { stream: stream.to_vec(), ..Items::default() }
    }

    /// Whether two items stand in different branches of one choice.
    pub(super) fn never_both(&self, a: u32, b: u32) -> bool {
        let at = |i: u32| self.branches.get(i as usize).map_or(&[][..], Vec::as_slice);
        at(a).iter().any(|(choice, branch)| at(b).iter().any(|(c, other)| c == choice && other != branch))
    }

    /// InsertSyncEvents: one event for every edge between two streams, in the order of the
    /// receivers.
    pub(super) fn crossing(&self) -> Vec<Event> {
        let apart = |(a, b): &&(u32, u32)| self.stream[*a as usize] != self.stream[*b as usize];
        let mut all: Vec<Event> = self.edges.iter().filter(apart).map(|(a, b)| Event { send: *a, recv: *b }).collect();
        all.sort_unstable_by_key(|e| (e.recv, e.send));
        all.dedup();
        all
    }

    /// Transitive reduction of `events`, taking into account the streams' own order and the order
    /// given by activation.
    pub(super) fn reduced(&self, events: &[Event]) -> Vec<Event> {
        let n = self.stream.len();
        let pred = Rows::from_pairs(n, events.iter().map(|e| (e.recv, e.send)));
        let line: Vec<u32> = (0..n as u32).collect();
        let width = self.stream.iter().max().map_or(1, |s| *s as usize + 1);
        let free: Vec<(u32, u32)> = self.starts.iter().chain(&self.within).copied().collect();
        minimum_events_after(&pred, (&free, &self.joins), &self.stream, &line, width)
    }

    /// Proves, independently of the planner, that streams, activation and events enforce every
    /// edge, and that ids shared by several events are safe. `by_user` lists the events whose ids
    /// the model sets.
    pub(super) fn prove(
        &self,
        model: &Model,
        events: &[Event],
        ids: &[(SyncKind, u32)],
        by_user: &[(u32, u32)],
    ) -> Result<()> {
        let n = self.stream.len();
        let line: Vec<u32> = (0..n as u32).collect();
        let mut pairs: Vec<(u32, u32)> = events.iter().map(|e| (e.send, e.recv)).collect();
        pairs.extend(self.starts.iter().chain(&self.within));
        let view = PlanView {
            nodes: n,
            edges: &self.edges,
            stream: &self.stream,
            order: &line,
            events: &pairs,
            joins: &self.joins,
            event_ids: ids,
            branches: &self.branches,
            reserve: &[],
            together: &[],
            max_streams: None,
        };
        check_plan(&view).map_err(|fault| not_sound(model, self, &fault, by_user))?;
        // No item may wait for an item that may never run.
        let may_sleep = |i: u32| self.conditional.get(self.stream[i as usize] as usize).copied().unwrap_or(false);
        let name = |i: u32| self.points.get(i as usize).map_or_else(String::new, |p| p.node.name(model));
        match events.iter().find(|e| may_sleep(e.send) && !may_sleep(e.recv)) {
            None => Ok(()),
            Some(e) => Err(EventFault::MayNeverRun { waits: name(e.recv), record: name(e.send) }.into()),
        }
    }

    fn last_of_each_stream(&self, mut items: Vec<u32>) -> Vec<u32> {
        items.sort_unstable_by_key(|i| (self.stream[*i as usize], std::cmp::Reverse(*i)));
        items.dedup_by_key(|i| self.stream[*i as usize]);
        items
    }
}

fn not_sound(model: &Model, items: &Items, fault: &PlanFault, by_user: &[(u32, u32)]) -> CompileError {
    let name = |i: &u32| items.points.get(*i as usize).map_or_else(String::new, |p| p.node.name(model));
    if let PlanFault::EventReused { first, second, .. } | PlanFault::EventTaken { first, second, .. } = fault {
        let pair = |e: &(u32, u32)| format!("`{}` -> `{}`", name(&e.0), name(&e.1));
        if by_user.contains(first) && by_user.contains(second) {
            return EventFault::Unordered { first: pair(first), second: pair(second) }.into();
        }
        let message = format!("the events {} and {} have one id and are not ordered", pair(first), pair(second));
        return CompileError::internal("sync", message);
    }
    let message = match fault {
        PlanFault::Unordered { from, to, .. } => format!("`{}` may start before `{}` has ended", name(to), name(from)),
        PlanFault::Deadlock { node } => format!("the streams wait for each other at `{}`", name(node)),
        other => other.to_string(),
    };
    CompileError::internal("sync", message)
}

/// Index of a stream in the lists of the plan.
pub(super) fn index(s: StreamId) -> usize {
    s.0 as usize
}
