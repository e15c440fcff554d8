//! HcomSend and HcomReceive. All ranks run the same model, so a send and its receive form one
//! transfer: from rank `src_rank` of the receive to rank `dest_rank` of the send. The pair becomes
//! one node, whose edges order what both wait for. So no order of nodes can make two ranks wait for
//! each other.
//!
//! Before: `%s = HcomSend(%x) {sr_tag = 7, dest_rank = 1}`, `%r = HcomReceive() {sr_tag = 7, src_rank = 0, …}`.
//! After: `%r = HcomTransfer(%x) {sr_tag = 7, src_rank = 0, dest_rank = 1}`, named after the receive.
//! Refuses: a node without its counterpart, a different type or shape, a send that depends on its
//! own receive.
use ge_plugin_api::patch::{Edit, Patch};
use ge_plugin_api::types::{AttrMap, AttrValue, NodeId};
use ge_plugin_api::view::{Graph, Node};
use std::collections::{BTreeMap, BTreeSet};

/// Operator that sends one tensor to a rank.
pub const SEND: &str = "HcomSend";
/// Operator that receives one tensor from a rank.
pub const RECEIVE: &str = "HcomReceive";
/// Operator that combines a send and a receive.
pub const TRANSFER: &str = "HcomTransfer";

type Tag<'a> = (&'a str, i64);

fn tag<'a>(n: &Node<'a>) -> Tag<'a> {
    (n.str("group").unwrap_or("hccl_world_group"), n.int("sr_tag").unwrap_or(0))
}

/// Sends and receives of each tag, in the order of the graph.
fn by_tag<'a>(graph: &Graph<'a>) -> BTreeMap<Tag<'a>, (Vec<Node<'a>>, Vec<Node<'a>>)> {
    let mut all: BTreeMap<Tag<'a>, (Vec<Node<'a>>, Vec<Node<'a>>)> = BTreeMap::new();
    for n in graph.nodes() {
        match n.op() {
            SEND => all.entry(tag(&n)).or_default().0.push(n),
            RECEIVE => all.entry(tag(&n)).or_default().1.push(n),
            _ => {}
        }
    }
    all
}

/// Whether `node` depends on `other`, by data or control edges.
fn follows(graph: &Graph<'_>, node: NodeId, other: NodeId) -> bool {
    let (mut seen, mut open) = (BTreeSet::new(), vec![node]);
    while let Some(id) = open.pop() {
        if id == other {
            return true;
        }
        if seen.insert(id) {
            let n = graph.node(id);
            open.extend(n.inputs().iter().map(|v| v.node));
            open.extend(n.controls());
        }
    }
    false
}

/// Why a send and a receive do not form a pair; `None` if they do.
fn misfit(graph: &Graph<'_>, send: &Node<'_>, receive: &Node<'_>) -> Option<String> {
    let (Some(x), Some(y)) = (send.input_desc(0), receive.outputs().first()) else {
        return Some("the send has no input or the receive no output".into());
    };
    if x.dtype != y.dtype || x.shape != y.shape {
        let (s, r) = (send.name(), receive.name());
        return Some(format!("`{s}` sends {}{}, `{r}` receives {}{}", x.dtype, x.shape, y.dtype, y.shape));
    }
    follows(graph, send.id(), receive.id())
        .then(|| format!("`{}` sends what depends on `{}`, which receives it", send.name(), receive.name()))
}

/// Why a send or receive that is still in the graph was not paired.
pub fn refusal(node: &Node<'_>) -> String {
    let graph = node.graph();
    let key = tag(node);
    let all = by_tag(&graph);
    let empty = (Vec::new(), Vec::new());
    let (sends, receives) = all.get(&key).unwrap_or(&empty);
    let (own, others, what) = if node.op() == SEND { (sends, receives, RECEIVE) } else { (receives, sends, SEND) };
    let at = own.iter().position(|n| n.id() == node.id()).unwrap_or(0);
    let Some(other) = others.get(at) else {
        return format!("the graph has no {what} with sr_tag {} in group `{}` for it", key.1, key.0);
    };
    let (send, receive) = if node.op() == SEND { (node, other) } else { (other, node) };
    misfit(&graph, send, receive).unwrap_or_else(|| format!("it stands apart from {what} `{}`", other.name()))
}

/// Replaces the pairs of a graph by transfers: the k-th send of a tag belongs to its k-th receive.
pub fn pair(graph: &Graph<'_>, patch: &mut Patch) {
    for (key, (sends, receives)) in by_tag(graph) {
        for (send, receive) in sends.iter().zip(&receives) {
            if misfit(graph, send, receive).is_some() {
                continue;
            }
            let mut attrs: AttrMap = receive.attrs().into();
            attrs.remove("shape");
            attrs.remove("dtype");
            attrs.set("group", key.0);
            attrs.set("dest_rank", send.int("dest_rank").unwrap_or(0));
            for a in send.attrs() {
                if attrs.get(a.key).is_none() {
                    attrs.set(a.key, a.value.clone());
                }
            }
            let names = AttrValue::List(vec![send.name().into(), receive.name().into()].into());
            attrs.set("_datadump_original_op_names", names);
            let id = patch.add(TRANSFER, "", send.inputs(), receive.outputs().to_vec(), attrs);
            patch.replace_uses(receive.value(0), ge_plugin_api::types::ValueRef::new(id, 0));
            for half in [send, receive] {
                half.controls().iter().for_each(|c| patch.push(Edit::AddControl(*c, id)));
                graph.control_users(half.id()).iter().for_each(|u| {
                    patch.push(Edit::RemoveControl(half.id(), *u));
                    patch.push(Edit::AddControl(id, *u));
                });
                patch.remove(half.id());
            }
            patch.push(Edit::SetName(id, receive.name().into()));
        }
    }
}
