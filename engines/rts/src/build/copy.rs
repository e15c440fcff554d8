//! Copies: `MEMCPY_ASYNC {iN*}{oN*}`, one task per output.
use ge_plugin_api::task::{Task, TaskType};

/// Copy kind of the runtime API: device to device.
const DEVICE_TO_DEVICE: i64 = 3;

/// The task that copies input `i` to output `i`.
pub fn task(kind: TaskType, i: usize) -> Task {
    Task { numbers: vec![DEVICE_TO_DEVICE].into(), operands: format!("{{i{i}*}}{{o{i}*}}").into(), ..Task::new(kind) }
}
