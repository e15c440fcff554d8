//! `Rewriter`: a patch over one graph that remembers what it has already replaced and removed, so that a pass may walk the old
//! graph in order and rewrite chains in one patch.
use ge_ir::graph::NodeSet;
use ge_ir::{Graph, Node, NodeId, TensorDesc, ValueRef};
use ge_plugin_api::patch::{Edit, Patch};
use std::collections::HashMap;

/// Recorded edits of one graph, with forwarding.
pub struct Rewriter<'g> {
    graph: &'g Graph,
    /// The patch, for edits beyond those below.
    pub patch: Patch,
    forward: HashMap<ValueRef, ValueRef>,
    gone: NodeSet,
    changes: u64,
}

impl<'g> Rewriter<'g> {
    /// For a graph.
    pub fn new(graph: &'g Graph) -> Rewriter<'g> {
        Rewriter {
            graph,
            patch: Patch::starting_at(graph.next_id()),
            forward: HashMap::new(),
            gone: NodeSet::new(graph),
            changes: 0,
        }
    }
    /// The graph as it was.
    pub fn graph(&self) -> &'g Graph {
        self.graph
    }
    /// Where a value of the old graph is found now.
    pub fn resolve(&self, mut v: ValueRef) -> ValueRef {
        while let Some(&next) = self.forward.get(&v) {
            v = next;
        }
        v
    }
    /// Input `i` of a node, as it is now.
    pub fn input(&self, n: &Node, i: usize) -> Option<ValueRef> {
        n.input(i).map(|v| self.resolve(v))
    }
    /// The old node that produces input `i` now; None if it is absent or new.
    pub fn producer(&self, n: &Node, i: usize) -> Option<&'g Node> {
        self.graph.get(self.input(n, i)?.node)
    }
    /// Whether a node is removed already.
    pub fn is_gone(&self, id: NodeId) -> bool {
        self.gone.contains(id)
    }
    /// Number of rewrites.
    pub fn changes(&self) -> u64 {
        self.changes
    }
    /// Counts a rewrite made through `patch`.
    pub fn count(&mut self) {
        self.changes += 1;
    }

    /// Removes a node with one output whose readers read `to` instead. The order that its control edges stood for is kept.
    pub fn bypass(&mut self, n: &Node, to: ValueRef) {
        let to = self.resolve(to);
        let own = n.value(0);
        // A control input that is removed already stands for what took its place.
        let before: Vec<NodeId> = n.controls().iter().map(|c| self.resolve(ValueRef::new(*c, 0)).node).collect();
        let followers: Vec<NodeId> = n.control_users().iter().copied().filter(|u| !self.is_gone(*u)).collect();
        let mut after: Vec<NodeId> = n.uses(0).iter().map(|u| u.node).filter(|u| !self.is_gone(*u)).collect();
        after.extend_from_slice(&followers);
        after.sort_unstable();
        after.dedup();
        for c in before.into_iter().filter(|c| !self.gone.contains(*c)) {
            for r in &after {
                self.patch.push(Edit::AddControl(c, *r));
            }
        }
        for u in followers {
            self.patch.push(Edit::AddControl(to.node, u));
        }
        self.patch.replace_uses(own, to);
        self.patch.remove(n.id());
        self.forward.insert(own, to);
        self.gone.insert(n.id());
        self.changes += 1;
    }

    /// Removes a node whose readers read the same outputs of an equal one.
    pub fn replace_all(&mut self, n: &Node, twin: &Node) {
        for u in n.control_users().iter().filter(|u| !self.gone.contains(**u)) {
            self.patch.push(Edit::AddControl(twin.id(), *u));
        }
        for k in 0..n.outputs().len() as u32 {
            self.patch.replace_uses(n.value(k), twin.value(k));
            self.forward.insert(n.value(k), twin.value(k));
        }
        self.patch.remove(n.id());
        self.gone.insert(n.id());
        self.changes += 1;
    }

    /// Removes a node that nothing reads.
    pub fn remove(&mut self, id: NodeId) {
        self.patch.remove(id);
        self.gone.insert(id);
        self.changes += 1;
    }

    /// The edits; counts go to `cx`.
    pub fn finish(self, cx: &mut super::PassContext<'_>) -> Vec<Edit> {
        cx.changes += self.changes;
        self.patch.into_edits().into()
    }
}

/// Whether a reader of one value may read the other without seeing a difference: type, format, and equal shapes without unknown
/// sizes.
pub fn same_desc(a: &TensorDesc, b: &TensorDesc) -> bool {
    a.dtype == b.dtype
        && a.format == b.format
        && a.origin_format() == b.origin_format()
        && a.shape.is_static()
        && a.shape == b.shape
}
