//! Normalisation, softmax and related operators.
//!
//! * `SoftmaxV2(x) {axes = [-1]}`, `LogSoftmaxV2(x) {axes = [-1]}`: over the given axes together.
//!   `Hardmax(x) {axis = -1}`: one at the first maximum, or at the first NaN; zero elsewhere.
//! * `LayerNormV3(x, gamma, beta?) {begin_norm_axis, epsilon} -> y, mean, rstd`: over all axes from
//!   `begin_norm_axis` on. mean and rstd (1/sqrt(var+eps)) are f32 (f64 for f64) and keep those
//!   axes with size 1. `LayerNorm(x, gamma, beta)`: the same with `variance` instead of rstd and
//!   with outputs of x's type. gamma and beta broadcast against x.
//! * `RmsNorm(x, gamma) {begin_norm_axis = -1, epsilon} -> y, rstd`.
//! * `BNInfer(x [N,C,...], scale, offset, mean, variance) {epsilon}`: inference.
//!   `BatchNorm(x, scale, offset, mean, variance) {epsilon, momentum, is_training = true} -> y, running_mean, running_variance`:
//!   with the statistics of the batch (population variance); running = old·momentum +
//!   new·(1-momentum).
//! * `InstanceNorm(x [N,C,...], gamma [C], beta [C]) {epsilon}`,
//!   `GroupNorm(x, gamma, beta) {num_groups, eps}` (gamma and beta have one number per channel, or
//!   one per group if they have `num_groups` numbers).
//! * `LRN(x [N,C,...]) {alpha, beta, bias, size}`, `LpNormalization(x) {axis, p}`,
//!   `MVNV2(x) {axes, eps}`: (x-mean)/(std+eps).
//! * Dropout for training: `DropoutV3(x, ratio?, training?) {seed} -> y, mask`; random unless ratio
//!   is 0.
use crate::dims;
use crate::elementwise::BOOL;
use crate::read;
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef, flags::*, infer};
use ge_plugin_api::register_ops;
use ge_plugin_api::types::dtype::{FLOATS, INDEX};
use ge_plugin_api::types::{DType, Dim, Shape, TensorDesc};

/// The types of `DropoutV3`.
const DROPPED: &[DType] = &[
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::F64,
    DType::F8E4M3FN,
    DType::F8E4M3FNUZ,
    DType::F8E5M2,
    DType::F8E5M2FNUZ,
];

fn checked_axis(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let d = c.like(0)?;
    if let Some(r) = d.shape.rank().filter(|&r| r > 0) {
        match read::ints(c, "axes") {
            Some(v) => drop(read::axes("attribute `axes`", v, r)?),
            None => drop(read::axis("attribute `axis`", read::int(c, "axis", -1), r)?),
        }
    }
    Ok(vec![d])
}
fn grouped(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let d = c.like(0)?;
    let groups = u64::try_from(read::int(c, "num_groups", 1)).unwrap_or(0);
    match d.shape.dims().get(1).and_then(|c| c.size()) {
        Some(channels) if groups > 0 && channels % groups != 0 => {
            Err(read::bad("attribute `num_groups`", groups, format!("a divisor of the {channels} channels")))
        }
        _ => Ok(vec![d]),
    }
}
fn statistics(c: &InferCtx<'_>, dtype: DType) -> Result<TensorDesc> {
    let s = &c.input(0)?.shape;
    let Some(r) = s.rank() else { return Ok(TensorDesc::new(dtype, Shape::unranked())) };
    let begin = read::axis("attribute `begin_norm_axis`", read::int(c, "begin_norm_axis", -1), r)?;
    let d = s.dims().iter().enumerate().map(|(i, &d)| if i < begin { d } else { Dim::known(1) });
    Ok(TensorDesc::new(dtype, Shape::new(d)))
}
fn wide(t: DType) -> DType {
    if t == DType::F64 { DType::F64 } else { DType::F32 }
}
fn affine_fits(c: &InferCtx<'_>, i: usize, name: &str) -> Result<()> {
    let Some(g) = c.opt_input(i) else { return Ok(()) };
    let x = &c.input(0)?.shape;
    let s = infer::broadcast_shapes(x, &g.shape)?;
    if let (Some(a), Some(b)) = (s.sizes(), x.sizes()) {
        if a != b {
            return Err(read::bad(format!("input {i} `{name}`"), &g.shape, format!("a shape that broadcasts to {x}")));
        }
    }
    Ok(())
}
fn layer_norm_v3(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    affine_fits(c, 1, "gamma")?;
    affine_fits(c, 2, "beta")?;
    let s = statistics(c, wide(c.input(0)?.dtype))?;
    Ok(vec![c.like(0)?, s.clone(), s])
}
fn layer_norm(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let s = statistics(c, c.input(0)?.dtype)?;
    Ok(vec![c.like(0)?, s.clone(), s])
}
fn rms_norm(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    affine_fits(c, 1, "gamma")?;
    Ok(vec![c.like(0)?, statistics(c, wide(c.input(0)?.dtype))?])
}
fn per_channel(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let x = c.like(0)?;
    let ch = match x.shape.rank() {
        // A vector has one channel.
        Some(1) => Dim::known(1),
        _ => x.shape.dims().get(1).copied().unwrap_or(Dim::UNKNOWN),
    };
    for (i, n) in ["scale", "offset", "mean", "variance"].iter().enumerate() {
        if let Some(&d) = c.opt_input(i + 1).and_then(|d| d.shape.dims().first()) {
            dims::equal(&format!("input {} `{n}`", i + 1), ch, d)?;
        }
    }
    Ok(vec![x])
}
fn batch_norm(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let y = per_channel(c)?;
    Ok(y.into_iter().chain([c.like(3)?, c.like(4)?]).collect())
}
fn dropout(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let d = c.like(0)?;
    let m = TensorDesc::new(DType::BOOL, d.shape.clone());
    Ok(vec![d, m])
}

fn defs() -> Vec<OpDef> {
    let f = AttrKind::FLOAT;
    let soft = |name: &str, digits: u64| {
        OpDef::new(name, checked_axis)
            .input("x", FLOATS, "T")
            .output("y", FLOATS, "T")
            .attr("axes", AttrKind::INTS, vec![-1i64])
            .flags(INPLACE | FULL_PRECISION | digits)
    };
    let same = |name: &str| OpDef::new(name, infer::same).input("x", FLOATS, "T");
    let bn = |name: &str, f| {
        OpDef::new(name, f)
            .input("x", FLOATS, "T")
            .input("scale", FLOATS, "S")
            .input("offset", FLOATS, "S")
            .input("mean", FLOATS, "U")
            .input("variance", FLOATS, "U")
            .output("y", FLOATS, "T")
    };
    vec![
        soft("SoftmaxV2", MAKES_DIGITS),
        soft("LogSoftmaxV2", 0),
        OpDef::new("Hardmax", checked_axis).input("x", FLOATS, "T").output("y", FLOATS, "T").attr(
            "axis",
            AttrKind::INT,
            -1i64,
        ),
        OpDef::new("LayerNormV3", layer_norm_v3)
            .input("x", FLOATS, "T")
            .input("gamma", FLOATS, "S")
            .opt("beta", FLOATS, "S")
            .output("y", FLOATS, "T")
            .output("mean", FLOATS, "")
            .output("rstd", FLOATS, "")
            .attr("begin_norm_axis", AttrKind::INT, -1i64)
            .attr("begin_params_axis", AttrKind::INT, -1i64)
            .attr("epsilon", f, 1e-5)
            .flags(FULL_PRECISION),
        OpDef::new("LayerNorm", layer_norm)
            .input("x", FLOATS, "T")
            .input("gamma", FLOATS, "S")
            .input("beta", FLOATS, "S")
            .output("y", FLOATS, "T")
            .output("mean", FLOATS, "")
            .output("variance", FLOATS, "")
            .attr("begin_norm_axis", AttrKind::INT, -1i64)
            .attr("begin_params_axis", AttrKind::INT, -1i64)
            .attr("epsilon", f, 1e-7)
            .flags(FULL_PRECISION),
        OpDef::new("RmsNorm", rms_norm)
            .input("x", FLOATS, "T")
            .input("gamma", FLOATS, "S")
            .output("y", FLOATS, "T")
            .output("rstd", FLOATS, "")
            .attr("begin_norm_axis", AttrKind::INT, -1i64)
            .attr("epsilon", f, 1e-5)
            .flags(FULL_PRECISION),
        bn("BNInfer", per_channel).attr("epsilon", f, 1e-5),
        bn("BatchNorm", batch_norm)
            .output("running_mean", FLOATS, "U")
            .output("running_variance", FLOATS, "U")
            .attr("epsilon", f, 1e-5)
            .attr("momentum", f, 0.9)
            .attr("is_training", AttrKind::BOOL, true),
        same("InstanceNorm")
            .input("gamma", FLOATS, "T")
            .input("beta", FLOATS, "T")
            .output("y", FLOATS, "T")
            .attr("epsilon", f, 1e-5)
            .flags(FULL_PRECISION),
        OpDef::new("GroupNorm", grouped)
            .input("x", FLOATS, "T")
            .input("gamma", FLOATS, "T")
            .input("beta", FLOATS, "T")
            .output("y", FLOATS, "T")
            .required_attr("num_groups", AttrKind::INT)
            .range(1.0, f64::INFINITY)
            .attr("eps", f, 1e-5)
            .flags(FULL_PRECISION),
        same("LRN")
            .output("y", FLOATS, "T")
            .attr("alpha", f, 1e-4)
            .attr("beta", f, 0.75)
            .attr("bias", f, 1.0)
            .required_attr("size", AttrKind::INT)
            .range(1.0, f64::INFINITY)
            .flags(FULL_PRECISION),
        OpDef::new("LpNormalization", checked_axis)
            .input("x", FLOATS, "T")
            .output("y", FLOATS, "T")
            .attr("axis", AttrKind::INT, -1i64)
            .attr("p", AttrKind::INT, 2i64)
            .range(1.0, 2.0)
            .flags(FULL_PRECISION),
        same("MVNV2")
            .output("y", FLOATS, "T")
            .attr("axes", AttrKind::INTS, vec![0i64, 2, 3])
            .attr("eps", f, 1e-9)
            .flags(FULL_PRECISION),
        OpDef::new("DropoutV3", dropout)
            .input("x", DROPPED, "T")
            .opt("ratio", DROPPED, "")
            .opt("training", BOOL, "")
            .opt("turn", INDEX, "")
            .output("y", DROPPED, "T")
            .output("mask", BOOL, "")
            .opt_attr("seed", AttrKind::INT)
            .value_inputs(&[1, 2])
            .flags(RANDOM),
    ]
}
register_ops!(|| crate::value_ranges::given(defs()));
