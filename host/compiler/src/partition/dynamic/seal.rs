//! Known parts of a graph as models of their own: each becomes a `PartitionedCall` that names it,
//! and its nodes, the constants that they read and the graphs that they call leave the model.
//! Unknown nodes stay where they are: executor v2 runs them as one graph.
use super::dynamic_shape_partition::{Parts, REST, name};
use super::{Merge, Part, call_parts};
use crate::error::{CompileError, Result};
use ge_ir::graph::Loose;
use ge_ir::{AttrValue, Graph, Key, Model, NodeId, ValueRef};
use std::collections::{HashMap, HashSet};

/// What names of parts begin with: a model's own name is the user's, and says nothing of what it
/// holds.
const ROOT: &str = "root";
/// Attribute of a node that stays: the part of unknown shape that it belongs to.
pub const UNKNOWN_PART: &str = "_unknown_part";

/// Takes the known parts out of a model. Each is a model whose root has the part's name.
///
/// # Errors
/// Graphs that do not fit together (a bug).
pub fn seal(model: &mut Model, found: &Parts, merge: Merge<'_>) -> Result<Vec<Model>> {
    let number = |p: u32| found.known.get(p as usize).copied();
    let order = model.root().order().to_vec();
    for (id, p) in order.into_iter().zip(&found.of) {
        if number(*p) == Some(false) && !model.root().get(id).is_some_and(|n| n.is_const()) {
            model.root_mut().set_attr(id, UNKNOWN_PART, name(ROOT, *p as usize, false).as_str());
        }
    }
    // Known parts alone are cut, numbered anew; their names keep the numbers of all parts.
    let mut at = vec![REST; found.known.len()];
    let mut parts: Vec<Part> = Vec::new();
    for (k, _) in found.known.iter().enumerate().filter(|(_, known)| **known) {
        at[k] = parts.len() as u32;
        let attrs = vec![("_is_unknown_shape", AttrValue::Bool(false))];
        parts.push(Part { name: name(ROOT, k, true), attrs });
    }
    let of = found.of.iter().map(|p| at.get(*p as usize).copied().unwrap_or(REST)).collect();
    call_parts(model, of, &parts, merge)?;
    let names: HashSet<&str> = parts.iter().map(|p| p.name.as_str()).collect();
    let mut graphs = std::mem::take(model).into_graphs();
    let root = graphs.remove(0);
    let mut bodies: HashMap<String, Graph> = HashMap::new();
    let mut rest: Vec<Graph> = Vec::new();
    for g in graphs {
        match names.contains(g.name()) {
            true => drop(bodies.insert(g.name().to_owned(), g)),
            false => rest.push(g),
        }
    }
    let lost = || CompileError::internal("partition", "a known part is lost");
    let mut out = Vec::with_capacity(parts.len());
    let mut kept: HashMap<NodeId, Vec<bool>> = HashMap::new();
    for p in &parts {
        let call = root.find(&p.name).ok_or_else(lost)?;
        let constants: Vec<Option<&ge_ir::Node>> =
            (0..call.inputs().len()).map(|i| root.producer(call, i).filter(|p| p.is_const())).collect();
        kept.insert(call.id(), constants.iter().map(Option::is_none).collect());
        let body = with_constants(bodies.remove(&p.name).ok_or_else(lost)?, &constants)?;
        out.push(with_called(body, &rest)?);
    }
    let root = without_constants(root, &kept)?;
    let mut all = vec![root];
    all.extend(rest);
    let whole = Model::from_graphs(all).ok_or_else(lost)?;
    let called: HashSet<String> =
        whole.graphs().iter().flat_map(|g| g.nodes()).flat_map(|n| n.subgraphs()).map(str::to_owned).collect();
    *model = whole;
    let keep: Vec<bool> = model.graphs().iter().enumerate().map(|(i, g)| i == 0 || called.contains(g.name())).collect();
    model.retain_graphs(&keep);
    Ok(out)
}

/// The body of a part, with constants of the graph around it in place of parameters.
fn with_constants(body: Graph, constants: &[Option<&ge_ir::Node>]) -> Result<Graph> {
    let data = Key::new("Data");
    let mut next = 0i64;
    rebuilt(body, |mut n| {
        if n.op == data {
            let index = n.attrs.int("index").and_then(|i| usize::try_from(i).ok()).unwrap_or(0);
            if let Some(c) = constants.get(index).copied().flatten() {
                n.op = c.op_key();
                n.name = c.name().to_owned();
                n.attrs = c.attrs().clone();
                n.outputs = c.outputs().to_vec();
            } else {
                n.attrs.set("index", next);
                next += 1;
            }
        }
        Some(n)
    })
}

/// The root, whose calls of parts take no constants; those that nothing else reads are gone.
fn without_constants(root: Graph, kept: &HashMap<NodeId, Vec<bool>>) -> Result<Graph> {
    let unread = |n: &ge_ir::Node| {
        let by_part =
            |u: &ge_plugin_api::types::Use| kept.get(&u.node).is_some_and(|k| k.get(u.input as usize) == Some(&false));
        n.is_const() && n.control_users().is_empty() && !n.uses(0).is_empty() && n.uses(0).iter().all(by_part)
    };
    let gone: HashSet<String> = root.nodes().filter(|n| unread(n)).map(|n| n.name().to_owned()).collect();
    let calls: HashMap<String, &Vec<bool>> =
        root.nodes().filter_map(|n| Some((n.name().to_owned(), kept.get(&n.id())?))).collect();
    rebuilt(root, |mut n| {
        if let Some(kept) = calls.get(&n.name) {
            let mut keep = kept.iter();
            n.inputs.retain(|_| keep.next().copied().unwrap_or(true));
        }
        (!gone.contains(&n.name)).then_some(n)
    })
}

/// A graph node by node. What `edit` gives nothing for is left out.
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

/// A part with all graphs that its nodes call, however deep.
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
