//! Nodes that never run together: those in different branches of one `Case` or `If`, of which only
//! one is taken. Exclusivity is derived from the branches in the model, as subgraphs or between
//! labels, and never from attributes of nodes.
use super::flow::Flow;
use crate::ids::NodeKey;
use ge_ir::{Model, Node};
use std::collections::BTreeMap;
use std::sync::Arc;

pub use ge_planners::events::branch::{Branch, common, exclusive};

/// The branches of a model.
#[derive(Clone, Debug, Default)]
pub struct Branches {
    /// Branch of each graph that is in one.
    graphs: BTreeMap<u32, Branch>,
    /// Branch of each region of the root graph.
    regions: Vec<Branch>,
    /// Nodes that run one of their subgraphs, with their numbers.
    callers: Vec<(u32, NodeKey)>,
    flow: Option<Arc<Flow>>,
}

impl Branches {
    /// Finds the branches of a model. `flow` is its control flow by labels, if there is any.
    pub fn of(model: &Model, flow: Option<&Arc<Flow>>) -> Branches {
        let regions = flow.map(|f| f.branches()).unwrap_or_default();
        let mut out = Branches { graphs: BTreeMap::new(), regions, callers: Vec::new(), flow: flow.cloned() };
        // Scopes have the lower numbers, nodes with subgraphs the numbers after them.
        let mut next = flow.map_or(0, |f| f.scope_count()) as u32;
        let mut todo: Vec<(usize, Branch)> = vec![(0, Vec::new())];
        let mut seen = vec![false; model.graphs().len()];
        while let Some((g, at)) = todo.pop() {
            if seen.get_mut(g).is_none_or(|s| std::mem::replace(s, true)) {
                continue;
            }
            for n in model.graphs()[g].nodes().filter(|n| !n.subgraphs().is_empty()) {
                let at = if g == 0 { out.at(NodeKey::new(0, n.id())).to_vec() } else { at.clone() };
                for (k, sub) in n.subgraphs().iter().enumerate() {
                    let mut below = at.clone();
                    if takes_one(n) {
                        below.push((next, k as u32));
                    }
                    todo.extend(model.graph_index(sub).map(|g| (g, below)));
                }
                if takes_one(n) {
                    out.callers.push((next, NodeKey::new(g, n.id())));
                }
                next += 1;
            }
            if !at.is_empty() {
                out.graphs.insert(g as u32, at);
            }
        }
        out
    }
    /// Numbers of the control nodes that take one of their branches and for which `is` holds: nodes
    /// with subgraphs, and label switches.
    pub fn choices(&self, model: &Model, is: &dyn Fn(&Node) -> bool) -> Vec<u32> {
        let root = model.root();
        let scopes = self.flow.iter().flat_map(|f| (0..f.scope_count()).map(move |s| (s as u32, f.ends(s).0)));
        let picked = scopes.filter(|(_, entry)| root.get(*entry).is_some_and(is)).map(|(s, _)| s);
        let mut out: Vec<u32> = picked.collect();
        out.extend(self.callers.iter().filter(|(_, key)| key.get(model).is_some_and(is)).map(|(number, _)| *number));
        out
    }
    /// Whether the model has no branches.
    pub fn is_empty(&self) -> bool {
        self.graphs.is_empty() && self.regions.iter().all(Vec::is_empty)
    }
    /// The branches that contain a node.
    pub fn at(&self, key: NodeKey) -> &[(u32, u32)] {
        match &self.flow {
            Some(f) if key.graph == 0 => self.regions.get(f.region(key)).map_or(&[], Vec::as_slice),
            _ => self.graphs.get(&key.graph).map_or(&[], Vec::as_slice),
        }
    }
}

/// Whether a node runs exactly one of its subgraphs.
fn takes_one(n: &Node) -> bool {
    matches!(n.op(), "If" | "StatelessIf" | "Case" | "StatelessCase")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_branches_of_one_node_exclude_each_other() {
        assert!(exclusive(&[(1, 0)], &[(1, 1)]));
        assert!(exclusive(&[(1, 0), (2, 0)], &[(1, 0), (2, 1)]));
        assert!(!exclusive(&[(1, 0)], &[(1, 0), (2, 1)]));
        assert!(!exclusive(&[(1, 0)], &[(2, 1)]));
        assert!(!exclusive(&[], &[(2, 1)]));
        assert_eq!(common(&[(1, 0), (2, 0)], &[(1, 0), (2, 1)]), [(1, 0)]);
    }

    #[test]
    fn subgraphs_of_a_case_are_branches_and_those_of_a_loop_are_not() {
        let text = "graph @main(%i: i32[], %x: f32[2]) {
  %c = Case(%i, %x) {branches = [@a, @b]} : f32[2]
  %w = While(%c) {body = @body, cond = @cond} : f32[2]
  return %w
}
graph @a(%x: f32[2]) {
  %r = Relu(%x) : f32[2]
  return %r
}
graph @b(%x: f32[2]) {
  return %x
}
graph @cond(%x: f32[2]) {
  %t = Const() {value = dense<bool[]: false>} : bool[]
  return %t
}
graph @body(%x: f32[2]) {
  return %x
}
";
        let m = ge_ir::text::parse(text, "t.ge", &ge_ir::text::NoFiles).expect("a graph");
        let branches = Branches::of(&m, None);
        let at = |name: &str| {
            let g = m.graph_index(name).expect("a graph");
            branches.at(NodeKey::new(g, ge_ir::NodeId::NONE)).to_vec()
        };
        assert!(exclusive(&at("a"), &at("b")));
        assert!(at("cond").is_empty() && at("body").is_empty() && at("main").is_empty());
    }
}
