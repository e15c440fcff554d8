//! A sweep through time with an index of the free ranges by offset and by length: each block takes
//! the smallest free range that is large enough. Time `n log n`, whatever the number of live
//! blocks.

use std::collections::{BTreeMap, BTreeSet};

use super::problem::{Problem, narrow};

/// Which of the blocks that begin at the same instant comes first, and where in its range it is
/// placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SweepOrder {
    /// Largest first, at the low end.
    Size,
    /// Longest lifetime first, at the low end.
    Lifetime,
    /// Longest lifetime first, at the end of the range whose neighbour ends at about the same time.
    Companion,
}

#[derive(Default)]
struct FreeRanges {
    by_offset: BTreeMap<u64, u64>,
    by_length: BTreeSet<(u64, u64)>,
    top: u64,
}

impl FreeRanges {
    fn remove(&mut self, offset: u64, length: u64) {
        self.by_offset.remove(&offset);
        self.by_length.remove(&(length, offset));
    }

    fn insert(&mut self, offset: u64, length: u64) {
        if length > 0 {
            self.by_offset.insert(offset, length);
            self.by_length.insert((length, offset));
        }
    }

    fn release(&mut self, offset: u64, length: u64) {
        let (mut from, mut to) = (offset, offset + length);
        if let Some((&before, &room)) = self.by_offset.range(..offset).next_back()
            && before + room == offset
        {
            self.remove(before, room);
            from = before;
        }
        if let Some(&room) = self.by_offset.get(&to) {
            self.remove(to, room);
            to += room;
        }
        self.insert(from, to - from);
    }

    /// Takes the range for `size` units out of the index and returns it as `(offset, length)`; the
    /// arena grows if no range is long enough.
    fn take(&mut self, size: u64) -> (u64, u64) {
        if let Some(&(length, offset)) = self.by_length.range((size, 0)..).next() {
            self.remove(offset, length);
            return (offset, length);
        }
        let last = self.by_offset.last_key_value().map(|(&offset, &length)| (offset, length));
        let from = match last {
            Some((offset, length)) if offset + length == self.top => {
                self.remove(offset, length);
                offset
            }
            _ => self.top,
        };
        self.top = from + size;
        (from, size)
    }
}

/// Computes offsets by one sweep. Intervals must decide which blocks are live together, and none
/// may be pinned.
pub(super) fn sweep(problem: &Problem, order: SweepOrder) -> Vec<u64> {
    let mut begins: Vec<u32> = (0..narrow(problem.len())).collect();
    begins.sort_by_key(|&at| {
        let at = at as usize;
        let rank = match order {
            SweepOrder::Size => (problem.size[at], u64::from(problem.upper[at])),
            SweepOrder::Lifetime | SweepOrder::Companion => (u64::from(problem.upper[at]), problem.size[at]),
        };
        (problem.lower[at], std::cmp::Reverse(rank), at)
    });
    let mut ends: Vec<u32> = (0..narrow(problem.len())).collect();
    ends.sort_by_key(|&at| (problem.upper[at as usize], at));
    let mut offsets = vec![0_u64; problem.len()];
    let mut free = FreeRanges::default();
    // For the boundaries of live blocks: when the memory below or above a boundary becomes free
    // again.
    let (mut end_at_top, mut end_at_bottom) = (BTreeMap::new(), BTreeMap::new());
    let mut ended = 0;
    for &at in &begins {
        let at = at as usize;
        while ended < ends.len() && problem.upper[ends[ended] as usize] <= problem.lower[at] {
            let other = ends[ended] as usize;
            let (offset, size) = (offsets[other], problem.size[other]);
            free.release(offset, size);
            end_at_top.remove(&(offset + size));
            end_at_bottom.remove(&offset);
            ended += 1;
        }
        let size = problem.size[at];
        let (from, length) = free.take(size);
        let mut offset = from;
        if order == SweepOrder::Companion && length > size {
            let distance = |end: Option<&u32>| end.map_or(0, |end| end.abs_diff(problem.upper[at]));
            let below = distance(end_at_top.get(&from));
            let above = distance(end_at_bottom.get(&(from + length)));
            if above < below {
                offset = from + length - size;
            }
        }
        free.insert(from, offset - from);
        free.insert(offset + size, from + length - offset - size);
        offsets[at] = offset;
        end_at_top.insert(offset + size, problem.upper[at]);
        end_at_bottom.insert(offset, problem.upper[at]);
    }
    offsets
}
