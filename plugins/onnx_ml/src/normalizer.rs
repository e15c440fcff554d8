//! `MlNormalizer(x [rows, features]) {norm = "MAX" | "L1" | "L2"} -> y`: divides each row by its
//! greatest number, by the sum of its absolute values or by its Euclidean length; a row whose
//! divisor is zero stays unchanged.
use crate::rows::Rows;
use crate::shared::{NUMBERS, Outs};
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::kernel::KernelCtx;
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef};
use ge_plugin_api::types::{DType, TensorDesc};
use ge_plugin_api::{Result, map_op, register_kernel, register_op};

fn map(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let norm = n.str_or("norm", "MAX");
    if !["MAX", "L1", "L2"].contains(&norm) {
        return Err(n.refuse(format!("attribute `norm` is `{norm}`, expected MAX, L1 or L2")));
    }
    Ok(vec![b.node("MlNormalizer").name(&n.name).input(n.input(0)?).attr("norm", norm).build()])
}
map_op!("onnx", "ai.onnx.ml", "Normalizer", 1..=u32::MAX, map);

fn infer(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    Ok(vec![TensorDesc::new(DType::F32, c.input(0)?.shape.clone())])
}
register_op!(|| OpDef::new("MlNormalizer", infer)
    .input("x", NUMBERS, "T")
    .output("y", &[DType::F32], "")
    .attr("norm", AttrKind::STRING, "MAX")
    .choices(&["MAX", "L1", "L2"]));

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = ctx.input(0)?;
    let dims = x.dims.to_vec();
    let rows = Rows::of(x)?;
    let norm = ctx.attrs.str("norm").unwrap_or("MAX").to_owned();
    let mut all = Vec::with_capacity(rows.count * rows.width);
    let mut buffer = Vec::new();
    for i in 0..rows.count {
        let row = rows.block::<f64>(i..i + 1, &mut buffer)?.values;
        let by = match norm.as_str() {
            "L1" => row.iter().map(|v| v.abs()).sum::<f64>(),
            "L2" => row.iter().map(|v| v * v).sum::<f64>().sqrt(),
            _ => row.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        };
        all.extend(row.iter().map(|v| (if by == 0.0 { *v } else { v / by }) as f32));
    }
    ctx.alloc_output(0, &dims)?.values::<f32>()?.copy_from_slice(&all);
    Ok(())
}
register_kernel!("OnnxMlEngine", "MlNormalizer", [DType::F32, DType::F64, DType::I64, DType::I32], run);
