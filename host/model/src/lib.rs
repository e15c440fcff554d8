//! A compiled model as plain data, and its form in an OM.
//!
//! The compiler makes a `CompiledModel` and writes it with `encode`; the runtime and `ge inspect`
//! read it back with `decode`. It stands between `om`, which knows the container alone, and those
//! two, which know nothing of each other. What the published schema has a place for stands there;
//! the rest in model and node attributes with the prefix `ge_rs.`.
#![forbid(unsafe_code)]

mod attrs;
mod check;
mod data;
mod decode;
mod desc;
mod encode;
mod summary;
/// Sizes that a model of several static plans is compiled for.
pub mod gears;
/// Weights that two models have.
mod share;
/// Context graphs of FFTS+ tasks.
pub mod context_graph;
/// Which node of the imported graph reads or writes which variable, and in which order.
pub mod effects;
/// Several launches in one task.
pub mod launch;

pub use check::ModelError;
pub use data::*;
pub use decode::decode;
pub use effects::EffectOrder;
pub use encode::{encode, encode_all};
pub use gears::{Gear, Gears};
pub use summary::{LogicalStreamAllocationInfo, StreamAllocationSummary};
