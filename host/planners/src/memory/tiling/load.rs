//! The load: how many units all whole pieces together need at each instant, and how much of that
//! exceeds a limit. No plan within the limit can have pieces whose load exceeds it.

use super::super::separate::signed;
use super::pieces::Pieces;

/// Number of bits of the time scale; times shorter than one unit of this scale are ignored.
const TIME_BITS: u32 = 32;

/// The load from each instant to the next.
#[derive(Debug)]
pub(super) struct Load {
    units: Vec<i64>,
    /// Time until the next instant.
    stretch: Vec<i64>,
    limit: i64,
    above: i128,
    /// A millionth of everything that the limit allows.
    millionth: i128,
}

impl Load {
    pub(super) fn new(pieces: &Pieces, limit: u64) -> Self {
        let mut units = vec![0; pieces.times.len()];
        for piece in pieces.whole() {
            let piece = pieces.of(piece);
            units[piece.lower as usize] += signed(piece.size);
            units[piece.upper as usize] -= signed(piece.size);
        }
        for instant in 1..units.len() {
            units[instant] += units[instant - 1];
        }
        let last = pieces.times.last().copied().unwrap_or(0);
        let shift = (u64::BITS - last.leading_zeros()).saturating_sub(TIME_BITS);
        let stretch: Vec<i64> =
            pieces.times.windows(2).map(|pair| signed((pair[1] >> shift) - (pair[0] >> shift))).collect();
        let all = i128::from(signed(last >> shift)) * i128::from(signed(limit));
        let millionth = (all / 1_000_000).max(1);
        let mut load = Self { units, stretch, limit: signed(limit), above: 0, millionth };
        let above = load.units.iter().zip(&load.stretch);
        load.above = above.map(|(&units, &stretch)| i128::from(load.beyond(units)) * i128::from(stretch)).sum();
        load
    }

    fn beyond(&self, units: i64) -> i64 {
        (units - self.limit).max(0)
    }

    /// The load above the limit, in units times time, if `changes` are made (see [`merge`]).
    pub(super) fn above_with(&self, changes: &[(u32, i64)]) -> i128 {
        let (mut more, mut above) = (0, self.above);
        for pair in changes.windows(2) {
            more += pair[0].1;
            if more == 0 {
                continue;
            }
            let range = pair[0].0 as usize..pair[1].0 as usize;
            for (&units, &stretch) in self.units[range.clone()].iter().zip(&self.stretch[range]) {
                above += i128::from(self.beyond(units + more) - self.beyond(units)) * i128::from(stretch);
            }
        }
        above
    }

    /// Makes changes; `above` is the load above the limit afterwards.
    pub(super) fn change(&mut self, changes: &[(u32, i64)], above: i128) {
        let mut more = 0;
        for pair in changes.windows(2) {
            more += pair[0].1;
            if more != 0 {
                self.units[pair[0].0 as usize..pair[1].0 as usize].iter_mut().for_each(|units| *units += more);
            }
        }
        self.above = above;
    }

    /// Converts a load above the limit to millionths of everything that the limit allows.
    pub(super) fn share(&self, above: i128) -> u64 {
        u64::try_from(above / self.millionth).unwrap_or(u64::MAX / 1024)
    }

    /// The load above the limit, in units times time.
    pub(super) fn above(&self) -> i128 {
        self.above
    }
}

/// Sorts changes of the load by instant and adds up those of the same instant.
pub(super) fn merge(changes: &mut Vec<(u32, i64)>) {
    changes.sort_unstable_by_key(|&(instant, _)| instant);
    changes.dedup_by(|next, kept| {
        let is_same = next.0 == kept.0;
        if is_same {
            kept.1 += next.1;
        }
        is_same
    });
}

#[cfg(test)]
mod tests {
    use super::{Load, merge};
    use crate::memory::problem::Problem;
    use crate::memory::tiling::pieces::Pieces;
    use crate::memory::{Block, Buffer};
    use proptest::prelude::*;

    fn pieces(lives: &[(u64, u64, u64)]) -> Pieces {
        let block = |(id, &(lower, long, size)): (usize, &(u64, u64, u64))| {
            Block::from(&Buffer { id: id as u64, lower, upper: lower + long, size, align: 1 })
        };
        let blocks: Vec<Block> = lives.iter().enumerate().map(block).collect();
        Pieces::new(&Problem::new(&blocks, true).expect("a problem"))
    }

    proptest! {
        #[test]
        fn changes_give_the_load_of_the_pieces_that_are_left(
            lives in prop::collection::vec((0_u64..20, 1_u64..9, 1_u64..9), 2..20),
            limit in 1_u64..30,
        ) {
            let mut all = pieces(&lives);
            let mut load = Load::new(&all, limit);
            all.remember();
            all.dissolve(0);
            all.dissolve(1);
            merge(all.load_changes());
            let above = load.above_with(all.load_changes());
            load.change(all.load_changes(), above);
            let left = Load::new(&all, limit);
            prop_assert_eq!((load.above(), load.units), (left.above(), left.units));
        }
    }
}
