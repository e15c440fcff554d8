//! Pooling.
pub mod global;
pub mod greatest;
pub mod window;
