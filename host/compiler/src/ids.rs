//! Ids that the stages assign: streams, events, and nodes across the graphs of a model.
use ge_ir::{Graph, Model, Node, NodeId};

/// Nodes that a thread takes at a time when all nodes of a graph are processed in parallel. It is
/// small enough to share a graph of a few hundred nodes among threads, and large enough to make the
/// cost per portion negligible.
pub const PORTION: usize = 64;

/// A node of a model, given by its graph and its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeKey {
    /// Index of the graph in [`Model::graphs`].
    pub graph: u32,
    /// Id of the node in that graph.
    pub node: NodeId,
}

impl NodeKey {
    /// The key of node `node` in the graph with index `graph`.
    pub fn new(graph: usize, node: NodeId) -> NodeKey {
        NodeKey { graph: graph as u32, node }
    }
    /// The graph that holds the node.
    pub fn graph_of<'m>(&self, model: &'m Model) -> &'m Graph {
        &model.graphs()[self.graph as usize]
    }
    /// The node, or `None` if the graph has no such node.
    pub fn get<'m>(&self, model: &'m Model) -> Option<&'m Node> {
        self.graph_of(model).get(self.node)
    }
    /// The node's name, for messages; empty if there is no such node.
    pub fn name(&self, model: &Model) -> String {
        self.get(model).map(|n| n.name().to_owned()).unwrap_or_default()
    }
}

/// One value for each node of each graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelMap<T>(Vec<ge_ir::NodeMap<T>>);

impl<T: Clone> ModelMap<T> {
    /// A map with the same value for all nodes.
    pub fn new(model: &Model, value: T) -> ModelMap<T> {
        ModelMap(model.graphs().iter().map(|g| ge_ir::NodeMap::new(g, value.clone())).collect())
    }
}
impl<T> std::ops::Index<NodeKey> for ModelMap<T> {
    type Output = T;
    fn index(&self, k: NodeKey) -> &T {
        &self.0[k.graph as usize][k.node]
    }
}
impl<T> std::ops::IndexMut<NodeKey> for ModelMap<T> {
    fn index_mut(&mut self, k: NodeKey) -> &mut T {
        &mut self.0[k.graph as usize][k.node]
    }
}

/// Id of a logical stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);
/// Id of a physical stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhysicalId(pub u32);
/// Id of an event, or of a notify where the kind says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(pub u32);
