//! DNN_VM_DVPP: decoding of image files, and preprocessing of images for a model.
//!
//! [`decode`] turns the bytes of a file into pixels within size limits, and [`pixels`] resizes,
//! crops and converts colours. [`engine`] offers both as kernels, on the device and on the host.
//! [`ops`] defines the operators.
#![deny(unsafe_code)]

/// Decoding of image files to pixels.
pub mod decode;
mod picture;
/// Uncompressed image files.
pub mod plain;
/// The engine.
pub mod engine;
/// Operator prototypes and their ONNX mappings.
pub mod ops;
/// Operations on images in memory.
pub mod pixels;

mod plugin;
