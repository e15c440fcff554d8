//! Attribute values and maps.
use crate::abi::{RString, RVec, StableAbi};
use crate::types::{ConstTensor, DType, Key};

/// The value of an attribute. Lists of integers, floats or strings have their own variants; an
/// empty list is always `Ints`.
#[repr(u8)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub enum AttrValue {
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// A string.
    Str(RString),
    /// An element type.
    Type(DType),
    /// A list of integers; also every empty list.
    Ints(RVec<i64>),
    /// A list of floats.
    Floats(RVec<f64>),
    /// A list of strings.
    Strs(RVec<RString>),
    /// Any other list: of mixed kinds, or of a kind without a variant of its own.
    List(RVec<AttrValue>),
    /// Named values, in the order given.
    Dict(RVec<DictEntry>),
    /// The name of a subgraph, printed as `@name`.
    Graph(RString),
    /// A constant tensor.
    Tensor(ConstTensor),
}

/// One entry of a dictionary.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub struct DictEntry {
    /// Name.
    pub key: RString,
    /// Value.
    pub value: AttrValue,
}

/// A named attribute.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub struct Attr {
    /// Interned name of the attribute.
    pub key: Key,
    /// Value.
    pub value: AttrValue,
}

/// Attributes of a node, descriptor or graph, in the order in which they were set.
#[repr(transparent)]
#[derive(Clone, Debug, Default, StableAbi)]
pub struct AttrMap(RVec<Attr>);

impl PartialEq for AttrMap {
    /// Compares them as sets: the order does not matter.
    fn eq(&self, other: &AttrMap) -> bool {
        self.0.len() == other.0.len() && self.0.iter().all(|a| other.get(a.key) == Some(&a.value))
    }
}

impl AttrMap {
    /// The value of a key, if it is set.
    pub fn get(&self, key: impl Into<Key>) -> Option<&AttrValue> {
        if self.0.is_empty() {
            return None;
        }
        let key = key.into();
        self.0.iter().find(|a| a.key == key).map(|a| &a.value)
    }
    /// Sets a value and replaces the previous one, if any.
    pub fn set(&mut self, key: impl Into<Key>, value: impl Into<AttrValue>) {
        let (key, value) = (key.into(), value.into());
        match self.0.iter_mut().find(|a| a.key == key) {
            Some(a) => a.value = value,
            None => self.0.push(Attr { key, value }),
        }
    }
    /// Builds a map from attributes whose keys are known to be distinct, without the search that
    /// [`AttrMap::set`] makes for each key.
    pub fn from_distinct(attrs: RVec<Attr>) -> AttrMap {
        AttrMap(attrs)
    }
    /// Removes a value and returns it.
    pub fn remove(&mut self, key: impl Into<Key>) -> Option<AttrValue> {
        let key = key.into();
        let i = self.0.iter().position(|a| a.key == key)?;
        Some(self.0.remove(i).value)
    }
    /// Whether there are no attributes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Number of attributes.
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// Iterates over the attributes in the order in which they were set.
    pub fn iter(&self) -> core::slice::Iter<'_, Attr> {
        self.0.iter()
    }
    /// The attributes as a slice, in the order in which they were set.
    pub fn as_slice(&self) -> &[Attr] {
        &self.0
    }
    /// The attributes sorted by name, for printing and hashing.
    pub fn sorted(&self) -> Vec<&Attr> {
        let mut v: Vec<&Attr> = self.0.iter().collect();
        v.sort_by_key(|a| a.key.as_str());
        v
    }
    /// Keeps the attributes for which `f` returns true and removes the others.
    pub fn retain(&mut self, f: impl Fn(&Attr) -> bool) {
        self.0.retain(|a| f(a));
    }
    /// The value as an integer; `None` if it is missing or of another kind.
    pub fn int(&self, key: impl Into<Key>) -> Option<i64> {
        self.get(key)?.as_int()
    }
    /// The value as a float (an integer is converted); `None` if it is missing or of another kind.
    pub fn float(&self, key: impl Into<Key>) -> Option<f64> {
        self.get(key)?.as_float()
    }
    /// The value as a boolean (the integers 1 and 0 count); `None` if it is missing or anything
    /// else.
    pub fn bool(&self, key: impl Into<Key>) -> Option<bool> {
        self.get(key)?.as_bool()
    }
    /// Whether the value is present and true.
    pub fn flag(&self, key: impl Into<Key>) -> bool {
        self.bool(key).unwrap_or(false)
    }
    /// The value as a string; `None` if it is missing or of another kind.
    pub fn str(&self, key: impl Into<Key>) -> Option<&str> {
        self.get(key)?.as_str()
    }
    /// The value as a list of integers; `None` if it is missing or of another kind.
    pub fn ints(&self, key: impl Into<Key>) -> Option<&[i64]> {
        self.get(key)?.as_ints()
    }
    /// The value as a list of floats; `None` if it is missing or of another kind.
    pub fn floats(&self, key: impl Into<Key>) -> Option<&[f64]> {
        self.get(key)?.as_floats()
    }
    /// The value as a list of strings; `None` if it is missing or of another kind.
    pub fn strs(&self, key: impl Into<Key>) -> Option<Vec<&str>> {
        self.get(key)?.as_strs()
    }
    /// The value as a constant tensor; `None` if it is missing or of another kind.
    pub fn tensor(&self, key: impl Into<Key>) -> Option<&ConstTensor> {
        match self.get(key)? {
            AttrValue::Tensor(t) => Some(t),
            _ => None,
        }
    }
}

impl From<&[Attr]> for AttrMap {
    /// The keys must be distinct, as those of a node are.
    fn from(attrs: &[Attr]) -> AttrMap {
        AttrMap(attrs.into())
    }
}
impl FromIterator<Attr> for AttrMap {
    fn from_iter<I: IntoIterator<Item = Attr>>(iter: I) -> AttrMap {
        let mut m = AttrMap::default();
        for a in iter {
            m.set(a.key, a.value);
        }
        m
    }
}
impl<'a> IntoIterator for &'a AttrMap {
    type Item = &'a Attr;
    type IntoIter = core::slice::Iter<'a, Attr>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl AttrValue {
    /// Builds a list in its canonical variant: `Ints`, `Floats` or `Strs` if all members are of
    /// that kind, otherwise `List`.
    pub fn list(values: Vec<AttrValue>) -> AttrValue {
        if values.iter().all(|v| matches!(v, AttrValue::Int(_))) {
            return AttrValue::Ints(values.iter().filter_map(AttrValue::as_int).collect());
        }
        if values.iter().all(|v| matches!(v, AttrValue::Float(_))) {
            return AttrValue::Floats(values.iter().filter_map(AttrValue::as_float).collect());
        }
        if values.iter().all(|v| matches!(v, AttrValue::Str(_))) {
            return AttrValue::Strs(
                values.into_iter().filter_map(|v| if let AttrValue::Str(s) = v { Some(s) } else { None }).collect(),
            );
        }
        AttrValue::List(values.into())
    }
    /// The value as an integer.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            AttrValue::Int(v) => Some(*v),
            _ => None,
        }
    }
    /// The value as a float; an integer is converted.
    pub fn as_float(&self) -> Option<f64> {
        match self {
            AttrValue::Float(v) => Some(*v),
            AttrValue::Int(v) => Some(*v as f64),
            _ => None,
        }
    }
    /// The value as a boolean; the integers 1 and 0 count.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            AttrValue::Bool(v) => Some(*v),
            AttrValue::Int(0) => Some(false),
            AttrValue::Int(1) => Some(true),
            _ => None,
        }
    }
    /// The value as a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            AttrValue::Str(v) => Some(v),
            _ => None,
        }
    }
    /// The value as a list of integers.
    pub fn as_ints(&self) -> Option<&[i64]> {
        match self {
            AttrValue::Ints(v) => Some(v),
            _ => None,
        }
    }
    /// The value as a list of floats; an empty list counts.
    pub fn as_floats(&self) -> Option<&[f64]> {
        match self {
            AttrValue::Floats(v) => Some(v),
            AttrValue::Ints(v) if v.is_empty() => Some(&[]),
            _ => None,
        }
    }
    /// The value as a list of strings; an empty list counts.
    pub fn as_strs(&self) -> Option<Vec<&str>> {
        match self {
            AttrValue::Strs(v) => Some(v.iter().map(|s| s.as_str()).collect()),
            AttrValue::Ints(v) if v.is_empty() => Some(Vec::new()),
            _ => None,
        }
    }
    /// The entries, if the value is a dictionary.
    pub fn as_dict(&self) -> Option<&[DictEntry]> {
        match self {
            AttrValue::Dict(v) => Some(v),
            _ => None,
        }
    }
    /// The kind of the value as a word for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            AttrValue::Int(_) => "integer",
            AttrValue::Float(_) => "float",
            AttrValue::Bool(_) => "boolean",
            AttrValue::Str(_) => "string",
            AttrValue::Type(_) => "type",
            AttrValue::Ints(_) => "list of integers",
            AttrValue::Floats(_) => "list of floats",
            AttrValue::Strs(_) => "list of strings",
            AttrValue::List(_) => "list",
            AttrValue::Dict(_) => "dictionary",
            AttrValue::Graph(_) => "graph",
            AttrValue::Tensor(_) => "tensor",
        }
    }
}

macro_rules! from {
    ($($t:ty => |$v:ident| $e:expr),+ $(,)?) => {$(
        impl From<$t> for AttrValue { fn from($v: $t) -> AttrValue { $e } }
    )+};
}
from! {
    i64 => |v| AttrValue::Int(v),
    i32 => |v| AttrValue::Int(i64::from(v)),
    u32 => |v| AttrValue::Int(i64::from(v)),
    f64 => |v| AttrValue::Float(v),
    f32 => |v| AttrValue::Float(f64::from(v)),
    bool => |v| AttrValue::Bool(v),
    &str => |v| AttrValue::Str(v.into()),
    String => |v| AttrValue::Str(v.into()),
    RString => |v| AttrValue::Str(v),
    DType => |v| AttrValue::Type(v),
    Vec<i64> => |v| AttrValue::Ints(v.into()),
    &[i64] => |v| AttrValue::Ints(v.into()),
    Vec<f64> => |v| AttrValue::Floats(v.into()),
    Vec<String> => |v| AttrValue::Strs(v.into_iter().map(RString::from).collect()),
    ConstTensor => |v| AttrValue::Tensor(v),
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn maps_are_sets_with_canonical_lists() {
        let mut a = AttrMap::default();
        a.set("x", 1i64);
        a.set("y", "t");
        let mut b = AttrMap::default();
        b.set("y", "t");
        b.set("x", 2i64);
        assert_ne!(a, b);
        b.set("x", 1i64);
        assert_eq!(a, b);
        assert_eq!(AttrValue::list(vec![AttrValue::Int(1), AttrValue::Int(2)]), AttrValue::from(vec![1i64, 2]));
        assert_eq!(a.sorted().iter().map(|a| a.key.as_str()).collect::<Vec<_>>(), ["x", "y"]);
        assert_eq!(b.remove("x"), Some(AttrValue::Int(1)));
        assert_eq!(b.int("x"), None);
    }
}
