//! Streams from the graph's own parallelism: at most N streams of plain nodes, cost-aware.
//!
//! List schedules in time order (`list`) and by insertion (`insert`) are measured with the exact
//! cost model (`model`); `search` tries settings, priorities and widths and keeps the best. One
//! stream of plain nodes is always among the candidates, so a plan is never slower than that, and
//! of equal plans the one with fewer streams is kept.

/// The plain graph and the rules of a plan.
pub mod dag;
mod bits;
mod insert;
mod list;
mod lower;
/// Memory under a plan.
pub mod memory;
mod model;
/// Offsets under a plan.
pub mod offsets;
mod point;
mod search;
/// Streams by engine.
pub mod engine;
/// CSV and JSON files of graphs in, of streams and events out (`ge plan streams`).
pub mod plan_file;
#[cfg(test)]
mod tests;

use crate::events::transitive::Event;
use dag::{Dag, DagError, Rules, StreamAssignment};
pub use model::EventCost;
use model::{Model, measure};

/// What a plan is chosen for (`ge.x.plan`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Aim {
    /// The least run time.
    #[default]
    Speed,
    /// The least memory that a twentieth more run time buys.
    Balanced,
    /// The least memory.
    Memory,
}

impl Aim {
    /// By the option's value.
    pub fn of(value: &str) -> Aim {
        match value {
            "balanced" => Aim::Balanced,
            "memory" => Aim::Memory,
            _ => Aim::Speed,
        }
    }
}

/// What to plan for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParallelOptions {
    /// At most so many streams of plain nodes.
    pub plain: usize,
    /// What events cost.
    pub events: EventCost,
    /// What the plan is chosen for.
    pub aim: Aim,
}

/// A plan: streams, order, the least set of events, and the time it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParallelPlan {
    /// Streams and order.
    pub assignment: StreamAssignment,
    /// The least set of events for it; the events of one sender in the order in which it records
    /// them.
    pub events: Vec<Event>,
    /// Run time in ns in the model of `simulate`.
    pub makespan: u64,
}

/// Plans streams, order and events of a graph.
///
/// # Errors
/// Engines or labels outside the tables of `rules`, or too few streams for labels and independent
/// engines.
pub fn plan_parallel(dag: &Dag, rules: &Rules, options: &ParallelOptions) -> Result<ParallelPlan, DagError> {
    rules.check(dag)?;
    let m = Model::new(dag, rules, options.plain, options.events)?;
    let found = match m.streams {
        0..=4 => search::search::<4>(&m, options.aim),
        5..=8 => search::search::<8>(&m, options.aim),
        9..=16 => search::search::<16>(&m, options.aim),
        17..=32 => search::search::<32>(&m, options.aim),
        33..=64 => search::search::<64>(&m, options.aim),
        // clocks of so many streams cost more than they tell
        _ => search::search::<1>(&m, options.aim),
    };
    let mut plan = ParallelPlan { assignment: found.assignment, events: found.events, makespan: found.span };
    plan.assignment.compact();
    Ok(plan)
}

/// The least events and the run time of an assignment made elsewhere; costs and slots as in
/// [`plan_parallel`].
///
/// # Errors
/// Labels and independent engines alone pass `max_streams`.
pub fn measured(dag: &Dag, rules: &Rules, a: StreamAssignment, events: EventCost) -> Result<ParallelPlan, DagError> {
    let m = Model::new(dag, rules, a.streams, events)?;
    let (events, makespan) = measure(&m, &a);
    Ok(ParallelPlan { assignment: a, events, makespan })
}
