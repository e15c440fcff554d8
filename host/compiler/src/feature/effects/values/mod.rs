//! Turns effects into values, for models that executor v2 runs: a run takes the contents of
//! variables as inputs, and returns their new contents as outputs.
//!
//! In the root graph a `Variable` stands for its content when the run begins, and one marked
//! `Assign` ([`ge_model::KEPT`]) for its content when the run is over. In between, each write makes
//! a new value, and each read reads the value of its place in the order. Called graphs get what
//! they read as further inputs and return what they write as further outputs; loops carry it. The
//! parts of known shape, plans, memory and schedules therefore need no knowledge of variables.

/// Rewrites one graph.
mod walk;

use super::summary::{self, State, Summary};
use super::writer::Names;
use super::{EffectRules, by_reference};
use crate::error::{CompileError, Result, VariableFault};
use crate::toolbox::Toolbox;
use ge_ir::{AttrValue, Graph, Model, Node, NodeId, TensorDesc};
use ge_model::EffectOrder;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// What a node with graphs passes to them and gets from them, beyond its own inputs and outputs.
#[derive(Clone, Debug, Default)]
pub(super) struct Signature {
    /// Names of the variables that are further inputs.
    inputs: Vec<String>,
    /// The states that are returned as further outputs. A loop returns each further input.
    outputs: Vec<State>,
}

/// A graph that is still to be rewritten.
struct Job {
    graph: usize,
    signature: Signature,
}

/// The model around a graph, and what is known of it.
pub(super) struct Whole<'m> {
    model: &'m Model,
    rules: &'m EffectRules<'m>,
    summaries: &'m [Summary],
    variables: &'m BTreeMap<String, TensorDesc>,
    order: &'m EffectOrder,
}

/// Whether a model has memory that outlives a run, or nodes that overwrite their first input.
pub fn has_states(model: &Model, toolbox: &Toolbox) -> bool {
    let rules = EffectRules { toolbox };
    let is_state = |n: &Node| matches!(n.op(), "Variable" | "RefData") || rules.writes(n, 0);
    model.graphs().iter().flat_map(Graph::nodes).any(is_state)
}

/// Turns the variables of a model, and memory that callers lend for writing, into values.
///
/// # Errors
/// Fails if the size of a variable is not known, or if the graphs of an operator have effects and
/// the operator is neither a call, a branch nor a loop.
pub fn to_values(model: &mut Model, toolbox: &Toolbox) -> Result<()> {
    let rules = EffectRules { toolbox };
    apart(model, &rules)?;
    let order = EffectOrder::from_attrs(model.root().attrs());
    let summaries = summary::all(model, &rules);
    let variables = variables(model)?;
    let mut taken = Names::of(model);
    let mut done: BTreeMap<usize, Graph> = BTreeMap::new();
    let whole = Whole { model, rules: &rules, summaries: &summaries, variables: &variables, order: &order };
    // Graphs that hold `Variable` nodes but that no job has rewritten come last.
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

/// Descriptor of each variable of the model, by name. Fails if the size of one is not known.
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

/// Gives each node whose graphs have effects its own copies of them, since their further inputs and
/// outputs are specific to that node.
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
    // Copies are appended to `graphs`, so the loop reaches them later.
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

/// A copy of a graph under another name.
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

/// Calls `each` for every graph that an attribute names.
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

/// What a node passes to its graphs and gets from them; `None` if they have no effects.
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
    // A loop passes values to its graphs: what these write to an input is their own, as in a model
    // of known shapes. Both condition and body return the contents of variables.
    if !matches!(n.op(), "While" | "StatelessWhile" | "For") {
        let name = inputs.first().cloned().unwrap_or_default();
        return Err(VariableFault::Operator { node: n.name().into(), op: n.op().into(), name }.into());
    }
    let outputs = inputs.iter().cloned().map(State::Variable).collect();
    Ok(Some(Signature { inputs, outputs }))
}
