//! `SelectBeforeMapFusionPass`: selects rows of a large constant table before the operators that
//! map every element of the table.
//!
//! Before: `%f = Cast(%w)  %t = Mul(%f, %s)  %y = GatherV2(%t, %i, 0)`
//! After: `%g = GatherV2(%w, %i, 0)  %c = Cast(%g)  %y = Mul(%c, %s)`
//! When: the table is computed element by element from constants alone and is too large to be
//! folded (DESIGN 10), so it would be computed in every run and kept in memory as a whole.
//! `GatherV2` and `Gather` along one axis; `StridedSliceV2` and `SliceD` at any positions.
//! Refuses: tables that anything but selections reads; more indices than the axis has entries;
//! operands that would need another layout for the selection, or that have more axes than it;
//! control edges.
//! Keeps: the selection's name and value, bit by bit, because the same operations are applied to
//! each element. Cost: each node of a table is visited once.
use crate::edit;
use crate::edit::keep_names;
use ge_plugin_api::Result;
use ge_plugin_api::pass::{Pass, PassInfo, PassLevel, PassStage};
use ge_plugin_api::patch::Patch;
use ge_plugin_api::types::{AttrMap, Dim, NodeId, Shape, TensorDesc, ValueRef};
use ge_plugin_api::view::{Graph, Node};
use std::collections::{BTreeMap, BTreeSet};

/// Tables of at most this size are folded.
const FOLDED_BYTES: u64 = 1 << 20;
/// Most nodes of a table; a longer computation is not a table of weights.
const MOST_NODES: usize = 16;
/// Element-wise maps of one tensor, or of several that broadcast.
const MAPS: [&str; 14] =
    ["Cast", "Add", "Sub", "Mul", "Div", "RealDiv", "Maximum", "Minimum", "Neg", "Abs", "Sqrt", "Exp", "Muls", "Adds"];

/// The pass that this module describes.
pub struct SelectBeforeMap;

impl Pass for SelectBeforeMap {
    fn info(&self) -> PassInfo {
        PassInfo {
            name: "SelectBeforeMapFusionPass".into(),
            stage: PassStage::AFTER_INFER_SHAPE,
            level: PassLevel::O3,
            help: "selects rows of a large constant table before what maps the whole table".into(),
        }
    }
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        let mut names: Option<BTreeSet<String>> = None;
        for n in graph.nodes_of(&["GatherV2", "Gather", "StridedSliceV2", "SliceD"]) {
            let Some(how) = Selection::of(&n) else { continue };
            let Some(table) = Table::of(graph, &n, &how) else { continue };
            let names = names.get_or_insert_with(|| graph.nodes().map(|n| n.name().to_owned()).collect());
            table.write(graph, patch, &n, &how, names);
        }
        Ok(())
    }
}

/// How a node selects from its first input.
struct Selection {
    /// Sizes of the table's axes.
    table: Vec<u64>,
    /// Sizes of the selection's axes.
    out: Vec<Dim>,
    /// The axis, and the sizes that replace it; `None` for a slice, which keeps the rank.
    gather: Option<(usize, Vec<Dim>)>,
}

impl Selection {
    fn of(n: &Node<'_>) -> Option<Selection> {
        let (x, [y]) = (n.input_desc(0)?, n.outputs()) else { return None };
        let plain = x.origin.is_none() && y.origin.is_none() && x.dtype == y.dtype;
        let table = x.shape.sizes().filter(|_| plain)?;
        let large = x.data_bytes().is_some_and(|b| b > FOLDED_BYTES);
        if !large || !edit::is_free(n) {
            return None;
        }
        let out = y.shape.dims().to_vec();
        let known = y.shape.rank().is_some();
        let gather = match n.op() {
            "GatherV2" | "Gather" => {
                let index = n.input_desc(1)?;
                index.shape.rank()?;
                let axis = match n.op() {
                    "GatherV2" => *n.const_input(2)?.to_i64(1)?.first()?,
                    _ => n.int("axis").unwrap_or(0),
                };
                let axis = usize::try_from(if axis < 0 { axis + table.len() as i64 } else { axis }).ok()?;
                let places = *table.get(axis)?;
                // With more indices than entries, it is better to map the table once.
                let many = index.shape.count().is_some_and(|c| c > places);
                if many || places <= 1 || n.int("batch_dims").unwrap_or(0) != 0 {
                    return None;
                }
                Some((axis, index.shape.dims().to_vec()))
            }
            "StridedSliceV2" | "SliceD" if out.len() == table.len() => None,
            _ => return None,
        };
        known.then_some(Selection { table, out, gather })
    }

    /// What becomes of an operand with these sizes once the selection comes before the map: it is
    /// selected from, or stays as it is if that is not needed. `None` if neither works.
    fn of_operand(&self, sizes: &[u64]) -> Option<Operand> {
        let dims = |s: &[u64]| s.iter().map(|d| Dim::known(*d)).collect::<Vec<_>>();
        let Some((axis, places)) = &self.gather else {
            return if sizes == self.table {
                Some(Operand::Selected(self.out.clone()))
            } else {
                sizes.iter().all(|d| *d == 1).then(|| Operand::Kept(dims(sizes)))
            };
        };
        // The axis in the operand, which may lack leading axes.
        let lead = self.table.len().checked_sub(sizes.len())?;
        let own = axis.checked_sub(lead).and_then(|a| sizes.get(a).copied());
        if own == Some(self.table[*axis]) {
            if lead > 0 {
                return None;
            }
            let out = dims(&sizes[..*axis]).into_iter().chain(places.iter().copied()).chain(dims(&sizes[axis + 1..]));
            return Some(Operand::Selected(out.collect()));
        }
        // The operand has one value for all entries. It may stay if the axes after it keep their
        // position, counted from the last axis, and if it has no more axes than the result.
        let before = axis.checked_sub(lead).map_or(0, |a| a + 1);
        let stays = places.len() == 1 || sizes[..before].iter().all(|d| *d == 1);
        (stays && sizes.len() <= self.out.len())
            .then(|| Operand::Kept(dims(if places.len() == 1 { sizes } else { &sizes[before..] })))
    }
}

enum Operand {
    /// The operand is selected from; its sizes afterwards.
    Selected(Vec<Dim>),
    /// The operand stays; its sizes as they take part in the broadcast.
    Kept(Vec<Dim>),
}

/// A table that is computed from constants.
struct Table {
    /// Its nodes in topological order.
    nodes: Vec<NodeId>,
    /// Sizes of each node's output once the selection comes before it.
    made: BTreeMap<NodeId, Vec<Dim>>,
    /// Constants that are selected from, with their sizes afterwards.
    leaves: BTreeMap<ValueRef, Vec<Dim>>,
}

impl Table {
    fn of(g: &Graph<'_>, n: &Node<'_>, how: &Selection) -> Option<Table> {
        let top = n.inputs()[0];
        let selects =
            |u: NodeId| g.find(u).is_some_and(|u| u.inputs().first() == Some(&top) && Selection::of(&u).is_some());
        if g.constant(top).is_some() || !g.users(top).iter().all(|u| u.input == 0 && selects(u.node)) {
            return None;
        }
        let mut t = Table { nodes: Vec::new(), made: BTreeMap::new(), leaves: BTreeMap::new() };
        t.add(g, top, None, how)?;
        (!t.leaves.is_empty() && t.made.get(&top.node)? == &how.out).then_some(t)
    }

    /// Adds the node that produces a value, and the nodes that it reads.
    fn add(&mut self, g: &Graph<'_>, v: ValueRef, reader: Option<NodeId>, how: &Selection) -> Option<()> {
        let n = g.find(v.node)?;
        let free = edit::is_free(&n) && n.outputs().len() == 1;
        let own = reader.is_none_or(|r| g.users(v).iter().all(|u| u.node == r));
        if !free || !own || !is_map(&n) || self.nodes.len() >= MOST_NODES || self.nodes.contains(&n.id()) {
            return None;
        }
        let mut sizes: Vec<Vec<Dim>> = Vec::new();
        for x in n.inputs() {
            let d = g.desc(*x).filter(|d| d.origin.is_none())?;
            let own = d.shape.sizes()?;
            let operand = how.of_operand(&own)?;
            if g.constant(*x).is_some() {
                sizes.push(match operand {
                    Operand::Kept(s) => s,
                    Operand::Selected(s) => {
                        self.leaves.insert(*x, s.clone());
                        s
                    }
                });
                continue;
            }
            self.add(g, *x, Some(n.id()), how)?;
            sizes.push(self.made.get(&x.node)?.clone());
        }
        self.made.insert(n.id(), broadcast(&sizes)?);
        self.nodes.push(n.id());
        Some(())
    }

    /// Turns the selection into the last map; the other maps come before it and read what is
    /// selected.
    fn write(&self, g: &Graph<'_>, patch: &mut Patch, n: &Node<'_>, how: &Selection, names: &mut BTreeSet<String>) {
        let mut name = |of: &str| {
            let mut name = format!("{}/{of}", n.name());
            while !names.insert(name.clone()) {
                name.push('_');
            }
            name
        };
        let shaped = |d: &TensorDesc, dims: &[Dim]| TensorDesc { shape: Shape::new(dims.iter().copied()), ..d.clone() };
        let mut now: BTreeMap<ValueRef, ValueRef> = BTreeMap::new();
        for (leaf, dims) in &self.leaves {
            let Some(d) = g.desc(*leaf) else { return };
            let inputs: Vec<ValueRef> = [*leaf].into_iter().chain(n.inputs()[1..].iter().copied()).collect();
            let attrs: AttrMap = n.attrs().iter().filter(|a| !a.key.as_str().starts_with('_')).cloned().collect();
            let of = g.find(leaf.node).map_or_else(String::new, |n| n.name().to_owned());
            let id = patch.add(n.op(), &name(&of), &inputs, vec![shaped(d, dims)], attrs);
            now.insert(*leaf, ValueRef::new(id, 0));
        }
        let Some((last, maps)) = self.nodes.split_last() else { return };
        let reads = |id: NodeId, now: &BTreeMap<ValueRef, ValueRef>| -> Vec<ValueRef> {
            g.node(id).inputs().iter().map(|v| now.get(v).copied().unwrap_or(*v)).collect()
        };
        for id in maps {
            let map = g.node(*id);
            let attrs: AttrMap = map.attrs().iter().cloned().collect();
            let made = shaped(&map.outputs()[0], &self.made[id]);
            let new = patch.add(map.op(), &name(map.name()), &reads(*id, &now), vec![made], attrs);
            now.insert(map.value(0), ValueRef::new(new, 0));
        }
        let map = g.node(*last);
        let inputs = reads(*last, &now);
        edit::becomes(patch, n, map.op_key(), &inputs);
        map.attrs().iter().for_each(|a| patch.set_attr(n.id(), a.key.as_str(), a.value.clone()));
        let all: Vec<Node<'_>> = self.nodes.iter().map(|id| g.node(*id)).chain([*n]).collect();
        keep_names(patch, n, &all);
        debug_assert_eq!(self.made.get(last), Some(&how.out));
    }
}

/// Whether a node is an element-wise map; a dequantisation only is one if it has a single scale.
fn is_map(n: &Node<'_>) -> bool {
    let one = |i: usize| n.input_desc(i).is_none_or(|d| d.shape.count() == Some(1));
    MAPS.contains(&n.op()) || (n.op() == "DequantizeLinear" && one(1) && one(2))
}

/// Sizes of operands that broadcast against each other; `None` if they do not, or if that is not
/// known.
fn broadcast(all: &[Vec<Dim>]) -> Option<Vec<Dim>> {
    let rank = all.iter().map(Vec::len).max()?;
    let mut out = vec![Dim::known(1); rank];
    for s in all {
        for (o, d) in out[rank - s.len()..].iter_mut().zip(s) {
            if o.size() == Some(1) {
                *o = *d;
            } else if d.size() != Some(1) && o != d {
                return None;
            }
        }
    }
    Some(out)
}
