//! A subset of a problem's blocks, packed by themselves within a capacity.

use rayon::prelude::*;

use super::super::block::Block;
use super::super::exact::{MOST_BLOCKS, Outcome, exact};
use super::super::greedy::{Fit, Order, ordered, place_rest};
use super::super::problem::{Neighbours, Problem};
use super::super::separate::Separation;
use super::{Effort, NOT_YET};

/// Orders and fits by which blocks are placed, among themselves or around others.
pub(super) const ORDERS: [(Order, Fit); 6] = [
    (Order::Size, Fit::First),
    (Order::Size, Fit::Best),
    (Order::Area, Fit::First),
    (Order::Load, Fit::First),
    (Order::Load, Fit::Best),
    (Order::Lifetime, Fit::First),
];
/// Number of steps that the lanes of a separation take in parallel before their results are
/// examined.
const TURN: u64 = 1_000_000;

/// A subset of a problem's blocks as a problem of its own.
pub(super) struct Part {
    pub(super) problem: Problem,
    lists: Neighbours,
    /// Indices of the blocks in the whole problem.
    pub(super) blocks: Vec<u32>,
}

impl Part {
    /// Makes the part; `times` gives a time to each instant of the whole problem.
    pub(super) fn new(whole: &Problem, times: &[u64], blocks: Vec<u32>) -> Option<Self> {
        let block = |&at: &u32| {
            let at = at as usize;
            let [lower, upper] = [whole.lower[at], whole.upper[at]].map(|instant| times[instant as usize]);
            Block { id: 0, lower, upper, size: whole.size[at], align: 1, stream: 0, reuse: true, fixed: None }
        };
        let list: Vec<Block> = blocks.iter().map(block).collect();
        let problem = Problem::new(&list, true).ok()?;
        let lists = problem.neighbours(&list, None).ok()?;
        Some(Self { problem, lists, blocks })
    }

    /// Packs the part within `capacity` units of the whole problem. Returns the offsets in these
    /// units, or that there are none, and the steps taken. `before` has the offsets of all blocks
    /// of the whole problem that are already placed.
    pub(super) fn packed(&self, capacity: u64, before: &[u64], effort: &Effort, seed: u64) -> (Outcome, u64) {
        let unit = self.problem.unit;
        let (outcome, steps) = self.in_own_units(capacity / unit, before, effort, seed);
        match outcome {
            Outcome::Fits(offsets) => (Outcome::Fits(offsets.iter().map(|offset| offset * unit).collect()), steps),
            other => (other, steps),
        }
    }

    fn in_own_units(&self, capacity: u64, before: &[u64], effort: &Effort, seed: u64) -> (Outcome, u64) {
        let given = |&block: &u32| match before[block as usize] {
            NOT_YET => NOT_YET,
            offset => offset / self.problem.unit,
        };
        let warm = self.placed(&self.blocks.iter().map(given).collect::<Vec<u64>>());
        if self.problem.arena(&warm) <= capacity {
            return (Outcome::Fits(warm), 0);
        }
        let cold = self.placed(&vec![NOT_YET; self.blocks.len()]);
        if self.problem.arena(&cold) <= capacity {
            return (Outcome::Fits(cold), 0);
        }
        let mut taken = 0;
        if self.blocks.len() <= MOST_BLOCKS {
            let (outcome, steps) =
                exact(&self.problem, &self.lists, capacity, effort.exact_steps.min(effort.steps), seed);
            if outcome != Outcome::Unknown {
                return (outcome, steps);
            }
            taken = steps;
        }
        let lanes = [(&warm, 1), (&cold, 2), (&warm, 3), (&cold, 4)];
        let lanes = &lanes[..effort.lanes.min(lanes.len())];
        let mut lanes: Vec<Separation<'_>> = lanes
            .iter()
            .map(|&(start, lane)| Separation::new(&self.problem, &self.lists, start, capacity, lane + 4 * seed))
            .collect();
        let left = effort.steps.saturating_sub(taken) / effort.lanes.max(1) as u64;
        let most = effort.separation_steps.min(left);
        let (mut end, mut outcome) = (0, Outcome::Unknown);
        while end < most {
            end += TURN;
            let found: Vec<bool> = lanes.par_iter_mut().map(|lane| lane.run(end.saturating_sub(lane.steps))).collect();
            if let Some(first) = found.iter().position(|&found| found) {
                lanes[first].settle();
                outcome = Outcome::Fits(lanes[first].settled().to_vec());
                break;
            }
        }
        taken += lanes.iter().map(|lane| lane.steps).sum::<u64>();
        (outcome, taken)
    }

    /// The smallest of the plans that place the other blocks around the given ones.
    fn placed(&self, given: &[u64]) -> Vec<u64> {
        let plan = |&(order, fit): &(Order, Fit)| {
            place_rest(&self.problem, &self.lists, given.to_vec(), &ordered(&self.problem, order), fit)
        };
        let plans: Vec<Vec<u64>> = ORDERS.par_iter().map(plan).collect();
        plans.into_iter().min_by_key(|offsets| self.problem.arena(offsets)).unwrap_or_default()
    }
}
