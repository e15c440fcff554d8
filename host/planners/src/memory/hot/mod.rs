//! Places the fullest stretches of time first. If most of the time much less memory is live than at
//! the peak, the few blocks that are live at the peak decide how small an arena can be. They are
//! placed by themselves, with searches if a simple order is not enough, and all others are placed
//! around them. Blocks that find no room are then placed together with the few. If a search proves
//! that there is no plan for some of the blocks, there is none for all.

mod part;

use rayon::prelude::*;

use super::exact::{MOST_BLOCKS, Outcome};
use super::greedy::{live_sums, ordered, peak_load, place_rest};
use super::problem::{Neighbours, Problem, narrow};
use part::{ORDERS, Part};

/// Live sums from which a stretch of time counts as full, in percent of the greatest; tried one
/// after another.
const FULL: [u64; 11] = [97, 95, 92, 90, 85, 80, 70, 60, 45, 30, 0];
/// Live sum from which a stretch of time is nearly full, in percent of the greatest.
const NEARLY_FULL: u64 = 70;
/// Weighted length of a full stretch of time; other stretches count 1.
const FULL_STRETCH: u64 = 1000;
/// Greatest number of blocks that are packed by themselves.
const MOST_IN_PART: usize = 2000;
/// How many times blocks that found no room may join a part.
const MOST_JOINS: usize = 60;
/// Greatest number of blocks that may join at once, in percent of the blocks in the part.
const MOST_JOINING: usize = 10;
/// Number of orders that are tried in parallel before their results are examined.
const SIDE_BY_SIDE: usize = 2;
/// Marks a block that has not been placed yet.
const NOT_YET: u64 = u64::MAX;

/// Step limits and settings of the search.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    /// Number of steps of all searches together.
    pub(super) steps: u64,
    /// Number of steps of one exact search in the last round.
    pub(super) exact_steps: u64,
    /// Number of steps of each lane of a separation in the last round.
    pub(super) separation_steps: u64,
    /// Number of separations that run in parallel.
    pub(super) lanes: usize,
    /// Divisor of the lower bound: if no plan is found, the capacity grows by this part of the
    /// bound, then by twice as much, and so on.
    pub(super) finest: u64,
    /// Number of rounds; each has four times the steps of the previous one for every search.
    pub(super) rounds: u64,
}

/// The result of the search.
pub(super) struct Hot {
    /// The smallest arena and its offsets, if any plan was found.
    pub(super) best: Option<(u64, Vec<u64>)>,
    /// Proven lower bound: no arena is smaller.
    pub(super) proven: u64,
}

struct Hunt<'a> {
    problem: &'a Problem,
    lists: &'a Neighbours,
    /// Size of the best arena known before.
    arena: u64,
    effort: Effort,
    round: u64,
    /// All blocks, sorted by each of [`ORDERS`].
    orders: Vec<Vec<u32>>,
    /// In the brief round: whether each block is live when memory is nearly full.
    near: Option<Vec<bool>>,
    found: Hot,
}

/// Places the blocks of full stretches within capacities from `target` to less than `arena`, with
/// searches of at most `effort.steps` in total, and all other blocks around them. For problems
/// decided by intervals, without pinned blocks.
pub(super) fn hot(problem: &Problem, lists: &Neighbours, target: u64, arena: u64, effort: Effort) -> Hot {
    let (mut hunt, parts) = Hunt::new(problem, lists, target, arena, effort);
    for round in 0..effort.rounds {
        let share = 1 << (2 * (effort.rounds - 1 - round));
        hunt.round = round;
        hunt.effort.exact_steps = effort.exact_steps / share;
        hunt.effort.separation_steps = effort.separation_steps / share;
        hunt.all(&parts);
        if hunt.is_over() {
            break;
        }
    }
    hunt.found
}

/// The same in a single cheap round: blocks that are never live when memory is nearly full are
/// placed once, at the end. Returns a plan within `target`, if one is found.
pub(super) fn briefly_hot(
    problem: &Problem,
    lists: &Neighbours,
    target: u64,
    arena: u64,
    effort: Effort,
) -> Option<Vec<u64>> {
    let (mut hunt, parts) = Hunt::new(problem, lists, target, arena, effort);
    let least = problem.bound / 100 * NEARLY_FULL;
    hunt.near = Some(peak_load(problem).iter().map(|&peak| peak >= least).collect());
    hunt.all(&parts);
    hunt.found.best.filter(|(arena, _)| *arena <= target).map(|(_, offsets)| offsets)
}

/// A time for each instant in which full stretches count most, so that blocks that are live during
/// them for long are placed first.
fn full_times(live: &[u64], least: u64) -> Vec<u64> {
    let mut times = vec![0];
    times.extend(live.iter().scan(0, |time, &live| {
        *time += if live >= least { FULL_STRETCH } else { 1 };
        Some(*time)
    }));
    times
}

impl<'a> Hunt<'a> {
    /// Prepares the search: returns it with the parts to pack, in order, and the times of each.
    fn new(
        problem: &'a Problem,
        lists: &'a Neighbours,
        target: u64,
        arena: u64,
        effort: Effort,
    ) -> (Self, Vec<(Part, Vec<u64>)>) {
        let (peaks, live) = (peak_load(problem), live_sums(problem));
        let mut parts: Vec<(Part, Vec<u64>)> = Vec::new();
        for full in FULL {
            let least = problem.bound / 100 * full;
            let blocks: Vec<u32> = (0..narrow(problem.len())).filter(|&at| peaks[at as usize] >= least).collect();
            // If most blocks are live in full stretches, they are not few.
            if blocks.len() > if parts.is_empty() { MOST_BLOCKS } else { MOST_IN_PART } {
                break;
            }
            if parts.last().is_none_or(|(part, _)| part.blocks.len() < blocks.len()) {
                let times = full_times(&live, least);
                parts.extend(Part::new(problem, &times, blocks).map(|part| (part, times)));
            }
        }
        let found = Hot { best: None, proven: target };
        let orders = ORDERS.par_iter().map(|&(order, _)| ordered(problem, order)).collect();
        (Self { problem, lists, arena, effort, round: 0, orders, near: None, found }, parts)
    }

    fn least_arena(&self) -> u64 {
        self.found.best.as_ref().map_or(self.arena, |(arena, _)| *arena)
    }

    fn is_over(&self) -> bool {
        self.effort.steps == 0 || self.least_arena() <= self.found.proven
    }

    /// Packs one part after another, each starting from what is already placed.
    fn all(&mut self, parts: &[(Part, Vec<u64>)]) {
        let mut capacity = self.found.proven;
        let mut before = vec![NOT_YET; self.problem.len()];
        for (part, times) in parts {
            let mut more = self.problem.bound / self.effort.finest.max(1) + 1;
            while capacity < self.least_arena() && !self.is_over() {
                match self.packed(part, capacity, &before) {
                    Outcome::Fits(offsets) => {
                        before = self.joined(part, times, &offsets, capacity);
                        break;
                    }
                    Outcome::Impossible => capacity = self.found.proven,
                    Outcome::Unknown => {
                        capacity += more;
                        more *= 2;
                    }
                }
            }
        }
    }

    fn packed(&mut self, part: &Part, capacity: u64, before: &[u64]) -> Outcome {
        let (outcome, taken) = part.packed(capacity, before, &self.effort, self.round);
        self.effort.steps = self.effort.steps.saturating_sub(taken);
        if outcome == Outcome::Impossible {
            // A part counts in its own units, each of which is a multiple of the whole problem's
            // unit.
            let unit = part.problem.unit;
            self.found.proven = self.found.proven.max((capacity / unit + 1) * unit);
        }
        outcome
    }

    /// Places all other blocks around a part. Those that end above the capacity join the part as
    /// long as it can be packed with them. Returns the offsets of the final part.
    fn joined(&mut self, part: &Part, times: &[u64], offsets: &[u64], capacity: u64) -> Vec<u64> {
        let count = self.problem.len();
        let stand = |blocks: &[u32], offsets: &[u64]| {
            let mut stand = vec![NOT_YET; count];
            blocks.iter().zip(offsets).for_each(|(&block, &offset)| stand[block as usize] = offset);
            stand
        };
        let mut blocks = part.blocks.clone();
        let mut stands = stand(&blocks, offsets);
        for _ in 0..MOST_JOINS {
            let high = self.around(&stands, capacity);
            if high.is_empty() || high.len() * 100 > blocks.len() * MOST_JOINING || self.is_over() {
                break;
            }
            let mut more = blocks.clone();
            more.extend(high);
            let Some(part) = Part::new(self.problem, times, more) else { break };
            let Outcome::Fits(offsets) = self.packed(&part, capacity, &stands) else { break };
            blocks = part.blocks;
            stands = stand(&blocks, &offsets);
        }
        stands
    }

    /// Places all other blocks around those already placed and returns the ones that end above the
    /// capacity.
    fn around(&mut self, placed: &[u64], capacity: u64) -> Vec<u32> {
        match self.near.take() {
            Some(near) => {
                let high = self.briefly_around(&near, placed, capacity);
                self.near = Some(near);
                high
            }
            None => self.fully_around(placed, capacity),
        }
    }

    /// Places first the blocks that are live when memory is nearly full, and all others only if
    /// these find room.
    fn briefly_around(&mut self, near: &[bool], placed: &[u64], capacity: u64) -> Vec<u32> {
        let problem = self.problem;
        let mut least: Option<(Vec<u32>, Vec<u64>)> = None;
        for (order, (_, fit)) in self.orders.iter().zip(ORDERS) {
            let order: Vec<u32> = order.iter().copied().filter(|&at| near[at as usize]).collect();
            let offsets = place_rest(problem, self.lists, placed.to_vec(), &order, fit);
            let is_high = |&at: &u32| offsets[at as usize] + problem.size[at as usize] > capacity;
            let high: Vec<u32> = order.into_iter().filter(is_high).collect();
            if least.as_ref().is_none_or(|(least, _)| high.len() < least.len()) {
                least = Some((high, offsets));
            }
            if least.as_ref().is_some_and(|(high, _)| high.is_empty()) {
                break;
            }
        }
        let Some((high, offsets)) = least else { return Vec::new() };
        if !high.is_empty() {
            return high;
        }
        let offsets = place_rest(problem, self.lists, offsets, &self.orders[0], ORDERS[0].1);
        let high = high_above(problem, &offsets, capacity);
        let found = [(problem.arena(&offsets), offsets)];
        self.found.best = self.found.best.take().into_iter().chain(found).min_by_key(|(arena, _)| *arena);
        high
    }

    fn fully_around(&mut self, placed: &[u64], capacity: u64) -> Vec<u32> {
        let problem = self.problem;
        let mut plans: Vec<(u64, Vec<u64>)> = Vec::new();
        for (orders, fits) in self.orders.chunks(SIDE_BY_SIDE).zip(ORDERS.chunks(SIDE_BY_SIDE)) {
            plans.par_extend(orders.par_iter().zip(fits).map(|(order, &(_, fit))| {
                let offsets = place_rest(problem, self.lists, placed.to_vec(), order, fit);
                (problem.arena(&offsets), offsets)
            }));
            // No other order can be better.
            if plans.iter().any(|(arena, _)| *arena <= self.found.proven) {
                break;
            }
        }
        let high = plans.iter().map(|(_, offsets)| high_above(problem, offsets, capacity));
        let least = high.min_by_key(Vec::len).unwrap_or_default();
        self.found.best = self.found.best.take().into_iter().chain(plans).min_by_key(|(arena, _)| *arena);
        least
    }
}

/// The blocks that end above a capacity.
fn high_above(problem: &Problem, offsets: &[u64], capacity: u64) -> Vec<u32> {
    let is_high = |&at: &u32| offsets[at as usize] + problem.size[at as usize] > capacity;
    (0..narrow(problem.len())).filter(is_high).collect()
}

#[cfg(test)]
mod tests {
    use super::{Effort, briefly_hot, hot};
    use crate::memory::check_offsets::check_offsets;
    use crate::memory::problem::Problem;
    use crate::memory::separate::Dice;
    use crate::memory::tiling::planted::{HEIGHT, planted};
    use crate::memory::{Block, Buffer};
    use proptest::prelude::*;

    const EFFORT: Effort = Effort {
        steps: 50_000_000,
        exact_steps: 10_000_000,
        separation_steps: 1_000_000,
        lanes: 2,
        finest: 2000,
        rounds: 2,
    };

    fn block(id: usize, lower: u64, upper: u64, size: u64) -> Block {
        Block::from(&Buffer { id: id as u64, lower, upper, size, align: 1 })
    }

    /// Verifies the best plan; returns its arena and the proven lower bound.
    fn planned(blocks: &[Block]) -> (u64, u64) {
        let problem = Problem::new(blocks, true).expect("a problem");
        let lists = problem.neighbours(blocks, None).expect("lists");
        let found = hot(&problem, &lists, problem.bound, u64::MAX, EFFORT);
        let (arena, units) = found.best.expect("any capacity is below the arena given");
        let offsets: Vec<u64> = units.iter().map(|unit| unit * problem.unit).collect();
        assert_eq!(check_offsets(blocks, &offsets, arena * problem.unit, None), Ok(()));
        (arena * problem.unit, found.proven * problem.unit)
    }

    /// Verifies the brief plan, if there is one, and returns its arena.
    fn briefly_planned(blocks: &[Block]) -> Option<u64> {
        let problem = Problem::new(blocks, true).expect("a problem");
        let lists = problem.neighbours(blocks, None).expect("lists");
        let units = briefly_hot(&problem, &lists, problem.bound, u64::MAX, EFFORT)?;
        let offsets: Vec<u64> = units.iter().map(|unit| unit * problem.unit).collect();
        let arena = problem.arena(&units) * problem.unit;
        assert_eq!(check_offsets(blocks, &offsets, arena, None), Ok(()));
        Some(arena)
    }

    #[test]
    fn a_full_stretch_among_many_that_are_not_is_packed_whole() {
        for seed in 1..=5 {
            // Full from 0 to a million, at most half full after that.
            let mut blocks = planted(40, 0, seed);
            let mut dice = Dice::new(seed);
            for id in blocks.len()..400 {
                let lower = 1_000_000 + dice.roll() % 1_000_000;
                blocks.push(block(id, lower, lower + 1 + dice.roll() % 20_000, 1 + dice.roll() % (HEIGHT / 12)));
            }
            assert_eq!(planned(&blocks), (HEIGHT, HEIGHT), "seed {seed}");
            assert_eq!(briefly_planned(&blocks), Some(HEIGHT), "seed {seed}");
        }
    }

    proptest! {
        #[test]
        fn what_is_proven_is_never_above_a_plan(
            lives in prop::collection::vec((0_u64..12, 1_u64..6, 1_u64..9), 1..25),
        ) {
            let blocks: Vec<Block> =
                lives.iter().enumerate().map(|(id, &(at, long, size))| block(id, at, at + long, size)).collect();
            let (arena, proven) = planned(&blocks);
            prop_assert!(proven <= arena);
            if let Some(brief) = briefly_planned(&blocks) {
                prop_assert!(brief == proven);
            }
        }
    }
}
