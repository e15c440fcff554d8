//! Effects as values, for models that executor v2 runs: a run takes what variables hold as it takes
//! its inputs, and gives what they hold afterwards as it gives its outputs.
//!
//! In the root graph a `Variable` stands for what it holds when the run begins, and one `Assign`
//! that is marked ([`ge_model::KEPT`]) for what it holds when the run is over. In between each write makes a
//! new value, and each read reads the one of its place in the order. Graphs that are called get
//! what they read as further inputs and give what they write as further outputs; loops carry it.
//! So parts of known shape, plans, memory and schedules need not know of variables at all.

/// One graph.
mod walk;

use super::summary::{self, State, Summary};
use super::writer::Names;
use super::{EffectRules, by_reference};
use crate::error::{CompileError, Result, VariableFault};
use crate::toolbox::Toolbox;
use ge_ir::{AttrValue, Graph, Model, Node, NodeId, TensorDesc};
use ge_model::EffectOrder;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// What a node with graphs gives to them, and takes from them, beyond what it has.
#[derive(Clone, Debug, Default)]
pub(super) struct Signature {
    /// Variables that are further inputs.
    inputs: Vec<String>,
    /// What is given back as further outputs; a loop gives each further input back.
    outputs: Vec<State>,
}

/// A graph that is still to be rewritten.
struct Job {
    graph: usize,
    signature: Signature,
}

/// The model around a graph.
pub(super) struct Whole<'m> {
    model: &'m Model,
    rules: &'m EffectRules<'m>,
    summaries: &'m [Summary],
    variables: &'m BTreeMap<String, TensorDesc>,
    order: &'m EffectOrder,
}

/// Whether a model has memory that outlives a run, or nodes that write over what they are given.
pub fn has_states(model: &Model, toolbox: &Toolbox) -> bool {
    let rules = EffectRules { toolbox };
    let is_state = |n: &Node| matches!(n.op(), "Variable" | "RefData") || rules.writes(n, 0);
    model.graphs().iter().flat_map(Graph::nodes).any(is_state)
}

/// Makes values of the variables of a model, and of what callers lend to be written.
///
/// # Errors
/// A variable of open size; an operator whose graphs have effects and that nobody knows how to give
/// values to.
pub fn to_values(model: &mut Model, toolbox: &Toolbox) -> Result<()> {
    let rules = EffectRules { toolbox };
    apart(model, &rules)?;
    let order = EffectOrder::from_attrs(model.root().attrs());
    let summaries = summary::all(model, &rules);
    let variables = variables(model)?;
    let mut taken = Names::of(model);
    let mut done: BTreeMap<usize, Graph> = BTreeMap::new();
    let whole = Whole { model, rules: &rules, summaries: &summaries, variables: &variables, order: &order };
    // What only names variables, for graphs around it, goes last.
    let names = (1..model.graphs().len()).filter(|g| model.graphs()[*g].nodes().any(|n| n.op() == "Variable"));
    let mut todo: Vec<Job> = names.map(|graph| Job { graph, signature: Signature::default() }).collect();
    todo.push(Job { graph: 0, signature: Signature::default() });
    while let Some(job) = todo.pop() {
        if done.contains_key(&job.graph) {
            continue;
        }
        let (graph, below) = walk::rewrite(&whole, &mut taken, job)?;
        let at = model.graph_index(graph.name()).unwrap_or_default();
        done.insert(at, graph);
        todo.extend(below);
    }
    for (gi, graph) in done {
        model.graphs_mut()[gi] = graph;
    }
    model.root_mut().attrs_mut().remove(ge_model::effects::ORDER);
    Ok(())
}

/// What all Variables of one name are.
fn variables(model: &Model) -> Result<BTreeMap<String, TensorDesc>> {
    let mut out = BTreeMap::new();
    for n in model.graphs().iter().flat_map(Graph::nodes).filter(|n| n.op() == "Variable") {
        let Some(d) = n.outputs().first() else { continue };
        if !d.is_static() {
            return Err(VariableFault::NoSize { name: n.name().into() }.into());
        }
        out.entry(n.name().to_owned()).or_insert_with(|| d.clone());
    }
    Ok(out)
}

/// Gives each node whose graphs have effects graphs of its own: what they take and give is what
/// that node says.
fn apart(model: &mut Model, rules: &EffectRules<'_>) -> Result<()> {
    let summaries = summary::all(model, rules);
    let has_effects = |s: &Summary| !(s.reads.is_empty() && s.writes.is_empty() && s.written_inputs.is_empty());
    let mut effects: HashSet<String> = model
        .graphs()
        .iter()
        .zip(&summaries)
        .filter(|(_, s)| has_effects(s))
        .map(|(g, _)| g.name().to_owned())
        .collect();
    let mut named: HashSet<String> = HashSet::new();
    let mut graphs = std::mem::take(model).into_graphs();
    let mut names: HashSet<String> = graphs.iter().map(|g| g.name().to_owned()).collect();
    let mut at = 0;
    // Copies stand at the end, and are looked at in their turn.
    while at < graphs.len() {
        let ids: Vec<_> = graphs[at].nodes().filter(|n| !n.subgraphs().is_empty()).map(Node::id).collect();
        for id in ids {
            let Some(n) = graphs[at].get(id) else { continue };
            let keys: Vec<_> = n.attrs().iter().map(|a| (a.key, a.value.clone())).collect();
            for (key, mut value) in keys {
                let mut changed = false;
                each_graph(&mut value, &mut |name| {
                    if !effects.contains(name.as_str()) || named.insert(name.clone()) {
                        return;
                    }
                    let fresh = (1..).map(|k| format!("{name}_{k}")).find(|f| !names.contains(f)).unwrap_or_default();
                    if let Some(g) = graphs.iter().find(|g| g.name() == name.as_str()) {
                        let copy = copy(g, &fresh);
                        names.insert(fresh.clone());
                        effects.insert(fresh.clone());
                        named.insert(fresh.clone());
                        graphs.push(copy);
                        *name = fresh;
                        changed = true;
                    }
                });
                if changed {
                    graphs[at].set_attr(id, key, value);
                }
            }
        }
        at += 1;
    }
    *model = Model::from_graphs(graphs).ok_or_else(|| CompileError::internal("variables", "a model without graphs"))?;
    Ok(())
}

/// A graph under another name.
fn copy(g: &Graph, name: &str) -> Graph {
    let mut out = Graph::new(name);
    let (attrs, nodes) = g.clone().into_nodes();
    *out.attrs_mut() = attrs;
    let mut at: HashMap<NodeId, NodeId> = HashMap::new();
    for (id, mut n) in nodes {
        n.inputs
            .iter_mut()
            .filter(|v| !v.is_absent())
            .for_each(|v| v.node = at.get(&v.node).copied().unwrap_or(v.node));
        n.controls.iter_mut().for_each(|c| *c = at.get(c).copied().unwrap_or(*c));
        at.extend(out.push(n).map(|new| (id, new)));
    }
    out
}

/// Calls `each` with every graph that an attribute names.
fn each_graph(value: &mut AttrValue, each: &mut dyn FnMut(&mut String)) {
    match value {
        AttrValue::Graph(name) => {
            let mut own = name.to_string();
            each(&mut own);
            *name = own.as_str().into();
        }
        AttrValue::List(list) => list.iter_mut().for_each(|v| each_graph(v, each)),
        _ => {}
    }
}

/// What a node gives to its graphs and takes from them; None: they have no effects.
fn signature(whole: &Whole<'_>, n: &Node) -> Result<Option<Signature>> {
    let subs: Vec<&Summary> =
        n.subgraphs().iter().filter_map(|s| whole.summaries.get(whole.model.graph_index(s)?)).collect();
    let all = |of: fn(&Summary) -> &BTreeSet<String>| -> BTreeSet<String> {
        subs.iter().flat_map(|s| of(s).iter().cloned()).collect()
    };
    let (reads, writes) = (all(|s| &s.reads), all(|s| &s.writes));
    let written: BTreeSet<usize> = subs.iter().flat_map(|s| s.written_inputs.iter().copied()).collect();
    if reads.is_empty() && writes.is_empty() && written.is_empty() {
        return Ok(None);
    }
    let inputs: Vec<String> = reads.union(&writes).cloned().collect();
    if by_reference(n).is_some() {
        let given = written.into_iter().map(State::Input);
        let outputs = given.chain(writes.into_iter().map(State::Variable)).collect();
        return Ok(Some(Signature { inputs, outputs }));
    }
    // A loop gives its values to its graphs: what these write over an input of theirs is their own, as in
    // a model of known shapes. What they leave in variables they give back, the condition as the body.
    if !matches!(n.op(), "While" | "StatelessWhile" | "For") {
        let name = inputs.first().cloned().unwrap_or_default();
        return Err(VariableFault::Operator { node: n.name().into(), op: n.op().into(), name }.into());
    }
    let outputs = inputs.iter().cloned().map(State::Variable).collect();
    Ok(Some(Signature { inputs, outputs }))
}
