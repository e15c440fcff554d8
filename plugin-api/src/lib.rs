//! The ABI between the host `ge` and its plugins: the only crate that a plugin vendor depends on.
//!
//! A plugin is a dynamic library with one `ge_plugin!`. Its parts are registered where they are
//! defined: engines (`engine`), operator prototypes (`ops`), front ends and mappings (`frontend`),
//! passes (`pass`) and devices (`device`). Graphs stay in the host: a plugin reads them through
//! borrowed views (`view`) and edits them with recorded patches (`patch`), which the host applies
//! as a whole or not at all. No panic crosses the ABI: every exported function is guarded.
//!
//! The crate's major version is the version of the ABI: minor versions only append to it.
#![warn(missing_docs)]
#![allow(non_local_definitions, clippy::missing_safety_doc)]

/// The ABI layer; the only module that names abi_stable.
pub mod abi;
/// Element types, formats, shapes, attributes, tensors and ids.
pub mod types;
/// Errors and other diagnostics for the user.
pub mod diagnostic;
/// Services that the host offers to plugins, and the options of a plugin.
pub mod services;
/// Read-only views of the host's graph.
pub mod view;
/// Patches: recorded edits of a graph.
pub mod patch;
/// Operator prototypes and shape inference.
pub mod ops;
/// Value ranges of tensors.
pub mod range;
/// Front ends and operator mappings.
pub mod frontend;
/// Graph passes.
pub mod pass;
/// Pattern-based fusion passes and their building blocks.
pub mod fusion;
/// Tasks that engines generate.
pub mod task;
/// Contracts of device and host kernels.
pub mod kernel;
/// Several kernels launched as one.
pub mod chain;
/// Kernels that run slice by slice.
pub mod slices;
/// An engine's answer whether it supports a node.
pub mod support;
/// Engines.
pub mod engine;
/// Devices.
pub mod device;
/// Helpers and macros for plugin authors.
pub mod author;
/// The items that most plugins use.
pub mod prelude;
/// Tests of kernels and engines without a host.
pub mod testing;

pub use diagnostic::{Diagnostic, Error, ErrorKind, Result};
#[doc(hidden)]
pub use inventory;
