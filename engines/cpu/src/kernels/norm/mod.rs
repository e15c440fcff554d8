//! Normalisation and softmax.
pub mod axis;
pub mod channel;
pub mod layer;
pub mod lp;
pub mod softmax;
