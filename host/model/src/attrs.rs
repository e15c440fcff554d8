//! Encodes attributes in the published schema without loss, except for the element type of an empty
//! list. Floats that do not fit into 32 bits, dictionaries, mixed lists and tensors are stored in
//! named bundles.
use crate::desc::{dtype_number, dtype_of_number};
use ge_om::attr::{AttrMap as _, Value};
use ge_om::proto::ir::{AttrDef, NamedAttrs, TensorDef};
use ge_plugin_api::types::{AttrValue, Blob, ConstTensor, DType, DictEntry, TensorDesc};

const F64: &str = "ge_rs.f64";
const F64S: &str = "ge_rs.f64s";
const LIST: &str = "ge_rs.list";
const DICT: &str = "ge_rs.dict";
const GRAPH: &str = "ge_rs.graph";
const TYPE: &str = "ge_rs.dtype_name";
const DEPTH: usize = 32;

/// Encodes a value in the schema; `None` if it is nested too deeply.
pub(crate) fn to_proto(v: &AttrValue) -> Option<Value> {
    encode(v, 0)
}

fn bundle(name: &str, items: Vec<(String, Value)>) -> Value {
    let mut n = NamedAttrs { name: name.to_owned(), ..Default::default() };
    for (k, v) in items {
        n.attr.set(&k, v);
    }
    Value::Named(n)
}

fn fits(v: f64) -> bool {
    f64::from(v as f32).to_bits() == v.to_bits()
}

fn encode(v: &AttrValue, depth: usize) -> Option<Value> {
    if depth > DEPTH {
        return None;
    }
    Some(match v {
        AttrValue::Int(i) => Value::Int(*i),
        AttrValue::Float(f) if fits(*f) => Value::Float(*f as f32),
        AttrValue::Float(f) => bundle(F64, vec![("v".into(), Value::Int(f.to_bits() as i64))]),
        AttrValue::Bool(b) => Value::Bool(*b),
        AttrValue::Str(s) => Value::Str(s.to_string()),
        AttrValue::Type(d) => match dtype_number(*d) {
            Some(n) => Value::DataType(n),
            None => bundle(TYPE, vec![("v".into(), Value::Str(d.name().to_owned()))]),
        },
        // An empty list has no element type: the text form cannot express one, and compiling a
        // model from text must not give another result.
        AttrValue::Ints(l) if l.is_empty() => Value::EmptyList,
        AttrValue::Floats(l) if l.is_empty() => Value::EmptyList,
        AttrValue::Strs(l) if l.is_empty() => Value::EmptyList,
        AttrValue::Ints(l) => Value::Ints(l.to_vec()),
        AttrValue::Floats(l) if l.iter().all(|f| fits(*f)) => Value::Floats(l.iter().map(|f| *f as f32).collect()),
        AttrValue::Floats(l) => {
            bundle(F64S, vec![("v".into(), Value::Ints(l.iter().map(|f| f.to_bits() as i64).collect()))])
        }
        AttrValue::Strs(l) => Value::Strs(l.iter().map(|s| s.to_string()).collect()),
        AttrValue::List(l) => bundle(LIST, numbered(l.iter(), depth)?),
        AttrValue::Dict(d) => {
            let keys: Vec<String> = d.iter().map(|e| e.key.to_string()).collect();
            let mut items = numbered(d.iter().map(|e| &e.value), depth)?;
            items.push(("keys".into(), Value::Strs(keys)));
            bundle(DICT, items)
        }
        AttrValue::Graph(g) => bundle(GRAPH, vec![("v".into(), Value::Str(g.to_string()))]),
        AttrValue::Tensor(t) => {
            let bytes = t.bytes()?;
            let data = bytes::Bytes::from_owner(bytes);
            Value::Tensor(TensorDef {
                desc: Some(crate::desc::to_proto("", &TensorDesc::new(t.dtype, t.shape()))),
                data,
            })
        }
    })
}

fn numbered<'a>(values: impl Iterator<Item = &'a AttrValue>, depth: usize) -> Option<Vec<(String, Value)>> {
    values.enumerate().map(|(i, v)| Some((format!("{i:08}"), encode(v, depth + 1)?))).collect()
}

/// Decodes a value; `None` for kinds that only other producers write.
pub(crate) fn from_proto(a: &AttrDef) -> Option<AttrValue> {
    decode(a, 0)
}

fn decode(a: &AttrDef, depth: usize) -> Option<AttrValue> {
    if depth > DEPTH {
        return None;
    }
    Some(match Value::of(a)? {
        Value::Int(i) => AttrValue::Int(i),
        Value::Float(f) => AttrValue::Float(f64::from(f)),
        Value::Bool(b) => AttrValue::Bool(b),
        Value::Str(s) => AttrValue::Str(s.into()),
        Value::DataType(n) => AttrValue::Type(dtype_of_number(n)?),
        Value::EmptyList => AttrValue::Ints(Default::default()),
        Value::Ints(l) => AttrValue::Ints(l.into()),
        Value::Floats(l) => AttrValue::Floats(l.into_iter().map(f64::from).collect()),
        Value::Bools(l) => AttrValue::list(l.into_iter().map(AttrValue::Bool).collect()),
        Value::Strs(l) => AttrValue::Strs(l.into_iter().map(Into::into).collect()),
        Value::Tensor(t) => {
            let d = crate::desc::from_proto(t.desc.as_ref()?).ok()?;
            let dims = d.shape.sizes()?;
            AttrValue::Tensor(ConstTensor::new(d.dtype, &dims, Blob::from_owner(t.data))?)
        }
        Value::Named(n) => match n.name.as_str() {
            F64 => AttrValue::Float(f64::from_bits(n.attr.int("v").ok()?? as u64)),
            F64S => AttrValue::Floats(
                n.attr.ints("v").ok()?.unwrap_or(&[]).iter().map(|b| f64::from_bits(*b as u64)).collect(),
            ),
            TYPE => AttrValue::Type(DType::from_name(n.attr.str("v").ok()??)?),
            GRAPH => AttrValue::Graph(n.attr.str("v").ok()??.into()),
            LIST => AttrValue::List(n.attr.values().map(|v| decode(v, depth + 1)).collect::<Option<Vec<_>>>()?.into()),
            DICT => {
                let keys = n.attr.strs("keys").ok()?.unwrap_or_default();
                let values = n
                    .attr
                    .iter()
                    .filter(|(k, _)| *k != "keys")
                    .map(|(_, v)| decode(v, depth + 1))
                    .collect::<Option<Vec<_>>>()?;
                if keys.len() != values.len() {
                    return None;
                }
                AttrValue::Dict(
                    keys.into_iter().zip(values).map(|(k, value)| DictEntry { key: k.into(), value }).collect(),
                )
            }
            _ => return None,
        },
        _ => return None,
    })
}
