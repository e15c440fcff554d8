//! Reductions, `ArgMax`, `ArgMin`, `TopK`.
use super::{Outs, back, known_type};
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::map_op;
use ge_plugin_api::types::{DType, ValueRef};

/// A reduction, with optional operators before and after it. Axes come from an attribute (old) or
/// an input (new). Integers whose sum goes through a root or a logarithm are computed as f64, and so
/// is a type that is not known.
fn reduce(n: &ForeignNode, b: &mut GraphBuilder<'_>, before: &str, op: &str, after: &str) -> Outs {
    let mut x = n.input(0)?;
    let wide = !after.is_empty() && known_type(n).is_none_or(|t| t.is_int());
    if wide {
        x = b.node("Cast").input(x).attr("dst_type", DType::F64).build();
    }
    if !before.is_empty() {
        x = b.node(before).input(x).build();
    }
    let axes: Option<ValueRef> = match n.attrs.ints("axes") {
        Some(v) => Some(b.ints("axes", v)),
        None => n.opt_input(1),
    };
    let mut y = b
        .node(op)
        .name(if after.is_empty() { n.name.as_str() } else { "" })
        .input(x)
        .opt_input(axes)
        .attr("keep_dims", n.int_or("keepdims", 1) != 0)
        .attr("noop_with_empty_axes", n.int_or("noop_with_empty_axes", 0) != 0)
        .build();
    if !after.is_empty() {
        y = b.node(after).name(if wide { "" } else { n.name.as_str() }).input(y).build();
    }
    if wide {
        y = back(n, b, y)?.name(&n.name).build();
    }
    Ok(vec![y])
}
/// With `noop_with_empty_axes` and no axes, nothing is reduced; this is expressed as an empty list
/// of axes.
fn with_axes(n: &ForeignNode, b: &mut GraphBuilder<'_>, before: &str, op: &str, after: &str) -> Outs {
    if n.attrs.ints("axes").is_none() && n.opt_input(1).is_none() && n.int_or("noop_with_empty_axes", 0) != 0 {
        let mut m = n.clone();
        let empty = b.ints("axes", &[]);
        while m.inputs.len() < 2 {
            m.inputs.push(ValueRef::ABSENT);
        }
        m.inputs[1] = empty;
        return reduce(&m, b, before, op, after);
    }
    reduce(n, b, before, op, after)
}
macro_rules! reductions {
    ($($f:ident $name:literal: $before:literal $op:literal $after:literal;)+) => {$(
        fn $f(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
            with_axes(n, b, $before, $op, $after)
        }
        map_op!("onnx", "ai.onnx", $name, 1..=u32::MAX, $f);
    )+};
}
reductions! {
    sum "ReduceSum": "" "ReduceSum" "";
    mean "ReduceMean": "" "ReduceMean" "";
    max "ReduceMax": "" "ReduceMax" "";
    min "ReduceMin": "" "ReduceMin" "";
    prod "ReduceProd": "" "ReduceProd" "";
    l1 "ReduceL1": "Abs" "ReduceSum" "";
    l2 "ReduceL2": "Square" "ReduceSum" "Sqrt";
    log_sum "ReduceLogSum": "" "ReduceSum" "Log";
    log_sum_exp "ReduceLogSumExp": "" "ReduceLogSumExp" "";
    sum_square "ReduceSumSquare": "Square" "ReduceSum" "";
}

fn arg(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let op = if n.op == "ArgMax" { "ArgMaxD" } else { "ArgMinD" };
    let y = b
        .node(op)
        .name(&n.name)
        .input(n.input(0)?)
        .attr("dimension", n.int_or("axis", 0))
        .attr("dtype", DType::I64)
        .attr("keep_dims", n.int_or("keepdims", 1) != 0)
        .attr("select_last_index", n.int_or("select_last_index", 0) != 0)
        .build();
    Ok(vec![y])
}
map_op!("onnx", "ai.onnx", "ArgMax", 1..=u32::MAX, arg);
map_op!("onnx", "ai.onnx", "ArgMin", 1..=u32::MAX, arg);

fn top_k(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let k = match n.attrs.int("k") {
        Some(k) => b.ints("k", &[k]),
        None => n.input(1)?,
    };
    let d = b
        .node("TopKV2")
        .name(&n.name)
        .input(n.input(0)?)
        .input(k)
        .attr("dim", n.int_or("axis", -1))
        .attr("largest", n.int_or("largest", 1) != 0)
        .attr("sorted", n.int_or("sorted", 1) != 0)
        .attr("indices_dtype", DType::I64);
    Ok(d.build_n(2))
}
map_op!("onnx", "ai.onnx", "TopK", 1..=u32::MAX, top_k);
