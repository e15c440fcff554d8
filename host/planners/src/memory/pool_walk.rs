//! The walk that the design's assigners share: in the order of lifetimes, each block gets released
//! memory of its own stream and its exact size class, or new memory. Source: facts 2.4 (block
//! algorithm, level 1).

use std::collections::{BTreeMap, VecDeque};

use super::problem::{Neighbours, Problem, narrow};

/// Memory that is used by one block after another.
#[derive(Debug, Clone)]
pub(super) struct SharedBlock {
    /// Size in units.
    pub(super) size: u64,
    /// The blocks that use it, one after another.
    pub(super) members: Vec<u32>,
    /// Whether anything else may be packed into it.
    pub(super) reuse: bool,
}

/// Which released memory is reused first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Release {
    /// The memory released last (default).
    LastFirst,
    /// The memory released first.
    FirstFirst,
}

/// Assigns memory to the blocks in order of the start of their lifetimes; `class` gives the size to
/// which a block is rounded up.
pub(super) fn walk(
    problem: &Problem,
    neighbours: Option<&Neighbours>,
    class: &dyn Fn(u64) -> u64,
    release: Release,
) -> Vec<SharedBlock> {
    let mut order: Vec<u32> = (0..narrow(problem.len())).collect();
    order.sort_by_key(|&at| (problem.lower[at as usize], at));
    let mut ends = order.clone();
    ends.sort_by_key(|&at| (problem.upper[at as usize], at));
    let mut memory: Vec<SharedBlock> = Vec::new();
    let mut lies_in = vec![0_usize; problem.len()];
    let mut pools: BTreeMap<(u32, u64), VecDeque<usize>> = BTreeMap::new();
    let mut ended = 0;
    for &at in &order {
        let begin = problem.lower[at as usize];
        while ended < ends.len() && problem.upper[ends[ended] as usize] <= begin {
            let over = ends[ended] as usize;
            if problem.reuse[over] {
                let shared = lies_in[over];
                pools.entry((problem.stream[over], memory[shared].size)).or_default().push_back(shared);
            }
            ended += 1;
        }
        let block = at as usize;
        let size = class(problem.size[block]);
        let free = problem.reuse[block].then(|| pools.get_mut(&(problem.stream[block], size))).flatten();
        let found = free.and_then(|pool| {
            let over = |shared: usize| match (neighbours, memory[shared].members.last()) {
                (Some(lists), Some(&last)) if !problem.by_interval => lists.of(block).binary_search(&last).is_err(),
                _ => true,
            };
            let position = match release {
                Release::LastFirst => pool.iter().rposition(|&shared| over(shared)),
                Release::FirstFirst => pool.iter().position(|&shared| over(shared)),
            };
            position.and_then(|position| pool.remove(position))
        });
        let shared = found.unwrap_or_else(|| {
            memory.push(SharedBlock { size, members: Vec::new(), reuse: problem.reuse[block] });
            memory.len() - 1
        });
        memory[shared].members.push(at);
        lies_in[block] = shared;
    }
    memory
}

/// The offsets if the memories are stacked one after another.
pub(super) fn stacked(problem: &Problem, memory: &[SharedBlock]) -> Vec<u64> {
    let mut offsets = vec![0_u64; problem.len()];
    let mut top = 0_u64;
    for shared in memory {
        for &member in &shared.members {
            offsets[member as usize] = top;
        }
        // The sum of the blocks has been checked; classes may be larger, but such a plan never
        // wins.
        top = top.saturating_add(shared.size);
    }
    offsets
}
