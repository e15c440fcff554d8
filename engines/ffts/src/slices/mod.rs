//! FFTS+: which nodes are cut into slices together, and how.

/// Along which axis an operator's slices are independent.
pub mod rules;
/// Which nodes go together.
pub mod scopes;
/// Slices and windows of a subgraph.
pub mod cut;

pub use rules::{Sliced, sliced};
