//! Proves the plans of a compiled model independently: this code shares nothing with the planners
//! and reads only the model.
//!
//! Records and waits are paired. The order that streams and pairs then guarantee must respect every
//! edge and every reuse of memory. The rules are numbered in [`RULES`], and every fault names one.
//!
//! - **Streams and events** (`run`, `edges`): the pairs are found by one simulated run of the
//!   queues. If an id serves several pairs, the wait of each pair must be over before the id is
//!   recorded again and before the next wait for it. So no schedule has other pairs, what holds in
//!   this run holds in all schedules, and if this run ends every schedule ends. Nodes without a
//!   task are bridged.
//! - **Memory** (`memory`; ReuseChecker, facts 2.6 h): a range is overwritten only after every use
//!   of its earlier contents, in the order in which tasks are known to run. What shares memory on
//!   purpose (views, in place, no-task concat) counts as one block.
//! - **In place** (`in_place`), **parts** (`parts`), **tasks** (`tasks`), **effects** (`effects`),
//!   **control flow** (`flow`): see these modules.
//!
//! Cost: number of tasks times number of streams, and a search in an interval map for each block.
//!
//! ```
//! let empty = ge_model::CompiledModel::default();
//! assert_eq!(ge_proof::check(&empty), Ok(()));
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod edges;
mod effects;
mod fault;
mod flow;
mod in_place;
mod memory;
mod parts;
mod run;
mod stand;
mod tasks;

pub use fault::{PlanFault, RULES, Rule};
use ge_model::CompiledModel;

/// Proves a compiled model's plans.
///
/// # Errors
/// Returns the first rule that does not hold, with the node or id that breaks it.
pub fn check(m: &CompiledModel) -> Result<(), PlanFault> {
    tasks::check(m)?;
    let run = run::Run::simulate(m)?;
    edges::check(m, &run)?;
    parts::check(m)?;
    memory::check(m, &run)?;
    in_place::check(m, &run.stands)?;
    effects::check(m, &run.stands)?;
    flow::check(m)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn rules_are_numbered_without_a_hole_and_every_fault_has_one() {
        let numbers: Vec<u8> = RULES.iter().map(|r| r.0.0).collect();
        assert_eq!(numbers, (1..=RULES.len() as u8).collect::<Vec<_>>());
        let name = || "n".to_owned();
        let all = [
            PlanFault::Deadlock { waiting: vec![] },
            PlanFault::Recorded { id: 0, node: name() },
            PlanFault::Taken { id: 0, first: name(), second: name() },
            PlanFault::Edge { from: name(), to: name() },
            PlanFault::End { stream: 0 },
            PlanFault::Overlap { first: name(), second: name(), memory: name(), offset: 0 },
            PlanFault::Woken { stream: 0, node: name() },
            PlanFault::Endless { node: name() },
            PlanFault::Left { id: 0 },
            PlanFault::Limit { what: name(), found: 2, most: 1 },
            PlanFault::Idle { stream: 0 },
            PlanFault::Effect { first: name(), second: name() },
            PlanFault::Place { node: name(), what: name() },
        ];
        let ruled: BTreeSet<u8> = all.iter().map(|f| f.rule().0).collect();
        assert_eq!(ruled.len(), RULES.len());
        assert_eq!(Rule(4).to_string(), "P4");
    }
}
