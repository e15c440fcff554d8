//! The compiler: from a graph to a GeRootModel, one module a stage, in the order of the stages.
#![forbid(unsafe_code)]

/// Streams: logical allocation and, beyond it, streams from the graph's own parallelism.
pub mod streams;
/// Memory: lifetimes, assigners, offsets and their check.
pub mod memory;
