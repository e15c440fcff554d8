//! Makes known parts of graphs models of their own. Each becomes a `PartitionedCall` that names it;
//! its nodes, the constants that they read and the graphs that they call leave the model. Unknown
//! nodes stay in their graph, because executor v2 runs all unknown nodes of a graph together.
use super::dynamic_shape_partition::{Parts, REST, name};
use super::{Calls, Merge, Part, call_parts};
use crate::error::{CompileError, Result};
use ge_ir::graph::Loose;
use ge_ir::{AttrValue, Graph, Key, Model, NodeId, ValueRef};
use std::collections::{HashMap, HashSet};

/// Prefix for the names of the root graph's parts. The name of the model is chosen by the user and
/// says nothing about its contents. Names of other graphs' parts begin with the graph's name.
const ROOT: &str = "root";
/// Attribute of a node that stays: name of the part of unknown shape that it belongs to.
pub const UNKNOWN_PART: &str = "_unknown_part";

/// The parts of one graph of a model.
pub struct Found {
    /// Index of the graph in the model.
    pub graph: usize,
    /// Prefix for the names of its parts.
    pub prefix: String,
    /// The parts of the graph.
    pub parts: Parts,
}

/// Returns a prefix for the names of graph `gi`'s parts that collides with no graph, no node of
/// graph `gi` and no prefix in `taken`.
pub fn prefix(model: &Model, gi: usize, taken: &[Found]) -> String {
    let g = &model.graphs()[gi];
    let own = if gi == 0 { ROOT } else { g.name() };
    let mut prefix = own.to_owned();
    let mut next = 1;
    loop {
        let start = format!("{prefix}_sub_");
        let clashes = |name: &str| name.starts_with(&start);
        if !model.graphs().iter().any(|g| clashes(g.name()))
            && !g.nodes().any(|n| clashes(n.name()))
            && !taken.iter().any(|f| f.prefix == prefix)
        {
            return prefix;
        }
        prefix = format!("{own}_{next}");
        next += 1;
    }
}

/// Takes the known parts out of the graphs of a model, in the order of `found`. Each becomes a
/// model whose root graph has the part's name. A node of a known part must not call a graph of
/// `found`.
///
/// # Errors
/// Fails if the graphs do not fit together (a bug).
pub fn seal(model: &mut Model, found: &[Found], merge: Merge<'_>) -> Result<Vec<Model>> {
    let parts: Vec<Vec<Part>> = found.iter().map(known_of).collect();
    let hosts: Vec<String> = found.iter().map(|f| model.graphs()[f.graph].name().to_owned()).collect();
    let mut calls = Vec::with_capacity(found.len());
    for (f, parts) in found.iter().zip(&parts) {
        mark_unknown(model, f);
        calls.push(Calls { graph: f.graph, of: renumbered(f), parts });
    }
    call_parts(model, calls, merge)?;
    let names: HashSet<&str> = parts.iter().flatten().map(|p| p.name.as_str()).collect();
    let mut bodies: HashMap<String, Graph> = HashMap::new();
    let mut rest: Vec<Graph> = Vec::new();
    for g in std::mem::take(model).into_graphs() {
        match names.contains(g.name()) {
            true => drop(bodies.insert(g.name().to_owned(), g)),
            false => rest.push(g),
        }
    }
    let lost = || CompileError::internal("partition", "a known part is lost");
    let mut out = Vec::with_capacity(names.len());
    for (host, parts) in hosts.iter().zip(&parts) {
        let at = rest.iter().position(|g| g.name() == host).ok_or_else(lost)?;
        let mut kept: HashMap<NodeId, Vec<bool>> = HashMap::new();
        for p in parts {
            let host = &rest[at];
            let call = host.find(&p.name).ok_or_else(lost)?;
            let constants: Vec<Option<&ge_ir::Node>> =
                (0..call.inputs().len()).map(|i| host.producer(call, i).filter(|p| p.is_const())).collect();
            kept.insert(call.id(), constants.iter().map(Option::is_none).collect());
            let body = with_constants(bodies.remove(&p.name).ok_or_else(lost)?, &constants)?;
            out.push(with_called(body, &rest)?);
        }
        let host = std::mem::replace(&mut rest[at], Graph::new(host.as_str()));
        rest[at] = without_constants(host, &kept)?;
    }
    *model = Model::from_graphs(rest).ok_or_else(lost)?;
    let called: HashSet<&str> = model.graphs().iter().flat_map(|g| g.nodes()).flat_map(|n| n.subgraphs()).collect();
    let keep: Vec<bool> = model.graphs().iter().enumerate().map(|(i, g)| i == 0 || called.contains(g.name())).collect();
    model.retain_graphs(&keep);
    Ok(out)
}

/// The known parts of a graph. The numbers in their names count all parts of the graph.
fn known_of(f: &Found) -> Vec<Part> {
    let known = f.parts.known.iter().enumerate().filter(|(_, known)| **known);
    let attrs = || vec![("_is_unknown_shape", AttrValue::Bool(false))];
    known.map(|(k, _)| Part { name: name(&f.prefix, k, true), attrs: attrs() }).collect()
}

/// The part of each node, counting only the known parts.
fn renumbered(f: &Found) -> Vec<u32> {
    let mut at = vec![REST; f.parts.known.len()];
    for (next, (k, _)) in (0u32..).zip(f.parts.known.iter().enumerate().filter(|(_, known)| **known)) {
        at[k] = next;
    }
    f.parts.of.iter().map(|p| at.get(*p as usize).copied().unwrap_or(REST)).collect()
}

/// Marks the nodes that stay with the name of their part.
fn mark_unknown(model: &mut Model, f: &Found) {
    let Some(g) = model.graphs().get(f.graph) else { return };
    let number = |p: u32| f.parts.known.get(p as usize).copied();
    let stays = |id: &NodeId, p: u32| number(p) == Some(false) && !g.get(*id).is_some_and(|n| n.is_const());
    let marks: Vec<(NodeId, u32)> =
        g.order().iter().copied().zip(f.parts.of.iter().copied()).filter(|(id, p)| stays(id, *p)).collect();
    let graph = g.name().to_owned();
    let Some(g) = model.graph_mut(&graph) else { return };
    for (id, p) in marks {
        g.set_attr(id, UNKNOWN_PART, name(&f.prefix, p as usize, false).as_str());
    }
}

/// Replaces parameters of a part's body by the constants of the surrounding graph that they stand
/// for.
fn with_constants(body: Graph, constants: &[Option<&ge_ir::Node>]) -> Result<Graph> {
    let data = Key::new("Data");
    let mut next = 0i64;
    rebuilt(body, |mut n| {
        if n.op == data {
            let index = n.attrs.int("index").and_then(|i| usize::try_from(i).ok()).unwrap_or(0);
            if let Some(c) = constants.get(index).copied().flatten() {
                n.op = c.op_key();
                n.name = c.name().to_owned();
                n.attrs = c.attrs().to_map();
                n.outputs = c.outputs().to_vec();
            } else {
                n.attrs.set("index", next);
                next += 1;
            }
        }
        Some(n)
    })
}

/// Removes the constant inputs from the calls of parts, and the constants that nothing else reads.
fn without_constants(g: Graph, kept: &HashMap<NodeId, Vec<bool>>) -> Result<Graph> {
    let unread = |n: &ge_ir::Node| {
        let by_part =
            |u: &ge_plugin_api::types::Use| kept.get(&u.node).is_some_and(|k| k.get(u.input as usize) == Some(&false));
        n.is_const() && n.control_users().is_empty() && !n.uses(0).is_empty() && n.uses(0).iter().all(by_part)
    };
    let gone: HashSet<String> = g.nodes().filter(|n| unread(n)).map(|n| n.name().to_owned()).collect();
    let calls: HashMap<String, &Vec<bool>> =
        g.nodes().filter_map(|n| Some((n.name().to_owned(), kept.get(&n.id())?))).collect();
    rebuilt(g, |mut n| {
        if let Some(kept) = calls.get(&n.name) {
            let mut keep = kept.iter();
            n.inputs.retain(|_| keep.next().copied().unwrap_or(true));
        }
        (!gone.contains(&n.name)).then_some(n)
    })
}

/// Rebuilds a graph node by node. Nodes for which `edit` returns `None` are left out.
fn rebuilt(g: Graph, mut edit: impl FnMut(Loose) -> Option<Loose>) -> Result<Graph> {
    let mut out = Graph::new(g.name());
    let mut at = vec![NodeId::NONE; g.id_bound()];
    let (attrs, nodes) = g.into_nodes();
    *out.attrs_mut() = attrs;
    for (id, n) in nodes {
        let Some(mut n) = edit(n) else { continue };
        for v in n.inputs.iter_mut().filter(|v| !v.is_absent()) {
            *v = ValueRef::new(at[v.node.index()], v.output);
        }
        n.controls = n.controls.iter().map(|c| at[c.index()]).filter(|c| *c != NodeId::NONE).collect();
        let missing = || CompileError::internal("partition", "a known part reads what is not there");
        at[id.index()] = out.push(n).ok_or_else(missing)?;
    }
    Ok(out)
}

/// A model of a part and all graphs that its nodes call, directly or indirectly.
fn with_called(body: Graph, graphs: &[Graph]) -> Result<Model> {
    let mut all = vec![body];
    let mut at = 0;
    while at < all.len() {
        let names: Vec<String> = all[at].nodes().flat_map(|n| n.subgraphs()).map(str::to_owned).collect();
        for name in names {
            if all.iter().all(|g| g.name() != name) {
                all.extend(graphs.iter().find(|g| g.name() == name).cloned());
            }
        }
        at += 1;
    }
    Model::from_graphs(all).ok_or_else(|| CompileError::internal("partition", "a part without a graph"))
}
