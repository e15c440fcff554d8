//! `ViewMotionFusionPass`: moves maps of one tensor before the views that they follow, and merges
//! chains of views.
//!
//! Before: `%c = Conv2D(…)  %s = Squeeze(%c)  %r = Relu(%s)  %u = Unsqueeze(%r)  %y = Conv2D(%u, …)`
//! After: `%c = Conv2D(…)  %r = Relu(%c)  %y = Conv2D(%r, …)`
//! When: nothing else reads the views between, only views read the map or it follows a product that
//! can include it, and all sizes are known or have names. A transpose that moves only axes of
//! length one is a view. A chain of views becomes one `Reshape`, or nothing if it comes back to its
//! initial shape. Open sizes (known by name only) may stay where they are, or one of them may
//! follow from the others, or only axes of length one may come and go (`Squeeze`, `Unsqueeze`).
//! Refuses: views and maps with control edges; a map whose views others read, too; sizes without a
//! name. Views that do more with open sizes are not part of a chain.
//! Keeps: names, order and values of all nodes that compute. Cost: each node and edge is visited
//! once.
use crate::edit;
use ge_plugin_api::Result;
use ge_plugin_api::pass::{Pass, PassInfo, PassLevel, PassStage};
use ge_plugin_api::patch::{Edit, Patch};
use ge_plugin_api::types::{AttrMap, Dim, Key, NodeId, TensorDesc, ValueRef};
use ge_plugin_api::view::{Graph, Node};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Operators that return the elements of their first input in another shape. So does a transpose
/// that moves only axes of length one.
const VIEWS: [&str; 7] = ["Reshape", "Flatten", "Squeeze", "SqueezeV3", "Unsqueeze", "UnsqueezeV3", "ExpandDims"];
/// Operators whose kernels may apply the map that follows them.
const PRODUCTS: [&str; 7] =
    ["Conv2D", "Conv3D", "DepthwiseConv2D", "MatMul", "MatMulV2", "BatchMatMul", "BatchMatMulV2"];

/// The pass that this module describes.
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

/// The value that a value is a view of.
#[derive(Clone, Copy)]
struct Origin {
    /// The value that is computed.
    base: ValueRef,
    /// Number of views between.
    views: usize,
}

struct Plan<'a> {
    g: Graph<'a>,
    views: BTreeMap<ValueRef, Origin>,
    /// Maps that were moved: what they read now, and the new descriptor of their output.
    moved: BTreeMap<NodeId, (ValueRef, TensorDesc)>,
    names: BTreeSet<&'a str>,
}

/// Whether the sizes of a tensor are known and not zero, or have names, and its elements are
/// contiguous.
fn laid(d: &TensorDesc) -> bool {
    let sized = |d: &Dim| *d != Dim::UNKNOWN && d.size() != Some(0);
    !d.shape.is_unranked() && d.shape.dims().iter().all(sized) && d.origin.is_none()
}

/// Whether a node is a transpose that keeps the order of all axes but those of length one.
fn moves_ones(n: &Node<'_>) -> bool {
    if !matches!(n.op(), "Transpose" | "TransposeD") {
        return false;
    }
    let perm = n.ints("perm").map(<[i64]>::to_vec).or_else(|| n.const_input(1)?.to_i64(64));
    let (Some(perm), Some(x)) = (perm, n.input_desc(0).map(|d| d.shape.dims())) else { return false };
    let long = |a: &&i64| usize::try_from(**a).ok().and_then(|a| x.get(a)).is_some_and(|d| d.size() != Some(1));
    let order: Vec<&i64> = perm.iter().filter(long).collect();
    perm.len() == x.len() && order.is_sorted()
}

/// A view as a node: its operator, and the attribute with its parameters.
struct View {
    op: &'static str,
    key: &'static str,
    list: Vec<i64>,
}

impl View {
    /// The view that turns one tensor into another with as many elements. `None` if it does more
    /// with open sizes than one attribute can express.
    fn of(from: &TensorDesc, to: &TensorDesc) -> Option<View> {
        let (x, y) = (from.shape.dims(), to.shape.dims());
        let stays = |k: usize| x.get(k).is_some_and(|d| d.same(y[k]));
        let sizes = |open: &dyn Fn(usize) -> Option<i64>| {
            let size = |(k, d): (usize, &Dim)| d.size().map_or_else(|| open(k), |n| i64::try_from(n).ok());
            y.iter().enumerate().map(size).collect::<Option<Vec<i64>>>()
        };
        if let Some(list) = sizes(&|k| stays(k).then_some(0)) {
            return Some(View { op: "Reshape", key: "shape", list });
        }
        if let Some(list) = without_ones(x, y) {
            return Some(View { op: "Squeeze", key: "axis", list });
        }
        if let Some(list) = without_ones(y, x) {
            return Some(View { op: "Unsqueeze", key: "axes", list });
        }
        // -1 may replace only the single open size: it could not be computed if another size may be
        // zero.
        let only = y.iter().filter(|d| !d.is_known()).count() == 1;
        sizes(&|_| only.then_some(-1)).map(|list| View { op: "Reshape", key: "shape", list })
    }
}

/// The axes of length one that must be removed from `long` to get `short`.
fn without_ones(long: &[Dim], short: &[Dim]) -> Option<Vec<i64>> {
    let mut rest = short.iter().peekable();
    let mut axes = Vec::new();
    for (axis, d) in (0i64..).zip(long) {
        match rest.next_if(|s| s.same(*d)) {
            Some(_) => {}
            None if d.size() == Some(1) => axes.push(axis),
            None => return None,
        }
    }
    rest.peek().is_none().then_some(axes)
}

impl<'a> Plan<'a> {
    fn of(g: &Graph<'a>) -> Plan<'a> {
        Plan { g: *g, views: BTreeMap::new(), moved: BTreeMap::new(), names: BTreeSet::new() }
    }

    /// Whether a node may be moved: it has one output with known or named sizes and the type of its
    /// input, and no control edges.
    fn free(&self, n: &Node<'_>) -> bool {
        let [y] = n.outputs() else { return false };
        let same = n.input_desc(0).is_some_and(|x| laid(x) && x.dtype == y.dtype && x.shape.count() == y.shape.count());
        same && laid(y) && edit::is_free(n)
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
                if !self.can_be_written(&n, own) {
                    continue;
                }
                self.views.insert(n.value(0), Origin { views: own.views + 1, ..own });
            } else if own.views > 0 && n.is_elementwise() && n.inputs().len() == 1 && self.pays(&n, own) {
                let Some(d) = self.desc(own.base) else { continue };
                self.moved.insert(n.id(), (own.base, d));
                self.views.insert(n.value(0), Origin { base: n.value(0), views: 0 });
            }
        }
    }

    /// Whether a view may stay as it is, or can be written as one view of its origin.
    fn can_be_written(&self, n: &Node<'_>, from: Origin) -> bool {
        let stays = from.views == 0 && !self.moved.contains_key(&from.base.node) && !moves_ones(n);
        stays || self.view(n, from).is_some()
    }

    /// The output of a node as a view of its origin.
    fn view(&self, n: &Node<'_>, from: Origin) -> Option<View> {
        View::of(&self.desc(from.base)?, n.outputs().first()?)
    }

    /// Whether it is better to move a map before the views that it reads.
    fn pays(&self, n: &Node<'_>, from: Origin) -> bool {
        if !self.free(n) || self.view(n, from).is_none() {
            return false;
        }
        // Views that others read stay, and would have to be made again behind the map.
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

    /// The descriptor of a value after the moves so far.
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
        // `kept`: views that are still read by other nodes. `behind`: for a map that has moved, the
        // new view with the shape that its readers expect.
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
                    let view = behind.get(&v.node).copied().or_else(|| self.view_behind(patch, o.base, want));
                    let Some(view) = view else { continue };
                    behind.insert(v.node, view);
                    patch.set_input(n.id(), i as u32, view);
                } else {
                    kept.insert(v.node);
                }
            }
        }
        // Readers first, because a node that is read cannot be removed.
        for id in self.g.order().iter().rev().filter(|id| self.is_planned(**id)) {
            let o = self.views[&ValueRef::new(*id, 0)];
            if !kept.contains(id) {
                patch.remove(*id);
            } else if o.views > 1 || self.moved.contains_key(&o.base.node) || moves_ones(&self.g.node(*id)) {
                self.become_view(patch, *id, o.base);
            }
        }
    }

    /// Whether a node is a view whose readers can read its origin instead.
    fn is_planned(&self, id: NodeId) -> bool {
        self.views.contains_key(&ValueRef::new(id, 0)) && !self.moved.contains_key(&id)
    }

    /// Turns a view into a view of another value.
    fn become_view(&self, patch: &mut Patch, id: NodeId, base: ValueRef) {
        let n = self.g.node(id);
        let Some(view) = self.desc(base).and_then(|d| View::of(&d, &n.outputs()[0])) else { return };
        edit::becomes(patch, &n, Key::new(view.op), &[base]);
        patch.set_attr(id, view.key, view.list);
    }

    /// Adds a view behind a map that has moved.
    fn view_behind(&self, patch: &mut Patch, base: ValueRef, want: &TensorDesc) -> Option<ValueRef> {
        let view = View::of(&self.desc(base)?, want)?;
        let mut attrs = AttrMap::default();
        attrs.set(view.key, view.list);
        let name = edit::fresh_name(&self.names, self.g.node(base.node).name(), "view");
        Some(ValueRef::new(patch.add(view.op, &name, &[base], vec![want.clone()], attrs), 0))
    }
}
