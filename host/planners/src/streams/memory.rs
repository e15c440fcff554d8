//! Memory needed under a stream plan. A tensor may take the place of another only if the plan's own
//! order puts every use of the other before this one's producer. The order is determined by vector
//! clocks over edges and stream order.
//!
//! Tensors get their places one by one in the plan's order. The time is nearly the number of
//! tensors times the number of ranges held at once, which is fast enough to compare plans.

use super::dag::{Dag, NONE, StreamAssignment};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The relation "runs before" under a plan.
pub struct PlanOrder {
    streams: usize,
    stream: Vec<u32>,
    pos: Vec<u32>,
    /// For each node and stream, how many nodes of the stream are over when the node starts.
    before: Vec<u32>,
}

impl PlanOrder {
    /// Builds the relation from edges and stream order. Time and memory: (nodes + edges) times
    /// streams.
    pub fn new(dag: &Dag, a: &StreamAssignment) -> PlanOrder {
        let n = dag.len();
        let streams = a.stream.iter().copied().max().map_or(1, |s| s as usize + 1);
        let mut out = PlanOrder { streams, stream: a.stream.clone(), pos: vec![0; n], before: vec![0; n * streams] };
        let mut count = vec![0u32; streams];
        let mut last = vec![NONE; streams];
        let mut row = vec![0u32; streams];
        for &v in &a.order {
            let s = a.stream[v as usize] as usize;
            row.fill(0);
            for &p in dag.pred.row(v).iter().chain(Some(&last[s]).filter(|l| **l != NONE)) {
                let at = p as usize * streams;
                for (r, &c) in row.iter_mut().zip(&out.before[at..at + streams]) {
                    *r = (*r).max(c);
                }
                let q = a.stream[p as usize] as usize;
                row[q] = row[q].max(out.pos[p as usize] + 1);
            }
            out.before[v as usize * streams..(v as usize + 1) * streams].copy_from_slice(&row);
            out.pos[v as usize] = count[s];
            count[s] += 1;
            last[s] = v;
        }
        out
    }

    /// Whether `a` is over before `b` starts.
    #[inline]
    pub fn ordered(&self, a: u32, b: u32) -> bool {
        self.before[b as usize * self.streams + self.stream[a as usize] as usize] > self.pos[a as usize]
    }

    /// For each stream, how many of its nodes are over when the node starts.
    fn row(&self, v: u32) -> &[u32] {
        &self.before[v as usize * self.streams..(v as usize + 1) * self.streams]
    }
}

/// Which of the possible places is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// The lowest one.
    First,
    /// The smallest one.
    Best,
}

/// Number of ranges that are examined for one tensor, from the lowest on.
const RANGES: usize = 4096;

/// A range of the arena and the tensor that used it last.
#[derive(Clone, Copy)]
struct Held {
    start: u64,
    end: u64,
    owner: u32,
}

/// Offsets of all tensors and the size of the arena in bytes. A tensor of zero bytes is at 0.
pub fn places(dag: &Dag, a: &StreamAssignment, order: &PlanOrder, fit: Fit) -> (Vec<u64>, u64) {
    let mut offsets = vec![0u64; dag.len()];
    let arena = put(dag, a, order, fit, |_, v, at, _| offsets[v as usize] = at);
    (offsets, arena)
}

/// The memory that a plan's tensors need at the same time.
pub(crate) struct Peak {
    /// Size of the arena in bytes if the tensors are placed one by one.
    pub arena: u64,
    /// The greatest sum, in bytes, of a tensor and all tensors not known to be over when it is
    /// made.
    pub held: u64,
    /// That tensor, followed by the others.
    pub tensors: Vec<u32>,
}

/// The arena of a plan, and the tensors that are live together where most memory is needed.
pub(crate) fn peak(dag: &Dag, a: &StreamAssignment, order: &PlanOrder) -> Peak {
    let mut peak = Peak { arena: 0, held: 0, tensors: Vec::new() };
    peak.arena = put(dag, a, order, Fit::First, |arena, v, _, over| {
        let held = || arena.held.iter().filter(|h| !over(h.owner));
        let sum = dag.nodes[v as usize].out_bytes + held().map(|h| h.end - h.start).sum::<u64>();
        if sum > peak.held {
            peak.held = sum;
            peak.tensors.clear();
            peak.tensors.push(v);
            peak.tensors.extend(held().map(|h| h.owner));
        }
    });
    peak
}

/// Places all tensors in the plan's order and returns the size of the arena. `each` gets the arena
/// before a tensor is placed, the tensor, its place, and a test for what is over when it is made.
fn put(
    dag: &Dag,
    a: &StreamAssignment,
    order: &PlanOrder,
    fit: Fit,
    mut each: impl FnMut(&Arena, u32, u64, &dyn Fn(u32) -> bool),
) -> u64 {
    let streams = order.streams;
    // For each tensor and stream: how many nodes must be over before the tensor is unused; never
    // for tensors that are kept.
    let mut done = vec![0u32; dag.len() * streams];
    for v in 0..dag.len() as u32 {
        let row = &mut done[v as usize * streams..(v as usize + 1) * streams];
        if dag.nodes[v as usize].keep {
            row.fill(u32::MAX);
            continue;
        }
        let users = dag.succ.row(v);
        for &u in if users.is_empty() { std::slice::from_ref(&v) } else { users } {
            let s = order.stream[u as usize] as usize;
            row[s] = row[s].max(order.pos[u as usize] + 1);
        }
    }
    let mut arena = Arena::default();
    for &v in &a.order {
        let size = dag.nodes[v as usize].out_bytes;
        if size == 0 {
            continue;
        }
        let now = order.row(v);
        let over = |o: u32| {
            let row = &done[o as usize * streams..(o as usize + 1) * streams];
            row.iter().zip(now).all(|(d, n)| d <= n)
        };
        let spot = arena.find(size, fit, over);
        each(&arena, v, spot.at, &over);
        arena.take(spot, size, v);
    }
    arena.end()
}

/// The ranges of the arena, each with the tensor that used it last.
#[derive(Default)]
pub(crate) struct Arena {
    held: Vec<Held>,
    fresh: Vec<Held>,
}

/// A place for a tensor: its start, and the consecutive ranges that it covers.
#[derive(Clone, Copy)]
pub(crate) struct Spot {
    pub at: u64,
    from: usize,
    to: usize,
}

impl Arena {
    /// Size of the arena in bytes.
    pub fn end(&self) -> u64 {
        self.held.last().map_or(0, |h| h.end)
    }

    /// A place for `size` bytes that overlaps only tensors that are `over`.
    pub fn find(&self, size: u64, fit: Fit, over: impl Fn(u32) -> bool) -> Spot {
        let held = &self.held;
        // Runs of ranges that are free for this tensor.
        let mut best: Option<(u64, usize, usize)> = None;
        let (mut from, mut k) = (0, 0);
        let reach = held.len().min(RANGES);
        while k <= reach {
            let open = k < reach && over(held[k].owner);
            if !open {
                if k > from {
                    let room = held[k - 1].end - held[from].start;
                    let good = room >= size && best.is_none_or(|b| fit == Fit::Best && room < b.0);
                    if good {
                        best = Some((room, from, k));
                        if fit == Fit::First || room == size {
                            break;
                        }
                    }
                }
                from = k + 1;
            }
            k += 1;
        }
        match best {
            Some((_, from, to)) => Spot { at: held[from].start, from, to },
            None => {
                // At the end of the arena, including the free ranges there.
                let mut from = held.len();
                while from > 0 && over(held[from - 1].owner) {
                    from -= 1;
                }
                let at = held.get(from).map_or_else(|| held.last().map_or(0, |h| h.end), |h| h.start);
                Spot { at, from, to: held.len() }
            }
        }
    }

    /// Places a tensor at `spot`.
    pub fn take(&mut self, spot: Spot, size: u64, owner: u32) {
        let (held, end) = (&mut self.held, spot.at + size);
        self.fresh.clear();
        self.fresh.push(Held { start: spot.at, end, owner });
        let mut to = spot.from;
        while to < spot.to && held[to].start < end {
            let h = held[to];
            if h.end > end {
                self.fresh.push(Held { start: end, end: h.end, owner: h.owner });
            }
            to += 1;
        }
        held.splice(spot.from..to, self.fresh.iter().copied());
    }
}

/// The greatest sum of sizes that are live at once if the nodes run one by one in this order.
pub fn live_sum(dag: &Dag, order: &[u32]) -> u64 {
    let mut left: Vec<usize> = (0..dag.len() as u32).map(|v| dag.succ.row(v).len()).collect();
    let (mut live, mut most) = (0u64, 0u64);
    for &v in order {
        let node = &dag.nodes[v as usize];
        live += node.out_bytes;
        most = most.max(live);
        let free = |p: u32, live: &mut u64| {
            let d = &dag.nodes[p as usize];
            if !d.keep {
                *live -= d.out_bytes;
            }
        };
        for &p in dag.pred.row(v) {
            left[p as usize] -= 1;
            if left[p as usize] == 0 {
                free(p, &mut live);
            }
        }
        if dag.succ.row(v).is_empty() {
            free(v, &mut live);
        }
    }
    most
}

/// An order that keeps little memory live on one stream: the graph's own order, or one that
/// continues with the node that became ready last, or with the one that frees most.
pub(crate) fn frugal_order(dag: &Dag) -> Vec<u32> {
    let n = dag.len();
    let bytes = |v: u32| dag.nodes[v as usize].out_bytes as i128;
    let go = |greedy: bool| {
        let mut left: Vec<u32> = (0..n as u32).map(|v| dag.pred.row(v).len() as u32).collect();
        let mut readers: Vec<u32> = (0..n as u32).map(|v| dag.succ.row(v).len() as u32).collect();
        let grows = |v: u32, readers: &[u32]| {
            let last = |p: &&u32| readers[**p as usize] == 1 && !dag.nodes[**p as usize].keep;
            let own = if dag.succ.row(v).is_empty() && !dag.nodes[v as usize].keep { 0 } else { bytes(v) };
            own - dag.pred.row(v).iter().filter(last).map(|p| bytes(*p)).sum::<i128>()
        };
        // By what it frees and by how late it became ready; what it frees may have increased since.
        let mut ready: BinaryHeap<(Reverse<i128>, usize, u32)> = BinaryHeap::new();
        let mut order = Vec::with_capacity(n);
        let mut age = 0usize;
        let mut add = |v: u32, readers: &[u32], ready: &mut BinaryHeap<_>| {
            age += 1;
            ready.push((Reverse(if greedy { grows(v, readers) } else { 0 }), age, v));
        };
        for &v in dag.topo.iter().rev().filter(|v| left[**v as usize] == 0) {
            add(v, &readers, &mut ready);
        }
        let mut done = vec![false; n];
        while let Some((_, _, v)) = ready.pop() {
            if std::mem::replace(&mut done[v as usize], true) {
                continue;
            }
            order.push(v);
            for &p in dag.pred.row(v) {
                readers[p as usize] -= 1;
                if greedy && readers[p as usize] == 1 {
                    // The only remaining reader now frees it.
                    let waits = |h: &&u32| !done[**h as usize] && left[**h as usize] == 0;
                    if let Some(&h) = dag.succ.row(p).iter().take(64).find(waits) {
                        add(h, &readers, &mut ready);
                    }
                }
            }
            for &h in dag.succ.row(v).iter().rev() {
                left[h as usize] -= 1;
                if left[h as usize] == 0 {
                    add(h, &readers, &mut ready);
                }
            }
        }
        order
    };
    let all = [dag.topo.clone(), go(false), go(true)];
    all.into_iter().min_by_key(|o| live_sum(dag, o)).unwrap_or_default()
}
