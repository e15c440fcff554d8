//! Greedy placement in a given order: each block at the gap between those placed before it that
//! live together with it. Orders by size, by lifetime, by area and by load of the time it lives in.

use super::problem::{Neighbours, Problem, narrow};

/// Which gap a block takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// The smallest that holds it; the lowest of those.
    Best,
    /// The lowest that holds it.
    First,
}

/// An order in which blocks are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Largest first.
    Size,
    /// Longest life first.
    Lifetime,
    /// Greatest size times life first.
    Area,
    /// Those alive at the fullest instants first, larger first among them.
    Load,
}

/// Blocks in the order asked for; ties by the next criterion, then as given.
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

/// For each block the greatest live sum during its life.
pub(super) fn peak_load(problem: &Problem) -> Vec<u64> {
    let live = live_sums(problem);
    // A table of maxima over stretches of 2^k instants answers each block in constant time.
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

/// Live sum of each stretch of time.
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

/// Offset of a block that is still to be placed.
const NOT_YET: u64 = u64::MAX;

/// Places the blocks in `order`; pinned ones first. Work: the neighbours of each, sorted.
pub(super) fn place_in_order(problem: &Problem, neighbours: &Neighbours, order: &[u32], fit: Fit) -> Vec<u64> {
    let pinned = problem.fixed.iter().map(|fixed| fixed.unwrap_or(NOT_YET)).collect();
    place_rest(problem, neighbours, pinned, order, fit)
}

/// Places those blocks of `order` whose offset is `u64::MAX`, around the others.
pub(super) fn place_rest(
    problem: &Problem,
    neighbours: &Neighbours,
    mut offsets: Vec<u64>,
    order: &[u32],
    fit: Fit,
) -> Vec<u64> {
    let mut taken: Vec<(u64, u64)> = Vec::new();
    for &block in order {
        let block = block as usize;
        if offsets[block] != NOT_YET {
            continue;
        }
        taken.clear();
        for &other in neighbours.of(block) {
            let other = other as usize;
            if offsets[other] != NOT_YET {
                taken.push((offsets[other], offsets[other] + problem.size[other]));
            }
        }
        taken.sort_unstable_by_key(|&(from, _)| from);
        offsets[block] = gap(&taken, problem.size[block], fit);
    }
    offsets
}

/// The gap between the sorted ranges `taken` for `size` units; above all of them if none holds it.
fn gap(taken: &[(u64, u64)], size: u64, fit: Fit) -> u64 {
    let (mut top, mut best, mut best_room) = (0, None, u64::MAX);
    for &(from, to) in taken {
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
    use super::{Fit, gap};

    #[test]
    fn best_fit_takes_the_smallest_gap_first_fit_the_lowest() {
        let taken = [(10, 20), (25, 30), (30, 40)];
        assert_eq!(gap(&taken, 5, Fit::Best), 20);
        assert_eq!(gap(&taken, 5, Fit::First), 0);
        assert_eq!(gap(&taken, 11, Fit::Best), 40);
    }
}
