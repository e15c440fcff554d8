//! `Names`: a union-find of everything that has an address, which also keeps the distance in bytes
//! between the names of a class.
//!
//! Cost: nearly constant per join or query (union by size, with path compression).

use std::collections::BTreeMap;
use std::fmt;

/// Why two names cannot lie as requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clash {
    /// They already lie at another distance.
    Distance {
        /// The distance at which they lie, in bytes.
        found: i64,
        /// The requested distance, in bytes.
        expected: i64,
    },
    /// Two values that own their bytes would overlap.
    Overlap,
}

impl fmt::Display for Clash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Clash::Distance { found, expected } => write!(f, "it lies at {found} in another run, {expected} is wanted"),
            Clash::Overlap => f.write_str("another value lies there in another run"),
        }
    }
}

/// Classes of names that share memory.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Parent of each name, and the name's offset from its parent in bytes.
    parent: Vec<(u32, i64)>,
    size: Vec<u32>,
    /// Lowest and highest byte of each class, relative to its root.
    range: Vec<(i64, i64)>,
    /// Bytes of each class that some value owns: end by begin, relative to the root.
    owned: Vec<BTreeMap<i64, i64>>,
}

impl Names {
    /// Creates an empty set of names.
    pub fn new() -> Names {
        Names::default()
    }
    /// Adds a name of `bytes` bytes, in a class of its own.
    pub fn add(&mut self, bytes: u64) -> u32 {
        let id = u32::try_from(self.parent.len()).unwrap_or(u32::MAX);
        self.parent.push((id, 0));
        self.size.push(1);
        self.range.push((0, i64::try_from(bytes).unwrap_or(i64::MAX)));
        self.owned.push(BTreeMap::new());
        id
    }
    /// Makes a new name the owner of its first `bytes` bytes: no other owning value may overlap
    /// them.
    pub fn own(&mut self, name: u32, bytes: u64) {
        if bytes > 0 {
            self.owned[name as usize].insert(0, i64::try_from(bytes).unwrap_or(i64::MAX));
        }
    }
    /// Puts `b` where `a` lies, over the value there: the class of `b` gives up the one owned range
    /// that it may have. Returns false and changes nothing if that class owns more ranges, if the
    /// two are already in one class, or if they cannot lie so.
    pub fn lie_over(&mut self, a: u32, b: u32) -> bool {
        let (from, to) = (self.find(a).0, self.find(b).0);
        if from == to || self.owned[to as usize].len() > 1 {
            return false;
        }
        let own = std::mem::take(&mut self.owned[to as usize]);
        let done = self.join(a, b, 0).is_ok();
        if !done {
            self.owned[to as usize] = own;
        }
        done
    }
    /// Number of names.
    pub fn len(&self) -> usize {
        self.parent.len()
    }
    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.parent.is_empty()
    }

    /// The root of a name's class, and the name's offset from the root in bytes.
    pub fn find(&mut self, name: u32) -> (u32, i64) {
        let mut path = Vec::new();
        let mut at = name;
        while self.parent[at as usize].0 != at {
            path.push(at);
            at = self.parent[at as usize].0;
        }
        let root = at;
        let mut distance = 0i64;
        for &p in path.iter().rev() {
            distance += self.parent[p as usize].1;
            self.parent[p as usize] = (root, distance);
        }
        (root, if path.is_empty() { 0 } else { self.parent[name as usize].1 })
    }

    /// The name's offset from the first byte of its class, and the size of the class, both in
    /// bytes.
    pub fn place(&mut self, name: u32) -> (u64, u64) {
        let (root, at) = self.find(name);
        let (low, high) = self.range[root as usize];
        (u64::try_from(at.saturating_sub(low)).unwrap_or(0), u64::try_from(high.saturating_sub(low)).unwrap_or(0))
    }

    /// Extends the class so that the name covers at least `bytes` bytes.
    pub fn widen(&mut self, name: u32, bytes: u64) {
        let (root, at) = self.find(name);
        let range = &mut self.range[root as usize];
        range.1 = range.1.max(at.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX)));
    }

    /// Puts `b` `distance` bytes after `a`. Fails without changing anything if the two already lie
    /// at another distance, or if values that own their bytes would overlap.
    pub fn join(&mut self, a: u32, b: u32, distance: i64) -> Result<(), Clash> {
        let ((root_a, at_a), (root_b, at_b)) = (self.find(a), self.find(b));
        if root_a == root_b {
            let found = at_b - at_a;
            return if found == distance { Ok(()) } else { Err(Clash::Distance { found, expected: distance }) };
        }
        // Distance of b's root from a's root.
        let between = at_a.saturating_add(distance).saturating_sub(at_b);
        let (root, child, shift) = if self.size[root_a as usize] >= self.size[root_b as usize] {
            (root_a, root_b, between)
        } else {
            (root_b, root_a, -between)
        };
        self.take_over(root, child, shift)?;
        self.parent[child as usize] = (root, shift);
        self.size[root as usize] += self.size[child as usize];
        let (low, high) = self.range[child as usize];
        let range = &mut self.range[root as usize];
        *range = (range.0.min(low.saturating_add(shift)), range.1.max(high.saturating_add(shift)));
        Ok(())
    }

    /// Merges the owned bytes of two classes, moving the smaller list into the larger one. Fails
    /// without changing anything if two ranges overlap.
    fn take_over(&mut self, root: u32, child: u32, shift: i64) -> Result<(), Clash> {
        let (mut big, mut small) =
            (std::mem::take(&mut self.owned[root as usize]), std::mem::take(&mut self.owned[child as usize]));
        // Offset that converts positions in the smaller list to the root of the larger list.
        let swapped = small.len() > big.len();
        let moved = if swapped {
            std::mem::swap(&mut big, &mut small);
            shift.saturating_neg()
        } else {
            shift
        };
        let hits = small.iter().any(|(from, to)| {
            let (from, to) = (from.saturating_add(moved), to.saturating_add(moved));
            big.range(..to).next_back().is_some_and(|(_, end)| *end > from)
        });
        if !hits {
            big.extend(small.iter().map(|(from, to)| (from.saturating_add(moved), to.saturating_add(moved))));
        }
        if hits {
            if swapped {
                std::mem::swap(&mut big, &mut small);
            }
            self.owned[child as usize] = small;
            self.owned[root as usize] = big;
            return Err(Clash::Overlap);
        }
        // Positions must be relative to the new root: the larger list is shifted if it was the
        // child's.
        self.owned[root as usize] = if swapped {
            big.into_iter().map(|(from, to)| (from.saturating_add(shift), to.saturating_add(shift))).collect()
        } else {
            big
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_add_up_and_a_second_answer_is_a_clash() {
        let mut n = Names::new();
        let [a, b, c, d] = [64, 32, 32, 128].map(|bytes| n.add(bytes));
        assert_eq!(n.join(a, b, 0), Ok(()));
        assert_eq!(n.join(a, c, 32), Ok(()));
        assert_eq!(n.join(d, a, 64), Ok(()));
        assert_eq!([a, b, c, d].map(|x| n.place(x)), [(64, 128), (64, 128), (96, 128), (0, 128)]);
        assert_eq!(n.join(b, c, 32), Ok(()));
        assert_eq!(n.join(b, c, 0), Err(Clash::Distance { found: 32, expected: 0 }));
        n.widen(c, 64);
        assert_eq!(n.place(c), (96, 160));
    }

    #[test]
    fn two_values_of_their_own_never_lie_in_the_same_bytes() {
        let mut n = Names::new();
        let own: Vec<u32> = (0..4)
            .map(|_| {
                let id = n.add(32);
                n.own(id, 32);
                id
            })
            .collect();
        let (first, second) = (n.add(64), n.add(64));
        assert_eq!([n.join(first, own[0], 0), n.join(first, own[1], 32)], [Ok(()), Ok(())]);
        assert_eq!(n.join(second, own[2], 0), Ok(()));
        // own[2] would overlap own[0].
        assert_eq!(n.join(second, own[1], 32), Err(Clash::Overlap));
        assert_eq!(n.join(second, own[3], 32), Ok(()));
        assert_eq!(n.join(first, second, 64), Ok(()));
        assert_eq!(own.iter().map(|o| n.place(*o).0).collect::<Vec<_>>(), [0, 32, 64, 96]);
    }

    #[test]
    fn a_value_lies_over_another_or_nothing_changes() {
        let mut n = Names::new();
        let ids: Vec<u32> = (0..4).map(|_| n.add(0)).collect();
        ids.iter().for_each(|i| n.own(*i, 64));
        assert!(n.lie_over(ids[0], ids[1]));
        assert_eq!(n.find(ids[0]).0, n.find(ids[1]).0);
        // They already lie together.
        assert!(!n.lie_over(ids[0], ids[1]));
        // A run of two values cannot be overlaid by one value.
        n.join(ids[2], ids[3], 64).expect("a run");
        assert!(!n.lie_over(ids[0], ids[3]));
        assert_eq!(n.join(ids[0], ids[3], 0), Err(Clash::Overlap), "the run has its values still");
    }

    #[test]
    fn random_joins_agree_with_positions_that_are_known() {
        // Every name has a true position. Joins by true distances must all succeed, and places must
        // differ as the positions do.
        let mut seed = 7u64;
        let mut next = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        let truth: Vec<i64> = (0..500).map(|_| next(10_000) as i64).collect();
        let mut n = Names::new();
        for _ in &truth {
            n.add(8);
        }
        for _ in 0..2000 {
            let (a, b) = (next(500) as usize, next(500) as usize);
            assert_eq!(n.join(a as u32, b as u32, truth[b] - truth[a]), Ok(()));
        }
        for a in 0..500 {
            let (root, _) = n.find(a);
            let (low, _) = n.place(root);
            let (at, _) = n.place(a);
            assert_eq!(at as i64 - low as i64, truth[a as usize] - truth[root as usize]);
        }
    }
}
