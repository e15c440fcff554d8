//! Copies: `MEMCPY_ASYNC {iN*}{oN*}`, one task an output.
use ge_plugin_api::task::{Task, TaskType};

/// Copy kind of the run-time: device to device.
const DEVICE_TO_DEVICE: i64 = 3;

/// The copy of input `i` to output `i`.
pub fn task(kind: TaskType, i: usize) -> Task {
    Task { numbers: vec![DEVICE_TO_DEVICE].into(), operands: format!("{{i{i}*}}{{o{i}*}}").into(), ..Task::new(kind) }
}
