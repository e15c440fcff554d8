//! The protobuf messages of an OM file: `ir` from `proto/ge_ir.proto`, `task` from
//! `proto/task.proto`.
//!
//! `bytes` fields are [`bytes::Bytes`], maps are `BTreeMap`s (so that equal messages have equal
//! bytes), and large single messages inside `TaskDef`, `AttrDef` and `FftsPlusCtxDef` are boxed.
//! Both files are generated: run `cargo xtask protobuf` after changing `proto/`. They are kept in
//! the repository because the protobuf compiler takes longer to build than this crate.

/// Messages for models, graphs, operators, tensors and attributes.
#[rustfmt::skip]
pub mod ir;
/// Messages for tasks.
#[rustfmt::skip]
pub mod task;
