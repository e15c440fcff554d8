//! Finds the minimal set of events to add where a logical stream becomes several physical ones, so
//! that together with the existing events its order is kept.
use super::items::Items;
use super::plan::{SyncPair, SyncPlan};
use crate::error::Result;
use crate::ids::{EventId, NodeKey, StreamId};
use crate::streams::{ExecutionOrder, StreamPlan};
use ge_ir::Model;
use ge_planners::events::check::SyncKind;
use ge_planners::events::transitive::Event;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Positions of nodes on the streams of a plan, in execution order.
pub struct Stands {
    items: Items,
}

impl Stands {
    /// Collects the positions of a stream plan.
    pub fn of(model: &Model, streams: &StreamPlan, order: &ExecutionOrder) -> Stands {
        Stands { items: Items::gather(model, streams, order) }
    }
    /// Node and logical stream of each position.
    pub fn iter(&self) -> impl Iterator<Item = (NodeKey, StreamId)> + '_ {
        self.items.points.iter().map(|p| (p.node, p.stream))
    }

    /// Adds the events that physical streams need in addition to those of the plan, and proves all
    /// of them. `physical` is the physical stream of each position. The required order is that of
    /// the logical streams; if a stream sleeps, all its pieces are woken together.
    ///
    /// # Errors
    /// Returns an internal error that names two nodes if the plan does not keep the order.
    pub fn join_pieces(mut self, model: &Model, plan: &mut SyncPlan, physical: &[u32], notify: bool) -> Result<()> {
        let logical = std::mem::replace(&mut self.items.stream, physical.to_vec());
        let mut wakers: HashMap<u32, Vec<u32>> = HashMap::new();
        for (w, first) in std::mem::take(&mut self.items.starts) {
            wakers.entry(logical[first as usize]).or_default().push(w);
        }
        let mut last: HashMap<u32, u32> = HashMap::new();
        let mut begun: HashSet<u32> = HashSet::new();
        let mut seen: HashMap<(NodeKey, StreamId), u32> = HashMap::new();
        let mut joins = Vec::new();
        for i in 0..logical.len() as u32 {
            let (s, p) = (logical[i as usize], physical[i as usize]);
            if let Some(before) = last.insert(s, i) {
                if physical[before as usize] != p {
                    joins.push(Event { send: before, recv: i });
                }
            }
            if begun.insert(p) {
                self.items.starts.extend(wakers.get(&s).into_iter().flatten().map(|w| (*w, i)));
            }
            let at = &self.items.points[i as usize];
            seen.insert((at.node, at.stream), i);
        }
        self.items.edges.extend(joins.iter().map(|e| (e.send, e.recv)));
        let of = |p: &super::SyncPoint| seen.get(&(p.node, p.stream)).copied();
        let kind = |notify| if notify { SyncKind::Notify } else { SyncKind::Event };
        let event = |p: &SyncPair| Some((Event { send: of(&p.send)?, recv: of(&p.recv)? }, (kind(p.notify), p.id.0)));
        let (had, old_ids): (Vec<Event>, Vec<(SyncKind, u32)>) = plan.pairs.iter().filter_map(event).unzip();
        let known: HashSet<(u32, u32)> = had.iter().map(|e| (e.send, e.recv)).collect();
        let mut all: Vec<Event> = had.iter().chain(&joins).copied().collect();
        all.sort_unstable_by_key(|e| (e.recv, e.send));
        all.dedup();
        let least = self.items.reduced(&all);
        // A wait for an id that several events share must not take an earlier record, so it also
        // needs the joins that only its own event would make superfluous.
        let shared = shared_waits(&had, &old_ids);
        let held = |e: &Event| {
            let s = logical[e.recv as usize];
            let crosses = |(from, to): &(u32, u32)| {
                let begins = logical[*from as usize] != s || e.recv > *from;
                logical[*to as usize] == s && begins && e.recv <= *to
            };
            shared.iter().filter(|(from, to)| !self.items.never_both(*from, *to)).any(crosses)
        };
        let joins: Vec<Event> = joins.into_iter().filter(held).collect();
        let mut fresh: Vec<Event> = least.into_iter().chain(joins).collect();
        fresh.retain(|e| !known.contains(&(e.send, e.recv)));
        fresh.sort_unstable_by_key(|e| (e.recv, e.send));
        fresh.dedup();
        // The waits of the pieces come first.
        let proven: Vec<Event> = fresh.iter().chain(&had).copied().collect();
        let mut ids: Vec<(SyncKind, u32)> = Vec::new();
        // Conditions were checked when the plan was made; pieces do not change them.
        self.items.conditional.clear();
        for e in fresh {
            let next = if notify { &mut plan.notify_num } else { &mut plan.event_num };
            plan.pairs.push(SyncPair {
                id: EventId(*next),
                notify,
                send: self.items.points[e.send as usize],
                recv: self.items.points[e.recv as usize],
            });
            ids.push((kind(notify), *next));
            *next += 1;
        }
        ids.extend(old_ids);
        self.items.prove(model, &proven, &ids, &[])
    }
}

/// For each id that several events have, the positions of each wait for it and of the next one.
fn shared_waits(events: &[Event], ids: &[(SyncKind, u32)]) -> Vec<(u32, u32)> {
    let mut waits: BTreeMap<(SyncKind, u32), Vec<u32>> = BTreeMap::new();
    for (e, id) in events.iter().zip(ids) {
        waits.entry(*id).or_default().push(e.recv);
    }
    let mut out = Vec::new();
    for list in waits.values_mut().filter(|l| l.len() > 1) {
        list.sort_unstable();
        out.extend(list.windows(2).map(|w| (w[0], w[1])));
    }
    out
}
