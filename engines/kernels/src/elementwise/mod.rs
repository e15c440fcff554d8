//! Element-wise operators: maps of one tensor, of two with broadcasting, comparisons, choices and
//! casts.
//!
//! The elements of the output, in row-major order, are the units of work.

/// Maps of one tensor.
pub mod unary;
/// Maps of two tensors.
pub mod binary;
/// Maps of two tensors of half types.
mod halves;
/// Maps of two tensors whose runs are short.
mod short;
/// Truth values, and choices by them.
pub mod truth;
/// Chains of steps.
pub mod chain;
/// Steps over rows, and reductions of rows.
pub mod cluster;
/// What clusters do beside single precision.
pub mod lanes;

pub use binary::{Binary, Compare, binary, compare, float_map};
pub use chain::{Chain, ChainStep, Source};
pub use cluster::{Cluster, ClusterStep};
pub use lanes::Convert;
pub use truth::{Join, join, select};
pub use unary::{Unary, unary};
