//! Side tables indexed by node.
use super::Graph;
use ge_plugin_api::types::NodeId;

/// A value for each node, kept by a pass or stage: a plain vector indexed by id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeMap<T>(Vec<T>);

impl<T: Clone> NodeMap<T> {
    /// Makes a table with `value` for every node of a graph.
    pub fn new(graph: &Graph, value: T) -> NodeMap<T> {
        NodeMap(vec![value; graph.id_bound()])
    }
    /// Makes a table with `value` for all ids below `bound`.
    pub fn with_bound(bound: usize, value: T) -> NodeMap<T> {
        NodeMap(vec![value; bound])
    }
}
impl<T> core::ops::Index<NodeId> for NodeMap<T> {
    type Output = T;
    fn index(&self, id: NodeId) -> &T {
        &self.0[id.index()]
    }
}
impl<T> core::ops::IndexMut<NodeId> for NodeMap<T> {
    fn index_mut(&mut self, id: NodeId) -> &mut T {
        &mut self.0[id.index()]
    }
}
