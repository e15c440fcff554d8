//! Control flow on the device: If, Case and While with static shapes become labels and jumps on one stream (003 §2.2, facts 8.6).

/// One graph being written node by node.
mod writer;
/// The rewriting.
pub mod lower;

pub use lower::lower;
