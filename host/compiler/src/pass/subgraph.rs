//! Shared by passes that move nodes between a graph and the graphs it calls.
use super::PassContext;
use super::declare::At;
use ge_ir::{AttrValue, Dim, Graph, Node, TensorDesc, ValueRef};
use ge_plugin_api::ops::flags;
use ge_plugin_api::patch::Patch;
use ge_plugin_api::types::AttrMap;
use std::collections::HashMap;

const ACTS: u64 =
    flags::RANDOM | flags::STATEFUL | flags::COMMUNICATION | flags::REFERENCE | flags::DATA_DEPENDENT_SHAPE;

/// The graph that the node calls through attribute `key`; otherwise the reason why there is none.
pub fn called<'m>(at: &At<'m>, key: &str) -> Result<&'m Graph, &'static str> {
    let Some(AttrValue::Graph(name)) = at.n.attr(key) else { return Err("it does not name its graphs") };
    at.model.graph(name).ok_or("a graph that it names is not there")
}

/// Whether a node computes the same wherever it stands and has no effect beyond its outputs.
pub fn movable(cx: &PassContext<'_>, n: &Node) -> bool {
    let plain = n.controls().is_empty() && n.control_users().is_empty() && n.subgraphs().is_empty();
    let pure = cx.op_flags(n) & ACTS == 0 && cx.toolbox.op(n.op_key()).is_some();
    plain && !n.outputs().is_empty() && (n.is_const() || pure && !n.inputs().is_empty())
}

/// Most indices that are looked at.
const INDICES: usize = 1 << 16;

/// Whether a node may fail by the values of its inputs. Such a node must not move out of code that
/// may not run. One that [indexes](flags::INDEXES) cannot fail if its indices are constants that
/// every axis has.
pub fn may_fail(cx: &PassContext<'_>, g: &Graph, n: &Node) -> bool {
    let own = cx.op_flags(n);
    if own & flags::INDEXES == 0 {
        return own & flags::MAY_FAIL != 0;
    }
    let sizes = g.input_desc(n, 0).and_then(|d| d.shape.sizes());
    let least = sizes.and_then(|s| i64::try_from(s.into_iter().min()?).ok()).unwrap_or(0);
    let indices = n.input(1).and_then(|v| g.constant(v)).and_then(|t| t.to_i64(INDICES));
    !indices.is_some_and(|all| all.iter().all(|i| (-least..least).contains(i)))
}

/// Whether the sizes of a node's inputs certainly fit each other: all are known, or it is a product
/// by known matrices whose inner size is known, or the node is element-wise and its inputs are equal
/// along each axis, or 1.
pub fn sizes_fit(cx: &PassContext<'_>, g: &Graph, n: &Node) -> bool {
    let given = (0..n.inputs().len()).filter(|i| n.input(*i).is_some_and(|v| !v.is_absent()));
    let Some(shapes) = given.map(|i| Some(&g.input_desc(n, i)?.shape)).collect::<Option<Vec<_>>>() else {
        return false;
    };
    if shapes.iter().all(|s| s.is_static()) {
        return true;
    }
    let own = cx.op_flags(n);
    let turned = ["transpose_x1", "adj_x1"].into_iter().any(|a| n.attrs().flag(a));
    if let ([x, others @ ..], true) = (&shapes[..], own & flags::PRODUCT != 0 && !turned) {
        let inner = x.dims().last().is_some_and(|d| d.size().is_some());
        return inner && others.iter().all(|s| s.is_static() && s.dims().len() <= 2);
    }
    let mut axes: Vec<Dim> = Vec::new();
    let mut joins = |(k, d): (usize, &Dim)| {
        if axes.len() == k {
            axes.push(*d);
        }
        let first = &mut axes[k];
        if first.size() == Some(1) {
            *first = *d;
        }
        d.size() == Some(1) || *first == *d && *d != Dim::UNKNOWN
    };
    let equal = shapes.len() < 2
        || shapes.iter().all(|s| !s.is_unranked() && s.dims().iter().rev().enumerate().all(&mut joins));
    equal && own & flags::ELEMENTWISE != 0
}

/// Maps each input of a called graph to its index among the `count` arguments of the caller. `None`
/// if an input has no valid index, has `_parent_node_index`, or has control edges.
pub fn arguments(called: &Graph, count: usize) -> Option<HashMap<ValueRef, usize>> {
    let mut out = HashMap::new();
    for d in called.data_nodes() {
        let k = d.attrs().int("index").and_then(|i| usize::try_from(i).ok()).filter(|k| *k < count)?;
        if d.attr("_parent_node_index").is_some() || !d.controls().is_empty() || !d.control_users().is_empty() {
            return None;
        }
        out.insert(d.value(0), k);
    }
    Some(out)
}

/// Adds one more input with index `place` to a called graph.
pub fn add_argument(patch: &mut Patch, called: &Graph, place: usize, desc: &TensorDesc) -> ValueRef {
    let mut attrs = AttrMap::default();
    attrs.set("index", place as i64);
    let name = format!("{}/arg_{place}", called.name());
    ValueRef::new(patch.add("Data", &name, &[], vec![desc.clone()], attrs), 0)
}

/// Follows `Identity` nodes back to the value that `v` is a copy of.
pub fn original(g: &Graph, mut v: ValueRef) -> ValueRef {
    while let Some(n) = g.get(v.node).filter(|n| n.op() == "Identity") {
        let Some(from) = n.input(0) else { break };
        v = from;
    }
    v
}
