//! Memory planning. In: lifetimes under an execution order. Out: `MemoryPlan`.

/// The result of the stage.
pub mod plan;
/// Values that share memory, grouped as symbols.
pub mod symbols;
/// Places of variables, which outlive the run.
pub mod variables;
/// Memory that gears share.
pub mod batch;
/// Outputs and workspaces whose memory is not reused.
pub mod no_reuse;
/// Cuts a feature map into pieces.
pub mod splitter;
/// Sets the offsets of outputs and workspaces.
pub mod set_input_output_offset_pass;
/// The last check of the offsets.
pub mod check_offset;
/// Values in memory that the caller lends.
pub mod guests;
/// Check against the memory of the device.
pub mod capacity;
/// Plans the memory of a graph.
pub mod graph_planner;

pub use plan::{Io, MemoryPlan, Slot, Space, SpaceReport, ZeroCopyRange};
