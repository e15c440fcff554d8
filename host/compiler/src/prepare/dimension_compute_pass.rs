//! `DimensionComputePass`: replaces operators that read a known shape by constants.
//!
//! Before: `%s = Shape(%x : f32[3,4,5,6])`   After: `%s = Const() {value = dense<i64[4]: 3 4 5 6>}`
//! Before: `%n = Gather(%s, 1)` over `%s = Shape(%x : f32[?,4])`   After: `%n = Const() {value =
//! 4}`
//! When: for `Shape` and `Size`, the sizes read are known; for `Rank`, the rank is known; for
//! `Gather` of a `Shape`, each size picked is known.
//! Refuses: unknown sizes; inputs in a run-time format.
//! Keeps: the node's name.
//! Source: 003 §8, facts 4.3, 4.4 (1_2, 12). Cost: each node once.
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::{PassContext, Rewriter};
use ge_ir::{ConstTensor, DType, Dim, Node};

node_pass!(
    DimensionComputePass,
    O1,
    ["Shape", "Size", "Rank", "Gather", "GatherV2"],
    "`Shape`, `Size`, `Rank` of what is known -> `Const`",
    needs "the sizes asked for are known",
    keeps "the node's name",
    visit,
);

/// The dimensions that a `Shape` returns.
fn asked<'a>(at: &At<'a>, n: &Node) -> Option<&'a [Dim]> {
    let d = at.g.input_desc(n, 0)?;
    let rank = i64::try_from(d.shape.rank()?).ok()?;
    let clamp = |v: i64| usize::try_from((if v < 0 { v + rank } else { v }).clamp(0, rank)).unwrap_or(0);
    let start = clamp(n.attrs().int("start").unwrap_or(0));
    let end = clamp(n.attrs().int("end").unwrap_or(rank));
    d.shape.dims().get(start..end.max(start))
}

fn sizes(dims: &[Dim]) -> Option<Vec<i64>> {
    dims.iter().map(|d| i64::try_from(d.size()?).ok()).collect()
}

fn tensor(dtype: DType, dims: &[u64], v: &[i64]) -> Option<ConstTensor> {
    match dtype {
        DType::I64 => ConstTensor::of(dims, v),
        DType::I32 => {
            let v = v.iter().map(|v| i32::try_from(*v).ok()).collect::<Option<Vec<_>>>()?;
            ConstTensor::of(dims, &v)
        }
        _ => None,
    }
}

fn picked(at: &At<'_>) -> Option<ConstTensor> {
    let n = at.n;
    let shape = at.producer(0).filter(|p| p.op() == "Shape")?;
    if n.op() == "GatherV2" && at.g.constant(n.input(2)?)?.to_i64(1)? != [0] {
        return None;
    }
    if n.op() == "Gather" && n.attrs().int("axis").unwrap_or(0) != 0 {
        return None;
    }
    let dims = asked(at, shape)?;
    let index = at.g.constant(n.input(1)?)?;
    let len = i64::try_from(dims.len()).ok()?;
    let of = |i: i64| dims.get(usize::try_from(if i < 0 { i + len } else { i }).ok()?).copied();
    let values = index.to_i64(1024)?.into_iter().map(of).collect::<Option<Vec<Dim>>>()?;
    tensor(n.outputs().first()?.dtype, &index.dims, &sizes(&values)?)
}

fn known(at: &At<'_>) -> Option<ConstTensor> {
    let n = at.n;
    let dtype = n.outputs().first()?.dtype;
    match n.op() {
        "Shape" => {
            let v = sizes(asked(at, n)?)?;
            tensor(dtype, &[v.len() as u64], &v)
        }
        "Size" => tensor(dtype, &[], &[i64::try_from(at.input_desc(0)?.shape.count()?).ok()?]),
        "Rank" => tensor(dtype, &[], &[i64::try_from(at.input_desc(0)?.shape.rank()?).ok()?]),
        _ => picked(at),
    }
}

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let n = at.n;
    let asks = matches!(n.op(), "Shape" | "Size" | "Rank") || at.producer(0).is_some_and(|p| p.op() == "Shape");
    if !asks {
        return Ok(());
    }
    // For a value in a run-time format, the operator would have to return the original shape that
    // the user knows.
    if at.input_desc(0).is_some_and(|d| d.format != d.origin_format()) {
        cx.refuse(n.name(), "its input has a run-time format");
        return Ok(());
    }
    match known(at) {
        Some(t) => r.fold(n, vec![t]),
        None => cx.refuse(n.name(), "a size that it asks for is not known"),
    }
    Ok(())
}
