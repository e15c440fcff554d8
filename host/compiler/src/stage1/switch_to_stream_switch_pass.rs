//! `SwitchToStreamSwitchPass`: makes each side of a switch a stream that sleeps until a comparison
//! wakes it.
//!
//! Before: `%s = Switch(%x, %p)  %f = Neg(%s)  %t = Relu(%s#1)`
//! After: `%s_Cast = Cast(%p)`, `%s_f_StreamSwitch` and `%s_t_StreamSwitch` compare it with zero
//! and wake the streams of the labels `s_f` and `s_t`; `%f = Neg(%x) after(%s_f_StreamSwitch)  %t =
//! Relu(%x) after(%s_t_StreamSwitch)`
//! When: for every `Switch`; those of one predicate in one region become one pair. Both switches of
//! a pair wait for everything that their sides read from outside, because a sleeping stream must
//! not wait for an event that may never be needed.
//! Refuses (an error that names the node): a predicate of several elements; sides that nothing
//! joins; graphs whose regions do not nest.
//! Keeps: names of all nodes but the switches.
//! Source: 003 §2.2, facts 4.4 (1_3), 8.6. Cost: nodes and edges times the depth of nesting.
use crate::error::Result;
use crate::feature::control_flow::lower::refused;
use crate::feature::control_flow::regions::{
    BORDER, Group, LOOP_EXIT, Region, Regions, is_merge, is_outside, is_switch,
};
use crate::pass::declare::graph_pass;
use crate::pass::{PassContext, Rewriter};
use ge_ir::{ConstTensor, DType, Graph, Model, Node, NodeId, TensorDesc, ValueRef};
use ge_plugin_api::patch::Edit;
use ge_plugin_api::types::{AttrMap, AttrValue};
use std::collections::{BTreeMap, HashSet};

graph_pass!(
    SwitchToStreamSwitchPass,
    O0,
    "`Switch(x, p)` -> a pair of `StreamSwitch` that wake the streams of its sides; readers read `x`",
    needs "a predicate of one element, and sides that a `Merge` or `Exit` ends",
    keeps "names of all but the switches",
    run,
);

/// Comparisons of `StreamSwitch`: equal, not equal (facts 8.6).
const CONDITIONS: [i64; 2] = [0, 1];

fn run(cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
    let g = &model.graphs()[gi];
    if !g.nodes().any(is_switch) {
        return Ok(Vec::new());
    }
    let Some(all) = Regions::of(g)? else { return Ok(Vec::new()) };
    let mut r = Rewriter::new(g);
    cx.visits += g.len() as u64;
    let mut gates = Gates { g, all: &all, pairs: BTreeMap::new(), seen: HashSet::new() };
    for (k, group) in all.groups() {
        gates.pair(k, group, &mut r)?;
    }
    gates.wait(&mut r);
    for n in g.nodes().filter(|n| !is_outside(n) && !is_switch(n)) {
        gates.guard(n, &mut r);
    }
    for s in g.nodes().filter(|n| is_switch(n)) {
        let Some(x) = s.input(0).map(|v| gates.real(v)) else { continue };
        r.patch.replace_uses(s.value(0), x);
        r.patch.replace_uses(s.value(1), x);
        for u in s.control_users() {
            r.patch.push(Edit::AddControl(x.node, *u));
        }
        r.remove(s.id());
    }
    Ok(r.finish(cx))
}

struct Gates<'g> {
    g: &'g Graph,
    all: &'g Regions,
    /// For each group, the cast, and the switches for false and true.
    pairs: BTreeMap<u32, (NodeId, [NodeId; 2])>,
    seen: HashSet<(NodeId, NodeId)>,
}

impl Gates<'_> {
    /// The value that a value is passed on from through switches.
    fn real(&self, mut v: ValueRef) -> ValueRef {
        while let Some(x) = self.g.get(v.node).filter(|n| is_switch(n)).and_then(|s| s.input(0)) {
            v = x;
        }
        v
    }
    fn control(&mut self, from: NodeId, to: NodeId, r: &mut Rewriter<'_>) {
        if from != to && self.seen.insert((from, to)) {
            r.patch.push(Edit::AddControl(from, to));
        }
    }

    /// Inserts the comparison and the two switches of a group.
    fn pair(&mut self, k: u32, group: &Group, r: &mut Rewriter<'_>) -> Result<()> {
        let Some(s) = group.switches.first().and_then(|s| self.g.get(*s)) else { return Ok(()) };
        let pred = self.g.desc(group.pred).cloned().unwrap_or_default();
        let dims = pred.shape.sizes().filter(|d| d.iter().product::<u64>() == 1);
        let zero = dims.and_then(|d| ConstTensor::of(&d, &[0i32]));
        let zero = zero
            .ok_or_else(|| refused(s, &format!("its predicate is {}{}, it takes one value", pred.dtype, pred.shape)))?;
        if group.of_loop.is_none() && group.merges.is_empty() {
            return Err(refused(s, "no `Merge` joins its sides: nothing says when they have ended"));
        }
        let real = self.real(group.pred);
        let mut value = real;
        let as_number = |to: DType| {
            let mut attrs = AttrMap::default();
            attrs.set("dst_type", AttrValue::Type(to));
            (TensorDesc::new(to, pred.shape.clone()), attrs)
        };
        if pred.dtype != DType::I32 {
            // A number is first converted to bool, so that values beyond 32 bits or between zero
            // and one are not lost.
            for to in [DType::BOOL, DType::I32].into_iter().filter(|t| *t != pred.dtype) {
                let (desc, attrs) = as_number(to);
                let name =
                    if to == DType::I32 { format!("{}_Cast", s.name()) } else { format!("{}_Cast_bool", s.name()) };
                value = ValueRef::new(r.patch.add("Cast", &name, &[value], vec![desc], attrs), 0);
            }
        }
        let cast = value.node;
        let zero = r.patch.constant(&format!("{}_zero", s.name()), zero);
        let pair = [("f", 0usize), ("t", 1)].map(|(suffix, side)| {
            let mut attrs = AttrMap::default();
            attrs.set("switch_condition", CONDITIONS[side]);
            attrs.set("_active_label_list", vec![format!("{}_{suffix}", s.name())]);
            if group.of_loop.is_some() && side == 0 {
                attrs.set(LOOP_EXIT, true);
            }
            r.patch.add("StreamSwitch", &format!("{}_{suffix}_StreamSwitch", s.name()), &[value, zero], vec![], attrs)
        });
        // The exit of a loop comes last on its stream, so that everything after it is also after
        // the whole test of the iteration.
        if group.of_loop.is_some() {
            self.control(pair[1], pair[0], r);
        }
        if cast != real.node {
            self.pairs.insert(k, (cast, pair));
        } else {
            self.pairs.insert(k, (pair[0], pair));
        }
        r.count();
        Ok(())
    }

    /// Makes the switches of groups within a region start with the region.
    fn wait(&mut self, r: &mut Rewriter<'_>) {
        let groups: Vec<(u32, Region, ValueRef)> = self.all.groups().map(|(k, g)| (k, g.base, g.pred)).collect();
        for (k, base, pred) in groups {
            let Some((cast, pair)) = self.pairs.get(&k).copied() else { continue };
            let real = self.real(pred).node;
            for to in [cast, pair[0], pair[1]] {
                self.crossing(real, base, to, r);
                if self.all.at(real) != base {
                    self.open(base, to, r);
                }
            }
        }
    }

    /// For an edge from `from` into `region`, makes every gate on the way wait for `from`.
    fn crossing(&mut self, from: NodeId, region: Region, to: NodeId, r: &mut Rewriter<'_>) {
        if self.g.get(from).is_none_or(is_outside) {
            return;
        }
        let had = self.all.path(self.all.at(from));
        for step in self.all.path(region).into_iter().filter(|s| !had.contains(s)) {
            for gate in self.gates(step) {
                if gate != to {
                    self.control(from, gate, r);
                }
            }
        }
    }
    /// The nodes that open a region.
    fn gates(&self, region: Region) -> Vec<NodeId> {
        match region {
            Region::Root => Vec::new(),
            Region::Side(k, _) => self.pairs.get(&k).map_or(Vec::new(), |(_, pair)| pair.to_vec()),
            Region::Loop(l) => self.enter(l).into_iter().collect(),
        }
    }
    fn enter(&self, l: u32) -> Option<NodeId> {
        self.all.loops.get(l as usize)?.enter
    }
    /// Makes a node start when its region is opened.
    fn open(&mut self, region: Region, to: NodeId, r: &mut Rewriter<'_>) {
        let gate = match region {
            Region::Root => None,
            Region::Side(k, side) => self.pairs.get(&k).map(|(_, pair)| pair[usize::from(side)]),
            Region::Loop(l) => self.enter(l),
        };
        if let Some(gate) = gate {
            self.control(gate, to, r);
        }
    }

    /// Makes a node wait for its region, and the region's gates wait for what the node reads from
    /// outside.
    fn guard(&mut self, n: &Node, r: &mut Rewriter<'_>) {
        let at = self.all.at(n.id());
        let mut here = false;
        let data = n.inputs().iter().filter(|v| !v.is_absent()).map(|v| self.real(*v).node);
        let waits = n.controls().iter().map(|c| self.real(ValueRef::new(*c, 0)).node);
        for p in data.chain(waits).collect::<Vec<_>>() {
            here |= self.g.get(p).is_some_and(|q| !is_outside(q)) && self.all.at(p) == at;
            self.crossing(p, at, n.id(), r);
        }
        if n.attrs().str(BORDER) == Some("exit") {
            let of = self.all.loops.iter().find(|l| l.exit == Some(n.id()));
            if let Some(k) = of.and_then(|l| l.group) {
                self.open(Region::Side(k, 0), n.id(), r);
            }
        } else if !here && !is_merge(n) && !matches!(n.op(), "Exit" | "RefExit") {
            self.open(at, n.id(), r);
        }
    }
}
