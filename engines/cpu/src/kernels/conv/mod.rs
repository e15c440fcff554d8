//! Convolutions.
pub mod direct;
pub mod window;
