//! `QLinearAdd`, `QLinearMul`, `QLinearSigmoid`, `QLinearLeakyRelu`, `QLinearGlobalAveragePool`,
//! `QLinearAveragePool`, `QLinearConcat`, `QLinearSoftmax`, `QLinearWhere`, `QLinearReduceMean`,
//! and `QuantizeLinear` and `DequantizeLinear` of this domain: the operator on real numbers between
//! DequantizeLinear and QuantizeLinear, which the engines' own fusions can then absorb.
//! `QLinearConv`: that of `ai.onnx`, for images with channels last.
use crate::declare::{ANY, ort_op};
use crate::shared::{self, Outs, apply, channel_orders, rank, transposed};
use ge_plugin_api::Result;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::types::{DType, ValueRef};

/// The dequantised input `i`, whose scale and zero point are the next two inputs.
fn real(n: &ForeignNode, b: &mut GraphBuilder<'_>, i: usize) -> Result<ValueRef> {
    let d = b.node("DequantizeLinear").input(n.input(i)?).input(n.input(i + 1)?).opt_input(n.opt_input(i + 2));
    Ok(d.build())
}

/// Quantises real numbers with the scale at input `i` and the zero point after it, under the
/// foreign node's name. Without a zero point, the type is that of input `like`.
fn quantised(n: &ForeignNode, b: &mut GraphBuilder<'_>, y: ValueRef, i: usize, like: usize) -> Outs {
    shared::quantised(n, b, y, (n.input(i)?, n.opt_input(i + 1)), like)
}

fn binary(n: &ForeignNode, b: &mut GraphBuilder<'_>, op: &str) -> Outs {
    let (x, y) = (real(n, b, 0)?, real(n, b, 3)?);
    let z = b.node(op).input(x).input(y).build();
    quantised(n, b, z, 6, 0)
}
ort_op!("QLinearAdd", 8, [], |n, b| binary(n, b, "Add"));
ort_op!("QLinearMul", 8, [], |n, b| binary(n, b, "Mul"));

ort_op!("QLinearSigmoid", 5, [], |n, b| {
    let x = real(n, b, 0)?;
    let y = b.node("Sigmoid").input(x).build();
    quantised(n, b, y, 3, 0)
});
ort_op!("QLinearLeakyRelu", 5, ["alpha"], |n, b| {
    let x = real(n, b, 0)?;
    let y = b.node("LeakyRelu").input(x).attr("negative_slope", n.float_or("alpha", 0.01)).build();
    quantised(n, b, y, 3, 0)
});

/// Softmax over one axis or, before opset 13, over all axes from `axis` on, merged into one.
fn softmax(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let axis = n.int_or("axis", -1);
    let x = real(n, b, 0)?;
    let last = axis == -1 || rank(n, 0).is_some_and(|r| axis == r as i64 - 1);
    let over = |b: &mut GraphBuilder<'_>, x: ValueRef, axis: i64| {
        b.node("SoftmaxV2").input(x).attr("axes", vec![axis]).build()
    };
    let y = if n.int_or("opset", 13) >= 13 || last {
        over(b, x, axis)
    } else {
        let merged = b.node("Flatten").input(x).attr("axis", axis).build();
        let (y, shape) = (over(b, merged, -1), apply(b, "Shape", &[x]));
        // The shape is that of x: a zero is a size of zero.
        b.node("Reshape").input(y).input(shape).attr("allowzero", 1i64).build()
    };
    quantised(n, b, y, 3, 0)
}
ort_op!("QLinearSoftmax", 5, ["axis", "opset"], softmax);

/// The permutation from channels last to channels first, and its inverse. If the rank is unknown,
/// it follows from the window.
fn channels_first(n: &ForeignNode) -> Result<(Vec<i64>, Vec<i64>)> {
    let r = rank(n, 0).or_else(|| n.attrs.ints("kernel_shape").map(|k| k.len() + 2));
    let r = r.ok_or_else(|| n.refuse("the rank of input 0 must be known where channels stand last"))?;
    Ok(channel_orders(r as i64))
}

/// Applies an operator to images, which may have channels last.
fn on_image(
    n: &ForeignNode,
    b: &mut GraphBuilder<'_>,
    make: impl FnOnce(&mut GraphBuilder<'_>, ValueRef) -> Result<ValueRef>,
) -> Outs {
    let x = real(n, b, 0)?;
    let y = if n.int_or("channels_last", 0) == 0 {
        make(b, x)?
    } else {
        let (to, back) = channels_first(n)?;
        let x = transposed(b, x, &to);
        let y = make(b, x)?;
        transposed(b, y, &back)
    };
    quantised(n, b, y, 3, 0)
}
ort_op!("QLinearGlobalAveragePool", 5, ["channels_last"], |n, b| {
    on_image(n, b, |b, x| Ok(b.node("GlobalAveragePool").input(x).build()))
});
ort_op!(
    "QLinearAveragePool",
    5,
    ["auto_pad", "ceil_mode", "channels_last", "count_include_pad", "kernel_shape", "pads", "strides"],
    |n, b| {
        let window = crate::nhwc_max_pool::Window::of(n)?;
        on_image(n, b, |b, x| {
            let exclusive = n.int_or("count_include_pad", 0) == 0;
            Ok(window.node(b, "AvgPoolV2", x).attr("exclusive", exclusive).build())
        })
    }
);

/// The operator of `ai.onnx`. Images may have channels last; filters then have them right after the
/// output channels.
fn conv(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let last = n.int_or("channels_last", 0) != 0;
    let mut inputs = n.inputs.to_vec();
    let (to, back) = if last { channels_first(n)? } else { Default::default() };
    if last {
        inputs[0] = transposed(b, n.input(0)?, &to);
    }
    let mut d = b.node("QLinearConv").name(if last { "" } else { &n.name }).inputs(&inputs);
    for key in ["dilations", "kernel_shape", "pads", "strides"] {
        if let Some(v) = n.attrs.ints(key) {
            d = d.attr(key, v.to_vec());
        }
    }
    let y = d.attr("group", n.int_or("group", 1)).attr("auto_pad", n.str_or("auto_pad", "NOTSET")).build();
    Ok(vec![if last { b.node("TransposeD").name(&n.name).input(y).attr("perm", back).build() } else { y }])
}
ort_op!("QLinearConv", 9, ["auto_pad", "channels_last", "dilations", "group", "kernel_shape", "pads", "strides"], conv);

/// Inputs: `Y_scale, Y_zero_point`, then tensor, scale and zero point of each part.
fn concat(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    if n.inputs.len() < 5 || !(n.inputs.len() - 2).is_multiple_of(3) {
        return Err(n.refuse(format!("it has {} inputs; expected 2 and 3 for each part", n.inputs.len())));
    }
    let axis = n.attrs.int("axis").ok_or_else(|| n.refuse("attribute `axis` is missing"))?;
    let parts = (2..n.inputs.len()).step_by(3).map(|i| real(n, b, i)).collect::<Result<Vec<_>>>()?;
    let joined = b.node("ConcatD").inputs(&parts).attr("concat_dim", axis).attr("N", parts.len() as i64).build();
    quantised(n, b, joined, 0, 2)
}
ort_op!("QLinearConcat", ANY, ["axis"], concat);

ort_op!("QLinearWhere", 9, [], |n, b| {
    let (x, y) = (real(n, b, 1)?, real(n, b, 4)?);
    let z = b.node("SelectV2").input(n.input(0)?).input(x).input(y).build();
    quantised(n, b, z, 7, 1)
});

ort_op!("QLinearReduceMean", 5, ["axes", "keepdims"], |n, b| {
    let x = real(n, b, 0)?;
    let axes = n.attrs.ints("axes").map(|a| b.ints("axes", a));
    let y = b.node("ReduceMean").input(x).opt_input(axes).attr("keep_dims", n.int_or("keepdims", 1) != 0).build();
    quantised(n, b, y, 3, 0)
});

/// The operator of the same name in `ai.onnx`; this domain supported more types earlier.
fn same(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    // With a single scale, the axis has no meaning, and it may exceed the tensor's rank.
    let mut d = b.node(&n.op).name(&n.name).inputs(&n.inputs).attr("axis", n.int_or("axis", 1));
    d = d.attr("block_size", n.int_or("block_size", 0));
    if n.op == "QuantizeLinear" && n.opt_input(2).is_none() {
        d = d.attr("output_dtype", DType::U8);
    }
    Ok(vec![d.build()])
}
ort_op!("QuantizeLinear", 3, ["axis", "block_size"], same);
ort_op!("DequantizeLinear", 3, ["axis", "block_size"], same);
