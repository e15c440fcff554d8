//! Events of a plan: the least set that gives exactly the order asked for, proven by a checker of its own.
//!
//! A node stands once on its own stream and once on each attached one; all of them wait for what the node waits for, and what
//! follows the node waits for all of them. Nodes without a task neither send nor receive: the order that they stand for passes
//! through them (DESIGN 9). Every stream joins NetOutput, so that END_GRAPH passes no unfinished work.
use super::check::{PlanFault, PlanView, check_plan};
use super::plan::{SyncPair, SyncPlan, SyncPoint};
use super::transitive::minimum_events;
use crate::error::{CompileError, Result};
use crate::ids::{EventId, NodeKey, StreamId};
use crate::streams::order::{parents_of, predecessors};
use crate::streams::parallel::dag::Rows;
use crate::streams::{ExecutionOrder, StreamPlan};
use ge_ir::Model;

/// Nodes on streams, and what must be over before each of them, in one line.
pub(super) struct Items {
    /// Node and stream, in execution order; attached stands directly behind the node's own.
    pub(super) points: Vec<SyncPoint>,
    /// Before and after.
    pub(super) edges: Vec<(u32, u32)>,
    /// Stream of each item.
    pub(super) stream: Vec<u32>,
}

impl Items {
    /// Of a stream plan.
    pub(super) fn gather(model: &Model, streams: &StreamPlan, order: &ExecutionOrder) -> Items {
        let parents = parents_of(model);
        let n = order.line().len();
        let mut out = Items { points: Vec::new(), edges: Vec::new(), stream: Vec::new() };
        let mut tail: Vec<Option<u32>> = vec![None; streams.streams.len().max(1)];
        // Items of each node of the line: its own, or for a node without a task those it stands for.
        let mut of: Vec<Vec<u32>> = vec![Vec::new(); n];
        let net_output = model.root().net_output().map(|o| NodeKey::new(0, o.id()));
        for i in 0..n {
            let key = order.line()[i];
            let mut before: Vec<u32> = Vec::new();
            for p in predecessors(model, key, &parents) {
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
                before.extend(tail.iter().flatten());
            }
            before.sort_unstable();
            before.dedup();
            let ahead = tail.get(own.0 as usize).copied().flatten();
            for (k, s) in std::iter::once(own).chain(streams.attached[key].iter().copied()).enumerate() {
                let item = out.points.len() as u32;
                // Attached work does not run ahead of its node's own stream, whose memory it may be given.
                if let Some(a) = ahead.filter(|a| k > 0 && !before.contains(a)) {
                    out.edges.push((a, item));
                }
                out.points.push(SyncPoint { node: key, stream: s });
                out.stream.push(s.0);
                out.edges.extend(before.iter().map(|p| (*p, item)));
                if let Some(t) = tail.get_mut(s.0 as usize) {
                    *t = Some(item);
                }
                of[i].push(item);
            }
        }
        out
    }

    fn last_of_each_stream(&self, mut items: Vec<u32>) -> Vec<u32> {
        items.sort_unstable_by_key(|i| (self.stream[*i as usize], std::cmp::Reverse(*i)));
        items.dedup_by_key(|i| self.stream[*i as usize]);
        items
    }
}

/// Inserts the events, each with an id of its own, and proves them.
///
/// # Errors
/// An internal error that names two nodes where the plan does not hold.
pub fn insert(model: &Model, streams: &StreamPlan, order: &ExecutionOrder) -> Result<SyncPlan> {
    let items = Items::gather(model, streams, order);
    let n = items.points.len();
    let pred = Rows::from_pairs(n, items.edges.iter().map(|(a, b)| (*b, *a)));
    let line: Vec<u32> = (0..n as u32).collect();
    let kept = minimum_events(&pred, &items.stream, &line, streams.streams.len().max(1));
    let events: Vec<(u32, u32)> = kept.iter().map(|e| (e.send, e.recv)).collect();
    let view = PlanView {
        nodes: n,
        edges: &items.edges,
        stream: &items.stream,
        order: &line,
        events: &events,
        event_ids: &[],
        reserve: &[],
        together: &[],
        max_streams: None,
    };
    check_plan(&view).map_err(|fault| not_sound(model, &items, &fault))?;
    let pairs: Vec<SyncPair> = events
        .iter()
        .enumerate()
        .map(|(k, (send, recv))| SyncPair {
            id: EventId(k as u32),
            notify: false,
            send: items.points[*send as usize],
            recv: items.points[*recv as usize],
        })
        .collect();
    let crossing = items.edges.iter().filter(|(a, b)| items.stream[*a as usize] != items.stream[*b as usize]).count();
    Ok(SyncPlan { event_num: pairs.len() as u32, inserted: crossing, pairs, ..SyncPlan::default() })
}

fn not_sound(model: &Model, items: &Items, fault: &PlanFault) -> CompileError {
    let name = |i: &u32| items.points.get(*i as usize).map_or_else(String::new, |p| p.node.name(model));
    let message = match fault {
        PlanFault::Unordered { from, to, .. } => format!("`{}` may start before `{}` has ended", name(to), name(from)),
        PlanFault::Deadlock { node } => format!("the streams wait for each other at `{}`", name(node)),
        other => other.to_string(),
    };
    CompileError::internal("sync", message)
}

/// Where the plan's streams are looked up by their number.
pub(super) fn index(s: StreamId) -> usize {
    s.0 as usize
}
