//! Division of units of work among blocks.
use std::ops::Range;

/// The range of the `units` that block `index` of `count` does. Ranges are contiguous, their sizes
/// differ by at most one, and the larger ones come first. All blocks together do each unit once; a
/// block with no units left gets an empty range.
pub fn block_range(units: usize, index: usize, count: usize) -> Range<usize> {
    let count = count.max(1);
    if index >= count {
        return units..units;
    }
    let (base, more) = (units / count, units % count);
    let start = index * base + index.min(more);
    start..start + base + usize::from(index < more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_done_once() {
        for (units, count) in [(0, 3), (1, 3), (7, 3), (32, 32), (100, 7), (5, 1)] {
            let mut next = 0;
            for b in 0..count {
                let r = block_range(units, b, count);
                assert_eq!(r.start, next);
                next = r.end;
            }
            assert_eq!(next, units);
        }
        assert!(block_range(4, 9, 3).is_empty());
    }
}
