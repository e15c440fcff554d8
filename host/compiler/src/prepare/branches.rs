//! Failures of inference in branches and bodies: names the branch, and says what would help if only
//! some branches of a choice fail.
use super::subgraphs::own_inputs;
use ge_ir::{AttrValue, Model, NodeId, Shape, TensorDesc, ValueRef};
use ge_plugin_api::diagnostic::Diagnostic;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Code of a branch that cannot be computed while others can.
pub(super) use ge_codes::BRANCH;

/// Maximum number of inputs named in a help text.
const NAMED: usize = 3;

/// The node that calls a graph, and the role of the graph there.
struct Call {
    graph: usize,
    node: NodeId,
    role: String,
}

/// Adds to each failure the branches or bodies that contain it and, if the choice has branches that
/// do not fail, what would help.
pub(super) fn explain(model: &Model, failures: Vec<(usize, Diagnostic)>) -> Vec<Diagnostic> {
    if model.graphs().len() < 2 {
        return failures.into_iter().map(|(_, d)| d).collect();
    }
    let calls = calls(model);
    // A graph fails if it or a graph that it calls fails.
    let mut failing: HashSet<usize> = HashSet::new();
    for (gi, _) in &failures {
        let mut at = *gi;
        while failing.insert(at) {
            let Some(c) = calls.get(&at) else { break };
            at = c.graph;
        }
    }
    let mut out = Vec::new();
    for (gi, mut d) in failures {
        let (mut at, mut choice) = (gi, None);
        // The chain ends at a root, because no graph calls itself.
        for _ in 0..model.graphs().len() {
            let Some(c) = calls.get(&at) else { break };
            let Some(n) = model.graphs()[c.graph].get(c.node) else { break };
            d = d.note(format!("in {} of `{}` ({})", c.role, n.name(), n.op()));
            let others = n.subgraphs().into_iter().filter_map(|s| model.graph_index(s));
            if is_choice(n.op()) && others.into_iter().any(|s| !failing.contains(&s)) {
                choice = Some(c);
            }
            at = c.graph;
        }
        if let Some(c) = choice {
            if d.code.is_empty() {
                d = d.code(BRANCH);
            }
            if d.help.is_empty() {
                d = d.help(help(model, &calls, c));
            }
        }
        out.push(d);
    }
    out
}

/// Graphs that cannot be computed with the shapes of their inputs.
#[derive(Default)]
pub(super) struct Unsound(HashSet<usize>);

impl Unsound {
    pub(super) fn add(&mut self, graph: usize) {
        self.0.insert(graph);
    }
    pub(super) fn has(&self, graph: usize) -> bool {
        self.0.contains(&graph)
    }
}

/// Leaves the shapes of a node unknown that could not be inferred. Its readers are then inferred
/// anyway, and a run that reaches the node reports what does not fit.
pub(super) fn open(model: &mut Model, gi: usize, id: NodeId) {
    let Some(n) = model.graphs()[gi].get(id) else { return };
    let outs = n.outputs().iter().map(|d| TensorDesc { shape: Shape::unranked(), ..d.clone() }).collect();
    model.graphs_mut()[gi].set_outputs(id, outs);
}

/// Whether every failure is in a branch that need not be taken, because the choice has another one.
pub(super) fn avoidable(model: &Model, failures: &[(usize, Diagnostic)], unsound: &Unsound) -> bool {
    let calls = calls(model);
    failures.iter().all(|(gi, _)| {
        let mut at = *gi;
        // The chain ends at a root, because no graph calls itself.
        let chain = std::iter::from_fn(|| {
            let c = calls.get(&at)?;
            at = c.graph;
            Some(c)
        });
        chain.take(model.graphs().len()).any(|c| !unsound.has(c.graph))
    })
}

/// Converts a failure to a warning.
pub(super) fn warning(d: &Diagnostic) -> String {
    let of = d.notes.last().map_or(String::new(), |n| format!(" {n}"));
    format!("`{}`{of} does not fit these shapes ({}): a run that takes it is refused", d.node, d.message)
}

pub(super) fn is_choice(op: &str) -> bool {
    matches!(op, "If" | "StatelessIf" | "Case" | "StatelessCase")
}

fn calls(model: &Model) -> HashMap<usize, Call> {
    let mut out = HashMap::new();
    for (graph, g) in model.graphs().iter().enumerate() {
        for n in g.nodes().filter(|n| !n.subgraphs().is_empty()) {
            for e in n.attrs().sorted() {
                let mut name = |role: String, s: &str| {
                    if let Some(k) = model.graph_index(s) {
                        out.entry(k).or_insert(Call { graph, node: n.id(), role });
                    }
                };
                match &e.value {
                    AttrValue::Graph(s) => name(format!("`{}`", e.key), s),
                    AttrValue::List(l) => l.iter().enumerate().for_each(|(i, v)| {
                        if let AttrValue::Graph(s) = v {
                            name(format!("`{}` {i}", e.key), s);
                        }
                    }),
                    _ => {}
                }
            }
        }
    }
    out
}

/// Help text for a branch that fails while the other branches of the choice are sound.
fn help(model: &Model, calls: &HashMap<usize, Call>, c: &Call) -> String {
    let g = &model.graphs()[c.graph];
    let Some(n) = g.get(c.node) else { return String::new() };
    let on: Vec<String> =
        n.input(0).map(|v| depends(model, calls, c.graph, v)).unwrap_or_default().into_iter().collect();
    let only = format!("the other branches of `{}` are sound", n.name());
    if on.is_empty() {
        return format!("{only}: give the inputs shapes that suit this one too, with `--input-shape`");
    }
    let files: Vec<String> = on.iter().take(NAMED).map(|i| format!("`--input {i}=FILE.npy`")).collect();
    format!(
        "{only}: if this one is never taken with these shapes, fix what the choice hangs on with {}; the branch is then left out",
        files.join(" ")
    )
}

/// Inputs of the model from which a value is computed.
fn depends(model: &Model, calls: &HashMap<usize, Call>, graph: usize, value: ValueRef) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    let mut seen: HashSet<(usize, NodeId)> = HashSet::new();
    let mut todo = vec![(graph, value)];
    while let Some((gi, v)) = todo.pop() {
        let Some(n) = model.graphs()[gi].get(v.node).filter(|_| seen.insert((gi, v.node))) else { continue };
        if n.op() != "Data" {
            todo.extend(n.inputs().iter().map(|v| (gi, *v)));
            continue;
        }
        let Some(c) = calls.get(&gi) else {
            out.insert(n.name().to_owned());
            continue;
        };
        let caller = model.graphs()[c.graph].get(c.node);
        let index = n.attrs().int("index").and_then(|i| usize::try_from(i).ok());
        let arg = caller.zip(index).and_then(|(n, i)| n.input(own_inputs(n.op())? + i));
        todo.extend(arg.map(|v| (c.graph, v)));
    }
    out
}
