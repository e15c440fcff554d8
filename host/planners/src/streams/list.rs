//! List scheduling in time order: the class of streams that becomes free first takes the ready node
//! that can start earliest there, weighed against its path to the end and the waits that the
//! placement needs.
//!
//! A class is all plain streams together, or the one stream of a label or an independent engine. Of
//! a node's possible streams, only those of its predecessors and the one that is free first are
//! examined, because no other is better. Time: nodes times (window + streams), plus the edges once.

use super::bits::Bits;
use super::dag::{NONE, StreamAssignment};
use super::memory::{Arena, Fit, Spot};
use super::model::Model;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Number of nodes that the frugal order examines in each step.
const FRUGAL: usize = 4;

/// One setting of the heuristic.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Setting {
    /// Number of plain streams to use.
    pub plain: u32,
    /// Weight of a node's path to the end relative to its start, in 1/1024.
    pub path: u64,
    /// Additional weight in nanoseconds of each wait that a placement needs.
    pub wait: u64,
    /// Number of nodes examined in each step: this many whose inputs are available, and half as
    /// many whose inputs are not.
    pub look: usize,
    /// Weight in nanoseconds of the stream that a node prefers.
    pub lean: u64,
    /// Weight of the bytes that a node makes live, minus those that it is the last to read, in
    /// 1/1024 ns.
    pub bytes: u64,
    /// Limit of the arena in bytes; 0: no limit. Outputs get their places when their nodes are
    /// placed, given the order that the streams then imply. A node whose output has no place within
    /// the limit on one stream goes to another stream or waits. If no node has one, the node that
    /// comes first in the frugal order goes where the arena grows least.
    pub cap: u64,
}

/// The result of a schedule: streams of the model, not yet compacted, and the end of each node
/// according to the heuristic.
pub(crate) struct Listed {
    pub assignment: StreamAssignment,
    pub end: Vec<u64>,
    /// Number of memory ranges examined.
    pub looked: usize,
}

/// Vector clock for `W` streams.
type Clock<const W: usize> = [u32; W];

/// The nodes of one class of streams.
struct Class {
    /// Nodes by priority, most urgent first.
    nodes: Vec<u32>,
    /// Ready nodes whose inputs are available, as indices in `nodes`.
    here: Bits,
    /// Ready nodes whose inputs are not available yet.
    coming: Bits,
    /// All ready nodes, by their position in the frugal order.
    ready: Bits,
    /// The nodes of `coming`, by the time at which their inputs are available.
    when: BinaryHeap<Reverse<(u64, u32)>>,
    /// Range of its streams: `first..last`.
    first: u32,
    last: u32,
}

struct State<'m, 'a, const W: usize> {
    m: &'m Model<'a>,
    stream: Vec<u32>,
    pos: Vec<u32>,
    end: Vec<u64>,
    sends: Vec<u32>,
    clock: Vec<Clock<W>>,
    free: Vec<u64>,
    last: Vec<u32>,
    count: Vec<u32>,
    /// Predecessors of each ready node that no other predecessor implies; stored in a part of the
    /// node's row.
    needs: Vec<u32>,
    need_count: Vec<u32>,
    slot_free: Vec<Vec<u64>>,
    clocks: bool,
    /// For each output, the number of its readers that are not placed yet.
    readers: Vec<u32>,
}

/// Schedules the whole graph with one setting. `tail` is the priority of a node: the time from its
/// start to the end. `leans` is the stream that each node prefers, or [`NONE`]; if empty, no node
/// has a preference. `frugal` is an order of all nodes that keeps little memory live; it is used if
/// `cap` is set.
pub(crate) fn list_schedule<const W: usize>(
    m: &Model<'_>,
    s: &Setting,
    tail: &[u64],
    leans: &[u32],
    frugal: &[u32],
) -> Listed {
    let capped = s.cap > 0 && frugal.len() == m.dag.len() && m.streams as usize <= W;
    let mut turn = vec![0u32; if capped { frugal.len() } else { 0 }];
    if capped {
        frugal.iter().zip(0u32..).for_each(|(&v, k)| turn[v as usize] = k);
    }
    let mut space = Space::<W>::new(m, capped);
    let mut choices: Vec<(i128, u32, u32)> = Vec::new();
    let mut turns: Vec<(u64, usize)> = Vec::new();
    let n = m.dag.len();
    let streams = m.streams as usize;
    let clocks = streams <= W;
    let mut st = State::<W> {
        m,
        stream: vec![NONE; n],
        pos: vec![0; n],
        end: vec![0; n],
        sends: vec![0; n],
        clock: vec![[0; W]; if clocks { n } else { 0 }],
        free: vec![0; streams],
        last: vec![NONE; streams],
        count: vec![0; streams],
        needs: vec![0; m.dag.pred.total()],
        need_count: vec![0; n],
        slot_free: m.slots.iter().map(|&k| vec![0; k as usize]).collect(),
        clocks,
        readers: (0..n as u32).map(|v| m.dag.succ.row(v).len() as u32).collect(),
    };
    let (mut classes, class_of, place_of) = classes(m, s.plain, tail, if capped { frugal.len() } else { 0 });
    let mut left: Vec<u32> = (0..n as u32).map(|v| m.dag.pred.row(v).len() as u32).collect();
    for &v in &m.dag.topo {
        if left[v as usize] == 0 {
            let c = &mut classes[class_of[v as usize] as usize];
            c.here.insert(place_of[v as usize]);
            if capped {
                c.ready.insert(turn[v as usize]);
            }
        }
    }
    let mut order = Vec::with_capacity(n);
    let mut window: Vec<u32> = Vec::with_capacity(2 * s.look);
    while order.len() < n {
        // Sort the classes by the time at which they can continue.
        turns.clear();
        for (k, c) in classes.iter_mut().enumerate() {
            // Drop nodes that were taken before their inputs were available.
            while c.when.peek().is_some_and(|Reverse((_, place))| !c.coming.contains(*place)) {
                c.when.pop();
            }
            let free = st.first_free(c.first, c.last).1;
            if !c.here.is_empty() {
                turns.push((free, k));
            } else if let Some(Reverse((t, _))) = c.when.peek() {
                turns.push((free.max(*t), k));
            }
        }
        if capped {
            turns.sort_unstable();
        } else if let Some(first) = turns.iter().min().copied() {
            turns.clear();
            turns.push(first);
        }
        // If no class keeps within the limit: position in the frugal order, class, index in the
        // class, stream.
        let mut late: Option<(u32, usize, u32, u32)> = None;
        let mut chosen: Option<(usize, u32, u32)> = None;
        for &(now, k) in &turns {
            let c = &mut classes[k];
            while let Some(&Reverse((t, place))) = c.when.peek() {
                if t > now {
                    break;
                }
                c.when.pop();
                if c.coming.remove(place) {
                    c.here.insert(place);
                }
            }
            window.clear();
            window.extend(c.here.iter().take(s.look.max(1)));
            window.extend(c.coming.iter().take(s.look / 2));
            if capped {
                window.extend(c.ready.iter().take(FRUGAL).map(|k| place_of[frugal[k as usize] as usize]));
            }
            let soonest = st.first_free(c.first, c.last).0;
            let mut best = (i128::MAX, 0u32, 0u32);
            choices.clear();
            for &place in &window {
                let v = c.nodes[place as usize];
                let mut path = i128::from(tail[v as usize]) * i128::from(s.path) / 1024;
                if s.bytes > 0 {
                    path -= i128::from(st.grows(v)) * i128::from(s.bytes) / 1024;
                }
                let to = leans.get(v as usize).copied().unwrap_or(NONE);
                let mut consider = |stream: u32| {
                    let (start, waits) = st.start(v, stream);
                    let away = if to == stream { 0 } else { s.lean };
                    let score = i128::from(start) - path + i128::from(waits * s.wait + away);
                    if capped {
                        choices.push((score, place, stream));
                    }
                    if score < best.0 {
                        best = (score, place, stream);
                    }
                };
                if m.follow[v as usize] != NONE {
                    consider(st.stream[m.follow[v as usize] as usize]);
                    continue;
                }
                if capped {
                    (c.first..c.last).for_each(consider);
                    continue;
                }
                for k in 0..st.need_count[v as usize] as usize {
                    let on = st.stream[st.needs[m.dag.pred.start(v) + k] as usize];
                    if on != soonest && (c.first..c.last).contains(&on) {
                        consider(on);
                    }
                }
                if to != soonest && (c.first..c.last).contains(&to) {
                    consider(to);
                }
                consider(soonest);
            }
            if !capped {
                chosen = Some((k, best.1, best.2));
                break;
            }
            match space.choose(&st, &mut choices, s.cap, &c.nodes, &turn) {
                (true, place, stream) => {
                    chosen = Some((k, place, stream));
                    break;
                }
                (false, place, stream) => {
                    let at = turn[c.nodes[place as usize] as usize];
                    if late.is_none_or(|l| at < l.0) {
                        late = Some((at, k, place, stream));
                    }
                }
            }
        }
        let Some((k, place, stream)) = chosen.or(late.map(|l| (l.1, l.2, l.3))) else { break };
        let c = &mut classes[k];
        let v = c.nodes[place as usize];
        if capped {
            c.ready.remove(turn[v as usize]);
            space.take(&st, v, stream);
        }
        for &p in m.dag.pred.row(v) {
            st.readers[p as usize] -= 1;
        }
        if !c.here.remove(place) {
            c.coming.remove(place);
        }
        st.place(v, stream);
        order.push(v);
        for &h in m.dag.succ.row(v) {
            left[h as usize] -= 1;
            if left[h as usize] == 0 {
                let there = st.prepare(h);
                let c = &mut classes[class_of[h as usize] as usize];
                c.coming.insert(place_of[h as usize]);
                if capped {
                    c.ready.insert(turn[h as usize]);
                }
                c.when.push(Reverse((there, place_of[h as usize])));
            }
        }
    }
    Listed {
        assignment: StreamAssignment { stream: st.stream, order, streams },
        end: st.end,
        looked: space.looked.get(),
    }
}

/// The places of outputs, assigned while nodes are placed.
struct Space<const W: usize> {
    arena: Arena,
    /// For each output, how many nodes of each stream must be over before it is no longer used, as
    /// far as its readers are placed.
    done: Vec<Clock<W>>,
    /// Number of ranges of the arena examined.
    looked: std::cell::Cell<usize>,
}

impl<const W: usize> Space<W> {
    fn new(m: &Model<'_>, capped: bool) -> Space<W> {
        Space {
            arena: Arena::default(),
            done: vec![[0; W]; if capped { m.dag.len() } else { 0 }],
            looked: Default::default(),
        }
    }

    /// The place of a node's output if the node goes to the end of a stream, and the resulting end
    /// of the arena.
    fn spot(&self, st: &State<'_, '_, W>, v: u32, stream: u32) -> Option<(Spot, u64)> {
        let size = st.m.dag.nodes[v as usize].out_bytes;
        if size == 0 {
            return None;
        }
        let now = st.before(v, stream);
        let over = |o: u32| {
            st.readers[o as usize] == 0
                && !st.m.dag.nodes[o as usize].keep
                && self.done[o as usize].iter().zip(&now).all(|(d, n)| d <= n)
        };
        let spot = self.arena.find(size, Fit::First, |o| {
            self.looked.set(self.looked.get() + 1);
            over(o)
        });
        Some((spot, self.arena.end().max(spot.at + size)))
    }

    /// Returns true and the best choice (index, stream) that keeps within the limit. If there is
    /// none, returns false and, for the node that comes first by `turn`, the stream on which the
    /// arena grows least.
    fn choose(
        &self,
        st: &State<'_, '_, W>,
        choices: &mut [(i128, u32, u32)],
        cap: u64,
        nodes: &[u32],
        turn: &[u32],
    ) -> (bool, u32, u32) {
        choices.sort_unstable();
        let end = |c: &(i128, u32, u32)| self.spot(st, nodes[c.1 as usize], c.2).map_or(self.arena.end(), |s| s.1);
        if let Some(c) = choices.iter().find(|c| end(c) <= cap.max(self.arena.end())) {
            return (true, c.1, c.2);
        }
        let first = choices.iter().map(|c| turn[nodes[c.1 as usize] as usize]).min().unwrap_or(0);
        let of_first = choices.iter().filter(|c| turn[nodes[c.1 as usize] as usize] == first);
        of_first.min_by_key(|c| (end(c), c.0)).map_or((false, 0, 0), |c| (false, c.1, c.2))
    }

    /// Records that the node is placed on a stream.
    fn take(&mut self, st: &State<'_, '_, W>, v: u32, stream: u32) {
        if let Some((spot, _)) = self.spot(st, v, stream) {
            self.arena.take(spot, st.m.dag.nodes[v as usize].out_bytes, v);
        }
        let over = st.count[stream as usize] + 1;
        let reads = st.m.dag.pred.row(v).iter().copied().chain(Some(v).filter(|v| st.m.dag.succ.row(*v).is_empty()));
        for o in reads {
            let d = &mut self.done[o as usize][stream as usize];
            *d = (*d).max(over);
        }
    }
}

/// The classes, the class of each node and its index in the class.
fn classes(m: &Model<'_>, plain: u32, tail: &[u64], frugal: usize) -> (Vec<Class>, Vec<u32>, Vec<u32>) {
    let n = m.dag.len();
    let fixed = (m.streams - m.plain) as usize;
    let class_of: Vec<u32> = m.fixed.iter().map(|&f| if f == NONE { 0 } else { f - m.plain + 1 }).collect();
    let mut by_priority: Vec<(u64, u32)> =
        m.dag.topo.iter().zip(0u32..).map(|(&v, k)| (u64::MAX - tail[v as usize], k)).collect();
    by_priority.sort_unstable();
    let mut nodes: Vec<Vec<u32>> = vec![Vec::new(); fixed + 1];
    let mut place_of = vec![0; n];
    for (_, k) in by_priority {
        let v = m.dag.topo[k as usize];
        let list = &mut nodes[class_of[v as usize] as usize];
        place_of[v as usize] = list.len() as u32;
        list.push(v);
    }
    let classes = nodes
        .into_iter()
        .enumerate()
        .map(|(k, nodes)| {
            let first = if k == 0 { 0 } else { m.plain + k as u32 - 1 };
            let last = if k == 0 { plain.max(1) } else { first + 1 };
            let (here, coming) = (Bits::new(nodes.len()), Bits::new(nodes.len()));
            Class { nodes, here, coming, ready: Bits::new(frugal), when: BinaryHeap::new(), first, last }
        })
        .collect();
    (classes, class_of, place_of)
}

impl<const W: usize> State<'_, '_, W> {
    /// The stream of a class that becomes free first, and when.
    fn first_free(&self, first: u32, last: u32) -> (u32, u64) {
        let mut best = (first, u64::MAX);
        for s in first..last.min(self.free.len() as u32) {
            if self.free[s as usize] < best.1 {
                best = (s, self.free[s as usize]);
            }
        }
        best
    }

    /// Finds the predecessors of a node that may need an event: the latest one on each stream,
    /// unless another one implies it. Returns the time at which all inputs are available.
    fn prepare(&mut self, v: u32) -> u64 {
        let at = self.m.dag.pred.start(v);
        let mut count = 0;
        let mut there = 0;
        for &p in self.m.dag.pred.row(v) {
            there = there.max(self.end[p as usize]);
            let s = self.stream[p as usize];
            let kept = &mut self.needs[at..at + count];
            match kept.iter_mut().find(|k| self.stream[**k as usize] == s) {
                Some(k) => {
                    if self.pos[*k as usize] < self.pos[p as usize] {
                        *k = p;
                    }
                }
                None => {
                    self.needs[at + count] = p;
                    count += 1;
                }
            }
        }
        if self.clocks && count > 1 {
            // An implied predecessor can be removed immediately: the one that implies it stays, or
            // is itself implied by one that stays.
            let mut k = 0;
            while k < count {
                let p = self.needs[at + k];
                let s = self.stream[p as usize] as usize;
                let implied = self.needs[at..at + count]
                    .iter()
                    .any(|&q| q != p && self.clock[q as usize][s] > self.pos[p as usize]);
                if implied {
                    self.needs.copy_within(at + k + 1..at + count, at + k);
                    count -= 1;
                } else {
                    k += 1;
                }
            }
        }
        self.need_count[v as usize] = count as u32;
        there
    }

    /// Bytes that are live after the node but not before, minus those that it frees.
    fn grows(&self, v: u32) -> i64 {
        let bytes = |p: u32| i64::try_from(self.m.dag.nodes[p as usize].out_bytes).unwrap_or(i64::MAX);
        let last = |p: &&u32| self.readers[**p as usize] == 1 && !self.m.dag.nodes[**p as usize].keep;
        let freed = self.m.dag.pred.row(v).iter().filter(last).fold(0i64, |sum, &p| sum.saturating_add(bytes(p)));
        let own = if self.readers[v as usize] == 0 && !self.m.dag.nodes[v as usize].keep { 0 } else { bytes(v) };
        own.saturating_sub(freed)
    }

    /// Whether the last node of the stream is known to run after `p`.
    #[inline]
    fn known(&self, stream: u32, p: u32) -> bool {
        let sp = self.stream[p as usize];
        if sp == stream {
            return true;
        }
        let last = self.last[stream as usize];
        self.clocks && last != NONE && self.clock[last as usize][sp as usize] > self.pos[p as usize]
    }

    /// The start of the node at the end of the stream, and the number of waits that it needs there.
    #[inline]
    fn start(&self, v: u32, stream: u32) -> (u64, u64) {
        let m = self.m;
        let mut t = self.free[stream as usize];
        let mut waits = 0;
        let at = m.dag.pred.start(v);
        for &p in &self.needs[at..at + self.need_count[v as usize] as usize] {
            if !self.known(stream, p) {
                waits += 1;
                t = t.max(self.end[p as usize] + u64::from(self.sends[p as usize] + 1) * m.events.record);
            }
        }
        t += waits * m.events.wait;
        if let Some(slots) = self.slot_free.get(m.group[v as usize] as usize) {
            t = t.max(slots.iter().copied().min().unwrap_or(0));
        }
        (t, waits)
    }

    /// The number of nodes of each stream that are over when the node starts at the end of a
    /// stream.
    fn before(&self, v: u32, stream: u32) -> Clock<W> {
        let last = self.last[stream as usize];
        let mut clock = if last == NONE { [0; W] } else { self.clock[last as usize] };
        let at = self.m.dag.pred.start(v);
        for &p in &self.needs[at..at + self.need_count[v as usize] as usize] {
            for (c, &o) in clock.iter_mut().zip(&self.clock[p as usize]) {
                *c = (*c).max(o);
            }
        }
        clock
    }

    fn place(&mut self, v: u32, stream: u32) {
        let m = self.m;
        let (start, _) = self.start(v, stream);
        let s = stream as usize;
        let mut clock = if self.clocks && self.last[s] != NONE { self.clock[self.last[s] as usize] } else { [0; W] };
        let at = m.dag.pred.start(v);
        for k in at..at + self.need_count[v as usize] as usize {
            let p = self.needs[k];
            if self.known(stream, p) {
                continue;
            }
            self.sends[p as usize] += 1;
            // The record delays whatever the sender's stream has not started yet.
            self.free[self.stream[p as usize] as usize] += m.events.record;
            if self.clocks {
                for (c, &o) in clock.iter_mut().zip(&self.clock[p as usize]) {
                    *c = (*c).max(o);
                }
            }
        }
        let end = start + m.cost[v as usize];
        if let Some(slots) = self.slot_free.get_mut(m.group[v as usize] as usize)
            && let Some(slot) = slots.iter_mut().min()
        {
            *slot = end;
        }
        self.stream[v as usize] = stream;
        self.pos[v as usize] = self.count[s];
        self.end[v as usize] = end;
        self.count[s] += 1;
        self.free[s] = end;
        self.last[s] = v;
        if self.clocks {
            clock[s] = self.count[s];
            self.clock[v as usize] = clock;
        }
    }
}
