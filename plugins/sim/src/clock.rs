//! The simulated clock (`time = model`): a cost for each task that is the same on every machine.
//!
//! Each stream has its own clock; a wait advances it to the time of the record if that is later.
//! Streams do not slow each other down: contention for cores is part of the tasks' own `time_ns`.
use crate::plan::{Op, Task};
use ge_plugin_api::device::SocSpec;

/// Bytes that a copy moves per nanosecond if the task does not give its time.
const COPY_BYTES_PER_NS: u64 = 100;

/// Time in nanoseconds that a task takes on its stream.
pub fn cost(soc: &SocSpec, task: &Task) -> u64 {
    match task.op {
        Op::Kernel | Op::Updatable(_) => soc.task_launch_ns.saturating_add(task.time_ns),
        Op::Record(_) | Op::NotifyRecord { .. } => soc.event_record_ns,
        Op::Wait(_) | Op::NotifyWait(_) | Op::Reset(_) => soc.event_wait_ns,
        Op::Copy | Op::Reduce { .. } => {
            let moved = if task.time_ns > 0 { task.time_ns } else { task.work / 2 / COPY_BYTES_PER_NS };
            soc.task_launch_ns.saturating_add(moved)
        }
        Op::Label | Op::End | Op::Exit => 0,
        Op::Nop | Op::Active(_) | Op::Switch { .. } | Op::Goto(_) | Op::SwitchByIndex { .. } | Op::Update(_) => {
            soc.event_record_ns
        }
    }
}
