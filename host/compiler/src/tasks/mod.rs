//! Tasks. in: streams, sync and the engines' builders, out: `TaskList`: every task in order, and
//! the kernel store.
pub mod generator;
pub mod mark_first_and_last_ops;
mod verify;

pub use generator::TaskGenerator;

use crate::ids::{NodeKey, PhysicalId, StreamId};
use ge_ir::Model;
use ge_plugin_api::abi::ROption;
use ge_plugin_api::task::Task;
use std::collections::BTreeMap;

/// A task with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedTask {
    /// The node it belongs to.
    pub node: NodeKey,
    /// Logical stream.
    pub stream: StreamId,
    /// Physical stream; set by `split`.
    pub physical: PhysicalId,
    /// The task.
    pub task: Task,
    /// Event or notify id of a record or wait.
    pub sync_id: Option<u32>,
}

impl PlacedTask {
    /// It as a line of `_tasks`.
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

/// Writes the tasks of each node as text has them: `_tasks`, one line a task in their order. Nodes
/// without one have none.
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
    /// Name.
    pub name: String,
    /// Binary.
    pub binary: Vec<u8>,
    /// Engine that loads it.
    pub engine: String,
}

/// Tasks and kernels of a model.
#[derive(Clone, Debug, Default)]
pub struct TaskList {
    /// Tasks in node order, then the order in which the engine emitted them.
    pub tasks: Vec<PlacedTask>,
    /// Kernels by name.
    pub kernels: Vec<StoredKernel>,
}
