//! AIcoreEngine and VectorEngine: the fast kernels.
//!
//! An operator's row in [`store`] names its family. The family turns the node's signature (types,
//! shapes, attributes, values of small constants) into a [`kernel::Kernel`], or explains why it
//! cannot. The op store, the kernel builder and the executor all use this function, so what the
//! store promises is what runs. A kernel's work is divided into units. Which units a block computes
//! depends only on its index and the tiling data, and the bits of a unit do not depend on which
//! block computes it.
#![forbid(unsafe_code)]

/// The part of a node that a family sees.
pub mod sig;
/// The kernel trait of this crate, tiling data, and the adapter to the device's block kernels.
pub mod kernel;
/// Tiling functions that run on the device.
pub mod on_device;
/// The kernels, by family.
pub mod families;
/// The operators with their families and core types.
pub mod store;
/// The two engines.
pub mod engine;
/// Fusions that make nodes for these kernels.
pub mod passes;

use ge_plugin_api::fusion::{DecomposePass as Decomposed, PatternFusionPass as Fusion};
use ge_plugin_api::{ge_plugin, register_engine, register_pass};
use passes::{
    attention, byte_product, byte_weights, cluster, composites, conv, conv_pair, elementwise as chains, filters,
    matmul, norm, open_weights, panels, qmatmul, quant, recurrent, ub,
};

ge_plugin! { name: "nn", kinds: ["engine", "pass"], provides: ["AIcoreEngine", "VectorEngine"] }
register_engine!(|| Box::new(engine::Nn::ai_core()));
register_engine!(|| Box::new(engine::Nn::vector()));
register_pass!(Fusion(attention::AttentionFusion));
register_pass!(Fusion(attention::AttentionLayout));
register_pass!(conv::ConvEpilogue);
register_pass!(Fusion(conv::PadConv));
register_pass!(Decomposed(composites::Composites));
register_pass!(conv_pair::ConvPairFusion);
register_pass!(byte_product::ByteProduct);
register_pass!(cluster::ClusterFusion);
register_pass!(chains::ElementwiseFusion);
register_pass!(ub::ChainEpilogue);
register_pass!(matmul::MatMulEpilogue);
register_pass!(Fusion(matmul::MatMulTranspose));
register_pass!(matmul::MatMulWeights);
register_pass!(panels::MatMulPanels);
register_pass!(byte_weights::ByteWeights);
register_pass!(filters::ConvFilters);
register_pass!(open_weights::OpenWeights);
register_pass!(Fusion(norm::LayerNormFusion));
register_pass!(Fusion(norm::RmsNormFusion));
register_pass!(Fusion(norm::SiluFusion));
register_pass!(Fusion(norm::SoftmaxMaskFusion));
register_pass!(Fusion(quant::QuantConvFusion));
register_pass!(qmatmul::QuantMatMul);
register_pass!(recurrent::RecurrentWeights);
