//! Test packings of known height: memory and time are cut into rectangles again and again, straight
//! through or around a fifth piece, and some of the rectangles are left partly idle.

use super::super::separate::Dice;
use super::super::{Block, Buffer};

/// Units of memory into which all buffers fit together.
pub(in crate::memory) const HEIGHT: u64 = 1 << 14;
const TIME: u64 = 1_000_000;

#[derive(Clone, Copy)]
struct Cut {
    lower: u64,
    upper: u64,
    bottom: u64,
    top: u64,
}

impl Cut {
    fn area(&self) -> u64 {
        (self.upper - self.lower) * (self.top - self.bottom)
    }
}

/// A random number strictly between two others, if there is one.
fn between(dice: &mut Dice, low: u64, high: u64) -> Option<u64> {
    (high > low + 1).then(|| low + 1 + dice.roll() % (high - low - 1))
}

fn straight(dice: &mut Dice, cut: Cut) -> Option<Vec<Cut>> {
    if dice.below(2) == 0 {
        let at = between(dice, cut.lower, cut.upper)?;
        return Some(vec![Cut { upper: at, ..cut }, Cut { lower: at, ..cut }]);
    }
    let at = between(dice, cut.bottom, cut.top)?;
    Some(vec![Cut { top: at, ..cut }, Cut { bottom: at, ..cut }])
}

fn around(dice: &mut Dice, cut: Cut) -> Option<Vec<Cut>> {
    let Cut { lower, upper, bottom, top } = cut;
    let (first, low) = (between(dice, lower, upper)?, between(dice, bottom, top)?);
    let (second, high) = (between(dice, first, upper)?, between(dice, low, top)?);
    let piece = |lower, upper, bottom, top| Cut { lower, upper, bottom, top };
    let middle = piece(first, second, low, high);
    Some(if dice.below(2) == 0 {
        vec![
            piece(lower, second, bottom, low),
            piece(second, upper, bottom, high),
            piece(first, upper, high, top),
            piece(lower, first, low, top),
            middle,
        ]
    } else {
        vec![
            piece(lower, first, bottom, high),
            piece(first, upper, bottom, low),
            piece(second, upper, low, top),
            piece(lower, second, high, top),
            middle,
        ]
    })
}

/// About `count` buffers that fit into [`HEIGHT`]. Of every thousand, `idle` are smaller than their
/// place, and as many end before their place does.
pub(in crate::memory) fn planted(count: usize, idle: usize, seed: u64) -> Vec<Block> {
    let mut dice = Dice::new(seed);
    let mut cuts = vec![Cut { lower: 0, upper: TIME, bottom: 0, top: HEIGHT }];
    while cuts.len() < count {
        let largest = (0..cuts.len()).max_by_key(|&at| cuts[at].area()).unwrap_or(0);
        let is_around = dice.below(10) < 4;
        let parts = if is_around { around(&mut dice, cuts[largest]) } else { straight(&mut dice, cuts[largest]) };
        if let Some(parts) = parts {
            cuts.swap_remove(largest);
            cuts.extend(parts);
        }
    }
    let mut shrunk = |length: u64| {
        if dice.below(1000) < idle { (length * (650 + dice.roll() % 350) / 1000).max(1) } else { length }
    };
    let buffer = |(id, cut): (u64, &Cut)| {
        let upper = cut.lower + shrunk(cut.upper - cut.lower);
        Block::from(&Buffer { id, lower: cut.lower, upper, size: shrunk(cut.top - cut.bottom), align: 1 })
    };
    (0..).zip(&cuts).map(buffer).collect()
}
