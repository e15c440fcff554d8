//! Greatest flow and least cut between two ends (Dinic, "Algorithm for solution of a problem of
//! maximum flow in a network with power estimation", 1970): phases of breadth-first levels, each
//! filled by depth-first ways without recursion.
//!
//! Cost: a phase is linear in the edges but for ways that it tries; phases here are few, as ways
//! between what is decided beforehand are short. A budget of steps, linear in the network, ends the
//! search early; [`Network::source_side`] then still separates the ends, though perhaps not at the
//! least cost.

/// A capacity that no cut pays.
pub const ENDLESS: u64 = u64::MAX / 4;
/// Steps allowed for each node and edge.
const STEPS: u64 = 2_000;

/// A network; node 0 is the source, node 1 the sink.
pub struct Network {
    first: Vec<u32>,
    next: Vec<u32>,
    to: Vec<u32>,
    left: Vec<u64>,
}

/// No edge.
const NONE: u32 = u32::MAX;
/// Where all flow comes from.
pub const SOURCE: u32 = 0;
/// Where all flow goes to.
pub const SINK: u32 = 1;

impl Network {
    /// The two ends and `more` nodes.
    pub fn new(more: usize) -> Network {
        Network { first: vec![NONE; more + 2], next: Vec::new(), to: Vec::new(), left: Vec::new() }
    }
    /// One more node.
    pub fn node(&mut self) -> u32 {
        self.first.push(NONE);
        self.first.len() as u32 - 1
    }
    /// An edge with a capacity, and one back.
    pub fn edge(&mut self, a: u32, b: u32, there: u64, back: u64) {
        if a == b {
            return;
        }
        for (from, to, capacity) in [(a, b, there), (b, a, back)] {
            self.next.push(self.first[from as usize]);
            self.first[from as usize] = self.to.len() as u32;
            self.to.push(to);
            self.left.push(capacity);
        }
    }

    /// Fills the network. False: the budget of steps was spent before the flow was greatest.
    pub fn fill(&mut self) -> bool {
        let mut steps = STEPS * (self.first.len() + self.to.len()) as u64;
        let mut level = vec![NONE; self.first.len()];
        let mut queue: Vec<u32> = Vec::with_capacity(self.first.len());
        loop {
            level.fill(NONE);
            level[SOURCE as usize] = 0;
            queue.clear();
            queue.push(SOURCE);
            let mut at = 0;
            while let Some(&u) = queue.get(at) {
                at += 1;
                let mut e = self.first[u as usize];
                while e != NONE {
                    let v = self.to[e as usize];
                    if self.left[e as usize] > 0 && level[v as usize] == NONE {
                        level[v as usize] = level[u as usize] + 1;
                        queue.push(v);
                    }
                    e = self.next[e as usize];
                }
            }
            if level[SINK as usize] == NONE {
                return true;
            }
            if !self.phase(&level, &mut steps) {
                return false;
            }
        }
    }

    /// Fills every shortest way. False: out of steps.
    fn phase(&mut self, level: &[u32], steps: &mut u64) -> bool {
        let mut from = self.first.clone();
        let mut way: Vec<u32> = Vec::new();
        loop {
            let u = way.last().map_or(SOURCE, |e| self.to[*e as usize]);
            if u == SINK {
                let most = way.iter().map(|e| self.left[*e as usize]).min().unwrap_or(0);
                let mut keep = way.len();
                for (i, &e) in way.iter().enumerate() {
                    self.left[e as usize] -= most;
                    let back = &mut self.left[(e ^ 1) as usize];
                    *back = back.saturating_add(most);
                    if self.left[e as usize] == 0 && i < keep {
                        keep = i;
                    }
                }
                way.truncate(keep);
                continue;
            }
            if *steps == 0 {
                return false;
            }
            *steps -= 1;
            let e = from[u as usize];
            if e == NONE {
                // Nothing more leads on from here.
                let Some(e) = way.pop() else { return true };
                let before = way.last().map_or(SOURCE, |e| self.to[*e as usize]);
                from[before as usize] = self.next[e as usize];
            } else if self.left[e as usize] > 0
                && level[self.to[e as usize] as usize] == level[u as usize].saturating_add(1)
            {
                way.push(e);
            } else {
                from[u as usize] = self.next[e as usize];
            }
        }
    }

    /// The nodes on the source's side of a least cut: as many as can be, or as few.
    pub fn source_side(&self, most: bool) -> Vec<bool> {
        let mut seen = vec![false; self.first.len()];
        let start = if most { SINK } else { SOURCE };
        seen[start as usize] = true;
        let mut queue = vec![start];
        while let Some(u) = queue.pop() {
            let mut e = self.first[u as usize];
            while e != NONE {
                let open = self.left[if most { (e ^ 1) as usize } else { e as usize }] > 0;
                let v = self.to[e as usize];
                if open && !seen[v as usize] {
                    seen[v as usize] = true;
                    queue.push(v);
                }
                e = self.next[e as usize];
            }
        }
        if most { seen.into_iter().map(|reaches_sink| !reaches_sink).collect() } else { seen }
    }
}
