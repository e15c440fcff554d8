//! The ONNX front end: converts model files to graphs, from opset 1 to the newest.
//!
//! [`read`] checks sizes and decodes without copying weights. [`import`] walks over graphs,
//! subgraphs and functions and looks up the mapping for each node's domain, operator and version.
//! [`ops`] has the mappings of `ai.onnx`.
//!
//! Element types are those of the standard up to number 26; FLOAT6E2M3 and FLOAT6E3M2 are refused
//! as not supported, and so are maps, sparse tensors as inputs, and sequences of sequences.
#![forbid(unsafe_code)]

pub mod attributes;
pub mod contradictions;
mod control;
mod defaults;
/// The operator `Scan`.
pub mod scan;
/// The operator `SequenceMap`.
pub mod sequence_map;
pub mod facts;
pub mod flex;
pub mod free;
pub mod import;
pub mod inferred;
pub mod inputs;
pub mod names;
pub mod loops;
pub mod ops;
pub mod order;
#[allow(missing_docs, clippy::all)]
#[rustfmt::skip]
pub mod proto;
/// Random operators in loops.
mod random;
pub mod ranks;
pub mod read;
pub mod schema;
pub mod scope;
pub mod tensor;
pub mod unroll;

pub use import::OnnxFrontend;

ge_plugin_api::ge_plugin! { name: "onnx", kinds: ["frontend"], provides: ["onnx"] }
ge_plugin_api::register_frontend!(|| Box::new(OnnxFrontend));

#[cfg(test)]
mod tests;
