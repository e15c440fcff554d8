//! DNN_VM_DVPP: images from their file forms, and what is done to them before a model.
//!
//! [`decode`] turns the bytes of a file into pixels within bounds, [`pixels`] resizes, crops and
//! changes colours; [`engine`] offers both as kernels, on the device and on the host, [`ops`] says
//! what the operators are.
#![deny(unsafe_code)]

/// Image files to pixels.
pub mod decode;
mod picture;
/// Image files without compression.
pub mod plain;
/// The engine.
pub mod engine;
/// Prototypes and mappings.
pub mod ops;
/// Pictures in memory.
pub mod pixels;

mod plugin;
