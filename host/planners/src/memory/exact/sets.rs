//! Sets of blocks, with one bit for each block.

use super::super::problem::Neighbours;

/// One set for each block, all of the same width.
pub(super) struct Sets {
    words: usize,
    bits: Vec<u64>,
}

impl Sets {
    /// Makes empty sets.
    pub(super) fn new(blocks: usize) -> Self {
        let words = words(blocks);
        Self { words, bits: vec![0; words * blocks] }
    }

    /// For each block, the set of blocks that are live together with it.
    pub(super) fn neighbours(lists: &Neighbours, blocks: usize) -> Self {
        let mut sets = Self::new(blocks);
        for block in 0..blocks {
            let of = sets.of_mut(block);
            lists.of(block).iter().for_each(|&other| insert(of, other as usize));
        }
        sets
    }

    #[inline]
    pub(super) fn of(&self, block: usize) -> &[u64] {
        &self.bits[block * self.words..][..self.words]
    }

    #[inline]
    pub(super) fn of_mut(&mut self, block: usize) -> &mut [u64] {
        &mut self.bits[block * self.words..][..self.words]
    }
}

/// Number of words of a set of `blocks` blocks.
pub(super) fn words(blocks: usize) -> usize {
    blocks.div_ceil(64)
}

#[inline]
pub(super) fn insert(set: &mut [u64], block: usize) {
    set[block / 64] |= 1 << (block % 64);
}

/// Removes a block and returns whether it was in the set.
#[inline]
pub(super) fn remove(set: &mut [u64], block: usize) -> bool {
    let (word, bit) = (&mut set[block / 64], 1 << (block % 64));
    let was_in = *word & bit != 0;
    *word &= !bit;
    was_in
}

#[inline]
pub(super) fn unite(set: &mut [u64], other: &[u64]) {
    set.iter_mut().zip(other).for_each(|(word, other)| *word |= other);
}

/// The blocks in a set.
pub(super) fn each(set: &[u64]) -> impl Iterator<Item = usize> {
    set.iter()
        .enumerate()
        .flat_map(|(at, &word)| (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit))
}
