//! Shared by the fusions: names of fused and of new nodes, whether a node may be moved, and the
//! removal of nodes that nothing reads any more.
use ge_plugin_api::patch::{Edit, Patch};
use ge_plugin_api::types::{Key, NodeId, ValueRef};
use ge_plugin_api::view::{Graph, Node};
use std::collections::BTreeSet;

/// Attribute of a fused node: names of the original nodes that it stands for (DESIGN 2, "Names
/// survive").
const ORIGINALS: &str = "_datadump_original_op_names";

/// Whether only the values determine a node's position: it has no control edges in either
/// direction.
pub fn is_free(n: &Node<'_>) -> bool {
    n.controls().is_empty() && n.graph().control_users(n.id()).is_empty()
}

/// The name `of` followed by `_` and `what`, and by as many underscores as make it new.
pub fn fresh_name(names: &BTreeSet<&str>, of: &str, what: &str) -> String {
    let mut name = format!("{of}_{what}");
    while names.contains(name.as_str()) {
        name.push('_');
    }
    name
}

/// Turns a node into another operator with other inputs. Its own attributes are removed; private
/// ones, which passes set, stay.
pub fn becomes(patch: &mut Patch, n: &Node<'_>, op: Key, inputs: &[ValueRef]) {
    for a in n.attrs().iter().filter(|a| !a.key.as_str().starts_with('_')) {
        patch.push(Edit::RemoveAttr(n.id(), a.key));
    }
    patch.push(Edit::SetOp(n.id(), op));
    patch.push(Edit::SetInputs(n.id(), inputs.into()));
}

/// Records the names of the original nodes that `into` stands for, including those that the fused
/// nodes already stood for.
pub fn keep_names(patch: &mut Patch, into: &Node<'_>, fused: &[Node<'_>]) {
    let mut names: Vec<String> = Vec::new();
    for n in fused {
        match n.attr(ORIGINALS).and_then(|a| a.as_strs()) {
            Some(old) => names.extend(old.into_iter().map(str::to_owned)),
            None => names.push(n.name().to_owned()),
        }
    }
    patch.set_attr(into.id(), ORIGINALS, names);
}

/// Removes the `candidates`, and the constants that they and `into` read, if afterwards only
/// removed nodes or old inputs of `into` read them. `reads` are the nodes that `into` reads after
/// the fusion; they stay.
pub fn remove_unread(patch: &mut Patch, g: &Graph<'_>, into: NodeId, reads: &[NodeId], candidates: &[NodeId]) {
    let mut all: Vec<NodeId> = candidates.to_vec();
    for &c in candidates.iter().chain([&into]) {
        if let Some(n) = g.find(c) {
            all.extend(n.inputs().iter().filter(|v| !v.is_absent()).map(|v| v.node));
        }
    }
    all.retain(|c| candidates.contains(c) || g.find(*c).is_some_and(|n| n.is_const()));
    all.sort_unstable();
    all.dedup();
    let mut gone: BTreeSet<NodeId> = BTreeSet::new();
    loop {
        let before = gone.len();
        for &c in &all {
            let Some(n) = g.find(c) else { continue };
            let unread = (0..n.outputs().len())
                .all(|k| g.users(n.value(k as u32)).iter().all(|u| gone.contains(&u.node) || u.node == into));
            if c != into && !reads.contains(&c) && unread && g.control_users(c).is_empty() {
                gone.insert(c);
            }
        }
        if gone.len() == before {
            break;
        }
    }
    gone.into_iter().for_each(|c| patch.remove(c));
}
