//! DNN_VM_DVPP: image decoding, resizing, cropping and colour conversion.
#![deny(unsafe_code)]

/// The engine.
pub mod engine;

mod plugin;
