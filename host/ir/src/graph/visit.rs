//! Implements petgraph's `visit` traits over data and control edges; components, dominators and
//! reachability come from petgraph. A neighbour is listed once for each edge to it.
use super::Graph;
use ge_plugin_api::types::NodeId;
use petgraph::Direction;
use petgraph::visit::{
    GraphBase, GraphProp, IntoNeighbors, IntoNeighborsDirected, IntoNodeIdentifiers, NodeCount, NodeIndexable,
    VisitMap, Visitable,
};

/// A set of nodes of one graph: one flag for each node id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSet(Vec<bool>);

impl NodeSet {
    /// Makes an empty set for the nodes of a graph.
    pub fn new(graph: &Graph) -> NodeSet {
        NodeSet(vec![false; graph.id_bound()])
    }
    /// Adds a node and returns whether it is new. An id beyond the graph's ids is ignored.
    pub fn insert(&mut self, id: NodeId) -> bool {
        self.0.get_mut(id.index()).is_some_and(|b| !std::mem::replace(b, true))
    }
    /// Removes a node and returns whether it was in the set.
    pub fn remove(&mut self, id: NodeId) -> bool {
        self.0.get_mut(id.index()).is_some_and(std::mem::take)
    }
    /// Whether the set contains a node.
    pub fn contains(&self, id: NodeId) -> bool {
        self.0.get(id.index()).is_some_and(|b| *b)
    }
}

impl VisitMap<NodeId> for NodeSet {
    fn visit(&mut self, id: NodeId) -> bool {
        self.insert(id)
    }
    fn is_visited(&self, id: &NodeId) -> bool {
        self.contains(*id)
    }
    fn unvisit(&mut self, id: NodeId) -> bool {
        self.remove(id)
    }
}

impl GraphBase for Graph {
    type NodeId = NodeId;
    /// The reader and its input position; control inputs are numbered after the data inputs.
    type EdgeId = (NodeId, u32);
}
impl GraphProp for Graph {
    type EdgeType = petgraph::Directed;
}
impl Visitable for Graph {
    type Map = NodeSet;
    fn visit_map(&self) -> NodeSet {
        NodeSet::new(self)
    }
    fn reset_map(&self, map: &mut NodeSet) {
        *map = NodeSet::new(self);
    }
}
impl NodeCount for Graph {
    fn node_count(&self) -> usize {
        self.len()
    }
}
impl NodeIndexable for Graph {
    fn node_bound(&self) -> usize {
        self.id_bound()
    }
    fn to_index(&self, id: NodeId) -> usize {
        id.index()
    }
    fn from_index(&self, i: usize) -> NodeId {
        u32::try_from(i).map_or(NodeId::NONE, NodeId)
    }
}
impl<'g> IntoNodeIdentifiers for &'g Graph {
    type NodeIdentifiers = std::iter::Copied<std::slice::Iter<'g, NodeId>>;
    fn node_identifiers(self) -> Self::NodeIdentifiers {
        self.order().iter().copied()
    }
}
impl IntoNeighbors for &Graph {
    type Neighbors = std::vec::IntoIter<NodeId>;
    fn neighbors(self, id: NodeId) -> Self::Neighbors {
        self.neighbors_directed(id, Direction::Outgoing)
    }
}
impl IntoNeighborsDirected for &Graph {
    type NeighborsDirected = std::vec::IntoIter<NodeId>;
    fn neighbors_directed(self, id: NodeId, d: Direction) -> Self::NeighborsDirected {
        let Some(n) = self.get(id) else { return Vec::new().into_iter() };
        let all: Vec<NodeId> = match d {
            Direction::Outgoing => {
                n.uses.iter().flatten().map(|u| u.node).chain(n.control_users().iter().copied()).collect()
            }
            Direction::Incoming => {
                let data = n.inputs.iter().filter(|v| !v.is_absent()).map(|v| v.node);
                data.chain(n.controls().iter().copied()).collect()
            }
        };
        all.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use petgraph::algo;

    #[test]
    fn algorithms_of_petgraph_see_data_and_control_edges() {
        let text = "graph @g(%x: f32[2]) {\n %a = Relu(%x) : f32[2]\n %b = Relu(%a) : f32[2]\n %c = Abs(%x) after(%b) : f32[2]\n return %c\n}";
        let m = crate::text::parse(text, "t.ge", &crate::text::NoFiles).expect("reads");
        let g = m.root();
        let id = |n: &str| g.find(n).map(|n| n.id()).expect("there");
        assert!(algo::has_path_connecting(g, id("a"), id("c"), None));
        assert!(!algo::has_path_connecting(g, id("c"), id("b"), None));
        let order = algo::toposort(g, None).expect("acyclic");
        assert_eq!(order.len(), g.len());
        let doms = algo::dominators::simple_fast(g, id("x"));
        assert_eq!(doms.immediate_dominator(id("b")), Some(id("a")));
        assert_eq!(doms.immediate_dominator(id("c")), Some(id("x")));
        assert_eq!(algo::tarjan_scc(g).len(), g.len());
    }
}
