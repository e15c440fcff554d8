//! `MlNormalizer(x [rows, features]) {norm = "MAX" | "L1" | "L2"} -> y`: divides each row by its
//! greatest number, by the sum of its absolute values or by its Euclidean length; a row whose
//! divisor is zero stays unchanged.
use crate::rows::{Block, CHUNK, Feature, Rows};
use crate::shared::{NUMBERS, Outs};
use crate::sums::{greatest, quotients, sum_of_sizes, sum_of_squares};
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
    let mut y = ctx.alloc_output(0, &dims)?;
    let y = y.values::<f32>()?;
    match rows.dtype() {
        DType::F64 => normalized::<f64>(&rows, &norm, y),
        _ => normalized::<f32>(&rows, &norm, y),
    }
}

fn normalized<X: Feature>(x: &Rows<'_>, norm: &str, y: &mut [f32]) -> Result<()> {
    x.in_blocks(x.width, CHUNK, y, |rows: &Block<'_, X>, out| {
        for (i, out) in out.chunks_exact_mut(rows.width).enumerate() {
            let row = rows.row(i);
            let by = match norm {
                "L1" => sum_of_sizes(row),
                "L2" => sum_of_squares(row).sqrt(),
                _ => greatest(row),
            };
            quotients(row, if by == 0.0 { 1.0 } else { by }, out);
        }
        Ok(())
    })
}
register_kernel!("OnnxMlEngine", "MlNormalizer", [DType::F32, DType::F64, DType::I64, DType::I32], run);
