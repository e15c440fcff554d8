//! A compiled model as plain data, and its encoding in an OM file.
//!
//! The compiler builds a `CompiledModel` and writes it with `encode`; the runtime and `ge inspect`
//! read it with `decode`. This crate connects those two, which do not know each other, to `om`,
//! which knows only the container. Data goes where the published schema has a field for it;
//! everything else goes into model and node attributes with the prefix `ge_rs.`.
#![forbid(unsafe_code)]

mod attrs;
mod check;
mod data;
mod decode;
mod desc;
mod encode;
mod summary;
/// The sets of input sizes that a model with several static plans is compiled for.
pub mod gears;
/// Weights that two models share.
mod share;
/// Context graphs of FFTS+ tasks.
pub mod context_graph;
/// Which node of the imported graph reads or writes which variable, and in which order.
pub mod effects;
/// Choices that became selections between two branches that are both computed.
pub mod choice;
/// Tasks that combine several launches.
pub mod launch;

pub use check::ModelError;
pub use data::*;
pub use decode::decode;
pub use effects::EffectOrder;
pub use encode::{encode, encode_all};
pub use gears::{Gear, Gears};
pub use summary::{LogicalStreamAllocationInfo, StreamAllocationSummary};
