//! Operators that fusions make from several others. `activation` is one of
//! `none relu clip leaky_relu sigmoid tanh gelu gelu_tanh silu hard_sigmoid hard_swish elu`;
//! `activation_params` are its numbers (`clip`: low, high; `leaky_relu`, `elu`: alpha;
//! `hard_sigmoid`: alpha, beta). `y_dtype` of a product is the type of y, bias and residual if it
//! differs from that of the factors. `steps` of a product or a convolution are applied afterwards,
//! as in `FusedElementwise`; their `%0` is y without them.
//!
//! * `FusedConv(x, filter, bias? [O], residual? of y's shape) {as Conv2D, activation, activation_params, steps?}`:
//!   activation(conv(x, filter) + bias + residual).
//! * `FusedConvPair(x, filter, bias? [O], second_filter, second_bias? [O2], residual? of y's shape) {depthwise, strides, pads, first_activation, first_activation_params, activation, activation_params}`:
//!   activation(second(first_activation(first(x) + bias)) + second_bias + residual), channels
//!   second. `depthwise` says which of the two convolutions is depthwise; it has as many output
//!   channels as input channels, and `strides` and `pads` (as in Conv2D) are its own. The other one
//!   has a filter of one point.
//! * `FusedMatMul(x1, x2, bias? [N], x3? of y's shape) {transpose_x1, transpose_x2, alpha, activation, activation_params, steps?}`:
//!   activation(alpha·x1·x2 + bias + x3), with leading axes as in `BatchMatMulV2`.
//! * `FusedQuantMatMul(a, a_scale?, a_zero_point?, b, b_scale, b_zero_point?, y_scale?, y_zero_point?, bias? [N]) {transpose_x2, activation, activation_params}`:
//!   v = activation(a_scale·b_scale·(a - a_zero_point)·(b - b_zero_point) + bias), with the product
//!   in integers. The scale and zero point of b are a single number or one per column. If a is f32,
//!   it has neither and is quantised as by DynamicQuantizeLinear. y = v in f32, or
//!   saturate(round_half_even(v / y_scale) + y_zero_point).
//! * `FusedWeightMatMul(x1, x2, x2_scale, bias? [N], x3? of y's shape, x2_offset?) {group_size = 0,
//!   activation, activation_params}`: activation(x1·w + bias + x3), computed in f32, where w = (q -
//!   x2_offset)·x2_scale. Column j of q is column j % 16 of panel j / 16 of x2: bytes i8
//!   [ceil(N/16), K, 16], or numbers of four bits plus eight, two rows in a byte (the even row in
//!   its lower half), u8 `[ceil(N/16), ceil(K/2), 16]`. Scales and offsets are `[N]`, or `[groups,
//!   N]` for each `group_size` rows of q.
//! * `FusedElementwise(x...) {steps, dtype?}`: a chain of element-wise steps over the broadcast
//!   shape. Each step is rounded to single precision, and y then to its type. A step is an operator
//!   and its operands. The operand `%k` is input k, or, if k is at least the number of inputs, the
//!   step with the number k minus the number of inputs; any other operand is a number. The last
//!   step is y. The operators are those of `elementwise.rs` (with their numbers behind the operand:
//!   `LeakyRelu %0 0.01`), `Clip %0 low high`, `Dequantize %0 scale zero` and
//!   `Quantize %0 scale zero`.
//! * `FusedCluster(x...) {steps, gives} -> y...`: steps as above, each with the broadcast shape of
//!   what it reads, and the reductions `ReduceSum %0 n keep`, `ReduceMean`, `ReduceMax`,
//!   `ReduceMin` over the last n axes, which stay with size one if keep is 1. Values have types:
//!   `Cast:f16 %0` names the new one, `Select:f32 %0 %1 0` that of the values it chooses from;
//!   comparisons, `LogicalAnd`, `LogicalOr`, `LogicalXor`, `LogicalNot` and `IsNan` return
//!   booleans; every other step has the type of what it reads. Floats are computed in single
//!   precision and i32 as integers; values of any other type may only be read by casts. `gives`
//!   lists the values that are outputs, numbered as in `%k`; each is rounded once.
//! * `ScaledMaskedSoftmax(x, mask?) {scale}`: softmax(scale·x + mask) over the last axis; mask
//!   broadcasts to x.
use crate::conv::{axis_out, common, conv2d, full_list, pads};
use crate::dims;
use crate::matmul::matmul_shape;
use crate::read;
use crate::reduce::NUMERIC_BOOL;
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef, flags, infer};
use ge_plugin_api::register_ops;
use ge_plugin_api::types::dtype::FLOATS;
use ge_plugin_api::types::{AttrValue, DType, Dim, Shape, TensorDesc};

/// Names of the activations.
const ACTIVATIONS: &[&str] = &[
    "none",
    "relu",
    "clip",
    "leaky_relu",
    "sigmoid",
    "tanh",
    "gelu",
    "gelu_tanh",
    "silu",
    "hard_sigmoid",
    "hard_swish",
    "elu",
];
const BYTE: &[DType] = &[DType::I8, DType::U8];
const SINGLE: &[DType] = &[DType::F32];
/// Types of what a product by quantised weights reads and gives.
const WEIGHED: &[DType] = &[DType::F32, DType::F16, DType::BF16];
/// Steps of a cluster that return booleans.
const TRUTHS: &[&str] = &[
    "Equal",
    "NotEqual",
    "Less",
    "LessEqual",
    "Greater",
    "GreaterEqual",
    "LogicalAnd",
    "LogicalOr",
    "LogicalXor",
    "LogicalNot",
    "IsNan",
];
const CHAINED: &[DType] = &[DType::F32, DType::F16, DType::BF16, DType::I8, DType::U8];

fn activated(d: OpDef) -> OpDef {
    d.attr("activation", AttrKind::STRING, "none").choices(ACTIVATIONS).attr(
        "activation_params",
        AttrKind::FLOATS,
        Vec::<f64>::new(),
    )
}

/// Checks that a residual has the shape of the output.
fn residual_fits(c: &InferCtx<'_>, y: &Shape) -> Result<()> {
    match c.opt_input(3).and_then(|r| r.shape.sizes()).zip(y.sizes()) {
        Some((r, y)) if r != y => Err(read::bad("input 3", format!("{r:?}"), format!("{y:?}, as the output"))),
        _ => Ok(()),
    }
}
fn conv(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let out = conv2d(c)?;
    if let Some(y) = out.first() {
        residual_fits(c, &y.shape)?;
    }
    Ok(out)
}
fn conv_pair(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    for (i, name) in [(0, "x"), (1, "filter"), (3, "second_filter")] {
        read::rank_in(c, i, name, 4, 4)?;
    }
    let known = |i: usize| c.input(i).map(|d| if d.shape.is_unranked() { dims::unknown(4) } else { d.shape.clone() });
    let (x, first, second) = (known(0)?, known(1)?, known(3)?);
    let (x, first, second) = (x.dims(), first.dims(), second.dims());
    let depthwise_first = read::text(c, "depthwise", "first") == "first";
    let (plane, point) = if depthwise_first { (first, second) } else { (second, first) };
    let ones = [point[2], point[3], plane[1]];
    if ones.iter().any(|d| d.size().is_some_and(|n| n != 1)) {
        return Err(read::bad("filters", format!("{first:?} and {second:?}"), "a depthwise one and one of one point"));
    }
    let between = if depthwise_first { plane[0] } else { point[0] };
    dims::equal("input 1 `filter`: channels", x[1], if depthwise_first { plane[0] } else { point[1] })?;
    dims::equal("input 3 `second_filter`: channels", between, if depthwise_first { point[1] } else { plane[0] })?;
    let (s, p) = (full_list(c, "strides", 4, 1)?, pads(c, 2)?);
    let mut out = vec![x[0], second[0], Dim::UNKNOWN, Dim::UNKNOWN];
    for i in 0..2 {
        if let Some(k) = dims::size(plane[2 + i]) {
            out[2 + i] = axis_out("NOTSET", x[2 + i], k, s[2 + i], 1, p[i], false)?;
        }
    }
    let s = Shape::new(out);
    if let Some((r, y)) = c.opt_input(5).and_then(|r| r.shape.sizes()).zip(s.sizes()).filter(|(r, y)| r != y) {
        return Err(read::bad("input 5", format!("{r:?}"), format!("{y:?}, as the output")));
    }
    read::one(c, s)
}
fn mat_mul(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let (a, b) = (read::flag(c, "transpose_x1", false), read::flag(c, "transpose_x2", false));
    let s = matmul_shape(&c.input(0)?.shape, c.input(1)?.origin_shape(), a, b)?;
    residual_fits(c, &s)?;
    read::product(c, s)
}
fn quant_mat_mul(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let s = matmul_shape(&c.input(0)?.shape, c.input(3)?.origin_shape(), false, read::flag(c, "transpose_x2", false))?;
    let a = c.input(0)?.dtype;
    if a != DType::UNKNOWN && (a == DType::F32) == c.opt_input(1).is_some() {
        return Err(read::bad("input 1 `a_scale`", format!("given or left out with a of {a}"), "one, but none of f32"));
    }
    let dtype = match (c.opt_input(6), c.opt_input(7)) {
        (Some(_), Some(z)) => z.dtype,
        (None, None) => DType::F32,
        _ => return Err(read::bad("output", "one of scale and zero point", "both or neither")),
    };
    Ok(vec![TensorDesc::new(dtype, s)])
}
fn weight_mat_mul(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let (x, scale) = (&c.input(0)?.shape, &c.input(2)?.shape);
    let (Some(rank), Some(columns)) = (x.rank(), scale.rank().and_then(|_| scale.dims().last())) else {
        return read::one(c, Shape::unranked());
    };
    let lead = x.dims().iter().take(rank.saturating_sub(1)).copied();
    read::one(c, Shape::new(lead.chain([*columns])))
}
fn chain(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let mut s = c.input(0)?.shape.clone();
    for i in 1..c.input_count() {
        s = infer::broadcast_shapes(&s, &c.input(i)?.shape)?;
    }
    let dtype = read::dtype(c, "dtype").unwrap_or(c.input(0)?.dtype);
    Ok(vec![TensorDesc::new(dtype, s)])
}
/// Infers the shapes of a cluster's steps one after the other and returns those of its outputs.
fn cluster(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let mut shapes = (0..c.input_count()).map(|i| c.input(i).map(|d| d.shape.clone())).collect::<Result<Vec<_>>>()?;
    let mut types = (0..c.input_count()).map(|i| c.input(i).map(|d| d.dtype)).collect::<Result<Vec<_>>>()?;
    let steps = c.node.attr("steps").and_then(AttrValue::as_strs).unwrap_or_default();
    for text in steps {
        let bad = |found: &str, expected: &str| read::bad(format!("step `{text}`"), found.to_owned(), expected);
        let mut words = text.split_ascii_whitespace();
        let op = words.next().unwrap_or_default();
        let (values, numbers): (Vec<&str>, Vec<&str>) = words.partition(|w| w.starts_with('%'));
        let mut reads = Vec::new();
        let mut own = None;
        for v in values {
            let k = v[1..].parse::<usize>().ok().filter(|k| *k < shapes.len());
            let k = k.ok_or_else(|| bad(v, "a value that stands before it"))?;
            reads.push(&shapes[k]);
            own = own.or(Some(types[k]));
        }
        let named = |name: &str| DType::from_name(name).ok_or_else(|| bad(name, "an element type"));
        types.push(match op.split_once(':') {
            Some(("Cast" | "Select", name)) => named(name)?,
            Some(_) => return Err(bad(op, "an operator")),
            None if TRUTHS.contains(&op) => DType::BOOL,
            None => own.unwrap_or(DType::F32),
        });
        let shape = match (op.starts_with("Reduce"), reads.as_slice(), numbers.as_slice()) {
            (true, [x], [n, keep]) => {
                let n = n.parse::<usize>().map_err(|_| bad(n, "a number of axes"))?;
                match x.rank() {
                    None => Shape::unranked(),
                    Some(rank) if rank < n => return Err(bad(&x.to_string(), "as many axes as it reduces")),
                    Some(rank) => {
                        let ones = if *keep == "1" { n } else { 0 };
                        let kept = x.dims()[..rank - n].iter().copied();
                        Shape::new(kept.chain((0..ones).map(|_| Dim::known(1))))
                    }
                }
            }
            (true, ..) => return Err(bad("its operands", "a value, a number of axes, and 0 or 1")),
            (false, ..) => {
                let none = Shape::of(&[]);
                reads.iter().try_fold(none, |a, b| infer::broadcast_shapes(&a, b))?
            }
        };
        shapes.push(shape);
    }
    let of = |k: &i64| usize::try_from(*k).ok().filter(|k| *k < shapes.len());
    let desc = |k: &i64| {
        let k = of(k).ok_or_else(|| read::bad("attribute `gives`", k, "a value"))?;
        Ok(TensorDesc::new(types[k], shapes[k].clone()))
    };
    read::need_ints(c, "gives")?.iter().map(desc).collect()
}

fn defs() -> Vec<OpDef> {
    let flag = AttrKind::BOOL;
    vec![
        activated(common(
            OpDef::new("FusedConv", conv)
                .input("x", FLOATS, "T")
                .input("filter", FLOATS, "T")
                .opt("bias", FLOATS, "Y")
                .opt("residual", FLOATS, "Y")
                .output("y", FLOATS, "Y")
                .opt_attr("steps", AttrKind::STRINGS)
                .flags(flags::LOW_PRECISION),
            "NCHW",
        )),
        activated(
            OpDef::new("FusedConvPair", conv_pair)
                .input("x", FLOATS, "T")
                .input("filter", FLOATS, "T")
                .opt("bias", FLOATS, "T")
                .input("second_filter", FLOATS, "T")
                .opt("second_bias", FLOATS, "T")
                .opt("residual", FLOATS, "T")
                .output("y", FLOATS, "T")
                .attr("depthwise", AttrKind::STRING, "first")
                .choices(&["first", "second"])
                .attr("strides", AttrKind::INTS, Vec::<i64>::new())
                .attr("pads", AttrKind::INTS, Vec::<i64>::new())
                .attr("first_activation", AttrKind::STRING, "none")
                .choices(ACTIVATIONS)
                .attr("first_activation_params", AttrKind::FLOATS, Vec::<f64>::new())
                .flags(flags::LOW_PRECISION),
        ),
        activated(
            OpDef::new("FusedMatMul", mat_mul)
                .input("x1", FLOATS, "T")
                .input("x2", FLOATS, "T")
                .opt("bias", FLOATS, "Y")
                .opt("x3", FLOATS, "Y")
                .output("y", FLOATS, "Y")
                .opt_attr("y_dtype", AttrKind::TYPE)
                .opt_attr("steps", AttrKind::STRINGS)
                .attr("transpose_x1", flag, false)
                .attr("transpose_x2", flag, false)
                .attr("alpha", AttrKind::FLOAT, 1.0)
                .flags(flags::LOW_PRECISION),
        ),
        activated(
            OpDef::new("FusedQuantMatMul", quant_mat_mul)
                .input("a", &[DType::I8, DType::U8, DType::F32], "")
                .opt("a_scale", SINGLE, "")
                .opt("a_zero_point", BYTE, "")
                .input("b", BYTE, "")
                .input("b_scale", SINGLE, "")
                .opt("b_zero_point", BYTE, "")
                .opt("y_scale", SINGLE, "")
                .opt("y_zero_point", BYTE, "")
                .opt("bias", SINGLE, "")
                .output("y", &[DType::F32, DType::I8, DType::U8], "")
                .attr("transpose_x2", flag, false)
                .flags(flags::FULL_PRECISION),
        ),
        activated(
            OpDef::new("FusedWeightMatMul", weight_mat_mul)
                .input("x1", WEIGHED, "T")
                .input("x2", &[DType::I8, DType::U8], "")
                .input("x2_scale", SINGLE, "")
                .opt("bias", WEIGHED, "T")
                .opt("x3", WEIGHED, "T")
                .opt("x2_offset", SINGLE, "")
                .output("y", WEIGHED, "T")
                .attr("group_size", AttrKind::INT, 0i64)
                .flags(flags::FULL_PRECISION),
        ),
        OpDef::new("FusedElementwise", chain)
            .dynamic("x", CHAINED, "")
            .output("y", CHAINED, "")
            .required_attr("steps", AttrKind::STRINGS)
            .opt_attr("dtype", AttrKind::TYPE)
            .flags(flags::ELEMENTWISE),
        OpDef::new("FusedCluster", cluster)
            .dynamic("x", NUMERIC_BOOL, "")
            .dynamic_output("y", NUMERIC_BOOL, "")
            .required_attr("steps", AttrKind::STRINGS)
            .required_attr("gives", AttrKind::INTS)
            .flags(flags::FULL_PRECISION),
        OpDef::new("ScaledMaskedSoftmax", infer::same)
            .input("x", FLOATS, "T")
            .opt("mask", FLOATS, "T")
            .output("y", FLOATS, "T")
            .attr("scale", AttrKind::FLOAT, 1.0)
            .flags(flags::FULL_PRECISION | flags::MAKES_DIGITS),
    ]
}
register_ops!(|| crate::value_ranges::given(defs()));
