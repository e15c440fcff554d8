//! `Imputer`: values equal to the replaced value (or NaN, if that is NaN) become the imputed value
//! of their feature, with SelectV2. `Binarizer`: 1 above a threshold, else 0, with Greater and
//! Cast.
use crate::shared::{Outs, known_type, list};
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder, NodeBuilder};
use ge_plugin_api::types::{ConstTensor, DType, ValueRef};
use ge_plugin_api::{Result, map_op};

/// The features `x`, and numbers of attributes in their type.
struct Features {
    x: ValueRef,
    dtype: Option<DType>,
}

impl Features {
    fn of(n: &ForeignNode) -> Result<Features> {
        Ok(Features { x: n.input(0)?, dtype: known_type(n) })
    }

    /// Begins a node that converts a value to the type of the features; a type that is not known is
    /// left to `CastLike`.
    fn convert<'b, 'a>(&self, b: &'b mut GraphBuilder<'a>, v: ValueRef) -> NodeBuilder<'b, 'a> {
        match self.dtype {
            Some(t) => b.node("Cast").input(v).attr("dst_type", t),
            None => b.node("CastLike").input(v).input(self.x),
        }
    }

    fn integers(&self, b: &mut GraphBuilder<'_>, name: &str, v: &[i64]) -> ValueRef {
        let v = list(b, name, v);
        if self.dtype == Some(DType::I64) { v } else { self.convert(b, v).build() }
    }

    fn reals(&self, b: &mut GraphBuilder<'_>, name: &str, v: &[f64]) -> ValueRef {
        if self.dtype == Some(DType::F32) {
            return list(b, name, &v.iter().map(|v| *v as f32).collect::<Vec<_>>());
        }
        let v = list(b, name, v);
        if self.dtype == Some(DType::F64) { v } else { self.convert(b, v).build() }
    }
}

fn imputer(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let features = Features::of(n)?;
    let whole = n.attrs.ints("imputed_value_int64s").unwrap_or_default();
    let real = n.attrs.floats("imputed_value_floats").unwrap_or_default();
    // Integers are imputed to integer features, and real numbers to real ones.
    let is_whole = match features.dtype {
        Some(t) => t.is_int(),
        None if whole.is_empty() != real.is_empty() => real.is_empty(),
        None => return Err(n.refuse("the type of its features is not known: state it in the model, by a Cast")),
    };
    if let Some(t) = features.dtype.filter(|_| if is_whole { whole.is_empty() } else { real.is_empty() }) {
        return Err(n.refuse(format!("it has no imputed values for features of type {t}")));
    }
    let replaced = n.float_or("replaced_value_float", 0.0);
    let (values, missing) = if is_whole {
        let replaced = features.integers(b, "replaced", &[n.int_or("replaced_value_int64", 0)]);
        (features.integers(b, "imputed", whole), b.node("Equal").input(features.x).input(replaced).build())
    } else if replaced.is_nan() {
        (features.reals(b, "imputed", real), b.node("IsNan").input(features.x).build())
    } else {
        let replaced = features.reals(b, "replaced", &[replaced]);
        (features.reals(b, "imputed", real), b.node("Equal").input(features.x).input(replaced).build())
    };
    Ok(vec![b.node("SelectV2").name(&n.name).input(missing).input(values).input(features.x).build()])
}
map_op!("onnx", "ai.onnx.ml", "Imputer", 1..=u32::MAX, imputer);

fn binarizer(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let features = Features::of(n)?;
    // A threshold may have a fraction, so integers are compared in f64, and so are features of a
    // type that is not known.
    let to = features.dtype.filter(|t| !t.is_int()).unwrap_or(DType::F64);
    let threshold = ConstTensor::of(&[], &[n.float_or("threshold", 0.0)])
        .map_or(ValueRef::ABSENT, |t| b.made_constant("threshold", t));
    let threshold = b.node("Cast").input(threshold).attr("dst_type", to).build();
    let wide = match features.dtype == Some(to) {
        true => features.x,
        false => b.node("Cast").input(features.x).attr("dst_type", to).build(),
    };
    let above = b.node("Greater").input(wide).input(threshold).build();
    Ok(vec![features.convert(b, above).name(&n.name).build()])
}
map_op!("onnx", "ai.onnx.ml", "Binarizer", 1..=u32::MAX, binarizer);
