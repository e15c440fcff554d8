//! A set of small numbers with ascending iteration: words of bits, and above them levels that mark
//! which words are not empty. Insertion and removal touch one word on each level.

/// A set of numbers below a bound.
pub(crate) struct Bits {
    /// `levels[0]` has a bit for each number; every further level has a bit for each word of the
    /// level below. The last level is a single word.
    levels: Vec<Vec<u64>>,
}

impl Bits {
    /// Makes an empty set of numbers below `bound`.
    pub fn new(bound: usize) -> Bits {
        let mut levels = vec![vec![0u64; bound.div_ceil(64).max(1)]];
        while let Some(words) = levels.last().map(Vec::len).filter(|w| *w > 1) {
            levels.push(vec![0; words.div_ceil(64)]);
        }
        Bits { levels }
    }

    pub fn is_empty(&self) -> bool {
        self.levels.last().is_none_or(|top| top[0] == 0)
    }

    pub fn insert(&mut self, k: u32) {
        let mut k = k as usize;
        for level in &mut self.levels {
            let word = &mut level[k / 64];
            let was = *word;
            *word |= 1 << (k % 64);
            if was != 0 {
                break;
            }
            k /= 64;
        }
    }

    pub fn contains(&self, k: u32) -> bool {
        self.levels[0][k as usize / 64] >> (k % 64) & 1 != 0
    }

    /// Removes a number and returns whether it was in the set.
    pub fn remove(&mut self, k: u32) -> bool {
        let mut k = k as usize;
        let there = self.levels[0][k / 64] >> (k % 64) & 1 != 0;
        for level in &mut self.levels {
            let word = &mut level[k / 64];
            *word &= !(1 << (k % 64));
            if *word != 0 {
                break;
            }
            k /= 64;
        }
        there
    }

    /// All numbers, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let mut from = 0usize;
        std::iter::from_fn(move || {
            let k = self.at_or_after(from)?;
            from = k + 1;
            Some(k as u32)
        })
    }

    fn at_or_after(&self, from: usize) -> Option<usize> {
        let mut at = from;
        let mut level = 0;
        // Go up until a word has a bit at or after the position.
        loop {
            let words = self.levels.get(level)?;
            let word = words.get(at / 64).copied().unwrap_or(0) & (u64::MAX << (at % 64));
            if word != 0 {
                at = at / 64 * 64 + word.trailing_zeros() as usize;
                break;
            }
            at = at / 64 + 1;
            level += 1;
        }
        // Go down to the first number below that bit.
        while level > 0 {
            level -= 1;
            at = at * 64 + self.levels[level][at].trailing_zeros() as usize;
        }
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::Bits;
    use std::collections::BTreeSet;

    #[test]
    fn it_is_the_set_that_it_should_be() {
        for bound in [1usize, 64, 65, 5000, 300_000] {
            let (mut bits, mut set, mut x) = (Bits::new(bound), BTreeSet::new(), 7u64);
            for _ in 0..2000 {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let k = ((x >> 33) as usize % bound) as u32;
                if x >> 20 & 3 == 0 {
                    assert_eq!(bits.remove(k), set.remove(&k));
                } else {
                    bits.insert(k);
                    set.insert(k);
                }
                assert_eq!(bits.is_empty(), set.is_empty());
            }
            assert!(bits.iter().eq(set.iter().copied()), "bound {bound}");
        }
    }
}
