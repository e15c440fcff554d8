//! Scopes: groups of nodes that are cut along an axis of the same extent and connected by values of
//! which each slice needs only its own part. They are marked on the whole graph after stage 1; the
//! composite partition cuts along the marks.
//!
//! A node joins the scope whose values it reads in slices; if there are several, they are merged.
//! It does not join a scope of which it also reads a value whole: that value must be complete
//! before the node's first slice begins.
use super::rules::{Sliced, sliced};
use ge_plugin_api::engine::COMPOSITE_SCOPE;
use ge_plugin_api::patch::Patch;
use ge_plugin_api::types::NodeId;
use ge_plugin_api::view::Graph;
use std::collections::{BTreeSet, HashMap};

/// Attributes by which a user says where a node runs; such a node keeps a task of its own.
const BINDING: &[&str] = &[
    "_stream_label",
    "_user_stream_label",
    "_user_stream_priority",
    "_parallel_group",
    "NewStreamId",
    "_continuous_stream_label",
    "_attached_stream_info",
    "_attached_stream_info_list",
    "_force_attach_stream",
    "_event_multiplexing",
    "_super_kernel_scope",
    COMPOSITE_SCOPE,
];

/// A scope under construction.
struct Scope {
    extent: u64,
    nodes: Vec<NodeId>,
    /// Numbers of the scopes of which it reads a value whole, as they were at that time.
    whole: BTreeSet<usize>,
}

/// Marks the nodes of each scope of two or more nodes with the scope's name.
pub fn mark(graph: &Graph<'_>, patch: &mut Patch) {
    let (mut scopes, mut of): (Vec<Scope>, HashMap<NodeId, usize>) = (Vec::new(), HashMap::new());
    let mut into: Vec<usize> = Vec::new();
    for node in graph.nodes() {
        let says = |k: &&str| node.attr(*k).is_some_and(|v| v.as_str() != Some(""));
        let bound = BINDING.iter().any(says);
        let Ok(s) = sliced(&node) else { continue };
        if bound {
            continue;
        }
        let Sliced { extent, inputs, .. } = s;
        let place = |i: usize| node.input(i).and_then(|v| of.get(&v.node)).map(|k| root(&into, *k));
        let (mut near, mut whole) = (BTreeSet::new(), BTreeSet::new());
        for (i, axis) in inputs.iter().enumerate() {
            match (place(i), axis) {
                (Some(k), Some(_)) if scopes[k].extent == extent => near.insert(k),
                (Some(k), _) => whole.insert(k),
                (None, _) => false,
            };
        }
        let apart = |a: &Scope, b: usize| a.whole.iter().any(|w| root(&into, *w) == b);
        let mut joined: Vec<usize> = Vec::new();
        for k in near {
            let free = !whole.contains(&k) && joined.iter().all(|j| !apart(&scopes[*j], k) && !apart(&scopes[k], *j));
            if free {
                joined.push(k);
            } else {
                whole.insert(k);
            }
        }
        let home = match joined.first() {
            Some(k) => *k,
            None => {
                into.push(scopes.len());
                scopes.push(Scope { extent, nodes: Vec::new(), whole: BTreeSet::new() });
                scopes.len() - 1
            }
        };
        for k in joined.into_iter().skip(1) {
            into[k] = home;
            let (nodes, more) = (std::mem::take(&mut scopes[k].nodes), std::mem::take(&mut scopes[k].whole));
            scopes[home].nodes.extend(nodes);
            scopes[home].whole.extend(more);
        }
        scopes[home].whole.extend(whole);
        scopes[home].nodes.push(node.id());
        of.insert(node.id(), home);
    }
    for s in scopes.iter().filter(|s| s.nodes.len() > 1) {
        let name = format!("ffts_{}", s.nodes.iter().min().map_or("", |id| graph.node(*id).name()));
        for id in &s.nodes {
            patch.set_attr(*id, COMPOSITE_SCOPE, name.as_str());
        }
    }
}

fn root(into: &[usize], mut k: usize) -> usize {
    while into[k] != k {
        k = into[k];
    }
    k
}
