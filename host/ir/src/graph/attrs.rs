//! The attributes of a node with a summary of their keys. Nodes are often asked for attributes that
//! few of them have; the summary answers most of these questions without a search.
use ge_plugin_api::types::{AttrMap, AttrValue, ConstTensor, Key};

/// Attributes of a node. They can be read as an [`AttrMap`] but changed only by methods of this
/// type.
#[derive(Clone, Debug, Default)]
pub struct NodeAttrs {
    map: AttrMap,
    /// A bit for each key that may be set (see [`mark`]), and one bit for values that may name a
    /// graph.
    marks: u64,
}

/// The bit for values that may name a graph.
const GRAPHS: u64 = 1 << 63;

fn may_name(value: &AttrValue) -> bool {
    matches!(value, AttrValue::Graph(_) | AttrValue::List(_))
}

/// The bits that an attribute sets.
fn marks(key: Key, value: &AttrValue) -> u64 {
    mark(key) | if may_name(value) { GRAPHS } else { 0 }
}

/// The bit of a key; several keys share one bit.
fn mark(key: Key) -> u64 {
    1 << (key.index() % 63)
}

impl NodeAttrs {
    /// Sets a value; replaces the old one if there is one.
    pub(crate) fn set(&mut self, key: impl Into<Key>, value: impl Into<AttrValue>) {
        let (key, value) = (key.into(), value.into());
        self.marks |= marks(key, &value);
        self.map.set(key, value);
    }
    /// Removes a value and returns it.
    pub(crate) fn remove(&mut self, key: impl Into<Key>) -> Option<AttrValue> {
        self.map.remove(key)
    }
    /// Returns the plain map.
    pub(crate) fn into_map(self) -> AttrMap {
        self.map
    }
    /// Names of the graphs that the attributes name, in attribute order (lists in list order).
    pub(crate) fn subgraphs(&self) -> Vec<&str> {
        if self.marks & GRAPHS != 0 { super::subgraphs(&self.map) } else { Vec::new() }
    }
    /// A copy of the map.
    pub fn to_map(&self) -> AttrMap {
        self.map.clone()
    }
    /// The value of a key; `None` if it is not set.
    pub fn get(&self, key: impl Into<Key>) -> Option<&AttrValue> {
        if self.marks == 0 {
            return None;
        }
        let key = key.into();
        if self.marks & mark(key) == 0 { None } else { self.map.get(key) }
    }
    /// The value of a key as an integer; `None` if it is not set or of another kind.
    pub fn int(&self, key: impl Into<Key>) -> Option<i64> {
        self.get(key)?.as_int()
    }
    /// The value of a key as a float; an integer is converted.
    pub fn float(&self, key: impl Into<Key>) -> Option<f64> {
        self.get(key)?.as_float()
    }
    /// The value of a key as a boolean; the integers 1 and 0 count as true and false.
    pub fn bool(&self, key: impl Into<Key>) -> Option<bool> {
        self.get(key)?.as_bool()
    }
    /// Whether the key is set to true.
    pub fn flag(&self, key: impl Into<Key>) -> bool {
        self.bool(key).unwrap_or(false)
    }
    /// The value of a key as text.
    pub fn str(&self, key: impl Into<Key>) -> Option<&str> {
        self.get(key)?.as_str()
    }
    /// The value of a key as a list of integers.
    pub fn ints(&self, key: impl Into<Key>) -> Option<&[i64]> {
        self.get(key)?.as_ints()
    }
    /// The value of a key as a list of floats.
    pub fn floats(&self, key: impl Into<Key>) -> Option<&[f64]> {
        self.get(key)?.as_floats()
    }
    /// The value of a key as a list of texts.
    pub fn strs(&self, key: impl Into<Key>) -> Option<Vec<&str>> {
        self.get(key)?.as_strs()
    }
    /// The value of a key as a constant tensor.
    pub fn tensor(&self, key: impl Into<Key>) -> Option<&ConstTensor> {
        match self.get(key)? {
            AttrValue::Tensor(t) => Some(t),
            _ => None,
        }
    }
}

impl std::ops::Deref for NodeAttrs {
    type Target = AttrMap;
    fn deref(&self) -> &AttrMap {
        &self.map
    }
}

impl From<AttrMap> for NodeAttrs {
    fn from(map: AttrMap) -> NodeAttrs {
        NodeAttrs { marks: map.iter().fold(0, |all, a| all | marks(a.key, &a.value)), map }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_attribute_is_found_and_no_other() {
        let keys: Vec<Key> = (0..200).map(|k| Key::new(&format!("each_attribute_{k}"))).collect();
        let mut attrs = NodeAttrs::default();
        assert!(keys.iter().all(|k| attrs.get(*k).is_none()));
        keys.iter().step_by(2).for_each(|k| attrs.set(*k, i64::from(k.index())));
        let found = |attrs: &NodeAttrs, k: &Key| attrs.int(*k) == Some(i64::from(k.index()));
        assert!(keys.iter().enumerate().all(|(i, k)| found(&attrs, k) == (i % 2 == 0)));
        assert!(keys.iter().enumerate().all(|(i, k)| found(&attrs.to_map().into(), k) == (i % 2 == 0)));
        attrs.remove(keys[0]);
        assert!(attrs.get(keys[0]).is_none());
        attrs.set(keys[0], 1i64);
        assert_eq!(attrs.int(keys[0]), Some(1));
    }

    #[test]
    fn names_of_graphs_are_known_however_they_come_in() {
        let graph = |n: &str| AttrValue::Graph(n.into());
        let mut map = AttrMap::default();
        map.set("then_branch", graph("t"));
        let mut a = NodeAttrs::from(map);
        assert_eq!(a.subgraphs(), ["t"]);
        a.set("axis", 1i64);
        a.set("branches", AttrValue::List(vec![graph("a"), graph("b")].into()));
        assert_eq!(a.subgraphs(), ["a", "b", "t"]);
        a.remove("branches");
        a.set("then_branch", 2i64);
        assert_eq!(a.subgraphs(), Vec::<&str>::new());
        assert_eq!(a.into_map().len(), 2);
    }
}
