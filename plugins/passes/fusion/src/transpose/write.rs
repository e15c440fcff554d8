//! Writes the operators of a group in the layouts that were chosen for them.
use super::frames::Group;
use super::member::Operand;
use super::permuted;
use crate::edit;
use ge_plugin_api::patch::Patch;
use ge_plugin_api::types::{AttrMap, ConstTensor, NodeId, Shape, TensorDesc, ValueRef};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Rewrites the group's operators in these layouts and removes transposes that nothing reads any
/// more.
pub(super) fn write(
    group: &Group<'_, '_>,
    layouts: &[bool],
    transposes: &HashMap<NodeId, Vec<usize>>,
    names: &BTreeSet<&str>,
    patch: &mut Patch,
) {
    let moves = group.members.iter().enumerate().filter(|(i, _)| layouts[*i] != group.natural[*i]);
    let moved: BTreeSet<NodeId> = moves.map(|(_, m)| m.node.id()).collect();
    let mut writer = Writer { group, layouts, names, moved, made: BTreeMap::new(), kept: BTreeSet::new() };
    for (k, c) in group.classes.iter().enumerate() {
        let (v, layout) = c.values[0];
        if !writer.moved.contains(&v.node) {
            writer.made.insert((k, layout), v);
        }
    }
    for (i, layout) in layouts.iter().enumerate() {
        if *layout != group.natural[i] {
            writer.member(i, patch);
        }
    }
    writer.read_anew(patch);
    writer.turn_anew(transposes, patch);
    writer.remove(patch);
}

struct Writer<'g, 'm, 'a> {
    group: &'g Group<'m, 'a>,
    layouts: &'g [bool],
    names: &'g BTreeSet<&'g str>,
    /// Operators that change their layout.
    moved: BTreeSet<NodeId>,
    /// Values by class and layout.
    made: BTreeMap<(usize, bool), ValueRef>,
    /// Transposes that stay.
    kept: BTreeSet<NodeId>,
}

impl Writer<'_, '_, '_> {
    fn name(&self, of: &str, what: &str) -> String {
        edit::fresh_name(self.names, of, what)
    }

    /// The value of a class in a layout: as it is produced, behind an existing transpose, or behind
    /// a new one.
    fn value(&mut self, class: usize, layout: bool, patch: &mut Patch) -> Option<ValueRef> {
        if let Some(v) = self.made.get(&(class, layout)) {
            return Some(*v);
        }
        let given = *self.made.get(&(class, !layout))?;
        let g = self.group.g;
        let values = &self.group.classes[class].values;
        let there = values.iter().find(|(v, l)| {
            *l == layout && self.group.transposes.contains(&v.node) && g.node(v.node).inputs() == [given]
        });
        let v = match there {
            Some((v, _)) => {
                self.kept.insert(v.node);
                *v
            }
            None => {
                let (first, natural) = values[0];
                let d = g.desc(first)?;
                let perm = self.group.perm.into(layout);
                let to = if layout == natural { d.clone() } else { permuted(d, perm) };
                let name = self.name(g.node(first.node).name(), if layout == natural { "outer" } else { "turned" });
                let name = if first.output == 0 { name } else { format!("{name}{}", first.output) };
                turned(patch, &name, given, to, perm)
            }
        };
        self.made.insert((class, layout), v);
        Some(v)
    }

    /// A value in the layout that it has in the original graph.
    fn as_given(&mut self, v: ValueRef, patch: &mut Patch) -> Option<ValueRef> {
        let Some(class) = self.group.class.get(&v).copied() else { return Some(v) };
        let layout = self.group.classes[class].values.iter().find(|(own, _)| *own == v)?.1;
        self.value(class, layout, patch)
    }

    /// Writes an operator in the layout that is not its own.
    fn member(&mut self, i: usize, patch: &mut Patch) {
        let m = self.group.members[i];
        let layout = self.layouts[i];
        // Axis `a` of the operator is axis `to[a]` in its new layout.
        let to = self.group.perm.into(self.group.natural[i]);
        let back = self.group.perm.into(layout);
        let mut inputs = m.node.inputs().to_vec();
        for (k, (v, operand)) in inputs.iter_mut().zip(&m.operands).enumerate() {
            if v.is_absent() {
                continue;
            }
            match operand {
                Operand::Framed => {
                    let Some(inner) = self.group.class.get(v).and_then(|c| self.value(*c, layout, patch)) else {
                        return;
                    };
                    *v = inner;
                }
                Operand::Along(axis) => {
                    let Some(d) = self.group.g.desc(*v) else { return };
                    let known = self.group.g.constant(*v);
                    let mut dims = vec![1; m.rank];
                    dims[to[*axis]] = d.shape.count().unwrap_or(1);
                    let Some(given) = self.as_given(*v, patch) else { return };
                    let name = self.name(m.node.name(), &format!("along{k}"));
                    *v = along(patch, &name, given, known, d, &dims);
                }
                Operand::Aside => {
                    let Some(given) = self.as_given(*v, patch) else { return };
                    let name = self.name(m.node.name(), &format!("axes{k}"));
                    *v = m.constant(k, to).map_or(given, |list| patch.constant(&name, list));
                }
            }
        }
        let outputs: Vec<TensorDesc> = m.node.outputs().iter().map(|d| permuted(d, back)).collect();
        let count = outputs.len();
        let id = patch.add(m.node.op(), &self.name(m.node.name(), "inner"), &inputs, outputs, m.attrs(to));
        for k in 0..count as u32 {
            if let Some(c) = self.group.class.get(&m.node.value(k)) {
                self.made.insert((*c, layout), ValueRef::new(id, k));
            }
        }
    }

    /// Nodes that read a value whose layout has changed now read it in the layout that they expect.
    fn read_anew(&mut self, patch: &mut Patch) {
        for (k, c) in self.group.classes.iter().enumerate() {
            for (v, layout) in &c.values {
                let turned = |n: &NodeId| self.group.transposes.contains(n) || c.turned.iter().any(|t| t.0 == *n);
                let stays = |n: &NodeId| !self.moved.contains(n) && !turned(n);
                if !self.group.g.users(*v).iter().any(|u| stays(&u.node)) {
                    continue;
                }
                match self.value(k, *layout, patch) {
                    Some(now) if now != *v => patch.replace_uses(*v, now),
                    _ => {}
                }
            }
        }
    }

    /// Transposes with other permutations read the version of the value that exists; their
    /// permutation is adjusted if needed.
    fn turn_anew(&mut self, transposes: &HashMap<NodeId, Vec<usize>>, patch: &mut Patch) {
        for (k, c) in self.group.classes.iter().enumerate() {
            for (id, layout) in &c.turned {
                let perm = transposes.get(id);
                match (self.made.get(&(k, *layout)), self.made.get(&(k, !*layout)), perm) {
                    (Some(v), ..) if self.group.g.node(*id).inputs() == [*v] => {}
                    (Some(v), ..) => patch.set_input(*id, 0, *v),
                    (None, Some(v), Some(perm)) => {
                        let first = self.group.perm.into(*layout);
                        let both: Vec<i64> = perm.iter().map(|p| first[*p] as i64).collect();
                        patch.set_input(*id, 0, *v);
                        patch.set_attr(*id, "perm", both);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Removes what nothing reads any more, readers first.
    fn remove(&self, patch: &mut Patch) {
        for id in self.group.order.iter().rev() {
            let turn = self.group.transposes.contains(id) && !self.kept.contains(id);
            if turn || self.moved.contains(id) {
                patch.remove(*id);
            }
        }
    }
}

/// A one-dimensional operand, reshaped to lie along one axis; a constant is replaced by a new
/// constant.
fn along(
    patch: &mut Patch,
    name: &str,
    v: ValueRef,
    known: Option<&ConstTensor>,
    d: &TensorDesc,
    dims: &[u64],
) -> ValueRef {
    let bytes = known.and_then(|c| c.bytes());
    if let Some(tensor) = bytes.and_then(|b| ConstTensor::new(d.dtype, dims, b)) {
        return patch.constant(name, tensor);
    }
    let mut attrs = AttrMap::default();
    attrs.set("shape", dims.iter().map(|n| *n as i64).collect::<Vec<i64>>());
    let desc = TensorDesc { shape: Shape::of(dims), ..d.clone() };
    ValueRef::new(patch.add("Reshape", name, &[v], vec![desc], attrs), 0)
}

fn turned(patch: &mut Patch, name: &str, v: ValueRef, desc: TensorDesc, perm: &[usize]) -> ValueRef {
    let mut attrs = AttrMap::default();
    attrs.set("perm", perm.iter().map(|p| *p as i64).collect::<Vec<i64>>());
    ValueRef::new(patch.add("TransposeD", name, &[v], vec![desc], attrs), 0)
}
