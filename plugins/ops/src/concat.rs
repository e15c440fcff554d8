//! Operators that join and split tensors along an axis.
//!
//! * `ConcatD(x...) {concat_dim, N}`, `ConcatV2D` (the same), `Concat(concat_dim, x...) {N}`,
//!   `ConcatV2(x..., concat_dim) {N}`.
//! * `Pack(x...) {axis = 0, N}` joins along a new axis; `Unpack(x) {axis = 0, num} -> y...`.
//! * `SplitD(x) {split_dim, num_split} -> y...`: equal parts; if the size is not divisible, the
//!   last parts are smaller. `Split(split_dim, x) {num_split}`;
//!   `SplitVD(x) {size_splits, split_dim, num_split}`,
//!   `SplitV(x, size_splits, split_dim) {num_split}`.
//! * `PhonyConcat(x...) {concat_dim = [d], N = [n]}` and
//!   `PhonySplit(x) {split_dim = [d], num_split = [n]}` have no task. Several numbers mean several
//!   rounds of joining (splitting), the first one being the innermost grouping: `N = [2, 3]` joins
//!   pairs along `concat_dim[0]`, then three of these along `concat_dim[1]`.
use crate::dims;
use crate::read::{self, bad};
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef};
use ge_plugin_api::register_ops;
use ge_plugin_api::types::dtype::{ANY, INDEX};
use ge_plugin_api::types::{Dim, Shape, TensorDesc};

/// The shape of tensors joined along an axis.
pub fn joined(shapes: &[&Shape], axis: i64) -> Result<Shape> {
    let Some(first) = shapes.iter().find(|s| !s.is_unranked()) else { return Ok(Shape::unranked()) };
    let r = first.dims().len();
    let a = read::axis("axis", axis, r)?;
    let mut out = first.dims().to_vec();
    out[a] = Dim::known(0);
    for (i, s) in shapes.iter().enumerate() {
        match s.rank() {
            None => out[a] = Dim::UNKNOWN,
            Some(n) if n != r => return Err(bad(format!("input {i}"), s, format!("rank {r} as {first}"))),
            Some(_) => {
                for (k, o) in out.iter_mut().enumerate() {
                    let d = s.dims()[k];
                    *o = if k == a {
                        dims::add(*o, d)
                    } else {
                        dims::meet(*o, d).ok_or_else(|| {
                            bad(format!("dimension {k} of input {i}"), s, format!("{} as {first}", *o))
                        })?
                    };
                }
            }
        }
    }
    Ok(Shape::new(out))
}
fn data_inputs(c: &InferCtx<'_>) -> (usize, usize) {
    match c.node.op() {
        "Concat" => (1, c.input_count()),
        "ConcatV2" => (0, c.input_count().saturating_sub(1)),
        _ => (0, c.input_count()),
    }
}
fn concat(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let (from, to) = data_inputs(c);
    if from >= to {
        return Err(bad("inputs", "none", "at least one"));
    }
    let shapes = (from..to).map(|i| c.input(i).map(|d| &d.shape)).collect::<Result<Vec<_>>>()?;
    let axis = match c.node.op() {
        "Concat" => c.const_ints(0),
        "ConcatV2" => c.const_ints(to),
        _ => Some(vec![c.node.int("concat_dim").ok_or_else(|| bad("attribute `concat_dim`", "nothing", "an axis"))?]),
    };
    let n = c.node.int("N").unwrap_or((to - from) as i64);
    if n != (to - from) as i64 {
        return Err(bad("attribute `N`", n, format!("{} as there are inputs", to - from)));
    }
    let s = match axis.and_then(|v| v.first().copied()) {
        Some(a) => joined(&shapes, a)?,
        None => shapes[0].rank().map_or_else(Shape::unranked, dims::unknown),
    };
    let first = c.input(from)?;
    let mut d = TensorDesc::new(first.dtype, s);
    d.format = first.format;
    Ok(vec![d])
}
fn pack(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let mut s = c.input(0)?.shape.clone();
    for i in 1..c.input_count() {
        s = dims::equal_shapes(&format!("input {i} `x`"), &s, &c.input(i)?.shape)?;
    }
    let n = c.input_count() as i64;
    if c.node.int("N").is_some_and(|v| v != n) {
        return Err(bad("attribute `N`", read::int(c, "N", 0), format!("{n} as there are inputs")));
    }
    if let Some(r) = s.rank() {
        let a = read::axis("attribute `axis`", read::int(c, "axis", 0), r + 1)?;
        let mut d = s.dims().to_vec();
        d.insert(a, dims::from_i64(n));
        s = Shape::new(d);
    }
    Ok(vec![TensorDesc::new(c.input(0)?.dtype, s)])
}
/// The number of outputs: the attribute `key`, or else the outputs that the node already has.
fn wanted(c: &InferCtx<'_>, key: &str) -> Result<usize> {
    let n = c.node.int(key).unwrap_or(c.node.outputs().len() as i64);
    usize::try_from(n)
        .ok()
        .filter(|n| (1..=65_536).contains(n))
        .ok_or_else(|| bad(format!("attribute `{key}`"), n, "1 to 65536"))
}
fn unpack(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let n = wanted(c, "num")?;
    let x = c.input(0)?;
    let s = match x.shape.rank() {
        Some(r) => {
            let a = read::axis("attribute `axis`", read::int(c, "axis", 0), r)?;
            dims::equal("attribute `num`", x.shape.dims()[a], Dim::known(n as u64))?;
            crate::reduce::reduced(&x.shape, &[a], false)
        }
        None => Shape::unranked(),
    };
    Ok(vec![TensorDesc::new(x.dtype, s); n])
}
/// Descriptors of the parts of `x`: with the given sizes, or equal ones.
fn parts(
    x: &TensorDesc,
    axis: Option<i64>,
    n: usize,
    sizes: Option<Vec<i64>>,
    by_value: bool,
) -> Result<Vec<TensorDesc>> {
    let make = |s: Shape| {
        let mut d = TensorDesc::new(x.dtype, s);
        d.format = x.format;
        d
    };
    let Some(r) = x.shape.rank() else { return Ok(vec![make(Shape::unranked()); n]) };
    let Some(axis) = axis else { return Ok(vec![make(dims::unknown(r)); n]) };
    let a = read::axis("split_dim", axis, r)?;
    let whole = dims::size(x.shape.dims()[a]);
    let lens: Vec<Dim> =
        match sizes {
            Some(v) => {
                if v.len() != n {
                    return Err(bad("size_splits", format!("{} numbers", v.len()), format!("{n} numbers")));
                }
                let sum: i64 = v.iter().filter(|s| **s >= 0).fold(0i64, |a, b| a.saturating_add(*b));
                let open = v.iter().filter(|s| **s < 0).count();
                if let Some(w) = whole {
                    if open > 1 || (open == 0 && sum != w) || sum > w {
                        return Err(bad("size_splits", format!("{v:?}"), format!("parts of {w}")));
                    }
                }
                v.iter()
                    .map(|&s| {
                        if s >= 0 { dims::from_i64(s) } else { whole.map_or(Dim::UNKNOWN, |w| dims::from_i64(w - sum)) }
                    })
                    .collect()
            }
            None if by_value => vec![Dim::UNKNOWN; n],
            None => match whole {
                Some(w) => {
                    let each = (w + n as i64 - 1) / n as i64;
                    (0..n as i64).map(|k| dims::from_i64((w - k * each).clamp(0, each))).collect()
                }
                None => vec![Dim::UNKNOWN; n],
            },
        };
    Ok(lens
        .into_iter()
        .map(|l| {
            let mut s = x.shape.clone();
            s.dims_mut()[a] = l;
            make(s)
        })
        .collect())
}
fn split(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let n = wanted(c, "num_split")?;
    match c.node.op() {
        "Split" => parts(c.input(1)?, c.const_ints(0).and_then(|v| v.first().copied()), n, None, false),
        "SplitV" => parts(c.input(0)?, c.const_ints(2).and_then(|v| v.first().copied()), n, c.const_ints(1), true),
        "SplitVD" => {
            parts(c.input(0)?, c.node.int("split_dim"), n, Some(read::need_ints(c, "size_splits")?.to_vec()), true)
        }
        _ => parts(c.input(0)?, c.node.int("split_dim"), n, None, false),
    }
}
fn list_or_one(c: &InferCtx<'_>, key: &str) -> Result<Vec<i64>> {
    match (read::ints(c, key), c.node.int(key)) {
        (Some(v), _) if !v.is_empty() => Ok(v.to_vec()),
        (_, Some(v)) => Ok(vec![v]),
        _ => Err(bad(format!("attribute `{key}`"), "nothing", "a list of integers")),
    }
}
fn phony_concat(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let (axes, counts) = (list_or_one(c, "concat_dim")?, list_or_one(c, "N")?);
    let mut level = (0..c.input_count()).map(|i| c.input(i).map(|d| d.shape.clone())).collect::<Result<Vec<_>>>()?;
    let total = counts.iter().try_fold(1i64, |a, &b| a.checked_mul(b));
    if axes.len() != counts.len() || total != Some(level.len() as i64) || counts.iter().any(|&n| n < 1) {
        return Err(bad(
            "attribute `N`",
            format!("{counts:?}"),
            format!("one number a concat_dim, with product {}", level.len()),
        ));
    }
    for (&a, &n) in axes.iter().zip(&counts) {
        level =
            level.chunks(n as usize).map(|g| joined(&g.iter().collect::<Vec<_>>(), a)).collect::<Result<Vec<_>>>()?;
    }
    let mut d = c.like(0)?;
    d.shape = level.into_iter().next().unwrap_or_default();
    Ok(vec![d])
}
fn phony_split(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let (axes, counts) = (list_or_one(c, "split_dim")?, list_or_one(c, "num_split")?);
    let total = counts.iter().try_fold(1i64, |a, &b| a.checked_mul(b)).filter(|n| (1..=65_536).contains(n));
    if axes.len() != counts.len() || total.is_none() || counts.iter().any(|&n| n < 1) {
        return Err(bad("attribute `num_split`", format!("{counts:?}"), "one number a split_dim, at most 65536 parts"));
    }
    let mut level = vec![c.like(0)?];
    for (&a, &n) in axes.iter().zip(&counts) {
        level = level.iter().map(|d| parts(d, Some(a), n as usize, None, false)).collect::<Result<Vec<_>>>()?.concat();
    }
    Ok(level)
}

fn defs() -> Vec<OpDef> {
    let (i, l) = (AttrKind::INT, AttrKind::INTS);
    let many = |name: &str, f| OpDef::new(name, f).dynamic("x", ANY, "T");
    vec![
        many("ConcatD", concat).output("y", ANY, "T").required_attr("concat_dim", i).opt_attr("N", i),
        many("ConcatV2D", concat).output("y", ANY, "T").required_attr("concat_dim", i).opt_attr("N", i),
        OpDef::new("Concat", concat)
            .input("concat_dim", INDEX, "")
            .dynamic("x", ANY, "T")
            .output("y", ANY, "T")
            .opt_attr("N", i)
            .value_inputs(&[0]),
        // The axis is the last of the dynamic inputs and has its own type, so no type variable ties
        // the inputs together.
        OpDef::new("ConcatV2", concat).dynamic("x", ANY, "").output("y", ANY, "").opt_attr("N", i),
        many("Pack", pack).output("y", ANY, "T").attr("axis", i, 0i64).opt_attr("N", i),
        OpDef::new("Unpack", unpack)
            .input("x", ANY, "T")
            .dynamic_output("y", ANY, "T")
            .opt_attr("num", i)
            .attr("axis", i, 0i64),
        OpDef::new("SplitD", split)
            .input("x", ANY, "T")
            .dynamic_output("y", ANY, "T")
            .required_attr("split_dim", i)
            .required_attr("num_split", i),
        OpDef::new("Split", split)
            .input("split_dim", INDEX, "")
            .input("x", ANY, "T")
            .dynamic_output("y", ANY, "T")
            .required_attr("num_split", i)
            .value_inputs(&[0]),
        OpDef::new("SplitVD", split)
            .input("x", ANY, "T")
            .dynamic_output("y", ANY, "T")
            .required_attr("size_splits", l)
            .required_attr("split_dim", i)
            .opt_attr("num_split", i),
        OpDef::new("SplitV", split)
            .input("x", ANY, "T")
            .input("size_splits", INDEX, "")
            .input("split_dim", INDEX, "")
            .dynamic_output("y", ANY, "T")
            .opt_attr("num_split", i)
            .value_inputs(&[1, 2]),
        many("PhonyConcat", phony_concat)
            .output("y", ANY, "T")
            .required_attr("concat_dim", AttrKind::ANY)
            .required_attr("N", AttrKind::ANY)
            .opt_attr("keep_input_offset", AttrKind::BOOL),
        OpDef::new("PhonySplit", phony_split)
            .input("x", ANY, "T")
            .dynamic_output("y", ANY, "T")
            .required_attr("split_dim", AttrKind::ANY)
            .required_attr("num_split", AttrKind::ANY)
            .opt_attr("keep_output_offset", AttrKind::BOOL),
    ]
}
register_ops!(defs);
