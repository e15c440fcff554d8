//! The planners' algorithms over plain numbers: no graph, no engine and no compiled model is known
//! here. The compiler's stages turn models into these problems and read the answers back; `ge plan`
//! does so with files.

/// Groups of nodes that may be one, without cycles among them (facts 3.4).
pub mod cluster;
/// The cheapest of two values for each of many items, by a minimum cut.
pub mod choice;
/// Events between streams: the least set, and the check that a plan is sound.
pub mod events;
/// Offsets of blocks with lives.
pub mod memory;
/// Streams of a graph's nodes.
pub mod streams;
