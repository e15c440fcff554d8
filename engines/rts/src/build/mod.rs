//! Task lists of this engine's nodes. Source: facts 8.6 (the task of each operator), 7.2
//! (payloads).
pub mod clear;
pub mod control;
pub mod copy;
pub mod sync;

use crate::store::{Family, family};
use ge_plugin_api::engine::{KernelBinary, RunningParams, Target, TaskContext};
use ge_plugin_api::task::{Task, TaskType};
use ge_plugin_api::view::Node;
use ge_plugin_api::{Error, Result};

/// Bytes per nanosecond of a copy, for planning.
const COPY_BYTES_PER_NS: u64 = 100;

/// The kernel of a node that clears memory; `None` for all other nodes.
pub fn compile(node: &Node<'_>, target: &Target) -> Result<Option<KernelBinary>> {
    match family(node.op()) {
        Some(Family::Clear) => clear::compile(node, target).map(Some),
        _ => Ok(None),
    }
}

/// What a node needs besides its outputs.
pub fn running_params(node: &Node<'_>) -> RunningParams {
    match family(node.op()) {
        Some(Family::Clear) => clear::running_params(node),
        _ => RunningParams::default(),
    }
}

/// The task list of a node.
pub fn tasks(node: &Node<'_>, context: &TaskContext) -> Result<Vec<Task>> {
    let family =
        family(node.op()).ok_or_else(|| Error::internal(format!("{} is no operator of DNN_VM_RTS", node.op())))?;
    Ok(match family {
        Family::Copy | Family::Merge => vec![copy::task(TaskType::MEMCPY_ASYNC, 0)],
        Family::CopyAddress => vec![copy::task(TaskType::MEMCPY_ADDR_ASYNC, 0)],
        Family::CopyEach => (0..node.outputs().len()).map(|i| copy::task(TaskType::MEMCPY_ASYNC, i)).collect(),
        Family::StreamActive => control::stream_active(node)?,
        Family::StreamSwitch => control::stream_switch(node)?,
        Family::LabelSet => control::label_set(node)?,
        Family::LabelGoto => control::label_goto(node)?,
        Family::LabelSwitch => control::label_switch(node)?,
        Family::Send => sync::task(node, TaskType::EVENT_RECORD, "event_id")?,
        Family::Recv => sync::task(node, TaskType::EVENT_WAIT, "event_id")?,
        Family::SendNotify => sync::task(node, TaskType::NOTIFY_RECORD, "notify_id")?,
        Family::RecvNotify => sync::task(node, TaskType::NOTIFY_WAIT, "notify_id")?,
        Family::Clear => vec![clear::task(node, context)],
        Family::Exit => vec![Task::new(TaskType::MODEL_EXIT)],
    })
}

/// Run time in nanoseconds, for planning: of copies and clears, by their bytes.
pub fn time_ns(node: &Node<'_>) -> u64 {
    let bytes = match family(node.op()) {
        Some(Family::Copy | Family::CopyEach | Family::CopyAddress | Family::Merge) => {
            node.outputs().iter().filter_map(|d| d.data_bytes()).fold(0, u64::saturating_add)
        }
        Some(Family::Clear) => {
            (0..node.inputs().len()).filter_map(|i| node.input_desc(i)?.data_bytes()).fold(0, u64::saturating_add)
        }
        _ => 0,
    };
    bytes / COPY_BYTES_PER_NS
}
