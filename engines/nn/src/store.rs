//! The op store: one row per operator. The row's family decides whether a node is supported and
//! gives the reason if it is not.
use crate::families::maps::{MAPS, PAIRS};
use crate::families::{
    byte_lstm, chain, cluster, conv, conv_pair, einsum, elementwise, fill, grouped, layout, logic, matmul, norm, pad,
    places, pool, qconv, qmatmul, quant, recurrent, reduce, resize, rotary, sequences, state, topk, trans_data,
    weights,
};
use crate::kernel::Kernel;
use crate::sig::{Answer, Sig};
use ge_plugin_api::task::ContextType;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Makes the kernel of a node, or returns the reason why it cannot.
pub type Build = fn(&Sig) -> Answer<Box<dyn Kernel>>;

/// The row of one operator.
#[derive(Clone, Copy)]
pub struct Row {
    /// Operator type.
    pub op: &'static str,
    /// Function of its family that makes the kernel.
    pub build: Build,
    /// Whether VectorEngine offers it, too.
    pub vector: bool,
    /// The type of core that it runs on.
    pub core: ContextType,
}

const fn row(op: &'static str, build: Build, vector: bool) -> Row {
    Row { op, build, vector, core: ContextType::AIV }
}
/// A row for an operator on the cube cores.
const fn cube(op: &'static str, build: Build) -> Row {
    Row { op, build, vector: false, core: ContextType::AICORE }
}
/// A row for products on the cube cores with further steps on the vector cores.
const fn mixed(op: &'static str, build: Build) -> Row {
    Row { op, build, vector: false, core: ContextType::MIX_AIC }
}

/// Operators by family; [`rows`] adds those of `families/maps.rs`.
const ROWS: &[Row] = &[
    cube("MatMul", matmul::build),
    cube("MatMulV2", matmul::build),
    cube("BatchMatMul", matmul::build),
    cube("BatchMatMulV2", matmul::build),
    cube("Einsum", einsum::build),
    mixed("FusedMatMul", matmul::build),
    mixed("FusedConv", conv::build),
    mixed("FusedConvPair", conv_pair::build),
    mixed("QLinearConv", qconv::build),
    cube("ConvInteger", qconv::build),
    mixed("FusedQuantMatMul", qmatmul::build),
    mixed("QLinearMatMul", qmatmul::build),
    cube("MatMulInteger", qmatmul::build),
    mixed("FusedWeightMatMul", weights::build),
    mixed("CommonRNN", recurrent::build),
    mixed("CommonGRU", recurrent::build),
    mixed("CommonLSTM", recurrent::build),
    mixed("DynamicQuantizeLSTM", byte_lstm::build),
    mixed("PromptFlashAttention", sequences::build),
    row("RotaryEmbedding", rotary::build, false),
    row("ScaledMaskedSoftmax", norm::masked_softmax, false),
    row("FusedElementwise", chain::build, true),
    row("FusedCluster", cluster::build, true),
    cube("GroupedMatmul", grouped::build),
    row("TopKV2", topk::build, false),
    cube("Conv2D", conv::build),
    cube("DepthwiseConv2D", conv::build),
    cube("Conv3D", conv::build),
    cube("Conv2DTransposeD", conv::build),
    cube("Conv3DTransposeD", conv::build),
    row("MaxPoolV3", pool::build, false),
    row("AvgPoolV2", pool::build, false),
    row("GlobalAveragePool", pool::build_global, false),
    row("GlobalMaxPool", pool::build_global, false),
    row("Resize", resize::build, true),
    row("SoftmaxV2", norm::softmax, false),
    row("LogSoftmaxV2", norm::softmax, false),
    row("LayerNorm", norm::layer_norm, false),
    row("LayerNormV3", norm::layer_norm, false),
    row("RmsNorm", norm::layer_norm, false),
    row("BNInfer", norm::batch_norm, false),
    row("InstanceNorm", norm::instance_norm, false),
    row("GroupNorm", norm::instance_norm, false),
    row("ReduceSum", reduce::build, false),
    row("ReduceMean", reduce::build, false),
    row("ReduceMax", reduce::build, false),
    row("ReduceMin", reduce::build, false),
    row("ReduceProd", reduce::build, false),
    row("ReduceLogSumExp", reduce::build, false),
    row("ReduceSumD", reduce::build, false),
    row("ReduceMeanD", reduce::build, false),
    row("ReduceMaxD", reduce::build, false),
    row("ReduceMinD", reduce::build, false),
    row("ReduceProdD", reduce::build, false),
    row("ReduceLogSumExpD", reduce::build, false),
    row("ArgMaxV2", reduce::arg, false),
    row("ArgMinV2", reduce::arg, false),
    row("ArgMaxD", reduce::arg, false),
    row("ArgMinD", reduce::arg, false),
    row("ClipByValue", elementwise::clip, true),
    row("AddN", elementwise::add_n, true),
    row("Equal", elementwise::compare, true),
    row("NotEqual", elementwise::compare, true),
    row("Less", elementwise::compare, true),
    row("LessEqual", elementwise::compare, true),
    row("Greater", elementwise::compare, true),
    row("GreaterEqual", elementwise::compare, true),
    row("LogicalAnd", logic::pair, true),
    row("LogicalOr", logic::pair, true),
    row("LogicalXor", logic::pair, true),
    row("LogicalNot", logic::single, true),
    row("IsNan", logic::single, true),
    row("Select", elementwise::select, true),
    row("SelectV2", elementwise::select, true),
    row("Cast", elementwise::convert, true),
    row("Assign", state::assign, true),
    row("AssignAdd", state::change, true),
    row("AssignSub", state::change, true),
    row("ApplyGradientDescent", state::step, true),
    row("ApplyMomentum", state::step, true),
    row("ApplyAdam", state::step, true),
    row("Transpose", layout::transpose, true),
    row("TransData", trans_data::build, true),
    row("TransposeD", layout::transpose, true),
    row("BroadcastTo", layout::expand, true),
    row("Expand", layout::expand, true),
    row("Fill", fill::build, true),
    row("Tile", layout::tile, true),
    row("TileD", layout::tile, true),
    row("ConcatD", layout::concat, true),
    row("ConcatV2D", layout::concat, true),
    row("Pack", layout::concat, true),
    row("SplitD", layout::split, true),
    row("SplitVD", layout::split, true),
    row("Split", layout::split, true),
    row("SplitV", layout::split, true),
    row("Unpack", layout::split, true),
    row("Slice", layout::slice, true),
    row("SliceD", layout::slice, true),
    row("StridedSliceD", layout::slice, true),
    row("StridedSliceV2", layout::slice, true),
    row("QuantizeLinear", quant::quantize, true),
    row("DequantizeLinear", quant::dequantize, true),
    row("DynamicQuantizeLinear", quant::dynamic, false),
    row("PadV3", pad::build, true),
    row("PadD", pad::build, true),
    row("GatherV2", layout::gather, true),
    row("Gather", layout::gather, true),
    row("GatherNd", places::gather_nd, true),
    row("GatherElements", places::gather_elements, true),
    row("TensorScatterUpdate", places::scatter_nd, true),
    row("ScatterElements", places::scatter_elements, true),
];

/// Operators whose tiling can run on the device (TILING_ON_AICPU), and the inputs whose values the
/// tiling reads.
pub const ON_DEVICE_TILING: &[(&str, &[u32])] =
    &[("GroupedMatmul", &[2]), ("PromptFlashAttention", &[5, 6]), ("TopKV2", &[1])];

/// Operators with two factors; they sum in single precision, whatever the type of the factors.
pub const FACTORS: &[&str] = &[
    "MatMul",
    "MatMulV2",
    "BatchMatMul",
    "BatchMatMulV2",
    "FusedMatMul",
    "Conv2D",
    "DepthwiseConv2D",
    "Conv3D",
    "Conv2DTransposeD",
    "Conv3DTransposeD",
    "FusedConv",
];

/// Operators on 8-bit integers whose constant filter can be stored in the form that their kernels
/// read.
pub const PACKED: &[&str] = &["QLinearConv", "ConvInteger"];

/// The inputs whose values the operator's tiling on the device reads; `None` if it has no such
/// tiling.
pub fn reads(op: &str) -> Option<&'static [u32]> {
    ON_DEVICE_TILING.iter().find(|(o, _)| *o == op).map(|(_, inputs)| *inputs)
}

/// The rows of all operators.
pub fn rows() -> impl Iterator<Item = Row> {
    let maps = MAPS.iter().map(|m| row(m.op, elementwise::unary, true));
    let pairs = PAIRS.iter().map(|(op, _)| row(op, elementwise::binary, true));
    ROWS.iter().copied().chain(maps).chain(pairs)
}

/// The row of an operator, if the store has one.
pub fn find(op: &str) -> Option<Row> {
    // A model of open sizes asks several times for each launch of a new size.
    static ALL: LazyLock<HashMap<&str, Row>> = LazyLock::new(|| rows().map(|r| (r.op, r)).collect());
    ALL.get(op).copied()
}

/// The kernel for a signature, or the reason why there is none.
pub fn build(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    (find(&sig.op).ok_or_else(|| "type".to_owned())?.build)(sig)
}
