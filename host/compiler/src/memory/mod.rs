//! Memory planning. in: lifetimes under an execution order, out: `MemoryPlan`.

/// What the stage decides.
pub mod plan;
/// Values that share memory, as symbols.
pub mod symbols;
/// Places that outlive the run.
pub mod variables;
/// Gears share memory.
pub mod batch;
/// Who keeps memory to itself.
pub mod no_reuse;
/// Pieces of a feature map.
pub mod splitter;
/// Offsets of outputs and workspaces.
pub mod set_input_output_offset_pass;
/// The last look at the offsets.
pub mod check_offset;
/// Values in the caller's memory.
pub mod guests;
/// What the device has.
pub mod capacity;
/// Memory of a graph.
pub mod graph_planner;

pub use plan::{Io, MemoryPlan, Slot, Space, SpaceReport, ZeroCopyRange};
