//! Improves the best initial plan: runs searches in a fixed order, each within its step limit,
//! until the lower bound or the capacity is reached.

use rayon::prelude::*;

use super::band_choice::PRICES;
use super::band_order::{Way, band_order};
use super::block::{AssignOptions, MemoryEffort, Watch};
use super::clique::heavy_group;
use super::exact::{MOST_BLOCKS, Outcome, exact};
use super::greedy::{Fit, Order, ordered, place_rest};
use super::hand_over::{exact_share, hand_over};
use super::hot::{self, briefly_hot, hot};
use super::problem::{Neighbours, Problem};
use super::separate::Separation;
use super::tiling::{Effort, tiled};

/// Step limits and settings of the searches.
#[derive(Debug, Clone, Copy)]
struct Budget {
    /// Widths of the beams of [`hand_over`], in the order of their use.
    beams: &'static [usize],
    /// Number of leaves that all beams together may examine.
    beam_steps: u64,
    /// Widths of the beams of [`band_order`], each with the number of price sets to run.
    bands: &'static [(usize, usize)],
    /// Number of steps of all these beams together.
    band_steps: u64,
    /// Effort for the search around the fullest stretches of time.
    hot: hot::Effort,
    /// Effort for assembling pieces.
    tiling: Effort,
    /// Steps of the exact search: at the target, at each capacity above it before the separation,
    /// and at each after the separation.
    exact_steps: (u64, u64, u64),
    /// Number of neighbours that each lane of the separation may examine.
    lane_steps: u64,
    /// Number of separations with different seeds that run in parallel.
    lanes: u64,
    /// Whether lanes stop when they have used up their steps, rather than after all rounds.
    is_short: bool,
}

/// Percentage of exact hand-overs from which that packing is tried.
pub(super) const WORTH_A_SWEEP: usize = 25;
/// Percentage from which pieces are assembled at effort `max`, after all other packings.
const WORTH_LONG_TRIES: usize = 3;
/// Divisor of the steps around the fullest stretches: this part may be used before all other
/// searches.
const AT_ONCE: u64 = 8;
/// Steps of the exact search that runs before all other searches.
const SHORT_SEARCH: u64 = 100_000_000;
/// Number of leaves that the sweeps before that search may examine.
const SHORT_SWEEPS: u64 = 2_000_000;
/// Steps of all separations for each pair of blocks.
const PAIR_STEPS: u64 = 50_000;
/// Steps of all separations together if an order of bands or an exact search has left little to
/// gain.
const AFTER_OTHERS: u64 = 400_000_000;
/// No capacity is searched between two that differ by less than the lower bound divided by this.
const LEAST_GAP: u64 = 1000;
/// Name of plans that come from an order of bands.
const BAND_ORDER: &str = "band-order";
/// Name of plans that an exact search found.
const EXACT: &str = "exact";
/// A plan is near the target if it exceeds it by at most the target divided by this.
const NEAR: u64 = 25;
/// Name of plans made around the fullest stretches of time.
const HOT: &str = "fullest-first";
/// Name of plans assembled from pieces.
const TILING: &str = "tiling";
/// Greatest number of blocks of a small problem.
pub(super) const SMALL: usize = 3000;

impl Budget {
    /// Chooses limits by the effort and by the part of the arena that could still be saved.
    fn new(effort: MemoryEffort, problem: &Problem, arena: u64, target: u64) -> Self {
        let most = match (effort, problem.len() <= SMALL) {
            (MemoryEffort::Fast, _) => 0,
            (MemoryEffort::Default, _) => 6_000_000,
            (MemoryEffort::Max, false) => 350_000_000,
            (MemoryEffort::Max, true) => 2_000_000_000,
        };
        let lane_steps = match effort {
            // If less than a twentieth of the target can be saved, a quarter of the steps must do.
            MemoryEffort::Default => {
                let prize = (arena - target).saturating_mul(20) / target.max(1);
                if prize > 0 { most } else { most / 4 }
            }
            MemoryEffort::Fast | MemoryEffort::Max => most,
        };
        let (beams, beam_steps): (&'static [usize], u64) = match effort {
            MemoryEffort::Fast => (&[], 0),
            MemoryEffort::Default => (&[1, 4, 16], 1_500_000),
            MemoryEffort::Max => (&[1, 4, 16, 64], 60_000_000),
        };
        let (bands, band_steps): (&'static [(usize, usize)], u64) = match effort {
            MemoryEffort::Fast => (&[], 0),
            MemoryEffort::Default => (&[(1, 1), (4, 1)], 6_000_000),
            MemoryEffort::Max => (&[(1, 1), (4, 4), (16, 4)], 300_000_000),
        };
        let hot = match effort {
            MemoryEffort::Fast | MemoryEffort::Default => {
                let steps = (problem.len() as u64).saturating_mul(375).min(6_000_000);
                let steps = if effort == MemoryEffort::Fast { 0 } else { steps };
                hot::Effort { steps, exact_steps: 375_000, separation_steps: 200_000, lanes: 1, finest: 150, rounds: 1 }
            }
            MemoryEffort::Max => hot::Effort {
                steps: 1_500_000_000,
                exact_steps: 120_000_000,
                separation_steps: 40_000_000,
                lanes: 4,
                finest: 2000,
                rounds: 3,
            },
        };
        let tiling = match effort {
            MemoryEffort::Fast => Effort { most_blocks: 0, idle_steps: 0, retry_steps: 0, bands: &[], band_steps: 0 },
            MemoryEffort::Default => {
                let bands = &[(1, 1)];
                Effort { most_blocks: 30_000, idle_steps: 4_000_000, retry_steps: 0, bands, band_steps: 4_000_000 }
            }
            MemoryEffort::Max => {
                let bands = &[(1, 4), (4, 4)];
                let retry_steps = 100_000_000;
                Effort { most_blocks: 100_000, idle_steps: 60_000_000, retry_steps, bands, band_steps: 40_000_000 }
            }
        };
        let exact_steps = match effort {
            MemoryEffort::Fast => (0, 0, 0),
            MemoryEffort::Default => (4_000_000, 2_000_000, 0),
            MemoryEffort::Max => (400_000_000, 30_000_000, 250_000_000),
        };
        // A small problem soon shows what can be gained.
        let lane_steps =
            lane_steps.min((problem.len() as u64).saturating_mul(problem.len() as u64).saturating_mul(PAIR_STEPS));
        let lanes = if effort == MemoryEffort::Max && problem.len() <= SMALL { 4 } else { 2 };
        Self {
            beams,
            beam_steps,
            bands,
            band_steps,
            hot,
            tiling,
            exact_steps,
            lane_steps: lane_steps / lanes,
            lanes,
            is_short: effort != MemoryEffort::Max,
        }
    }
}

/// At effort `default`, a cheap plan within the target, tried before any other search uses the
/// lists: most large networks are full only in a few places. For problems decided by intervals,
/// without pinned blocks.
pub(super) fn at_once(
    problem: &Problem,
    lists: &Neighbours,
    arena: u64,
    options: &AssignOptions,
) -> Option<(Vec<u64>, &'static str)> {
    if options.effort != MemoryEffort::Default || problem.len() <= MOST_BLOCKS {
        return None;
    }
    let target = target(problem, options);
    let effort = Budget::new(options.effort, problem, arena, target).hot;
    let effort = hot::Effort { steps: effort.steps / AT_ONCE, ..effort };
    Some((briefly_hot(problem, lists, target, arena, effort)?, HOT))
}

/// The arena size at which the searches stop.
fn target(problem: &Problem, options: &AssignOptions) -> u64 {
    let wanted = options.capacity.map_or(0, |capacity| capacity / problem.unit);
    problem.bound.max(wanted).max(problem.pinned_top())
}

/// Returns the best of the initial plan and the plans that the searches find from it.
pub(super) fn improve(
    problem: &Problem,
    lists: &Neighbours,
    start: (Vec<u64>, &'static str),
    options: &AssignOptions,
    watch: &Watch<'_>,
) -> (Vec<u64>, &'static str) {
    let mut target = target(problem, options);
    let mut best = start;
    let arena = problem.arena(&best.0);
    if arena <= target {
        return best;
    }
    if !problem.by_interval {
        target = target.max(heavy_group(problem, lists));
        if arena <= target {
            return best;
        }
    }
    let budget = Budget::new(options.effort, problem, arena, target);
    let plain = problem.by_interval && !problem.pinned();
    // Many small problems are solved immediately by a narrow sweep or a short exact search.
    if plain && problem.len() <= MOST_BLOCKS && options.effort == MemoryEffort::Max {
        if exact_share(problem) >= WORTH_A_SWEEP {
            let budget = Budget { beams: &[1, 4], beam_steps: SHORT_SWEEPS, ..budget };
            best = handed_over(problem, lists, best, target, &budget, watch);
            if problem.arena(&best.0) <= target {
                return best;
            }
        }
        if let Outcome::Fits(found) = exact(problem, lists, target, SHORT_SEARCH, 0).0 {
            return (found, EXACT);
        }
    }
    let share = if plain { exact_share(problem) } else { 0 };
    if share >= WORTH_A_SWEEP {
        best = handed_over(problem, lists, best, target, &budget, watch);
        best = put_together(problem, best, target, &budget, watch);
        // After a good packing, the remaining gain justifies only a long search.
        let near = target + target / NEAR;
        if options.effort == MemoryEffort::Max || problem.arena(&best.0) > near {
            best = banded(problem, best, target, &budget, watch);
        }
    }
    if plain && problem.len() > MOST_BLOCKS && problem.arena(&best.0) > target && !(watch.cancel)() {
        let found = hot(problem, lists, target, problem.arena(&best.0), budget.hot);
        target = found.proven;
        if let Some((arena, offsets)) = found.best
            && arena < problem.arena(&best.0)
        {
            best = (offsets, HOT);
        }
    }
    if (WORTH_LONG_TRIES..WORTH_A_SWEEP).contains(&share) && options.effort == MemoryEffort::Max {
        best = put_together(problem, best, target, &budget, watch);
    }
    // After the separation, exact searches run again with more steps.
    let is_small = plain && problem.len() <= MOST_BLOCKS;
    let packed = best.clone();
    if is_small && problem.arena(&best.0) > target {
        best = searched_at_target(problem, lists, best, &mut target, &budget);
        best = searched(problem, lists, best, &mut target, budget.exact_steps.1, watch);
    }
    if problem.arena(&best.0) > target && !(watch.cancel)() {
        let most = match (best.1, budget.is_short) {
            (EXACT, true) => budget.lane_steps / 4,
            (EXACT, false) | (BAND_ORDER, _) => AFTER_OTHERS / budget.lanes,
            _ => u64::MAX,
        };
        let budget = Budget { lane_steps: budget.lane_steps.min(most), ..budget };
        // If an exact search has left no freedom, continue from the packing.
        let start = if packed.1 == BAND_ORDER { packed } else { best.clone() };
        let found = separated(problem, lists, start, target, &budget, watch);
        if problem.arena(&found.0) < problem.arena(&best.0) {
            best = found;
        }
    }
    if is_small && problem.arena(&best.0) > target {
        best = searched(problem, lists, best, &mut target, budget.exact_steps.2, watch);
    }
    best
}

/// Returns the better one of `best` and a plan assembled from pieces.
fn put_together(
    problem: &Problem,
    best: (Vec<u64>, &'static str),
    target: u64,
    budget: &Budget,
    watch: &Watch<'_>,
) -> (Vec<u64>, &'static str) {
    let arena = problem.arena(&best.0);
    if arena <= target || (watch.cancel)() {
        return best;
    }
    match tiled(problem, target, budget.tiling, watch) {
        Some((found, offsets)) if found < arena => (offsets, TILING),
        _ => best,
    }
}

/// Sweeps with wider and wider beams.
fn handed_over(
    problem: &Problem,
    lists: &Neighbours,
    mut best: (Vec<u64>, &'static str),
    target: u64,
    budget: &Budget,
    watch: &Watch<'_>,
) -> (Vec<u64>, &'static str) {
    let mut left = budget.beam_steps;
    let order = ordered(problem, Order::Size);
    for &width in budget.beams {
        for backwards in [false, true] {
            if left == 0 || problem.arena(&best.0) <= target || (watch.cancel)() {
                return best;
            }
            let (found, steps) = hand_over(problem, problem.bound, width, backwards, left);
            left = left.saturating_sub(steps);
            let Some(found) = found else { continue };
            let found = place_rest(problem, lists, found, &order, Fit::Best);
            if problem.arena(&found) < problem.arena(&best.0) {
                best = (found, "hand-over");
            }
        }
    }
    best
}

/// Sweeps for an order of bands with wider and wider beams, with several price sets in parallel.
/// The narrowest beam runs in both directions, the others only in the better one.
fn banded(
    problem: &Problem,
    mut best: (Vec<u64>, &'static str),
    target: u64,
    budget: &Budget,
    watch: &Watch<'_>,
) -> (Vec<u64>, &'static str) {
    let mut left = budget.band_steps;
    let mut ways: &[bool] = &[false, true];
    // The steps of a sweep with a beam of one tree.
    let mut single = 0;
    for &(width, sets) in budget.bands {
        if problem.arena(&best.0) <= target || (watch.cancel)() {
            break;
        }
        let affordable = left.checked_div(single * width as u64 * 4).map_or(sets, narrow_count);
        let runs: Vec<(usize, bool)> =
            (0..sets.min(affordable)).flat_map(|set| ways.iter().map(move |&way| (set, way))).collect();
        if runs.is_empty() {
            break;
        }
        // A sweep that goes wrong slows down; it must not use up the steps that the others need.
        let most_steps = left / (runs.len() as u64).max(4);
        let run = |&(set, backwards): &(usize, bool)| {
            let (found, steps) = band_order(problem, &PRICES[set], Way { width, backwards, most_steps });
            (found.map(|found| (problem.arena(&found), found)), steps, backwards)
        };
        let found: Vec<_> = runs.par_iter().map(run).collect();
        left = left.saturating_sub(found.iter().map(|&(_, steps, _)| steps).sum());
        let smallest = found.into_iter().filter_map(|(found, steps, way)| Some((found?, steps, way)));
        let Some(((arena, offsets), steps, backwards)) = smallest.min_by_key(|((arena, _), ..)| *arena) else { break };
        ways = if backwards { &[true] } else { &[false] };
        single = if single == 0 { steps } else { single };
        if arena < problem.arena(&best.0) {
            best = (offsets, BAND_ORDER);
        }
    }
    best
}

/// Converts a number of runs.
fn narrow_count(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Exact search at the target. The target rises if it is proven impossible.
fn searched_at_target(
    problem: &Problem,
    lists: &Neighbours,
    best: (Vec<u64>, &'static str),
    target: &mut u64,
    budget: &Budget,
) -> (Vec<u64>, &'static str) {
    match exact(problem, lists, *target, budget.exact_steps.0, 1).0 {
        Outcome::Fits(found) => return (found, EXACT),
        Outcome::Impossible => *target += 1,
        Outcome::Unknown => {}
    }
    best
}

/// Repeated exact search, each time with `steps` steps and a capacity halfway between the target
/// and the best arena; plans that leave some room are found quickly. Whatever is proven impossible
/// raises the target. Another value of `steps` also changes the orders in which the search tries
/// blocks.
fn searched(
    problem: &Problem,
    lists: &Neighbours,
    mut best: (Vec<u64>, &'static str),
    target: &mut u64,
    steps: u64,
    watch: &Watch<'_>,
) -> (Vec<u64>, &'static str) {
    let least_gap = problem.bound / LEAST_GAP + 1;
    let mut below = *target;
    while steps > 0 && !(watch.cancel)() {
        let arena = problem.arena(&best.0);
        if arena <= below + least_gap {
            break;
        }
        let capacity = below + (arena - below) / 2;
        match exact(problem, lists, capacity, steps, steps).0 {
            Outcome::Fits(found) => best = (found, EXACT),
            Outcome::Impossible => (below, *target) = (capacity, capacity + 1),
            Outcome::Unknown => below = capacity,
        }
    }
    best
}

/// One separation and the capacity that it aims for.
struct Lane<'a> {
    search: Separation<'a>,
    capacity: u64,
    found: bool,
}

/// Runs separations from several seeds in rounds. Each has its own capacity between the target and
/// the best arena; after each round all continue from the best plan.
fn separated(
    problem: &Problem,
    lists: &Neighbours,
    mut best: (Vec<u64>, &'static str),
    target: u64,
    budget: &Budget,
    watch: &Watch<'_>,
) -> (Vec<u64>, &'static str) {
    let mut arena = problem.arena(&best.0);
    // Divisor of the gap: the next capacity is lower by this part of the gap.
    let mut share = 1_u64;
    let capacity = |arena: u64, share: u64| arena - ((arena - target) / share).max(1);
    let mut lanes: Vec<Lane<'_>> = (1..=budget.lanes)
        .map(|seed| {
            let capacity = capacity(arena, share + seed - 1);
            let search = Separation::new(problem, lists, &best.0, capacity, seed);
            Lane { search, capacity, found: false }
        })
        .collect();
    let rounds = 24;
    let all = budget.lane_steps.saturating_mul(budget.lanes);
    for round in 0..rounds {
        (watch.progress)(all / rounds * round, all);
        let steps = budget.lane_steps / rounds;
        lanes.par_iter_mut().for_each(|lane| {
            let end = lane.search.steps.saturating_add(steps);
            lane.found = false;
            // After a success, continue immediately with a smaller capacity from the current
            // offsets.
            while lane.search.steps < end && !(watch.cancel)() {
                if !lane.search.run(end - lane.search.steps) {
                    break;
                }
                lane.found = true;
                let before = lane.capacity;
                lane.capacity = lane.search.settle();
                // A pinned block may keep the arena large; then nothing is gained by continuing.
                if lane.capacity <= target || lane.capacity > before {
                    break;
                }
                let next = lane.capacity - ((lane.capacity - target) / 16).max(1);
                lane.search.squeeze(next);
            }
        });
        let winner = lanes.iter().filter(|lane| lane.found).min_by_key(|lane| lane.capacity);
        let better = winner.is_some_and(|lane| lane.capacity < arena);
        if let Some(lane) = winner.filter(|_| better) {
            arena = lane.capacity;
            best = (lane.search.settled().to_vec(), "separation");
        }
        // A run of a lane ends with a round over all blocks that overlap, which may exceed its
        // share of the steps.
        let is_spent = budget.is_short && lanes.iter().all(|lane| lane.search.steps >= budget.lane_steps);
        if arena <= target || is_spent || (watch.cancel)() {
            break;
        }
        share = if better { (share / 2).max(1) } else { share.saturating_mul(2).min(256) };
        for (lane, seed) in lanes.iter_mut().zip(0..) {
            lane.capacity = capacity(arena, share + seed * share.div_ceil(2));
            lane.search.restart(&best.0, lane.capacity);
        }
    }
    (watch.progress)(all, all);
    best
}
