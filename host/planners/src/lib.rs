//! The algorithms of the planners, over plain numbers: this crate knows no graph, no engine and no
//! compiled model. The compiler's stages translate models into these problems and read back the
//! results; `ge plan` does the same with files.

/// Clustering of nodes: groups that may be merged without creating a cycle (facts 3.4).
pub mod cluster;
/// Choice of the cheapest of two values for each of many items, by a minimum cut.
pub mod choice;
/// Events between streams: the smallest set, and the check that a plan is sound.
pub mod events;
/// Offsets of memory blocks with lifetimes.
pub mod memory;
/// Assignment of a graph's nodes to streams.
pub mod streams;
