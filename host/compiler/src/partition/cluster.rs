//! Cluster partition (facts 3.4): every node starts as a cluster; a child is merged with its parents, those with the fewest
//! out clusters first, where their keys allow and no second path joins them.
//!
//! Pure over numbers: the engines' partition, the partition for streams and `ge plan streams` use the same code.
use std::collections::BTreeSet;

/// Clusters of `n` items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clusters {
    /// Cluster of each item, by position in `members`.
    pub of: Vec<u32>,
    /// Items of each cluster in order; clusters by their smallest item.
    pub members: Vec<Vec<u32>>,
    /// Clusters that each takes from, ascending.
    pub preds: Vec<Vec<u32>>,
    /// Clusters that take from each, ascending.
    pub succs: Vec<Vec<u32>>,
}

/// Whether two clusters may be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// No.
    Never,
    /// If no second path joins them.
    IfDirect,
    /// In any case (one user label).
    Always,
}

/// Partitions items `0..n`, which stand in topological order, by their edges. `fit` compares the items that two clusters
/// started from.
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

    /// A path between the two through at least one other cluster with an id below `upper`'s.
    fn second_path(&mut self, a: u32, b: u32, upper: u32) -> bool {
        self.stamp += 1;
        let (src, dst) = if self.outs[a as usize].contains(&b) { (a, b) } else { (b, a) };
        let mut todo: Vec<u32> = self.outs[src as usize].range(..=upper).copied().filter(|&c| c != dst).collect();
        while let Some(c) = todo.pop() {
            if std::mem::replace(&mut self.seen[c as usize], self.stamp) == self.stamp {
                continue;
            }
            for &h in self.outs[c as usize].range(..=upper) {
                if h == dst {
                    return true;
                }
                if self.seen[h as usize] != self.stamp {
                    todo.push(h);
                }
            }
        }
        false
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

#[cfg(test)]
mod tests {
    use super::*;
    fn by(keys: &[u8]) -> impl Fn(u32, u32) -> Fit + '_ {
        |a, b| if keys[a as usize] == keys[b as usize] { Fit::IfDirect } else { Fit::Never }
    }
    #[test]
    fn a_second_path_keeps_two_clusters_apart() {
        // 0 and 2 are of one engine, but 1 stands between them on another path.
        let c = partition(3, [(0, 1), (1, 2), (0, 2)], &by(&[7, 8, 7]));
        assert_eq!(c.members, [vec![0], vec![1], vec![2]]);
        let c = partition(3, [(0, 1), (0, 2)], &by(&[7, 8, 7]));
        assert_eq!(c.members, [vec![0, 2], vec![1]]);
        assert_eq!((c.preds, c.succs), (vec![vec![], vec![0]], vec![vec![1], vec![]]));
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
            // Kahn over clusters must reach all of them.
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
