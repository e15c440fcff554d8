//! Shapes: `Reshape`, `Transpose`, `Squeeze`, `Unsqueeze`, `Shape`, `Pad`,
//! `ConstantOfShape`, `OneHot`.
use super::{Outs, const_ints, like_input, scalar};
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::map_op;
use ge_plugin_api::types::{AttrValue, Blob, ConstTensor, DType, ValueRef};

fn reshape(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let shape = match n.attrs.ints("shape") {
        Some(v) if n.opt_input(1).is_none() => b.ints("shape", v),
        _ => n.input(1)?,
    };
    let y = b
        .node("Reshape")
        .name(&n.name)
        .input(n.input(0)?)
        .input(shape)
        .attr("allowzero", n.int_or("allowzero", 0))
        .build();
    Ok(vec![y])
}
map_op!("onnx", "ai.onnx", "Reshape", 1..=u32::MAX, reshape);

fn transpose(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let d = b.node("TransposeD").name(&n.name).input(n.input(0)?);
    Ok(vec![
        match n.attrs.ints("perm") {
            Some(p) => d.attr("perm", p),
            None => d,
        }
        .build(),
    ])
}
map_op!("onnx", "ai.onnx", "Transpose", 1..=u32::MAX, transpose);

/// Constant axes, from an attribute (before opset 13) or an input; they become an attribute.
fn axes(n: &ForeignNode) -> Option<Vec<i64>> {
    n.attrs.ints("axes").map(<[i64]>::to_vec).or_else(|| n.constant(1).and_then(|t| t.to_i64(64)))
}
fn squeeze(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let x = n.input(0)?;
    Ok(vec![match (axes(n), n.opt_input(1)) {
        (Some(a), _) => b.node("Squeeze").name(&n.name).input(x).attr("axis", a).build(),
        (None, Some(a)) => b.node("SqueezeV3").name(&n.name).input(x).input(a).build(),
        (None, None) => b.node("Squeeze").name(&n.name).input(x).build(),
    }])
}
fn unsqueeze(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let x = n.input(0)?;
    Ok(vec![match axes(n) {
        Some(a) => b.node("Unsqueeze").name(&n.name).input(x).attr("axes", a).build(),
        None => b.node("UnsqueezeV3").name(&n.name).input(x).input(n.input(1)?).build(),
    }])
}
map_op!("onnx", "ai.onnx", "Squeeze", 1..=u32::MAX, squeeze);
map_op!("onnx", "ai.onnx", "Unsqueeze", 1..=u32::MAX, unsqueeze);

fn shape(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let d =
        b.node("Shape").name(&n.name).input(n.input(0)?).attr("dtype", DType::I64).attr("start", n.int_or("start", 0));
    Ok(vec![
        match n.attrs.int("end") {
            Some(e) => d.attr("end", e),
            None => d,
        }
        .build(),
    ])
}
map_op!("onnx", "ai.onnx", "Shape", 1..=u32::MAX, shape);

fn pad(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let (pads, value) = match n.attrs.ints("pads").or_else(|| n.attrs.ints("paddings")) {
        Some(p) => {
            let v = n.float_or("value", 0.0);
            let p = b.ints("pads", p);
            let value = if v == 0.0 { None } else { Some(like_input(n, b, "value", v)?) };
            (p, value)
        }
        None => (n.input(1)?, n.opt_input(2)),
    };
    let y = b
        .node("PadV3")
        .name(&n.name)
        .input(n.input(0)?)
        .input(pads)
        .opt_input(value)
        .opt_input(n.opt_input(3))
        .attr("mode", n.str_or("mode", "constant"))
        .attr("paddings_contiguous", false)
        .build();
    Ok(vec![y])
}
map_op!("onnx", "ai.onnx", "Pad", 1..=u32::MAX, pad);

fn constant_of_shape(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let value = match n.attrs.get("value") {
        Some(AttrValue::Tensor(t)) if t.count() == Some(1) => {
            // The same bytes as a scalar.
            let bytes = t.bytes().unwrap_or_default();
            ConstTensor::new(t.dtype, &[], bytes)
        }
        Some(_) => return Err(n.refuse("attribute `value` is no tensor of one element")),
        None => ConstTensor::new(DType::F32, &[], Blob::copy_of(&[0; 4])),
    };
    let value = value.ok_or_else(|| n.refuse("attribute `value` does not fit"))?;
    let value = b.made_constant("value", value);
    Ok(vec![b.node("Fill").name(&n.name).input(n.input(0)?).input(value).build()])
}
map_op!("onnx", "ai.onnx", "ConstantOfShape", 9..=u32::MAX, constant_of_shape);

/// ONNX gives the off and on values in one tensor with two elements; they are separated here.
fn one_hot(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let values = n.input(2)?;
    let axis = scalar(b, "axis", 0i64);
    let mut take = |k: i64, name: &str| -> ValueRef {
        let i = scalar(b, name, k);
        b.node("GatherV2").input(values).input(i).input(axis).build()
    };
    let (off, on) = (take(0, "off"), take(1, "on"));
    // The depth may be a vector with one element.
    let depth = match n.constant(1) {
        Some(t) if t.dims.len() == 1 => match t.bytes().and_then(|d| ConstTensor::new(t.dtype, &[], d)) {
            Some(t) => b.made_constant("depth", t),
            None => return Err(n.refuse("depth is no single number")),
        },
        _ => n.input(1)?,
    };
    let y = b
        .node("OneHot")
        .name(&n.name)
        .input(n.input(0)?)
        .input(depth)
        .input(on)
        .input(off)
        .attr("axis", n.int_or("axis", -1))
        .build();
    Ok(vec![y])
}
map_op!("onnx", "ai.onnx", "OneHot", 9..=u32::MAX, one_hot);

/// Only reached if the value could not be read during the import.
fn constant(n: &ForeignNode, _: &mut GraphBuilder<'_>) -> Outs {
    let _ = const_ints;
    Err(n.refuse("it has no value"))
}
map_op!("onnx", "ai.onnx", "Constant", 1..=u32::MAX, constant);
