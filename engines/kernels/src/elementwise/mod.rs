//! Element-wise operators: functions of one tensor, of two with broadcasting, comparisons, choices
//! and casts.
//!
//! The elements of the output, in row-major order, are the units of work.

/// Functions of one tensor.
pub mod unary;
/// Functions of two tensors.
pub mod binary;
/// Division of many integers by one.
mod divide;
/// Functions of two tensors of half types.
mod halves;
/// Functions of two tensors whose inner runs are short.
mod short;
/// Logic on truth values, and choices by them.
pub mod truth;
/// Chains of element-wise steps.
pub mod chain;
/// Element-wise steps and reductions over tiles of rows.
pub mod cluster;
/// Steps of clusters beyond single-precision arithmetic.
pub mod lanes;

pub use binary::{Binary, Compare, binary, compare, float_map};
pub use chain::{Chain, ChainStep, Source};
pub use cluster::{Cluster, ClusterStep};
pub use lanes::Convert;
pub use truth::{Join, join, select};
pub use unary::{Unary, unary};
