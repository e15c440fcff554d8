//! Quantisation with ONNX's names and semantics.
//!
//! * `QuantizeLinear(x, y_scale, y_zero_point?) {axis = 1, block_size = 0, output_dtype, saturate = true, precision}`:
//!   y = saturate(round_half_even(x / scale) + zero). The type of y is the zero point's, or else
//!   `output_dtype`, or else u8. The quotient is rounded to the type `precision`; without it, to
//!   the scale's type if that is f32 or bf16, while a quotient by an f16 scale is not rounded to
//!   f16 (as in onnxruntime).
//! * `DequantizeLinear(x, x_scale, x_zero_point?) {axis = 1, block_size = 0, output_dtype}`: (x -
//!   zero)·scale in the type `output_dtype`, or else in the scale's type.
//! * `DynamicQuantizeLinear(x f32) -> y u8, y_scale f32, y_zero_point u8`: y_scale is one if all
//!   elements are zero (as in onnxruntime), or if there are none.
use crate::read::{self, bad};
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef};
use ge_plugin_api::register_ops;
use ge_plugin_api::types::dtype::{ANY, FLOATS};
use ge_plugin_api::types::{DType, Shape, TensorDesc};

/// Types that scales may have.
const SCALES: &[DType] = &[DType::F32, DType::F16, DType::BF16, DType::F64, DType::I32, DType::F8E8M0];

fn quantize(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let mut d = c.like(0)?;
    if let Some(t) = read::dtype(c, "precision").filter(|t| !FLOATS.contains(t)) {
        return Err(bad("attribute `precision`", t, "f32, f16, bf16 or f64"));
    }
    d.dtype = c.opt_input(2).map(|z| z.dtype).or_else(|| read::dtype(c, "output_dtype")).unwrap_or(DType::U8);
    Ok(vec![d])
}
fn dequantize(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let mut d = c.like(0)?;
    d.dtype = read::dtype(c, "output_dtype").unwrap_or(c.input(1)?.dtype);
    if d.dtype != DType::UNKNOWN && !FLOATS.contains(&d.dtype) {
        return Err(bad(
            "the output's type, that of `x_scale` or of `output_dtype`,",
            d.dtype,
            "f32, f16, bf16 or f64",
        ));
    }
    Ok(vec![d])
}
fn dynamic(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let mut d = c.like(0)?;
    d.dtype = DType::U8;
    Ok(vec![d, TensorDesc::new(DType::F32, Shape::scalar()), TensorDesc::new(DType::U8, Shape::scalar())])
}

fn defs() -> Vec<OpDef> {
    let attrs = |d: OpDef| {
        d.attr("axis", AttrKind::INT, 1i64)
            .attr("block_size", AttrKind::INT, 0i64)
            .opt_attr("output_dtype", AttrKind::TYPE)
    };
    vec![
        attrs(
            OpDef::new("QuantizeLinear", quantize)
                .input("x", ANY, "")
                .input("y_scale", SCALES, "")
                .opt("y_zero_point", ANY, "")
                .output("y", ANY, ""),
        )
        .attr("saturate", AttrKind::BOOL, true)
        .opt_attr("precision", AttrKind::TYPE),
        attrs(
            OpDef::new("DequantizeLinear", dequantize)
                .input("x", ANY, "")
                .input("x_scale", SCALES, "")
                .opt("x_zero_point", ANY, "")
                .output("y", FLOATS, ""),
        ),
        OpDef::new("DynamicQuantizeLinear", dynamic)
            .input("x", &[DType::F32], "")
            .output("y", &[DType::U8], "")
            .output("y_scale", &[DType::F32], "")
            .output("y_zero_point", &[DType::U8], ""),
    ]
}
register_ops!(defs);
