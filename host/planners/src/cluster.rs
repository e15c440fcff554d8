//! Cluster partition (facts 3.4). Every node starts as its own cluster. Each child is merged with
//! its parents if their keys allow it and no second path joins them; parents with the fewest
//! successor clusters come first.
//!
//! The code works on plain numbers. The engines' partition, the partition for streams and `ge plan
//! streams` share it.
use std::collections::BTreeSet;

/// A partition of `n` items into clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clusters {
    /// Cluster of each item, as an index into `members`.
    pub of: Vec<u32>,
    /// Items of each cluster, in order; clusters are sorted by their smallest item.
    pub members: Vec<Vec<u32>>,
    /// For each cluster, the clusters that it reads from, ascending.
    pub preds: Vec<Vec<u32>>,
    /// For each cluster, the clusters that read from it, ascending.
    pub succs: Vec<Vec<u32>>,
}

/// Whether two clusters may be merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Never.
    Never,
    /// Only if no second path joins them.
    IfDirect,
    /// In any case (both have the same user label).
    Always,
}

/// Partitions the items `0..n`, which are in topological order, by their edges. `fit` receives two
/// cluster ids (the smallest item of each) and decides whether the clusters may be merged.
pub fn partition(n: usize, edges: impl IntoIterator<Item = (u32, u32)>, fit: &dyn Fn(u32, u32) -> Fit) -> Clusters {
    let mut state = State {
        outs: vec![BTreeSet::new(); n],
        ins: vec![BTreeSet::new(); n],
        into: (0..n as u32).collect(),
        seen: vec![0; n],
        stamp: 0,
    };
    for (a, b) in edges {
        if a != b {
            state.outs[a as usize].insert(b);
            state.ins[b as usize].insert(a);
        }
    }
    for child in 0..n as u32 {
        let mut at = state.find(child);
        let mut parents: Vec<u32> = state.ins[at as usize].iter().copied().collect();
        parents.sort_by_key(|&p| (state.outs[p as usize].len(), p));
        for parent in parents {
            let parent = state.find(parent);
            if parent == at {
                continue;
            }
            let merges = match fit(parent, at) {
                Fit::Never => false,
                Fit::Always => true,
                Fit::IfDirect => !state.second_path(parent, at, child),
            };
            if merges {
                at = state.merge(parent, at);
            }
        }
    }
    state.listed(n)
}

struct State {
    outs: Vec<BTreeSet<u32>>,
    ins: Vec<BTreeSet<u32>>,
    into: Vec<u32>,
    seen: Vec<u32>,
    stamp: u32,
}

impl State {
    fn find(&mut self, mut c: u32) -> u32 {
        while self.into[c as usize] != c {
            self.into[c as usize] = self.into[self.into[c as usize] as usize];
            c = self.into[c as usize];
        }
        c
    }

    /// Whether a path joins the two clusters through at least one other cluster with an id up to
    /// `upper`.
    ///
    /// The search runs from both ends, one edge at a time, and stops when the smaller side is
    /// exhausted. So neither many readers of the first cluster nor a long path before the second
    /// are walked in vain.
    fn second_path(&mut self, a: u32, b: u32, upper: u32) -> bool {
        self.stamp += 2;
        let (ahead, back) = (self.stamp, self.stamp + 1);
        let (src, dst) = if self.outs[a as usize].contains(&b) { (a, b) } else { (b, a) };
        let mut forward = vec![self.outs[src as usize].range(..=upper)];
        let mut backward = vec![self.ins[dst as usize].range(..)];
        loop {
            match step(&mut forward, &self.outs, upper, &mut self.seen, (src, dst), (ahead, back)) {
                Step::Met => return true,
                Step::Out => return false,
                Step::On => {}
            }
            match step(&mut backward, &self.ins, u32::MAX, &mut self.seen, (dst, src), (back, ahead)) {
                Step::Met => return true,
                Step::Out => return false,
                Step::On => {}
            }
        }
    }

    fn merge(&mut self, a: u32, b: u32) -> u32 {
        let (keep, gone) = (a.min(b), a.max(b));
        for h in std::mem::take(&mut self.outs[gone as usize]) {
            self.ins[h as usize].remove(&gone);
            if h != keep {
                self.ins[h as usize].insert(keep);
                self.outs[keep as usize].insert(h);
            }
        }
        for p in std::mem::take(&mut self.ins[gone as usize]) {
            self.outs[p as usize].remove(&gone);
            if p != keep {
                self.outs[p as usize].insert(keep);
                self.ins[keep as usize].insert(p);
            }
        }
        self.outs[keep as usize].remove(&gone);
        self.ins[keep as usize].remove(&gone);
        self.into[gone as usize] = keep;
        keep
    }

    fn listed(mut self, n: usize) -> Clusters {
        let mut place = vec![u32::MAX; n];
        let mut members: Vec<Vec<u32>> = Vec::new();
        let mut of = vec![0; n];
        for i in 0..n as u32 {
            let root = self.find(i) as usize;
            if place[root] == u32::MAX {
                place[root] = members.len() as u32;
                members.push(Vec::new());
            }
            of[i as usize] = place[root];
            members[place[root] as usize].push(i);
        }
        let row = |set: &BTreeSet<u32>| {
            let mut v: Vec<u32> = set.iter().map(|&c| place[c as usize]).collect();
            v.sort_unstable();
            v
        };
        let (mut preds, mut succs) = (vec![Vec::new(); members.len()], vec![Vec::new(); members.len()]);
        for i in 0..n {
            if self.into[i] as usize == i {
                preds[place[i] as usize] = row(&self.ins[i]);
                succs[place[i] as usize] = row(&self.outs[i]);
            }
        }
        Clusters { of, members, preds, succs }
    }
}

enum Step {
    On,
    Met,
    Out,
}

/// Follows one more edge. `ends` are the starting clusters of this side and of the other side; the
/// edge between them does not count.
fn step<'s>(
    stack: &mut Vec<std::collections::btree_set::Range<'s, u32>>,
    edges: &'s [BTreeSet<u32>],
    upper: u32,
    seen: &mut [u32],
    ends: (u32, u32),
    marks: (u32, u32),
) -> Step {
    let direct = stack.len() == 1;
    let Some(top) = stack.last_mut() else { return Step::Out };
    match top.next() {
        None => {
            stack.pop();
            if stack.is_empty() { Step::Out } else { Step::On }
        }
        Some(&c) if c == ends.1 => {
            if direct {
                Step::On
            } else {
                Step::Met
            }
        }
        Some(&c) if seen[c as usize] == marks.1 => Step::Met,
        Some(&c) => {
            if std::mem::replace(&mut seen[c as usize], marks.0) != marks.0 {
                stack.push(edges[c as usize].range(..=upper));
            }
            Step::On
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    fn by(keys: &[u8]) -> impl Fn(u32, u32) -> Fit + '_ {
        |a, b| if keys[a as usize] == keys[b as usize] { Fit::IfDirect } else { Fit::Never }
    }
    #[test]
    fn a_second_path_keeps_two_clusters_apart() {
        // 0 and 2 have the same engine, but 1 lies between them on another path.
        let c = partition(3, [(0, 1), (1, 2), (0, 2)], &by(&[7, 8, 7]));
        assert_eq!(c.members, [vec![0], vec![1], vec![2]]);
        let c = partition(3, [(0, 1), (0, 2)], &by(&[7, 8, 7]));
        assert_eq!(c.members, [vec![0, 2], vec![1]]);
        assert_eq!((c.preds, c.succs), (vec![vec![], vec![0]], vec![vec![1], vec![]]));
    }
    /// The simplest form of the check: it walks all paths.
    fn plain(n: usize, edges: &[(u32, u32)], keys: &[u8]) -> Vec<u32> {
        let mut of: Vec<u32> = (0..n as u32).collect();
        for child in 0..n as u32 {
            let mut parents: Vec<u32> = edges
                .iter()
                .filter(|(a, b)| of[*b as usize] == of[child as usize] && of[*a as usize] != of[*b as usize])
                .map(|(a, _)| of[*a as usize])
                .collect();
            parents.sort_unstable();
            parents.dedup();
            let outs = |p: u32| {
                let mut o: Vec<u32> = edges
                    .iter()
                    .filter(|(a, b)| of[*a as usize] == p && of[*b as usize] != p)
                    .map(|(_, b)| of[*b as usize])
                    .collect();
                o.sort_unstable();
                o.dedup();
                o.len()
            };
            parents.sort_by_key(|&p| (outs(p), p));
            for p in parents {
                let at = of[child as usize];
                if p == at || keys[p as usize] != keys[at as usize] {
                    continue;
                }
                // Search from p to at without the edge between them.
                let (mut todo, mut seen) = (vec![p], vec![false; n]);
                let mut found = false;
                while let Some(c) = todo.pop() {
                    for (a, b) in edges {
                        let (a, b) = (of[*a as usize], of[*b as usize]);
                        if a != c || b == c || (a == p && b == at) {
                            continue;
                        }
                        found |= b == at;
                        if b != at && !std::mem::replace(&mut seen[b as usize], true) {
                            todo.push(b);
                        }
                    }
                }
                if !found {
                    let (keep, gone) = (p.min(at), p.max(at));
                    of.iter_mut().filter(|c| **c == gone).for_each(|c| *c = keep);
                }
            }
        }
        of
    }
    #[test]
    fn the_search_from_both_ends_finds_what_the_plain_one_finds() {
        let mut s = 99u64;
        let mut next = move || {
            s ^= s << 13;
            s ^= s >> 7;
            s ^= s << 17;
            s
        };
        for _ in 0..400 {
            let n = 2 + (next() % 14) as usize;
            let keys: Vec<u8> = (0..n).map(|_| (next() % 2) as u8).collect();
            let edges: Vec<(u32, u32)> = (0..n * 2)
                .map(|_| ((next() % n as u64) as u32, (next() % n as u64) as u32))
                .filter(|(a, b)| a < b)
                .collect();
            let c = partition(n, edges.iter().copied(), &by(&keys));
            let mine: Vec<u32> = (0..n).map(|i| c.members[c.of[i] as usize][0]).collect();
            assert_eq!(mine, plain(n, &edges, &keys), "{keys:?} {edges:?}");
        }
    }
    #[test]
    fn shapes_that_would_cost_the_square_take_a_moment() {
        let n = 100_000u32;
        let start = std::time::Instant::now();
        // A spine of one engine; each of its nodes has a reader of another engine whose result
        // nothing reads.
        let spine = (2..n).map(|i| if i % 2 == 0 { (i - 2, i) } else { (i - 1, i) });
        let c = partition(n as usize, spine.chain([(0, 1)]), &|a, b| {
            if a % 2 == b % 2 && a % 2 == 0 { Fit::IfDirect } else { Fit::Never }
        });
        assert_eq!(c.members.len(), 1 + n as usize / 2);
        // A spine that reads from a long chain of alternating engines, which never merges.
        let chain = (2..n).map(|i| (i - 2, i)).chain((0..n - 1).step_by(2).map(|i| (i + 1, i + 2)).filter(|e| e.1 < n));
        let c = partition(n as usize, chain, &|a, b| if a % 2 == 0 && b % 2 == 0 { Fit::IfDirect } else { Fit::Never });
        assert_eq!(c.members.len(), 1 + n as usize / 2);
        // One value that all nodes read, in layers of two engines.
        let fan = (1..n).map(|i| (0, i)).chain((1..n - 1).map(|i| (i, i + 1)));
        partition(n as usize, fan, &|a, b| if (a / 10) % 2 == (b / 10) % 2 { Fit::IfDirect } else { Fit::Never });
        assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    }
    #[test]
    fn merging_leaves_no_cycle_in_random_graphs() {
        let mut s = 12345u64;
        let mut next = move || {
            s ^= s << 13;
            s ^= s >> 7;
            s ^= s << 17;
            s
        };
        for _ in 0..300 {
            let n = 2 + (next() % 30) as usize;
            let keys: Vec<u8> = (0..n).map(|_| (next() % 3) as u8).collect();
            let edges: Vec<(u32, u32)> = (0..n * 2)
                .map(|_| (next() % n as u64, next() % n as u64))
                .filter(|(a, b)| a < b)
                .map(|(a, b)| (a as u32, b as u32))
                .collect();
            let c = partition(n, edges.iter().copied(), &by(&keys));
            // Kahn's algorithm over the clusters must reach all of them.
            let mut left: Vec<usize> = c.preds.iter().map(Vec::len).collect();
            let mut todo: Vec<usize> = (0..left.len()).filter(|i| left[*i] == 0).collect();
            let mut reached = 0;
            while let Some(i) = todo.pop() {
                reached += 1;
                for &h in &c.succs[i] {
                    left[h as usize] -= 1;
                    if left[h as usize] == 0 {
                        todo.push(h as usize);
                    }
                }
            }
            assert_eq!(reached, c.members.len());
            for m in &c.members {
                assert!(m.iter().all(|i| keys[*i as usize] == keys[m[0] as usize]));
            }
        }
    }
}
