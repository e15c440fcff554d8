//! Assigns streams from the parallelism of the graph itself: at most N streams of plain nodes,
//! taking costs into account.
//!
//! List schedules in time order (`list`) and by insertion (`insert`) are evaluated with the exact
//! cost model (`model`); `search` tries settings, priorities and widths and keeps the best. A
//! single stream of plain nodes is always among the candidates, so a plan is never slower than
//! that. Among equally good plans, the one with fewer streams is kept.

/// The plain graph and the rules of a plan.
pub mod dag;
mod bits;
mod insert;
mod list;
mod lower;
/// Memory needed under a plan.
pub mod memory;
mod model;
/// Offsets under a plan.
pub mod offsets;
mod point;
mod search;
/// Assignment of streams by engine.
pub mod engine;
/// Reads graphs from CSV and JSON files and writes their streams and events (`ge plan streams`).
pub mod plan_file;
#[cfg(test)]
mod tests;

use crate::events::transitive::Event;
use dag::{Dag, DagError, Rules, StreamAssignment};
pub use model::EventCost;
use model::{Model, measure};

/// The aim for which a plan is chosen (`ge.x.plan`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Aim {
    /// The least run time.
    #[default]
    Speed,
    /// The least memory that can be had for up to a twentieth more run time.
    Balanced,
    /// The least memory.
    Memory,
}

impl Aim {
    /// The aim for an option value; `Speed` for unknown values.
    pub fn of(value: &str) -> Aim {
        match value {
            "balanced" => Aim::Balanced,
            "memory" => Aim::Memory,
            _ => Aim::Speed,
        }
    }
}

/// Options for planning streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParallelOptions {
    /// Greatest number of streams of plain nodes.
    pub plain: usize,
    /// Costs of events.
    pub events: EventCost,
    /// The aim of the plan.
    pub aim: Aim,
}

/// A plan: streams, order, the smallest set of events, and the run time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParallelPlan {
    /// Streams and order of the nodes.
    pub assignment: StreamAssignment,
    /// The smallest set of events for the assignment; events of the same sender are in the order in
    /// which it records them.
    pub events: Vec<Event>,
    /// Run time in nanoseconds according to the cost model of `simulate`.
    pub makespan: u64,
}

/// Plans streams, order and events of a graph.
///
/// # Errors
/// Fails if a node's engine or label is not in the tables of `rules`, or if labels and independent
/// engines need more streams than allowed.
pub fn plan_parallel(dag: &Dag, rules: &Rules, options: &ParallelOptions) -> Result<ParallelPlan, DagError> {
    rules.check(dag)?;
    let m = Model::new(dag, rules, options.plain, options.events)?;
    let found = match m.streams {
        0..=4 => search::search::<4>(&m, options.aim),
        5..=8 => search::search::<8>(&m, options.aim),
        9..=16 => search::search::<16>(&m, options.aim),
        17..=32 => search::search::<32>(&m, options.aim),
        33..=64 => search::search::<64>(&m, options.aim),
        // Vector clocks for so many streams cost more than they gain.
        _ => search::search::<1>(&m, options.aim),
    };
    let mut plan = ParallelPlan { assignment: found.assignment, events: found.events, makespan: found.span };
    plan.assignment.compact();
    Ok(plan)
}

/// Computes the smallest set of events and the run time of an existing assignment; costs and slots
/// are those of [`plan_parallel`].
///
/// # Errors
/// Fails if labels and independent engines alone need more than `max_streams` streams.
pub fn measured(dag: &Dag, rules: &Rules, a: StreamAssignment, events: EventCost) -> Result<ParallelPlan, DagError> {
    let m = Model::new(dag, rules, a.streams, events)?;
    let (events, makespan) = measure(&m, &a);
    Ok(ParallelPlan { assignment: a, events, makespan })
}
