//! Kernels by family. A family reads a signature and answers with a kernel, or with the reason of a
//! refusal in words.

/// Clusters of element-wise operators and reductions.
pub mod cluster;
/// The types of clusters' values.
pub mod typed;
/// Products of groups of rows.
pub mod grouped;
/// Blocks of a launch that work together.
mod meetings;
/// Recurrent networks.
pub mod recurrent;
/// LSTMs of bytes.
pub mod byte_lstm;
/// The keys that a query of an attention sees by its place.
mod band;
/// Attention with masks and lengths of sequences.
pub mod sequences;
/// The k greatest or least.
pub mod topk;
/// Matrix products.
pub mod matmul;
/// Convolutions.
pub mod conv;
/// Convolutions of few places.
pub mod row_conv;
/// Two convolutions of which one reads the other.
pub mod conv_pair;
/// Window shapes that convolution and pooling share.
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
/// Element-wise operators.
pub mod elementwise;
/// The rows of element-wise operators.
pub mod maps;
/// Truth values.
pub mod logic;
/// One element again and again.
pub mod fill;
/// What writes variables.
pub mod state;
/// Operators that move elements.
pub mod layout;
/// Padding.
pub mod pad;
/// Elements that indices name.
pub mod places;
/// Blocked layouts.
pub mod trans_data;
/// Quantisation.
pub mod quant;
/// What follows a product or a convolution in the same kernel.
pub mod fused;
/// Chains of element-wise steps.
pub mod chain;
/// Attention.
pub mod attention;
/// Heads turned by their positions.
pub mod rotary;
/// Convolutions of bytes.
pub mod qconv;
/// Products of bytes.
pub mod qmatmul;
/// Products of singles by bytes.
pub mod weights;
