//! Attributes of a node, and whether one of them names a graph: few do, and every node is asked,
//! often.
use ge_plugin_api::types::{AttrMap, AttrValue, Key};

/// Attributes of a node. Read as an [`AttrMap`], changed here alone.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeAttrs {
    map: AttrMap,
    /// One may name a graph.
    graphs: bool,
}

fn may_name(value: &AttrValue) -> bool {
    matches!(value, AttrValue::Graph(_) | AttrValue::List(_))
}

impl NodeAttrs {
    /// Sets a value, replacing an old one.
    pub fn set(&mut self, key: impl Into<Key>, value: impl Into<AttrValue>) {
        let value = value.into();
        self.graphs |= may_name(&value);
        self.map.set(key, value);
    }
    /// Removes a value and gives it back.
    pub fn remove(&mut self, key: impl Into<Key>) -> Option<AttrValue> {
        self.map.remove(key)
    }
    /// The map alone.
    pub fn into_map(self) -> AttrMap {
        self.map
    }
    /// Names of the graphs that they name, in the order of keys (lists in list order).
    pub fn subgraphs(&self) -> Vec<&str> {
        if self.graphs { super::subgraphs(&self.map) } else { Vec::new() }
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
        NodeAttrs { graphs: map.iter().any(|a| may_name(&a.value)), map }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
