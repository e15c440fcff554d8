//! `InferValueRangePass`: tracks the integers of which shapes consist even if they are no
//! constants, as an expression over the sizes of the inputs or as a minimum and maximum. This
//! determines the sizes of later nodes, comparisons, and so branches.
//!
//! Before: `%s = Shape(%x : f32[n,4])  %m = Mul(%s, 2)  %y = Reshape(%x, %m)`   After: `%m :
//! i64[2]{_value = ["2*n", "8"]}`, `%y : f32["2*n",8]`
//! Before: `%p = GreaterEqual(%s0, 0)` over a size   After: `%p = Const() {value = true}`
//! When: up to 64 integers from `Shape`, `Size` and arithmetic over them; folded if every number is
//! determined.
//! Refuses: values that may be negative in a quotient that rounds; results of casts to i32 and of
//! arithmetic in it that may not fit i32, where they wrap. A size itself always fits.
//! Keeps: node names. The attribute `_value` of an output exists while shapes are inferred and is
//! removed at the end.
//! Source: 003 §8 (value ranges), facts 4.3 (last of the inference list). Cost: each node once.
use super::value::{Value, Values, arithmetic, compare, operand, read};
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::{PassContext, Rewriter};
use ge_ir::{AttrValue, ConstTensor, DType, Dim, Model, Node};
use ge_plugin_api::ops::VALUE;
use ge_plugin_api::patch::Edit;
use ge_plugin_api::types::Expr;

node_pass!(
    InferValueRangePass,
    O1,
    [
        "Shape", "Size", "Gather", "GatherV2", "StridedSliceV2", "StridedSliceD", "Slice", "SliceD", "ConcatD", "ConcatV2D", "Concat",
        "ConcatV2", "Pack", "SplitD", "Unsqueeze", "UnsqueezeV3", "ExpandDims", "Squeeze", "SqueezeV3", "Reshape", "Identity", "Cast",
        "Add", "Sub", "Mul", "Div", "FloorDiv", "Mod", "FloorMod", "Maximum", "Minimum", "Neg", "ReduceProd", "ReduceProdD", "ReduceSum",
        "ReduceSumD", "SelectV2", "Select", "Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual",
    ],
    "`Mul(Shape(x : [n,4]), 2)` -> its values are `2*n` and `8`; a comparison that they settle -> `Const`",
    needs "whole numbers made of sizes, up to 64",
    keeps "node names",
    visit,
);

/// Maximum number of elements of a tensor that is tracked.
const MOST: u64 = 64;

fn count(d: &ge_ir::TensorDesc) -> Option<usize> {
    d.shape.count().filter(|c| *c <= MOST).and_then(|c| usize::try_from(c).ok())
}

/// The values of a small constant integer input.
fn table(at: &At<'_>, i: usize) -> Option<Vec<i64>> {
    at.g.constant(at.n.input(i)?)?.to_i64(64)
}
/// The numbers of an attribute, or else of a constant input.
fn given(at: &At<'_>, key: &str, i: usize) -> Option<Vec<i64>> {
    match at.n.attrs().ints(key) {
        Some(v) => Some(v.to_vec()),
        None => table(at, i),
    }
}

fn sizes(at: &At<'_>) -> Option<Values> {
    let d = at.input_desc(0)?;
    let rank = i64::try_from(d.shape.rank()?).ok()?;
    let clamp = |v: i64| usize::try_from((if v < 0 { v + rank } else { v }).clamp(0, rank)).unwrap_or(0);
    let (from, to) = match at.n.op() {
        "Shape" => (clamp(at.n.attrs().int("start").unwrap_or(0)), clamp(at.n.attrs().int("end").unwrap_or(rank))),
        _ => (0, d.shape.dims().len()),
    };
    let of = |d: &Dim| match d.size() {
        Some(_) => Value::of(Expr::of(*d)),
        None => Value { expr: Expr::of(*d), low: Some(0), high: None },
    };
    let all: Values = d.shape.dims().get(from..to.max(from))?.iter().map(of).collect();
    match at.n.op() {
        "Shape" => Some(all),
        _ => Some(vec![all.iter().try_fold(Value::number(1), |a, b| arithmetic("Mul", &a, b))?]),
    }
}

/// The part of a one-dimensional input that a slice takes.
fn part(at: &At<'_>) -> Option<Values> {
    let row = row(at, 0)?;
    let n = i64::try_from(row.len()).ok()?;
    let one = |v: Vec<i64>| (v.len() == 1).then(|| v[0]);
    let attr = |key: &str| at.n.attrs().ints(key).map(<[i64]>::to_vec);
    let (begin, end, step) = match at.n.op() {
        "StridedSliceV2" => {
            if at.n.input(3).is_some_and(|v| !v.is_absent()) && !matches!(table(at, 3).as_deref(), Some([0 | -1])) {
                return None;
            }
            let step = if at.n.input(4).is_some_and(|v| !v.is_absent()) { one(table(at, 4)?)? } else { 1 };
            (one(table(at, 1)?)?, one(table(at, 2)?)?, step)
        }
        "StridedSliceD" => (one(attr("begin")?)?, one(attr("end")?)?, attr("strides").map_or(Some(1), one)?),
        _ => {
            let (from, size) = (one(given(at, "offsets", 1)?)?, one(given(at, "size", 2)?)?);
            (from, if size < 0 { n } else { from.checked_add(size)? }, 1)
        }
    };
    if step != 1 {
        return None;
    }
    let place = |v: i64| usize::try_from((if v < 0 { v.saturating_add(n) } else { v }).clamp(0, n)).unwrap_or(0);
    Some(row.get(place(begin)..place(end).max(place(begin)))?.to_vec())
}

/// The numbers of an input of rank 1 or 0.
fn row(at: &At<'_>, i: usize) -> Option<Values> {
    at.input_desc(i).filter(|d| d.shape.rank().is_some_and(|r| r <= 1)).and_then(|_| read(at, i))
}

fn joined(at: &At<'_>) -> Option<Values> {
    let data = match at.n.op() {
        "Concat" => 1..at.n.inputs().len(),
        "ConcatV2" => 0..at.n.inputs().len().checked_sub(1)?,
        _ => 0..at.n.inputs().len(),
    };
    let mut out = Vec::new();
    for i in data {
        // A single number keeps its position if it gets an axis of its own.
        out.extend(row(at, i).filter(|v| at.n.op() != "Pack" || v.len() == 1)?);
    }
    (out.len() as u64 <= MOST).then_some(out)
}

fn picked(at: &At<'_>) -> Option<Values> {
    let axis = if at.n.op() == "GatherV2" { table(at, 2)? } else { vec![at.n.attrs().int("axis").unwrap_or(0)] };
    let row = at.input_desc(0).filter(|d| d.shape.rank() == Some(1)).and_then(|_| read(at, 0))?;
    if !matches!(axis.as_slice(), [0 | -1]) {
        return None;
    }
    let n = i64::try_from(row.len()).ok()?;
    let at_place = |i: i64| row.get(usize::try_from(if i < 0 { i + n } else { i }).ok()?).cloned();
    table(at, 1)?.into_iter().map(at_place).collect()
}

/// The values of each output, in order; `None` if the node is not tracked.
fn computed(at: &At<'_>) -> Option<Vec<Values>> {
    let n = at.n;
    let both = || -> Option<(Values, Values, usize)> {
        let (a, b) = (operand(at, 0)?, operand(at, 1)?);
        let len = count(n.outputs().first()?)?;
        let flat = |i: usize, v: &Values| {
            v.len() == 1 || v.len() == len && at.input_desc(i).is_some_and(|d| d.shape.rank() <= Some(1) || len == 1)
        };
        (flat(0, &a) && flat(1, &b)).then_some((a, b, len))
    };
    let pick = |v: &Values, k: usize| if v.len() == 1 { v[0].clone() } else { v[k].clone() };
    let narrow = n.outputs().first().is_some_and(|d| d.dtype == DType::I32);
    let made = |v: Value| if narrow { v.wrapped() } else { v };
    let one = match n.op() {
        "Shape" => sizes(at)?,
        "Size" => sizes(at)?.into_iter().map(made).collect(),
        "Gather" | "GatherV2" => picked(at)?,
        "StridedSliceV2" | "StridedSliceD" | "Slice" | "SliceD" => part(at)?,
        "ConcatD" | "ConcatV2D" | "Concat" | "ConcatV2" | "Pack" => joined(at)?,
        "SplitD" => {
            let row = at.input_desc(0).filter(|d| d.shape.rank() == Some(1)).and_then(|_| read(at, 0))?;
            let each = row.len().div_ceil(n.outputs().len().max(1)).max(1);
            return Some(row.chunks(each).map(<[Value]>::to_vec).collect());
        }
        "Unsqueeze" | "UnsqueezeV3" | "ExpandDims" | "Squeeze" | "SqueezeV3" | "Reshape" | "Identity" => read(at, 0)?,
        "Cast" => read(at, 0)?.into_iter().map(made).collect(),
        "Neg" => {
            let zero = Value::number(0);
            operand(at, 0)?.iter().map(|v| arithmetic("Sub", &zero, v).map(made)).collect::<Option<_>>()?
        }
        "ReduceProd" | "ReduceProdD" | "ReduceSum" | "ReduceSumD" => {
            let (op, start) = if n.op().starts_with("ReduceProd") { ("Mul", 1) } else { ("Add", 0) };
            let row = row(at, 0).filter(|_| count(&n.outputs()[0]) == Some(1))?;
            vec![made(row.iter().try_fold(Value::number(start), |a, b| arithmetic(op, &a, b))?)]
        }
        "Select" | "SelectV2" => {
            let (c, a, b) = (table(at, 0)?, read(at, 1)?, read(at, 2)?);
            let len = count(n.outputs().first()?)?;
            let fits = |l: usize| l == 1 || l == len;
            let flat = (0..3).all(|i| at.input_desc(i).is_some_and(|d| d.shape.rank() <= Some(1)));
            if !flat || !fits(c.len()) || !fits(a.len()) || !fits(b.len()) {
                return None;
            }
            let said = |k: usize| c[if c.len() == 1 { 0 } else { k }] != 0;
            (0..len).map(|k| if said(k) { pick(&a, k) } else { pick(&b, k) }).collect()
        }
        "Equal" | "NotEqual" | "Less" | "LessEqual" | "Greater" | "GreaterEqual" => {
            let (a, b, len) = both()?;
            (0..len)
                .map(|k| compare(n.op(), &pick(&a, k), &pick(&b, k)).map(|t| Value::number(t.into())))
                .collect::<Option<_>>()?
        }
        op => {
            let (a, b, len) = both()?;
            (0..len).map(|k| arithmetic(op, &pick(&a, k), &pick(&b, k)).map(made)).collect::<Option<_>>()?
        }
    };
    Some(vec![one])
}

fn tensor(n: &Node, k: usize, values: &[i64]) -> Option<ConstTensor> {
    let d = n.outputs().get(k)?;
    let dims = d.shape.sizes().filter(|s| s.iter().product::<u64>() == values.len() as u64)?;
    match d.dtype {
        DType::I64 => ConstTensor::of(&dims, values),
        DType::I32 => {
            let v = values.iter().map(|v| i32::try_from(*v).ok()).collect::<Option<Vec<_>>>()?;
            ConstTensor::of(&dims, &v)
        }
        DType::BOOL => ConstTensor::of(&dims, &values.iter().map(|v| *v != 0).collect::<Vec<_>>()),
        _ => None,
    }
}

fn visit(_: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let n = at.n;
    let whole = |d: &ge_ir::TensorDesc| {
        matches!(d.dtype, DType::I64 | DType::I32 | DType::BOOL) && d.format == d.origin_format()
    };
    if !n.outputs().iter().all(whole) || n.outputs().is_empty() {
        return Ok(());
    }
    let found = computed(at).filter(|v| {
        v.len() == n.outputs().len() && v.iter().zip(n.outputs()).all(|(v, d)| count(d).is_none_or(|c| c == v.len()))
    });
    if let Some(all) = &found {
        let settled = all.iter().enumerate().map(|(k, v)| {
            let numbers = v.iter().map(Value::settled).collect::<Option<Vec<i64>>>()?;
            tensor(n, k, &numbers)
        });
        if let Some(t) = settled.collect::<Option<Vec<_>>>() {
            r.fold(n, t);
            return Ok(());
        }
    }
    for (k, d) in n.outputs().iter().enumerate() {
        let known = found.as_ref().and_then(|f| f.get(k)).filter(|v| v.iter().any(Value::says_something));
        let said = known
            .filter(|_| d.dtype != DType::BOOL)
            .map(|v| AttrValue::from(v.iter().map(Value::to_string).collect::<Vec<_>>()));
        if d.attrs.get(VALUE) != said.as_ref() {
            let mut d = d.clone();
            match said {
                Some(v) => d.attrs.set(VALUE, v),
                None => {
                    d.attrs.remove(ge_ir::Key::new(VALUE));
                }
            };
            r.patch.push(Edit::SetOutput(n.id(), k as u32, d));
            r.count();
        }
    }
    Ok(())
}

/// Removes the tracked values from all outputs: they hold for the shapes that were inferred, but
/// not for what passes later make of the graph.
pub fn forget(model: &mut Model) {
    let key = ge_ir::Key::new(VALUE);
    for g in model.graphs_mut() {
        let marked: Vec<_> =
            g.nodes().filter(|n| n.outputs().iter().any(|d| d.attrs.get(key).is_some())).map(Node::id).collect();
        for id in marked {
            let Some(n) = g.get(id) else { continue };
            let mut outputs = n.outputs().to_vec();
            outputs.iter_mut().for_each(|d| {
                d.attrs.remove(key);
            });
            g.set_outputs(id, outputs);
        }
    }
}
