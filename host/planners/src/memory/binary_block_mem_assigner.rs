//! `BinaryBlockMemAssigner`: pools memory by exact size or by ranges that halve, then packs small
//! memory into the gaps of large memory. Source: document 003 §5.4; facts 2.3 (ranges, strategies),
//! 2.5 (level 2).

use super::pool_walk::{Release, SharedBlock, walk};
use super::problem::{Neighbours, Problem, narrow};

/// Greatest nesting depth when memory is packed into memory (facts 2.5).
const DEEPEST: usize = 100;
/// Ranges of at least this size stay separate (facts 2.3, kLargeBlockSize).
const LARGE_BYTES: u64 = 8 << 20;
/// Number of lifetime comparisons that the packing may make; whatever is left after that is not
/// packed.
const PACKING_STEPS: u64 = 20_000_000;

/// The assigner `binary-block` with one of its strategies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BinaryBlockMemAssigner {
    /// Round sizes up to ranges that halve, instead of using the exact size.
    pub use_range: bool,
    /// Place the largest ranges first when offsets are assigned.
    pub descending: bool,
    /// Reuse the memory that was released first, instead of the one released last.
    pub first_release_first: bool,
}

impl BinaryBlockMemAssigner {
    /// The default strategy: exact sizes, memory released last is reused first.
    pub const DEFAULT: Self = Self { use_range: false, descending: false, first_release_first: false };

    /// The additional strategies of memory priority mode (facts 2.3).
    pub const MEMORY_PRIORITY: [Self; 4] = [
        Self { use_range: true, descending: false, first_release_first: true },
        Self { use_range: true, descending: false, first_release_first: false },
        Self { use_range: true, descending: true, first_release_first: true },
        Self { use_range: true, descending: true, first_release_first: false },
    ];

    /// Name used in plans and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match (self.use_range, self.descending, self.first_release_first) {
            (false, _, _) => "binary-block",
            (true, false, true) => "binary-block-range-ascending-first",
            (true, false, false) => "binary-block-range-ascending-last",
            (true, true, true) => "binary-block-range-descending-first",
            (true, true, false) => "binary-block-range-descending-last",
        }
    }

    pub(super) fn offsets(self, problem: &Problem, neighbours: Option<&Neighbours>) -> Option<Vec<u64>> {
        let release = if self.first_release_first { Release::FirstFirst } else { Release::LastFirst };
        let ranges = if self.use_range { ranges(problem) } else { Vec::new() };
        let class = |size: u64| match ranges.partition_point(|&ceiling| ceiling < size) {
            at if at < ranges.len() => ranges[at],
            _ => size,
        };
        let mut memory = walk(problem, neighbours, &class, release);
        if self.descending {
            // The sort is stable: within a range, the order in which memory was taken is kept.
            memory.sort_by_key(|shared| std::cmp::Reverse(shared.size));
        }
        pack(problem, neighbours, &memory)
    }
}

/// The upper limits of the ranges, ascending. There are up to `ceil(log2(largest / 512))` ranges,
/// each half as large as the next; a range with too few members joins the next larger one.
fn ranges(problem: &Problem) -> Vec<u64> {
    let Some(&largest) = problem.size.iter().max() else { return Vec::new() };
    let granule = (512 / problem.unit).max(1);
    let count = (largest / granule).max(1).next_power_of_two().ilog2().max(1);
    let fewest = problem.len() / count as usize;
    let mut sizes = problem.size.clone();
    sizes.sort_unstable();
    let mut ceilings = Vec::new();
    let mut ceiling = largest;
    let mut pending = 0_usize;
    for _ in 0..count {
        let below = ceiling / 2;
        let members = sizes.partition_point(|&size| size <= ceiling) - sizes.partition_point(|&size| size <= below);
        pending += members;
        let large = ceiling.saturating_mul(problem.unit) >= LARGE_BYTES && members >= 2;
        // The highest limit is always kept, because every size must have a limit above it.
        if ceilings.is_empty() || large || pending >= fewest.max(1) {
            ceilings.push(ceiling);
            pending = 0;
        }
        ceiling = below;
        if ceiling == 0 {
            break;
        }
    }
    ceilings.reverse();
    ceilings
}

/// The ranks that may still be taken. A closed rank points to a later one, so that a run of closed
/// ranks is skipped quickly.
struct Open {
    next: Vec<usize>,
}

impl Open {
    /// Makes the ranks from 0 on, each open or closed.
    fn new(ranks: impl Iterator<Item = bool>) -> Self {
        let next = ranks.enumerate().map(|(rank, is_open)| if is_open { rank } else { rank + 1 });
        let mut next: Vec<usize> = next.collect();
        next.push(next.len());
        Self { next }
    }

    fn close(&mut self, rank: usize) {
        self.next[rank] = self.next[rank].max(rank + 1);
    }

    /// The first open rank from `rank` on, or one past the last.
    fn first_from(&mut self, mut rank: usize) -> usize {
        while self.next[rank] != rank {
            // Path halving shortens the way for later queries.
            self.next[rank] = self.next[self.next[rank]];
            rank = self.next[rank];
        }
        rank
    }
}

/// When memory is in use, as a bit for each part of the time. If one memory is used at some instant
/// of a part that another uses throughout, the two are live together.
#[derive(Clone, Copy, Default)]
struct Busy {
    /// Parts of the time in which it is used at some instant.
    ever: u128,
    /// Parts of the time in which it is used at every instant.
    always: u128,
}

impl Busy {
    /// Computes the use by members that follow one another in time.
    fn new(problem: &Problem, members: &[u32]) -> Self {
        let part = narrow(problem.stretches()).div_ceil(u128::BITS).max(1);
        // The parts in `from..to`.
        let parts = |from: u32, to: u32| {
            let below = |n: u32| if n >= u128::BITS { u128::MAX } else { (1 << n) - 1 };
            if from < to { below(to) & !below(from) } else { 0 }
        };
        let mut busy = Self::default();
        let mut members =
            members.iter().map(|&member| (problem.lower[member as usize], problem.upper[member as usize]));
        let mut run = members.next();
        while let Some((lower, upper)) = run {
            let next = members.next();
            match next {
                // The next member begins where this one ends.
                Some((begin, end)) if begin <= upper => run = Some((lower, end.max(upper))),
                _ => {
                    busy.ever |= parts(lower / part, upper.div_ceil(part));
                    busy.always |= parts(lower.div_ceil(part), upper / part);
                    run = next;
                }
            }
        }
        busy
    }
}

/// Level 2 packing: takes the largest memory first. Each memory takes in smaller ones whose
/// lifetimes avoid its own members and those of all memory that contains it; they are placed side
/// by side, and each is filled in turn.
fn pack(problem: &Problem, neighbours: Option<&Neighbours>, memory: &[SharedBlock]) -> Option<Vec<u64>> {
    let mut order: Vec<u32> = (0..narrow(memory.len())).collect();
    order.sort_by_key(|&at| {
        let shared = &memory[at as usize];
        let begin = shared.members.first().map(|&member| problem.lower[member as usize]);
        (std::cmp::Reverse(shared.size), begin, at)
    });
    // Memory is sorted by size, so everything too large for a place is skipped at once.
    let sizes: Vec<u64> = order.iter().map(|&at| memory[at as usize].size).collect();
    // Intervals decide only if no lists say that others are live together.
    let by_interval = neighbours.is_none() || problem.by_interval;
    let busy = |at: &u32| if by_interval { Busy::new(problem, &memory[*at as usize].members) } else { Busy::default() };
    let busy: Vec<Busy> = order.iter().map(busy).collect();
    let mut open = Open::new(order.iter().map(|&at| memory[at as usize].reuse));
    let mut base: Vec<Option<u64>> = vec![None; memory.len()];
    let mut steps = 0_u64;
    let mut top = 0_u64;
    for (rank, &root) in order.iter().enumerate() {
        if base[root as usize].is_some() {
            continue;
        }
        base[root as usize] = Some(top);
        open.close(rank);
        let own = memory[root as usize].size;
        top = top.checked_add(own).filter(|top| top.checked_mul(problem.unit).is_some())?;
        if !memory[root as usize].reuse {
            continue;
        }
        // The explicit stack holds the memory, the rank from which to continue, the room used by
        // its children, and the times at which it or any memory that contains it is always in use.
        let mut stack = vec![(root, rank + 1, 0_u64, busy[rank].always)];
        while let Some((parent, mut next, mut used, always)) = stack.pop() {
            let room = memory[parent as usize].size - used;
            next += sizes[next..].partition_point(|&size| size > room);
            while steps < PACKING_STEPS {
                let at = open.first_from(next);
                let Some(&child) = order.get(at) else { break };
                next = at + 1;
                if busy[at].ever & always != 0 {
                    steps += 1;
                    continue;
                }
                let candidate = &memory[child as usize];
                let within = stack.iter().map(|&(outer, ..)| outer).chain([parent]);
                let fits = within
                    .into_iter()
                    .all(|outer| apart(problem, neighbours, &memory[outer as usize], candidate, &mut steps));
                if fits {
                    base[child as usize] = Some(base[parent as usize].unwrap_or(0) + used);
                    open.close(at);
                    used += candidate.size;
                    stack.push((parent, next, used, always));
                    if stack.len() < DEEPEST {
                        stack.push((child, next, 0, always | busy[at].always));
                    }
                    break;
                }
            }
        }
    }
    let mut offsets = vec![0_u64; problem.len()];
    for (shared, base) in memory.iter().zip(&base) {
        for &member in &shared.members {
            offsets[member as usize] = base.unwrap_or(0);
        }
    }
    Some(offsets)
}

/// Whether no member of one memory is live together with a member of the other. Members follow one
/// another in time.
fn apart(
    problem: &Problem,
    neighbours: Option<&Neighbours>,
    a: &SharedBlock,
    b: &SharedBlock,
    steps: &mut u64,
) -> bool {
    if let (Some(lists), false) = (neighbours, problem.by_interval) {
        *steps += (a.members.len() * b.members.len()) as u64;
        return a
            .members
            .iter()
            .all(|&member| b.members.iter().all(|other| lists.of(member as usize).binary_search(other).is_err()));
    }
    let (mut left, mut right) = (0, 0);
    while left < a.members.len() && right < b.members.len() {
        *steps += 1;
        let (one, other) = (a.members[left] as usize, b.members[right] as usize);
        if problem.meet(one, other) {
            return false;
        }
        if problem.upper[one] <= problem.lower[other] {
            left += 1;
        } else {
            right += 1;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::{Busy, apart};
    use crate::memory::problem::{Problem, narrow};
    use crate::memory::{Block, Buffer};
    use proptest::prelude::*;

    /// Lifetimes one after another, with a pause before each.
    fn chain(at: u64, lives: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let after = |now: &mut u64, &(pause, long): &(u64, u64)| {
            let lower = *now + pause;
            *now = lower + long;
            Some((lower, *now))
        };
        lives.iter().scan(at, after).collect()
    }

    proptest! {
        #[test]
        fn who_is_passed_at_once_lives_together(
            starts in (0_u64..900, 0_u64..900),
            lives in (
                prop::collection::vec((0_u64..3, 1_u64..40), 1..60),
                prop::collection::vec((0_u64..200, 1_u64..4), 1..9),
            ),
            others in 0_u64..700,
        ) {
            let (a, b) = (chain(starts.0, &lives.0), chain(starts.1, &lives.1));
            // Lifetimes at other instants than those of the two chains.
            let others = (0..others).map(|at| (2 * at, 2 * at + 1));
            let block = |(id, (lower, upper)): (usize, (u64, u64))| {
                Block::from(&Buffer { id: id as u64, lower, upper, size: 1, align: 1 })
            };
            let blocks: Vec<Block> = a.iter().copied().chain(b.iter().copied()).chain(others).enumerate().map(block).collect();
            let problem = Problem::new(&blocks, true).expect("a problem");
            let members = |from: usize, to: usize| (narrow(from)..narrow(to)).collect::<Vec<u32>>();
            let shared = |members: Vec<u32>| super::SharedBlock { members, size: 1, reuse: true };
            let (a, b) = (shared(members(0, a.len())), shared(members(a.len(), a.len() + b.len())));
            let (busy, other) = (Busy::new(&problem, &a.members), Busy::new(&problem, &b.members));
            prop_assert_eq!(busy.always & !busy.ever, 0);
            if busy.always & other.ever != 0 {
                prop_assert!(!apart(&problem, None, &a, &b, &mut 0));
            }
            prop_assert!(apart(&problem, None, &a, &a, &mut 0) == a.members.is_empty());
        }
    }
}
