//! Control flow on the device: If, Case, While and For with static shapes become labels and jumps
//! (003 §2.2, facts 8.6).

/// Writes one graph node by node.
mod writer;
/// Carried values that a body changes in place.
mod carried;
/// Rewriting of control nodes.
pub mod lower;
/// Rewriting of `For`.
mod count;
/// Regions in which the nodes of v1 control flow stand.
pub mod regions;

pub use lower::{has_calls_alone, is_lowered, lower};
