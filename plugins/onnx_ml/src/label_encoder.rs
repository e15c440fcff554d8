//! `MlLabelEncoder(x, keys [n], values [n], default [1]) -> y`: maps each element that equals a key
//! to the value of that key; of equal keys the first counts, and NaN is a valid key. Keys have the
//! type of `x`, values that of `default`; both may be strings. `LabelEncoder` and `CategoryMapper`
//! are mapped to it.
use crate::places::Places;
use crate::shared::{Outs, known_type};
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::kernel::{HostTensor, KernelCtx, TensorView};
use ge_plugin_api::ops::{InferCtx, OpDef};
use ge_plugin_api::types::{Blob, ConstTensor, DType, TensorDesc, ValueRef, bytes_of_strings, strings_in};
use ge_plugin_api::{Error, Result, map_op, register_kernel, register_op};
use std::collections::HashMap;

const TYPES: &[DType] = &[DType::I64, DType::F32, DType::F64, DType::I32, DType::I16, DType::STRING];
/// Default result for strings that are not a key.
const UNUSED: &str = "_Unused";

/// Strings as a constant with one axis.
pub fn text<S: AsRef<[u8]>>(all: &[S]) -> Option<ConstTensor> {
    ConstTensor::new(DType::STRING, &[all.len() as u64], Blob::from_owner(bytes_of_strings(all)))
}

/// One side of the table: a tensor, or a list of one of three kinds.
fn side(n: &ForeignNode, what: &str) -> Result<ConstTensor> {
    if let Some(t) = n.attrs.tensor(format!("{what}_tensor").as_str()) {
        return Ok(t.clone());
    }
    let strings = format!("{what}_strings");
    let made = if let Some(v) = n.attrs.ints(format!("{what}_int64s").as_str()).filter(|v| !v.is_empty()) {
        ConstTensor::of(&[v.len() as u64], v)
    } else if let Some(v) = n.attrs.floats(format!("{what}_floats").as_str()).filter(|v| !v.is_empty()) {
        ConstTensor::of(&[v.len() as u64], &v.iter().map(|v| *v as f32).collect::<Vec<_>>())
    } else {
        n.attrs.strs(strings.as_str()).filter(|v| !v.is_empty()).and_then(|v| text(&v))
    };
    made.ok_or_else(|| n.refuse(format!("it has no {what}")))
}

/// The result for elements that are not a key.
fn default(n: &ForeignNode, values: DType) -> Option<ConstTensor> {
    match (n.attrs.tensor("default_tensor"), values) {
        (Some(t), _) if t.dtype == values => Some(t.clone()),
        (_, DType::I64) => ConstTensor::of(&[1], &[n.int_or("default_int64", -1)]),
        (_, DType::F64) => ConstTensor::of(&[1], &[n.float_or("default_float", -0.0)]),
        (_, DType::F32) => ConstTensor::of(&[1], &[n.float_or("default_float", -0.0) as f32]),
        (_, DType::I32) => ConstTensor::of(&[1], &[-1i32]),
        (_, DType::I16) => ConstTensor::of(&[1], &[-1i16]),
        (_, DType::STRING) => text(&[n.str_or("default_string", UNUSED)]),
        _ => None,
    }
}

fn map(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    Ok(vec![lookup(n, b, &n.name, n.input(0)?, side(n, "keys")?, side(n, "values")?)?])
}
map_op!("onnx", "ai.onnx.ml", "LabelEncoder", 2..=u32::MAX, map);

/// Maps words to their indices or indices to words, depending on the type of the input.
fn places(n: &ForeignNode, b: &mut GraphBuilder<'_>, words: &str, places: Option<&[i64]>) -> Outs {
    let words = n.attrs.strs(words).unwrap_or_default();
    let counted: Vec<i64> = (0..words.len() as i64).collect();
    let places = places.unwrap_or(&counted);
    let sides = text(&words).zip(ConstTensor::of(&[places.len() as u64], places));
    let (words, places) = sides.filter(|_| !words.is_empty()).ok_or_else(|| n.refuse("it has no words"))?;
    let (keys, values) = match known_type(n) {
        Some(DType::STRING) => (words, places),
        Some(_) => (places, words),
        None => {
            return Err(n.refuse(
                "whether its input is words or indices is not known: state the type of the input in the model's \
                 `value_info` (onnx.shape_inference does)",
            ));
        }
    };
    Ok(vec![lookup(n, b, &n.name, n.input(0)?, keys, values)?])
}

fn first(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    places(n, b, "classes_strings", None)
}
map_op!("onnx", "ai.onnx.ml", "LabelEncoder", 1..=1, first);

fn mapper(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    places(n, b, "cats_strings", Some(n.attrs.ints("cats_int64s").unwrap_or_default()))
}
map_op!("onnx", "ai.onnx.ml", "CategoryMapper", 1..=u32::MAX, mapper);

/// Makes a node with this name that looks up the value for each key in `x`.
///
/// # Errors
/// Fails if the numbers of keys and values differ or if a type is not supported.
pub fn lookup(
    n: &ForeignNode,
    b: &mut GraphBuilder<'_>,
    name: &str,
    x: ValueRef,
    keys: ConstTensor,
    values: ConstTensor,
) -> Result<ValueRef> {
    if keys.count() != values.count() {
        return Err(n.refuse(format!("{:?} keys for {:?} values", keys.count(), values.count())));
    }
    let Some(default) = default(n, values.dtype).filter(|_| TYPES.contains(&keys.dtype)) else {
        return Err(n.refuse(format!("keys of {} and values of {} are not computed", keys.dtype, values.dtype)));
    };
    let keys = b.made_constant("keys", keys);
    let values = b.made_constant("values", values);
    let default = b.made_constant("default", default);
    let node = b.node("MlLabelEncoder").name(name).input(x).input(keys).input(values);
    Ok(node.input(default).build())
}

fn infer(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    Ok(vec![TensorDesc::new(c.input(2)?.dtype, c.input(0)?.shape.clone())])
}
register_op!(|| OpDef::new("MlLabelEncoder", infer)
    .input("x", TYPES, "K")
    .input("keys", TYPES, "K")
    .input("values", TYPES, "V")
    .input("default", TYPES, "V")
    .output("y", TYPES, "V"));

/// Numbers as bit patterns that are equal for equal keys: both zeros have the same pattern, and so
/// have all NaNs.
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

/// The strings of a tensor.
fn strings<'a>(x: &TensorView<'a>) -> Result<Vec<&'a [u8]>> {
    let wrong = || Error::failed(format!("text of sizes {:?} has other bytes", x.dims));
    strings_in(x.bytes, x.count() as u64).ok_or_else(wrong)
}

/// The index of each string among the keys, or the number of keys if it is not among them.
fn found(keys: &[&[u8]], x: &[&[u8]]) -> Vec<usize> {
    let mut places: HashMap<&[u8], usize> = HashMap::with_capacity(keys.len());
    for (i, k) in keys.iter().enumerate() {
        places.entry(k).or_insert(i);
    }
    x.iter().map(|k| places.get(k).copied().unwrap_or(keys.len())).collect()
}

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let [x, keys, values, default] = [ctx.input(0)?, ctx.input(1)?, ctx.input(2)?, ctx.input(3)?];
    if keys.count() != values.count() || default.count() != 1 {
        let [k, v, d] = [keys.count(), values.count(), default.count()];
        return Err(Error::failed(format!("{k} keys, {v} values, {d} defaults")));
    }
    let found = if x.dtype == DType::STRING {
        found(&strings(&keys)?, &strings(&x)?)
    } else {
        let places = Places::of(&bits(&keys)?);
        bits(&x)?.into_iter().map(|k| places.get(k)).collect()
    };
    // The default is appended to the values.
    if values.dtype == DType::STRING {
        let table = [strings(&values)?, strings(&default)?].concat();
        let all: Vec<&[u8]> = found.into_iter().map(|p| table[p]).collect();
        return ctx.set_output(0, HostTensor::from_bytes(DType::STRING, x.dims, &bytes_of_strings(&all))?);
    }
    let table = [values.bytes, default.bytes].concat();
    let (width, dims) = (values.dtype.bytes_of(1).unwrap_or(0), x.dims.to_vec());
    let y = ctx.alloc_output(0, &dims)?;
    match width {
        8 => put::<8>(y.bytes, &found, &table),
        4 => put::<4>(y.bytes, &found, &table),
        _ => put::<2>(y.bytes, &found, &table),
    }
    Ok(())
}

fn put<const N: usize>(y: &mut [u8], found: &[usize], table: &[u8]) {
    let table = table.as_chunks::<N>().0;
    y.as_chunks_mut::<N>().0.iter_mut().zip(found).for_each(|(to, p)| *to = table[*p]);
}

register_kernel!(
    "OnnxMlEngine",
    "MlLabelEncoder",
    [DType::I64, DType::F32, DType::F64, DType::I32, DType::I16, DType::STRING],
    run
);

#[cfg(test)]
mod tests {
    use super::*;
    use ge_plugin_api::types::{AttrValue, NodeId, Shape};

    /// Words map to indices and indices to words, so the type of the input decides.
    #[test]
    fn a_mapper_of_an_input_whose_type_is_not_known_is_refused() {
        let of = |dtype: DType| {
            let mut n = ForeignNode { name: "y".into(), ..ForeignNode::default() };
            n.inputs.push(ValueRef::new(NodeId(1), 0));
            n.input_descs.push(TensorDesc::new(dtype, Shape::unranked()));
            n.attrs.set("cats_strings", AttrValue::Strs(vec!["a".into()].into()));
            n.attrs.set("cats_int64s", AttrValue::Ints(vec![5].into()));
            mapper(&n, &mut GraphBuilder::new(None)).map(|outs| outs.len())
        };
        assert_eq!((of(DType::STRING).ok(), of(DType::I64).ok()), (Some(1), Some(1)));
        assert!(of(DType::UNKNOWN).expect_err("refused").message().contains("is not known"));
    }
}
