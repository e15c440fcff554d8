//! Shared by passes that move nodes between a graph and the graphs it calls.
use super::PassContext;
use super::declare::At;
use ge_ir::{AttrValue, Graph, Node, TensorDesc, ValueRef};
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
