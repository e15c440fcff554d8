//! Control flow by labels: the tasks as queues, whose jumps go every way that there is
//! (`paths.rs`). On each way, whatever the schedule,
//!
//! - nothing waits for ever, no event is recorded twice, and none is left for the next run to find;
//! - a stream is woken again only after all that it did is known to be over, and all is over before
//!   END_GRAPH;
//! - a node starts after those that it needs, as they last ran; what is written is written after
//!   all who last touched it.
//!
//! A way is followed once for all schedules: each stream has a clock of what it knows to be over,
//! which events and wakings join.
mod frame;
mod paths;
mod state;
mod walk;

use super::PlanFault;
use frame::Frame;
use ge_model::CompiledModel;
use ge_plugin_api::task::TaskType;
use walk::Walk;

/// Proves the order of a model's control flow.
pub(crate) fn check(m: &CompiledModel) -> Result<(), PlanFault> {
    let jumps = |k: u32| matches!(TaskType(k), TaskType::STREAM_LABEL_GOTO | TaskType::STREAM_LABEL_SWITCH_BY_INDEX);
    if !m.tasks.iter().any(|t| jumps(t.kind)) {
        return Ok(());
    }
    let frame = Frame::of(m);
    paths::all(Walk::new(m, &frame))
}
