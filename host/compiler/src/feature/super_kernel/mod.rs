//! SuperKernel (001 §4.4, §5.6): nodes of one `_super_kernel_scope` that follow each other on one
//! stream are launched as one task. In: the plans up to sync. Out: the chains, and the sync plan
//! without what a chain does itself.

/// Chooses the nodes that are launched together.
pub mod chains;
/// Builds the task of a chain.
pub mod task;

pub use chains::{Chains, form};
