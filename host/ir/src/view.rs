//! A model as plugins see it: contexts for each graph behind the functions of
//! `ge_plugin_api::view`.
use crate::graph::{Graph, Model};
use ge_plugin_api::types::{Attr, NodeId, Use, ValueRef};
use ge_plugin_api::view::host::{GraphSource, NodeParts, view};
use std::cell::OnceCell;

/// One graph of a model, lent to plugins. Make it, then take [`GraphContext::graph`]; it must
/// outlive the view.
pub struct GraphContext<'m> {
    model: &'m Model,
    index: usize,
    /// Contexts of all graphs, made when a plugin first asks for another graph.
    others: OnceCell<Vec<GraphContext<'m>>>,
}

impl<'m> GraphContext<'m> {
    /// Graph `index` of a model (0 is the root).
    pub fn new(model: &'m Model, index: usize) -> GraphContext<'m> {
        GraphContext { model, index, others: OnceCell::new() }
    }
    /// The view.
    pub fn graph(&self) -> ge_plugin_api::view::Graph<'_> {
        view(self)
    }
    fn own(&self) -> &'m Graph {
        &self.model.graphs()[self.index]
    }
}

impl GraphSource for GraphContext<'_> {
    fn order(&self) -> &[NodeId] {
        self.own().order()
    }
    fn node(&self, id: NodeId) -> Option<NodeParts<'_>> {
        let n = self.own().get(id)?;
        Some(NodeParts {
            op: n.op_key(),
            name: n.name(),
            inputs: n.inputs(),
            controls: n.controls(),
            outputs: n.outputs(),
            attrs: n.attrs().as_slice(),
        })
    }
    fn users(&self, value: ValueRef) -> &[Use] {
        self.own().users(value)
    }
    fn control_users(&self, node: NodeId) -> &[NodeId] {
        self.own().get(node).map_or(&[], |n| n.control_users())
    }
    fn name(&self) -> &str {
        self.own().name()
    }
    fn attrs(&self) -> &[Attr] {
        self.own().attrs().as_slice()
    }
    fn graph(&self, name: &str) -> Option<&Self> {
        let i = self.model.graph_index(name)?;
        self.others
            .get_or_init(|| (0..self.model.graphs().len()).map(|k| GraphContext::new(self.model, k)).collect())
            .get(i)
    }
    fn next_id(&self) -> NodeId {
        self.own().next_id()
    }
}
