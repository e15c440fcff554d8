//! Reductions, arg-max and arg-min, top-k, and cumulative sums and products.
//!
//! * `ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceLogSumExp ReduceAll ReduceAny (x, axes?) {keep_dims = false, noop_with_empty_axes = true}`:
//!   over the axes in the second input. Without axes or with an empty list, all axes are reduced;
//!   but nothing is reduced (y = x) if an empty list was given **and** `noop_with_empty_axes` is
//!   true. `...D`: the same with an attribute `axes` instead of the input. `ReduceLogSumExp` is
//!   computed in a numerically stable way. An empty reduction gives 0 (sum), 1 (product), -inf or
//!   the least number (max), +inf or the greatest (min), true (all), false (any), -inf
//!   (log-sum-exp), 0 (mean; the standard leaves it open, onnxruntime gives 0).
//! * `ArgMaxV2(x, dimension) ArgMinV2(x, dimension) {dtype = i64, keep_dims = false, select_last_index = false}`.
//!   `ArgMaxD ArgMinD {dimension, ...}`: the same with the dimension as an attribute.
//! * `TopKV2(x, k) {sorted = true, dim = -1, largest = true, indices_dtype = i32} -> values, indices`:
//!   equal values are ordered by index, the lower one first.
//! * `Cumsum(x, axis) Cumprod(x, axis) {exclusive, reverse}`; `CumsumD {axis, ...}`.
use crate::dims;
use crate::elementwise::BOOL;
use crate::read;
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef, flags::FULL_PRECISION};
use ge_plugin_api::register_ops;
use ge_plugin_api::types::dtype::{FLOATS, INDEX, NUMERIC};
use ge_plugin_api::types::{DType, Dim, Shape, TensorDesc};

/// [`NUMERIC`] and bool.
pub const NUMERIC_BOOL: &[DType] = &[
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::F64,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::BOOL,
];

/// A shape after a reduction of axes, which are kept with size 1 if `keep`.
pub fn reduced(s: &Shape, axes: &[usize], keep: bool) -> Shape {
    Shape::new(s.dims().iter().enumerate().filter_map(|(i, &d)| match (axes.contains(&i), keep) {
        (false, _) => Some(d),
        (true, true) => Some(Dim::known(1)),
        (true, false) => None,
    }))
}
fn reduce(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let s = &c.input(0)?.shape;
    let keep = read::flag(c, "keep_dims", false);
    let given = read::ints(c, "axes").is_some() || c.opt_input(1).is_some();
    let list = if given { read::ints_or_input(c, "axes", 1) } else { Some(Vec::new()) };
    let shape = match (s.rank(), list) {
        (Some(_), Some(v)) if v.is_empty() && given && read::flag(c, "noop_with_empty_axes", true) => s.clone(),
        (Some(r), Some(v)) if v.is_empty() => reduced(s, &(0..r).collect::<Vec<_>>(), keep),
        (Some(r), Some(v)) => reduced(s, &read::axes("axes", &v, r)?, keep),
        (Some(r), None) if keep => dims::unknown(r),
        (Some(r), None) => match c.opt_input(1).and_then(|a| a.shape.dims().first().and_then(|d| d.size())) {
            Some(n) if n > 0 => dims::unknown(r.saturating_sub(usize::try_from(n).unwrap_or(usize::MAX))),
            _ => Shape::unranked(),
        },
        _ if !keep && !given => Shape::scalar(),
        _ => Shape::unranked(),
    };
    read::one(c, shape)
}
fn arg(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let s = &c.input(0)?.shape;
    let keep = read::flag(c, "keep_dims", false);
    let by_attr = c.node.int("dimension");
    let a = by_attr.or_else(|| c.const_ints(1).and_then(|v| v.first().copied()));
    let shape = match (s.rank(), a) {
        (Some(r), Some(a)) => reduced(s, &[read::axis("dimension", a, r)?], keep),
        (Some(r), None) => dims::unknown(if keep { r } else { r.saturating_sub(1) }),
        _ => Shape::unranked(),
    };
    Ok(vec![TensorDesc::new(read::dtype(c, "dtype").unwrap_or(DType::I64), shape)])
}
fn top_k(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let mut s = c.input(0)?.shape.clone();
    if let Some(r) = s.rank() {
        let a = read::axis("attribute `dim`", read::int(c, "dim", -1), r)?;
        let k = c.const_ints(1).and_then(|v| v.first().copied());
        if let (Some(k), Some(n)) = (k, dims::size(s.dims()[a])) {
            if k < 0 || k > n {
                return Err(read::bad("input 1 `k`", k, format!("0 to {n}")));
            }
        }
        s.dims_mut()[a] = k.map_or(Dim::UNKNOWN, dims::from_i64);
    }
    let t = read::dtype(c, "indices_dtype").unwrap_or(DType::I32);
    Ok(vec![read::out(c, c.input(0)?.dtype, s.clone()), TensorDesc::new(t, s)])
}
fn cumulative(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let d = c.like(0)?;
    let a = c.node.int("axis").or_else(|| c.const_ints(1).and_then(|v| v.first().copied()));
    if let (Some(r), Some(a)) = (d.shape.rank(), a) {
        read::axis("axis", a, r)?;
    }
    Ok(vec![d])
}

fn defs() -> Vec<OpDef> {
    let mut v = Vec::new();
    let sums = |name: &str| matches!(name, "ReduceSum" | "ReduceMean" | "ReduceProd" | "ReduceLogSumExp");
    for (name, types) in [
        ("ReduceSum", NUMERIC),
        ("ReduceMean", NUMERIC),
        ("ReduceMax", NUMERIC_BOOL),
        ("ReduceMin", NUMERIC_BOOL),
        ("ReduceProd", NUMERIC),
        ("ReduceLogSumExp", NUMERIC),
        ("ReduceAll", BOOL),
        ("ReduceAny", BOOL),
    ] {
        v.push(
            OpDef::new(name, reduce)
                .input("x", types, "T")
                .opt("axes", INDEX, "")
                .output("y", types, "T")
                .attr("keep_dims", AttrKind::BOOL, false)
                .attr("noop_with_empty_axes", AttrKind::BOOL, true)
                .value_inputs(&[1])
                .flags(if sums(name) { FULL_PRECISION } else { 0 }),
        );
        v.push(
            OpDef::new(&format!("{name}D"), reduce)
                .input("x", types, "T")
                .output("y", types, "T")
                .required_attr("axes", AttrKind::INTS)
                .attr("keep_dims", AttrKind::BOOL, false)
                .attr("noop_with_empty_axes", AttrKind::BOOL, true)
                .flags(if sums(name) { FULL_PRECISION } else { 0 }),
        );
    }
    let arg_attrs = |d: OpDef| {
        d.attr("dtype", AttrKind::TYPE, DType::I64).attr("keep_dims", AttrKind::BOOL, false).attr(
            "select_last_index",
            AttrKind::BOOL,
            false,
        )
    };
    for name in ["ArgMax", "ArgMin"] {
        v.push(arg_attrs(
            OpDef::new(&format!("{name}V2"), arg)
                .input("x", NUMERIC, "")
                .input("dimension", INDEX, "")
                .output("y", INDEX, "")
                .value_inputs(&[1]),
        ));
        v.push(arg_attrs(
            OpDef::new(&format!("{name}D"), arg)
                .input("x", NUMERIC, "")
                .output("y", INDEX, "")
                .required_attr("dimension", AttrKind::INT),
        ));
    }
    v.push(
        OpDef::new("TopKV2", top_k)
            .input("x", NUMERIC, "T")
            .input("k", INDEX, "")
            .output("values", NUMERIC, "T")
            .output("indices", INDEX, "")
            .attr("sorted", AttrKind::BOOL, true)
            .attr("dim", AttrKind::INT, -1i64)
            .attr("largest", AttrKind::BOOL, true)
            .attr("indices_dtype", AttrKind::TYPE, DType::I32)
            .value_inputs(&[1]),
    );
    for name in ["Cumsum", "Cumprod"] {
        v.push(
            OpDef::new(name, cumulative)
                .input("x", NUMERIC, "T")
                .input("axis", INDEX, "")
                .output("y", NUMERIC, "T")
                .attr("exclusive", AttrKind::BOOL, false)
                .attr("reverse", AttrKind::BOOL, false)
                .value_inputs(&[1])
                .flags(FULL_PRECISION),
        );
        v.push(
            OpDef::new(&format!("{name}D"), cumulative)
                .input("x", NUMERIC, "T")
                .output("y", NUMERIC, "T")
                .required_attr("axis", AttrKind::INT)
                .attr("exclusive", AttrKind::BOOL, false)
                .attr("reverse", AttrKind::BOOL, false)
                .flags(FULL_PRECISION),
        );
    }
    let _ = FLOATS;
    v
}
register_ops!(|| crate::value_ranges::given(defs()));
