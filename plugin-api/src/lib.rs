//! The border between the host `ge` and its plugins: the one crate that a vendor depends on.
//!
//! A plugin is a dynamic library with one
//! `ge_plugin!`; what it brings is registered where it is written: engines (`engine`), operator
//! prototypes (`ops`), front ends and mappings (`frontend`), passes (`pass`), devices (`device`).
//! Graphs stay in the host: a plugin sees them through borrowed views
//! (`view`) and edits them by recorded patches (`patch`) that the host applies whole or not at all.
//! No panic crosses: every exported function is guarded.
//!
//! The crate's major version is the border's: within a major, versions only append.
#![warn(missing_docs)]
#![allow(non_local_definitions, clippy::missing_safety_doc)]

/// The only place that names abi_stable.
pub mod abi;
/// Element types, formats, shapes, attributes, tensors, ids.
pub mod types;
/// What is told to the user.
pub mod diagnostic;
/// What the host does for plugins.
pub mod services;
/// The graph as a plugin sees it.
pub mod view;
/// Recorded edits.
pub mod patch;
/// Operator prototypes and inference.
pub mod ops;
/// Ranges of values.
pub mod range;
/// Front ends and mappings.
pub mod frontend;
/// Passes.
pub mod pass;
/// Fusions by patterns, and what they are made of.
pub mod fusion;
/// Tasks that builders emit.
pub mod task;
/// Kernel contracts.
pub mod kernel;
/// Kernels launched as one.
pub mod chain;
/// Kernels run slice by slice.
pub mod slices;
/// What an engine says of a node.
pub mod support;
/// Engines.
pub mod engine;
/// Devices.
pub mod device;
/// What authors write with.
pub mod author;
/// What most plugins name.
pub mod prelude;
/// Tests without a host.
pub mod testing;

pub use diagnostic::{Diagnostic, Error, ErrorKind, Result};
#[doc(hidden)]
pub use inventory;
