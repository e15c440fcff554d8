//! Operators of the ONNX domain `com.microsoft`, used by quantised and exported transformers.
//!
//! The crate is written the way a vendor would write it: it depends only on `ge-plugin-api`. An
//! operator that can be expressed with built-in operators is decomposed by its mapping. The others
//! have a prototype, a mapping and a kernel here, one operator per file. Kernels belong to the
//! engine [`ENGINE`] and compute in f32.
#![deny(unsafe_code)]

/// FastGelu, Gelu, BiasGelu, QuickGelu.
pub mod activations;
/// Attention, QAttention, MultiHeadAttention.
pub mod attention;
/// Masks of the attention operators.
mod attention_mask;
/// How mappings are registered.
mod declare;
/// CDist.
pub mod distances;
/// DynamicQuantizeLSTM.
pub mod dynamic_quantize_lstm;
/// FusedConv, FusedGemm.
pub mod fused;
/// GatherBlockQuantized.
pub mod gather_block_quantized;
/// GroupQueryAttention.
pub mod group_query_attention;
/// The inputs of GroupQueryAttention.
mod group_query_call;
/// The part of GroupQueryAttention before its products.
mod group_query_state;
/// Inverse.
pub mod inverse;
/// MatMulNBits.
pub mod mat_mul_n_bits;
/// NhwcMaxPool.
pub mod nhwc_max_pool;
/// Numbers of tensors, for kernels.
mod numbers;
/// Normalisations with a residual or an embedding before them.
pub mod norms;
/// FusedMatMul and products of integers.
pub mod products;
/// Operators computed between DequantizeLinear and QuantizeLinear.
pub mod q_linear;
/// Activations of recurrent operators.
mod recurrent_activation;
/// Operators that are refused by name.
mod refused;
/// RotaryEmbedding.
pub mod rotary_embedding;
/// Helpers for mappings.
mod shared;
/// Operators of `ai.onnx` under this domain.
mod standard;
/// Tokenizer.
pub mod tokenizer;

mod plugin;

/// The engine for those operators of this plugin that have kernels of their own.
pub const ENGINE: &str = "OrtContribEngine";
