//! Control flow on the device: If, Case, While and For with static shapes become labels and jumps
//! (003 §2.2, facts 8.6).

/// One graph being written node by node.
mod writer;
/// Carried values that a body changes in place.
mod carried;
/// The rewriting.
pub mod lower;
/// For.
mod count;
/// Where nodes of v1 control flow stand.
pub mod regions;

pub use lower::{has_calls_alone, is_lowered, lower};
