//! Random numbers. These operators are never merged or folded; `seed` makes a run reproducible.
//! In a loop, the input `turn` is the number of the turn: each turn has numbers of its own.
//!
//! `RandomUniform(turn) {shape, dtype, low, high, seed}`,
//! `RandomNormal(turn) {shape, dtype, mean, scale, seed}`, `RandomUniformLike(x, turn)`,
//! `RandomNormalLike(x, turn)`, `Bernoulli(x, turn) {dtype, seed}`,
//! `Multinomial(x [B,C], turn) {sample_size, dtype = i32, seed} -> [B,sample_size]`.
//! `DropOutGenMask(shape, prob) {seed, seed2}` gives one bit for each element of that shape, which
//! is 1 with probability `prob`. `DropOutDoMask(x, mask, keep_prob)` gives `x / keep_prob` where
//! the bit is 1, and zero elsewhere.
use crate::dims;
use crate::read;
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef, flags::*, infer};
use ge_plugin_api::register_ops;
use ge_plugin_api::types::dtype::{ANY, FLOATS, INDEX};
use ge_plugin_api::types::{DType, Dim, Shape, TensorDesc};

fn made(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let t = read::dtype(c, "dtype").unwrap_or(DType::F32);
    Ok(vec![TensorDesc::new(t, Shape::from_i64(read::need_ints(c, "shape")?))])
}
fn like(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let mut d = c.like(0)?;
    d.dtype = read::dtype(c, "dtype").unwrap_or(d.dtype);
    Ok(vec![d])
}
fn multinomial(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    read::rank_in(c, 0, "x", 2, 2)?;
    let b = c.input(0)?.shape.dims().first().copied().unwrap_or(Dim::UNKNOWN);
    let t = read::dtype(c, "dtype").unwrap_or(DType::I32);
    Ok(vec![TensorDesc::new(t, Shape::new([b, dims::from_i64(read::int(c, "sample_size", 1))]))])
}

/// One bit for each element of the shape that input 0 holds, padded to a multiple of 128 bits.
fn mask(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let bytes = c.const_ints(0).and_then(|s| s.iter().try_fold(1i64, |a, d| a.checked_mul(*d)));
    let dim = bytes.map_or(Dim::UNKNOWN, |n| dims::from_i64(n.max(0).saturating_add(127) / 128 * 16));
    Ok(vec![TensorDesc::new(DType::U8, Shape::new([dim]))])
}

fn defs() -> Vec<OpDef> {
    let (t, f) = (AttrKind::TYPE, AttrKind::FLOAT);
    let seeded = |d: OpDef| d.opt("turn", INDEX, "").opt_attr("seed", f).opt_attr("dtype", t).flags(RANDOM);
    let plain =
        |name: &str| seeded(OpDef::new(name, made).output("y", FLOATS, "").required_attr("shape", AttrKind::INTS));
    let of = |name: &str| seeded(OpDef::new(name, like).input("x", ANY, "").output("y", ANY, ""));
    vec![
        plain("RandomUniform").attr("low", f, 0.0).attr("high", f, 1.0),
        plain("RandomNormal").attr("mean", f, 0.0).attr("scale", f, 1.0),
        of("RandomUniformLike").attr("low", f, 0.0).attr("high", f, 1.0),
        of("RandomNormalLike").attr("mean", f, 0.0).attr("scale", f, 1.0),
        of("Bernoulli"),
        OpDef::new("DropOutGenMask", mask)
            .input("shape", INDEX, "")
            .input("prob", FLOATS, "")
            .output("y", &[DType::U8], "")
            .opt_attr("seed", AttrKind::INT)
            .opt_attr("seed2", AttrKind::INT)
            .value_inputs(&[0])
            .flags(RANDOM),
        OpDef::new("DropOutDoMask", infer::same)
            .input("x", FLOATS, "T")
            .input("mask", &[DType::U8], "")
            .input("keep_prob", FLOATS, "T")
            .output("y", FLOATS, "T"),
        seeded(OpDef::new("Multinomial", multinomial).input("x", FLOATS, "").output("y", ANY, "")).attr(
            "sample_size",
            AttrKind::INT,
            1i64,
        ),
    ]
}
register_ops!(defs);
