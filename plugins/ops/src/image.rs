//! Images and sampling grids.
//!
//! * `Resize(x, roi?, scales?, sizes?)` with ONNX's attributes:
//!   `mode` nearest|linear|cubic, `coordinate_transformation_mode`,
//!   `nearest_mode`, `cubic_coeff_a`, `exclude_outside`, `extrapolation_value`,
//!   `antialias`, `axes`, `keep_aspect_ratio_policy`.
//! * `GridSample(x, grid) {interpolation_mode = bilinear|nearest|bicubic, padding_mode = zeros|border|reflection, align_corners}`:
//!   `x [N,C,spatial...]`, `grid [N,out...,k]`; `AffineGrid(theta, size) {align_corners}`.
//! * `Col2Im(x [N,C·block,L], image_shape, block_shape) {dilations, pads, strides}` as in ONNX.
//! * `DecodeImage(contents u8[n]) {pixel_format = RGB|BGR|Grayscale} -> u8[H,W,C]`: JPEG, PNG and
//!   others.
use crate::dims;
use crate::read::{self, bad};
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef, flags::*};
use ge_plugin_api::register_ops;
use ge_plugin_api::types::dtype::{ANY, FLOATS, INDEX};
use ge_plugin_api::types::{DType, Dim, Shape, TensorDesc};

/// Fails if strings are resized in a way that computes with elements or fills in a number.
fn copies_strings(c: &InferCtx<'_>) -> Result<()> {
    let copies = read::text(c, "mode", "nearest") == "nearest"
        && read::text(c, "coordinate_transformation_mode", "half_pixel") != "tf_crop_and_resize";
    if c.input(0)?.dtype == DType::STRING && !copies {
        return Err(bad("input 0 `x`", "string", "numbers, or `mode` nearest without a crop"));
    }
    Ok(())
}
fn resize(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    copies_strings(c)?;
    let x = &c.input(0)?.shape;
    let Some(r) = x.rank() else { return read::one(c, Shape::unranked()) };
    let axes = match read::ints(c, "axes").filter(|v| !v.is_empty()) {
        Some(v) => v.iter().map(|&a| read::axis("attribute `axes`", a, r)).collect::<Result<Vec<_>>>()?,
        None => (0..r).collect::<Vec<_>>(),
    };
    let mut d = x.dims().to_vec();
    let scales = c.constant(2).and_then(|t| t.to_f64(64)).filter(|v| !v.is_empty());
    let sizes = c.const_ints(3).filter(|v| !v.is_empty());
    let by_size = c.opt_input(3).is_some_and(|s| s.shape.dims().first().is_none_or(|d| d.size() != Some(0)));
    let given = scales.as_ref().map(Vec::len).or(sizes.as_ref().map(Vec::len));
    if given.is_some_and(|n| n != axes.len()) {
        return Err(bad(
            "scales or sizes",
            format!("{} numbers", given.unwrap_or(0)),
            format!("{} numbers", axes.len()),
        ));
    }
    let policy = read::text(c, "keep_aspect_ratio_policy", "stretch");
    for (i, &a) in axes.iter().enumerate() {
        d[a] = match (&sizes, &scales, dims::size(d[a])) {
            (Some(s), _, _) if policy == "stretch" => dims::from_i64(s[i]),
            (Some(s), _, Some(n)) => {
                let ratios = axes.iter().zip(s).map(|(&a, &s)| dims::size(x.dims()[a]).map(|n| s as f64 / n as f64));
                let all: Option<Vec<f64>> = ratios.collect();
                match all {
                    Some(v) => {
                        let pick = v
                            .into_iter()
                            .reduce(if policy == "not_larger" { f64::min } else { f64::max })
                            .unwrap_or(1.0);
                        Dim::known((n as f64 * pick).round().max(0.0) as u64)
                    }
                    None => Dim::UNKNOWN,
                }
            }
            // ONNX's scales are f32; the product is computed in f32, as in ONNX's reference
            // implementation.
            (None, Some(s), Some(n)) if !by_size => {
                let v = f64::from((n as f32 * s[i] as f32).floor());
                if s[i] > 0.0 && v < 1e15 {
                    Dim::known(v as u64)
                } else {
                    return Err(bad("input 2 `scales`", s[i], "a positive scale"));
                }
            }
            _ => Dim::UNKNOWN,
        };
    }
    read::one(c, Shape::new(d))
}
fn grid_sample(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let (x, g) = (&c.input(0)?.shape, &c.input(1)?.shape);
    let (Some(r), Some(rg)) = (x.rank(), g.rank()) else { return read::one(c, Shape::unranked()) };
    if r != rg || r < 3 {
        return Err(bad("input 1 `grid`", g, format!("rank {r}, at least 3")));
    }
    let mut d = vec![x.dims()[0], x.dims()[1]];
    d.extend_from_slice(&g.dims()[1..rg - 1]);
    read::one(c, Shape::new(d))
}
fn affine_grid(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let s = match c.const_ints(1) {
        Some(v) if v.len() == 4 || v.len() == 5 => {
            let mut d = vec![dims::from_i64(v[0])];
            d.extend(v[2..].iter().map(|&n| dims::from_i64(n)));
            d.push(Dim::known(v.len() as u64 - 2));
            Shape::new(d)
        }
        Some(v) => return Err(bad("input 1 `size`", format!("{} numbers", v.len()), "4 or 5 numbers")),
        None => Shape::unranked(),
    };
    read::one(c, s)
}
fn col2im(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let x = c.input(0)?.shape.dims();
    let at = |i: usize| x.get(i).copied().unwrap_or(Dim::UNKNOWN);
    let (image, block) = (c.const_ints(1), c.const_ints(2));
    let s = match image {
        Some(v) => {
            let ch = match (dims::size(at(1)), block.map(|b| b.iter().fold(1i64, |a, b| a.saturating_mul(*b)))) {
                (Some(n), Some(b)) if b > 0 && n % b == 0 => dims::from_i64(n / b),
                (Some(n), Some(b)) => return Err(bad("input 0 `x`: channels", n, format!("a multiple of {b}"))),
                _ => Dim::UNKNOWN,
            };
            Shape::new([at(0), ch].into_iter().chain(v.iter().map(|&n| dims::from_i64(n))))
        }
        None => Shape::unranked(),
    };
    read::one(c, s)
}
fn decode(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let ch = if read::text(c, "pixel_format", "RGB") == "Grayscale" { 1 } else { 3 };
    Ok(vec![TensorDesc::new(DType::U8, Shape::new([Dim::UNKNOWN, Dim::UNKNOWN, Dim::known(ch)]))])
}

fn defs() -> Vec<OpDef> {
    let s = AttrKind::STRING;
    vec![
        OpDef::new("Resize", resize)
            .input("x", ANY, "T")
            .opt("roi", FLOATS, "")
            .opt("scales", FLOATS, "")
            .opt("sizes", INDEX, "")
            .output("y", ANY, "T")
            .attr("mode", s, "nearest")
            .choices(&["nearest", "linear", "cubic"])
            .attr("coordinate_transformation_mode", s, "half_pixel")
            .choices(&[
                "half_pixel",
                "half_pixel_symmetric",
                "pytorch_half_pixel",
                "align_corners",
                "asymmetric",
                "tf_half_pixel_for_nn",
                "tf_crop_and_resize",
            ])
            .attr("nearest_mode", s, "round_prefer_floor")
            .choices(&["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
            .attr("cubic_coeff_a", AttrKind::FLOAT, -0.75)
            .attr("exclude_outside", AttrKind::INT, 0i64)
            .attr("extrapolation_value", AttrKind::FLOAT, 0.0)
            .attr("antialias", AttrKind::INT, 0i64)
            .attr("axes", AttrKind::INTS, Vec::<i64>::new())
            .attr("keep_aspect_ratio_policy", s, "stretch")
            .choices(&["stretch", "not_larger", "not_smaller"])
            .value_inputs(&[1, 2, 3]),
        OpDef::new("GridSample", grid_sample)
            .input("x", ANY, "T")
            .input("grid", FLOATS, "")
            .output("y", ANY, "T")
            .attr("interpolation_mode", s, "bilinear")
            .choices(&["bilinear", "nearest", "bicubic"])
            .attr("padding_mode", s, "zeros")
            .choices(&["zeros", "border", "reflection"])
            .attr("align_corners", AttrKind::BOOL, false)
            .flags(wide(1)),
        OpDef::new("AffineGrid", affine_grid)
            .input("theta", FLOATS, "T")
            .input("size", INDEX, "")
            .output("y", FLOATS, "T")
            .attr("align_corners", AttrKind::BOOL, false)
            .value_inputs(&[1]),
        OpDef::new("Col2Im", col2im)
            .input("x", ANY, "T")
            .input("image_shape", INDEX, "")
            .input("block_shape", INDEX, "")
            .output("y", ANY, "T")
            .attr("dilations", AttrKind::INTS, Vec::<i64>::new())
            .attr("pads", AttrKind::INTS, Vec::<i64>::new())
            .attr("strides", AttrKind::INTS, Vec::<i64>::new())
            .value_inputs(&[1, 2]),
        OpDef::new("DecodeImage", decode)
            .input("contents", &[DType::U8], "")
            .output("image", &[DType::U8], "")
            .attr("pixel_format", s, "RGB")
            .choices(&["RGB", "BGR", "Grayscale"])
            .flags(DATA_DEPENDENT_SHAPE),
    ]
}
register_ops!(defs);
