//! Operators of the ONNX domain `com.microsoft`, which quantised and exported transformers use.
//!
//! The crate is written as a vendor would write it: it depends on `ge-plugin-api` alone. An
//! operator whose meaning the built-in operators have is decomposed into them by its mapping; the
//! others have a prototype, a mapping and a kernel here, one operator a file. Kernels belong to the
//! engine [`ENGINE`] and compute in f32.
#![deny(unsafe_code)]

/// FastGelu, Gelu, BiasGelu, QuickGelu.
pub mod activations;
/// Attention, QAttention, MultiHeadAttention.
pub mod attention;
/// Masks of the attention operators.
mod attention_mask;
/// DynamicQuantizeLSTM.
pub mod dynamic_quantize_lstm;
/// FusedConv, FusedGemm.
pub mod fused;
/// GroupQueryAttention.
pub mod group_query_attention;
/// What stands before the products of GroupQueryAttention.
mod group_query_state;
/// Inverse.
pub mod inverse;
/// MatMulNBits.
pub mod mat_mul_n_bits;
/// NhwcMaxPool.
pub mod nhwc_max_pool;
/// Normalisations with a residual or an embedding before them.
pub mod norms;
/// FusedMatMul and products of whole numbers.
pub mod products;
/// Operators between DequantizeLinear and QuantizeLinear.
pub mod q_linear;
/// Activations of recurrent operators.
mod recurrent_activation;
/// What is refused by name.
mod refused;
/// RotaryEmbedding.
pub mod rotary_embedding;
/// What mappings share.
mod shared;
/// Tokenizer.
pub mod tokenizer;

mod plugin;

/// The engine that computes the operators of this plugin which have kernels of their own.
pub const ENGINE: &str = "OrtContribEngine";
