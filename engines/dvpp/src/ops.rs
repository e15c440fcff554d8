//! Prototypes of the operators that this engine adds besides decoding, and their ONNX form (domain
//! `ge.image`, with the same names, inputs and attributes).
//!
//! * `ResizeImage(x u8[H,W,C]) {height, width, interpolation = bilinear|nearest}`: half-pixel
//!   centres, rounded to nearest.
//! * `CropImage(x u8[H,W,C]) {top, left, height, width}`: the rectangle must be within the picture.
//! * `ConvertImage(x u8[H,W,C]) {from = RGB, to = RGB}`: RGB, BGR, Grayscale, YUV, NV12
//!   (`[3H/2,W,1]`), by BT.601 in full range.
use crate::pixels::Colour;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef};
use ge_plugin_api::types::{DType, Shape, TensorDesc, ValueRef};
use ge_plugin_api::{Diagnostic, Error, ErrorKind, Result};

/// Operator that resizes a picture.
pub const RESIZE: &str = "ResizeImage";
/// Operator that cuts a rectangle out of a picture.
pub const CROP: &str = "CropImage";
/// Operator that converts a picture's colours.
pub const CONVERT: &str = "ConvertImage";

/// A required attribute that counts rows or pixels. Fails if it is missing or negative.
pub fn count(attr: Option<i64>, key: &str) -> std::result::Result<u64, String> {
    let n = attr.ok_or_else(|| format!("attribute `{key}` is missing"))?;
    u64::try_from(n).map_err(|_| format!("attribute `{key}` is {n}, expected 0 or more"))
}

/// A colour attribute; RGB if it is not given. Fails if the name is unknown.
pub fn colour(attr: Option<&str>, key: &str) -> std::result::Result<Colour, String> {
    let name = attr.unwrap_or("RGB");
    Colour::parse(name).ok_or_else(|| format!("attribute `{key}` is `{name}`, it takes {}", Colour::ALL.join(", ")))
}

/// The three sizes of a picture's shape. Fails if the rank is not 3.
pub fn sizes(shape: &[u64]) -> std::result::Result<[u64; 3], String> {
    shape.try_into().map_err(|_| format!("input 0 has shape {shape:?}, expected [H,W,C]"))
}

/// The output shape of an operator for a picture of shape `x`.
///
/// # Errors
/// Returns a message if an attribute is missing or wrong, or the picture does not fit.
pub fn made<'a>(
    op: &str,
    x: [u64; 3],
    int: impl Fn(&str) -> Option<i64>,
    text: impl Fn(&str) -> Option<&'a str>,
) -> std::result::Result<[u64; 3], String> {
    let number = |key: &str| count(int(key), key);
    match op {
        RESIZE => {
            let (h, w) = (number("height")?, number("width")?);
            match text("interpolation").unwrap_or("bilinear") {
                "bilinear" | "nearest" if x[0] > 0 && x[1] > 0 && h > 0 && w > 0 => Ok([h, w, x[2]]),
                "bilinear" | "nearest" => Err(format!("a picture without pixels: {x:?} to {h} by {w}")),
                other => Err(format!("attribute `interpolation` is `{other}`, it takes bilinear, nearest")),
            }
        }
        CROP => {
            let (top, left, h, w) = (number("top")?, number("left")?, number("height")?, number("width")?);
            let within = |begin: u64, n: u64, all: u64| begin.checked_add(n).is_some_and(|e| e <= all);
            if within(top, h, x[0]) && within(left, w, x[1]) {
                Ok([h, w, x[2]])
            } else {
                Err(format!("{h} by {w} at ({top}, {left}) leaves the picture of {} by {}", x[0], x[1]))
            }
        }
        _ => {
            let (from, to) = (colour(text("from"), "from")?, colour(text("to"), "to")?);
            let (h, w) = from.sides(x).ok_or_else(|| format!("input 0 has shape {x:?}, which is no {from} picture"))?;
            to.shape(h, w).ok_or_else(|| format!("a picture of {h} by {w} has no {to} form: its sides are odd"))
        }
    }
}

fn infer(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let x = c.input(0)?;
    if x.dtype != DType::U8 && x.dtype != DType::UNKNOWN {
        return Err(Error::unsupported(format!("input 0 is {}, expected u8", x.dtype)));
    }
    let Some(shape) = x.shape.sizes() else { return Ok(vec![TensorDesc::new(DType::U8, Shape::unranked())]) };
    let y = sizes(&shape).and_then(|s| made(c.node.op(), s, |k| c.node.int(k), |k| c.node.str(k)));
    let y = y.map_err(|why| Diagnostic::error(why).node(c.node.name(), c.node.op()).of(ErrorKind::UNSUPPORTED))?;
    Ok(vec![TensorDesc::new(DType::U8, Shape::from_i64(&y.map(|n| n as i64)))])
}

fn defs() -> Vec<OpDef> {
    let (i, s) = (AttrKind::INT, AttrKind::STRING);
    let picture = |name: &str| OpDef::new(name, infer).input("x", &[DType::U8], "").output("y", &[DType::U8], "");
    vec![
        picture(RESIZE)
            .required_attr("height", i)
            .required_attr("width", i)
            .attr("interpolation", s, "bilinear")
            .choices(&["bilinear", "nearest"]),
        picture(CROP)
            .required_attr("top", i)
            .required_attr("left", i)
            .required_attr("height", i)
            .required_attr("width", i),
        picture(CONVERT).attr("from", s, "RGB").choices(&Colour::ALL).attr("to", s, "RGB").choices(&Colour::ALL),
    ]
}
ge_plugin_api::register_ops!(defs);

fn map(op: &str, n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Result<Vec<ValueRef>> {
    let mut d = b.node(op).name(&n.name).input(n.input(0)?);
    for key in ["top", "left", "height", "width"] {
        if let Some(v) = n.attrs.int(key) {
            d = d.attr(key, v);
        }
    }
    for key in ["interpolation", "from", "to"] {
        if let Some(v) = n.attrs.str(key) {
            d = d.attr(key, v);
        }
    }
    Ok(vec![d.build()])
}
ge_plugin_api::map_op!("onnx", "ge.image", "ResizeImage", 1..=u32::MAX, |n, b| map(RESIZE, n, b));
ge_plugin_api::map_op!("onnx", "ge.image", "CropImage", 1..=u32::MAX, |n, b| map(CROP, n, b));
ge_plugin_api::map_op!("onnx", "ge.image", "ConvertImage", 1..=u32::MAX, |n, b| map(CONVERT, n, b));
