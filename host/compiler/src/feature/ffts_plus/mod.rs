//! FFTS+: a subgraph that its composite engine has cut into slices becomes one task, which is a
//! context graph over the kernels of its nodes.
//!
//! The engine says how the subgraph is cut (`ge_plugin_api::author::slices`). `body` takes the
//! subgraphs out of the model before the plans are made, `slices` makes the nodes of one slice,
//! `arena` places the values between them in the memory of one slice, `contexts` derives what waits
//! for what, and `task` inserts the engines' kernels. Source: facts 1.3, 7.2.

/// Takes the sliced subgraphs out of the model and puts them back.
pub mod body;
/// The nodes of one slice.
pub mod slices;
/// Memory of one slice.
pub mod arena;
/// Dependencies between the parts of a slice.
pub mod contexts;
/// The FFTS+ task.
pub mod task;

pub use body::{Body, give_back, take};
pub use task::{Calls, SlicedCall, calls};
