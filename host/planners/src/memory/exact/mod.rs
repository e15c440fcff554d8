//! Exact search within a capacity, for small hard problems: a depth-first search over plans in
//! which every block lies at 0 or on another block.
//!
//! Of the blocks that may lie lowest, one is tried at that place (`order` says which). If no plan
//! has it there, it must lie on another block that is still to be placed. The consequences for all
//! other blocks are derived section by section (`state`). A branch ends if the remaining blocks of
//! some section have no room above the lowest place open to them; if only one of them can be the
//! first, the others lie on it. A dead end names the placed blocks that cause it, so that the
//! search does not try other places for blocks that have nothing to do with it. Parts that are
//! separate in time are placed one by one, and parts found impossible are remembered (`descent`).
//! Many short trials with different orders, run in parallel, find plans that one long search does
//! not.
//!
//! Sources of the ideas: Moffitt, "MiniMalloc: a lightweight memory allocator for
//! hardware-accelerated machine learning" (ASPLOS 2023), for the sections, the order from below and
//! the parts; Carlier and Pinson, "An algorithm for solving the job-shop problem" (1989), for which
//! blocks can be the first.

mod descent;
mod order;
mod sections;
mod sets;
mod state;

use std::collections::HashSet;

use rayon::prelude::*;

use super::problem::{Neighbours, Problem};
use descent::{Descent, Verdict};
use order::{CHOICES, Choice, Disputes, RANKS, Rank, ranks};
use state::{Setting, State};

/// The search runs only for problems with at most this many blocks; each block makes the recursion
/// two calls deeper.
pub(super) const MOST_BLOCKS: usize = 700;

/// Minimum number of steps of each trial of the first generation.
const FIRST_TRIAL: u64 = 500_000;
/// Greatest number of impossible parts that are remembered.
const MOST_KNOWN: usize = 1 << 20;

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Offsets of a plan within the capacity.
    Fits(Vec<u64>),
    /// No plan fits into the capacity.
    Impossible,
    /// The steps ran out.
    Unknown,
}

/// Searches for a plan within `capacity` by a series of trials, some in parallel. Each generation
/// of trials perturbs the orders, depending on `seed`, and may take more steps than the one before.
/// The second value is the number of steps taken: blocks and sections examined.
pub(super) fn exact(
    problem: &Problem,
    lists: &Neighbours,
    capacity: u64,
    most_steps: u64,
    seed: u64,
) -> (Outcome, u64) {
    let setting = Setting::new(problem, lists, capacity);
    // A descent without backtracking examines everything that is left once for each block.
    let spans: u64 = setting.sections.span.iter().map(|&(first, end)| u64::from(end - first)).sum();
    let mut allowance = (spans.saturating_mul(problem.len() as u64) / 2).max(FIRST_TRIAL);
    let mut known = HashSet::new();
    let mut disputes = vec![Disputes::new(problem.len()); RANKS.len()];
    let mut spent = 0;
    for generation in 0.. {
        for choice in CHOICES {
            let allowed = allowance.min(most_steps.saturating_sub(spent) / 4 + 1);
            let trial = |(&rank, (disputes, lane)): (&Rank, (&Disputes, u64))| {
                let seed = (seed << 32) + generation * 4 + lane;
                let mut descent = Descent {
                    setting: &setting,
                    state: State::new(&setting),
                    choice,
                    rank: ranks(problem, rank, generation, seed),
                    disputes: disputes.clone(),
                    most_steps: allowed,
                    known: &known,
                    found: HashSet::new(),
                    most_found: (MOST_KNOWN - known.len()) / RANKS.len(),
                    #[cfg(test)]
                    dead_ends: Vec::new(),
                };
                let verdict = descent.run();
                (verdict, descent)
            };
            let lanes = disputes.par_iter().zip([0, 1, 2, 3]);
            let trials: Vec<_> = RANKS.par_iter().zip(lanes).map(trial).collect();
            let trials = trials.into_iter().map(|(verdict, descent)| {
                let Descent { state, disputes, found, .. } = descent;
                (verdict, state.steps, state.low, disputes, found)
            });
            let trials: Vec<_> = trials.collect();
            spent += trials.iter().map(|(_, steps, ..)| steps).sum::<u64>();
            for ((verdict, _, offsets, after, found), disputes) in trials.into_iter().zip(&mut disputes) {
                match verdict {
                    Verdict::Fits => return (Outcome::Fits(offsets), spent),
                    Verdict::Impossible => return (Outcome::Impossible, spent),
                    Verdict::OutOfSteps => {}
                }
                known.extend(found);
                if choice == Choice::Disputed {
                    *disputes = after;
                    disputes.shrink();
                }
            }
            if spent >= most_steps {
                return (Outcome::Unknown, spent);
            }
        }
        allowance += allowance / 4;
    }
    (Outcome::Unknown, spent)
}

#[cfg(test)]
mod tests {
    use super::descent::DeadEnd;
    use super::{
        CHOICES, Choice, Descent, Disputes, HashSet, MOST_KNOWN, Outcome, RANKS, Rank, Setting, State, exact, ranks,
    };
    use crate::memory::check_offsets::check_offsets;
    use crate::memory::problem::{Problem, narrow};
    use crate::memory::{Block, Buffer};
    use proptest::prelude::*;

    fn searched(blocks: &[Block], capacity: u64, seed: u64) -> Outcome {
        searched_within(blocks, capacity, 50_000_000, seed)
    }

    fn searched_within(blocks: &[Block], capacity: u64, most_steps: u64, seed: u64) -> Outcome {
        let problem = Problem::new(blocks, true).expect("a problem");
        let lists = problem.neighbours(blocks, None).expect("lists");
        let (outcome, _) = exact(&problem, &lists, capacity / problem.unit, most_steps, seed);
        if let Outcome::Fits(units) = &outcome {
            let offsets: Vec<u64> = units.iter().map(|unit| unit * problem.unit).collect();
            assert_eq!(check_offsets(blocks, &offsets, capacity, None), Ok(()));
        }
        outcome
    }

    proptest! {
        #[test]
        fn what_fits_is_the_same_from_every_seed(
            lives in prop::collection::vec((0_u64..12, 1_u64..6, 1_u64..9), 1..14),
            above in 0_u64..4,
        ) {
            let block = |(id, &(lower, long, size)): (usize, &(u64, u64, u64))| {
                Block::from(&Buffer { id: id as u64, lower, upper: lower + long, size, align: 1 })
            };
            let blocks: Vec<Block> = lives.iter().enumerate().map(block).collect();
            let problem = Problem::new(&blocks, true).expect("a problem");
            let capacity = problem.bound * problem.unit + above;
            let fits = |seed| matches!(searched(&blocks, capacity, seed), Outcome::Fits(_));
            prop_assert_eq!(fits(0), fits(1));
            prop_assert_eq!(searched(&blocks, capacity, 2), searched(&blocks, capacity, 2));
        }
    }

    /// Whether some order stacks the blocks within the capacity, given those that already have an
    /// offset. Each block goes on top of the highest earlier block that is live together with it.
    /// Every plan that cannot be lowered is stacked by some order.
    fn is_stacked(problem: &Problem, capacity: u64, blocks: &[u32], offsets: &mut Vec<Option<u64>>) -> bool {
        let mut is_done = true;
        for &block in blocks {
            let at = block as usize;
            if offsets[at].is_some() {
                continue;
            }
            is_done = false;
            let beneath = (0..problem.len()).filter(|&other| problem.meet(at, other));
            let offset = beneath.filter_map(|other| Some(offsets[other]? + problem.size[other])).max().unwrap_or(0);
            offsets[at] = Some(offset);
            let fits = offset + problem.size[at] <= capacity && is_stacked(problem, capacity, blocks, offsets);
            offsets[at] = None;
            if fits {
                return true;
            }
        }
        is_done
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn a_plan_is_found_where_any_order_gives_one(
            lives in prop::collection::vec((0_u64..7, 1_u64..5, 1_u64..7), 1..8),
            above in 0_u64..3,
            seed in 0_u64..3,
        ) {
            let block = |(id, &(lower, long, size)): (usize, &(u64, u64, u64))| {
                Block::from(&Buffer { id: id as u64, lower, upper: lower + long, size, align: 1 })
            };
            let blocks: Vec<Block> = lives.iter().enumerate().map(block).collect();
            let problem = Problem::new(&blocks, true).expect("a problem");
            let capacity = problem.bound + above;
            let all: Vec<u32> = (0..narrow(problem.len())).collect();
            let is_there = is_stacked(&problem, capacity, &all, &mut vec![None; problem.len()]);
            match searched(&blocks, capacity * problem.unit, seed) {
                Outcome::Fits(_) => prop_assert!(is_there),
                Outcome::Impossible => prop_assert!(!is_there),
                Outcome::Unknown => prop_assert!(false, "out of steps"),
            }
        }
    }

    /// Blocks that fit into `height`: the pieces of a rectangle after cuts. Each cut names a piece,
    /// a direction and a position. Some blocks are one unit lower than their place.
    fn cut_rectangle(time: u64, height: u64, cuts: Vec<(usize, bool, u64)>, idle: Vec<usize>) -> Vec<Block> {
        // Begin, end, bottom and top of each piece.
        let mut pieces = vec![[0, time, 0, height]];
        for (which, is_in_time, at) in cuts {
            let which = which % pieces.len();
            let mut other = pieces[which];
            let (from, to) = if is_in_time { (0, 1) } else { (2, 3) };
            let length = other[to] - other[from];
            if length > 1 {
                let at = other[from] + 1 + at % (length - 1);
                pieces[which][to] = at;
                other[from] = at;
                pieces.push(other);
            }
        }
        for which in idle {
            let which = which % pieces.len();
            let [from, to, bottom, top] = pieces[which];
            pieces[which] = if top - bottom > 1 { [from, to, bottom, top - 1] } else { [from, to, bottom, top] };
        }
        let block = |(id, &[lower, upper, bottom, top]): (usize, &[u64; 4])| {
            Block::from(&Buffer { id: id as u64, lower, upper, size: top - bottom, align: 1 })
        };
        pieces.iter().enumerate().map(block).collect()
    }

    /// Number of dead ends of one descent that are checked.
    const MOST_DEAD_ENDS: usize = 2000;
    /// Greatest number of blocks that are stacked in all orders.
    const MOST_STACKED: usize = 10;

    /// All dead ends of one descent that completes.
    fn dead_ends(setting: &Setting<'_>, choice: Choice, rank: Rank, seed: u64) -> Vec<DeadEnd> {
        let problem = setting.problem;
        let mut descent = Descent {
            setting,
            state: State::new(setting),
            choice,
            rank: ranks(problem, rank, 3, seed),
            disputes: Disputes::new(problem.len()),
            most_steps: 1_000_000,
            known: &HashSet::new(),
            found: HashSet::new(),
            most_found: MOST_KNOWN,
            dead_ends: Vec::new(),
        };
        descent.run();
        descent.dead_ends
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        // If a reason leaves out a block, it names too few: some plan has all the named blocks
        // where they are. Rectangles cut into pieces are tight, so dead ends have long reasons.
        #[test]
        fn a_dead_end_follows_from_the_placed_blocks_that_it_names(
            cuts in prop::collection::vec((0_usize..90, prop::bool::ANY, 0_u64..12), 8..24),
            idle in prop::collection::vec(0_usize..90, 0..4),
            above in 0_u64..2,
            choice in prop::sample::select(CHOICES.to_vec()),
            rank in prop::sample::select(RANKS.to_vec()),
            seed in 0_u64..100,
        ) {
            let blocks = cut_rectangle(12, 12, cuts, idle);
            let problem = Problem::new(&blocks, true).expect("a problem");
            let lists = problem.neighbours(&blocks, None).expect("lists");
            let capacity = (12 / problem.unit).min(problem.bound + above);
            let setting = Setting::new(&problem, &lists, capacity);
            for reason in dead_ends(&setting, choice, rank, seed).into_iter().take(MOST_DEAD_ENDS) {
                let mut offsets = vec![None; problem.len()];
                reason.iter().for_each(|&(block, offset)| offsets[block] = Some(offset));
                let rest = |&at: &u32| offsets[at as usize].is_none();
                let rest: Vec<u32> = (0..narrow(problem.len())).filter(rest).collect();
                if rest.len() <= MOST_STACKED {
                    let is_there = is_stacked(&problem, capacity, &rest, &mut offsets);
                    prop_assert!(!is_there, "all others can be placed on {:?}", reason);
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        // Small integers often coincide, so most orders end in dead ends.
        #[test]
        fn a_rectangle_that_was_cut_into_pieces_is_never_impossible(
            cuts in prop::collection::vec((0_usize..90, prop::bool::ANY, 0_u64..48), 20..90),
            idle in prop::collection::vec(0_usize..90, 0..5),
            seed in 0_u64..3,
        ) {
            const HEIGHT: u64 = 32;
            let blocks = cut_rectangle(48, HEIGHT, cuts, idle);
            prop_assert_ne!(searched_within(&blocks, HEIGHT, 4_000_000, seed), Outcome::Impossible);
        }
    }

    #[test]
    fn less_than_what_lives_at_once_is_impossible() {
        let block = |id, lower, upper, size| Block::from(&Buffer { id, lower, upper, size, align: 1 });
        let blocks = [block(0, 0, 2, 5), block(1, 1, 3, 4)];
        assert_eq!(searched(&blocks, 8, 0), Outcome::Impossible);
        assert!(matches!(searched(&blocks, 9, 0), Outcome::Fits(_)));
    }
}
