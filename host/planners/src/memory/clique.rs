//! Blocks that are all live together need the sum of their sizes. If streams decide which blocks
//! are live together, the heaviest such group found tells the searches when to stop.
use super::problem::{Neighbours, Problem};

/// Limit on the neighbours examined for all groups together.
const MOST_STEPS: usize = 20_000_000;

/// The size in units of a group of blocks that are all live together. For each starting block, the
/// heaviest block that is live with all blocks taken so far is added repeatedly. No arena can be
/// smaller than such a group; the heaviest group is not always found.
pub(super) fn heavy_group(problem: &Problem, lists: &Neighbours) -> u64 {
    let mut seeds: Vec<usize> = (0..problem.len()).collect();
    seeds.sort_by_key(|&b| (std::cmp::Reverse(problem.size[b]), b));
    let (mut best, mut steps) = (0, 0);
    // For each block, the number of taken blocks that are live together with it.
    let mut together = vec![0_u32; problem.len()];
    for &seed in &seeds {
        let reach: u64 = lists.of(seed).iter().map(|&o| problem.size[o as usize]).sum::<u64>() + problem.size[seed];
        if reach <= best {
            continue;
        }
        let mut candidates: Vec<u32> = lists.of(seed).to_vec();
        candidates.sort_by_key(|&o| (std::cmp::Reverse(problem.size[o as usize]), o));
        let (mut taken, mut weight) = (vec![seed], problem.size[seed]);
        for &o in lists.of(seed) {
            together[o as usize] = 1;
        }
        for &c in &candidates {
            let c = c as usize;
            if together[c] as usize == taken.len() {
                weight += problem.size[c];
                taken.push(c);
                lists.of(c).iter().for_each(|&o| together[o as usize] += 1);
                steps += lists.of(c).len();
            }
        }
        for &b in &taken {
            lists.of(b).iter().for_each(|&o| together[o as usize] = 0);
        }
        best = best.max(weight);
        steps += candidates.len();
        if steps > MOST_STEPS {
            break;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{
        AssignOptions, Block, Buffer, Conflicts, IntervalConflicts, MemoryEffort, Watch, assign_blocks,
    };
    use proptest::prelude::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn blocks(lives: &[(u64, u64, u64)]) -> Vec<Block> {
        let block = |(id, &(lower, upper, size)): (usize, &(u64, u64, u64))| {
            Block::from(&Buffer { id: id as u64, lower, upper, size, align: 1 })
        };
        lives.iter().enumerate().map(block).collect()
    }

    fn group(blocks: &[Block], relation: &dyn Conflicts) -> u64 {
        let problem = Problem::new(blocks, false).expect("a problem");
        let lists = problem.neighbours(blocks, Some(relation)).expect("lists");
        heavy_group(&problem, &lists) * problem.unit
    }

    /// A relation in which all blocks are live together.
    struct All(usize);
    impl Conflicts for All {
        fn blocks(&self) -> usize {
            self.0
        }
        fn live_together(&self, _: usize, _: usize) -> bool {
            true
        }
        fn each_pair(&self, visit: &mut dyn FnMut(usize, usize) -> bool) {
            for b in 0..self.0 {
                for a in 0..b {
                    if !visit(a, b) {
                        return;
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn a_group_is_never_heavier_than_what_lives_at_once(
            lives in prop::collection::vec((0_u64..30, 1_u64..10, 1_u64..100), 1..40)
        ) {
            let lives: Vec<(u64, u64, u64)> = lives.into_iter().map(|(at, long, size)| (at, at + long, size)).collect();
            let blocks = blocks(&lives);
            let bound = crate::memory::lower_bound(&blocks).expect("a bound");
            let heavy = group(&blocks, &IntervalConflicts::new(&blocks));
            prop_assert!(heavy <= bound, "{heavy} of {bound}");
        }
    }

    #[test]
    fn a_plan_at_the_heaviest_group_is_not_searched_on() {
        let blocks = blocks(&[(0, 1, 512), (1, 2, 1024), (2, 3, 512), (3, 4, 2048), (4, 5, 512)]);
        assert_eq!(group(&blocks, &All(5)), 4608);
        let told = AtomicBool::new(false);
        let progress = |_, _| told.store(true, Ordering::Relaxed);
        let watch = Watch { progress: &progress, cancel: &|| false };
        let options = AssignOptions { effort: MemoryEffort::Max, ..AssignOptions::default() };
        let plan = assign_blocks(&blocks, Some(&All(5)), &options, &watch).expect("a plan");
        assert_eq!((plan.arena, plan.lower_bound, told.into_inner()), (4608, 2048, false));
    }
}
