//! Operator prototypes: inputs, outputs, attributes, types and shape inference, with one file per
//! family.
//!
//! Operators have CANN's name if CANN has them, otherwise ONNX's (`plugins/ops/README.md` has the
//! table). Each family file has one function that makes its prototypes; its doc comment defines the
//! semantics that kernels follow. `ranges` knows which inputs are indices, lengths and masks.
#![forbid(unsafe_code)]

pub mod attention;
pub mod collective;
pub mod concat;
pub mod control;
pub mod conv;
pub mod dims;
pub mod elementwise;
pub mod fft;
pub mod fused;
pub mod image;
pub mod learn;
pub mod maps;
pub mod matmul;
pub mod norm;
pub mod pool;
pub mod quant;
pub mod random;
pub mod ranges;
pub mod read;
pub mod reduce;
pub mod rnn;
pub mod select;
pub mod sequence;
pub mod shape;
pub mod slice;
pub mod strings;
pub mod structural;
pub mod text;
pub mod value_ranges;
pub mod variable;

ge_plugin_api::ge_plugin! { name: "ops", kinds: ["ops", "pass"], provides: [] }

#[cfg(test)]
mod tests;
