//! Rules V13 to V15: the graphs that nodes name.
use super::{Faults, type_of};
use crate::graph::{Graph, Model, Node};
use ge_plugin_api::types::{AttrValue, DType, NodeId, TensorDesc};
use std::collections::HashMap;

/// Checks the rules and returns for each graph the node that names it.
pub(super) fn check(model: &Model, sealed: &[String], faults: &mut Faults) -> Vec<Option<(usize, NodeId)>> {
    let graphs = model.graphs();
    let mut index: HashMap<&str, usize> = HashMap::new();
    for (i, g) in graphs.iter().enumerate() {
        if index.insert(g.name(), i).is_some() {
            faults.graph("V14", g, format!("two graphs are called `@{}`", g.name()));
        }
    }
    let mut parents: Vec<Option<(usize, NodeId)>> = vec![None; graphs.len()];
    for (gi, g) in graphs.iter().enumerate() {
        for n in g.nodes() {
            for (key, name) in named(n) {
                let Some(&s) = index.get(name) else {
                    if sealed.iter().any(|s| s == name) {
                        continue;
                    }
                    let text = format!("`{}` of `{}` names graph `@{name}`, which is not in the model", key, n.name());
                    faults.node("V13", g, n, |d| d.subject(key), text);
                    continue;
                };
                let sub = &graphs[s];
                if s == 0 {
                    faults.node(
                        "V14",
                        g,
                        n,
                        |d| d.subject(key),
                        format!("`{}` names the root graph `@{name}`", n.name()),
                    );
                } else if let Some((og, on)) = parents[s] {
                    let other = graphs.get(og).and_then(|o| o.get(on)).map_or("", |o| o.name());
                    let text =
                        format!("graph `@{name}` is named by `{other}` and by `{}`: each needs its own", n.name());
                    faults.node("V14", g, n, |d| d.subject(key), text);
                } else {
                    parents[s] = Some((gi, n.id()));
                    fits(g, n, key, sub, faults);
                }
            }
        }
    }
    circles(graphs, &parents, faults);
    parents
}

/// The graphs that a node names, each with the attribute that names it.
fn named(n: &Node) -> Vec<(&'static str, &str)> {
    let mut out = Vec::new();
    for a in n.attrs().iter() {
        match &a.value {
            AttrValue::Graph(g) => out.push((a.key.as_str(), g.as_str())),
            AttrValue::List(l) => {
                for v in l.iter() {
                    if let AttrValue::Graph(g) = v {
                        out.push((a.key.as_str(), g.as_str()));
                    }
                }
            }
            _ => {}
        }
    }
    out.sort_by_key(|(k, _)| *k);
    out
}

/// Rule V14: following the parents of any graph must end.
fn circles(graphs: &[Graph], parents: &[Option<(usize, NodeId)>], faults: &mut Faults) {
    // 0: not visited; otherwise 1 + the index of the graph whose walk visited it first.
    let mut walk = vec![0usize; graphs.len()];
    for start in 0..graphs.len() {
        let mut at = start;
        while walk[at] == 0 {
            walk[at] = start + 1;
            match parents[at] {
                Some((up, _)) if walk[up] == start + 1 => {
                    let text = format!("graph `@{}` contains itself", graphs[at].name());
                    faults.graph("V14", &graphs[at], text);
                    break;
                }
                Some((up, _)) => at = up,
                None => break,
            }
        }
    }
}

/// The input of the parent that the subgraph's Data 0 stands for; `None` if only the operator
/// itself knows.
fn first_input(op: &str) -> Option<usize> {
    match op {
        "PartitionedCall" | "StatefulPartitionedCall" | "While" => Some(0),
        "If" | "Case" => Some(1),
        _ => None,
    }
}

/// Rule V15.
fn fits(g: &Graph, n: &Node, key: &str, sub: &Graph, faults: &mut Faults) {
    let Some(first) = first_input(n.op()) else { return };
    for d in sub.data_nodes() {
        let Some(index) = d.attrs().int("index").and_then(|i| usize::try_from(i).ok()) else { continue };
        let at = match d.attrs().int("_parent_node_index") {
            Some(i) => usize::try_from(i).ok(),
            None => index.checked_add(first),
        };
        let Some(desc) = d.outputs().first() else { continue };
        match at.and_then(|i| n.inputs().get(i)) {
            None => {
                let have = n.inputs().len().saturating_sub(first);
                let text = format!(
                    "graph `@{}` has an input {index} (`{}`), `{}` gives it {have}",
                    sub.name(),
                    d.name(),
                    n.name()
                );
                faults.node("V15", g, n, |x| x.subject(key), text);
            }
            Some(v) => {
                if let Some(given) = g.desc(*v).filter(|given| !agree(given, desc)) {
                    let (a, b) = (type_of(given), type_of(desc));
                    let text = format!("input {index} of graph `@{}` is {b}, `{}` gives it {a}", sub.name(), n.name());
                    faults.node("V15", g, n, |x| x.subject(key).found(a, b), text);
                }
            }
        }
    }
    let Some(out) = sub.net_output() else { return };
    if n.op() == "While" && key.contains("cond") {
        if out.inputs().len() != 1 {
            let text = format!("the condition `@{}` of `{}` gives {} values", sub.name(), n.name(), out.inputs().len());
            faults.node("V15", g, n, |x| x.subject(key).found(out.inputs().len().to_string(), "1"), text);
        }
        return;
    }
    let (found, want) = (out.inputs().len(), n.outputs().len());
    if found != want {
        let text = format!("graph `@{}` gives {found} values, `{}` has {want} outputs", sub.name(), n.name());
        return faults.node("V15", g, n, |x| x.subject(key).found(found.to_string(), want.to_string()), text);
    }
    for (i, (v, d)) in out.inputs().iter().zip(n.outputs()).enumerate() {
        if let Some(given) = sub.desc(*v).filter(|given| given.dtype != d.dtype && known(given) && known(d)) {
            let (a, b) = (type_of(given), type_of(d));
            let text = format!("output {i} of graph `@{}` is {a}, that of `{}` is {b}", sub.name(), n.name());
            faults.node("V15", g, n, |x| x.subject(key).found(a, b), text);
        }
    }
}

fn known(d: &TensorDesc) -> bool {
    d.dtype != DType::UNKNOWN
}

/// Whether a value may be passed to an input: type, rank and known sizes do not contradict each
/// other. Shapes are compared only within one format.
fn agree(given: &TensorDesc, want: &TensorDesc) -> bool {
    if given.dtype != want.dtype && known(given) && known(want) {
        return false;
    }
    if given.format != want.format || given.shape.is_unranked() || want.shape.is_unranked() {
        return true;
    }
    let (a, b) = (given.shape.dims(), want.shape.dims());
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| !x.is_known() || !y.is_known() || x == y)
}
