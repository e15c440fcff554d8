//! `CausalConvWithState`: concatenates the past and the input, applies a convolution to each
//! channel separately, and returns the end of the concatenation as the past for the next call.
use super::{Outs, paired};
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::map_op;
use ge_plugin_api::types::{DType, ValueRef};

/// The size of an axis of an input, if the import knows it.
fn size(n: &ForeignNode, i: usize, axis: usize) -> Option<i64> {
    let d = n.desc(i)?.shape.dims().get(axis)?.size()?;
    i64::try_from(d).ok()
}

/// The size of an axis as a value `[1]`.
fn size_of(b: &mut GraphBuilder<'_>, v: ValueRef, axis: i64) -> ValueRef {
    b.node("Shape").input(v).attr("dtype", DType::I64).attr("start", axis).attr("end", axis + 1).build()
}

/// The input behind the positions that precede it: those of the past, or zeros.
fn behind_past(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Result<ValueRef> {
    let x = n.input(0)?;
    Ok(match (n.opt_input(3), size(n, 1, 2)) {
        (Some(past), _) => b.node("ConcatD").input(past).input(x).attr("concat_dim", 2i64).attr("N", 2i64).build(),
        (None, Some(1)) => x,
        (None, Some(k)) => b.node("PadD").input(x).attr("paddings", paired(n, &[0, 0, k - 1, 0, 0, 0])?).build(),
        (None, None) => {
            let (k, one) = (size_of(b, n.input(1)?, 2), b.ints("one", &[1]));
            let zeros = b.node("Sub").input(k).input(one).build();
            let (before, after) = (b.ints("before", &[0, 0]), b.ints("after", &[0, 0, 0]));
            let parts = [before, zeros, after];
            let pads = b.node("ConcatD").inputs(&parts).attr("concat_dim", 0i64).attr("N", 3i64).build();
            b.node("PadV3").input(x).input(pads).attr("paddings_contiguous", false).build()
        }
    })
}

fn causal(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    if size(n, 1, 2) == Some(0) {
        return Err(n.refuse("its weight has no elements"));
    }
    let x = n.input(0)?;
    let joined = behind_past(n, b)?;
    let high = |b: &mut GraphBuilder<'_>, v: ValueRef| b.node("Unsqueeze").input(v).attr("axes", vec![2i64]).build();
    let (wide, weight) = (high(b, joined), high(b, n.input(1)?));
    // `DepthwiseConv2D` has as many groups as channels, whose number need not be known.
    let channels = size(n, 1, 0).or(size(n, 0, 1));
    let conv = b.node(if channels.is_some() { "Conv2D" } else { "DepthwiseConv2D" });
    let conv = match channels {
        Some(c) => conv.attr("groups", c),
        None => conv,
    };
    let y = conv
        .input(wide)
        .input(weight)
        .opt_input(n.opt_input(2))
        .attr("strides", vec![1i64; 4])
        .attr("pads", vec![0i64; 4])
        .attr("dilations", vec![1i64; 4])
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
    // The last k - 1 positions, of which a kernel of size one has none. As many positions as the
    // input has lie before them.
    let from = match size(n, 1, 2) {
        Some(1) => b.ints("from", &[i64::MAX]),
        Some(k) => b.ints("from", &[1 - k]),
        None => size_of(b, x, 2),
    };
    let (to, axis) = (b.ints("to", &[i64::MAX]), b.ints("axis", &[2]));
    Ok(vec![y, b.node("StridedSliceV2").input(joined).input(from).input(to).input(axis).build()])
}
map_op!("onnx", "ai.onnx", "CausalConvWithState", 27..=u32::MAX, causal);
