//! Tracks which blocks lie at each address, the last one on top.
use std::collections::BTreeMap;

/// An address range (begin, end) and the blocks that lie there, the oldest first.
pub(super) type Piece = (u64, u64, Vec<usize>);

/// Disjoint address ranges and their blocks, by memory kind and begin.
#[derive(Default)]
pub(super) struct Held(BTreeMap<(u8, u64), (u64, Vec<usize>)>);

impl Held {
    /// Removes what lies in a range, cut at its borders, in address order.
    pub fn take(&mut self, memory: u8, from: u64, to: u64) -> Vec<Piece> {
        let before = self.0.range(..(memory, from)).next_back();
        let before = before.filter(|((k, _), (end, _))| *k == memory && *end > from).map(|(k, _)| *k);
        let within = self.0.range((memory, from)..(memory, to)).map(|(k, _)| *k);
        let keys: Vec<(u8, u64)> = before.into_iter().chain(within).collect();
        let mut out = Vec::with_capacity(keys.len());
        for key in keys {
            let Some((end, blocks)) = self.0.remove(&key) else { continue };
            if key.1 < from {
                self.0.insert(key, (from, blocks.clone()));
            }
            if end > to {
                self.0.insert((memory, to), (end, blocks.clone()));
            }
            out.push((key.1.max(from), end.min(to), blocks));
        }
        out
    }

    /// Puts a block on a free range, on top of the earlier blocks that still count there.
    pub fn put(&mut self, memory: u8, (from, to): (u64, u64), block: usize, below: Vec<Piece>) {
        let mut at = from;
        for (begin, end, mut blocks) in below.into_iter().filter(|p| !p.2.is_empty()) {
            if at < begin {
                self.0.insert((memory, at), (begin, vec![block]));
            }
            blocks.push(block);
            self.0.insert((memory, begin), (end, blocks));
            at = end;
        }
        if at < to {
            self.0.insert((memory, at), (to, vec![block]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cut_at_its_borders_and_keeps_what_still_counts_below() {
        let mut h = Held::default();
        h.put(0, (0, 100), 1, vec![]);
        h.put(1, (0, 100), 9, vec![]);
        assert_eq!(h.take(0, 40, 60), [(40, 60, vec![1])]);
        h.put(0, (40, 60), 2, vec![(45, 50, vec![1]), (50, 60, vec![])]);
        assert_eq!(
            h.take(0, 0, 200),
            [(0, 40, vec![1]), (40, 45, vec![2]), (45, 50, vec![1, 2]), (50, 60, vec![2]), (60, 100, vec![1])]
        );
        assert_eq!(h.take(0, 0, 200), []);
        assert_eq!(h.take(1, 99, 100), [(99, 100, vec![9])]);
    }
}
