//! Data shared by the searches of `parallel:N`: streams by kind, costs, slots that may limit, and
//! the makespan of a plan.

use super::dag::{Dag, DagError, Kind, NONE, Rules, StreamAssignment};
use crate::events::transitive::{Event, minimum_events};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Cost in nanoseconds of a record on the sender's stream and of a wait on the receiver's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventCost {
    /// Cost of a record.
    pub record: u64,
    /// Cost of a wait.
    pub wait: u64,
}

impl EventCost {
    /// The same cost for a record and a wait.
    pub fn each(ns: u64) -> EventCost {
        EventCost { record: ns, wait: ns }
    }
    /// Total cost of one event.
    pub fn pair(self) -> u64 {
        self.record + self.wait
    }
}

/// A graph with its rules translated into streams: plain streams come first, followed by one stream
/// for each label and each independent engine.
pub(crate) struct Model<'a> {
    pub dag: &'a Dag,
    /// Cost of a record and of a wait, in nanoseconds.
    pub events: EventCost,
    pub cost: Vec<u64>,
    /// For each node that is not plain its stream, otherwise [`NONE`].
    pub fixed: Vec<u32>,
    /// Number of plain streams; plain nodes may be on streams 0..plain.
    pub plain: u32,
    /// Total number of streams.
    pub streams: u32,
    /// For each node its slot group if the slots of its engine can run out, otherwise [`NONE`].
    pub group: Vec<u32>,
    /// Number of slots of each group.
    pub slots: Vec<u32>,
    /// For each node the predecessor whose stream it must share, otherwise [`NONE`].
    pub follow: Vec<u32>,
}

impl<'a> Model<'a> {
    /// Uses at most `plain` streams of plain nodes, fewer if `max_streams` requires it.
    pub fn new(dag: &'a Dag, rules: &Rules, plain: usize, events: EventCost) -> Result<Model<'a>, DagError> {
        let kinds: Vec<Kind> = dag.nodes.iter().map(|n| rules.kind(n)).collect();
        let has_plain = kinds.contains(&Kind::Plain);
        let reserved: BTreeMap<Kind, u32> = {
            let mut k: Vec<Kind> = kinds.iter().copied().filter(|k| *k != Kind::Plain).collect();
            k.sort_unstable();
            k.dedup();
            k.into_iter().zip(0u32..).collect()
        };
        let need = reserved.len() + usize::from(has_plain);
        let mut plain = if has_plain { plain.clamp(1, dag.len().max(1)) } else { 0 };
        if let Some(allowed) = rules.max_streams {
            if need > allowed {
                return Err(DagError::TooFewStreams { need, allowed });
            }
            plain = plain.min(allowed - reserved.len());
        }
        let plain = plain as u32;
        let fixed: Vec<u32> = kinds.iter().map(|k| reserved.get(k).map_or(NONE, |r| plain + r)).collect();
        // Slots matter only if more streams than slots may hold nodes of the engine.
        let mut hosts: BTreeMap<u32, (bool, std::collections::BTreeSet<u32>)> = BTreeMap::new();
        for (n, &f) in dag.nodes.iter().zip(&fixed) {
            let h = hosts.entry(n.engine).or_default();
            if f == NONE {
                h.0 = true;
            } else {
                h.1.insert(f);
            }
        }
        let (mut slots, mut of_engine) = (Vec::new(), BTreeMap::new());
        for (engine, (on_plain, on_fixed)) in hosts {
            let most = on_fixed.len() + if on_plain { plain as usize } else { 0 };
            if let Some(s) = rules.slots.get(engine as usize).copied().flatten().filter(|s| (*s as usize) < most) {
                of_engine.insert(engine, slots.len() as u32);
                slots.push(s.max(1));
            }
        }
        let group = dag.nodes.iter().map(|n| of_engine.get(&n.engine).copied().unwrap_or(NONE)).collect();
        let streams = plain + reserved.len() as u32;
        let cost = dag.nodes.iter().map(|n| n.cost).collect();
        let mut follow = vec![NONE; dag.len()];
        let mut fixed = fixed;
        for &v in &dag.topo {
            let Some(p) = dag.nodes[v as usize].follow else { continue };
            // The predecessor comes earlier in the order, so its own stream is final.
            match fixed[p as usize] {
                NONE => follow[v as usize] = p,
                f => fixed[v as usize] = f,
            }
        }
        Ok(Model { dag, follow, events, cost, fixed, plain, streams, group, slots })
    }

    /// The same problem on the reversed graph, in which records and waits are exchanged.
    pub fn backwards<'r>(&self, reversed: &'r Dag) -> Model<'r> {
        Model {
            dag: reversed,
            events: EventCost { record: self.events.wait, wait: self.events.record },
            cost: self.cost.clone(),
            fixed: self.fixed.clone(),
            plain: self.plain,
            streams: self.streams,
            group: self.group.clone(),
            slots: self.slots.clone(),
            follow: vec![NONE; self.cost.len()],
        }
    }

    /// A lower bound of the makespan: the longest path, or the work of a class of streams divided
    /// by the number of its streams.
    pub fn lower_bound(&self) -> u64 {
        let path = self.tails(0).into_iter().max().unwrap_or(0);
        let mut work = vec![0u64; (self.streams - self.plain) as usize + 1];
        for (&f, &c) in self.fixed.iter().zip(&self.cost) {
            work[if f == NONE { 0 } else { (f - self.plain) as usize + 1 }] += c;
        }
        let plain = work[0].div_ceil(u64::from(self.plain.max(1)));
        work[1..].iter().copied().max().unwrap_or(0).max(plain).max(path)
    }

    /// For each node, the longest path from its start to the end of the graph; an edge that may
    /// leave its stream counts `per_edge` nanoseconds.
    pub fn tails(&self, per_edge: u64) -> Vec<u64> {
        let mut tail = vec![0u64; self.dag.len()];
        for &v in self.dag.topo.iter().rev() {
            let row = self.dag.succ.row(v);
            let most = row.iter().map(|&h| {
                let straight = row.len() == 1 && self.dag.pred.row(h).len() == 1;
                let apart = self.fixed[v as usize] != self.fixed[h as usize];
                tail[h as usize] + if straight && !apart { 0 } else { per_edge }
            });
            tail[v as usize] = self.cost[v as usize] + most.max().unwrap_or(0);
        }
        tail
    }
}

/// The makespan of streams, order and events, as `stream_check.py` measures it. Each stream is a
/// server of its own. The i-th record of a node arrives i record costs after the node's end, and
/// the stream continues after all its records. A receiver pays one wait cost for each wait. Engines
/// with slots take the node that is ready first, then the first one in the order.
pub(crate) fn simulate(m: &Model<'_>, stream: &[u32], order: &[u32], events: &[Event]) -> u64 {
    let n = order.len();
    let EventCost { record, wait: waited } = m.events;
    let mut rank = vec![0u32; n];
    for (k, &v) in order.iter().enumerate() {
        rank[v as usize] = k as u32;
    }
    let out = super::dag::Rows::from_pairs(n, events.iter().map(|e| (e.send, e.recv)));
    let (mut next, mut wait, mut receives) = (vec![NONE; n], vec![0u32; n], vec![0u64; n]);
    let mut last: BTreeMap<u32, u32> = BTreeMap::new();
    for &v in order {
        if let Some(p) = last.insert(stream[v as usize], v) {
            next[p as usize] = v;
            wait[v as usize] += 1;
        }
    }
    for e in events {
        wait[e.recv as usize] += 1;
        receives[e.recv as usize] += 1;
    }
    let mut free: Vec<u32> = m.slots.clone();
    let mut queue: Vec<BinaryHeap<Reverse<(u64, u32, u32)>>> = free.iter().map(|_| BinaryHeap::new()).collect();
    let mut ready = vec![0u64; n];
    // (time, 0 for an end or 1 for a start, rank, node)
    let mut heap: BinaryHeap<Reverse<(u64, u8, u32, u32)>> =
        (0..n as u32).filter(|&v| wait[v as usize] == 0).map(|v| Reverse((0, 1, rank[v as usize], v))).collect();
    let mut span = 0;
    while let Some(Reverse((t, what, r, v))) = heap.pop() {
        let g = m.group[v as usize] as usize;
        if what == 1 {
            if g < free.len() {
                if free[g] == 0 {
                    queue[g].push(Reverse((t, r, v)));
                    continue;
                }
                free[g] -= 1;
            }
            heap.push(Reverse((t + m.cost[v as usize], 0, r, v)));
            continue;
        }
        if g < free.len() {
            match queue[g].pop() {
                Some(Reverse((_, r2, v2))) => heap.push(Reverse((t + m.cost[v2 as usize], 0, r2, v2))),
                None => free[g] += 1,
            }
        }
        span = span.max(t);
        let row = out.row(v);
        let after = next[v as usize];
        let mut arrive = |h: u32, at: u64| {
            let h_ = h as usize;
            ready[h_] = ready[h_].max(at);
            wait[h_] -= 1;
            if wait[h_] == 0 {
                heap.push(Reverse((ready[h_] + receives[h_] * waited, 1, rank[h_], h)));
            }
        };
        for (&h, i) in row.iter().zip(1u64..) {
            arrive(h, t + i * record);
        }
        if after != NONE {
            arrive(after, t + row.len() as u64 * record);
        }
    }
    span
}

/// Computes the events and the makespan of an assignment.
pub(crate) fn measure(m: &Model<'_>, a: &StreamAssignment) -> (Vec<Event>, u64) {
    let streams = a.stream.iter().copied().max().map_or(0, |s| s as usize + 1);
    let events = minimum_events(&m.dag.pred, &a.stream, &a.order, streams);
    let span = simulate(m, &a.stream, &a.order, &events);
    (events, span)
}
