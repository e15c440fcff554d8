//! The protobuf messages of an OM file: `ir` from `proto/ge_ir.proto`,
//! `task` from `proto/task.proto`.
//!
//! `bytes` fields are [`bytes::Bytes`], maps are
//! `BTreeMap`s (so that the same message has the same bytes), and large single messages inside `TaskDef`,
//! `AttrDef` and `FftsPlusCtxDef` are boxed. Both files are generated: after a change of
//! `proto/`, run `cargo xtask protobuf`. They stand in the repository because the protobuf compiler
//! takes longer to build than this crate.

/// Models, graphs, operators, tensors, attributes.
#[rustfmt::skip]
pub mod ir;
/// Tasks.
#[rustfmt::skip]
pub mod task;
