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

/// `Resize` of opset 10 and `Upsample`: only scales, asymmetric coordinates, rounding down.
fn scaled(n: &ForeignNode, b: &mut GraphBuilder<'_>, scales: ValueRef) -> Outs {
    let mode = match n.str_or("mode", "nearest") {
        "bilinear" | "trilinear" | "linear" => "linear",
        m => m,
    };
    let y = b
        .node("Resize")
        .name(&n.name)
        .input(n.input(0)?)
        .opt_input(None)
        .input(scales)
        .attr("mode", mode)
        .attr("coordinate_transformation_mode", "asymmetric")
        .attr("nearest_mode", "floor")
        .build();
    Ok(vec![y])
}
fn with_scales(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let s = n.input(1)?;
    scaled(n, b, s)
}
fn attr_scales(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let s: Vec<f32> = n.attrs.floats("scales").unwrap_or(&[]).iter().map(|&v| v as f32).collect();
    let t = ConstTensor::of(&[s.len() as u64], &s).ok_or_else(|| n.refuse("attribute `scales` does not fit"))?;
    let s = b.made_constant("scales", t);
    scaled(n, b, s)
}
map_op!("onnx", "ai.onnx", "Resize", 10..=10, with_scales);
map_op!("onnx", "ai.onnx", "Upsample", 9..=u32::MAX, with_scales);
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
