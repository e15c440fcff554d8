//! Choices that became selections: both branches are computed, and a node selects between their
//! values. A choice of the source computes one branch only, so the numbers of the other say nothing
//! to the user. The selecting node records which nodes came from which branch.
use crate::NodeInfo;
use std::collections::HashSet;

/// Attribute of a selecting node: names of the nodes that the source computes only if the condition
/// (input 0) is true.
pub const IF_TRUE: &str = "_nodes_if_true";
/// Attribute of a selecting node: names of the nodes that the source computes only if the condition
/// is false.
pub const IF_FALSE: &str = "_nodes_if_false";
/// Attribute of a node that stands for several: their names.
const ORIGINALS: &str = ge_plugin_api::fusion::ORIGINALS;

/// Positions of those nodes of a graph that the source would not have computed. `holds` gives the
/// value of a node's output as a condition, if it is known. Nodes are in an order in which each
/// comes after those that it reads.
pub fn left_aside(nodes: &[NodeInfo], holds: impl Fn(u32, u32) -> Option<bool>) -> HashSet<u32> {
    let mut names: HashSet<&str> = HashSet::new();
    for n in nodes {
        let (Some(a), Some(b)) = (n.attrs.strs(IF_TRUE), n.attrs.strs(IF_FALSE)) else { continue };
        let condition = n.inputs.first().copied().flatten();
        match condition.and_then(|c| holds(c.node, c.output)) {
            Some(true) => names.extend(b),
            Some(false) => names.extend(a),
            None => {}
        }
    }
    let mut aside: HashSet<u32> = HashSet::new();
    if names.is_empty() {
        return aside;
    }
    for (k, n) in (0u32..).zip(nodes) {
        let originals = n.attrs.strs(ORIGINALS).unwrap_or_default();
        let whole = !originals.is_empty() && originals.iter().all(|o| names.contains(o));
        // What the compiler inserted (a cast, a change of layout) has no name in the source: it
        // belongs to the branch if it reads nothing else.
        let computed = || n.inputs.iter().flatten().filter(|v| !is_constant(nodes, v.node));
        let within = computed().next().is_some() && computed().all(|v| aside.contains(&v.node));
        if whole || within || names.contains(n.name.as_str()) {
            aside.insert(k);
        }
    }
    aside
}

fn is_constant(nodes: &[NodeInfo], node: u32) -> bool {
    nodes.get(node as usize).is_some_and(|n| matches!(n.op.as_str(), "Const" | "Constant"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ValueAt;

    fn node(name: &str, op: &str, inputs: &[u32]) -> NodeInfo {
        let inputs = inputs.iter().map(|n| Some(ValueAt { node: *n, output: 0 })).collect();
        NodeInfo { name: name.into(), op: op.into(), inputs, ..NodeInfo::default() }
    }

    #[test]
    fn the_branch_that_is_not_taken_is_left_aside_with_what_was_inserted_into_it() {
        let mut nodes = vec![
            node("c", "Less", &[]),
            node("x", "Data", &[]),
            node("then", "Neg", &[1]),
            node("k", "Const", &[]),
            node("fused", "FusedElementwise", &[1]),
            node("cast", "Cast", &[4, 3]),
            node("if", "SelectV2", &[0, 2, 5]),
            node("after", "Relu", &[6]),
        ];
        nodes[4].attrs.set(ORIGINALS, vec!["else1".to_owned(), "else2".to_owned()]);
        nodes[6].attrs.set(IF_TRUE, vec!["then".to_owned()]);
        nodes[6].attrs.set(IF_FALSE, vec!["else1".to_owned(), "else2".to_owned()]);
        let aside = |value: Option<bool>| {
            let mut all: Vec<u32> = left_aside(&nodes, |node, _| value.filter(|_| node == 0)).into_iter().collect();
            all.sort_unstable();
            all
        };
        assert_eq!(aside(Some(true)), [4, 5]);
        assert_eq!(aside(Some(false)), [2]);
        assert!(aside(None).is_empty());
    }
}
