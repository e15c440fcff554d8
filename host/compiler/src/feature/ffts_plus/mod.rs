//! FFTS+: a subgraph that its composite engine has cut into slices becomes one task, a context
//! graph over the kernels of its nodes.
//!
//! The engine says how the subgraph is cut (`ge_plugin_api::author::slices`); `body` takes the
//! subgraphs out of the model before the plans are made,
//! `slices` makes the nodes as one slice has them, `arena` puts what they hand each other into one
//! slice's memory, `contexts` says what waits for what, and `task` puts the engines' kernels into
//! it. Source: facts 1.3, 7.2.

/// Subgraphs in slices, out of the model and back.
pub mod body;
/// The nodes as a slice has them.
pub mod slices;
/// Memory of one slice.
pub mod arena;
/// What waits for what.
pub mod contexts;
/// The task.
pub mod task;

pub use body::{Body, give_back, take};
pub use task::{Calls, SlicedCall, calls};
