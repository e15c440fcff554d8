//! Rules V1 to V6 and V18: edges, order, cycles, names, and the graph's inputs and outputs.
use super::{Faults, NameScope};
use crate::graph::{Graph, Model};
use ge_plugin_api::types::{NodeId, ValueRef};
use std::collections::{HashMap, HashSet};

pub(super) fn check(g: &Graph, faults: &mut Faults) {
    edges(g, faults);
    order(g, faults);
    outputs(g, faults);
    inputs(g, faults);
}

/// Whether the graph is one piece of a partition.
pub(super) fn is_piece(g: &Graph) -> bool {
    g.nodes().any(|n| matches!(n.op(), "End" | "PlaceHolder"))
}

/// Rule V1.
fn edges(g: &Graph, faults: &mut Faults) {
    for n in g.nodes() {
        for (i, v) in n.inputs().iter().enumerate().filter(|(_, v)| !v.is_absent()) {
            let text = match g.get(v.node) {
                None => format!("input {i} of `{}` reads a node that is not in graph `@{}`", n.name(), g.name()),
                Some(p) if v.output as usize >= p.outputs().len() => {
                    let (p, k, count) = (p.name(), v.output, p.outputs().len());
                    format!("input {i} of `{}` reads output {k} of `{p}`, which has {count}", n.name())
                }
                Some(_) => continue,
            };
            faults.node("V1", g, n, |d| d.subject(format!("input {i}")), text);
        }
        for c in n.controls().iter().filter(|c| g.get(**c).is_none()) {
            let text = format!("`{}` follows node {c:?}, which is not in graph `@{}`", n.name(), g.name());
            faults.node("V1", g, n, |d| d.subject("control inputs"), text);
        }
    }
}

/// Rule V2 and, if the order is broken, rule V3.
fn order(g: &Graph, faults: &mut Faults) {
    let mut at = vec![usize::MAX; g.id_bound()];
    let mut broken = false;
    for (i, id) in g.order().iter().enumerate() {
        match at.get_mut(id.index()) {
            Some(a) if *a == usize::MAX && g.get(*id).is_some() => *a = i,
            _ => {
                broken = true;
                faults.graph("V2", g, format!("the order of graph `@{}` holds {id:?} twice or in vain", g.name()));
            }
        }
    }
    if g.order().len() != g.len() {
        let text = format!("the order of graph `@{}` holds {} of {} nodes", g.name(), g.order().len(), g.len());
        return faults.graph("V2", g, text);
    }
    for n in g.nodes() {
        let place = at[n.id().index()];
        let late = |id: &NodeId| at.get(id.index()).is_some_and(|a| *a != usize::MAX && *a >= place);
        let data = n.inputs().iter().filter(|v| !v.is_absent()).map(|v| v.node);
        if let Some(p) = data.chain(n.controls().iter().copied()).find(late).and_then(|id| g.get(id)) {
            broken = true;
            let text = format!("`{}` uses `{}` before it is defined", n.name(), p.name());
            faults.node("V2", g, n, |d| d.help(format!("`{}` must stand before `{}`", p.name(), n.name())), text);
        }
    }
    if broken {
        cycle(g, faults);
    }
}

/// Rule V3: nodes that never become ready lie on a cycle or depend on one; one cycle is extracted.
fn cycle(g: &Graph, faults: &mut Faults) {
    let mut waits = vec![0usize; g.id_bound()];
    let deps = |id: NodeId| {
        let n = g.get(id);
        let data = n.map_or(&[] as &[ValueRef], |n| n.inputs()).iter().filter(|v| !v.is_absent()).map(|v| v.node);
        data.chain(n.map_or(&[] as &[NodeId], |n| n.controls()).iter().copied()).filter(|d| g.get(*d).is_some())
    };
    let mut readers: Vec<Vec<NodeId>> = vec![Vec::new(); g.id_bound()];
    let mut ready = Vec::new();
    for n in g.nodes() {
        for d in deps(n.id()) {
            readers[d.index()].push(n.id());
            waits[n.id().index()] += 1;
        }
        if waits[n.id().index()] == 0 {
            ready.push(n.id());
        }
    }
    while let Some(id) = ready.pop() {
        for r in &readers[id.index()] {
            waits[r.index()] -= 1;
            if waits[r.index()] == 0 {
                ready.push(*r);
            }
        }
    }
    let Some(start) = g.nodes().find(|n| waits[n.id().index()] > 0) else { return };
    // Following the nodes that each one waits for must reach some node twice.
    let mut seen: HashMap<NodeId, usize> = HashMap::new();
    let mut path = Vec::new();
    let mut id = start.id();
    while !seen.contains_key(&id) {
        seen.insert(id, path.len());
        path.push(id);
        match deps(id).find(|d| waits[d.index()] > 0) {
            Some(d) => id = d,
            None => return,
        }
    }
    let from = seen.get(&id).copied().unwrap_or(0).min(path.len());
    let ring: Vec<&str> =
        path[from.min(path.len())..].iter().rev().filter_map(|i| g.get(*i)).map(|n| n.name()).collect();
    let shown = ring.iter().take(20).map(|n| format!("`{n}`")).collect::<Vec<_>>().join(" -> ");
    if let Some(n) = g.get(id) {
        faults.node("V3", g, n, |d| d, format!("{} nodes of graph `@{}` form a cycle: {shown}", ring.len(), g.name()));
    }
}

/// Rule V4.
pub(super) fn names(model: &Model, scope: NameScope, faults: &mut Faults) {
    let mut seen: HashMap<&str, &Graph> = HashMap::new();
    for g in model.graphs() {
        if scope == NameScope::Graph {
            seen.clear();
        }
        for n in g.nodes() {
            if n.name().is_empty() {
                faults.node("V4", g, n, |d| d, format!("a {} of graph `@{}` has no name", n.op(), g.name()));
            } else if let Some(first) = seen.insert(n.name(), g) {
                let text =
                    format!("the name `{}` is taken twice (graphs `@{}` and `@{}`)", n.name(), first.name(), g.name());
                faults.node("V4", g, n, |d| d.help("rename one of them"), text);
            }
        }
    }
}

/// Rule V5.
fn outputs(g: &Graph, faults: &mut Faults) {
    let mut found = 0;
    for n in g.nodes().filter(|n| n.op() == "NetOutput") {
        found += 1;
        if found == 2 {
            let text = format!("graph `@{}` has a second NetOutput, `{}`", g.name(), n.name());
            faults.node("V5", g, n, |d| d.help("one `return` line gives all outputs"), text);
        }
        if !n.is_dead_end() {
            faults.node(
                "V5",
                g,
                n,
                |d| d,
                format!("something reads or follows `{}`, which ends graph `@{}`", n.name(), g.name()),
            );
        }
        if !n.outputs().is_empty() && n.outputs().len() != n.inputs().len() {
            let (i, o) = (n.inputs().len(), n.outputs().len());
            faults.node("V5", g, n, |d| d, format!("`{}` takes {i} values and has {o} outputs", n.name()));
        }
        for (i, _) in n.inputs().iter().enumerate().filter(|(_, v)| v.is_absent()) {
            faults.node("V5", g, n, |d| d, format!("output {i} of graph `@{}` is absent", g.name()));
        }
    }
    if found == 0 && !is_piece(g) {
        let text = format!("graph `@{}` has no NetOutput: the `return` line is missing", g.name());
        faults.graph("V5", g, text);
    }
}

/// Rules V6 and V18.
fn inputs(g: &Graph, faults: &mut Faults) {
    let mut seen: HashSet<i64> = HashSet::new();
    for n in g.nodes() {
        let source = match n.op() {
            "Data" | "RefData" | "AippData" => true,
            "Variable" | "FileConstant" => false,
            _ => continue,
        };
        if n.outputs().len() != 1 {
            let text = format!("`{}` has {} outputs", n.name(), n.outputs().len());
            faults.node("V18", g, n, |d| d.found(n.outputs().len().to_string(), "1"), text);
        }
        if n.op() != "Data" && !n.inputs().is_empty() {
            faults.node("V18", g, n, |d| d, format!("`{}` is a source and has {} inputs", n.name(), n.inputs().len()));
        }
        if !source {
            continue;
        }
        match n.attrs().int("index") {
            Some(i) if i >= 0 && seen.insert(i) => {}
            Some(i) => {
                let why = if i < 0 { "is negative" } else { "is taken twice" };
                faults.node("V6", g, n, |d| d.subject("index"), format!("the index {i} of `{}` {why}", n.name()));
            }
            None if n.op() == "Data" => {
                let text = format!("`{}` has no index among the graph's inputs", n.name());
                faults.node("V6", g, n, |d| d.subject("index").help("give it as `{index = 0}`"), text);
            }
            None => {}
        }
    }
    let count = i64::try_from(seen.len()).unwrap_or(i64::MAX);
    if seen.iter().any(|i| *i >= count) && !is_piece(g) {
        let gap = (0..count).find(|i| !seen.contains(i)).unwrap_or(0);
        let text = format!("the inputs of graph `@{}` have a gap: nothing has index {gap} of {count}", g.name());
        faults.graph("V6", g, text);
    }
}
