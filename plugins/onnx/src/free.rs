//! Names that a subgraph reads but does not define: they become its inputs.
use crate::proto::{GraphProto, NodeProto};
use std::collections::HashSet;

/// Names that `graph` takes from outside, each once, in the order of first use.
pub fn captured(graph: &GraphProto) -> Vec<String> {
    let mut out = Vec::new();
    let mut seen = HashSet::new();
    walk(graph, &HashSet::new(), &mut out, &mut seen);
    out
}

/// The depth is bounded by the decoder's limit on nested messages.
fn walk(graph: &GraphProto, outer: &HashSet<String>, out: &mut Vec<String>, seen: &mut HashSet<String>) {
    let mut made = outer.clone();
    made.extend(graph.input.iter().map(|i| i.name.clone()));
    made.extend(graph.initializer.iter().map(|i| i.name.clone()));
    made.extend(graph.sparse_initializer.iter().filter_map(|i| i.values.as_ref().map(|v| v.name.clone())));
    let mut need = |name: &String, made: &HashSet<String>| {
        if !name.is_empty() && !made.contains(name) && seen.insert(name.clone()) {
            out.push(name.clone());
        }
    };
    for n in &graph.node {
        n.input.iter().for_each(|i| need(i, &made));
        for g in subgraphs(n) {
            let mut inner = Vec::new();
            walk(g, &made, &mut inner, &mut HashSet::new());
            inner.iter().for_each(|i| need(i, &made));
        }
        made.extend(n.output.iter().cloned());
    }
    graph.output.iter().for_each(|o| need(&o.name, &made));
}

/// The subgraphs of a node.
pub fn subgraphs(n: &NodeProto) -> impl Iterator<Item = &GraphProto> {
    n.attribute.iter().flat_map(|a| a.g.iter().chain(a.graphs.iter()))
}
