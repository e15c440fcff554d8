//! Attribute values and maps.
use crate::abi::{RString, RVec, StableAbi};
use crate::types::{ConstTensor, DType, Key};

/// The value of an attribute. Lists of one kind have their own variant; an empty list is `Ints`.
#[repr(u8)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub enum AttrValue {
    /// A whole number.
    Int(i64),
    /// A real number.
    Float(f64),
    /// true or false.
    Bool(bool),
    /// Text.
    Str(RString),
    /// An element type.
    Type(DType),
    /// Whole numbers; also every empty list.
    Ints(RVec<i64>),
    /// Real numbers.
    Floats(RVec<f64>),
    /// Texts.
    Strs(RVec<RString>),
    /// Any other list.
    List(RVec<AttrValue>),
    /// Named values, in order.
    Dict(RVec<DictEntry>),
    /// A subgraph by name, `@name`.
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
    /// Interned name.
    pub key: Key,
    /// Value.
    pub value: AttrValue,
}

/// Attributes of a node, descriptor or graph, in the order in which they were set.
#[repr(transparent)]
#[derive(Clone, Debug, Default, StableAbi)]
pub struct AttrMap(RVec<Attr>);

impl PartialEq for AttrMap {
    /// Equal as sets: order does not matter.
    fn eq(&self, other: &AttrMap) -> bool {
        self.0.len() == other.0.len() && self.0.iter().all(|a| other.get(a.key) == Some(&a.value))
    }
}

impl AttrMap {
    /// The value of a key.
    pub fn get(&self, key: impl Into<Key>) -> Option<&AttrValue> {
        if self.0.is_empty() {
            return None;
        }
        let key = key.into();
        self.0.iter().find(|a| a.key == key).map(|a| &a.value)
    }
    /// Sets a value, replacing an old one.
    pub fn set(&mut self, key: impl Into<Key>, value: impl Into<AttrValue>) {
        let (key, value) = (key.into(), value.into());
        match self.0.iter_mut().find(|a| a.key == key) {
            Some(a) => a.value = value,
            None => self.0.push(Attr { key, value }),
        }
    }
    /// A map of attributes whose keys are known to differ: linear, where setting each searches.
    pub fn from_distinct(attrs: RVec<Attr>) -> AttrMap {
        AttrMap(attrs)
    }
    /// Removes a value and gives it back.
    pub fn remove(&mut self, key: impl Into<Key>) -> Option<AttrValue> {
        let key = key.into();
        let i = self.0.iter().position(|a| a.key == key)?;
        Some(self.0.remove(i).value)
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Number of attributes.
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// In the order set.
    pub fn iter(&self) -> core::slice::Iter<'_, Attr> {
        self.0.iter()
    }
    /// As a slice, in the order set.
    pub fn as_slice(&self) -> &[Attr] {
        &self.0
    }
    /// Sorted by name, for printing and hashing.
    pub fn sorted(&self) -> Vec<&Attr> {
        let mut v: Vec<&Attr> = self.0.iter().collect();
        v.sort_by_key(|a| a.key.as_str());
        v
    }
    /// Keeps those for which `f` holds.
    pub fn retain(&mut self, f: impl Fn(&Attr) -> bool) {
        self.0.retain(|a| f(a));
    }
    /// A whole number.
    pub fn int(&self, key: impl Into<Key>) -> Option<i64> {
        self.get(key)?.as_int()
    }
    /// A real number (a whole one counts).
    pub fn float(&self, key: impl Into<Key>) -> Option<f64> {
        self.get(key)?.as_float()
    }
    /// A truth value (1 and 0 count).
    pub fn bool(&self, key: impl Into<Key>) -> Option<bool> {
        self.get(key)?.as_bool()
    }
    /// Whether the value is there and true.
    pub fn flag(&self, key: impl Into<Key>) -> bool {
        self.bool(key).unwrap_or(false)
    }
    /// Text.
    pub fn str(&self, key: impl Into<Key>) -> Option<&str> {
        self.get(key)?.as_str()
    }
    /// Whole numbers.
    pub fn ints(&self, key: impl Into<Key>) -> Option<&[i64]> {
        self.get(key)?.as_ints()
    }
    /// Real numbers.
    pub fn floats(&self, key: impl Into<Key>) -> Option<&[f64]> {
        self.get(key)?.as_floats()
    }
    /// Texts.
    pub fn strs(&self, key: impl Into<Key>) -> Option<Vec<&str>> {
        self.get(key)?.as_strs()
    }
    /// A constant tensor.
    pub fn tensor(&self, key: impl Into<Key>) -> Option<&ConstTensor> {
        match self.get(key)? {
            AttrValue::Tensor(t) => Some(t),
            _ => None,
        }
    }
}

impl From<&[Attr]> for AttrMap {
    /// Of attributes with keys that differ, as a node has them.
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
    /// A list in its canonical variant: `Ints`, `Floats` or `Strs` where all members are of that
    /// kind.
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
    /// A whole number.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            AttrValue::Int(v) => Some(*v),
            _ => None,
        }
    }
    /// A real number (a whole one counts).
    pub fn as_float(&self) -> Option<f64> {
        match self {
            AttrValue::Float(v) => Some(*v),
            AttrValue::Int(v) => Some(*v as f64),
            _ => None,
        }
    }
    /// A truth value (1 and 0 count).
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            AttrValue::Bool(v) => Some(*v),
            AttrValue::Int(0) => Some(false),
            AttrValue::Int(1) => Some(true),
            _ => None,
        }
    }
    /// Text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            AttrValue::Str(v) => Some(v),
            _ => None,
        }
    }
    /// Whole numbers.
    pub fn as_ints(&self) -> Option<&[i64]> {
        match self {
            AttrValue::Ints(v) => Some(v),
            _ => None,
        }
    }
    /// Real numbers; an empty list counts.
    pub fn as_floats(&self) -> Option<&[f64]> {
        match self {
            AttrValue::Floats(v) => Some(v),
            AttrValue::Ints(v) if v.is_empty() => Some(&[]),
            _ => None,
        }
    }
    /// Texts; an empty list counts.
    pub fn as_strs(&self) -> Option<Vec<&str>> {
        match self {
            AttrValue::Strs(v) => Some(v.iter().map(|s| s.as_str()).collect()),
            AttrValue::Ints(v) if v.is_empty() => Some(Vec::new()),
            _ => None,
        }
    }
    /// The entries of a dictionary.
    pub fn as_dict(&self) -> Option<&[DictEntry]> {
        match self {
            AttrValue::Dict(v) => Some(v),
            _ => None,
        }
    }
    /// What kind of value it is, for messages.
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
