//! FFTS+: selection of the nodes that are cut into slices together, and how they are cut.

/// Axes along which an operator's slices are independent.
pub mod rules;
/// Scopes of nodes that are cut together.
pub mod scopes;
/// Numbers of slices and windows of a subgraph.
pub mod cut;

pub use rules::{Sliced, sliced};
