//! Normalisation and softmax.
pub mod channel;
pub mod layer;
pub mod softmax;
