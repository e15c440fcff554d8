//! `Resize`, `Upsample`, `GridSample`.
use super::Outs;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::map_op;
use ge_plugin_api::types::{ConstTensor, ValueRef};

fn resize(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let mut d = b.node("Resize").name(&n.name).inputs(&n.inputs);
    for key in [
        "mode",
        "coordinate_transformation_mode",
        "nearest_mode",
        "cubic_coeff_a",
        "exclude_outside",
        "extrapolation_value",
        "antialias",
        "axes",
        "keep_aspect_ratio_policy",
    ] {
        if let Some(v) = n.attrs.get(key) {
            d = d.attr(key, v.clone());
        }
    }
    Ok(vec![d.build()])
}
map_op!("onnx", "ai.onnx", "Resize", 11..=u32::MAX, resize);

/// A `Resize` by scales with asymmetric coordinates, which are rounded this way.
fn asymmetric(
    n: &ForeignNode,
    b: &mut GraphBuilder<'_>,
    name: &str,
    (x, scales): (ValueRef, ValueRef),
    rounding: &str,
) -> ValueRef {
    let mode = match n.str_or("mode", "nearest") {
        "bilinear" | "trilinear" | "linear" => "linear",
        m => m,
    };
    let d = b.node("Resize").name(name).input(x).opt_input(None).input(scales).attr("mode", mode);
    d.attr("coordinate_transformation_mode", "asymmetric").attr("nearest_mode", rounding).build()
}
fn scales_of(n: &ForeignNode, b: &mut GraphBuilder<'_>, scales: &[f32]) -> ge_plugin_api::Result<ValueRef> {
    let t = ConstTensor::of(&[scales.len() as u64], scales);
    Ok(b.made_constant("scales", t.ok_or_else(|| n.refuse("the scales do not fit"))?))
}

/// `Resize` of opset 10 and `Upsample` by constant scales: coordinates are rounded up along axes
/// that shrink, and down along all others.
fn by_constants(n: &ForeignNode, b: &mut GraphBuilder<'_>, scales: &[f32]) -> Outs {
    let mut x = n.input(0)?;
    let shrinks = n.str_or("mode", "nearest") == "nearest" && scales.iter().any(|s| *s < 1.0);
    if shrinks {
        let less: Vec<f32> = scales.iter().map(|s| s.min(1.0)).collect();
        let last = scales.iter().all(|s| *s <= 1.0);
        let of = scales_of(n, b, &less)?;
        x = asymmetric(n, b, if last { &n.name } else { "" }, (x, of), "ceil");
        if last {
            return Ok(vec![x]);
        }
    }
    let rest: Vec<f32> = scales.iter().map(|s| if shrinks { s.max(1.0) } else { *s }).collect();
    let of = scales_of(n, b, &rest)?;
    Ok(vec![asymmetric(n, b, &n.name, (x, of), "floor")])
}
/// Like [`by_constants`], with scales that another node computes.
fn by_values(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let (x, scales) = (n.input(0)?, n.input(1)?);
    if n.str_or("mode", "nearest") != "nearest" {
        return Ok(vec![asymmetric(n, b, &n.name, (x, scales), "floor")]);
    }
    let one = super::scalar(b, "one", 1f32);
    let less = b.node("Minimum").input(scales).input(one).build();
    let more = b.node("Maximum").input(scales).input(one).build();
    let x = asymmetric(n, b, "", (x, less), "ceil");
    Ok(vec![asymmetric(n, b, &n.name, (x, more), "floor")])
}
fn given_scales(n: &ForeignNode) -> Option<Vec<f32>> {
    Some(n.constant(1)?.to_f64(64)?.into_iter().map(|v| v as f32).collect())
}
fn resize_10(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    match given_scales(n) {
        Some(s) => by_constants(n, b, &s),
        None => by_values(n, b),
    }
}
/// The scales of an `Upsample` are 1 or more.
fn upsample(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    match given_scales(n) {
        Some(s) => by_constants(n, b, &s),
        None => Ok(vec![asymmetric(n, b, &n.name, (n.input(0)?, n.input(1)?), "floor")]),
    }
}
fn attr_scales(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let s: Vec<f32> = n.attrs.floats("scales").unwrap_or(&[]).iter().map(|&v| v as f32).collect();
    by_constants(n, b, &s)
}
map_op!("onnx", "ai.onnx", "Resize", 10..=10, resize_10);
map_op!("onnx", "ai.onnx", "Upsample", 9..=u32::MAX, upsample);
map_op!("onnx", "ai.onnx", "Upsample", 7..=8, attr_scales);

fn grid_sample(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let mode = match n.str_or("mode", "linear") {
        "linear" | "bilinear" => "bilinear",
        "cubic" | "bicubic" => "bicubic",
        m => m,
    };
    let y = b
        .node("GridSample")
        .name(&n.name)
        .input(n.input(0)?)
        .input(n.input(1)?)
        .attr("interpolation_mode", mode)
        .attr("padding_mode", n.str_or("padding_mode", "zeros"))
        .attr("align_corners", n.int_or("align_corners", 0) != 0)
        .build();
    Ok(vec![y])
}
map_op!("onnx", "ai.onnx", "GridSample", 16..=u32::MAX, grid_sample);
