//! `Slice`, `Gather`, `Concat`, `Split`.
use super::{Outs, scalar};
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::map_op;

/// Slice with starts, ends, axes and steps as inputs.
pub(super) fn slice(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let d = b.node("StridedSliceV2").name(&n.name).input(n.input(0)?).input(n.input(1)?).input(n.input(2)?);
    Ok(vec![d.opt_input(n.opt_input(3)).opt_input(n.opt_input(4)).build()])
}
fn slice_attrs(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let (Some(s), Some(e)) = (n.attrs.ints("starts"), n.attrs.ints("ends")) else {
        return Err(n.refuse("attributes `starts` and `ends` are missing"));
    };
    let (s, e) = (b.ints("starts", s), b.ints("ends", e));
    let axes = n.attrs.ints("axes").map(|a| b.ints("axes", a));
    Ok(vec![b.node("StridedSliceV2").name(&n.name).input(n.input(0)?).input(s).input(e).opt_input(axes).build()])
}
map_op!("onnx", "ai.onnx", "Slice", 10..=u32::MAX, slice);
map_op!("onnx", "ai.onnx", "Slice", 1..=9, slice_attrs);

fn gather(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let axis = scalar(b, "axis", n.int_or("axis", 0));
    Ok(vec![b.node("GatherV2").name(&n.name).input(n.input(0)?).input(n.input(1)?).input(axis).build()])
}
map_op!("onnx", "ai.onnx", "Gather", 1..=u32::MAX, gather);

fn concat(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let axis = n.attrs.int("axis").unwrap_or(1);
    Ok(vec![
        b.node("ConcatD")
            .name(&n.name)
            .inputs(&n.inputs)
            .attr("concat_dim", axis)
            .attr("N", n.inputs.len() as i64)
            .build(),
    ])
}
map_op!("onnx", "ai.onnx", "Concat", 1..=u32::MAX, concat);

/// Equal parts become SplitD, constant sizes SplitVD, sizes computed at run time SplitV.
pub fn split(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let (x, axis) = (n.input(0)?, n.int_or("axis", 0));
    let count = n.output_names.len();
    if n.attrs.int("num_outputs").is_some_and(|k| k != count as i64) {
        return Err(n.refuse(format!("num_outputs is {}, but it has {count} outputs", n.int_or("num_outputs", 0))));
    }
    let sizes = n.attrs.ints("split").map(<[i64]>::to_vec).or_else(|| n.constant(1).and_then(|t| t.to_i64(65_536)));
    let count_attr = count as i64;
    Ok(match (sizes, n.opt_input(1)) {
        (Some(v), _) if v.windows(2).all(|w| w[0] == w[1]) && v.len() == count && !v.is_empty() => {
            b.node("SplitD").name(&n.name).input(x).attr("split_dim", axis).attr("num_split", count_attr).build_n(count)
        }
        (Some(v), _) => b
            .node("SplitVD")
            .name(&n.name)
            .input(x)
            .attr("size_splits", v)
            .attr("split_dim", axis)
            .attr("num_split", count_attr)
            .build_n(count),
        (None, Some(s)) => {
            let a = b.ints("axis", &[axis]);
            b.node("SplitV").name(&n.name).input(x).input(s).input(a).attr("num_split", count_attr).build_n(count)
        }
        (None, None) => {
            b.node("SplitD").name(&n.name).input(x).attr("split_dim", axis).attr("num_split", count_attr).build_n(count)
        }
    })
}
map_op!("onnx", "ai.onnx", "Split", 2..=u32::MAX, split);
