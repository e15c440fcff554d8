//! DNN_VM_DVPP: images from their file forms.
//!
//! [`decode`] turns the bytes of a file into pixels within bounds; [`engine`] offers it as an operator's kernel, on the device
//! and on the host.
#![deny(unsafe_code)]

/// Image files to pixels.
pub mod decode;
/// The engine.
pub mod engine;

mod plugin;
