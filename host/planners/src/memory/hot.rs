//! The fullest stretches of time first. Where most memory lives only now and then, the blocks that
//! live there decide how small an arena can be: they are few, are placed by themselves, with an
//! exact search where a plain order does not do, and all others find room around them. A search
//! that finds no plan for them proves that there is none for all.

use rayon::prelude::*;

use super::block::Block;
use super::exact::{MOST_BLOCKS, Outcome, exact};
use super::greedy::{Fit, Order, ordered, peak_load, place_in_order, place_rest};
use super::problem::{Neighbours, Problem, narrow};

/// Live sums from which on a stretch of time counts as full, in parts of 100 of the greatest.
const FULL: [u64; 8] = [97, 95, 92, 90, 85, 80, 70, 60];
/// Searches that the steps are shared out to.
const SEARCHES: u64 = 6;
/// Orders and fits in which blocks are placed, among others or around them.
const ORDERS: [(Order, Fit); 6] = [
    (Order::Size, Fit::First),
    (Order::Size, Fit::Best),
    (Order::Area, Fit::First),
    (Order::Load, Fit::First),
    (Order::Load, Fit::Best),
    (Order::Lifetime, Fit::First),
];

/// What came of it.
pub(super) struct Hot {
    /// The smallest arena and its offsets.
    pub(super) best: Option<(u64, Vec<u64>)>,
    /// No arena is smaller than this.
    pub(super) proven: u64,
}

/// Some blocks of a problem as one of their own.
struct Part {
    problem: Problem,
    lists: Neighbours,
    /// Their places in the whole problem.
    blocks: Vec<u32>,
}

impl Part {
    fn new(whole: &Problem, times: &[u64], blocks: Vec<u32>) -> Option<Self> {
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

    /// Offsets within `capacity` units of the whole, or that there are none, and the steps taken.
    fn packed(&self, capacity: u64, steps: u64) -> (Outcome, u64) {
        let capacity = capacity / self.problem.unit;
        for (order, fit) in ORDERS {
            let offsets = place_in_order(&self.problem, &self.lists, &ordered(&self.problem, order), fit);
            if self.problem.arena(&offsets) <= capacity {
                return (Outcome::Fits(offsets), 0);
            }
        }
        exact(&self.problem, &self.lists, capacity, steps)
    }
}

/// Places the blocks of full stretches within capacities from `target` up to below `arena`, with
/// exact searches of at most `steps` together, and the others around them. For plain problems.
pub(super) fn hot(problem: &Problem, lists: &Neighbours, target: u64, arena: u64, mut steps: u64) -> Hot {
    let (peaks, times) = (peak_load(problem), problem.times());
    let mut found = Hot { best: None, proven: target };
    let (mut before, each) = (0, steps / SEARCHES);
    for full in FULL {
        if steps == 0 {
            break;
        }
        let least = problem.bound / 100 * full;
        let blocks: Vec<u32> = (0..narrow(problem.len())).filter(|&at| peaks[at as usize] >= least).collect();
        if blocks.len() == before || blocks.len() > MOST_BLOCKS {
            continue;
        }
        before = blocks.len();
        let Some(part) = Part::new(problem, &times, blocks) else { continue };
        let (mut capacity, mut more) = (found.proven, problem.bound / 1000 + 1);
        while capacity < found.best.as_ref().map_or(arena, |(arena, _)| *arena) && steps > 0 {
            let (outcome, taken) = part.packed(capacity, each.min(steps));
            steps = steps.saturating_sub(taken);
            match outcome {
                Outcome::Fits(offsets) => {
                    around(problem, lists, &part, &offsets, &mut found);
                    break;
                }
                Outcome::Impossible => {
                    // A part counts in units of its own, of which each holds some of the whole.
                    found.proven = (capacity / part.problem.unit + 1) * part.problem.unit;
                    capacity = found.proven;
                }
                Outcome::Unknown => {
                    capacity += more;
                    more *= 2;
                }
            }
        }
        if found.best.as_ref().is_some_and(|(arena, _)| *arena <= found.proven) {
            break;
        }
    }
    found
}

/// Places all others around the blocks of a part.
fn around(problem: &Problem, lists: &Neighbours, part: &Part, offsets: &[u64], found: &mut Hot) {
    let mut placed = vec![u64::MAX; problem.len()];
    for (&block, &offset) in part.blocks.iter().zip(offsets) {
        placed[block as usize] = offset * part.problem.unit;
    }
    let plans = ORDERS.par_iter().map(|&(order, fit)| {
        let offsets = place_rest(problem, lists, placed.clone(), &ordered(problem, order), fit);
        (problem.arena(&offsets), offsets)
    });
    let plans: Vec<(u64, Vec<u64>)> = plans.collect();
    found.best = found.best.take().into_iter().chain(plans).min_by_key(|(arena, _)| *arena);
}

#[cfg(test)]
mod tests {
    use super::hot;
    use crate::memory::check_offsets::check_offsets;
    use crate::memory::problem::Problem;
    use crate::memory::separate::Dice;
    use crate::memory::tiling::planted::{HEIGHT, planted};
    use crate::memory::{Block, Buffer};
    use proptest::prelude::*;

    fn block(id: usize, lower: u64, upper: u64, size: u64) -> Block {
        Block::from(&Buffer { id: id as u64, lower, upper, size, align: 1 })
    }

    /// Arena of the best plan, after it was checked, and what was proven.
    fn planned(blocks: &[Block]) -> (u64, u64) {
        let problem = Problem::new(blocks, true).expect("a problem");
        let lists = problem.neighbours(blocks, None).expect("lists");
        let found = hot(&problem, &lists, problem.bound, u64::MAX, 50_000_000);
        let (arena, units) = found.best.expect("any capacity is below the arena given");
        let offsets: Vec<u64> = units.iter().map(|unit| unit * problem.unit).collect();
        assert_eq!(check_offsets(blocks, &offsets, arena * problem.unit, None), Ok(()));
        (arena * problem.unit, found.proven * problem.unit)
    }

    #[test]
    fn a_full_stretch_among_many_that_are_not_is_packed_whole() {
        for seed in 1..=5 {
            // Full from 0 to a million, half full behind it.
            let mut blocks = planted(40, 0, seed);
            let mut dice = Dice::new(seed);
            for id in blocks.len()..400 {
                let lower = 1_000_000 + dice.roll() % 1_000_000;
                blocks.push(block(id, lower, lower + 1 + dice.roll() % 20_000, 1 + dice.roll() % (HEIGHT / 12)));
            }
            assert_eq!(planned(&blocks), (HEIGHT, HEIGHT), "seed {seed}");
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
        }
    }
}
