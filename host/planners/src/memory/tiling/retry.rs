//! Takes some pieces apart and combines them differently, at random, again and again. One wrong
//! union prevents all pieces around it from being combined correctly; if pieces are left over, one
//! beside them is wrong. An attempt that leaves fewer pieces, or pieces that agree better with the
//! memory limit, is kept; all others are undone.

use super::super::block::Watch;
use super::super::problem::{Problem, narrow};
use super::super::separate::Dice;
use super::load::{Load, merge};
use super::piece::Made;
use super::pieces::Pieces;
use super::{Doubt, Variation, unite};

/// Waste limits for the unions of one attempt, on the scale of the limits for all pieces.
const LIMITS: [u64; 2] = [30_000, 400_000];
/// Number of pieces beginning or ending at one instant that an attempt examines.
const MOST_AT_ONCE: usize = 20;
/// Steps counted for an attempt in addition to its unions.
const TRY: u64 = 100;
/// An attempt takes up to 2^k pieces apart, with a random k less than this.
const MOST_APART: usize = 5;

/// The costs of a list of pieces. All shares are in millionths of all memory and time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prices {
    /// Cost of each remaining piece.
    pub(super) piece: u64,
    /// Cost of the idle share, in percent of it.
    pub(super) idle: u64,
    /// Factor for the share that pieces need above the memory limit.
    pub(super) above: u64,
    /// By how much a kept attempt may be worse at first; each further multiple of it is allowed
    /// half as often. It falls to 0 as the steps are used up.
    pub(super) heat: u64,
}

/// Attempts to combine pieces differently.
pub(super) struct Retry {
    pieces: Pieces,
    prices: Prices,
    /// Blocks that begin or end at each instant.
    touching: Vec<Vec<u32>>,
    load: Load,
    /// A millionth of all memory and time.
    millionth: u128,
    cost: u64,
    dice: Dice,
    steps: u64,
    most_steps: u64,
}

impl Retry {
    /// Starts from `pieces`, with `most_steps` steps in total.
    pub(super) fn new(pieces: Pieces, problem: &Problem, prices: Prices, most_steps: u64, seed: u64) -> Self {
        let mut touching = vec![Vec::new(); pieces.times.len()];
        for block in 0..problem.len() {
            for instant in [problem.lower[block], problem.upper[block]] {
                touching[instant as usize].push(narrow(block));
            }
        }
        let load = Load::new(&pieces, problem.bound);
        let all = u128::from(problem.bound) * u128::from(pieces.times.last().copied().unwrap_or(1));
        let (millionth, dice) = ((all / 1_000_000).max(1), Dice::new(seed));
        let mut retry = Self { pieces, prices, touching, load, millionth, cost: 0, dice, steps: 0, most_steps };
        retry.cost = retry.cost_with(retry.load.above());
        retry
    }

    pub(super) fn pieces(&self) -> &Pieces {
        &self.pieces
    }

    /// The cost of the pieces, if the load above the limit is `above`.
    fn cost_with(&self, above: i128) -> u64 {
        let idle = u64::try_from(self.pieces.whole_idle() / self.millionth).unwrap_or(u64::MAX / 1024);
        let above = self.load.share(above);
        let left = self.pieces.whole_count() as u64;
        (idle.saturating_mul(self.prices.idle) / 100)
            .saturating_add(above.saturating_mul(self.prices.above))
            .saturating_add(left * self.prices.piece)
    }

    /// Makes attempts until all steps are used except the fraction `left` / `of`, one piece is
    /// left, or the caller cancels.
    pub(super) fn run(&mut self, left: u64, of: u64, watch: &Watch<'_>) {
        let end = self.most_steps - self.most_steps / of * left;
        while self.steps < end && self.pieces.whole_count() > 1 && !(watch.cancel)() {
            self.pieces.remember();
            let mut variation = Variation { salt: self.dice.roll(), unwanted: Vec::new() };
            let instants = self.loosen(&mut variation);
            self.steps += TRY;
            for limit in LIMITS {
                self.steps += unite(&mut self.pieces, limit, instants.clone(), Doubt::Priced, Some(&variation));
            }
            merge(self.pieces.load_changes());
            let above = self.load.above_with(self.pieces.load_changes());
            let cost = self.cost_with(above);
            let cold = self.most_steps.saturating_sub(self.steps);
            let heat = u128::from(self.prices.heat) * u128::from(cold) / u128::from(self.most_steps.max(1));
            let heat = u64::try_from(heat).unwrap_or(0) * u64::from(self.dice.roll().leading_zeros());
            if cost <= self.cost.saturating_add(heat) {
                self.cost = cost;
                self.load.change(self.pieces.load_changes(), above);
            } else {
                self.pieces.take_back();
            }
        }
    }

    /// Takes apart some pieces around a random piece, or pieces that contain its blocks. Returns
    /// the instants that this affects.
    fn loosen(&mut self, variation: &mut Variation) -> Vec<u32> {
        let Self { pieces, dice, touching, .. } = self;
        let first = pieces.whole_at(dice.below(pieces.whole_count()));
        let mut near = vec![first];
        for instant in pieces.ends_of(first) {
            let lists = [&pieces.begins[instant as usize], &pieces.ends[instant as usize]];
            near.extend(lists.into_iter().flatten().take(MOST_AT_ONCE));
        }
        near.sort_unstable();
        near.dedup();
        let mut instants: Vec<u32> = pieces.ends_of(first).into();
        instants.extend(near.iter().flat_map(|&piece| pieces.ends_of(piece)));
        let most = dice.below(MOST_APART);
        let mut left = 1 + dice.below(1 << most);
        while left > 0 && !near.is_empty() {
            if dice.below(4) == 0 {
                left -= 1;
                let instant = instants[dice.below(instants.len())];
                let blocks = &touching[instant as usize];
                let last = open(pieces, blocks[dice.below(blocks.len())], instant, &mut instants);
                variation.unwanted.extend(last.filter(|_| dice.below(4) > 0));
                continue;
            }
            let piece = near.swap_remove(dice.below(near.len()));
            let before = *pieces.of(piece);
            if before.taken {
                continue;
            }
            instants.extend(pieces.ends_of(piece));
            if matches!(before.made, Made::Block(_)) {
                if (before.upper, before.size) != (before.ended, before.least) {
                    left -= 1;
                    pieces.shrink(piece);
                    instants.push(before.ended);
                }
            } else if pieces.idle(piece) * 1000 >= before.content || dice.below(8) == 0 {
                left -= 1;
                if dice.below(4) > 0 {
                    variation.unwanted.push(before.fingerprint);
                }
                apart(pieces, piece, &mut instants);
                near.extend(before.made.parts().iter());
            }
        }
        instants.sort_unstable();
        instants.dedup();
        instants
    }
}

/// Takes a whole piece apart and adds the instants that this affects.
fn apart(pieces: &mut Pieces, piece: u32, instants: &mut Vec<u32>) {
    pieces.dissolve(piece);
    instants.extend(pieces.ends_of(piece));
    instants.extend(pieces.of(piece).made.parts().iter().flat_map(|&part| pieces.ends_of(part)));
}

/// Takes apart the pieces around a block, outermost first, until the remaining one around it begins
/// or ends at `instant`. Returns the fingerprint of the last piece taken apart.
fn open(pieces: &mut Pieces, block: u32, instant: u32, instants: &mut Vec<u32>) -> Option<u64> {
    let mut around = vec![block];
    let mut outermost = block;
    while pieces.of(outermost).taken {
        outermost = pieces.of(outermost).parent;
        around.push(outermost);
    }
    let mut last = None;
    while let Some(piece) = around.pop() {
        if pieces.ends_of(piece).contains(&instant) || around.is_empty() {
            break;
        }
        last = Some(pieces.of(piece).fingerprint);
        apart(pieces, piece, instants);
    }
    last
}

#[cfg(test)]
mod tests {
    use super::super::load::Load;
    use super::super::planted::{HEIGHT, planted};
    use super::super::unite;
    use super::{Doubt, Prices, Retry};
    use crate::memory::Watch;
    use crate::memory::problem::{Problem, narrow};
    use crate::memory::tiling::pieces::Pieces;

    #[test]
    fn tries_leave_fewer_pieces_and_every_block_in_one_of_them() {
        let blocks = planted(600, 74, 3);
        let problem = Problem::new(&blocks, true).expect("a problem");
        let mut pieces = Pieces::new(&problem);
        let everywhere = (0..narrow(pieces.times.len())).collect();
        unite(&mut pieces, 10_000, everywhere, Doubt::Priced, None);
        let count = pieces.whole().len();
        let prices = Prices { piece: 400, idle: 50, above: 10, heat: 0 };
        let mut retry = Retry::new(pieces, &problem, prices, 200_000, 1);
        let before = retry.cost;
        retry.run(0, 1, &Watch::none());
        let pieces = retry.pieces();
        assert!(pieces.whole().len() * 3 < count * 2 && retry.cost < before);
        assert_eq!(retry.load.above(), Load::new(pieces, problem.bound).above());
        let mut blocks_left = vec![0; problem.len()];
        let mut inside = pieces.whole();
        while let Some(piece) = inside.pop() {
            let parts = pieces.of(piece).made.parts();
            if parts.is_empty() {
                blocks_left[piece as usize] += 1;
            }
            inside.extend(parts.iter());
        }
        assert!(blocks_left.iter().all(|&count| count == 1));
        assert!(pieces.whole().iter().all(|&piece| pieces.of(piece).size <= 2 * HEIGHT));
    }
}
