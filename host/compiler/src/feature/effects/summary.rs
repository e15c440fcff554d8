//! What each graph of a model reads and writes, including its subgraphs.
use super::{EffectRules, by_reference};
use ge_ir::{Graph, Model, Node, ValueRef};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Attribute of a loop graph's input whose writes have become values: it is no longer a state.
pub(super) const OWN: &str = "_written_as_values";

/// What one graph reads and writes.
#[derive(Clone, Debug, Default)]
pub(super) struct Summary {
    /// Variables that it reads or only names; it may also contain some that the graph writes.
    pub reads: BTreeSet<String>,
    /// Variables that it writes.
    pub writes: BTreeSet<String>,
    /// Indices of the inputs that it writes.
    pub written_inputs: BTreeSet<usize>,
}

/// A variable as one graph sees it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum State {
    /// A variable of the model, by its name.
    Variable(String),
    /// The caller's memory behind a `RefData`, by the name of that node.
    Reference(String),
    /// The input of the graph with this index.
    Input(usize),
}

impl State {
    /// The name of the state in an `EffectOrder`.
    pub fn text(&self) -> String {
        match self {
            State::Variable(name) => name.clone(),
            State::Reference(name) => format!("&{name}"),
            State::Input(k) => format!("#{k}"),
        }
    }
    /// The state whose memory a node represents, if any.
    pub fn of_source(n: &Node, is_root: bool) -> Option<State> {
        match n.op() {
            "Variable" => Some(State::Variable(n.name().to_owned())),
            "RefData" => Some(State::Reference(n.name().to_owned())),
            "Data" if !is_root && !n.attrs().flag(OWN) => {
                n.attrs().int("index").or(Some(0)).and_then(|i| usize::try_from(i).ok()).map(State::Input)
            }
            _ => None,
        }
    }
}

/// The values of a graph that are variables: outputs of their source nodes, and reference outputs.
pub(super) fn states(g: &Graph, is_root: bool, rules: &EffectRules<'_>) -> HashMap<ValueRef, State> {
    let mut out: HashMap<ValueRef, State> = HashMap::new();
    for n in g.nodes() {
        if let Some(s) = State::of_source(n, is_root) {
            out.insert(n.value(0), s);
            continue;
        }
        for k in (0..n.outputs().len()).filter(|k| rules.refers(n, *k)) {
            if let Some(s) = n.input(k).and_then(|v| out.get(&v)).cloned() {
                out.insert(n.value(k as u32), s);
            }
        }
    }
    out
}

/// The summaries of all graphs of a model.
pub(super) fn all(model: &Model, rules: &EffectRules<'_>) -> Vec<Summary> {
    let mut out: Vec<Option<Summary>> = vec![None; model.graphs().len()];
    let by_name: BTreeMap<&str, usize> = model.graphs().iter().enumerate().map(|(i, g)| (g.name(), i)).collect();
    for gi in 0..model.graphs().len() {
        one(model, gi, rules, &by_name, &mut out);
    }
    out.into_iter().map(Option::unwrap_or_default).collect()
}

fn one(
    model: &Model,
    gi: usize,
    rules: &EffectRules<'_>,
    by_name: &BTreeMap<&str, usize>,
    out: &mut [Option<Summary>],
) {
    // Subgraphs come first. A graph that names itself, which the verifier refuses, must not loop
    // forever.
    let mut todo = vec![(gi, false)];
    while let Some((gi, below)) = todo.pop() {
        if out[gi].is_some() && !below {
            continue;
        }
        let g = &model.graphs()[gi];
        let subs = g.nodes().flat_map(Node::subgraphs).filter_map(|s| by_name.get(s).copied());
        if !below {
            out[gi] = Some(Summary::default());
            todo.push((gi, true));
            todo.extend(subs.filter(|s| out[*s].is_none()).map(|s| (s, false)));
            continue;
        }
        let mut summary = Summary::default();
        let states = states(g, gi == 0, rules);
        for n in g.nodes() {
            for (i, v) in n.inputs().iter().enumerate() {
                let Some(s) = states.get(v) else { continue };
                let writes = rules.writes(n, i) || gives_to_a_writer(n, i, by_name, out);
                match s {
                    State::Input(k) => summary.written_inputs.extend(writes.then_some(*k)),
                    State::Reference(_) => summary.writes.extend(writes.then(|| s.text())),
                    State::Variable(name) => {
                        let to = if writes { &mut summary.writes } else { &mut summary.reads };
                        to.insert(name.clone());
                    }
                }
            }
            for s in n.subgraphs().iter().filter_map(|s| out[*by_name.get(s)?].clone()) {
                summary.reads.extend(s.reads);
                summary.writes.extend(s.writes);
            }
        }
        out[gi] = Some(summary);
    }
}

/// Whether a graph of a node writes the graph input that the node's input `i` becomes.
fn gives_to_a_writer(n: &Node, i: usize, by_name: &BTreeMap<&str, usize>, out: &[Option<Summary>]) -> bool {
    let Some(k) = by_reference(n).and_then(|first| i.checked_sub(first)) else { return false };
    let subs = n.subgraphs().into_iter().filter_map(|s| out[*by_name.get(s)?].as_ref());
    subs.into_iter().any(|s| s.written_inputs.contains(&k))
}
