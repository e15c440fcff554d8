//! Tasks. Input: streams, synchronisation and the engines' task builders. Output: `TaskList`,
//! every task in order, and the kernel store.
pub mod generator;
pub mod mark_first_and_last_ops;
mod verify;

pub use generator::TaskGenerator;

use crate::ids::{NodeKey, PhysicalId, StreamId};
use ge_ir::Model;
use ge_plugin_api::abi::ROption;
use ge_plugin_api::task::Task;
use std::collections::BTreeMap;

/// A task with its node and stream.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedTask {
    /// The node to which the task belongs.
    pub node: NodeKey,
    /// The logical stream.
    pub stream: StreamId,
    /// The physical stream; set by `split`.
    pub physical: PhysicalId,
    /// The task itself.
    pub task: Task,
    /// Event or notify id if the task is a record or a wait.
    pub sync_id: Option<u32>,
}

impl PlacedTask {
    /// The task as a line of `_tasks`.
    fn line(&self) -> String {
        let mut out = format!("{} stream={}", self.task.kind(), self.physical.0);
        if let Some(id) = self.sync_id {
            out.push_str(&format!(" id={id}"));
        }
        if let ROption::RSome(k) = &self.task.kernel {
            out.push_str(&format!(" kernel={} blocks={}", k.kernel_name, k.block_dim));
        }
        out
    }
}

/// Writes the tasks of each node to its attribute `_tasks`, one line per task, in order. Nodes
/// without tasks do not get the attribute.
pub fn to_attrs(tasks: &[PlacedTask], model: &mut Model) {
    let mut lines: BTreeMap<NodeKey, Vec<String>> = BTreeMap::new();
    for t in tasks {
        lines.entry(t.node).or_default().push(t.line());
    }
    for (key, list) in lines {
        model.graphs_mut()[key.graph as usize].set_attr(key.node, "_tasks", list);
    }
}

/// A kernel of the kernel store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredKernel {
    /// Name of the kernel.
    pub name: String,
    /// Binary code of the kernel.
    pub binary: Vec<u8>,
    /// Name of the engine that loads the kernel.
    pub engine: String,
}

/// Tasks and kernels of a model.
#[derive(Clone, Debug, Default)]
pub struct TaskList {
    /// Tasks by node order, and for each node in the order in which the engine emitted them.
    pub tasks: Vec<PlacedTask>,
    /// Kernels by name.
    pub kernels: Vec<StoredKernel>,
}
