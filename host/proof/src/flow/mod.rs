//! Proves control flow by labels: the tasks as queues, whose jumps take every possible path
//! (`paths.rs`). On each path and in every schedule,
//!
//! - nothing waits forever, no event is recorded twice, and none is left for the next run to find;
//! - a stream is woken again only after everything that it did is known to be over, and everything
//!   is over before END_GRAPH;
//! - a node starts after the latest runs of the nodes that it needs, and memory is overwritten only
//!   after its latest readers and writers.
//!
//! A path is followed once for all schedules: each stream has a clock of what it knows to be over.
//! Events and wakes join these clocks.
mod frame;
mod paths;
mod state;
mod walk;

use super::PlanFault;
use frame::Frame;
use ge_model::CompiledModel;
use ge_plugin_api::task::TaskType;
use walk::Walk;

/// Proves the order of a model's control flow. Models without jumps pass.
pub(crate) fn check(m: &CompiledModel) -> Result<(), PlanFault> {
    let jumps = |k: u32| matches!(TaskType(k), TaskType::STREAM_LABEL_GOTO | TaskType::STREAM_LABEL_SWITCH_BY_INDEX);
    if !m.tasks.iter().any(|t| jumps(t.kind)) {
        return Ok(());
    }
    let frame = Frame::of(m);
    paths::all(Walk::new(m, &frame))
}
