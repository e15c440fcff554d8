//! `Scaler`: `(x - offset) * scale`, by Sub and Mul. Features of f64 are scaled in f64 and then
//! become f32; all others are scaled in f32.
use crate::shared::{Outs, known_type, list, reals};
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::map_op;
use ge_plugin_api::types::{DType, ValueRef};

/// A list constant in `wide`, which is f64 or f32.
fn constant(b: &mut GraphBuilder<'_>, name: &str, v: &[f64], wide: DType) -> ValueRef {
    match wide {
        DType::F64 => list(b, name, v),
        _ => list(b, name, &v.iter().map(|v| *v as f32).collect::<Vec<_>>()),
    }
}

fn map(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let known = known_type(n);
    // f64 holds features of every type.
    let wide = match known {
        Some(DType::F64) | None => DType::F64,
        Some(_) => DType::F32,
    };
    let mut x = n.input(0)?;
    if known != Some(wide) {
        x = b.node("Cast").input(x).attr("dst_type", wide).build();
    }
    let offset = constant(b, "offset", &reals(n, "offset").unwrap_or_else(|| vec![0.0]), wide);
    let scale = constant(b, "scale", &reals(n, "scale").unwrap_or_else(|| vec![1.0]), wide);
    let moved = b.node("Sub").input(x).input(offset).build();
    let scaled = b.node("Mul").input(moved).input(scale);
    Ok(vec![match wide {
        DType::F32 => scaled.name(&n.name).build(),
        _ => {
            let scaled = scaled.build();
            b.node("Cast").name(&n.name).input(scaled).attr("dst_type", DType::F32).build()
        }
    }])
}
map_op!("onnx", "ai.onnx.ml", "Scaler", 1..=u32::MAX, map);
