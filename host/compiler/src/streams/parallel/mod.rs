//! Streams from the graph's own parallelism: at most N streams of plain nodes, cost-aware.
//!
//! A portfolio of list schedules (`list`) is measured with the exact cost model (`model`); the best is improved
//! step by step. One stream of plain nodes is always among the candidates, so a plan is never slower than that.

/// The plain graph and the rules of a plan.
pub mod dag;
mod list;
mod model;
#[cfg(test)]
mod tests;

use crate::sync::transitive::Event;
use dag::{Dag, DagError, Rules, StreamAssignment};
use list::{Setting, list_schedule};
use model::{Model, measure};

/// What to plan for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParallelOptions {
    /// At most so many streams of plain nodes.
    pub plain: usize,
    /// Cost of a record and of a wait, in ns each.
    pub event_cost: u64,
}

/// A plan: streams, order, the least set of events, and the time it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParallelPlan {
    /// Streams and order.
    pub assignment: StreamAssignment,
    /// The least set of events for it; the events of one sender in the order in which it records them.
    pub events: Vec<Event>,
    /// Run time in ns in the model of `simulate`.
    pub makespan: u64,
}

/// Plans streams, order and events of a graph.
///
/// # Errors
/// Engines or labels outside the tables of `rules`, or too few streams for labels and independent engines.
pub fn plan_parallel(dag: &Dag, rules: &Rules, options: &ParallelOptions) -> Result<ParallelPlan, DagError> {
    rules.check(dag)?;
    let m = Model::new(dag, rules, options.plain, options.event_cost)?;
    if m.streams > 64 {
        return Ok(plan_wide::<1>(&m));
    }
    Ok(match m.streams {
        0..=4 => plan_wide::<4>(&m),
        5..=8 => plan_wide::<8>(&m),
        9..=16 => plan_wide::<16>(&m),
        17..=32 => plan_wide::<32>(&m),
        _ => plan_wide::<64>(&m),
    })
}

/// The least events and the run time of an assignment made elsewhere; costs and slots as in [`plan_parallel`].
///
/// # Errors
/// Labels and independent engines alone pass `max_streams`.
pub fn measured(dag: &Dag, rules: &Rules, a: StreamAssignment, event_cost: u64) -> Result<ParallelPlan, DagError> {
    let m = Model::new(dag, rules, a.streams, event_cost)?;
    let (events, makespan) = measure(&m, &a);
    Ok(ParallelPlan { assignment: a, events, makespan })
}

fn plan_wide<const W: usize>(m: &Model<'_>) -> ParallelPlan {
    let mut best: Option<ParallelPlan> = None;
    for s in settings(m) {
        let assignment = list_schedule::<W>(m, &s);
        let (events, makespan) = measure(m, &assignment);
        if best.as_ref().is_none_or(|b| makespan < b.makespan) {
            best = Some(ParallelPlan { assignment, events, makespan });
        }
    }
    let mut best = best.unwrap_or(ParallelPlan {
        assignment: StreamAssignment::single(m.dag),
        events: Vec::new(),
        makespan: m.dag.work(),
    });
    best.assignment.compact();
    best
}

/// The portfolio, smaller for large graphs.
fn settings(m: &Model<'_>) -> Vec<Setting> {
    let n = m.dag.len();
    let ec = m.event_cost;
    let big = n > 50_000;
    let look = if big { 8 } else { 32 };
    let mut out = Vec::new();
    let paths: &[u64] = if big { &[100] } else { &[20, 100, 300, 700, 1000] };
    let waits: &[u64] = if ec == 0 {
        &[0]
    } else if big {
        &[4]
    } else {
        &[0, 2, 4, 8, 16]
    };
    for &path in paths {
        for &wait in waits {
            out.push(Setting { plain: m.plain, path, wait, look, per_edge: ec });
        }
    }
    out.push(Setting { plain: m.plain.min(1), path: 100, wait: 4, look, per_edge: 0 });
    out
}
