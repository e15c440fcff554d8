//! The order of nodes. The standard has them in topological order; converters (to half precision,
//! with graph fragments put in) leave some behind their readers, and every runtime sorts them.
use crate::free;
use crate::proto::{GraphProto, NodeProto};
use crate::scope::Scope;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

/// What a subgraph takes from the graph around it: what it reads ahead of a node of its own that makes
/// it is its own, unless the graph around it has such a name.
pub fn taken(graph: &GraphProto, around: &Scope) -> Vec<String> {
    let mut names = free::captured(graph);
    if names.iter().any(|name| !around.contains_key(name)) {
        let made: HashSet<&String> = graph.node.iter().flat_map(|n| &n.output).collect();
        names.retain(|name| around.contains_key(name) || !made.contains(name));
    }
    names
}

/// Whether all that a node and its subgraphs read is there.
pub fn is_ready(n: &NodeProto, scope: &Scope) -> bool {
    let there = |name: &String| name.is_empty() || scope.contains_key(name);
    n.input.iter().all(there) && free::subgraphs(n).all(|g| taken(g, scope).iter().all(there))
}

/// What a node reads, its subgraphs included, and makes.
pub struct Names {
    reads: Vec<String>,
    makes: Vec<String>,
}

impl Names {
    /// Of a node.
    pub fn of(n: &NodeProto) -> Names {
        let inside = free::subgraphs(n).flat_map(free::captured);
        Names { reads: n.input.iter().cloned().chain(inside).collect(), makes: n.output.clone() }
    }
}

/// The numbers of nodes, each behind those that make what it reads, else as they come; those of a
/// cycle stand at the end.
pub fn sorted(nodes: &[Names]) -> Vec<usize> {
    let mut maker: HashMap<&str, usize> = HashMap::new();
    for (k, n) in nodes.iter().enumerate() {
        for o in n.makes.iter().filter(|o| !o.is_empty()) {
            maker.entry(o.as_str()).or_insert(k);
        }
    }
    let mut waits = vec![0_usize; nodes.len()];
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (k, n) in nodes.iter().enumerate() {
        for from in n.reads.iter().filter_map(|name| maker.get(name.as_str())) {
            readers[*from].push(k);
            waits[k] += 1;
        }
    }
    let mut ready: BinaryHeap<Reverse<usize>> = (0..nodes.len()).filter(|k| waits[*k] == 0).map(Reverse).collect();
    let mut out = Vec::with_capacity(nodes.len());
    while let Some(Reverse(k)) = ready.pop() {
        out.push(k);
        for reader in &readers[k] {
            waits[*reader] -= 1;
            if waits[*reader] == 0 {
                ready.push(Reverse(*reader));
            }
        }
    }
    out.extend((0..nodes.len()).filter(|k| waits[*k] > 0));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(reads: &[&str], makes: &str) -> Names {
        Names { reads: reads.iter().map(|s| (*s).to_owned()).collect(), makes: vec![makes.to_owned()] }
    }

    #[test]
    fn each_stands_behind_what_it_reads_and_cycles_at_the_end() {
        let nodes = [node(&["c"], "d"), node(&["x"], "b"), node(&["b", ""], "c"), node(&["f"], "e"), node(&["e"], "f")];
        assert_eq!(sorted(&nodes), [1, 2, 0, 3, 4]);
        // What is in order stays as it is.
        assert_eq!(sorted(&[node(&[], "b"), node(&[], "a"), node(&["a", "a"], "c")]), [0, 1, 2]);
    }
}
