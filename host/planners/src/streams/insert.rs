//! List scheduling by insertion: nodes are placed in the order of their priority, each at the
//! earliest possible time on any stream, including gaps between nodes placed before. Urgent nodes
//! are never delayed by less urgent ones, which fill the gaps.
//!
//! Time: nodes times streams times the gaps examined, of which there are at most [`GAPS`] for each
//! stream.

use super::dag::{NONE, StreamAssignment};
use super::list::Listed;
use super::model::Model;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Number of gaps of one stream that are examined for one node.
const GAPS: usize = 24;

/// One setting of the heuristic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inserting {
    /// Number of plain streams to use.
    pub plain: u32,
    /// Additional weight in nanoseconds of each wait that a placement needs.
    pub wait: u64,
}

/// The free time of one stream: gaps by their start; the last one has no end.
struct Timeline {
    gaps: BTreeMap<u64, u64>,
}

impl Timeline {
    /// The earliest start at or after `from` with `length` of free time.
    fn find(&self, from: u64, length: u64) -> u64 {
        let around = self.gaps.range(..=from).next_back().map(|(&start, &end)| (start, end));
        for (start, end) in around.into_iter().chain(self.gaps.range(from + 1..).take(GAPS).map(|(&s, &e)| (s, e))) {
            let at = start.max(from);
            if end > at && end - at >= length {
                return at;
            }
        }
        self.gaps.last_key_value().map_or(from, |(&start, _)| start.max(from))
    }

    /// Reserves `[at, at + length)`, which must be free. Remaining gaps shorter than `least` are
    /// dropped as useless.
    fn take(&mut self, at: u64, length: u64, least: u64) {
        if length == 0 {
            return;
        }
        let Some((&start, &end)) = self.gaps.range(..=at).next_back() else { return };
        self.gaps.remove(&start);
        if at - start >= least.max(1) {
            self.gaps.insert(start, at);
        }
        let after = at + length;
        if end > after && end - after >= least.max(1) {
            self.gaps.insert(after, end);
        }
    }
}

/// Schedules the whole graph. `tail` is the priority of a node: the time from its start to the end.
/// `sends` is the number of records that each node is expected to make.
pub(crate) fn insert_schedule(m: &Model<'_>, s: &Inserting, tail: &[u64], sends: &[u32]) -> Listed {
    let n = m.dag.len();
    let streams = m.streams as usize;
    let least = m.cost.iter().copied().filter(|c| *c > 0).min().unwrap_or(1);
    let mut lines: Vec<Timeline> = (0..streams).map(|_| Timeline { gaps: BTreeMap::from([(0, u64::MAX)]) }).collect();
    let mut slot_free: Vec<Vec<u64>> = m.slots.iter().map(|&k| vec![0; k as usize]).collect();
    let mut stream = vec![NONE; n];
    let (mut start, mut end) = (vec![0u64; n], vec![0u64; n]);
    let mut left: Vec<u32> = (0..n as u32).map(|v| m.dag.pred.row(v).len() as u32).collect();
    let mut rank = vec![0u32; n];
    for (k, &v) in m.dag.topo.iter().enumerate() {
        rank[v as usize] = k as u32;
    }
    let mut ready: BinaryHeap<(u64, Reverse<u32>)> = BinaryHeap::new();
    for &v in m.dag.topo.iter().filter(|v| left[**v as usize] == 0) {
        ready.push((tail[v as usize], Reverse(rank[v as usize])));
    }
    let mut taken: Vec<u32> = Vec::with_capacity(n);
    // For each stream, the predecessor there that ends last, if any.
    let mut on = vec![NONE; streams];
    while let Some((_, Reverse(r))) = ready.pop() {
        let v = m.dag.topo[r as usize];
        let preds = m.dag.pred.row(v);
        for &p in preds {
            let q = stream[p as usize] as usize;
            if on[q] == NONE || end[on[q] as usize] < end[p as usize] {
                on[q] = p;
            }
        }
        let slot = slot_free.get(m.group[v as usize] as usize).and_then(|f| f.iter().copied().min()).unwrap_or(0);
        let mut best = (u64::MAX, u64::MAX, 0u32);
        let mut consider = |st: u32| {
            let (mut from, mut waits) = (slot, 0u64);
            for &p in preds {
                let q = stream[p as usize];
                if on[q as usize] != p {
                    continue;
                }
                if q == st {
                    from = from.max(end[p as usize]);
                } else {
                    waits += 1;
                    from = from.max(end[p as usize] + m.events.record);
                }
            }
            let lead = waits * m.events.wait;
            let at = lines[st as usize].find(from, lead + m.cost[v as usize]) + lead;
            let score = at + waits * s.wait;
            if (score, at) < (best.0, best.1) {
                best = (score, at, st);
            }
        };
        match m.fixed[v as usize] {
            NONE if m.follow[v as usize] != NONE => consider(stream[m.follow[v as usize] as usize]),
            NONE => (0..s.plain.max(1)).for_each(&mut consider),
            f => consider(f),
        }
        let (_, at, st) = best;
        let waits =
            preds.iter().filter(|p| stream[**p as usize] != st && on[stream[**p as usize] as usize] == **p).count();
        for &p in preds {
            on[stream[p as usize] as usize] = NONE;
        }
        let lead = waits as u64 * m.events.wait;
        let (from, length) = (at - lead, lead + m.cost[v as usize]);
        let line = &mut lines[st as usize];
        line.take(from, length, least);
        // Reserve time for the records, if it is still free.
        let records = u64::from(sends[v as usize]) * m.events.record;
        if records > 0 && line.find(at + m.cost[v as usize], records) == at + m.cost[v as usize] {
            line.take(at + m.cost[v as usize], records, least);
        }
        (stream[v as usize], start[v as usize], end[v as usize]) = (st, at, at + m.cost[v as usize]);
        if let Some(f) = slot_free.get_mut(m.group[v as usize] as usize).and_then(|f| f.iter_mut().min()) {
            *f = end[v as usize];
        }
        taken.push(v);
        for &h in m.dag.succ.row(v) {
            left[h as usize] -= 1;
            if left[h as usize] == 0 {
                ready.push((tail[h as usize], Reverse(rank[h as usize])));
            }
        }
    }
    // Sort by start; nodes without length keep the order in which they were placed. The edges allow
    // this order.
    taken.sort_by_key(|&v| start[v as usize]);
    Listed { assignment: StreamAssignment { stream, order: taken, streams }, end, looked: 0 }
}
