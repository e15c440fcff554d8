//! `ViewMotionFusionPass`: maps of one tensor stand before the views that they follow, views one
//! behind the other are one.
//!
//! Before: `%c = Conv2D(…)  %s = Squeeze(%c)  %r = Relu(%s)  %u = Unsqueeze(%r)  %y = Conv2D(%u, …)`
//! After: `%c = Conv2D(…)  %r = Relu(%c)  %y = Conv2D(%r, …)`
//! When: the views between are read by nothing else, and the map is read by views alone or behind a product that can take it in;
//! all sizes are known. A transpose that moves axes of length one alone is a view. A chain of views becomes one `Reshape`, or none where it comes back to the shape that it began with.
//! Refuses: views and maps with control edges; a map whose views others read too.
//! Keeps: names, order and values of all nodes that compute. Cost: each node and edge once.
use crate::edit;
use ge_plugin_api::Result;
use ge_plugin_api::pass::{Pass, PassInfo, PassLevel, PassStage};
use ge_plugin_api::patch::{Edit, Patch};
use ge_plugin_api::types::{AttrMap, Key, NodeId, TensorDesc, ValueRef};
use ge_plugin_api::view::{Graph, Node};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Operators that give the elements of their first input in another shape; so does a transpose that
/// moves axes of length one alone.
const VIEWS: [&str; 7] = ["Reshape", "Flatten", "Squeeze", "SqueezeV3", "Unsqueeze", "UnsqueezeV3", "ExpandDims"];
/// Operators whose kernels may do the map that follows them.
const PRODUCTS: [&str; 7] =
    ["Conv2D", "Conv3D", "DepthwiseConv2D", "MatMul", "MatMulV2", "BatchMatMul", "BatchMatMulV2"];

/// The pass.
pub struct ViewMotion;

impl Pass for ViewMotion {
    fn info(&self) -> PassInfo {
        PassInfo {
            name: "ViewMotionFusionPass".into(),
            stage: PassStage::AFTER_INFER_SHAPE,
            level: PassLevel::O3,
            help: "puts maps of one tensor before the views that they follow, and makes one of several views".into(),
        }
    }
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        if graph.nodes_of(&VIEWS).chain(graph.nodes_of(&["Transpose", "TransposeD"])).next().is_none() {
            return Ok(());
        }
        let mut plan = Plan::of(graph);
        plan.walk();
        if !plan.moved.is_empty() {
            plan.names = graph.nodes().map(|n| n.name()).collect();
        }
        if !plan.views.is_empty() {
            plan.write(patch);
        }
        Ok(())
    }
}

/// What a value is a view of.
#[derive(Clone, Copy)]
struct Origin {
    /// The value that is computed.
    base: ValueRef,
    /// Views between.
    views: usize,
}

struct Plan<'a> {
    g: Graph<'a>,
    views: BTreeMap<ValueRef, Origin>,
    /// Maps that moved: what they read now, and what they give.
    moved: BTreeMap<NodeId, (ValueRef, TensorDesc)>,
    names: BTreeSet<&'a str>,
}

/// Whether a tensor's sizes are known and its elements stand one behind the other.
fn known(d: &TensorDesc) -> bool {
    d.shape.is_static() && d.origin.is_none() && d.shape.count().is_some_and(|n| n > 0)
}

/// Whether a node is a transpose that leaves all axes but those of length one in their order.
fn moves_ones(n: &Node<'_>) -> bool {
    if !matches!(n.op(), "Transpose" | "TransposeD") {
        return false;
    }
    let perm = n.ints("perm").map(<[i64]>::to_vec).or_else(|| n.const_input(1)?.to_i64(64));
    let (Some(perm), Some(x)) = (perm, n.input_desc(0).and_then(|d| d.shape.sizes())) else { return false };
    let long = |a: &&i64| usize::try_from(**a).ok().and_then(|a| x.get(a)).is_some_and(|d| *d != 1);
    let order: Vec<&i64> = perm.iter().filter(long).collect();
    perm.len() == x.len() && order.is_sorted()
}

impl<'a> Plan<'a> {
    fn of(g: &Graph<'a>) -> Plan<'a> {
        Plan { g: *g, views: BTreeMap::new(), moved: BTreeMap::new(), names: BTreeSet::new() }
    }

    /// Whether a node may be moved: one output of known sizes, the type of its input, no control
    /// edges.
    fn free(&self, n: &Node<'_>) -> bool {
        let [y] = n.outputs() else { return false };
        let same =
            n.input_desc(0).is_some_and(|x| known(x) && x.dtype == y.dtype && x.shape.count() == y.shape.count());
        same && known(y) && edit::is_free(n)
    }

    fn is_view(&self, n: &Node<'_>) -> bool {
        let view = VIEWS.contains(&n.op()) || moves_ones(n);
        view && self.free(n) && self.g.constant(n.inputs()[0]).is_none()
    }

    fn walk(&mut self) {
        for n in self.g.nodes() {
            let Some(x) = n.input(0).filter(|x| !x.is_absent()) else { continue };
            let own = self.views.get(&x).copied().unwrap_or(Origin { base: x, views: 0 });
            if self.is_view(&n) {
                self.views.insert(n.value(0), Origin { views: own.views + 1, ..own });
            } else if own.views > 0 && n.is_elementwise() && n.inputs().len() == 1 && self.pays(&n, own) {
                let Some(d) = self.desc(own.base) else { continue };
                self.moved.insert(n.id(), (own.base, d));
                self.views.insert(n.value(0), Origin { base: n.value(0), views: 0 });
            }
        }
    }

    /// Whether a map is better before the views that it reads.
    fn pays(&self, n: &Node<'_>, from: Origin) -> bool {
        if !self.free(n) {
            return false;
        }
        // Views that others read stay, and would be made again behind the map.
        let mut v = n.inputs()[0];
        while v != from.base {
            if self.g.users(v).len() != 1 {
                return false;
            }
            let Some(x) = self.g.find(v.node).and_then(|p| p.input(0)) else { return false };
            v = x;
        }
        let readers = self.g.users(n.value(0));
        let into_views = readers.iter().all(|u| self.g.find(u.node).is_some_and(|r| u.input == 0 && self.is_view(&r)));
        let product = self.g.find(from.base.node).is_some_and(|p| PRODUCTS.contains(&p.op()));
        !readers.is_empty() && (into_views || (product && self.g.users(from.base).len() == 1))
    }

    /// What a value is now.
    fn desc(&self, v: ValueRef) -> Option<TensorDesc> {
        match self.moved.get(&v.node) {
            Some((_, d)) => Some(d.clone()),
            None => self.g.desc(v).cloned(),
        }
    }

    fn write(&self, patch: &mut Patch) {
        for (id, (x, d)) in &self.moved {
            patch.set_input(*id, 0, *x);
            patch.push(Edit::SetOutput(*id, 0, d.clone()));
        }
        // Views that are read by what is no view; by the map that gives their elements where that
        // has moved.
        let mut kept: BTreeSet<NodeId> = BTreeSet::new();
        let mut behind: HashMap<NodeId, ValueRef> = HashMap::new();
        for n in self.g.nodes().filter(|n| !self.moved.contains_key(&n.id()) && !self.is_planned(n.id())) {
            for (i, v) in n.inputs().iter().enumerate() {
                let (Some(o), Some(want)) = (self.views.get(v), self.g.desc(*v)) else { continue };
                let Some(base) = self.desc(o.base) else { continue };
                if base.shape == want.shape && base.format == want.format {
                    if o.base != *v {
                        patch.set_input(n.id(), i as u32, o.base);
                    }
                } else if self.moved.contains_key(&v.node) {
                    let view = *behind.entry(v.node).or_insert_with(|| self.view_behind(patch, o.base, want));
                    patch.set_input(n.id(), i as u32, view);
                } else {
                    kept.insert(v.node);
                }
            }
        }
        // Readers first: a node that is read is not removed.
        for id in self.g.order().iter().rev().filter(|id| self.is_planned(**id)) {
            let o = self.views[&ValueRef::new(*id, 0)];
            if !kept.contains(id) {
                patch.remove(*id);
            } else if o.views > 1 || self.moved.contains_key(&o.base.node) || moves_ones(&self.g.node(*id)) {
                self.reshape(patch, *id, o.base);
            }
        }
    }

    /// Whether a node is a view whose readers are told where its elements stand.
    fn is_planned(&self, id: NodeId) -> bool {
        self.views.contains_key(&ValueRef::new(id, 0)) && !self.moved.contains_key(&id)
    }

    fn sizes(d: &TensorDesc) -> Vec<i64> {
        d.shape.dims().iter().map(|d| d.size().map_or(-1, |n| i64::try_from(n).unwrap_or(-1))).collect()
    }

    /// A view becomes a `Reshape` of another value.
    fn reshape(&self, patch: &mut Patch, id: NodeId, base: ValueRef) {
        let n = self.g.node(id);
        for a in n.attrs().iter().filter(|a| !a.key.as_str().starts_with('_')) {
            patch.push(Edit::RemoveAttr(id, a.key));
        }
        patch.push(Edit::SetOp(id, Key::new("Reshape")));
        patch.push(Edit::SetInputs(id, [base].as_slice().into()));
        patch.set_attr(id, "shape", Plan::sizes(&n.outputs()[0]));
    }

    /// A new view behind a map that has moved.
    fn view_behind(&self, patch: &mut Patch, base: ValueRef, want: &TensorDesc) -> ValueRef {
        let mut attrs = AttrMap::default();
        attrs.set("shape", Plan::sizes(want));
        let name = edit::fresh_name(&self.names, self.g.node(base.node).name(), "view");
        ValueRef::new(patch.add("Reshape", &name, &[base], vec![want.clone()], attrs), 0)
    }
}
