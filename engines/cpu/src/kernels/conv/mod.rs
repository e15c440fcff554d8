//! Convolutions.
pub mod deform;
pub mod direct;
pub mod window;
