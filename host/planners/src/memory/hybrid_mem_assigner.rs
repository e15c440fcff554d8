//! `HybridMemAssigner`: runs several assigners in parallel, keeps the smallest arena, continues the
//! search from it as far as the effort allows, and returns only plans that the checker has
//! verified. Source: document 003 §5.4, facts 2.3.

use rayon::prelude::*;

use super::binary_block_mem_assigner::BinaryBlockMemAssigner;
use super::block::{AssignError, AssignOptions, Block, MemoryEffort, Plan, Watch};
use super::conflicts::Conflicts;
use super::greedy::{Fit, Order, ordered, place_in_order};
use super::hand_over::exact_share;
use super::max_block_mem_assigner::MaxBlockMemAssigner;
use super::problem::{Neighbours, Problem};
use super::search;
use super::sweep::{SweepOrder, sweep};
use crate::memory::check_offsets::check_offsets;

/// If more pairs than this are live together, the assigners that list the pairs do not run,
/// provided that the intervals alone suffice.
const LISTED_PAIRS: usize = 12_000_000;
/// The same limit at effort `fast`: 100,000 buffers take less than a second.
const LISTED_PAIRS_FAST: usize = 4_000_000;
/// The same limit at effort `max`.
const LISTED_PAIRS_MAX: usize = 60_000_000;

/// Number of assigners with lists that run in parallel before their results are examined.
const SIDE_BY_SIDE: usize = 2;

/// The assigner that runs all others.
#[derive(Debug, Clone, Copy, Default)]
pub struct HybridMemAssigner {
    options: AssignOptions,
}

/// Offsets in units, and the name of the assigner that found them.
type Candidate = (Vec<u64>, &'static str);

/// An assigner that needs no initial plan.
#[derive(Debug, Clone, Copy)]
enum Assigner {
    Max,
    Binary(BinaryBlockMemAssigner),
    Sweep(SweepOrder, &'static str),
    Greedy(Order, Fit, &'static str),
}

/// The assigner whose plan is preferred among plans of equal size.
const FIRST: Assigner = Assigner::Binary(BinaryBlockMemAssigner::DEFAULT);

impl Assigner {
    const SWEEPS: [Self; 3] = [
        Self::Sweep(SweepOrder::Size, "sweep-by-size"),
        Self::Sweep(SweepOrder::Lifetime, "sweep-by-lifetime"),
        Self::Sweep(SweepOrder::Companion, "sweep-by-companion"),
    ];

    const GREEDY: [Self; 6] = [
        Self::Greedy(Order::Size, Fit::Best, "greedy-by-size"),
        Self::Greedy(Order::Size, Fit::First, "greedy-by-size-first-fit"),
        Self::Greedy(Order::Lifetime, Fit::Best, "greedy-by-lifetime"),
        Self::Greedy(Order::Area, Fit::Best, "greedy-by-area"),
        Self::Greedy(Order::Load, Fit::Best, "greedy-by-load"),
        Self::Greedy(Order::Load, Fit::First, "greedy-by-load-first-fit"),
    ];

    /// Number of greedy assigners, at the front of the list, that use only the size.
    const BY_SIZE: usize = 2;

    /// Whether it can handle the problem at all.
    fn serves(self, problem: &Problem, neighbours: Option<&Neighbours>) -> bool {
        match self {
            Self::Max | Self::Binary(_) => !problem.pinned(),
            Self::Sweep(..) => problem.by_interval && !problem.pinned(),
            Self::Greedy(..) => neighbours.is_some(),
        }
    }

    fn run(self, problem: &Problem, neighbours: Option<&Neighbours>) -> Option<Candidate> {
        match self {
            Self::Max => Some((MaxBlockMemAssigner.offsets(problem, neighbours)?, MaxBlockMemAssigner::NAME)),
            Self::Binary(assigner) => Some((assigner.offsets(problem, neighbours)?, assigner.name())),
            Self::Sweep(order, name) => Some((sweep(problem, order), name)),
            Self::Greedy(order, fit, name) => {
                Some((place_in_order(problem, neighbours?, &ordered(problem, order), fit), name))
            }
        }
    }
}

impl HybridMemAssigner {
    /// Makes the assigner with the options of the call.
    #[must_use]
    pub fn new(options: AssignOptions) -> Self {
        Self { options }
    }

    /// Returns the smallest plan found; among equals, the one of the assigner that runs first.
    ///
    /// # Errors
    /// Fails as [`crate::memory::assign_blocks`] does.
    pub fn assign(
        &self,
        blocks: &[Block],
        conflicts: Option<&dyn Conflicts>,
        watch: &Watch<'_>,
    ) -> Result<Plan, AssignError> {
        let problem = Problem::new(blocks, conflicts.is_none())?;
        let lower_bound = super::lower_bound::lower_bound(blocks)?;
        if problem.len() == 0 {
            return finish(blocks, conflicts, &problem, (Vec::new(), "none"), lower_bound);
        }
        stop(watch)?;
        // A plan at the lower bound is optimal, and no other assigner has to run. Assigners that
        // need no lists of the pairs that are live together run first.
        let is_plain = conflicts.is_none() && !problem.pinned();
        let mut best = None;
        if is_plain {
            for group in self.unlisted() {
                best = least(&problem, best, &group, None);
                if let Some(best) = best.as_ref().filter(|(offsets, _)| problem.arena(offsets) <= problem.bound) {
                    return finish(blocks, conflicts, &problem, best.clone(), lower_bound);
                }
                stop(watch)?;
            }
        }
        let most_pairs = match self.options.effort {
            MemoryEffort::Max => LISTED_PAIRS_MAX,
            MemoryEffort::Default => LISTED_PAIRS,
            MemoryEffort::Fast => LISTED_PAIRS_FAST,
        };
        let listed = conflicts.is_some() || problem.pinned() || problem.pairs_by_interval() <= most_pairs;
        let neighbours = if listed { Some(problem.neighbours(blocks, conflicts)?) } else { None };
        check_pins(blocks, &problem, neighbours.as_ref())?;
        if !is_plain {
            for group in self.unlisted() {
                best = least(&problem, best, &group, neighbours.as_ref());
            }
        }
        if let (true, Some(lists), Some((offsets, _))) = (is_plain, neighbours.as_ref(), best.as_ref())
            && let Some(found) = search::at_once(&problem, lists, problem.arena(offsets), &self.options)
        {
            return finish(blocks, conflicts, &problem, found, lower_bound);
        }
        for group in self.listed(&problem) {
            if best.as_ref().is_some_and(|(offsets, _)| problem.arena(offsets) <= problem.bound) {
                break;
            }
            stop(watch)?;
            best = least(&problem, best, group, neighbours.as_ref());
        }
        // With pins or without lists, either greedy or sweep assigners remain, so at least one can
        // handle the problem.
        let best = best.ok_or(AssignError::TooMany { what: "blocks", count: problem.len() })?;
        stop(watch)?;
        let best = match neighbours {
            Some(lists) if self.options.effort != MemoryEffort::Fast => {
                search::improve(&problem, &lists, best, &self.options, watch)
            }
            _ => best,
        };
        stop(watch)?;
        finish(blocks, conflicts, &problem, best, lower_bound)
    }

    /// Groups of assigners that need no lists of the pairs that are live together if intervals
    /// decide.
    fn unlisted(&self) -> [Vec<Assigner>; 2] {
        let mut others = vec![Assigner::Max];
        if self.options.memory_priority {
            others.extend(BinaryBlockMemAssigner::MEMORY_PRIORITY.map(Assigner::Binary));
        }
        others.extend(Assigner::SWEEPS);
        [vec![FIRST], others]
    }

    /// Groups of assigners that need these lists.
    fn listed(&self, problem: &Problem) -> impl Iterator<Item = &'static [Assigner]> {
        // If memory is handed over exactly, the searches start from that; the greedy orders that
        // take the most time and gain least then run only at effort `max`.
        let is_large = problem.len() > search::SMALL && problem.by_interval && !problem.pinned();
        let is_exact = is_large && exact_share(problem) >= search::WORTH_A_SWEEP;
        let is_short = self.options.effort == MemoryEffort::Default && is_exact;
        Assigner::GREEDY[..if is_short { Assigner::BY_SIZE } else { Assigner::GREEDY.len() }].chunks(SIDE_BY_SIDE)
    }
}

/// The smallest of `best` and the plans that the assigners of a group find in parallel; the first
/// among equals.
fn least(
    problem: &Problem,
    best: Option<Candidate>,
    group: &[Assigner],
    neighbours: Option<&Neighbours>,
) -> Option<Candidate> {
    let serving = group.par_iter().filter(|assigner| assigner.serves(problem, neighbours));
    let found: Vec<Option<Candidate>> = serving.map(|assigner| assigner.run(problem, neighbours)).collect();
    best.into_iter().chain(found.into_iter().flatten()).min_by_key(|(offsets, _)| problem.arena(offsets))
}

fn stop(watch: &Watch<'_>) -> Result<(), AssignError> {
    if (watch.cancel)() { Err(AssignError::Cancelled) } else { Ok(()) }
}

/// Checks that pinned blocks that are live together do not overlap.
fn check_pins(blocks: &[Block], problem: &Problem, neighbours: Option<&Neighbours>) -> Result<(), AssignError> {
    let Some(lists) = neighbours else { return Ok(()) };
    let range = |at: usize| {
        let block = &blocks[problem.origin[at]];
        block.fixed.map(|offset| (offset, offset.saturating_add(block.size), block.id))
    };
    for at in 0..problem.len() {
        let Some((from, to, first)) = range(at) else { continue };
        for &other in lists.of(at) {
            if let Some((other_from, other_to, second)) = range(other as usize)
                && from < other_to
                && other_from < to
            {
                return Err(AssignError::PinnedOverlap { first, second });
            }
        }
    }
    Ok(())
}

/// Converts the offsets to bytes for the caller's list and verifies them.
fn finish(
    blocks: &[Block],
    conflicts: Option<&dyn Conflicts>,
    problem: &Problem,
    (units, assigner): Candidate,
    lower_bound: u64,
) -> Result<Plan, AssignError> {
    let mut offsets: Vec<u64> = blocks.iter().map(|block| block.fixed.unwrap_or(0)).collect();
    for (&origin, &unit) in problem.origin.iter().zip(&units) {
        offsets[origin] = blocks[origin].fixed.unwrap_or(unit * problem.unit);
    }
    let mut arena = 0_u64;
    for (block, &offset) in blocks.iter().zip(&offsets).filter(|(block, _)| block.size > 0) {
        let end = super::lower_bound::rounded_size(block)?
            .checked_add(offset)
            .ok_or(AssignError::TooLarge { id: block.id })?;
        arena = arena.max(end);
    }
    // A block of size 0 may be pinned beyond what the others need.
    let reach = blocks.iter().filter_map(|block| block.fixed).max().unwrap_or(0).max(arena);
    check_offsets(blocks, &offsets, reach, conflicts).map_err(|error| AssignError::Refused { assigner, error })?;
    Ok(Plan { offsets, arena, lower_bound, assigner })
}
