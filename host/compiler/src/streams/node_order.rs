//! `ge.topoSortingMode`: the order of nodes as far as edges leave it open. Streams and memory are
//! then planned in this order.
//!
//! If control flow is expressed by labels and jumps, a branch is what lies between its labels, so
//! the order is not changed.
use crate::feature::control_flow::is_lowered;
use crate::options::NodeOrder;
use crate::pass::Records;
use ge_ir::{Graph, Model, Node, NodeId};
use std::collections::VecDeque;

/// Name of the option, used to report refusals.
pub const NAME: &str = "ge.topoSortingMode";

/// Orders all graphs of a model.
pub fn apply(model: &mut Model, wanted: NodeOrder, records: &mut Records) {
    if wanted == NodeOrder::Stable {
        return;
    }
    if is_lowered(model) {
        let root = model.root().name().to_owned();
        return records.refuse(
            &root,
            NAME,
            "control flow stands in the graph as labels and jumps: nodes keep their order",
        );
    }
    for g in model.graphs_mut() {
        let order = match wanted {
            NodeOrder::Stable => continue,
            NodeOrder::Breadth => by_readiness(g, VecDeque::pop_front),
            NodeOrder::Depth => by_readiness(g, VecDeque::pop_back),
            NodeOrder::ReverseDepth => from_outputs(g),
        };
        // The order of a graph with a cycle is not replaced; the verifier reports the cycle.
        let _ = g.set_order(&order);
    }
}

fn before(n: &Node) -> impl Iterator<Item = NodeId> + '_ {
    n.inputs().iter().filter(|v| !v.is_absent()).map(|v| v.node).chain(n.controls().iter().copied())
}

/// Nodes in the order in which they become ready. Breadth takes them from the front of the queue,
/// depth from its end.
fn by_readiness(g: &Graph, mut take: impl FnMut(&mut VecDeque<NodeId>) -> Option<NodeId>) -> Vec<NodeId> {
    let mut waits = vec![0u32; g.id_bound()];
    let mut readers: Vec<Vec<NodeId>> = vec![Vec::new(); g.id_bound()];
    for n in g.nodes() {
        for p in before(n) {
            waits[n.id().index()] += 1;
            readers[p.index()].push(n.id());
        }
    }
    let mut ready: VecDeque<NodeId> = g.order().iter().copied().filter(|id| waits[id.index()] == 0).collect();
    let mut out = Vec::with_capacity(g.order().len());
    while let Some(id) = take(&mut ready) {
        out.push(id);
        for r in &readers[id.index()] {
            waits[r.index()] -= 1;
            if waits[r.index()] == 0 {
                ready.push_back(*r);
            }
        }
    }
    out
}

/// Post-order from each output in turn: each output comes after everything that it needs.
fn from_outputs(g: &Graph) -> Vec<NodeId> {
    let mut is_read = vec![false; g.id_bound()];
    g.nodes().flat_map(before).for_each(|p| is_read[p.index()] = true);
    let mut is_out = vec![false; g.id_bound()];
    let mut out = Vec::with_capacity(g.order().len());
    for sink in g.order().iter().copied().filter(|id| !is_read[id.index()]) {
        let mut open = vec![(sink, false)];
        while let Some((id, is_done)) = open.pop() {
            if is_done {
                out.push(id);
            } else if !std::mem::replace(&mut is_out[id.index()], true) {
                open.push((id, true));
                let needs: Vec<NodeId> = g.get(id).into_iter().flat_map(before).collect();
                open.extend(needs.into_iter().rev().filter(|p| !is_out[p.index()]).map(|p| (p, false)));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(wanted: NodeOrder) -> String {
        let text = "graph @g(%x: f32[2]) {
  %a = Relu(%x) : f32[2]
  %b = Relu(%a) : f32[2]
  %c = Abs(%x) : f32[2]
  %d = Abs(%c) : f32[2]
  %e = Add(%d, %b) : f32[2]
  return %e
}
";
        let mut model = ge_ir::text::parse(text, "t.ge", &ge_ir::text::NoFiles).expect("parses");
        apply(&mut model, wanted, &mut Records::default());
        let g = model.root();
        let plain = |n: &&Node| matches!(n.op(), "Relu" | "Abs" | "Add");
        g.nodes().filter(plain).map(Node::name).collect()
    }

    #[test]
    fn each_mode_gives_its_order() {
        assert_eq!(names(NodeOrder::Stable), "abcde");
        assert_eq!(names(NodeOrder::Breadth), "acbde");
        assert_eq!(names(NodeOrder::Depth), "cdabe");
        assert_eq!(names(NodeOrder::ReverseDepth), "cdabe");
    }
}
