//! The highest end of the blocks placed so far at each instant, as a tree over the instants. A
//! block that goes on top of all blocks that are live together with it gets its offset, and records
//! its end, in `log n`.

use super::problem::{Problem, narrow};

/// Ends by instant; they only rise.
pub(super) struct Skyline {
    /// Number of instants, rounded up to a power of two; instant `i` is node `leaves + i`.
    leaves: usize,
    /// For each node, the highest end at any instant below it.
    highest: Vec<u64>,
    /// For each node, the height to which all instants below it are raised.
    raised: Vec<u64>,
}

impl Skyline {
    /// Makes an empty skyline over `instants` instants.
    pub(super) fn new(instants: usize) -> Self {
        let leaves = instants.next_power_of_two().max(1);
        Self { leaves, highest: vec![0; 2 * leaves], raised: vec![0; 2 * leaves] }
    }

    /// The highest end over the instants `lower..upper`.
    pub(super) fn highest(&self, lower: u32, upper: u32) -> u64 {
        let (mut from, mut to) = (self.leaves + lower as usize, self.leaves + upper as usize);
        let mut found = self.above(from).max(self.above(to - 1));
        while from < to {
            if from & 1 == 1 {
                found = found.max(self.highest[from]);
                from += 1;
            }
            if to & 1 == 1 {
                to -= 1;
                found = found.max(self.highest[to]);
            }
            (from, to) = (from / 2, to / 2);
        }
        found
    }

    /// The height to which the ancestors of a node are raised.
    fn above(&self, mut node: usize) -> u64 {
        let mut found = 0;
        while node > 1 {
            node /= 2;
            found = found.max(self.raised[node]);
        }
        found
    }

    /// Raises the instants `lower..upper` to at least `end`.
    pub(super) fn raise(&mut self, lower: u32, upper: u32, end: u64) {
        let (first, last) = (self.leaves + lower as usize, self.leaves + upper as usize - 1);
        let (mut from, mut to) = (first, last + 1);
        while from < to {
            if from & 1 == 1 {
                self.raise_node(from, end);
                from += 1;
            }
            if to & 1 == 1 {
                to -= 1;
                self.raise_node(to, end);
            }
            (from, to) = (from / 2, to / 2);
        }
        for mut node in [first, last] {
            while node > 1 {
                node /= 2;
                let below = self.highest[2 * node].max(self.highest[2 * node + 1]);
                self.highest[node] = below.max(self.raised[node]);
            }
        }
    }

    fn raise_node(&mut self, node: usize, end: u64) {
        self.raised[node] = self.raised[node].max(end);
        self.highest[node] = self.highest[node].max(end);
    }
}

/// Computes offsets by placing each block, by rising `nominal` value, on top of all earlier blocks
/// that are live together with it. Intervals must decide which blocks are live together. Time `n
/// log n`.
pub(super) fn stacked_in_order(problem: &Problem, nominal: &[u64]) -> Vec<u64> {
    let mut order: Vec<u32> = (0..narrow(problem.len())).collect();
    order.sort_by_key(|&at| (nominal[at as usize], at));
    let mut skyline = Skyline::new(problem.stretches());
    let mut offsets = vec![0_u64; problem.len()];
    for &at in &order {
        let at = at as usize;
        let (lower, upper) = (problem.lower[at], problem.upper[at]);
        offsets[at] = skyline.highest(lower, upper);
        skyline.raise(lower, upper, offsets[at] + problem.size[at]);
    }
    offsets
}

#[cfg(test)]
mod tests {
    use super::stacked_in_order;
    use crate::memory::problem::Problem;
    use crate::memory::{Block, Buffer};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_block_lies_on_the_highest_of_those_before_it(
            lives in prop::collection::vec((0_u64..40, 1_u64..30, 1_u64..9, 0_u64..20), 1..60),
        ) {
            let block = |(id, &(lower, long, size, _)): (usize, &(u64, u64, u64, u64))| {
                Block::from(&Buffer { id: id as u64, lower, upper: lower + long, size, align: 1 })
            };
            let blocks: Vec<Block> = lives.iter().enumerate().map(block).collect();
            let problem = Problem::new(&blocks, true).expect("a problem");
            let nominal: Vec<u64> = lives.iter().map(|&(.., nominal)| nominal).collect();
            let offsets = stacked_in_order(&problem, &nominal);
            for at in 0..problem.len() {
                let is_below = |&other: &usize| {
                    (nominal[other], other) < (nominal[at], at) && problem.meet(at, other)
                };
                let tops = (0..problem.len()).filter(is_below).map(|other| offsets[other] + problem.size[other]);
                prop_assert_eq!(offsets[at], tops.max().unwrap_or(0));
            }
        }
    }
}
