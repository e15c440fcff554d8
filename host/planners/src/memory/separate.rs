//! Guided local search within a given capacity. Blocks may overlap at first; one at a time, they
//! move to where the weighted overlap with their neighbours is least. Pairs that keep overlapping
//! get heavier weights until they are driven apart. It works with any conflict relation.
//!
//! Source of the idea: Faroe, Pisinger, Zachariasen, "Guided local search for the
//! three-dimensional bin-packing problem" (2003), with offsets as the one free dimension.

use super::problem::{Neighbours, Problem, narrow};

/// Pseudo-random numbers that are the same on every machine (xorshift64*).
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    #[inline]
    pub(super) fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number from 0 to `below` - 1; 0 if `below` is 0.
    #[inline]
    pub(super) fn below(&mut self, below: usize) -> usize {
        usize::try_from((self.roll() >> 33) % (below.max(1) as u64)).unwrap_or(0)
    }
}

/// A search for offsets within a capacity.
#[derive(Debug)]
pub(super) struct Separation<'a> {
    problem: &'a Problem,
    lists: &'a Neighbours,
    /// The current offsets; blocks may overlap.
    offsets: Vec<i64>,
    /// Weight of each pair, parallel to the lists of neighbours.
    weights: Vec<f32>,
    capacity: i64,
    /// Blocks known to overlap another.
    colliding: Vec<u32>,
    listed: Vec<bool>,
    dice: Dice,
    slopes: Vec<(i64, f64)>,
    /// Offsets of the last success.
    settled: Vec<u64>,
    /// Number of neighbours examined so far.
    pub(super) steps: u64,
}

/// Units as a signed number; sums of sizes have been checked to fit.
pub(super) fn signed(units: u64) -> i64 {
    i64::try_from(units).expect("sums of sizes are checked to fit in 63 bits")
}

impl<'a> Separation<'a> {
    /// Starts from `start`; blocks that end above `capacity` are moved down to it.
    pub(super) fn new(problem: &'a Problem, lists: &'a Neighbours, start: &[u64], capacity: u64, seed: u64) -> Self {
        let mut search = Self {
            problem,
            lists,
            offsets: start.iter().map(|&offset| signed(offset)).collect(),
            weights: vec![1.0; lists.len()],
            capacity: signed(capacity),
            colliding: Vec::new(),
            listed: vec![false; problem.len()],
            dice: Dice::new(seed),
            slopes: Vec::new(),
            settled: Vec::new(),
            steps: 0,
        };
        search.squeeze(capacity);
        search
    }

    /// Lowers the capacity and keeps the weights.
    pub(super) fn squeeze(&mut self, capacity: u64) {
        self.capacity = signed(capacity);
        for block in 0..self.problem.len() {
            let highest = (self.capacity - signed(self.problem.size[block])).max(0);
            if self.offsets[block] > highest && self.problem.fixed[block].is_none() {
                self.offsets[block] = highest;
                self.list(block);
            }
        }
    }

    /// Continues from other offsets, with all weights reset.
    pub(super) fn restart(&mut self, start: &[u64], capacity: u64) {
        for (offset, &from) in self.offsets.iter_mut().zip(start) {
            *offset = signed(from);
        }
        self.colliding.clear();
        self.listed.fill(false);
        self.weights.fill(1.0);
        self.squeeze(capacity);
    }

    /// After a success: stores the offsets and returns the arena that they need.
    pub(super) fn settle(&mut self) -> u64 {
        self.settled = self.offsets.iter().map(|offset| offset.unsigned_abs()).collect();
        self.problem.arena(&self.settled)
    }

    /// Offsets of the last success.
    pub(super) fn settled(&self) -> &[u64] {
        &self.settled
    }

    fn list(&mut self, block: usize) {
        if !self.listed[block] {
            self.listed[block] = true;
            self.colliding.push(narrow(block));
        }
    }

    /// Searches until nothing overlaps (returns `true`) or about `steps` more steps have been made.
    pub(super) fn run(&mut self, steps: u64) -> bool {
        let end = self.steps.saturating_add(steps);
        while self.steps < end {
            // Every round counts, even an empty one.
            self.steps += 1;
            let mut round = std::mem::take(&mut self.colliding);
            for at in (1..round.len()).rev() {
                round.swap(at, self.dice.below(at + 1));
            }
            for &block in &round {
                self.listed[block as usize] = false;
            }
            for &block in &round {
                self.relocate(block as usize);
            }
            for block in round {
                if self.overlaps(block as usize) {
                    self.list(block as usize);
                }
            }
            if self.colliding.is_empty() {
                return true;
            }
            self.weigh();
        }
        false
    }

    #[inline]
    fn range(&self, block: usize) -> (i64, i64) {
        (self.offsets[block], self.offsets[block] + signed(self.problem.size[block]))
    }

    /// Whether a block overlaps any neighbour; marks those neighbours as colliding.
    fn overlaps(&mut self, block: usize) -> bool {
        let (from, to) = self.range(block);
        let lists = self.lists;
        self.steps += lists.of(block).len() as u64 + 1;
        let mut any = false;
        for &other in lists.of(block) {
            let (other_from, other_to) = self.range(other as usize);
            if from < other_to && other_from < to {
                any = true;
                self.list(other as usize);
            }
        }
        any
    }

    /// Moves a block to where its weighted overlap is least, if it overlaps anything.
    fn relocate(&mut self, block: usize) {
        let size = signed(self.problem.size[block]);
        let highest = self.capacity - size;
        if self.problem.fixed[block].is_some() || highest < 0 {
            return;
        }
        let (from, to) = self.range(block);
        let others = self.lists.of(block);
        let weights = &self.weights[self.lists.start(block)..][..others.len()];
        self.steps += others.len() as u64 + 1;
        let overlapping = others.iter().any(|&other| {
            let (other_from, other_to) = self.range(other as usize);
            from < other_to && other_from < to
        });
        if !overlapping {
            return;
        }
        // The overlap with one neighbour is a trapezoid as a function of the offset. The sum is
        // linear between the corners, so its minimum is at one of them.
        self.steps += 4 * others.len() as u64;
        let mut slopes = std::mem::take(&mut self.slopes);
        slopes.clear();
        slopes.push((0, 0.0));
        slopes.push((highest, 0.0));
        let (mut value, mut slope) = (0.0_f64, 0.0_f64);
        for (&other, &weight) in others.iter().zip(weights) {
            let (other_from, other_to) = self.range(other as usize);
            let weight = f64::from(weight);
            let corners = [
                (other_from - size, weight),
                (other_from.min(other_to - size), -weight),
                (other_from.max(other_to - size), -weight),
                (other_to, weight),
            ];
            for (corner, change) in corners {
                if corner < 0 {
                    value += change * to_float(-corner);
                    slope += change;
                } else if corner <= highest {
                    slopes.push((corner, change));
                }
            }
        }
        slopes.sort_unstable_by_key(|&(corner, _)| corner);
        let (mut best, mut best_value, mut ties) = (from, f64::INFINITY, 0_usize);
        let mut position = 0_i64;
        for &(corner, change) in &slopes {
            if corner > position {
                value += slope * to_float(corner - position);
                position = corner;
            }
            slope += change;
            // Rounding leaves small remainders; one unit of overlap weighs 1 or more.
            let here = if value < 0.5 { 0.0 } else { value };
            if here < best_value {
                (best, best_value, ties) = (corner, here, 1);
            } else if here <= best_value && corner != best {
                ties += 1;
                if self.dice.below(ties) == 0 {
                    best = corner;
                }
            }
        }
        self.slopes = slopes;
        self.offsets[block] = best;
        self.overlaps(block);
    }

    /// Increases the weights of pairs that overlap, most for the greatest overlap.
    fn weigh(&mut self) {
        let lists = self.lists;
        let mut pairs: Vec<(usize, i64)> = Vec::new();
        let mut most = 1;
        for &block in &self.colliding {
            let block = block as usize;
            let (from, to) = self.range(block);
            self.steps += lists.of(block).len() as u64;
            for (at, &other) in lists.of(block).iter().enumerate() {
                let (other_from, other_to) = self.range(other as usize);
                let overlap = to.min(other_to) - from.max(other_from);
                if overlap > 0 {
                    most = most.max(overlap);
                    pairs.push((lists.start(block) + at, overlap));
                }
            }
        }
        // Both members of a pair are colliding, so the weights of both directions grow equally.
        let mut heaviest = 0.0_f32;
        for (pair, overlap) in pairs {
            #[allow(clippy::cast_possible_truncation)]
            let growth = (to_float(overlap) / to_float(most)) as f32;
            self.weights[pair] += 0.2 + growth;
            heaviest = heaviest.max(self.weights[pair]);
        }
        if heaviest > 1.0e6 {
            for weight in &mut self.weights {
                *weight = (*weight * 1.0e-3).max(1.0);
            }
        }
    }
}

/// Units as a float; the loss beyond 53 bits does not matter when overlaps are compared.
#[inline]
#[allow(clippy::cast_precision_loss)]
fn to_float(units: i64) -> f64 {
    units as f64
}
