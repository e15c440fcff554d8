//! Memory planning. in: lifetimes under an execution order, out: `MemoryPlan`.

/// Offset assigners over plain buffers.
pub mod assign;
