//! Tasks. in: streams, sync and the engines' builders, out: `TaskList`: every task in order, and the kernel store.
pub mod generator;
pub mod args_format;
pub mod mark_first_and_last_ops;

pub use generator::TaskGenerator;

use crate::ids::{NodeKey, PhysicalId, StreamId};
use ge_plugin_api::task::Task;

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
