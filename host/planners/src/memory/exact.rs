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

/// Blocks up to which the search runs at all; it goes one call deeper for each.
pub(super) const MOST_BLOCKS: usize = 700;

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

/// Searches for a plan within `capacity`, with several orders side by side. The second value is
/// the number of steps taken: blocks and instants looked at.
pub(super) fn exact(problem: &Problem, lists: &Neighbours, capacity: u64, most_steps: u64) -> (Outcome, u64) {
    let (span, instants) = instants_that_matter(problem);
    let mut allowance = 4_000_000_u64;
    let mut spent = 0_u64;
    // Short trials first: a lucky order is often much shorter than the others.
    loop {
        let allowed = allowance.min(most_steps.saturating_sub(spent) / 4 + 1);
        let outcomes: Vec<(Outcome, u64)> = [Rank::LoadLifetime, Rank::LoadArea, Rank::Lifetime, Rank::Area]
            .par_iter()
            .map(|&rank| {
                let mut search = Search::new(problem, lists, capacity, &span, instants, rank);
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
        allowance = allowance.saturating_mul(4);
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
    ) -> Self {
        let peak = peak_load(problem);
        let long = |at: usize| -> u64 {
            let (lower, upper) = (problem.lower[at] as usize, problem.upper[at] as usize);
            problem.stretch[lower..upper].iter().sum()
        };
        let mut order: Vec<u32> = (0..narrow(problem.len())).collect();
        order.sort_by_key(|&at| {
            let at_usize = at as usize;
            let area = u128::from(problem.size[at_usize]) * u128::from(long(at_usize));
            let (load, long) = (u128::from(peak[at_usize]), u128::from(long(at_usize)));
            let key = match rank {
                Rank::Area => (area, long, 0),
                Rank::Lifetime => (long, area, 0),
                Rank::LoadArea => (load, area, long),
                Rank::LoadLifetime => (load, long, area),
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
