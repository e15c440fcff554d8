//! Kernels by family. A family reads a signature and returns a kernel, or the reason why it has
//! none.

/// Clusters of element-wise operators and reductions.
pub mod cluster;
/// Types of the values in clusters.
pub mod typed;
/// Products of groups of rows.
pub mod grouped;
/// Teams of blocks in one launch.
pub mod meetings;
/// Recurrent networks.
pub mod recurrent;
/// LSTMs with 8-bit weights.
pub mod byte_lstm;
/// The keys that an attention query sees, depending on its position.
mod band;
/// Attention with masks and sequence lengths.
pub mod sequences;
/// The k largest or smallest elements.
pub mod topk;
/// Matrix products.
pub mod matmul;
/// Convolutions.
pub mod conv;
/// Convolutions with few output positions.
pub mod row_conv;
/// Convolutions without the taps that only read the border.
pub mod tap_conv;
/// Convolutions in half precision by the plans for single precision.
pub mod half_conv;
/// Two convolutions, the second of which reads the first.
pub mod conv_pair;
/// Window shapes of convolution and pooling.
pub mod window;
/// The layouts of the cube unit.
pub mod cube;
/// Pooling.
pub mod pool;
/// Resizing.
pub mod resize;
/// Softmax and normalisation.
pub mod norm;
/// Reductions and searches.
pub mod reduce;
/// `Einsum` as one matrix product.
pub mod einsum;
/// Element-wise operators.
pub mod elementwise;
/// Table of the element-wise operators.
pub mod maps;
/// Logical operators.
pub mod logic;
/// Tensors filled with one value.
pub mod fill;
/// Operators that write variables.
pub mod state;
/// Operators that move elements.
pub mod layout;
/// Padding.
pub mod pad;
/// Gather and scatter by index.
pub mod places;
/// Conversion to and from blocked layouts.
pub mod trans_data;
/// Quantisation.
pub mod quant;
/// Steps fused behind a product or a convolution.
pub mod fused;
/// Chains of element-wise steps.
pub mod chain;
/// Attention.
pub mod attention;
/// Rotary position embedding.
pub mod rotary;
/// Convolutions of 8-bit integers.
pub mod qconv;
/// Products of 8-bit integers.
pub mod qmatmul;
/// Products of f32 by 8-bit weights.
pub mod weights;
