//! Greedy placement in a given order: each block goes into a gap between the already placed blocks
//! that are live together with it. The orders are by size, lifetime, area, and load during the
//! block's lifetime.

use super::problem::{Neighbours, Problem, narrow};

/// Which gap a block takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// The smallest gap that is large enough; the lowest one among equals.
    Best,
    /// The lowest gap that is large enough.
    First,
}

/// An order in which blocks are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Largest size first.
    Size,
    /// Longest lifetime first.
    Lifetime,
    /// Greatest product of size and lifetime first.
    Area,
    /// Blocks that are live at the fullest instants first; larger ones first among them.
    Load,
}

/// The blocks in the given order; ties are decided by the next criterion and then by index.
pub(super) fn ordered(problem: &Problem, order: Order) -> Vec<u32> {
    let life = |at: usize| problem.upper[at] - problem.lower[at];
    let area = |at: usize| u128::from(problem.size[at]) * u128::from(life(at));
    let mut blocks: Vec<u32> = (0..narrow(problem.len())).collect();
    match order {
        Order::Size => {
            blocks.sort_by_key(|&at| {
                let at = at as usize;
                (std::cmp::Reverse((problem.size[at], life(at))), at)
            });
        }
        Order::Lifetime => {
            blocks.sort_by_key(|&at| {
                let at = at as usize;
                (std::cmp::Reverse((life(at), problem.size[at])), at)
            });
        }
        Order::Area => blocks.sort_by_key(|&at| (std::cmp::Reverse(area(at as usize)), at)),
        Order::Load => {
            let peak = peak_load(problem);
            blocks.sort_by_key(|&at| {
                let at = at as usize;
                (std::cmp::Reverse((peak[at], problem.size[at])), at)
            });
        }
    }
    blocks
}

/// For each block, the greatest live sum during its lifetime.
pub(super) fn peak_load(problem: &Problem) -> Vec<u64> {
    let live = live_sums(problem);
    // A table of maxima over 2^k stretches answers each query in constant time.
    let mut table = vec![live];
    let mut half = 1;
    while half * 2 <= table[0].len() {
        let below = &table[table.len() - 1];
        let row = (0..=table[0].len() - half * 2).map(|at| below[at].max(below[at + half])).collect();
        table.push(row);
        half *= 2;
    }
    (0..problem.len())
        .map(|at| {
            let (lower, upper) = (problem.lower[at] as usize, problem.upper[at] as usize);
            let level = (upper - lower).ilog2() as usize;
            table[level][lower].max(table[level][upper - (1 << level)])
        })
        .collect()
}

/// The live sum in each stretch of time.
pub(super) fn live_sums(problem: &Problem) -> Vec<u64> {
    let mut starts = vec![0_u64; problem.stretches() + 1];
    let mut ends = vec![0_u64; problem.stretches() + 1];
    for at in 0..problem.len() {
        starts[problem.lower[at] as usize] += problem.size[at];
        ends[problem.upper[at] as usize] += problem.size[at];
    }
    let mut live = 0;
    (0..problem.stretches())
        .map(|at| {
            live = live + starts[at] - ends[at];
            live
        })
        .collect()
}

/// Marks a block that has not been placed yet.
const NOT_YET: u64 = u64::MAX;

/// Places the blocks in `order`; pinned blocks come first. The work is that of sorting the
/// neighbours of each block.
pub(super) fn place_in_order(problem: &Problem, neighbours: &Neighbours, order: &[u32], fit: Fit) -> Vec<u64> {
    let pinned = problem.fixed.iter().map(|fixed| fixed.unwrap_or(NOT_YET)).collect();
    place_rest(problem, neighbours, pinned, order, fit)
}

/// The range of a placed block, as a value that sorts by its lower end.
trait Range: Copy + Ord {
    /// The range of a block that is not placed yet; it sorts after all others.
    const NOWHERE: Self;
    fn new(from: u64, to: u64) -> Self;
    fn ends(self) -> (u64, u64);
}

impl Range for (u64, u64) {
    const NOWHERE: Self = (u64::MAX, u64::MAX);

    fn new(from: u64, to: u64) -> Self {
        (from, to)
    }

    fn ends(self) -> (u64, u64) {
        self
    }
}

/// Both ends in one number, each below 2^32; this halves the time for sorting.
impl Range for u64 {
    const NOWHERE: Self = u64::MAX;

    fn new(from: u64, to: u64) -> Self {
        from << 32 | to
    }

    fn ends(self) -> (u64, u64) {
        (self >> 32, self & u64::from(u32::MAX))
    }
}

/// Places those blocks of `order` whose offset is `u64::MAX` around the others.
pub(super) fn place_rest(
    problem: &Problem,
    neighbours: &Neighbours,
    mut offsets: Vec<u64>,
    order: &[u32],
    fit: Fit,
) -> Vec<u64> {
    let given = offsets.iter().zip(&problem.size).filter(|(offset, _)| **offset != NOT_YET);
    let given = given.map(|(offset, size)| offset + size).max().unwrap_or(0);
    // No block ends higher than all blocks stacked on top of the given ones.
    let most = problem.size.iter().fold(given, |most, size| most.saturating_add(*size));
    if most < u64::from(u32::MAX) {
        place_ranges::<u64>(problem, neighbours, &mut offsets, order, fit);
    } else {
        place_ranges::<(u64, u64)>(problem, neighbours, &mut offsets, order, fit);
    }
    offsets
}

fn place_ranges<R: Range>(problem: &Problem, neighbours: &Neighbours, offsets: &mut [u64], order: &[u32], fit: Fit) {
    let range = |(&offset, &size): (&u64, &u64)| {
        if offset == NOT_YET { R::NOWHERE } else { R::new(offset, offset + size) }
    };
    let mut ranges: Vec<R> = offsets.iter().zip(&problem.size).map(range).collect();
    let mut taken: Vec<R> = Vec::new();
    for &block in order {
        let block = block as usize;
        if ranges[block] != R::NOWHERE {
            continue;
        }
        taken.clear();
        taken.extend(neighbours.of(block).iter().map(|&other| ranges[other as usize]).filter(|&at| at != R::NOWHERE));
        taken.sort_unstable();
        let size = problem.size[block];
        let offset = gap(&taken, size, fit);
        offsets[block] = offset;
        ranges[block] = R::new(offset, offset + size);
    }
}

/// The start of a gap between the sorted ranges `taken` for `size` units; above all of them if no
/// gap is large enough.
fn gap<R: Range>(taken: &[R], size: u64, fit: Fit) -> u64 {
    let (mut top, mut best, mut best_room) = (0, None, u64::MAX);
    for at in taken {
        let (from, to) = at.ends();
        if from > top && from - top >= size && from - top < best_room {
            if fit == Fit::First || from - top == size {
                return top;
            }
            (best, best_room) = (Some(top), from - top);
        }
        top = top.max(to);
    }
    best.unwrap_or(top)
}

#[cfg(test)]
mod tests {
    use super::{Fit, NOT_YET, Range, gap, place_ranges};
    use crate::memory::problem::{Problem, narrow};
    use crate::memory::{Block, Buffer};
    use proptest::prelude::*;

    #[test]
    fn best_fit_takes_the_smallest_gap_first_fit_the_lowest() {
        let taken = [(10, 20), (25, 30), (30, 40)];
        let packed = taken.map(|(from, to)| <u64 as Range>::new(from, to));
        for (size, fit, expected) in [(5, Fit::Best, 20), (5, Fit::First, 0), (11, Fit::Best, 40)] {
            assert_eq!(gap(&taken, size, fit), expected);
            assert_eq!(gap(&packed, size, fit), expected);
        }
    }

    proptest! {
        #[test]
        fn ranges_in_one_number_give_the_same_plan(
            lives in prop::collection::vec((0_u64..40, 1_u64..30, 1_u64..90), 1..60),
        ) {
            let block = |(id, &(lower, long, size)): (usize, &(u64, u64, u64))| {
                Block::from(&Buffer { id: id as u64, lower, upper: lower + long, size, align: 1 })
            };
            let blocks: Vec<Block> = lives.iter().enumerate().map(block).collect();
            let problem = Problem::new(&blocks, true).expect("a problem");
            let lists = problem.neighbours(&blocks, None).expect("lists");
            let order: Vec<u32> = (0..narrow(problem.len())).collect();
            for fit in [Fit::Best, Fit::First] {
                let (mut narrow, mut wide) = (vec![NOT_YET; order.len()], vec![NOT_YET; order.len()]);
                place_ranges::<u64>(&problem, &lists, &mut narrow, &order, fit);
                place_ranges::<(u64, u64)>(&problem, &lists, &mut wide, &order, fit);
                prop_assert_eq!(narrow, wide);
            }
        }
    }
}
