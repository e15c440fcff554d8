//! Bodies: subgraphs that run in slices leave the model while streams, memory and events are
//! planned; for these plans each is one node with one task. The constants of a body become inputs
//! of that node, so that all weights belong to the model.
use crate::error::{CompileError, Result};
use ge_ir::graph::Loose;
use ge_ir::{AttrMap, AttrValue, Graph, Key, Model, NodeId, ValueRef};
use ge_plugin_api::author::slices::OP;
use std::collections::{HashMap, HashSet};

/// A body and the name of the node that stands for it.
#[derive(Debug)]
pub struct Body {
    /// Name of the node that calls the body.
    pub call: String,
    /// The nodes of the body. A Data node with `index` k is input k of the calling node.
    pub graph: Graph,
}

/// Takes all bodies out of the model.
pub fn take(model: &mut Model) -> Result<Vec<Body>> {
    let (op, key) = (Key::new(OP), Key::new("f"));
    let mut named: HashMap<String, (usize, String)> = HashMap::new();
    for (gi, g) in model.graphs().iter().enumerate() {
        for n in g.nodes().filter(|n| n.op_key() == op) {
            if let Some(AttrValue::Graph(f)) = n.attrs().get(key) {
                named.insert(f.to_string(), (gi, n.name().to_owned()));
            }
        }
    }
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let mut graphs = std::mem::replace(model, Model::new("")).into_graphs();
    let mut bodies = Vec::new();
    let mut kept = Vec::with_capacity(graphs.len());
    let mut outer: HashSet<usize> = HashSet::new();
    for (gi, g) in graphs.drain(..).enumerate() {
        match named.get(g.name()) {
            Some((of, call)) => {
                outer.insert(*of);
                bodies.push((call.clone(), g));
            }
            None => kept.push((gi, g)),
        }
    }
    let mut constants: HashMap<String, Vec<Loose>> = HashMap::new();
    let mut out = Vec::with_capacity(bodies.len());
    for (call, g) in bodies {
        let (graph, own) = without_constants(g)?;
        constants.insert(call.clone(), own);
        out.push(Body { call, graph });
    }
    let done =
        kept.into_iter().map(|(gi, g)| if outer.contains(&gi) { with_constants(g, &mut constants) } else { Ok(g) });
    let graphs = done.collect::<Result<Vec<_>>>()?;
    *model = Model::from_graphs(graphs).ok_or_else(|| broken("the model"))?;
    Ok(out)
}

/// Puts the bodies back, so that the graph of a tuning stop is complete.
pub fn give_back(model: &mut Model, bodies: &[Body]) -> Result<()> {
    if bodies.is_empty() {
        return Ok(());
    }
    let of: HashMap<&str, &Body> = bodies.iter().map(|b| (b.call.as_str(), b)).collect();
    for g in model.graphs_mut() {
        let calls: Vec<(NodeId, String)> = g
            .nodes()
            .filter(|n| n.op() == OP)
            .filter_map(|n| Some((n.id(), of.get(n.name())?.graph.name().to_owned())))
            .collect();
        for (id, name) in calls {
            g.set_attr(id, "f", AttrValue::Graph(name.as_str().into()));
        }
    }
    let mut graphs = std::mem::replace(model, Model::new("")).into_graphs();
    for b in bodies {
        let mut copy = Graph::new(b.graph.name());
        *copy.attrs_mut() = b.graph.attrs().clone();
        for n in b.graph.nodes() {
            copy.push(loose(n)).ok_or_else(|| broken(&b.call))?;
        }
        graphs.push(copy);
    }
    *model = Model::from_graphs(graphs).ok_or_else(|| broken("the model"))?;
    Ok(())
}

/// A node in the form in which it is pushed into another graph.
pub(super) fn loose(n: &ge_ir::Node) -> Loose {
    Loose {
        op: n.op_key(),
        name: n.name().to_owned(),
        inputs: n.inputs().to_vec(),
        controls: n.controls().to_vec(),
        outputs: n.outputs().to_vec(),
        attrs: n.attrs().to_map(),
    }
}

pub(super) fn broken(what: &str) -> CompileError {
    CompileError::internal("ffts_plus", format!("the slices of `{what}` do not fit together"))
}

/// Returns the body with Data nodes in place of its constants, and the constants.
fn without_constants(g: Graph) -> Result<(Graph, Vec<Loose>)> {
    let name = g.name().to_owned();
    let mut graph = Graph::new(&name);
    let first = g.data_nodes().len();
    let mut own = Vec::new();
    let mut at = vec![NodeId::NONE; g.id_bound()];
    let (attrs, nodes) = g.into_nodes();
    *graph.attrs_mut() = attrs;
    for (id, mut n) in nodes {
        if matches!(n.op.as_str(), "Const" | "Constant") {
            let mut attrs = AttrMap::default();
            attrs.set("index", (first + own.len()) as i64);
            let data = Loose {
                op: Key::new("Data"),
                name: n.name.clone(),
                inputs: Vec::new(),
                controls: Vec::new(),
                outputs: n.outputs.clone(),
                attrs,
            };
            own.push(n);
            n = data;
        }
        moved(&mut n, &at);
        at[id.index()] = graph.push(n).ok_or_else(|| broken(&name))?;
    }
    Ok((graph, own))
}

/// Returns the graph with the constants of each call before the call, as its further inputs.
fn with_constants(g: Graph, constants: &mut HashMap<String, Vec<Loose>>) -> Result<Graph> {
    let name = g.name().to_owned();
    let mut out = Graph::new(&name);
    let mut at = vec![NodeId::NONE; g.id_bound()];
    let (attrs, nodes) = g.into_nodes();
    *out.attrs_mut() = attrs;
    for (id, mut n) in nodes {
        moved(&mut n, &at);
        if n.op.as_str() == OP {
            n.attrs.remove("f");
            for mut c in constants.remove(&n.name).unwrap_or_default() {
                c.controls.clear();
                let c = out.push(c).ok_or_else(|| broken(&name))?;
                n.inputs.push(ValueRef::new(c, 0));
            }
        }
        at[id.index()] = out.push(n).ok_or_else(|| broken(&name))?;
    }
    Ok(out)
}

/// Replaces the ids of the graph that a node came from by the ids in `at`.
fn moved(n: &mut Loose, at: &[NodeId]) {
    for v in n.inputs.iter_mut().filter(|v| !v.is_absent()) {
        v.node = at[v.node.index()];
    }
    n.controls.iter_mut().for_each(|c| *c = at[c.index()]);
    n.controls.retain(|c| *c != NodeId::NONE);
}
