//! Attributes: `Value` is the meaning of an `AttrDef`; `AttrMap` reads and writes attributes by
//! name.
//!
//! Readers in use refuse a whole file if it contains one of three kinds of value: an element type
//! above [`LAST_PUBLIC_DTYPE`], a single tensor descriptor, or a list of lists of floats. Such
//! values are written inside a named bundle ([`WRAPPED`]), which those readers skip; both forms can
//! be read.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::proto::ir::attr_def::list_list_float::ListFloat;
use crate::proto::ir::attr_def::list_list_int::ListInt;
use crate::proto::ir::attr_def::list_value::ListValueType;
use crate::proto::ir::attr_def::{self, ListListFloat, ListListInt, ListValue};
use crate::proto::ir::{AttrDef, DataType, GraphDef, NamedAttrs, TensorDef, TensorDescriptor};

/// The largest type number that readers in use know (`DT_UINT2`).
pub const LAST_PUBLIC_DTYPE: i32 = 31;

/// Name of the bundle around a value that readers in use cannot handle; the value is its attribute
/// [`WRAPPED_VALUE`].
pub const WRAPPED: &str = "ge_rs.wrapped";
/// Name of the only attribute of a wrapping bundle.
pub const WRAPPED_VALUE: &str = "value";

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// An integer.
    Int(i64),
    /// A 32-bit float.
    Float(f32),
    /// A boolean.
    Bool(bool),
    /// A UTF-8 string.
    Str(String),
    /// Bytes, or a string that is not UTF-8.
    Bytes(Bytes),
    /// An element type, given by its number.
    DataType(i64),
    /// A symbolic expression.
    Expression(Bytes),
    /// A tensor descriptor.
    Desc(TensorDescriptor),
    /// A tensor with its data.
    Tensor(TensorDef),
    /// A graph.
    Graph(GraphDef),
    /// A named bundle of attributes.
    Named(NamedAttrs),
    /// An empty list without a kind.
    EmptyList,
    /// A list of integers.
    Ints(Vec<i64>),
    /// A list of 32-bit floats.
    Floats(Vec<f32>),
    /// A list of booleans.
    Bools(Vec<bool>),
    /// A list of strings.
    Strs(Vec<String>),
    /// A list of byte blocks, or of strings of which one is not UTF-8.
    BytesList(Vec<Bytes>),
    /// A list of element types, given by their numbers.
    DataTypes(Vec<i64>),
    /// A list of tensor descriptors.
    Descs(Vec<TensorDescriptor>),
    /// A list of tensors.
    Tensors(Vec<TensorDef>),
    /// A list of graphs.
    Graphs(Vec<GraphDef>),
    /// A list of named bundles.
    NamedList(Vec<NamedAttrs>),
    /// A list of lists of integers.
    IntLists(Vec<Vec<i64>>),
    /// A list of lists of 32-bit floats.
    FloatLists(Vec<Vec<f32>>),
}

impl Value {
    /// Name of the kind, for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Int(_) => "an integer",
            Self::Float(_) => "a float",
            Self::Bool(_) => "a bool",
            Self::Str(_) => "a string",
            Self::Bytes(_) => "bytes",
            Self::DataType(_) => "a data type",
            Self::Expression(_) => "an expression",
            Self::Desc(_) => "a tensor descriptor",
            Self::Tensor(_) => "a tensor",
            Self::Graph(_) => "a graph",
            Self::Named(_) => "named attributes",
            Self::EmptyList => "an empty list",
            Self::Ints(_) => "a list of integers",
            Self::Floats(_) => "a list of floats",
            Self::Bools(_) => "a list of bools",
            Self::Strs(_) => "a list of strings",
            Self::BytesList(_) => "a list of bytes",
            Self::DataTypes(_) => "a list of data types",
            Self::Descs(_) => "a list of tensor descriptors",
            Self::Tensors(_) => "a list of tensors",
            Self::Graphs(_) => "a list of graphs",
            Self::NamedList(_) => "a list of named attributes",
            Self::IntLists(_) => "a list of lists of integers",
            Self::FloatLists(_) => "a list of lists of floats",
        }
    }

    /// The value of an attribute; `None` if it is missing or of an unknown kind. Graphs and tensors
    /// are copied, bytes are shared.
    #[must_use]
    pub fn of(attr: &AttrDef) -> Option<Self> {
        let mut value = attr.value.as_ref()?;
        if let attr_def::Value::Func(bundle) = value
            && bundle.name == WRAPPED
        {
            value = bundle.attr.get(WRAPPED_VALUE)?.value.as_ref()?;
        }
        Some(match value {
            attr_def::Value::I(value) => Self::Int(*value),
            attr_def::Value::F(value) => Self::Float(*value),
            attr_def::Value::B(value) => Self::Bool(*value),
            attr_def::Value::S(value) => match std::str::from_utf8(value) {
                Ok(text) => Self::Str(text.to_string()),
                Err(_) => Self::Bytes(value.clone()),
            },
            attr_def::Value::Bt(value) => Self::Bytes(value.clone()),
            attr_def::Value::Dt(value) => Self::DataType(*value),
            attr_def::Value::Expression(value) => Self::Expression(value.clone()),
            attr_def::Value::Td(value) => Self::Desc((**value).clone()),
            attr_def::Value::T(value) => Self::Tensor((**value).clone()),
            attr_def::Value::G(value) => Self::Graph((**value).clone()),
            attr_def::Value::Func(value) => Self::Named((**value).clone()),
            attr_def::Value::ListListInt(value) => {
                Self::IntLists(value.list_list_i.iter().map(|list| list.list_i.clone()).collect())
            }
            attr_def::Value::ListListFloat(value) => {
                Self::FloatLists(value.list_list_f.iter().map(|list| list.list_f.clone()).collect())
            }
            attr_def::Value::List(list) => Self::of_list(list),
        })
    }

    /// Reads a list. Its kind is `val_type`; if that is not set, the kind of the list that is not
    /// empty.
    fn of_list(list: &ListValue) -> Self {
        use ListValueType as T;
        let kind = match list.val_type() {
            T::VtListNone => match () {
                () if !list.s.is_empty() => T::VtListString,
                () if !list.i.is_empty() => T::VtListInt,
                () if !list.f.is_empty() => T::VtListFloat,
                () if !list.b.is_empty() => T::VtListBool,
                () if !list.bt.is_empty() => T::VtListBytes,
                () if !list.td.is_empty() => T::VtListTensorDesc,
                () if !list.t.is_empty() => T::VtListTensor,
                () if !list.g.is_empty() => T::VtListGraph,
                () if !list.na.is_empty() => T::VtListNamedAttrs,
                () if !list.dt.is_empty() => T::VtListDataType,
                () => T::VtListNone,
            },
            kind => kind,
        };
        match kind {
            T::VtListNone => Self::EmptyList,
            T::VtListString => {
                let texts: Result<Vec<&str>, _> = list.s.iter().map(|text| std::str::from_utf8(text)).collect();
                match texts {
                    Ok(texts) => Self::Strs(texts.into_iter().map(str::to_string).collect()),
                    Err(_) => Self::BytesList(list.s.clone()),
                }
            }
            T::VtListInt => Self::Ints(list.i.clone()),
            T::VtListFloat => Self::Floats(list.f.clone()),
            T::VtListBool => Self::Bools(list.b.clone()),
            T::VtListBytes => Self::BytesList(list.bt.clone()),
            T::VtListTensorDesc => Self::Descs(list.td.clone()),
            T::VtListTensor => Self::Tensors(list.t.clone()),
            T::VtListGraph => Self::Graphs(list.g.clone()),
            T::VtListNamedAttrs => Self::NamedList(list.na.clone()),
            T::VtListDataType => Self::DataTypes(list.dt.clone()),
        }
    }
}

/// Wraps a value that readers in use cannot handle into a bundle that they skip.
fn wrapped(value: attr_def::Value) -> attr_def::Value {
    let attr = BTreeMap::from([(WRAPPED_VALUE.to_string(), AttrDef { value: Some(value) })]);
    attr_def::Value::Func(Box::new(NamedAttrs { name: WRAPPED.to_string(), attr }))
}

impl From<Value> for AttrDef {
    fn from(value: Value) -> Self {
        use ListValueType as T;
        let list =
            |kind: T, list: ListValue| attr_def::Value::List(Box::new(ListValue { val_type: kind as i32, ..list }));
        let empty = ListValue::default;
        let value = match value {
            Value::Int(value) => attr_def::Value::I(value),
            Value::Float(value) => attr_def::Value::F(value),
            Value::Bool(value) => attr_def::Value::B(value),
            Value::Str(value) => attr_def::Value::S(value.into()),
            Value::Bytes(value) => attr_def::Value::Bt(value),
            Value::DataType(value) if value > LAST_PUBLIC_DTYPE.into() => wrapped(attr_def::Value::Dt(value)),
            Value::DataType(value) => attr_def::Value::Dt(value),
            Value::Expression(value) => attr_def::Value::Expression(value),
            Value::Desc(value) => wrapped(attr_def::Value::Td(Box::new(value))),
            Value::Tensor(value) => attr_def::Value::T(Box::new(value)),
            Value::Graph(value) => attr_def::Value::G(Box::new(value)),
            Value::Named(value) => attr_def::Value::Func(Box::new(value)),
            Value::EmptyList => list(T::VtListNone, empty()),
            Value::Ints(i) => list(T::VtListInt, ListValue { i, ..empty() }),
            Value::Floats(f) => list(T::VtListFloat, ListValue { f, ..empty() }),
            Value::Bools(b) => list(T::VtListBool, ListValue { b, ..empty() }),
            Value::Strs(texts) => {
                let s = texts.into_iter().map(Bytes::from).collect();
                list(T::VtListString, ListValue { s, ..empty() })
            }
            Value::BytesList(bt) => list(T::VtListBytes, ListValue { bt, ..empty() }),
            Value::DataTypes(dt) => list(T::VtListDataType, ListValue { dt, ..empty() }),
            Value::Descs(td) => list(T::VtListTensorDesc, ListValue { td, ..empty() }),
            Value::Tensors(t) => list(T::VtListTensor, ListValue { t, ..empty() }),
            Value::Graphs(g) => list(T::VtListGraph, ListValue { g, ..empty() }),
            Value::NamedList(na) => list(T::VtListNamedAttrs, ListValue { na, ..empty() }),
            Value::IntLists(lists) => attr_def::Value::ListListInt(Box::new(ListListInt {
                list_list_i: lists.into_iter().map(|list_i| ListInt { list_i }).collect(),
            })),
            Value::FloatLists(lists) => wrapped(attr_def::Value::ListListFloat(Box::new(ListListFloat {
                list_list_f: lists.into_iter().map(|list_f| ListFloat { list_f }).collect(),
            }))),
        };
        Self { value: Some(value) }
    }
}

macro_rules! value_from {
    ($($from:ty => $variant:ident,)*) => {
        $(impl From<$from> for Value {
            fn from(value: $from) -> Self {
                Self::$variant(value.into())
            }
        })*
    };
}

value_from! {
    i64 => Int,
    u32 => Int,
    f32 => Float,
    bool => Bool,
    &str => Str,
    String => Str,
    Bytes => Bytes,
    Vec<i64> => Ints,
    &[i64] => Ints,
    Vec<f32> => Floats,
    Vec<bool> => Bools,
    Vec<String> => Strs,
    TensorDescriptor => Desc,
    TensorDef => Tensor,
    GraphDef => Graph,
    NamedAttrs => Named,
    Vec<TensorDescriptor> => Descs,
    Vec<Vec<i64>> => IntLists,
}

impl From<DataType> for Value {
    fn from(value: DataType) -> Self {
        Self::DataType(i64::from(value as i32))
    }
}

/// Error: an attribute exists but has another kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("attribute {name} is {found}, expected {expected}")]
pub struct AttrError {
    /// Name of the attribute.
    pub name: String,
    /// The kind found.
    pub found: &'static str,
    /// The expected kind.
    pub expected: &'static str,
}

fn wrong(name: &str, attr: &AttrDef, expected: &'static str) -> AttrError {
    let found = Value::of(attr).map_or("nothing that is known here", |value| value.kind());
    AttrError { name: name.to_string(), found, expected }
}

/// Access to attributes by name. Each getter returns `Ok(None)` if the attribute is missing and an
/// [`AttrError`] if it has another kind.
pub trait AttrMap {
    /// Sets an attribute; replaces an old value.
    fn set(&mut self, name: &str, value: impl Into<Value>);
    /// Reads an attribute of any kind.
    ///
    /// # Errors
    /// Fails if the kind is unknown.
    fn value(&self, name: &str) -> Result<Option<Value>, AttrError>;
    /// Reads an integer.
    ///
    /// # Errors
    /// Fails if the attribute has another kind.
    fn int(&self, name: &str) -> Result<Option<i64>, AttrError>;
    /// Reads a float.
    ///
    /// # Errors
    /// Fails if the attribute has another kind.
    fn float(&self, name: &str) -> Result<Option<f32>, AttrError>;
    /// Reads a boolean.
    ///
    /// # Errors
    /// Fails if the attribute has another kind.
    fn bool(&self, name: &str) -> Result<Option<bool>, AttrError>;
    /// Reads a string.
    ///
    /// # Errors
    /// Fails if the attribute has another kind or is not UTF-8.
    fn str(&self, name: &str) -> Result<Option<&str>, AttrError>;
    /// Reads bytes.
    ///
    /// # Errors
    /// Fails if the attribute has another kind.
    fn bytes(&self, name: &str) -> Result<Option<&Bytes>, AttrError>;
    /// Reads a list of integers; an empty list without a kind is accepted.
    ///
    /// # Errors
    /// Fails if the attribute has another kind.
    fn ints(&self, name: &str) -> Result<Option<&[i64]>, AttrError>;
    /// Reads a list of strings; an empty list without a kind is accepted.
    ///
    /// # Errors
    /// Fails if the attribute has another kind or a string is not UTF-8.
    fn strs(&self, name: &str) -> Result<Option<Vec<&str>>, AttrError>;
    /// Reads a tensor.
    ///
    /// # Errors
    /// Fails if the attribute has another kind.
    fn tensor(&self, name: &str) -> Result<Option<&TensorDef>, AttrError>;
}

/// Body of a getter: matches the attribute's value against the accepted forms.
macro_rules! read {
    ($map:expr, $name:expr, $expected:literal, $($form:pat => $result:expr,)+) => {{
        let Some(attr) = $map.get($name) else { return Ok(None) };
        match attr.value.as_ref() {
            $(Some($form) => $result,)+
            _ => None,
        }
        .map_or_else(|| Err(wrong($name, attr, $expected)), |value| Ok(Some(value)))
    }};
}

/// True where a list has the given kind, or no kind and nothing in it.
fn is_list(list: &ListValue, kind: ListValueType, len: usize) -> bool {
    let found = list.val_type();
    found == kind || (found == ListValueType::VtListNone && (len > 0 || *list == ListValue::default()))
}

impl AttrMap for BTreeMap<String, AttrDef> {
    fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.insert(name.to_string(), AttrDef::from(value.into()));
    }

    fn value(&self, name: &str) -> Result<Option<Value>, AttrError> {
        let Some(attr) = self.get(name) else { return Ok(None) };
        Value::of(attr).map(Some).ok_or_else(|| wrong(name, attr, "a known kind"))
    }

    fn int(&self, name: &str) -> Result<Option<i64>, AttrError> {
        read!(self, name, "an integer", attr_def::Value::I(value) => Some(*value),)
    }

    fn float(&self, name: &str) -> Result<Option<f32>, AttrError> {
        read!(self, name, "a float", attr_def::Value::F(value) => Some(*value),)
    }

    fn bool(&self, name: &str) -> Result<Option<bool>, AttrError> {
        read!(self, name, "a bool", attr_def::Value::B(value) => Some(*value),)
    }

    fn str(&self, name: &str) -> Result<Option<&str>, AttrError> {
        read!(self, name, "a string", attr_def::Value::S(value) => std::str::from_utf8(value).ok(),)
    }

    fn bytes(&self, name: &str) -> Result<Option<&Bytes>, AttrError> {
        read!(self, name, "bytes", attr_def::Value::Bt(value) => Some(value),)
    }

    fn ints(&self, name: &str) -> Result<Option<&[i64]>, AttrError> {
        read!(self, name, "a list of integers",
            attr_def::Value::List(list) =>
                is_list(list, ListValueType::VtListInt, list.i.len()).then_some(list.i.as_slice()),)
    }

    fn strs(&self, name: &str) -> Result<Option<Vec<&str>>, AttrError> {
        let texts = |list: &'_ ListValue| is_list(list, ListValueType::VtListString, list.s.len());
        read!(self, name, "a list of strings",
            attr_def::Value::List(list) => texts(list)
                .then(|| list.s.iter().map(|text| std::str::from_utf8(text).ok()).collect::<Option<Vec<_>>>())
                .flatten(),)
    }

    fn tensor(&self, name: &str) -> Result<Option<&TensorDef>, AttrError> {
        read!(self, name, "a tensor", attr_def::Value::T(value) => Some(value.as_ref()),)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Value> {
        let desc = crate::desc::tensor_desc(DataType::DtBf16, &[2, 3], "NCHW");
        let tensor = TensorDef { desc: Some(desc.clone()), data: Bytes::from_static(b"abc") };
        let graph = GraphDef { name: "g".into(), ..Default::default() };
        let named = NamedAttrs { name: "n".into(), attr: BTreeMap::from([("k".into(), Value::Int(1).into())]) };
        vec![
            Value::Int(-5),
            Value::Float(0.25),
            Value::Bool(false),
            Value::Str(String::new()),
            Value::Str("übrig".into()),
            Value::Bytes(Bytes::from_static(b"\xFF\x00")),
            Value::DataType(0),
            Value::DataType(31),
            Value::DataType(32),
            Value::Expression(Bytes::from_static(b"s0 + 1")),
            Value::Desc(desc.clone()),
            Value::Tensor(tensor.clone()),
            Value::Graph(graph.clone()),
            Value::Named(named.clone()),
            Value::EmptyList,
            Value::Ints(vec![]),
            Value::Ints(vec![i64::MIN, 0, i64::MAX]),
            Value::Floats(vec![]),
            Value::Floats(vec![f32::MAX, -0.0]),
            Value::Bools(vec![true, false]),
            Value::Strs(vec![]),
            Value::Strs(vec!["a".into(), String::new()]),
            Value::BytesList(vec![Bytes::from_static(b"\xFF"), Bytes::new()]),
            Value::DataTypes(vec![1, 42]),
            Value::Descs(vec![desc.clone(), desc]),
            Value::Tensors(vec![tensor]),
            Value::Graphs(vec![graph]),
            Value::NamedList(vec![named]),
            Value::IntLists(vec![vec![1, 2], vec![], vec![3]]),
            Value::FloatLists(vec![vec![0.5], vec![]]),
        ]
    }

    #[test]
    fn every_kind_survives_the_wire() {
        use prost::Message as _;
        for value in samples() {
            let bytes = AttrDef::from(value.clone()).encode_to_vec();
            let back = AttrDef::decode(bytes.as_slice()).unwrap();
            assert_eq!(Value::of(&back), Some(value));
        }
    }

    #[test]
    fn values_that_other_readers_refuse_are_wrapped() {
        for value in samples() {
            let hidden = match &value {
                Value::DataType(number) => *number > 31,
                Value::Desc(_) | Value::FloatLists(_) => true,
                _ => false,
            };
            let attr = AttrDef::from(value);
            let wrapped = matches!(&attr.value, Some(attr_def::Value::Func(bundle)) if bundle.name == WRAPPED);
            assert_eq!(wrapped, hidden, "{attr:?}");
        }
        let plain = AttrDef { value: Some(attr_def::Value::Td(Box::default())) };
        assert_eq!(Value::of(&plain), Some(Value::Desc(TensorDescriptor::default())));
    }

    #[test]
    fn lists_without_a_kind_are_what_they_hold() {
        let list = ListValue { f: vec![1.0], ..Default::default() };
        let attr = AttrDef { value: Some(attr_def::Value::List(Box::new(list))) };
        assert_eq!(Value::of(&attr), Some(Value::Floats(vec![1.0])));
        let list = ListValue { s: vec![Bytes::from_static(b"\xFF")], ..Default::default() };
        let attr = AttrDef { value: Some(attr_def::Value::List(Box::new(list))) };
        assert_eq!(Value::of(&attr), Some(Value::BytesList(vec![Bytes::from_static(b"\xFF")])));
    }

    #[test]
    fn readers_tell_missing_from_wrong() {
        let mut map = BTreeMap::new();
        map.set("i", 7_i64);
        map.set("s", "text");
        map.set("l", vec![1_i64, 2]);
        map.set("n", Value::EmptyList);
        map.set("f", vec![1.0_f32]);
        map.set("t", vec!["a".to_string()]);
        assert_eq!(map.int("i"), Ok(Some(7)));
        assert_eq!(map.int("j"), Ok(None));
        assert_eq!(map.str("s"), Ok(Some("text")));
        assert_eq!(map.ints("l"), Ok(Some(&[1, 2][..])));
        assert_eq!(map.ints("n"), Ok(Some(&[][..])));
        assert_eq!(map.strs("n"), Ok(Some(vec![])));
        assert_eq!(map.strs("t"), Ok(Some(vec!["a"])));
        let error = map.ints("f").unwrap_err();
        assert_eq!(error.to_string(), "attribute f is a list of floats, expected a list of integers");
        assert!(map.float("i").is_err() && map.bool("i").is_err() && map.bytes("s").is_err());
        map.insert("none".into(), AttrDef::default());
        assert!(map.value("none").is_err());
    }
}
