//! Maximum flow and minimum cut between two nodes (Dinic, "Algorithm for solution of a problem of
//! maximum flow in a network with power estimation", 1970): in each phase, breadth-first levels are
//! filled by depth-first paths, without recursion.
//!
//! A phase is linear in the edges, apart from the paths that it tries. There are few phases here,
//! because paths between decided items are short. A step budget, linear in the size of the network,
//! ends the search early; [`Network::source_side`] then still separates the two nodes, though
//! perhaps not at the least cost.

/// A capacity that no minimum cut pays.
pub const ENDLESS: u64 = u64::MAX / 4;
/// Number of steps allowed for each node and edge.
const STEPS: u64 = 2_000;

/// A network; node 0 is the source, node 1 the sink.
pub struct Network {
    first: Vec<u32>,
    next: Vec<u32>,
    to: Vec<u32>,
    left: Vec<u64>,
}

/// Marks the absence of an edge.
const NONE: u32 = u32::MAX;
/// The node from which all flow comes.
pub const SOURCE: u32 = 0;
/// The node to which all flow goes.
pub const SINK: u32 = 1;

impl Network {
    /// Makes a network with source, sink and `more` further nodes.
    pub fn new(more: usize) -> Network {
        Network { first: vec![NONE; more + 2], next: Vec::new(), to: Vec::new(), left: Vec::new() }
    }
    /// Adds a node and returns its number.
    pub fn node(&mut self) -> u32 {
        self.first.push(NONE);
        self.first.len() as u32 - 1
    }
    /// Adds an edge from `a` to `b` with capacity `there`, and one back with capacity `back`. An
    /// edge from a node to itself is ignored.
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

    /// Computes the maximum flow. Returns false if the step budget ran out first.
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

    /// Fills all shortest paths. Returns false if the step budget ran out.
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
                // No further edge leads on from here.
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

    /// The nodes on the source's side of a minimum cut: as many as possible if `most` is set,
    /// otherwise as few as possible.
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
