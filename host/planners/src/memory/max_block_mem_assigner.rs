//! `MaxBlockMemAssigner`: a single size class, the largest; every block gets memory of that size.
//! Source: document 003 §5.4, facts 2.3 ("max-block").

use super::pool_walk::{Release, stacked, walk};
use super::problem::{Neighbours, Problem};

/// The assigner `max-block`: on each stream it uses as many memories of the largest size as are
/// live at once. Nothing is packed into another memory.
#[derive(Debug, Clone, Copy, Default)]
pub struct MaxBlockMemAssigner;

impl MaxBlockMemAssigner {
    /// Name used in plans and reports.
    pub const NAME: &'static str = "max-block";

    pub(super) fn offsets(self, problem: &Problem, neighbours: Option<&Neighbours>) -> Option<Vec<u64>> {
        let largest = problem.size.iter().copied().max().unwrap_or(0);
        let memory = walk(problem, neighbours, &|_| largest, Release::LastFirst);
        // If the total is far too large, there is no plan.
        u64::try_from(memory.len()).ok()?.checked_mul(largest)?.checked_mul(problem.unit)?;
        Some(stacked(problem, &memory))
    }
}
