//! Memory planning. in: lifetimes under an execution order, out: `MemoryPlan`.

/// Offset assigners over plain blocks.
pub mod assign;
/// The independent check that no two live blocks overlap.
pub mod check_offsets;
/// CSV files of buffers in, CSV files with offsets out (`ge plan memory`).
pub mod plan_file;
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
