//! `CausalConvWithState`: concatenates the past and the input, applies a convolution to each
//! channel separately, and returns the end of the concatenation as the past for the next call.
use super::{Outs, paired};
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::map_op;
use ge_plugin_api::types::ValueRef;

fn causal(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let size = |i: usize, axis: usize| {
        let d = n.desc(i)?.shape.dims().get(axis)?.size()?;
        i64::try_from(d).ok()
    };
    let (Some(channels), Some(k)) = (size(1, 0).or(size(0, 1)), size(1, 2).filter(|k| *k > 0)) else {
        return Err(n.refuse("the sizes of its weight are not known when the model is read"));
    };
    let x = n.input(0)?;
    let joined = match n.opt_input(3) {
        Some(past) => b.node("ConcatD").input(past).input(x).attr("concat_dim", 2i64).attr("N", 2i64).build(),
        None if k > 1 => b.node("PadD").input(x).attr("paddings", paired(n, &[0, 0, k - 1, 0, 0, 0])?).build(),
        None => x,
    };
    let high = |b: &mut GraphBuilder<'_>, v: ValueRef| b.node("Unsqueeze").input(v).attr("axes", vec![2i64]).build();
    let (wide, weight) = (high(b, joined), high(b, n.input(1)?));
    let y = b
        .node("Conv2D")
        .input(wide)
        .input(weight)
        .opt_input(n.opt_input(2))
        .attr("strides", vec![1i64; 4])
        .attr("pads", vec![0i64; 4])
        .attr("dilations", vec![1i64; 4])
        .attr("groups", channels)
        .attr("data_format", "NCHW")
        .build();
    let swish = match n.str_or("activation", "none") {
        "none" => false,
        "silu" | "swish" => true,
        other => return Err(n.refuse(format!("activation `{other}`; none, silu and swish are taken"))),
    };
    let flat = b.node("Squeeze").name(if swish { "" } else { &n.name }).input(y).attr("axis", vec![2i64]).build();
    let y = if swish { b.node("Swish").name(&n.name).input(flat).attr("scale", 1.0).build() } else { flat };
    if n.output_count() < 2 {
        return Ok(vec![y]);
    }
    // The last k - 1 positions; none for a kernel of size one.
    let from = if k > 1 { 1 - k } else { i64::MAX };
    let (from, to, axis) = (b.ints("from", &[from]), b.ints("to", &[i64::MAX]), b.ints("axis", &[2]));
    Ok(vec![y, b.node("StridedSliceV2").input(joined).input(from).input(to).input(axis).build()])
}
map_op!("onnx", "ai.onnx", "CausalConvWithState", 27..=u32::MAX, causal);
