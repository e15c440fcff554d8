//! Keeps the model's own tensor names attached to the right values through every edit.
//!
//! A node's attribute [`ORIGIN_TENSORS`] lists, as `OUTPUT:NAME`, the tensors of the model that its
//! outputs stand for. The front end sets it, and passes need not know of it. When a patch makes
//! every reader of one value read another, and the first value is removed, left without readers or
//! recomputed by the same patch, its names move to the second value.
use super::journal::Journal;
use super::{EditError, Graph, Model};
use ge_plugin_api::abi::{RString, RVec};
use ge_plugin_api::types::{AttrMap, AttrValue, Key, NodeId, ValueRef};
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// Attribute of a node: the tensors of the model that its outputs stand for, as `OUTPUT:NAME`.
pub const ORIGIN_TENSORS: &str = "_origin_tensors";
static KEY: LazyLock<Key> = LazyLock::new(|| Key::new(ORIGIN_TENSORS));
/// Attributes that record where a node comes from and do not affect what it computes.
static RECORDS: LazyLock<[Key; 3]> =
    LazyLock::new(|| [*KEY, Key::new("_datadump_original_op_names"), Key::new("_pass_name")]);

/// The tensors of the model that a node stands for, as (output index, name).
pub fn origin_tensors(attrs: &AttrMap) -> impl Iterator<Item = (u32, &str)> {
    attrs.strs(*KEY).into_iter().flatten().filter_map(|t| {
        let (output, name) = t.split_once(':')?;
        Some((output.parse().ok()?, name))
    })
}

/// Attaches to values the tensor names that the front end reports.
pub fn give_names<'a>(g: &mut Graph, names: impl Iterator<Item = (ValueRef, &'a str)>) {
    let mut all: Vec<(ValueRef, &str)> = names.collect();
    // Names of the same node become adjacent and keep the order in which they were given.
    all.sort_by_key(|(v, _)| v.node);
    for own in all.chunk_by(|a, b| a.0.node == b.0.node) {
        let texts: RVec<RString> = own.iter().map(|(v, name)| numbered(v.output, name)).collect();
        g.set_attr(own[0].0.node, *KEY, AttrValue::Strs(texts));
    }
}

/// Formats `OUTPUT:NAME`.
fn numbered(output: u32, name: &str) -> RString {
    let mut text = String::with_capacity(name.len() + 2);
    match char::from_digit(output, 10) {
        Some(digit) => text.push(digit),
        None => text.push_str(&output.to_string()),
    }
    text.push(':');
    text.push_str(name);
    text.into()
}

/// Whether two nodes with these attributes do the same work; attributes that record their origin
/// are ignored.
pub fn same_work(a: &AttrMap, b: &AttrMap) -> bool {
    let plain = |m: &AttrMap| RECORDS.iter().all(|k| m.get(*k).is_none());
    if plain(a) && plain(b) {
        return super::same_attrs(a, b);
    }
    let without = |m: &AttrMap| -> AttrMap { m.iter().filter(|e| !RECORDS.contains(&e.key)).cloned().collect() };
    super::same_attrs(&without(a), &without(b))
}

/// One `ReplaceUses` edit of a value that has names.
struct Replaced {
    graph: usize,
    from: ValueRef,
    to: ValueRef,
    names: Vec<String>,
}

/// What one patch does to values that have names.
#[derive(Default)]
pub(super) struct Moves {
    replaced: Vec<Replaced>,
    /// Nodes whose type, inputs or attributes the patch itself changes.
    remade: HashSet<(usize, NodeId)>,
}

impl Moves {
    /// Records that the patch changes what a node computes.
    pub(super) fn remake(&mut self, g: &Graph, gi: usize, id: NodeId) {
        if g.get(id).is_some_and(|n| n.attrs.get(*KEY).is_some()) {
            self.remade.insert((gi, id));
        }
    }
    /// Records that the readers of `from` are about to read `to`.
    pub(super) fn replace(&mut self, g: &Graph, gi: usize, from: ValueRef, to: ValueRef) {
        let Some(n) = g.get(from.node).filter(|n| n.attrs.get(*KEY).is_some()) else { return };
        let names: Vec<String> =
            origin_tensors(&n.attrs).filter(|t| t.0 == from.output).map(|t| t.1.to_owned()).collect();
        if !names.is_empty() {
            self.replaced.push(Replaced { graph: gi, from, to, names });
        }
    }
    /// Drops the records of a removed graph; the graphs after it move up by one.
    pub(super) fn forget(&mut self, graph: usize) {
        self.replaced.retain(|r| r.graph != graph);
        self.replaced.iter_mut().filter(|r| r.graph > graph).for_each(|r| r.graph -= 1);
        let moved = |(g, id): (usize, NodeId)| (g != graph).then_some((g - usize::from(g > graph), id));
        self.remade = std::mem::take(&mut self.remade).into_iter().filter_map(moved).collect();
    }
}

impl Model {
    /// Moves names to the values that stand for their tensors after a patch.
    pub(super) fn move_names(&mut self, moves: Moves, j: &mut Journal) -> Result<(), EditError> {
        let Moves { replaced, remade } = moves;
        let mut cleared: HashSet<(usize, ValueRef)> = HashSet::new();
        // The last replacement of each value.
        let mut ends: HashMap<(usize, ValueRef), ValueRef> =
            replaced.iter().map(|r| ((r.graph, r.from), r.to)).collect();
        for r in &replaced {
            let g = &self.graphs[r.graph];
            let own = g.get(r.from.node);
            let stays = own.is_some_and(|n| {
                !n.uses(r.from.output as usize).is_empty() && !remade.contains(&(r.graph, r.from.node))
            });
            if stays {
                continue;
            }
            let there = own.is_some();
            // The replacement may itself have been replaced; the chain is followed and then
            // shortened.
            let (mut to, mut way) = (r.to, Vec::new());
            while way.len() <= replaced.len() && g.get(to.node).is_none() {
                let Some(next) = ends.get(&(r.graph, to)) else { break };
                way.push(to);
                to = *next;
            }
            ends.extend(way.into_iter().map(|v| ((r.graph, v), to)));
            if g.get(to.node).is_none() {
                continue;
            }
            if there && r.from != to {
                self.rename(r.graph, r.from, &[], j, |name| !r.names.iter().any(|n| n == name))?;
            }
            // A node that is recomputed no longer produces the tensors that it stood for before.
            let anew = remade.contains(&(r.graph, to.node)) && cleared.insert((r.graph, to));
            self.rename(r.graph, to, &r.names, j, |_| !anew)?;
        }
        Ok(())
    }

    /// Keeps those names of a value that `keep` accepts, and adds `add`, each name once.
    fn rename(
        &mut self,
        gi: usize,
        v: ValueRef,
        add: &[String],
        j: &mut Journal,
        keep: impl Fn(&str) -> bool,
    ) -> Result<(), EditError> {
        let n = self.content(gi, v.node, j)?;
        let mut all: Vec<(u32, String)> = origin_tensors(&n.attrs)
            .filter(|(k, name)| (*k != v.output || keep(name)) && !add.iter().any(|a| a == name))
            .map(|(k, name)| (k, name.to_owned()))
            .collect();
        all.extend(add.iter().map(|a| (v.output, a.clone())));
        all.sort();
        if all.is_empty() {
            n.attrs.remove(*KEY);
        } else {
            let texts: Vec<RString> = all.iter().map(|(k, name)| numbered(*k, name)).collect();
            n.attrs.set(*KEY, AttrValue::Strs(texts.into()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;
    use ge_plugin_api::patch::{Edit, Patch};

    const TEXT: &str = "graph @main(%x: f32[4]) {
  %a = Relu(%x) {_origin_tensors = [\"0:t\"]} : f32[4]
  %b = Identity(%a) {_origin_tensors = [\"0:u\"]} : f32[4]
  %c = Neg(%b) {_origin_tensors = [\"0:v\"]} : f32[4]
  return %c
}
";

    fn model() -> Model {
        text::parse(TEXT, "t.ge", &text::NoFiles).expect("reads")
    }
    fn id(m: &Model, name: &str) -> NodeId {
        m.root().nodes().find(|n| n.name() == name).expect("there").id()
    }
    fn names(m: &Model, name: &str) -> Vec<String> {
        let n = m.root().get(id(m, name)).expect("there");
        origin_tensors(n.attrs()).map(|(k, t)| format!("{k}:{t}")).collect()
    }
    fn value(m: &Model, name: &str) -> ValueRef {
        ValueRef::new(id(m, name), 0)
    }

    #[test]
    fn names_of_what_is_stepped_over_go_to_what_is_read_instead() {
        let mut m = model();
        let mut p = Patch::starting_at(m.root().next_id());
        p.replace_uses(value(&m, "b"), value(&m, "a"));
        p.remove(id(&m, "b"));
        m.apply(0, p.into_edits().into()).expect("applies");
        assert_eq!(names(&m, "a"), ["0:t", "0:u"]);
        assert_eq!(names(&m, "c"), ["0:v"]);
    }

    #[test]
    fn a_fused_node_has_the_names_of_the_output_that_it_gives() {
        let mut m = model();
        let mut p = Patch::starting_at(m.root().next_id());
        let d = m.root().desc(value(&m, "c")).cloned().expect("described");
        let f = p.add("Fused", "f", &[value(&m, "x")], vec![d.clone(), d], AttrMap::default());
        p.replace_uses(value(&m, "c"), ValueRef::new(f, 1));
        ["c", "b", "a"].iter().for_each(|n| p.remove(id(&m, n)));
        m.apply(0, p.into_edits().into()).expect("applies");
        assert_eq!(names(&m, "f"), ["1:v"]);
    }

    #[test]
    fn a_value_that_others_still_read_keeps_its_name() {
        // A cast is inserted after a node: the readers read the cast, and the cast reads the node.
        let mut m = model();
        let mut p = Patch::starting_at(m.root().next_id());
        let a = value(&m, "a");
        let d = m.root().desc(a).cloned().expect("described");
        let cast = p.add("Cast", "cast", &[value(&m, "x")], vec![d], AttrMap::default());
        p.replace_uses(a, ValueRef::new(cast, 0));
        p.set_input(cast, 0, a);
        m.apply(0, p.into_edits().into()).expect("applies");
        assert_eq!(names(&m, "a"), ["0:t"]);
        assert_eq!(names(&m, "cast"), Vec::<String>::new());
    }

    #[test]
    fn a_node_that_takes_another_in_has_the_names_of_the_result_alone() {
        let mut m = model();
        let mut p = Patch::starting_at(m.root().next_id());
        p.push(Edit::SetOp(id(&m, "a"), Key::new("ReluNeg")));
        p.replace_uses(value(&m, "c"), value(&m, "a"));
        p.remove(id(&m, "c"));
        p.remove(id(&m, "b"));
        m.apply(0, p.into_edits().into()).expect("applies");
        assert_eq!(names(&m, "a"), ["0:v"]);
    }

    #[test]
    fn nodes_that_change_places_change_names() {
        // Neg(Identity(a)) becomes Identity(Neg(a)); the names stay with the results.
        let mut m = model();
        let (a, b, c) = (value(&m, "a"), value(&m, "b"), value(&m, "c"));
        let mut p = Patch::starting_at(m.root().next_id());
        p.replace_uses(c, b);
        p.set_input(c.node, 0, a);
        p.set_input(b.node, 0, c);
        m.apply(0, p.into_edits().into()).expect("applies");
        assert_eq!(names(&m, "b"), ["0:v"]);
        assert_eq!(names(&m, "c"), Vec::<String>::new());
    }

    #[test]
    fn a_node_that_takes_over_anothers_attributes_keeps_its_own_names() {
        // A norm is merged into the convolution before it, which then computes the norm's result.
        let mut m = model();
        let mut p = Patch::starting_at(m.root().next_id());
        let (b, c) = (id(&m, "b"), id(&m, "c"));
        for a in m.root().get(b).expect("there").attrs().iter() {
            p.push(Edit::SetAttr(c, a.clone()));
        }
        p.push(Edit::SetOp(c, Key::new("Both")));
        p.set_input(c, 0, value(&m, "a"));
        p.remove(b);
        m.apply(0, p.into_edits().into()).expect("applies");
        assert_eq!(names(&m, "c"), ["0:v"]);
    }

    #[test]
    fn a_refused_patch_moves_no_name() {
        let mut m = model();
        let mut p = Patch::starting_at(m.root().next_id());
        p.replace_uses(value(&m, "b"), value(&m, "a"));
        p.remove(id(&m, "b"));
        p.remove(id(&m, "x"));
        m.apply(0, p.into_edits().into()).expect_err("x is still read");
        assert_eq!((names(&m, "a"), names(&m, "b")), (vec!["0:t".to_owned()], vec!["0:u".to_owned()]));
    }

    #[test]
    fn where_nodes_come_from_is_no_part_of_what_they_do() {
        let mut a = AttrMap::default();
        a.set("axis", 1i64);
        let mut b = a.clone();
        b.set(ORIGIN_TENSORS, vec!["0:t".to_owned()]);
        assert!(same_work(&a, &b) && !crate::graph::same_attrs(&a, &b));
        b.set("axis", 2i64);
        assert!(!same_work(&a, &b));
    }
}
