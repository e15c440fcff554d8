//! Operators that onnxruntime has in `ai.onnx` beside the standard: `Affine`, `Crop`,
//! `DynamicSlice`, `ImageScaler`, `ParametricSoftplus`, `Scale`, `ScaledTanh` (up to opset 9), and
//! `MeanVarianceNormalization` before opset 9.
use super::{Outs, known_type};
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::map_op;
use ge_plugin_api::types::{ConstTensor, DType, ValueRef};

/// `alpha * x + beta`
fn affine(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let scaled = b.node("Muls").input(n.input(0)?).attr("value", n.float_or("alpha", 1.0)).build();
    Ok(vec![b.node("Adds").name(&n.name).input(scaled).attr("value", n.float_or("beta", 0.0)).build()])
}
map_op!("onnx", "ai.onnx", "Affine", 1..=9, affine);

fn scale(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    Ok(vec![b.node("Muls").name(&n.name).input(n.input(0)?).attr("value", n.float_or("scale", 1.0)).build()])
}
map_op!("onnx", "ai.onnx", "Scale", 1..=9, scale);

/// An attribute that has no default.
fn needed(n: &ForeignNode, key: &str) -> Result<f64> {
    n.attrs.float(key).ok_or_else(|| n.refuse(format!("attribute `{key}` is missing")))
}

/// `alpha * f(beta * x)`
fn scaled(n: &ForeignNode, b: &mut GraphBuilder<'_>, f: &str) -> Outs {
    let (alpha, beta) = (needed(n, "alpha")?, needed(n, "beta")?);
    let inner = b.node("Muls").input(n.input(0)?).attr("value", beta).build();
    let value = b.node(f).input(inner).build();
    Ok(vec![b.node("Muls").name(&n.name).input(value).attr("value", alpha).build()])
}
map_op!("onnx", "ai.onnx", "ScaledTanh", 1..=9, |n, b| scaled(n, b, "Tanh"));
map_op!("onnx", "ai.onnx", "ParametricSoftplus", 1..=9, |n, b| scaled(n, b, "Softplus"));

/// `scale * x`, plus a bias for each channel of images `[batch, channel, height, width]`.
fn image_scaler(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let bias: Vec<f32> = n.attrs.floats("bias").unwrap_or_default().iter().map(|v| *v as f32).collect();
    let bias = ConstTensor::of(&[bias.len() as u64, 1, 1], &bias).ok_or_else(|| n.refuse("it has no bias"))?;
    let bias = b.made_constant("bias", bias);
    let bias = match known_type(n) {
        Some(DType::F32) => bias,
        _ => b.node("CastLike").input(bias).input(n.input(0)?).build(),
    };
    let scaled = b.node("Muls").input(n.input(0)?).attr("value", n.float_or("scale", 1.0)).build();
    Ok(vec![b.node("Add").name(&n.name).input(scaled).input(bias).build()])
}
map_op!("onnx", "ai.onnx", "ImageScaler", 1..=9, image_scaler);

/// Cuts `border` (left, top, right, bottom) off images; with `scale`, their height and width are
/// given in place of the lower right end.
fn crop(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let Some(&[left, top, right, bottom]) = n.attrs.ints("border") else {
        return Err(n.refuse("attribute `border` has no four numbers"));
    };
    if [left, top, right, bottom].iter().any(|v| *v < 0) {
        return Err(n.refuse("attribute `border` has a negative number"));
    }
    // A negative end counts from the end of the axis.
    let end = |border: i64| if border == 0 { i64::MAX } else { -border };
    let ends = match n.attrs.ints("scale") {
        None | Some([]) => [end(bottom), end(right)],
        Some(&[height, width]) => [top.saturating_add(height), left.saturating_add(width)],
        Some(other) => return Err(n.refuse(format!("attribute `scale` has {} numbers, expected 2", other.len()))),
    };
    let lists = [("starts", [top, left]), ("ends", ends), ("axes", [2, 3])].map(|(name, v)| b.ints(name, &v));
    Ok(vec![b.node("StridedSliceV2").name(&n.name).input(n.input(0)?).inputs(&lists).build()])
}
map_op!("onnx", "ai.onnx", "Crop", 1..=9, crop);
map_op!("onnx", "ai.onnx", "DynamicSlice", 1..=9, super::slice::slice);

/// Over batch, height and width of images, or over everything with `across_channels`.
fn mean_variance(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let axes: &[i64] = if n.int_or("across_channels", 0) != 0 { &[0, 1, 2, 3] } else { &[0, 2, 3] };
    let x = n.input(0)?;
    if n.int_or("normalize_variance", 1) != 0 {
        return Ok(vec![b.node("MVNV2").name(&n.name).input(x).attr("axes", axes.to_vec()).build()]);
    }
    let over: ValueRef = b.ints("axes", axes);
    let mean = b.node("ReduceMean").input(x).input(over).attr("keep_dims", true).build();
    Ok(vec![b.node("Sub").name(&n.name).input(x).input(mean).build()])
}
map_op!("onnx", "ai.onnx", "MeanVarianceNormalization", 1..=8, mean_variance);
