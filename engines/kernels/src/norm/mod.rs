//! Normalisations. A row, of contiguous or strided elements, is a unit of work.

/// Softmax and its logarithm.
pub mod softmax;
/// Means and spreads of several rows at once.
mod rows;
/// Layer, root-mean-square, batch, instance and group normalisation.
pub mod layer;

pub use layer::{Affine, LayerNorm, affine_channels, affine_images, instance_norm, layer_norm};
pub use softmax::{MaskedSoftmax, Softmax, softmax};
