//! `Softmax`, `LogSoftmax`, `Hardmax` before opset 13, `SoftmaxCrossEntropyLoss`,
//! `LayerNormalization`, `BatchNormalization`, `Dropout`.
use super::{Outs, rank};
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::map_op;
use ge_plugin_api::types::{ConstTensor, DType};

fn soft_name(n: &ForeignNode) -> &'static str {
    match n.op.as_str() {
        "Softmax" => "SoftmaxV2",
        "LogSoftmax" => "LogSoftmaxV2",
        _ => "Hardmax",
    }
}
fn soft_node(n: &ForeignNode, b: &mut GraphBuilder<'_>, axis: i64) -> Outs {
    let d = b.node(soft_name(n)).name(&n.name).input(n.input(0)?);
    Ok(vec![if soft_name(n) == "Hardmax" { d.attr("axis", axis) } else { d.attr("axes", vec![axis]) }.build()])
}
fn softmax(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    soft_node(n, b, n.int_or("axis", -1))
}
map_op!("onnx", "ai.onnx", "Softmax", 13..=u32::MAX, softmax);
map_op!("onnx", "ai.onnx", "LogSoftmax", 13..=u32::MAX, softmax);

/// Before opset 13: over all axes from `axis` on, merged into one.
fn coerced(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let axis = n.int_or("axis", 1);
    let last = axis == -1 || rank(n, 0).is_some_and(|r| axis == r as i64 - 1);
    if last {
        return soft_node(n, b, -1);
    }
    let x = n.input(0)?;
    let flat = b.node("Flatten").input(x).attr("axis", axis).build();
    let d = b.node(soft_name(n)).input(flat);
    let y = if soft_name(n) == "Hardmax" { d.attr("axis", -1i64) } else { d.attr("axes", vec![-1i64]) }.build();
    let shape = b.node("Shape").input(x).build();
    // The shape is that of x: a zero is a size of zero and must not be taken for "copy this size".
    Ok(vec![b.node("Reshape").name(&n.name).input(y).input(shape).attr("allowzero", 1i64).build()])
}
map_op!("onnx", "ai.onnx", "Softmax", 1..=12, coerced);
map_op!("onnx", "ai.onnx", "LogSoftmax", 1..=12, coerced);
map_op!("onnx", "ai.onnx", "Hardmax", 1..=12, coerced);

/// The loss of the logarithms of a softmax over the classes, which the fast engines compute.
fn cross_entropy(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let log = b.node("LogSoftmaxV2").input(n.input(0)?).attr("axes", vec![1i64]).build();
    let loss = b.node("NegativeLogLikelihoodLoss").name(&n.name).input(log).input(n.input(1)?);
    let loss = loss.opt_input(n.opt_input(2)).attr("reduction", n.str_or("reduction", "mean"));
    let loss = match n.attrs.int("ignore_index") {
        Some(ignored) => loss.attr("ignore_index", ignored),
        None => loss,
    };
    Ok([loss.build(), log].into_iter().take(n.output_count()).collect())
}
map_op!("onnx", "ai.onnx", "SoftmaxCrossEntropyLoss", 12..=u32::MAX, cross_entropy);

/// Mean and deviation have the type `stash_type` (default f32), whatever the type of x.
fn layer_norm(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let axis = n.int_or("axis", -1);
    let stash = match n.int_or("stash_type", 1) {
        1 => DType::F32,
        16 => DType::BF16,
        10 => DType::F16,
        11 => DType::F64,
        other => return Err(n.refuse(format!("stash_type {other}"))),
    };
    let mut v = b
        .node("LayerNormV3")
        .name(&n.name)
        .input(n.input(0)?)
        .input(n.input(1)?)
        .opt_input(n.opt_input(2))
        .attr("begin_norm_axis", axis)
        .attr("begin_params_axis", axis)
        .attr("epsilon", n.float_or("epsilon", 1e-5))
        .build_n(3);
    // The operator's own statistics are f64 for f64 inputs and f32 for all others.
    let own = match n.desc(0).map(|d| d.dtype) {
        Some(DType::F16 | DType::BF16 | DType::F32) => Some(DType::F32),
        Some(DType::F64) => Some(DType::F64),
        _ => None,
    };
    if n.output_count() > 1 && own != Some(stash) {
        for s in &mut v[1..] {
            *s = b.node("Cast").input(*s).attr("dst_type", stash).build();
        }
    }
    Ok(v)
}
// onnxruntime has the operator in all opsets; its optimiser writes it into models of old ones.
map_op!("onnx", "ai.onnx", "LayerNormalization", 1..=u32::MAX, layer_norm);

/// Batch normalisation with statistics for each place (`spatial = 0`, before opset 9): scale,
/// shift, mean and variance have the shape of one item of the batch.
pub(super) fn norm_by_place(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    if n.output_count() > 1 {
        return Err(n.refuse("training with statistics for each place (spatial = 0)"));
    }
    let moved = b.node("Sub").input(n.input(0)?).input(n.input(3)?).build();
    let variance = b.node("Adds").input(n.input(4)?).attr("value", n.float_or("epsilon", 1e-5)).build();
    let deviation = b.node("Sqrt").input(variance).build();
    let even = b.node("Div").input(moved).input(deviation).build();
    let scaled = b.node("Mul").input(even).input(n.input(1)?).build();
    Ok(vec![b.node("Add").name(&n.name).input(scaled).input(n.input(2)?).build()])
}

fn batch_norm(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let eps = n.float_or("epsilon", 1e-5);
    if n.int_or("spatial", 1) == 0 {
        return norm_by_place(n, b);
    }
    if n.int_or("training_mode", 0) != 0 {
        let d = b.node("BatchNorm").name(&n.name).inputs(&n.inputs).attr("epsilon", eps);
        return Ok(d.attr("momentum", n.float_or("momentum", 0.9)).attr("is_training", true).build_n(3));
    }
    if n.output_count() > 1 {
        return Err(n.refuse("outputs of training without training_mode"));
    }
    Ok(vec![b.node("BNInfer").name(&n.name).inputs(&n.inputs).attr("epsilon", eps).build()])
}
map_op!("onnx", "ai.onnx", "BatchNormalization", 7..=u32::MAX, batch_norm);

/// In inference, or with a ratio of zero, the data passes unchanged and the mask is all true.
fn dropout(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let x = n.input(0)?;
    let number = |i: usize| n.constant(i).and_then(|t| t.to_f64(1)).and_then(|v| v.first().copied());
    let training = match n.opt_input(2) {
        Some(_) => number(2).is_none_or(|v| v != 0.0),
        None => false,
    };
    let ratio = if n.opt_input(1).is_some() { number(1) } else { Some(0.5) };
    if training && ratio != Some(0.0) {
        let d = b.node("DropoutV3").name(&n.name).inputs(&n.inputs);
        let d = match n.attrs.int("seed") {
            Some(s) => d.attr("seed", s),
            None => d,
        };
        return Ok(d.build_n(2));
    }
    let mut out = vec![b.node("Identity").name(&n.name).input(x).build()];
    if n.output_count() > 1 {
        let shape = b.node("Shape").input(x).build();
        let truth = ConstTensor::of(&[], &[true]).ok_or_else(|| n.refuse("no constant"))?;
        let one = b.made_constant("true", truth);
        let mask = b.node("Fill").input(shape).input(one).build();
        // Before opset 10, the mask has the type of the data.
        out.push(match n.version {
            ..=9 => b.node("CastLike").input(mask).input(x).build(),
            _ => mask,
        });
    }
    Ok(out)
}
map_op!("onnx", "ai.onnx", "Dropout", 7..=u32::MAX, dropout);
