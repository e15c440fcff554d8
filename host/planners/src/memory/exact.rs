//! Exact search within a capacity, for small hard problems: depth first over plans in which every
//! block lies at 0 or on another and blocks are placed by rising offset.
//!
//! A branch ends where some instant has more left to place than room above the lowest offset that
//! is still open there; where a block is placed so high that another would fit below it; and
//! what falls apart in time is solved part by part. Source of the ideas: Moffitt, "MiniMalloc: a
//! lightweight memory allocator for hardware-accelerated machine learning" (ASPLOS 2023).

use rayon::prelude::*;

use super::greedy::peak_load;
use super::problem::{Neighbours, Problem, narrow};
use super::separate::Dice;

/// Blocks up to which the search runs at all; it goes one call deeper for each.
pub(super) const MOST_BLOCKS: usize = 700;

/// Steps of each trial of the first generation, at least.
const FIRST_TRIAL: u64 = 1_000_000;
/// The same in ways down through all blocks.
const DIVES: u64 = 5;
/// How much the orders of trying are shaken, in parts of [`ONE`], from one generation to the next.
const NOISE: [u64; 3] = [2048, 128, 512];
const ONE: u64 = 1024;
/// One of so many generations is not shaken, and takes so many times the steps.
const LONG_EVERY: u64 = 12;
const LONG: u64 = 16;

/// What a search came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Offsets within the capacity.
    Fits(Vec<u64>),
    /// No plan fits.
    Impossible,
    /// Out of steps.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Yes,
    No,
    OutOfSteps,
}

/// In which order blocks of one offset are tried.
#[derive(Debug, Clone, Copy)]
enum Rank {
    Area,
    Lifetime,
    LoadArea,
    LoadLifetime,
}

/// What shakes the orders of trying from one generation of trials to the next.
#[derive(Debug, Clone, Copy)]
struct Noise {
    generation: u64,
    seed: u64,
}

impl Noise {
    /// A factor for each block; all alike where nothing is shaken.
    fn factors(self, blocks: usize) -> Vec<u128> {
        let Self { generation, seed } = self;
        let mut dice = Dice::new(seed);
        let most = if is_plain(generation) { 1 } else { NOISE[usize::try_from(generation % 3).unwrap_or(0)] };
        (0..blocks).map(|_| u128::from(ONE + dice.roll() % most)).collect()
    }
}

/// Whether the orders of a generation are not shaken.
fn is_plain(generation: u64) -> bool {
    generation == 0 || generation % LONG_EVERY == LONG_EVERY / 2
}

struct Search<'a> {
    problem: &'a Problem,
    lists: &'a Neighbours,
    capacity: u64,
    /// First and last instant of each block among the instants that matter, half-open.
    span: &'a [(u32, u32)],
    /// Place of each block in the order of trying.
    rank: Vec<u32>,
    /// Top of the placed blocks that live together with a block.
    lowest: Vec<u64>,
    offsets: Vec<u64>,
    placed: Vec<bool>,
    /// For the check of instants: what is left and where it may begin.
    left: Vec<u64>,
    floor: Vec<u64>,
    trail: Vec<(u32, u64)>,
    steps: u64,
    most_steps: u64,
}

/// Searches for a plan within `capacity`, with several orders side by side, trial after trial: each
/// generation of trials shakes the orders, by `seed`, and may take more steps than the one before. The
/// second value is the number of steps taken: blocks and instants looked at.
pub(super) fn exact(
    problem: &Problem,
    lists: &Neighbours,
    capacity: u64,
    most_steps: u64,
    seed: u64,
) -> (Outcome, u64) {
    let (span, instants) = instants_that_matter(problem);
    // A way down without a turn looks at all that is left once for each block.
    let spans: u64 = span.iter().map(|&(lower, upper)| u64::from(upper - lower) + 1).sum();
    let dive = spans.saturating_mul(problem.len() as u64) / 2;
    let mut allowance = dive.saturating_mul(DIVES).max(FIRST_TRIAL);
    let mut spent = 0_u64;
    let mut generation = 0;
    // Many short trials: a lucky order is often much shorter than the others.
    loop {
        let is_long = generation > 0 && is_plain(generation);
        let allowed = (if is_long { allowance.saturating_mul(LONG) } else { allowance })
            .min(most_steps.saturating_sub(spent) / 4 + 1);
        let outcomes: Vec<(Outcome, u64)> = [Rank::LoadLifetime, Rank::LoadArea, Rank::Lifetime, Rank::Area]
            .par_iter()
            .zip([0_u64, 1, 2, 3])
            .map(|(&rank, lane)| {
                let noise = Noise { generation, seed: (seed << 32) + generation * 4 + lane };
                let mut search = Search::new(problem, lists, capacity, &span, instants, rank, noise);
                search.most_steps = allowed;
                let all = by_begin(problem);
                let outcome = match search.parts(&all, 0, 0) {
                    Verdict::Yes => Outcome::Fits(std::mem::take(&mut search.offsets)),
                    Verdict::No => Outcome::Impossible,
                    Verdict::OutOfSteps => Outcome::Unknown,
                };
                (outcome, search.steps)
            })
            .collect();
        spent += outcomes.iter().map(|(_, steps)| steps).sum::<u64>();
        if let Some((outcome, _)) = outcomes.into_iter().find(|(outcome, _)| *outcome != Outcome::Unknown) {
            return (outcome, spent);
        }
        if spent >= most_steps {
            return (Outcome::Unknown, spent);
        }
        allowance += allowance / 10;
        generation += 1;
    }
}

fn by_begin(problem: &Problem) -> Vec<u32> {
    let mut order: Vec<u32> = (0..narrow(problem.len())).collect();
    order.sort_by_key(|&at| (problem.lower[at as usize], at));
    order
}

/// Only instants whose live blocks are no subset of a neighbour's matter: those after a begin and
/// before an end. Gives each block's span among them, and their number.
fn instants_that_matter(problem: &Problem) -> (Vec<(u32, u32)>, usize) {
    let stretches = problem.stretches();
    let (mut begins, mut ends) = (vec![false; stretches + 1], vec![false; stretches + 1]);
    for at in 0..problem.len() {
        begins[problem.lower[at] as usize] = true;
        ends[problem.upper[at] as usize] = true;
    }
    let mut before = vec![0_u32; stretches + 1];
    let mut begun = false;
    let mut count = 0;
    for at in 0..stretches {
        before[at] = count;
        begun |= begins[at];
        if begun && ends[at + 1] {
            count += 1;
            begun = false;
        }
    }
    before[stretches] = count;
    let span =
        (0..problem.len()).map(|at| (before[problem.lower[at] as usize], before[problem.upper[at] as usize])).collect();
    (span, count as usize)
}

impl<'a> Search<'a> {
    fn new(
        problem: &'a Problem,
        lists: &'a Neighbours,
        capacity: u64,
        span: &'a [(u32, u32)],
        instants: usize,
        rank: Rank,
        noise: Noise,
    ) -> Self {
        let peak = peak_load(problem);
        let long = |at: usize| -> u64 {
            let (lower, upper) = (problem.lower[at] as usize, problem.upper[at] as usize);
            problem.stretch[lower..upper].iter().sum()
        };
        let factors = noise.factors(problem.len());
        let mut order: Vec<u32> = (0..narrow(problem.len())).collect();
        order.sort_by_key(|&at| {
            let at_usize = at as usize;
            let area = u128::from(problem.size[at_usize]) * u128::from(long(at_usize));
            let (load, long) = (u128::from(peak[at_usize]), u128::from(long(at_usize)));
            let key = match rank {
                Rank::Area => (area * factors[at_usize], long, 0),
                Rank::Lifetime => (long * factors[at_usize], area, 0),
                Rank::LoadArea => (load, area * factors[at_usize], long),
                Rank::LoadLifetime => (load, long * factors[at_usize], area),
            };
            (std::cmp::Reverse(key), at)
        });
        let mut place = vec![0; problem.len()];
        for (rank, &at) in (0..).zip(&order) {
            place[at as usize] = rank;
        }
        Self {
            problem,
            lists,
            capacity,
            span,
            rank: place,
            lowest: vec![0; problem.len()],
            offsets: vec![0; problem.len()],
            placed: vec![false; problem.len()],
            left: vec![0; instants],
            floor: vec![u64::MAX; instants],
            trail: Vec::new(),
            steps: 0,
            most_steps: u64::MAX,
        }
    }

    /// Solves blocks (by begin of life), each stretch of time that they leave empty apart.
    fn parts(&mut self, blocks: &[u32], from: u64, last: u32) -> Verdict {
        let mut parts: Vec<&[u32]> = Vec::new();
        let (mut begin, mut reach) = (0, 0);
        for (at, &block) in blocks.iter().enumerate() {
            if at > begin && self.problem.lower[block as usize] >= reach {
                parts.push(&blocks[begin..at]);
                begin = at;
            }
            reach = reach.max(self.problem.upper[block as usize]);
        }
        parts.push(&blocks[begin..]);
        // Small parts fail soonest.
        parts.sort_by_key(|part| part.len());
        for part in &parts {
            if !part.is_empty() && !self.room(part, from, last) {
                return Verdict::No;
            }
        }
        for part in parts {
            let verdict = self.part(part, from, last);
            if verdict != Verdict::Yes {
                return verdict;
            }
        }
        Verdict::Yes
    }

    /// Whether every instant has room for what is left to place there.
    fn room(&mut self, part: &[u32], from: u64, last: u32) -> bool {
        let (mut first, mut end) = (usize::MAX, 0);
        for &block in part {
            let block = block as usize;
            let (size, low) = (self.problem.size[block], self.reachable(block, from, last));
            if low.saturating_add(size) > self.capacity {
                for instant in first.min(end)..end {
                    self.left[instant] = 0;
                    self.floor[instant] = u64::MAX;
                }
                return false;
            }
            let (lower, upper) = (self.span[block].0 as usize, self.span[block].1 as usize);
            first = first.min(lower);
            end = end.max(upper);
            self.steps += (upper - lower) as u64 + 1;
            for left in &mut self.left[lower..upper] {
                *left += size;
            }
            for floor in &mut self.floor[lower..upper] {
                *floor = (*floor).min(low);
            }
        }
        let mut fits = true;
        for instant in first..end {
            fits &= self.floor[instant] == u64::MAX || self.floor[instant] + self.left[instant] <= self.capacity;
            self.left[instant] = 0;
            self.floor[instant] = u64::MAX;
        }
        fits
    }

    /// The lowest offset that is still open to a block: its own lowest one, or, where the search
    /// has passed that, the top of a block that is still to be placed beneath it.
    #[inline]
    fn reachable(&mut self, block: usize, from: u64, last: u32) -> u64 {
        let low = self.lowest[block];
        if low > from || (low == from && self.rank[block] >= last) {
            return low;
        }
        let lists = self.lists;
        self.steps += lists.of(block).len() as u64;
        let mut support = u64::MAX;
        for &other in lists.of(block) {
            let other = other as usize;
            if !self.placed[other] {
                support = support.min(self.lowest[other].max(from) + self.problem.size[other]);
            }
        }
        support
    }

    /// Solves blocks that hang together in time. The next one placed lies at `from` or above, and
    /// at `from` itself only if its rank is `last` or later.
    fn part(&mut self, part: &[u32], from: u64, last: u32) -> Verdict {
        if part.is_empty() {
            return Verdict::Yes;
        }
        if self.steps > self.most_steps {
            return Verdict::OutOfSteps;
        }
        self.steps += part.len() as u64;
        // Whoever starts as high as another could end is not next: that other could lie below.
        let ceiling = part
            .iter()
            .map(|&block| self.lowest[block as usize] + self.problem.size[block as usize])
            .min()
            .unwrap_or(u64::MAX);
        let mut next: Vec<(u64, u32, u32)> = part
            .iter()
            .map(|&block| (self.lowest[block as usize], self.rank[block as usize], block))
            .filter(|&(low, rank, _)| low < ceiling && (low > from || (low == from && rank >= last)))
            .collect();
        next.sort_unstable();
        let mut rest: Vec<u32> = Vec::with_capacity(part.len());
        for (low, rank, block) in next {
            let at = block as usize;
            let mark = self.trail.len();
            let top = low + self.problem.size[at];
            if top > self.capacity {
                continue;
            }
            self.offsets[at] = low;
            self.placed[at] = true;
            let lists = self.lists;
            self.steps += lists.of(at).len() as u64;
            for &other in lists.of(at) {
                let lowest = &mut self.lowest[other as usize];
                if !self.placed[other as usize] && *lowest < top {
                    self.trail.push((other, *lowest));
                    *lowest = top;
                }
            }
            rest.clear();
            rest.extend(part.iter().copied().filter(|&other| other != block));
            let verdict = if rest.is_empty() { Verdict::Yes } else { self.parts(&rest, low, rank) };
            if verdict == Verdict::Yes {
                return Verdict::Yes;
            }
            // A part solved before one that failed stays marked: take all of the rest back.
            for &other in &rest {
                self.placed[other as usize] = false;
            }
            self.placed[at] = false;
            for (other, lowest) in self.trail.drain(mark..).rev() {
                self.lowest[other as usize] = lowest;
            }
            if verdict == Verdict::OutOfSteps {
                return verdict;
            }
        }
        Verdict::No
    }
}

#[cfg(test)]
mod tests {
    use super::{Outcome, exact};
    use crate::memory::check_offsets::check_offsets;
    use crate::memory::problem::Problem;
    use crate::memory::{Block, Buffer};
    use proptest::prelude::*;

    fn searched(blocks: &[Block], capacity: u64, seed: u64) -> Outcome {
        let problem = Problem::new(blocks, true).expect("a problem");
        let lists = problem.neighbours(blocks, None).expect("lists");
        let (outcome, _) = exact(&problem, &lists, capacity / problem.unit, 50_000_000, seed);
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

    #[test]
    fn less_than_what_lives_at_once_is_impossible() {
        let block = |id, lower, upper, size| Block::from(&Buffer { id, lower, upper, size, align: 1 });
        let blocks = [block(0, 0, 2, 5), block(1, 1, 3, 4)];
        assert_eq!(searched(&blocks, 8, 0), Outcome::Impossible);
        assert!(matches!(searched(&blocks, 9, 0), Outcome::Fits(_)));
    }
}
