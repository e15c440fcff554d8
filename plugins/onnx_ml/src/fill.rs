//! `Imputer`: values equal to the replaced value (or NaN, if that is NaN) become the imputed value
//! of their feature, with SelectV2. `Binarizer`: 1 above a threshold, else 0, with Greater and
//! Cast.
use crate::shared::{Outs, list};
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::map_op;
use ge_plugin_api::types::{ConstTensor, DType, ValueRef};

/// Makes a list constant in a type.
fn typed(b: &mut GraphBuilder<'_>, name: &str, v: &[f64], dtype: DType) -> ValueRef {
    match dtype {
        DType::F64 => list(b, name, v),
        DType::I64 => list(b, name, &v.iter().map(|v| *v as i64).collect::<Vec<_>>()),
        DType::I32 => list(b, name, &v.iter().map(|v| *v as i32).collect::<Vec<_>>()),
        _ => list(b, name, &v.iter().map(|v| *v as f32).collect::<Vec<_>>()),
    }
}

fn type_of(n: &ForeignNode) -> DType {
    n.desc(0).map(|d| d.dtype).filter(|t| *t != DType::UNKNOWN).unwrap_or(DType::F32)
}

fn imputer(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let (x, dtype) = (n.input(0)?, type_of(n));
    let whole = dtype.is_int();
    let (values, replaced) = if whole {
        let v: Vec<f64> = n.attrs.ints("imputed_value_int64s").unwrap_or_default().iter().map(|v| *v as f64).collect();
        (v, n.int_or("replaced_value_int64", 0) as f64)
    } else {
        (n.attrs.floats("imputed_value_floats").unwrap_or_default().to_vec(), n.float_or("replaced_value_float", 0.0))
    };
    if values.is_empty() {
        return Err(n.refuse(format!("it has no imputed values for features of type {dtype}")));
    }
    let missing = if replaced.is_nan() {
        b.node("IsNan").input(x).build()
    } else {
        let replaced = typed(b, "replaced", &[replaced], dtype);
        b.node("Equal").input(x).input(replaced).build()
    };
    let values = typed(b, "imputed", &values, dtype);
    Ok(vec![b.node("SelectV2").name(&n.name).input(missing).input(values).input(x).build()])
}
map_op!("onnx", "ai.onnx.ml", "Imputer", 1..=u32::MAX, imputer);

fn binarizer(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let (x, dtype) = (n.input(0)?, type_of(n));
    let threshold = ConstTensor::of(&[], &[n.float_or("threshold", 0.0)])
        .map_or(ValueRef::ABSENT, |t| b.made_constant("threshold", t));
    // A threshold may have a fraction, so integers are compared in f64.
    let to = if dtype.is_int() { DType::F64 } else { dtype };
    let threshold = b.node("Cast").input(threshold).attr("dst_type", to).build();
    let wide = if to == dtype { x } else { b.node("Cast").input(x).attr("dst_type", to).build() };
    let above = b.node("Greater").input(wide).input(threshold).build();
    Ok(vec![b.node("Cast").name(&n.name).input(above).attr("dst_type", dtype).build()])
}
map_op!("onnx", "ai.onnx.ml", "Binarizer", 1..=u32::MAX, binarizer);
