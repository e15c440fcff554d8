//! Pooling.
pub mod global;
pub mod window;
