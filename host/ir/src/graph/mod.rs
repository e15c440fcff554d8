//! The graphs of a model: a table of nodes by id, ordered inputs in each node, and a list of
//! readers for each output.
mod attrs;
mod bulk;
mod edit;
mod equal;
mod journal;
mod names;
mod order;
mod origin;
mod side;
mod visit;
#[cfg(test)]
mod tests;

pub use attrs::NodeAttrs;
pub use bulk::Loose;
pub use edit::{EditError, EditSession};
pub use equal::{same_attrs, same_value};
pub use origin::{ORIGIN_TENSORS, give_names, origin_tensors, same_work};
pub use side::NodeMap;
pub use visit::NodeSet;

use ge_plugin_api::types::{AttrMap, AttrValue, ConstTensor, Key, NodeId, TensorDesc, Use, ValueRef};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Data inputs; up to two are stored inline in the node.
type Inputs = SmallVec<[ValueRef; 2]>;
/// For each input, its position in the producer's list of readers.
type Places = SmallVec<[u32; 4]>;
/// Readers by output; one output with up to two readers is stored inline in the node.
type Readers = SmallVec<[SmallVec<[Use; 2]>; 1]>;

/// A model: a root graph and the subgraphs that nodes name.
#[derive(Clone, Debug, Default)]
pub struct Model {
    graphs: Vec<Graph>,
    names: names::Kept,
}

/// One graph: its nodes by id, their topological order and the graph's attributes.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    name: String,
    attrs: AttrMap,
    nodes: Vec<Option<Node>>,
    live: usize,
    order: Vec<NodeId>,
    /// Mark of the current set of node names; 0 once a name has changed.
    names: u64,
}

/// One node. The graph maintains the readers; fields are read through methods and changed by edits.
///
/// Most nodes have at most two inputs and one output with one reader. The edges of such a node are
/// stored inline, so that following an edge costs one memory access.
#[derive(Clone, Debug)]
pub struct Node {
    pub(crate) id: NodeId,
    pub(crate) op: Key,
    pub(crate) name: Box<str>,
    pub(crate) inputs: Inputs,
    pub(crate) outputs: Vec<TensorDesc>,
    pub(crate) attrs: NodeAttrs,
    pub(crate) uses: Readers,
    /// Where each input stands in its producer's list of readers.
    pub(crate) input_pos: Places,
    /// Control edges; allocated only for the few nodes that ever had one.
    control: Option<Box<Control>>,
    /// The journals of patches that have already saved this node's old state.
    kept: journal::Kept,
}

/// The control edges of a node.
#[derive(Clone, Debug, Default)]
struct Control {
    sources: Vec<NodeId>,
    /// For each control input, its position in the source's list of users.
    pos: Vec<u32>,
    users: Vec<NodeId>,
}

impl Node {
    /// A node without edges.
    fn unlinked(id: NodeId, op: Key, name: String, outputs: Vec<TensorDesc>, attrs: NodeAttrs) -> Node {
        let uses = outputs.iter().map(|_| SmallVec::new()).collect();
        Node {
            id,
            op,
            name: name.into_boxed_str(),
            inputs: Inputs::new(),
            outputs,
            attrs,
            uses,
            input_pos: Places::new(),
            control: None,
            kept: journal::Kept::default(),
        }
    }
    /// Mutable access to its control edges, allocated if there are none yet.
    fn control_mut(&mut self) -> &mut Control {
        self.control.get_or_insert_default()
    }
    /// Id of the node in its graph.
    pub fn id(&self) -> NodeId {
        self.id
    }
    /// Operator type as an interned key.
    pub fn op_key(&self) -> Key {
        self.op
    }
    /// Operator type as text.
    pub fn op(&self) -> &'static str {
        self.op.as_str()
    }
    /// Name, unique in its model (only `Variable` nodes may share one).
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Data inputs in order.
    pub fn inputs(&self) -> &[ValueRef] {
        &self.inputs
    }
    /// Input `i`; `None` if it is absent or out of range.
    pub fn input(&self, i: usize) -> Option<ValueRef> {
        self.inputs.get(i).copied().filter(|v| !v.is_absent())
    }
    /// Sources of its control inputs.
    pub fn controls(&self) -> &[NodeId] {
        self.control.as_ref().map_or(&[], |c| &c.sources)
    }
    /// Output descriptors.
    pub fn outputs(&self) -> &[TensorDesc] {
        &self.outputs
    }
    /// Attributes of the node.
    pub fn attrs(&self) -> &NodeAttrs {
        &self.attrs
    }
    /// The value of one attribute; `None` if it is not set.
    pub fn attr(&self, key: impl Into<Key>) -> Option<&AttrValue> {
        self.attrs.get(key)
    }
    /// Readers of output `k`, in no fixed order.
    pub fn uses(&self, k: usize) -> &[Use] {
        self.uses.get(k).map_or(&[], |u| u)
    }
    /// Nodes with a control edge from this node.
    pub fn control_users(&self) -> &[NodeId] {
        self.control.as_ref().map_or(&[], |c| &c.users)
    }
    /// Output `k` as a value.
    pub fn value(&self, k: u32) -> ValueRef {
        ValueRef::new(self.id, k)
    }
    /// Whether no node reads its outputs or has a control edge from it.
    pub fn is_dead_end(&self) -> bool {
        self.control_users().is_empty() && self.uses.iter().all(SmallVec::is_empty)
    }
    /// Whether it is a constant (`Const` or `Constant`).
    pub fn is_const(&self) -> bool {
        static KEYS: LazyLock<[Key; 2]> = LazyLock::new(|| ["Const", "Constant"].map(Key::new));
        KEYS.contains(&self.op)
    }
    /// Names of the graphs that its attributes name, in attribute order (lists in list order).
    pub fn subgraphs(&self) -> Vec<&str> {
        self.attrs.subgraphs()
    }
}

/// Names of the graphs that attributes name, in attribute order (lists in list order).
fn subgraphs(attrs: &AttrMap) -> Vec<&str> {
    let mut out = Vec::new();
    for a in attrs.sorted() {
        match &a.value {
            AttrValue::Graph(g) => out.push(g.as_str()),
            AttrValue::List(l) => {
                out.extend(l.iter().filter_map(|v| if let AttrValue::Graph(g) = v { Some(g.as_str()) } else { None }))
            }
            _ => {}
        }
    }
    out
}

impl Graph {
    /// Makes an empty graph.
    pub fn new(name: &str) -> Graph {
        Graph { name: name.to_owned(), ..Graph::default() }
    }
    /// Name, unique in its model.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Attributes of the graph.
    pub fn attrs(&self) -> &AttrMap {
        &self.attrs
    }
    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.live
    }
    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }
    /// One more than the greatest id ever assigned: the length of a table indexed by node id.
    pub fn id_bound(&self) -> usize {
        self.nodes.len()
    }
    /// The id that the next new node gets.
    pub fn next_id(&self) -> NodeId {
        NodeId(self.nodes.len() as u32)
    }
    /// Ids of the nodes in topological order.
    pub fn order(&self) -> &[NodeId] {
        &self.order
    }
    /// The node with this id; `None` if there is none.
    pub fn get(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.index())?.as_ref()
    }
    /// Nodes in topological order.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = &Node> + '_ {
        self.order.iter().filter_map(|&id| self.get(id))
    }
    /// Descriptor of a value; `None` for the absent input or an unknown output.
    pub fn desc(&self, v: ValueRef) -> Option<&TensorDesc> {
        if v.is_absent() {
            return None;
        }
        self.get(v.node)?.outputs.get(v.output as usize)
    }
    /// Producer of input `i` of a node.
    pub fn producer(&self, node: &Node, i: usize) -> Option<&Node> {
        self.get(node.input(i)?.node)
    }
    /// Descriptor of input `i` of a node.
    pub fn input_desc(&self, node: &Node, i: usize) -> Option<&TensorDesc> {
        self.desc(node.input(i)?)
    }
    /// Readers of a value, in no fixed order.
    pub fn users(&self, v: ValueRef) -> &[Use] {
        match self.get(v.node) {
            Some(n) if !v.is_absent() => n.uses(v.output as usize),
            _ => &[],
        }
    }
    /// The constant behind a value; `None` if the value is no constant.
    pub fn constant(&self, v: ValueRef) -> Option<&ConstTensor> {
        if v.is_absent() || v.output != 0 {
            return None;
        }
        let n = self.get(v.node)?;
        if n.is_const() { n.attrs.tensor("value") } else { None }
    }
    /// The last `NetOutput` node in order; `None` if there is none.
    pub fn net_output(&self) -> Option<&Node> {
        let key = Key::new("NetOutput");
        self.nodes().rev().find(|n| n.op == key)
    }
    /// Input nodes (`Data`, `RefData`, `AippData`, `AnnData`) sorted by their attribute `index`.
    pub fn data_nodes(&self) -> Vec<&Node> {
        let mut v: Vec<&Node> =
            self.nodes().filter(|n| matches!(n.op(), "Data" | "RefData" | "AippData" | "AnnData")).collect();
        v.sort_by_key(|n| (n.attrs.int("index").unwrap_or(i64::MAX), n.id));
        v
    }
    /// Finds a node by name. This is a linear search; build a map for many look-ups.
    pub fn find(&self, name: &str) -> Option<&Node> {
        self.nodes().find(|n| *n.name == *name)
    }
    /// Replaces the output descriptors of a node without touching edges. Shape inference and stages
    /// use it to write their decisions back.
    pub fn set_outputs(&mut self, id: NodeId, outputs: Vec<TensorDesc>) {
        if let Some(Some(n)) = self.nodes.get_mut(id.index()) {
            n.uses.resize_with(outputs.len().max(n.uses.len()), SmallVec::new);
            n.outputs = outputs;
        }
    }
    /// Mutable access to the descriptor of one value; `None` for an unknown output.
    pub fn output_mut(&mut self, v: ValueRef) -> Option<&mut TensorDesc> {
        self.nodes.get_mut(v.node.index())?.as_mut()?.outputs.get_mut(v.output as usize)
    }
    /// Sets an attribute of a node.
    pub fn set_attr(&mut self, id: NodeId, key: impl Into<Key>, value: impl Into<AttrValue>) {
        if let Some(Some(n)) = self.nodes.get_mut(id.index()) {
            n.attrs.set(key, value);
        }
    }
    /// Removes an attribute of a node and returns its value.
    pub fn remove_attr(&mut self, id: NodeId, key: impl Into<Key>) -> Option<AttrValue> {
        self.nodes.get_mut(id.index())?.as_mut()?.attrs.remove(key)
    }
    /// Mutable access to the attributes of the graph.
    pub fn attrs_mut(&mut self) -> &mut AttrMap {
        &mut self.attrs
    }
}

impl Model {
    /// Makes a model with an empty root graph.
    pub fn new(root: &str) -> Model {
        Model::of(vec![Graph::new(root)])
    }
    fn of(graphs: Vec<Graph>) -> Model {
        Model { graphs, names: names::Kept::default() }
    }
    /// The root graph.
    ///
    /// Every model has one: [`Model::new`] makes it and no edit can remove it.
    pub fn root(&self) -> &Graph {
        &self.graphs[0]
    }
    /// Mutable access to the root graph, for stages that write decisions into it.
    pub fn root_mut(&mut self) -> &mut Graph {
        &mut self.graphs[0]
    }
    /// All graphs: the root first, then in the order in which they were made.
    pub fn graphs(&self) -> &[Graph] {
        &self.graphs
    }
    /// Mutable access to all graphs, for stages that write decisions into them.
    pub fn graphs_mut(&mut self) -> &mut [Graph] {
        &mut self.graphs
    }
    /// Keeps the root and the graphs whose entry in `keep` is true or missing. The caller must make
    /// sure that no node names a removed graph.
    pub fn retain_graphs(&mut self, keep: &[bool]) {
        let mut at = 0;
        self.graphs.retain(|_| {
            at += 1;
            at == 1 || keep.get(at - 1).copied().unwrap_or(true)
        });
    }
    /// Index of the graph with this name.
    pub fn graph_index(&self, name: &str) -> Option<usize> {
        self.graphs.iter().position(|g| g.name == name)
    }
    /// The graph with this name.
    pub fn graph(&self, name: &str) -> Option<&Graph> {
        self.graphs.iter().find(|g| g.name == name)
    }
    /// Mutable access to the graph with this name, for stages that write decisions into it.
    pub fn graph_mut(&mut self, name: &str) -> Option<&mut Graph> {
        self.graphs.iter_mut().find(|g| g.name == name)
    }
    /// The node that names each subgraph: maps the graph's name to (graph index, node).
    pub fn parents(&self) -> HashMap<&str, (usize, NodeId)> {
        let mut m = HashMap::new();
        for (gi, g) in self.graphs.iter().enumerate() {
            for n in g.nodes() {
                for s in n.subgraphs() {
                    m.entry(s).or_insert((gi, n.id));
                }
            }
        }
        m
    }
    /// Number of nodes in all graphs together.
    pub fn node_count(&self) -> usize {
        self.graphs.iter().map(Graph::len).sum()
    }
    /// Renumbers the nodes of every graph in topological order ([`Graph::compact`]).
    pub fn compact(&mut self) {
        for g in &mut self.graphs {
            g.compact();
        }
    }
}
