//! `Scaler`: `(x - offset) * scale` in f32, by Sub and Mul.
use crate::shared::{Outs, list, real_input, reals};
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::map_op;
use ge_plugin_api::types::DType;

fn map(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let mut x = real_input(n, b, 0)?;
    if n.desc(0).map(|d| d.dtype) == Some(DType::F64) {
        x = b.node("Cast").input(x).attr("dst_type", DType::F32).build();
    }
    let f32s = |v: Option<Vec<f64>>, d: f32| v.map_or(vec![d], |v| v.into_iter().map(|v| v as f32).collect());
    let offset = list(b, "offset", &f32s(reals(n, "offset"), 0.0));
    let scale = list(b, "scale", &f32s(reals(n, "scale"), 1.0));
    let moved = b.node("Sub").input(x).input(offset).build();
    Ok(vec![b.node("Mul").name(&n.name).input(moved).input(scale).build()])
}
map_op!("onnx", "ai.onnx.ml", "Scaler", 1..=u32::MAX, map);
