//! Memory planning. in: lifetimes under an execution order, out: `MemoryPlan`.

/// Offset assigners over plain blocks.
pub mod assign;
/// The independent check that no two live blocks overlap.
pub mod check_offsets;
/// CSV files of buffers in, CSV files with offsets out (`ge plan memory`).
pub mod plan_file;
/// What the stage decides.
pub mod plan;
/// Memory of a graph.
pub mod graph_planner;

pub use plan::{Io, MemoryPlan, Slot, Space, SpaceReport, ZeroCopyRange};
