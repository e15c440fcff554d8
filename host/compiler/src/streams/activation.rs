//! Activation (004 §4.5): which nodes wake which logical streams. A stream that some node wakes
//! sleeps until then.
//!
//! - by label: `_active_label_list` names labels, and the node wakes every stream of these labels
//!   in its own branch or body (in a gear the label includes the gear);
//! - for subgraphs: `subgraph_first_active` wakes all streams of its graph that have no label;
//! - for loops: `is_loop_active` without labels wakes all streams that nothing else wakes.
//!
//! A StreamSwitch wakes only one stream. If its labels have more, a StreamActive on a stream of its
//! own is inserted between.
use super::StreamPlan;
use super::logical::context::label_of;
use crate::error::{CompileError, Result};
use crate::feature::control_flow::regions::LOOP_EXIT;
use crate::ids::{NodeKey, StreamId};
use ge_ir::{Key, Model, Node};
use ge_plugin_api::diagnostic::Diagnostic;
use ge_plugin_api::types::AttrMap;
use std::collections::{BTreeMap, BTreeSet};

/// Attribute with the labels that a node activates.
const LABELS: &str = "_active_label_list";
/// Operator type that wakes one stream depending on a comparison.
const SWITCH: &str = "StreamSwitch";

fn labels_of(n: &Node) -> Vec<String> {
    let gear = n.attrs().str("_batch_label").filter(|g| !g.is_empty());
    let all = n.attrs().strs(LABELS).unwrap_or_default();
    all.into_iter().filter(|l| !l.is_empty()).map(|l| gear.map_or(l.to_owned(), |g| format!("{l}_{g}"))).collect()
}

/// Fills `plan.wakes` from the nodes' attributes.
///
/// # Errors
/// Fails if a node activates a label that no node has, a label whose nodes are all in other
/// branches or bodies, or its own stream.
pub fn assign(model: &Model, plan: &mut StreamPlan) -> Result<()> {
    let gears = gears(model);
    let mut by_label: BTreeMap<(Option<&str>, String), BTreeSet<StreamId>> = BTreeMap::new();
    let mut labelled: BTreeSet<StreamId> = BTreeSet::new();
    for (key, n) in nodes(model) {
        if let Some(label) = label_of(n) {
            let streams = plan.of[key].into_iter().chain(plan.attached[key].iter().copied());
            let set = by_label.entry((gears[key.graph as usize], label)).or_default();
            set.extend(streams);
            labelled.extend(set.iter());
        }
    }
    let mut wakes: BTreeMap<NodeKey, Vec<StreamId>> = BTreeMap::new();
    let mut failures = Vec::new();
    let mut specific: BTreeSet<StreamId> = BTreeSet::new();
    let regions = plan.regions(model);
    let region = |key: NodeKey| plan.flow.as_ref().map_or(0, |f| f.region(key));
    // A branch or body may run never, once or often, so a node in it wakes only streams of its own
    // region.
    let of_label = |key: NodeKey, label: String| -> Option<BTreeSet<StreamId>> {
        let all = by_label.get(&(gears[key.graph as usize], label))?;
        let here = |s: &StreamId| regions.get(s.0 as usize).copied().unwrap_or(0) == region(key);
        Some(all.iter().copied().filter(here).collect())
    };
    let mut by_name: BTreeSet<StreamId> = BTreeSet::new();
    for (key, n) in nodes(model) {
        labels_of(n).into_iter().filter_map(|l| of_label(key, l)).for_each(|s| by_name.extend(s));
    }
    for (key, n) in nodes(model) {
        let own = plan.of[key];
        let labels = labels_of(n);
        let mut set: BTreeSet<StreamId> = BTreeSet::new();
        for l in &labels {
            match of_label(key, l.clone()) {
                Some(s) if !s.is_empty() => set.extend(s),
                Some(_) => failures.push(
                    Diagnostic::error(format!(
                        "`{}` activates the stream label `{l}`, whose nodes stand in other branches or bodies than it does",
                        n.name()
                    ))
                    .code(ge_codes::ACTIVATION)
                    .node(n.name(), n.op())
                    .help("a branch runs or not, a body runs again: wake a stream from within the branch or body of its nodes"),
                ),
                None => failures.push(
                    Diagnostic::error(format!("`{}` activates the stream label `{l}`, which no node has", n.name()))
                        .code(ge_codes::ACTIVATION)
                        .node(n.name(), n.op())
                        .help("give the nodes of the stream that is to be woken this `_stream_label`"),
                ),
            }
        }
        if own.is_some_and(|s| set.contains(&s)) {
            failures.push(
                Diagnostic::error(format!("`{}` activates the stream on which it stands itself", n.name()))
                    .code(ge_codes::ACTIVATION)
                    .node(n.name(), n.op())
                    .help("give it a `_stream_label` of its own, or take its label out of `_active_label_list`"),
            );
        }
        if n.attrs().flag("subgraph_first_active") {
            let body = region(key);
            if body > 0 {
                // In a body made of labels, wake all its streams, except streams of a label that
                // some node activates by name.
                let of_body = (0u32..).zip(&regions).filter(|(_, r)| **r == body).map(|(s, _)| StreamId(s));
                set.extend(of_body.filter(|s| !by_name.contains(s)));
            } else {
                let inside = |k: &NodeKey| k.graph == key.graph;
                let all = nodes(model).filter(|(k, _)| inside(k));
                let streams = all.flat_map(|(k, _)| plan.of[k].into_iter().chain(plan.attached[k].iter().copied()));
                set.extend(streams.filter(|s| !labelled.contains(s) && Some(*s) != own));
            }
        }
        if !set.is_empty() {
            specific.extend(set.iter());
            wakes.insert(key, set.into_iter().collect());
        }
    }
    for (key, _) in nodes(model).filter(|(_, n)| n.attrs().flag("is_loop_active") && labels_of(n).is_empty()) {
        let all = (0..plan.streams.len() as u32).map(StreamId);
        let rest: Vec<StreamId> = all.filter(|s| !specific.contains(s) && Some(*s) != plan.of[key]).collect();
        // The stream of the loop node itself must not sleep, nor may the stream of a switch before
        // it.
        let rest: Vec<StreamId> = rest.into_iter().filter(|s| !holds_switch(model, plan, *s)).collect();
        let list = wakes.entry(key).or_default();
        list.extend(rest.into_iter().filter(|s| !list.contains(s)).collect::<Vec<_>>());
    }
    wakes.retain(|_, l| !l.is_empty());
    plan.wakes = wakes;
    if failures.is_empty() { Ok(()) } else { Err(CompileError::Model { code: ge_codes::ACTIVATION, all: failures }) }
}

/// The gear of each graph: the branch of a Case with `_batch_num` that the graph is, or that calls
/// it directly or indirectly.
fn gears(model: &Model) -> Vec<Option<&str>> {
    let mut out = vec![None; model.graphs().len()];
    for (_, case) in nodes(model).filter(|(_, n)| n.op() == "Case" && n.attr("_batch_num").is_some()) {
        for branch in case.subgraphs() {
            let mut todo: Vec<usize> = model.graph_index(branch).into_iter().collect();
            while let Some(g) = todo.pop() {
                if out[g].is_none() {
                    out[g] = model.graph_index(branch).map(|b| model.graphs()[b].name());
                    let below = model.graphs()[g].nodes().flat_map(|n| n.subgraphs());
                    todo.extend(below.filter_map(|s| model.graph_index(s)));
                }
            }
        }
    }
    out
}

fn holds_switch(model: &Model, plan: &StreamPlan, s: StreamId) -> bool {
    nodes(model).any(|(k, n)| n.op() == SWITCH && plan.of[k] == Some(s))
}

fn nodes(model: &Model) -> impl Iterator<Item = (NodeKey, &Node)> {
    model.graphs().iter().enumerate().flat_map(|(gi, g)| g.nodes().map(move |n| (NodeKey::new(gi, n.id()), n)))
}

/// Switches that would have to wake more than one stream.
pub fn crowded_switches(model: &Model, plan: &StreamPlan) -> Vec<NodeKey> {
    let many = plan.wakes.iter().filter(|(_, l)| l.len() > 1).map(|(k, _)| *k);
    many.filter(|k| k.get(model).is_some_and(|n| n.op() == SWITCH)).collect()
}

/// Inserts `<switch>_StreamActive_0` after each of the switches. The new node has a stream (and
/// label) of its own and wakes what the switch woke; the switch now wakes only this node's stream.
///
/// # Errors
/// Fails if the insertion would break the graph (a bug).
pub fn insert_stream_actives(model: &mut Model, switches: &[NodeKey]) -> Result<()> {
    // Ids change with each insertion, names do not.
    let names: Vec<(u32, String)> = switches.iter().map(|k| (k.graph, k.name(model))).collect();
    for (graph, name) in names {
        let g = &mut model.graphs_mut()[graph as usize];
        let Some(n) = g.find(&name) else { continue };
        let switch = n.id();
        let name = format!("{}_StreamActive_0", n.name());
        let labels: Vec<String> = n.attrs().strs(LABELS).unwrap_or_default().into_iter().map(str::to_owned).collect();
        let gear = n.attrs().str("_batch_label").map(str::to_owned);
        let at = g.order().iter().position(|id| *id == switch).unwrap_or(0);
        let mut attrs = AttrMap::default();
        attrs.set(LABELS, labels);
        attrs.set("_stream_label", name.as_str());
        if let Some(gear) = gear {
            attrs.set("_batch_label", gear.as_str());
        }
        g.set_attr(switch, LABELS, vec![name.clone()]);
        let broken = || CompileError::internal("streams", "a StreamActive cannot be put behind its switch");
        let id = g.push_node(Key::new("StreamActive"), name, vec![], vec![switch], vec![], attrs).ok_or_else(broken)?;
        let mut order = g.order().to_vec();
        order.retain(|n| *n != id);
        order.insert(at + 1, id);
        if !g.set_order(&order) {
            return Err(broken());
        }
    }
    Ok(())
}

/// How each stream is woken.
#[derive(Clone, Debug, Default)]
pub struct Wakers {
    /// For each stream, the nodes that wake it; if empty, it starts at launch.
    pub by: Vec<Vec<NodeKey>>,
    /// For each stream, the nodes of `by` that can wake it for the first time.
    first: Vec<Vec<NodeKey>>,
    /// For each stream, whether it runs only if a switch chooses it.
    pub conditional: Vec<bool>,
    /// For each stream, the switches that must all have woken it, outermost first.
    over: Vec<Vec<NodeKey>>,
}

impl Wakers {
    /// Collects the wakers of a plan.
    pub fn of(model: &Model, plan: &StreamPlan) -> Wakers {
        let n = plan.streams.len();
        let mut by: Vec<Vec<NodeKey>> = vec![Vec::new(); n];
        for (k, list) in &plan.wakes {
            for s in list {
                if let Some(b) = by.get_mut(s.0 as usize) {
                    b.push(*k);
                }
            }
        }
        let first = forward(model, plan, &by);
        let mut under: Vec<Option<Vec<NodeKey>>> = vec![None; n];
        let over: Vec<Vec<NodeKey>> = (0..n).map(|s| switches_over(model, plan, &first, s, &mut under)).collect();
        let conditional = over.iter().map(|o| !o.is_empty()).collect();
        Wakers { by, first, conditional, over }
    }
    /// Whether `stream` runs only on some of the paths that lead to `woken`. On the other paths
    /// nothing of it has to be over.
    pub fn beside(&self, stream: StreamId, woken: StreamId) -> bool {
        match (self.over.get(stream.0 as usize), self.over.get(woken.0 as usize)) {
            (Some(s), Some(w)) => !w.starts_with(s),
            _ => false,
        }
    }
    /// Nodes that are over whenever the stream runs. Empty if it starts at launch, or if it is
    /// unknown which waker comes first.
    pub fn before(&self, plan: &StreamPlan, s: StreamId) -> &[NodeKey] {
        let Some(list) = self.first.get(s.0 as usize) else { return &[] };
        let on_a_branch =
            |k: &NodeKey| plan.of[*k].and_then(|p| self.conditional.get(p.0 as usize)).copied().unwrap_or(false);
        // Several wakers on branches exclude each other: what precedes the waker that ran is over,
        // and the others never ran.
        if list.len() < 2 || list.iter().all(on_a_branch) { list } else { &[] }
    }
}

/// The wakers of each stream, without those after its first node: these end an iteration of a loop
/// and wake the stream again.
fn forward(model: &Model, plan: &StreamPlan, by: &[Vec<NodeKey>]) -> Vec<Vec<NodeKey>> {
    if by.iter().all(|b| b.len() < 2) {
        return by.to_vec();
    }
    // Positions of the wakers in the order of all nodes, and where each stream begins in each
    // graph.
    let mut place: BTreeMap<NodeKey, usize> = BTreeMap::new();
    let mut begin: BTreeMap<(u32, StreamId), usize> = BTreeMap::new();
    let wakers: BTreeSet<NodeKey> = by.iter().flatten().copied().collect();
    for (at, (k, _)) in nodes(model).enumerate() {
        if wakers.contains(&k) {
            place.insert(k, at);
        }
        if let Some(s) = plan.of[k].filter(|_| !plan.taskless[k]) {
            begin.entry((k.graph, s)).or_insert(at);
        }
    }
    let ahead = |s: usize, k: &NodeKey| match (place.get(k), begin.get(&(k.graph, StreamId(s as u32)))) {
        (Some(w), Some(b)) => w < b,
        _ => true,
    };
    by.iter().enumerate().map(|(s, list)| list.iter().copied().filter(|k| ahead(s, k)).collect()).collect()
}

/// The switches that must all choose a stream for it to run, outermost first: the common prefix of
/// the paths of its wakers. The exit of a loop does not count, because it is always taken.
fn switches_over(
    model: &Model,
    plan: &StreamPlan,
    first: &[Vec<NodeKey>],
    s: usize,
    known: &mut [Option<Vec<NodeKey>>],
) -> Vec<NodeKey> {
    // An explicit stack, because chains of streams may be long. A stream is done when the streams
    // of its wakers are.
    let mut todo = vec![s];
    while let Some(&at) = todo.last() {
        if known[at].is_some() {
            todo.pop();
            continue;
        }
        let from = |w: &NodeKey| plan.of[*w].map(|p| p.0 as usize).filter(|p| *p < first.len() && *p != at);
        let waiting: Vec<usize> = first[at].iter().filter_map(from).filter(|p| known[*p].is_none()).collect();
        let fresh: Vec<usize> = waiting.iter().copied().filter(|p| !todo.contains(p)).collect();
        if !fresh.is_empty() {
            todo.extend(fresh);
            continue;
        }
        let mut common: Option<Vec<NodeKey>> = None;
        for w in &first[at] {
            let mut path = from(w).and_then(|p| known[p].clone()).unwrap_or_default();
            if w.get(model).is_some_and(|n| n.op() == SWITCH && !n.attrs().flag(LOOP_EXIT)) {
                path.push(*w);
            }
            common = Some(match common {
                None => path,
                Some(c) => c.into_iter().zip(path).take_while(|(a, b)| a == b).map(|(a, _)| a).collect(),
            });
        }
        known[at] = Some(common.unwrap_or_default());
    }
    known[s].clone().unwrap_or_default()
}
