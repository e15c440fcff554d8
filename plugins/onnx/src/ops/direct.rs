//! Operators with an equivalent operator: a table of names and attributes, and one mapping for all
//! of them.
use super::type_attr;
use ge_plugin_api::author::Registration;
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder, Mapping};
use ge_plugin_api::types::{AttrValue, ValueRef};

/// How an attribute is converted. The first text is ONNX's name, the second ours.
enum A {
    /// Unchanged, if given.
    As(&'static str, &'static str),
    /// Integer to bool.
    Bool(&'static str, &'static str),
    /// Number of an element type to the type.
    Type(&'static str, &'static str),
    /// An integer with ONNX's default, which differs from ours.
    Int(&'static str, &'static str, i64),
    /// A real number with ONNX's default.
    Float(&'static str, &'static str, f64),
    /// An attribute with a fixed text.
    Text(&'static str, &'static str),
}
use A::{As, Bool, Float, Int, Text, Type};

/// ONNX operator, our operator, first version, last version, attributes.
type Row = (&'static str, &'static str, u32, u32, &'static [A]);

const NEW: u32 = u32::MAX;

/// Element-wise operators: the result has the rank of the input with the most axes.
const ELEMENTWISE: &[Row] = &[
    ("Abs", "Abs", 1, NEW, &[]),
    ("Acos", "Acos", 1, NEW, &[]),
    ("Acosh", "Acosh", 1, NEW, &[]),
    ("Add", "Add", 7, NEW, &[]),
    ("And", "LogicalAnd", 7, NEW, &[]),
    ("Asin", "Asin", 1, NEW, &[]),
    ("Asinh", "Asinh", 1, NEW, &[]),
    ("Atan", "Atan", 1, NEW, &[]),
    ("Atanh", "Atanh", 1, NEW, &[]),
    ("BitwiseAnd", "BitwiseAnd", 18, NEW, &[]),
    ("BitwiseNot", "Invert", 18, NEW, &[]),
    ("BitwiseOr", "BitwiseOr", 18, NEW, &[]),
    ("BitwiseXor", "BitwiseXor", 18, NEW, &[]),
    ("Ceil", "Ceil", 1, NEW, &[]),
    ("Celu", "Celu", 12, NEW, &[Float("alpha", "alpha", 1.0)]),
    ("Cos", "Cos", 1, NEW, &[]),
    ("Cosh", "Cosh", 1, NEW, &[]),
    ("Div", "Div", 7, NEW, &[]),
    ("Elu", "Elu", 1, NEW, &[Float("alpha", "alpha", 1.0)]),
    ("Equal", "Equal", 7, NEW, &[]),
    ("Erf", "Erf", 1, 8, &[]),
    ("Erf", "Erf", 13, NEW, &[]),
    ("Exp", "Exp", 1, NEW, &[]),
    ("Floor", "Floor", 1, NEW, &[]),
    ("Gelu", "Gelu", 20, NEW, &[As("approximate", "approximate")]),
    ("Greater", "Greater", 7, NEW, &[]),
    ("GreaterOrEqual", "GreaterEqual", 7, NEW, &[]),
    ("HardSigmoid", "HardSigmoid", 1, NEW, &[Float("alpha", "alpha", 0.2), Float("beta", "beta", 0.5)]),
    ("HardSwish", "HardSwish", 14, NEW, &[]),
    ("Identity", "Identity", 1, NEW, &[]),
    (
        "IsInf",
        "IsInf",
        10,
        NEW,
        &[Bool("detect_negative", "detect_negative"), Bool("detect_positive", "detect_positive")],
    ),
    ("IsNaN", "IsNan", 9, NEW, &[]),
    ("LeakyRelu", "LeakyRelu", 1, NEW, &[Float("alpha", "negative_slope", 0.01)]),
    ("Less", "Less", 7, NEW, &[]),
    ("LessOrEqual", "LessEqual", 7, NEW, &[]),
    ("Log", "Log", 1, NEW, &[]),
    ("Mish", "Mish", 18, NEW, &[]),
    ("Mul", "Mul", 7, NEW, &[]),
    ("Neg", "Neg", 1, NEW, &[]),
    ("Not", "LogicalNot", 1, NEW, &[]),
    ("Or", "LogicalOr", 7, NEW, &[]),
    ("PRelu", "PRelu", 7, NEW, &[]),
    ("Pow", "Pow", 7, NEW, &[]),
    ("Reciprocal", "Reciprocal", 1, NEW, &[]),
    ("Relu", "Relu", 1, NEW, &[]),
    ("Round", "Round", 11, NEW, &[]),
    ("Selu", "Selu", 1, 5, &[Float("alpha", "alpha", 1.6732), Float("gamma", "scale", 1.0507)]),
    (
        "Selu",
        "Selu",
        6,
        NEW,
        &[Float("alpha", "alpha", 1.673_263_192_176_818_8), Float("gamma", "scale", 1.050_701_022_148_132_3)],
    ),
    ("Shrink", "Shrink", 9, NEW, &[Float("lambd", "lambd", 0.5), Float("bias", "bias", 0.0)]),
    ("Sigmoid", "Sigmoid", 1, NEW, &[]),
    ("Sign", "Sign", 9, NEW, &[]),
    ("Sin", "Sin", 1, NEW, &[]),
    ("Sinh", "Sinh", 1, NEW, &[]),
    ("Softplus", "Softplus", 1, NEW, &[]),
    ("Softsign", "Softsign", 1, NEW, &[]),
    ("Sqrt", "Sqrt", 1, NEW, &[]),
    ("Sub", "Sub", 7, NEW, &[]),
    ("Swish", "Swish", 24, NEW, &[Float("alpha", "scale", 1.0)]),
    ("Tan", "Tan", 1, NEW, &[]),
    ("Tanh", "Tanh", 1, NEW, &[]),
    ("ThresholdedRelu", "ThresholdedRelu", 1, NEW, &[Float("alpha", "alpha", 1.0)]),
    ("Where", "SelectV2", 9, NEW, &[]),
    ("Xor", "LogicalXor", 7, NEW, &[]),
];

const OTHERS: &[Row] = &[
    ("Det", "MatrixDeterminant", 11, NEW, &[]),
    ("BitCast", "Bitcast", 1, NEW, &[Type("to", "type")]),
    ("Einsum", "Einsum", 12, NEW, &[As("equation", "equation")]),
    ("MatMulInteger", "MatMulInteger", 10, NEW, &[]),
    ("QLinearMatMul", "QLinearMatMul", 10, NEW, &[]),
    (
        "ConvInteger",
        "ConvInteger",
        10,
        NEW,
        &[
            As("auto_pad", "auto_pad"),
            As("dilations", "dilations"),
            As("group", "group"),
            As("kernel_shape", "kernel_shape"),
            As("pads", "pads"),
            As("strides", "strides"),
        ],
    ),
    (
        "QLinearConv",
        "QLinearConv",
        10,
        NEW,
        &[
            As("auto_pad", "auto_pad"),
            As("dilations", "dilations"),
            As("group", "group"),
            As("kernel_shape", "kernel_shape"),
            As("pads", "pads"),
            As("strides", "strides"),
        ],
    ),
    (
        "DeformConv",
        "DeformConv",
        19,
        NEW,
        &[
            As("dilations", "dilations"),
            As("group", "group"),
            As("kernel_shape", "kernel_shape"),
            As("offset_group", "offset_group"),
            As("pads", "pads"),
            As("strides", "strides"),
        ],
    ),
    ("GlobalAveragePool", "GlobalAveragePool", 1, NEW, &[]),
    ("GlobalMaxPool", "GlobalMaxPool", 1, NEW, &[]),
    (
        "MaxRoiPool",
        "MaxRoiPool",
        1,
        NEW,
        &[As("pooled_shape", "pooled_shape"), Float("spatial_scale", "spatial_scale", 1.0)],
    ),
    (
        "RoiAlign",
        "RoiAlign",
        16,
        NEW,
        &[
            As("coordinate_transformation_mode", "coordinate_transformation_mode"),
            As("mode", "mode"),
            As("output_height", "output_height"),
            As("output_width", "output_width"),
            As("sampling_ratio", "sampling_ratio"),
            Float("spatial_scale", "spatial_scale", 1.0),
        ],
    ),
    (
        "RoiAlign",
        "RoiAlign",
        10,
        15,
        &[
            Text("coordinate_transformation_mode", "output_half_pixel"),
            As("mode", "mode"),
            As("output_height", "output_height"),
            As("output_width", "output_width"),
            As("sampling_ratio", "sampling_ratio"),
            Float("spatial_scale", "spatial_scale", 1.0),
        ],
    ),
    ("InstanceNormalization", "InstanceNorm", 1, NEW, &[Float("epsilon", "epsilon", 1e-5)]),
    ("GroupNormalization", "GroupNorm", 18, NEW, &[As("num_groups", "num_groups"), Float("epsilon", "eps", 1e-5)]),
    (
        "LRN",
        "LRN",
        1,
        NEW,
        &[Float("alpha", "alpha", 1e-4), Float("beta", "beta", 0.75), Float("bias", "bias", 1.0), As("size", "size")],
    ),
    ("LpNormalization", "LpNormalization", 1, NEW, &[Int("axis", "axis", -1), Int("p", "p", 2)]),
    ("MeanVarianceNormalization", "MVNV2", 9, NEW, &[As("axes", "axes")]),
    ("Hardmax", "Hardmax", 13, NEW, &[Int("axis", "axis", -1)]),
    ("RMSNormalization", "RmsNorm", 23, NEW, &[Int("axis", "begin_norm_axis", -1), Float("epsilon", "epsilon", 1e-5)]),
    ("CumSum", "Cumsum", 11, NEW, &[Bool("exclusive", "exclusive"), Bool("reverse", "reverse")]),
    ("CumProd", "Cumprod", 26, NEW, &[Bool("exclusive", "exclusive"), Bool("reverse", "reverse")]),
    ("Flatten", "Flatten", 1, NEW, &[Int("axis", "axis", 1)]),
    ("Size", "Size", 1, NEW, &[]),
    ("Expand", "Expand", 8, NEW, &[]),
    ("Tile", "Tile", 6, NEW, &[]),
    ("SpaceToDepth", "SpaceToDepth", 1, NEW, &[As("blocksize", "block_size"), As("mode", "mode")]),
    ("DepthToSpace", "DepthToSpace", 1, NEW, &[As("blocksize", "block_size"), As("mode", "mode")]),
    ("Range", "Range", 11, NEW, &[]),
    ("EyeLike", "EyeLike", 9, NEW, &[Type("dtype", "dtype"), Int("k", "k", 0)]),
    ("Trilu", "Trilu", 14, NEW, &[Bool("upper", "upper")]),
    ("CenterCropPad", "CenterCropPad", 18, NEW, &[As("axes", "axes")]),
    ("GatherElements", "GatherElements", 11, NEW, &[Int("axis", "dim", 0)]),
    ("GatherND", "GatherNd", 11, NEW, &[Int("batch_dims", "batch_dims", 0)]),
    ("Scatter", "ScatterElements", 9, NEW, &[Int("axis", "axis", 0)]),
    ("ScatterElements", "ScatterElements", 11, NEW, &[Int("axis", "axis", 0), As("reduction", "reduction")]),
    ("ScatterND", "TensorScatterUpdate", 11, NEW, &[As("reduction", "reduction")]),
    ("TensorScatter", "TensorScatter", 24, NEW, &[Int("axis", "axis", -2), As("mode", "mode")]),
    (
        "ReverseSequence",
        "ReverseSequence",
        10,
        NEW,
        &[Int("time_axis", "seq_dim", 0), Int("batch_axis", "batch_dim", 1)],
    ),
    ("NonZero", "NonZero", 9, NEW, &[]),
    ("RegexFullMatch", "RegexFullMatch", 20, NEW, &[As("pattern", "pattern")]),
    ("StringConcat", "StringConcat", 20, NEW, &[]),
    (
        "StringNormalizer",
        "StringNormalizer",
        10,
        NEW,
        &[
            As("case_change_action", "case_change_action"),
            Bool("is_case_sensitive", "is_case_sensitive"),
            As("stopwords", "stopwords"),
        ],
    ),
    ("StringSplit", "StringSplit", 20, NEW, &[As("delimiter", "delimiter"), As("maxsplit", "maxsplit")]),
    ("Compress", "Compress", 9, NEW, &[As("axis", "axis")]),
    ("Unique", "Unique", 11, NEW, &[As("axis", "axis"), Bool("sorted", "sorted")]),
    ("NonMaxSuppression", "NonMaxSuppression", 10, NEW, &[Int("center_point_box", "center_point_box", 0)]),
    (
        "QuantizeLinear",
        "QuantizeLinear",
        10,
        NEW,
        &[
            Int("axis", "axis", 1),
            Int("block_size", "block_size", 0),
            Type("output_dtype", "output_dtype"),
            Bool("saturate", "saturate"),
            Type("precision", "precision"),
        ],
    ),
    (
        "DequantizeLinear",
        "DequantizeLinear",
        10,
        NEW,
        &[Int("axis", "axis", 1), Int("block_size", "block_size", 0), Type("output_dtype", "output_dtype")],
    ),
    ("DynamicQuantizeLinear", "DynamicQuantizeLinear", 11, NEW, &[]),
    ("AffineGrid", "AffineGrid", 20, NEW, &[Bool("align_corners", "align_corners")]),
    ("Col2Im", "Col2Im", 18, NEW, &[As("dilations", "dilations"), As("pads", "pads"), As("strides", "strides")]),
    ("ImageDecoder", "DecodeImage", 20, NEW, &[As("pixel_format", "pixel_format")]),
    ("DFT", "DFT", 17, 19, &[Int("axis", "axis", 1), Bool("inverse", "inverse"), Bool("onesided", "onesided")]),
    ("DFT", "DFT", 20, NEW, &[Bool("inverse", "inverse"), Bool("onesided", "onesided")]),
    ("STFT", "STFT", 17, NEW, &[Bool("onesided", "onesided")]),
    ("HannWindow", "HannWindow", 17, NEW, &[Bool("periodic", "periodic"), Type("output_datatype", "output_dtype")]),
    (
        "HammingWindow",
        "HammingWindow",
        17,
        NEW,
        &[Bool("periodic", "periodic"), Type("output_datatype", "output_dtype")],
    ),
    (
        "BlackmanWindow",
        "BlackmanWindow",
        17,
        NEW,
        &[Bool("periodic", "periodic"), Type("output_datatype", "output_dtype")],
    ),
    ("MelWeightMatrix", "MelWeightMatrix", 17, NEW, &[Type("output_datatype", "output_dtype")]),
    (
        "Attention",
        "Attention",
        23,
        NEW,
        &[
            Int("is_causal", "is_causal", 0),
            As("q_num_heads", "q_num_heads"),
            As("kv_num_heads", "kv_num_heads"),
            As("scale", "scale"),
            Float("softcap", "softcap", 0.0),
            Int("left_window_size", "left_window_size", -1),
            Int("right_window_size", "right_window_size", -1),
            Type("softmax_precision", "softmax_precision"),
            Int("qk_matmul_output_mode", "qk_matmul_output_mode", 0),
        ],
    ),
    (
        "LinearAttention",
        "LinearAttention",
        27,
        NEW,
        &[
            As("q_num_heads", "q_num_heads"),
            As("kv_num_heads", "kv_num_heads"),
            As("update_rule", "update_rule"),
            Float("scale", "scale", 0.0),
        ],
    ),
    (
        "RotaryEmbedding",
        "RotaryEmbedding",
        23,
        NEW,
        &[
            As("interleaved", "interleaved"),
            As("num_heads", "num_heads"),
            As("rotary_embedding_dim", "rotary_embedding_dim"),
        ],
    ),
    (
        "NegativeLogLikelihoodLoss",
        "NegativeLogLikelihoodLoss",
        12,
        NEW,
        &[As("ignore_index", "ignore_index"), As("reduction", "reduction")],
    ),
    (
        "RandomUniform",
        "RandomUniform",
        1,
        NEW,
        &[As("shape", "shape"), As("low", "low"), As("high", "high"), As("seed", "seed"), Type("dtype", "dtype")],
    ),
    (
        "RandomNormal",
        "RandomNormal",
        1,
        NEW,
        &[As("shape", "shape"), As("mean", "mean"), As("scale", "scale"), As("seed", "seed"), Type("dtype", "dtype")],
    ),
    (
        "RandomUniformLike",
        "RandomUniformLike",
        1,
        NEW,
        &[As("low", "low"), As("high", "high"), As("seed", "seed"), Type("dtype", "dtype")],
    ),
    (
        "RandomNormalLike",
        "RandomNormalLike",
        1,
        NEW,
        &[As("mean", "mean"), As("scale", "scale"), As("seed", "seed"), Type("dtype", "dtype")],
    ),
    ("Bernoulli", "Bernoulli", 15, NEW, &[As("seed", "seed"), Type("dtype", "dtype")]),
    (
        "Multinomial",
        "Multinomial",
        7,
        NEW,
        &[As("sample_size", "sample_size"), As("seed", "seed"), Type("dtype", "dtype")],
    ),
];

/// Number of outputs; some of our operators always have several, whether or not they are read.
fn outputs(to: &str, wanted: usize) -> usize {
    match to {
        "DynamicQuantizeLinear" => 3,
        "Unique" => 4,
        "RmsNorm" | "LinearAttention" => 2,
        _ => wanted.max(1),
    }
}

struct Direct(&'static Row);
impl Mapping for Direct {
    fn framework(&self) -> String {
        "onnx".into()
    }
    fn domain(&self) -> String {
        "ai.onnx".into()
    }
    fn op(&self) -> String {
        self.0.0.into()
    }
    fn versions(&self) -> (u32, u32) {
        (self.0.2, self.0.3)
    }
    fn map(&self, n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Result<Vec<ValueRef>> {
        let mut d = b.node(self.0.1).name(&n.name).inputs(&n.inputs);
        for a in self.0.4 {
            d = match a {
                As(from, to) => match n.attrs.get(*from) {
                    Some(v) => d.attr(to, v.clone()),
                    None => d,
                },
                Bool(from, to) => match n.attrs.int(*from) {
                    Some(v) => d.attr(to, v != 0),
                    None => d,
                },
                Type(from, to) => match type_attr(n, from)? {
                    Some(t) => d.attr(to, t),
                    None => d,
                },
                Int(from, to, v) => d.attr(to, n.int_or(from, *v)),
                Float(from, to, v) => d.attr(to, n.float_or(from, *v)),
                Text(to, v) => d.attr(to, AttrValue::from(*v)),
            };
        }
        Ok(d.build_n(outputs(self.0.1, n.output_count())))
    }
}

/// Whether an operator is element-wise: its result has as many axes as the input with the most
/// axes.
pub fn is_elementwise(op: &str) -> bool {
    ELEMENTWISE.iter().any(|r| r.0 == op)
}

ge_plugin_api::inventory::submit! {
    Registration::Mappings(|| ELEMENTWISE.iter().chain(OTHERS).map(|r| Box::new(Direct(r)) as Box<dyn Mapping>).collect())
}
