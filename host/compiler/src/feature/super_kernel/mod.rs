//! SuperKernel (001 §4.4, §5.6): nodes of one `_super_kernel_scope` that follow each other on one
//! stream are launched as one task. in: the plans up to sync, out: the chains, and the sync plan
//! without what a chain does itself.

/// Which nodes are launched together.
pub mod chains;
/// The task of a chain.
pub mod task;

pub use chains::{Chains, form};
