//! The order in which blocks are tried.

use super::super::greedy::peak_load;
use super::super::problem::{Problem, narrow};
use super::super::separate::Dice;
use super::sets::each;

/// Which of the blocks that may lie lowest is placed next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// One in the section with the most memory still to place.
    Fullest,
    /// One that begins first.
    Earliest,
    /// Among those that begin first, one that led to dead ends.
    Disputed,
}

/// The criterion by which blocks are ranked.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rank {
    LoadLifetime,
    LoadArea,
    Lifetime,
    Area,
}

/// The choices and ranks, in the order of their trials.
pub(super) const CHOICES: [Choice; 3] = [Choice::Disputed, Choice::Fullest, Choice::Earliest];
pub(super) const RANKS: [Rank; 4] = [Rank::LoadLifetime, Rank::LoadArea, Rank::Lifetime, Rank::Area];

/// How strongly ranks are perturbed, in units of 1/[`ONE`], in successive generations of trials.
const NOISE: [u64; 4] = [0, 128, 512, 2048];
const ONE: u64 = 1024;

/// Position of each block in the order of trials; it is perturbed depending on the seed.
pub(super) fn ranks(problem: &Problem, rank: Rank, generation: u64, seed: u64) -> Vec<u32> {
    let mut dice = Dice::new(seed);
    let most = NOISE[usize::try_from(generation % 4).unwrap_or(0)];
    let peak = peak_load(problem);
    let mut order: Vec<u32> = (0..narrow(problem.len())).collect();
    order.sort_by_cached_key(|&at| {
        let block = at as usize;
        let (lower, upper) = (problem.lower[block] as usize, problem.upper[block] as usize);
        let long = u128::from(problem.stretch[lower..upper].iter().sum::<u64>());
        let area = u128::from(problem.size[block]) * long;
        let load = u128::from(peak[block]);
        let factor = u128::from(ONE + dice.roll() % most.max(1));
        let key = match rank {
            Rank::LoadLifetime => (load, long * factor, area),
            Rank::LoadArea => (load, area.saturating_mul(factor), long),
            Rank::Lifetime => (long * factor, area, 0),
            Rank::Area => (area.saturating_mul(factor), long, 0),
        };
        (std::cmp::Reverse(key), at)
    });
    let mut place = vec![0; problem.len()];
    for (rank, &at) in (0..).zip(&order) {
        place[at as usize] = rank;
    }
    place
}

/// How often each block took part in dead ends; later dead ends count more.
#[derive(Debug, Clone)]
pub(super) struct Disputes {
    of: Vec<u64>,
    /// The weight of the next dead end.
    next: u64,
}

/// The weight of the first dead end.
const FIRST_DISPUTE: u64 = 1 << 10;

impl Disputes {
    pub(super) fn new(blocks: usize) -> Self {
        Self { of: vec![0; blocks], next: FIRST_DISPUTE }
    }

    #[inline]
    pub(super) fn of(&self, block: usize) -> u64 {
        self.of[block]
    }

    /// Counts a dead end caused by these blocks.
    pub(super) fn add(&mut self, conflict: &[u64]) {
        for block in each(conflict) {
            self.of[block] = self.of[block].saturating_add(self.next);
        }
        self.next += self.next / 10;
        if self.next >> 40 > 0 {
            self.shrink();
        }
    }

    /// Scales the counts down, so that old dead ends count little from now on.
    pub(super) fn shrink(&mut self) {
        let least = self.next / FIRST_DISPUTE;
        self.of.iter_mut().for_each(|of| *of /= least.max(1));
        self.next = FIRST_DISPUTE;
    }
}
