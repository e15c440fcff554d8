//! List scheduling: nodes go one by one to the stream where they start soonest, weighed against their path to the end.

use super::dag::{NONE, StreamAssignment};
use super::model::Model;

/// One setting of the heuristic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    /// Plain streams used.
    pub plain: u32,
    /// Weight of a node's path to the end against its start, in 1/1024.
    pub path: u64,
    /// Further weight of each wait that a placement needs, in 1/4 of an event cost.
    pub wait: u64,
    /// Ready nodes looked at in each step, those with the longest path first.
    pub look: usize,
    /// Paths count this many ns for an edge between streams.
    pub per_edge: u64,
}

/// Vector clock of `W` streams.
type Clock<const W: usize> = [u32; W];

struct State<const W: usize> {
    stream: Vec<u32>,
    pos: Vec<u32>,
    end: Vec<u64>,
    sends: Vec<u32>,
    clock: Vec<Clock<W>>,
    free: Vec<u64>,
    last: Vec<u32>,
    count: Vec<u32>,
    /// Predecessors of each ready node that no other predecessor implies.
    needs: Vec<Vec<u32>>,
    slot_free: Vec<Vec<u64>>,
    clocks: bool,
}

/// Schedules the whole graph by one setting. Streams of the result are those of the model, not yet compacted.
pub(crate) fn list_schedule<const W: usize>(m: &Model<'_>, s: &Setting) -> StreamAssignment {
    let n = m.dag.len();
    let streams = m.streams as usize;
    let tail = m.tails(s.per_edge);
    let clocks = streams <= W;
    let mut st = State::<W> {
        stream: vec![NONE; n],
        pos: vec![0; n],
        end: vec![0; n],
        sends: vec![0; n],
        clock: vec![[0; W]; if clocks { n } else { 0 }],
        free: vec![0; streams],
        last: vec![NONE; streams],
        count: vec![0; streams],
        needs: vec![Vec::new(); n],
        slot_free: m.slots.iter().map(|&k| vec![0; k as usize]).collect(),
        clocks,
    };
    let mut left: Vec<u32> = (0..n as u32).map(|v| m.dag.pred.row(v).len() as u32).collect();
    let mut rank = vec![0u32; n];
    for (k, &v) in m.dag.topo.iter().enumerate() {
        rank[v as usize] = k as u32;
    }
    // ready nodes, shortest path first, so that the end of the list is looked at
    let mut ready: Vec<u32> = Vec::new();
    let key = |v: u32| (tail[v as usize], std::cmp::Reverse(rank[v as usize]));
    for &v in &m.dag.topo {
        if left[v as usize] == 0 {
            ready.push(v);
        }
    }
    ready.sort_by_key(|&v| key(v));
    let mut order = Vec::with_capacity(n);
    while !ready.is_empty() {
        let mut best = (i128::MAX, 0usize, 0u32);
        let from = ready.len().saturating_sub(s.look);
        for k in (from..ready.len()).rev() {
            let v = ready[k];
            let path = i128::from(tail[v as usize]) * i128::from(s.path) / 1024;
            let mut consider = |stream: u32| {
                let (start, waits) = st.start(m, v, stream);
                let score = i128::from(start) - path + i128::from(waits * s.wait * m.event_cost / 4);
                if score < best.0 {
                    best = (score, k, stream);
                }
            };
            match m.fixed[v as usize] {
                NONE => (0..s.plain).for_each(&mut consider),
                f => consider(f),
            }
        }
        let v = ready.remove(best.1);
        st.place(m, v, best.2);
        order.push(v);
        for &h in m.dag.succ.row(v) {
            left[h as usize] -= 1;
            if left[h as usize] == 0 {
                st.prepare(m, h);
                let at = ready.partition_point(|&r| key(r) < key(h));
                ready.insert(at, h);
            }
        }
    }
    StreamAssignment { stream: st.stream, order, streams }
}

impl<const W: usize> State<W> {
    /// The predecessors of a node that may need an event: the latest on each stream, unless another one implies it.
    fn prepare(&mut self, m: &Model<'_>, v: u32) {
        let preds = m.dag.pred.row(v);
        let mut keep: Vec<u32> = Vec::with_capacity(preds.len().min(8));
        for &p in preds {
            let s = self.stream[p as usize];
            match keep.iter_mut().find(|k| self.stream[**k as usize] == s) {
                Some(k) => {
                    if self.pos[*k as usize] < self.pos[p as usize] {
                        *k = p;
                    }
                }
                None => keep.push(p),
            }
        }
        if self.clocks && keep.len() > 1 {
            let all = keep.clone();
            keep.retain(|&p| {
                let s = self.stream[p as usize] as usize;
                !all.iter().any(|&q| q != p && self.clock[q as usize][s] > self.pos[p as usize])
            });
        }
        self.needs[v as usize] = keep;
    }

    /// True if the last node of the stream is known to run after `p`.
    #[inline]
    fn known(&self, stream: u32, p: u32) -> bool {
        let sp = self.stream[p as usize];
        if sp == stream {
            return true;
        }
        let last = self.last[stream as usize];
        self.clocks && last != NONE && self.clock[last as usize][sp as usize] > self.pos[p as usize]
    }

    /// When the node would start at the end of the stream, and how many waits that takes.
    #[inline]
    fn start(&self, m: &Model<'_>, v: u32, stream: u32) -> (u64, u64) {
        let mut t = self.free[stream as usize];
        let mut waits = 0;
        for &p in &self.needs[v as usize] {
            if !self.known(stream, p) {
                waits += 1;
                t = t.max(self.end[p as usize] + u64::from(self.sends[p as usize] + 1) * m.event_cost);
            }
        }
        t += waits * m.event_cost;
        if let Some(slots) = self.slot_free.get(m.group[v as usize] as usize) {
            t = t.max(slots.iter().copied().min().unwrap_or(0));
        }
        (t, waits)
    }

    fn place(&mut self, m: &Model<'_>, v: u32, stream: u32) {
        let (start, _) = self.start(m, v, stream);
        let s = stream as usize;
        let mut clock = if self.clocks && self.last[s] != NONE { self.clock[self.last[s] as usize] } else { [0; W] };
        for p in std::mem::take(&mut self.needs[v as usize]) {
            if self.known(stream, p) {
                continue;
            }
            self.sends[p as usize] += 1;
            // the record delays what the sender's stream has not begun yet
            self.free[self.stream[p as usize] as usize] += m.event_cost;
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
