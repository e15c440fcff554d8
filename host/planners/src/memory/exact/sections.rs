//! The instants that matter to an exact search, and the blocks that are live at each of them.

use std::collections::HashMap;

use super::super::problem::{Problem, narrow};

/// The instants whose set of live blocks is no subset of a neighbour's: those after a begin and
/// before an end. Blocks that are live together are both live at one of them.
pub(super) struct Sections {
    /// For each block its first section and the section after its last.
    pub(super) span: Vec<(u32, u32)>,
    /// The blocks of each section.
    pub(super) members: Vec<Vec<u32>>,
    /// A number for each block, shared by all blocks with the same span and size.
    pub(super) kind: Vec<u32>,
}

impl Sections {
    pub(super) fn new(problem: &Problem) -> Self {
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
        let section = |instant: u32| before[instant as usize];
        let span: Vec<(u32, u32)> =
            problem.lower.iter().zip(&problem.upper).map(|(&lower, &upper)| (section(lower), section(upper))).collect();
        let mut members = vec![Vec::new(); count as usize];
        for (block, &(first, end)) in (0..).zip(&span) {
            members[first as usize..end as usize].iter_mut().for_each(|all| all.push(block));
        }
        let mut kinds = HashMap::new();
        let kind = span.iter().zip(&problem.size).map(|like| {
            let next = narrow(kinds.len());
            *kinds.entry(like).or_insert(next)
        });
        let kind = kind.collect();
        Self { span, members, kind }
    }

    /// The range of sections of a block.
    #[inline]
    pub(super) fn of(&self, block: usize) -> std::ops::Range<usize> {
        let (first, end) = self.span[block];
        first as usize..end as usize
    }
}
