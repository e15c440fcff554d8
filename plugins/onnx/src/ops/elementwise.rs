//! `Cast`, `CastLike`, `Clip`, `Mod`, `BitShift` and the operators with any number of inputs.
use super::{Outs, known_type, like_input, type_attr};
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder, NodeBuilder};
use ge_plugin_api::map_op;
use ge_plugin_api::types::DType;

/// How a cast treats values that the new type cannot represent.
fn rounded<'b, 'a>(n: &ForeignNode, d: NodeBuilder<'b, 'a>) -> NodeBuilder<'b, 'a> {
    let d = if n.int_or("saturate", 1) == 0 { d.attr("saturate", false) } else { d };
    match n.attrs.str("round_mode") {
        Some(m) => d.attr("round_mode", m),
        None => d,
    }
}
fn cast(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let to = type_attr(n, "to")?.ok_or_else(|| n.refuse("attribute `to` is missing"))?;
    let d = b.node("Cast").name(&n.name).input(n.input(0)?).attr("dst_type", to);
    Ok(vec![rounded(n, d).build()])
}
map_op!("onnx", "ai.onnx", "Cast", 6..=u32::MAX, cast);

/// Casts to the type of the second input, if it is known; otherwise `CastLike` is left to the host.
fn cast_like(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let d = match n.desc(1).map(|d| d.dtype).filter(|t| *t != DType::UNKNOWN) {
        Some(t) => b.node("Cast").name(&n.name).input(n.input(0)?).attr("dst_type", t),
        None => b.node("CastLike").name(&n.name).input(n.input(0)?).input(n.input(1)?),
    };
    Ok(vec![rounded(n, d).build()])
}
map_op!("onnx", "ai.onnx", "CastLike", 15..=u32::MAX, cast_like);

fn swiglu(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let gate = b.node("Swish").input(n.input(0)?).attr("scale", n.float_or("alpha", 1.0)).build();
    Ok(vec![b.node("Mul").name(&n.name).input(gate).input(n.input(1)?).build()])
}
map_op!("onnx", "ai.onnx", "SwiGLU", 1..=u32::MAX, swiglu);

fn clip(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let x = n.input(0)?;
    // Bounds as attributes (the form before opset 11) in a model that states a newer opset.
    if n.opt_input(1).or(n.opt_input(2)).is_none() && (n.attrs.float("min").or(n.attrs.float("max"))).is_some() {
        return clip_attrs(n, b);
    }
    Ok(vec![match (n.opt_input(1), n.opt_input(2)) {
        (Some(lo), Some(hi)) => b.node("ClipByValue").name(&n.name).input(x).input(lo).input(hi).build(),
        (Some(lo), None) => b.node("Maximum").name(&n.name).input(x).input(lo).build(),
        (None, Some(hi)) => b.node("Minimum").name(&n.name).input(x).input(hi).build(),
        (None, None) => b.node("Identity").name(&n.name).input(x).build(),
    }])
}
map_op!("onnx", "ai.onnx", "Clip", 11..=u32::MAX, clip);

/// From opset 6 to 10 the bounds are attributes, whose default is the greatest number of single
/// precision whatever the type: infinite in f16, and a bound for f64.
fn clip_attrs(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let most = f64::from(f32::MAX);
    let lo = like_input(n, b, "min", n.float_or("min", -most))?;
    let hi = like_input(n, b, "max", n.float_or("max", most))?;
    Ok(vec![b.node("ClipByValue").name(&n.name).input(n.input(0)?).input(lo).input(hi).build()])
}
map_op!("onnx", "ai.onnx", "Clip", 6..=10, clip_attrs);

/// Before opset 6 the attributes have no default: there is no bound without one.
fn clip_if_given(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let mut y = n.input(0)?;
    let bounds = [("min", "Maximum"), ("max", "Minimum")];
    let given: Vec<_> = bounds.into_iter().filter_map(|(key, op)| Some((key, op, n.attrs.float(key)?))).collect();
    for (k, (key, op, v)) in given.iter().copied().enumerate() {
        let bound = like_input(n, b, key, v)?;
        let name = if k + 1 == given.len() { n.name.as_str() } else { "" };
        y = b.node(op).name(name).input(y).input(bound).build();
    }
    Ok(vec![if given.is_empty() { b.node("Identity").name(&n.name).input(y).build() } else { y }])
}
map_op!("onnx", "ai.onnx", "Clip", 1..=5, clip_if_given);

/// From opset 9 to 12 the type may be an integer; the function is computed in double precision, and
/// the result is cut off, as in the reference of the standard.
fn erf(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    const WHOLE: [DType; 8] =
        [DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16, DType::U32, DType::U64];
    let x = n.input(0)?;
    let Some(t) = known_type(n).filter(|t| WHOLE.contains(t)) else {
        return Ok(vec![b.node("Erf").name(&n.name).input(x).build()]);
    };
    let wide = b.node("Cast").input(x).attr("dst_type", DType::F64).build();
    let y = b.node("Erf").input(wide).build();
    Ok(vec![b.node("Cast").name(&n.name).input(y).attr("dst_type", t).build()])
}
map_op!("onnx", "ai.onnx", "Erf", 9..=12, erf);

fn modulo(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let op = if n.int_or("fmod", 0) == 0 { "FloorMod" } else { "Mod" };
    Ok(vec![b.node(op).name(&n.name).input(n.input(0)?).input(n.input(1)?).build()])
}
map_op!("onnx", "ai.onnx", "Mod", 10..=u32::MAX, modulo);

fn bit_shift(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let op = match n.str_or("direction", "") {
        "LEFT" => "LeftShift",
        "RIGHT" => "RightShift",
        other => return Err(n.refuse(format!("direction `{other}` is neither LEFT nor RIGHT"))),
    };
    Ok(vec![b.node(op).name(&n.name).input(n.input(0)?).input(n.input(1)?).build()])
}
map_op!("onnx", "ai.onnx", "BitShift", 11..=u32::MAX, bit_shift);

/// Makes a chain of a binary operator; a single input is passed through.
fn chain(n: &ForeignNode, b: &mut GraphBuilder<'_>, op: &str) -> Outs {
    let mut v = n.input(0)?;
    let count = n.inputs.len();
    if count == 1 {
        return Ok(vec![b.node("Identity").name(&n.name).input(v).build()]);
    }
    for i in 1..count {
        let d = b.node(op).input(v).input(n.input(i)?);
        v = if i + 1 == count { d.name(&n.name) } else { d }.build();
    }
    Ok(vec![v])
}
fn max(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    chain(n, b, "Maximum")
}
fn min(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    chain(n, b, "Minimum")
}
/// The sum of all inputs, multiplied by `scale`. With three or more inputs, f16 and bf16 are added
/// as f32 and rounded once: rounding each sum would lose all digits if the inputs cancel.
fn sum_scaled(n: &ForeignNode, b: &mut GraphBuilder<'_>, scale: Option<f64>) -> Outs {
    let half = n.desc(0).map(|d| d.dtype).filter(|t| matches!(*t, DType::F16 | DType::BF16));
    let wide = half.filter(|_| n.inputs.len() > 2);
    if wide.is_none() && scale.is_none() {
        return chain(n, b, "Add");
    }
    let mut total = n.input(0)?;
    for i in 0..n.inputs.len() {
        let mut value = n.input(i)?;
        if wide.is_some() {
            value = b.node("Cast").input(value).attr("dst_type", DType::F32).build();
        }
        total = if i == 0 { value } else { b.node("Add").input(total).input(value).build() };
    }
    let named = wide.is_none();
    if let Some(scale) = scale {
        let d = b.node("Muls").input(total).attr("value", scale);
        total = if named { d.name(&n.name) } else { d }.build();
    }
    if let Some(half) = wide {
        total = b.node("Cast").name(&n.name).input(total).attr("dst_type", half).build();
    }
    Ok(vec![total])
}
fn sum(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    sum_scaled(n, b, None)
}
fn mean(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    sum_scaled(n, b, Some(1.0 / n.inputs.len() as f64))
}
map_op!("onnx", "ai.onnx", "Max", 8..=u32::MAX, max);
map_op!("onnx", "ai.onnx", "Min", 8..=u32::MAX, min);
map_op!("onnx", "ai.onnx", "Sum", 8..=u32::MAX, sum);
map_op!("onnx", "ai.onnx", "Mean", 8..=u32::MAX, mean);
map_op!("onnx", "ai.onnx", "Max", 1..=7, max);
map_op!("onnx", "ai.onnx", "Min", 1..=7, min);
map_op!("onnx", "ai.onnx", "Sum", 1..=7, sum);
map_op!("onnx", "ai.onnx", "Mean", 1..=7, mean);
