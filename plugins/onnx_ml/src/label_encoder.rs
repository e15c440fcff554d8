//! `MlLabelEncoder(x, keys [n], values [n], default [1]) -> y`: the value of the key that a number
//! is, the first of equal keys; NaN is a key like others. Keys have the type of
//! `x`, values that of `default`.
use crate::shared::Outs;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::kernel::{KernelCtx, TensorView};
use ge_plugin_api::ops::{InferCtx, OpDef};
use ge_plugin_api::types::{ConstTensor, DType, TensorDesc};
use ge_plugin_api::{Error, Result, map_op, register_kernel, register_op};
use std::collections::HashMap;

const TYPES: &[DType] = &[DType::I64, DType::F32, DType::F64, DType::I32, DType::I16];

/// One side of the table: a tensor, or a list of one of three kinds.
fn side(n: &ForeignNode, what: &str) -> Result<ConstTensor> {
    if let Some(t) = n.attrs.tensor(format!("{what}_tensor").as_str()) {
        if t.dtype == DType::STRING {
            return Err(n.refuse(format!("`{what}_tensor` is text; encode it as numbers outside of the model")));
        }
        return Ok(t.clone());
    }
    let made = if let Some(v) = n.attrs.ints(format!("{what}_int64s").as_str()).filter(|v| !v.is_empty()) {
        ConstTensor::of(&[v.len() as u64], v)
    } else if let Some(v) = n.attrs.floats(format!("{what}_floats").as_str()).filter(|v| !v.is_empty()) {
        ConstTensor::of(&[v.len() as u64], &v.iter().map(|v| *v as f32).collect::<Vec<_>>())
    } else {
        None
    };
    made.ok_or_else(|| n.refuse(format!("its {what} are text; encode them as numbers outside of the model")))
}

fn map(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let (keys, values) = (side(n, "keys")?, side(n, "values")?);
    if keys.count() != values.count() {
        return Err(n.refuse(format!("{:?} keys for {:?} values", keys.count(), values.count())));
    }
    let default = match n.attrs.tensor("default_tensor") {
        Some(t) if t.dtype == values.dtype => Some(t.clone()),
        _ => match values.dtype {
            DType::I64 => ConstTensor::of(&[1], &[n.int_or("default_int64", -1)]),
            DType::F64 => ConstTensor::of(&[1], &[n.float_or("default_float", -0.0)]),
            DType::F32 => ConstTensor::of(&[1], &[n.float_or("default_float", -0.0) as f32]),
            DType::I32 => ConstTensor::of(&[1], &[-1i32]),
            DType::I16 => ConstTensor::of(&[1], &[-1i16]),
            _ => None,
        },
    };
    let Some(default) = default.filter(|_| TYPES.contains(&keys.dtype)) else {
        return Err(n.refuse(format!("keys of {} and values of {} are not computed", keys.dtype, values.dtype)));
    };
    let keys = b.made_constant("keys", keys);
    let values = b.made_constant("values", values);
    let default = b.made_constant("default", default);
    let node = b.node("MlLabelEncoder").name(&n.name).input(n.input(0)?).input(keys).input(values);
    Ok(vec![node.input(default).build()])
}
map_op!("onnx", "ai.onnx.ml", "LabelEncoder", 2..=u32::MAX, map);

fn infer(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    Ok(vec![TensorDesc::new(c.input(2)?.dtype, c.input(0)?.shape.clone())])
}
register_op!(|| OpDef::new("MlLabelEncoder", infer)
    .input("x", TYPES, "K")
    .input("keys", TYPES, "K")
    .input("values", TYPES, "V")
    .input("default", TYPES, "V")
    .output("y", TYPES, "V"));

/// Numbers as bits by which equal keys are equal: one for both zeros and one for all that are no
/// number.
fn bits(x: &TensorView<'_>) -> Result<Vec<u64>> {
    let real = |v: f64| if v.is_nan() { u64::MAX } else { (v + 0.0).to_bits() };
    Ok(match x.dtype {
        DType::F64 => x.values::<f64>()?.iter().map(|v| real(*v)).collect(),
        DType::F32 => x.values::<f32>()?.iter().map(|v| real(f64::from(*v))).collect(),
        DType::I32 => x.values::<i32>()?.iter().map(|v| i64::from(*v) as u64).collect(),
        DType::I16 => x.values::<i16>()?.iter().map(|v| i64::from(*v) as u64).collect(),
        _ => x.values::<i64>()?.iter().map(|v| *v as u64).collect(),
    })
}

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, values, default) = (ctx.input(0)?, ctx.input(2)?, ctx.input(3)?);
    let keys = bits(&ctx.input(1)?)?;
    let (width, dims) = (values.dtype.bytes_of(1).unwrap_or(0) as usize, x.dims.to_vec());
    if keys.len() != values.count() || default.count() != 1 || width == 0 {
        return Err(Error::failed(format!(
            "{} keys, {} values, {} defaults",
            keys.len(),
            values.count(),
            default.count()
        )));
    }
    let mut places: HashMap<u64, usize> = HashMap::with_capacity(keys.len());
    keys.iter().enumerate().for_each(|(i, k)| {
        places.entry(*k).or_insert(i);
    });
    let found = bits(&x)?;
    let y = ctx.alloc_output(0, &dims)?;
    for (to, k) in y.bytes.chunks_exact_mut(width).zip(&found) {
        to.copy_from_slice(match places.get(k) {
            Some(i) => &values.bytes[i * width..(i + 1) * width],
            None => &default.bytes[..width],
        });
    }
    Ok(())
}
register_kernel!("OnnxMlEngine", "MlLabelEncoder", [DType::I64, DType::F32, DType::F64, DType::I32, DType::I16], run);
