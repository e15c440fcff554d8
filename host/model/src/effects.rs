//! `EffectOrder`: which node of the imported graph reads or writes which variable, and in what
//! order.
//!
//! The order is written once, when a graph is imported, as the attribute `_effect_order` of the
//! root graph, and never changes. Nodes carry `_effect`: their place in the imported graphs, as
//! names of graph and node from the root inwards. To prove that a compiled model keeps the order,
//! take both and call `EffectIndex::relation`.
use crate::{CompiledModel, NodeInfo};
use ge_plugin_api::types::{AttrMap, AttrValue, DictEntry};
use std::collections::HashMap;

/// Attribute of the root graph that holds the order.
pub const ORDER: &str = "_effect_order";
/// Attribute of a node: its places in the imported graphs. A place lists graph and node names in
/// turn; an empty text separates places.
pub const EFFECT: &str = "_effect";

/// One access of a node to a variable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// Name of the node's graph.
    pub graph: String,
    /// Name of the node: an operator, or a call, branch or loop whose graphs make the access.
    pub node: String,
    /// Name of the variable. `&NAME` is the caller's memory behind a `RefData`; `#K` is what the
    /// caller passes as input K of the graph.
    pub variable: String,
    /// Position in the order of this graph; greater is later. Reads between the same two writes
    /// have the same position.
    pub step: u32,
    /// Whether the access writes.
    pub writes: bool,
}

/// All accesses of a model to variables that it writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EffectOrder {
    /// The accesses, in the order of the graphs.
    pub effects: Vec<Effect>,
}

/// The place of a node in the imported graphs: graph and node names, from the root inwards.
pub type Path = Vec<(String, String)>;

/// The order that the imported graph prescribes for two accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The first must end before the second begins.
    Before,
    /// The second must end before the first begins.
    After,
    /// No order is prescribed: the accesses share no variable, both read, exclude each other, or
    /// alternate.
    Free,
}

impl EffectOrder {
    /// The order with which a compiled model was imported; empty if the model writes no variable.
    pub fn of(model: &CompiledModel) -> EffectOrder {
        model.graphs.first().map(|g| EffectOrder::from_attrs(&g.attrs)).unwrap_or_default()
    }

    /// Reads the order from a root graph's attributes; entries that cannot be read are skipped.
    pub fn from_attrs(attrs: &AttrMap) -> EffectOrder {
        let Some(AttrValue::List(list)) = attrs.get(ORDER) else { return EffectOrder::default() };
        let effect = |v: &AttrValue| {
            let entries = v.as_dict()?;
            let get = |key: &str| entries.iter().find(|e| e.key.as_str() == key).map(|e| &e.value);
            let text = |key: &str| get(key).and_then(AttrValue::as_str).map(str::to_owned);
            Some(Effect {
                graph: text("graph")?,
                node: text("node")?,
                variable: text("variable")?,
                step: get("step").and_then(AttrValue::as_int).and_then(|i| u32::try_from(i).ok())?,
                writes: get("writes").and_then(AttrValue::as_bool)?,
            })
        };
        EffectOrder { effects: list.iter().filter_map(effect).collect() }
    }

    /// Writes the order to a root graph's attributes; writes nothing if no variable is written.
    pub fn to_attrs(&self, attrs: &mut AttrMap) {
        if self.effects.is_empty() {
            return;
        }
        let entry = |key: &str, value: AttrValue| DictEntry { key: key.into(), value };
        let dict = |e: &Effect| {
            let entries = [
                entry("graph", e.graph.as_str().into()),
                entry("node", e.node.as_str().into()),
                entry("step", i64::from(e.step).into()),
                entry("variable", e.variable.as_str().into()),
                entry("writes", e.writes.into()),
            ];
            AttrValue::Dict(entries.into_iter().collect())
        };
        attrs.set(ORDER, AttrValue::List(self.effects.iter().map(dict).collect()));
    }

    /// Builds an index for queries.
    pub fn index(&self) -> EffectIndex<'_> {
        let mut of: HashMap<&str, HashMap<&str, Vec<&Effect>>> = HashMap::new();
        for e in &self.effects {
            of.entry(e.graph.as_str()).or_default().entry(e.node.as_str()).or_default().push(e);
        }
        EffectIndex { of }
    }
}

/// An [`EffectOrder`] indexed by graph and node.
pub struct EffectIndex<'o> {
    of: HashMap<&'o str, HashMap<&'o str, Vec<&'o Effect>>>,
}

impl EffectIndex<'_> {
    /// The accesses of a node in a graph.
    pub fn of(&self, graph: &str, node: &str) -> &[&Effect] {
        self.of.get(graph).and_then(|g| g.get(node)).map_or(&[], Vec::as_slice)
    }

    /// The accesses of the node at the end of a path; variables have the names used in its own
    /// graph.
    fn touched(&self, path: &Path) -> impl Iterator<Item = &Effect> {
        path.last().map(|(g, n)| self.of(g, n)).unwrap_or_default().iter().copied()
    }

    /// The order of the accesses of two nodes, given their places in the imported graphs.
    pub fn relation(&self, a: &Path, b: &Path) -> Relation {
        let Some(k) = a.iter().zip(b).position(|(x, y)| x != y) else { return Relation::Free };
        let ((graph, x), (other, y)) = (&a[k], &b[k]);
        if graph != other {
            // They are branches of the same choice, or condition and body of the same loop.
            return Relation::Free;
        }
        // Inside a called graph a variable has either the name that it has outside or the name of
        // an input, which may stand for any variable.
        let is_touched = |path: &Path, variable: &str| {
            path.len() == k + 1 || self.touched(path).any(|e| e.variable == variable || e.variable.starts_with('#'))
        };
        let writes = |path: &Path, variable: &str| {
            self.touched(path).any(|e| e.writes && (e.variable == variable || e.variable.starts_with('#')))
        };
        for e in self.of(graph, x) {
            for f in self.of(graph, y).iter().filter(|f| f.variable == e.variable) {
                let both = is_touched(a, &e.variable) && is_touched(b, &e.variable);
                if !both || e.step == f.step || !(writes(a, &e.variable) || writes(b, &e.variable)) {
                    continue;
                }
                return if e.step < f.step { Relation::Before } else { Relation::After };
            }
        }
        Relation::Free
    }
}

/// Reads the places of a node from its attributes.
pub fn places_of_attrs(attrs: &AttrMap) -> Vec<Path> {
    let Some(AttrValue::Strs(texts)) = attrs.get(EFFECT) else { return Vec::new() };
    let texts: Vec<&str> = texts.iter().map(|t| t.as_str()).collect();
    let path = |p: &[&str]| p.chunks_exact(2).map(|c| (c[0].to_owned(), c[1].to_owned())).collect::<Path>();
    texts.split(|t| t.is_empty()).map(path).filter(|p| !p.is_empty()).collect()
}

/// Reads the places of a node of a compiled model.
pub fn places(node: &NodeInfo) -> Vec<Path> {
    places_of_attrs(&node.attrs)
}

/// Writes the places of a node into its attributes.
pub fn set_places(attrs: &mut AttrMap, places: &[Path]) {
    let mut texts: Vec<String> = Vec::new();
    for (k, p) in places.iter().enumerate() {
        if k > 0 {
            texts.push(String::new());
        }
        texts.extend(p.iter().flat_map(|(g, n)| [g.clone(), n.clone()]));
    }
    attrs.set(EFFECT, texts);
}

/// Updates the attributes of a node whose graph replaces the node `call`: the first place of `call`
/// is put in front of the node's own places.
pub fn go_into(attrs: &mut AttrMap, call: &AttrMap) {
    let (own, outer) = (places_of_attrs(attrs), places_of_attrs(call));
    let Some(outer) = outer.first().filter(|_| !own.is_empty()) else { return };
    let joined: Vec<Path> = own.into_iter().map(|p| outer.iter().cloned().chain(p).collect()).collect();
    set_places(attrs, &joined);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(graph: &str, node: &str, variable: &str, step: u32, writes: bool) -> Effect {
        Effect { graph: graph.into(), node: node.into(), variable: variable.into(), step, writes }
    }
    fn path(names: &[(&str, &str)]) -> Path {
        names.iter().map(|(g, n)| ((*g).to_owned(), (*n).to_owned())).collect()
    }

    #[test]
    fn an_order_is_read_as_it_was_written() {
        let order = EffectOrder { effects: vec![effect("main", "a", "v", 2, true), effect("f", "r", "#1", 1, false)] };
        let mut attrs = AttrMap::default();
        order.to_attrs(&mut attrs);
        assert_eq!(EffectOrder::from_attrs(&attrs), order);
        let places = vec![path(&[("main", "c"), ("f", "r")]), path(&[("main", "a")])];
        set_places(&mut attrs, &places);
        assert_eq!(places_of_attrs(&attrs), places);
    }

    #[test]
    fn nodes_of_a_call_stand_where_the_call_stands() {
        let order = EffectOrder {
            effects: vec![
                effect("main", "a", "v", 2, true),
                effect("main", "c", "v", 3, false),
                effect("main", "c", "w", 2, true),
                effect("main", "b", "v", 4, true),
                effect("f", "r", "v", 1, false),
                effect("f", "s", "w", 2, true),
            ],
        };
        let index = order.index();
        let (a, b) = (path(&[("main", "a")]), path(&[("main", "b")]));
        let (r, s) = (path(&[("main", "c"), ("f", "r")]), path(&[("main", "c"), ("f", "s")]));
        assert_eq!(index.relation(&a, &b), Relation::Before);
        assert_eq!(index.relation(&r, &a), Relation::After);
        assert_eq!(index.relation(&r, &b), Relation::Before);
        // It accesses only the other variable.
        assert_eq!(index.relation(&s, &b), Relation::Free);
        assert_eq!(index.relation(&r, &s), Relation::Free);
        let other = path(&[("main", "c"), ("g", "r")]);
        assert_eq!(index.relation(&r, &other), Relation::Free);
    }
}
