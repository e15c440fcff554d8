//! The order of nodes. The standard requires topological order, but converters (to half precision,
//! or inserting graph fragments) leave some nodes after their readers, and every runtime sorts
//! them.
use crate::free;
use crate::proto::{GraphProto, NodeProto};
use crate::scope::Scope;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

/// The names that a subgraph takes from the graph around it. If it reads a name before one of its
/// own nodes defines it, the name is its own, unless the graph around it has that name.
pub fn taken(graph: &GraphProto, around: &Scope) -> Vec<String> {
    let mut names = free::captured(graph);
    if names.iter().any(|name| !around.contains_key(name)) {
        let made: HashSet<&String> = graph.node.iter().flat_map(|n| &n.output).collect();
        names.retain(|name| around.contains_key(name) || !made.contains(name));
    }
    names
}

/// Whether everything that a node and its subgraphs read is defined.
pub fn is_ready(n: &NodeProto, scope: &Scope) -> bool {
    let there = |name: &String| name.is_empty() || scope.contains_key(name);
    n.input.iter().all(there) && free::subgraphs(n).all(|g| taken(g, scope).iter().all(there))
}

/// The names that a node, including its subgraphs, reads and defines.
pub struct Names {
    reads: Vec<String>,
    makes: Vec<String>,
}

impl Names {
    /// The names of a node.
    pub fn of(n: &NodeProto) -> Names {
        let inside = free::subgraphs(n).flat_map(free::captured);
        Names { reads: n.input.iter().cloned().chain(inside).collect(), makes: n.output.clone() }
    }
}

/// The indices of the nodes, each after those that define what it reads, otherwise in the given
/// order. Nodes of a cycle come last.
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
        // Nodes in a valid order stay in that order.
        assert_eq!(sorted(&[node(&[], "b"), node(&[], "a"), node(&["a", "a"], "c")]), [0, 1, 2]);
    }
}
