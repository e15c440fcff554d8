//! A view of a graph in which a node and the values that it reads have other descriptors. Engines
//! and prototypes are asked with it before anything is changed.
use ge_ir::view::OpFlags;
use ge_ir::{Graph, NodeId, TensorDesc, ValueRef};
use ge_plugin_api::types::{Attr, Key, Use};
use ge_plugin_api::view::host::{GraphSource, NodeParts, view};

/// A graph with hypothetical descriptors.
pub struct WhatIf<'m> {
    graph: &'m Graph,
    ops: &'m dyn OpFlags,
    outputs: Vec<(NodeId, Vec<TensorDesc>)>,
}

impl<'m> WhatIf<'m> {
    /// Starts with the graph as it is.
    pub fn new(graph: &'m Graph, ops: &'m dyn OpFlags) -> WhatIf<'m> {
        WhatIf { graph, ops, outputs: Vec::new() }
    }
    /// Replaces the descriptor of a value.
    pub fn set(&mut self, v: ValueRef, desc: TensorDesc) {
        let at = self.outputs.iter().position(|(id, _)| *id == v.node).unwrap_or_else(|| {
            let own = self.graph.get(v.node).map(|n| n.outputs().to_vec()).unwrap_or_default();
            self.outputs.push((v.node, own));
            self.outputs.len() - 1
        });
        if let Some(d) = self.outputs[at].1.get_mut(v.output as usize) {
            *d = desc;
        }
    }
    /// Replaces the outputs of a node.
    pub fn set_outputs(&mut self, node: NodeId, outputs: Vec<TensorDesc>) {
        self.outputs.retain(|(id, _)| *id != node);
        self.outputs.push((node, outputs));
    }
    /// The graph with the replaced descriptors, as plugins see it.
    pub fn graph(&self) -> ge_plugin_api::view::Graph<'_> {
        view(self)
    }
}

impl GraphSource for WhatIf<'_> {
    fn order(&self) -> &[NodeId] {
        self.graph.order()
    }
    fn node(&self, id: NodeId) -> Option<NodeParts<'_>> {
        let n = self.graph.get(id)?;
        let other = self.outputs.iter().find(|(o, _)| *o == id).map(|(_, d)| d.as_slice());
        Some(NodeParts {
            op: n.op_key(),
            name: n.name(),
            inputs: n.inputs(),
            controls: n.controls(),
            outputs: other.unwrap_or(n.outputs()),
            attrs: n.attrs().as_slice(),
        })
    }
    fn users(&self, value: ValueRef) -> &[Use] {
        self.graph.users(value)
    }
    fn control_users(&self, node: NodeId) -> &[NodeId] {
        self.graph.get(node).map_or(&[], |n| n.control_users())
    }
    fn name(&self) -> &str {
        self.graph.name()
    }
    fn attrs(&self) -> &[Attr] {
        self.graph.attrs().as_slice()
    }
    fn graph(&self, _: &str) -> Option<&Self> {
        None
    }
    fn next_id(&self) -> NodeId {
        self.graph.next_id()
    }
    fn op_flags(&self, op: Key) -> u64 {
        self.ops.op_flags(op)
    }
}
