//! Ids that stages decide: streams, events, nodes across the graphs of a model.
use ge_ir::{Graph, Model, Node, NodeId};

/// Nodes that a thread takes at a time where all nodes of a graph are asked in parallel: few enough
/// for a graph of some hundred nodes to be shared, enough for what each portion costs not to count.
pub const PORTION: usize = 64;

/// A node of a model: graph (index in [`Model::graphs`]) and id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeKey {
    /// Index of the graph.
    pub graph: u32,
    /// Node.
    pub node: NodeId,
}

impl NodeKey {
    /// Of a node in graph `graph`.
    pub fn new(graph: usize, node: NodeId) -> NodeKey {
        NodeKey { graph: graph as u32, node }
    }
    /// The graph.
    pub fn graph_of<'m>(&self, model: &'m Model) -> &'m Graph {
        &model.graphs()[self.graph as usize]
    }
    /// The node.
    pub fn get<'m>(&self, model: &'m Model) -> Option<&'m Node> {
        self.graph_of(model).get(self.node)
    }
    /// The node's name, for messages.
    pub fn name(&self, model: &Model) -> String {
        self.get(model).map(|n| n.name().to_owned()).unwrap_or_default()
    }
}

/// One value for every node of every graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelMap<T>(Vec<ge_ir::NodeMap<T>>);

impl<T: Clone> ModelMap<T> {
    /// The same value for all nodes.
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

/// A logical stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);
/// A physical stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhysicalId(pub u32);
/// An event, or a notify where the kind says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(pub u32);
