//! A model's graphs: nodes in a table by id, ordered inputs in the node, a list of readers for each
//! output.
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

/// Data inputs: up to two lie in the node itself.
type Inputs = SmallVec<[ValueRef; 2]>;
/// Where inputs stand among the readers of what they read.
type Places = SmallVec<[u32; 4]>;
/// Readers by output: one output with up to two readers lies in the node itself.
type Readers = SmallVec<[SmallVec<[Use; 2]>; 1]>;

/// A model: a root graph and the subgraphs that nodes name.
#[derive(Clone, Debug, Default)]
pub struct Model {
    graphs: Vec<Graph>,
    names: names::Kept,
}

/// One graph.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    name: String,
    attrs: AttrMap,
    nodes: Vec<Option<Node>>,
    live: usize,
    order: Vec<NodeId>,
    /// Mark of the names of its nodes; 0 since one of them has changed.
    names: u64,
}

/// One node. Readers are kept by the graph; fields are read through methods and changed by edits.
///
/// Most nodes have two inputs at most and one output that one node reads: such a node's edges lie
/// in it, so that going along an edge is one look into memory.
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
    /// Control edges, for the few nodes that ever had one.
    control: Option<Box<Control>>,
    /// Which patches have kept its old state.
    kept: journal::Kept,
}

/// The control edges of a node.
#[derive(Clone, Debug, Default)]
struct Control {
    sources: Vec<NodeId>,
    /// Where each control input stands in its source's list.
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
    /// Its control edges, to change.
    fn control_mut(&mut self) -> &mut Control {
        self.control.get_or_insert_default()
    }
    /// Id.
    pub fn id(&self) -> NodeId {
        self.id
    }
    /// Operator type, interned.
    pub fn op_key(&self) -> Key {
        self.op
    }
    /// Operator type.
    pub fn op(&self) -> &'static str {
        self.op.as_str()
    }
    /// Name, unique in its model.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Data inputs in order.
    pub fn inputs(&self) -> &[ValueRef] {
        &self.inputs
    }
    /// Input `i`; None if absent or beyond the list.
    pub fn input(&self, i: usize) -> Option<ValueRef> {
        self.inputs.get(i).copied().filter(|v| !v.is_absent())
    }
    /// Control inputs.
    pub fn controls(&self) -> &[NodeId] {
        self.control.as_ref().map_or(&[], |c| &c.sources)
    }
    /// Output descriptors.
    pub fn outputs(&self) -> &[TensorDesc] {
        &self.outputs
    }
    /// Attributes.
    pub fn attrs(&self) -> &NodeAttrs {
        &self.attrs
    }
    /// One attribute.
    pub fn attr(&self, key: impl Into<Key>) -> Option<&AttrValue> {
        self.attrs.get(key)
    }
    /// Readers of output `k`, in no fixed order.
    pub fn uses(&self, k: usize) -> &[Use] {
        self.uses.get(k).map_or(&[], |u| u)
    }
    /// Nodes that follow by control edge.
    pub fn control_users(&self) -> &[NodeId] {
        self.control.as_ref().map_or(&[], |c| &c.users)
    }
    /// Output `k` as a value.
    pub fn value(&self, k: u32) -> ValueRef {
        ValueRef::new(self.id, k)
    }
    /// Whether nothing reads or follows it.
    pub fn is_dead_end(&self) -> bool {
        self.control_users().is_empty() && self.uses.iter().all(SmallVec::is_empty)
    }
    /// Whether it is a constant with its value in the graph.
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
    /// An empty graph.
    pub fn new(name: &str) -> Graph {
        Graph { name: name.to_owned(), ..Graph::default() }
    }
    /// Name, unique in its model.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Attributes.
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
    /// One past the greatest id ever given: the length of a table by node.
    pub fn id_bound(&self) -> usize {
        self.nodes.len()
    }
    /// The id that the next new node gets.
    pub fn next_id(&self) -> NodeId {
        NodeId(self.nodes.len() as u32)
    }
    /// Nodes in topological order.
    pub fn order(&self) -> &[NodeId] {
        &self.order
    }
    /// A node.
    pub fn get(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.index())?.as_ref()
    }
    /// Nodes in topological order.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = &Node> + '_ {
        self.order.iter().filter_map(|&id| self.get(id))
    }
    /// Descriptor of a value; None for the absent input or an unknown output.
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
    /// The constant behind a value.
    pub fn constant(&self, v: ValueRef) -> Option<&ConstTensor> {
        if v.is_absent() || v.output != 0 {
            return None;
        }
        let n = self.get(v.node)?;
        if n.is_const() { n.attrs.tensor("value") } else { None }
    }
    /// The `NetOutput` node.
    pub fn net_output(&self) -> Option<&Node> {
        let key = Key::new("NetOutput");
        self.nodes().rev().find(|n| n.op == key)
    }
    /// Input nodes (`Data`, `RefData`, `AippData`) sorted by index.
    pub fn data_nodes(&self) -> Vec<&Node> {
        let mut v: Vec<&Node> =
            self.nodes().filter(|n| matches!(n.op(), "Data" | "RefData" | "AippData" | "AnnData")).collect();
        v.sort_by_key(|n| (n.attrs.int("index").unwrap_or(i64::MAX), n.id));
        v
    }
    /// A node by name: linear; keep a map for many look-ups.
    pub fn find(&self, name: &str) -> Option<&Node> {
        self.nodes().find(|n| *n.name == *name)
    }
    /// Replaces descriptors without touching edges: for inference and decisions that stages write
    /// back.
    pub fn set_outputs(&mut self, id: NodeId, outputs: Vec<TensorDesc>) {
        if let Some(Some(n)) = self.nodes.get_mut(id.index()) {
            n.uses.resize_with(outputs.len().max(n.uses.len()), SmallVec::new);
            n.outputs = outputs;
        }
    }
    /// Changes one descriptor in place.
    pub fn output_mut(&mut self, v: ValueRef) -> Option<&mut TensorDesc> {
        self.nodes.get_mut(v.node.index())?.as_mut()?.outputs.get_mut(v.output as usize)
    }
    /// Sets an attribute of a node.
    pub fn set_attr(&mut self, id: NodeId, key: impl Into<Key>, value: impl Into<AttrValue>) {
        if let Some(Some(n)) = self.nodes.get_mut(id.index()) {
            n.attrs.set(key, value);
        }
    }
    /// Removes an attribute of a node.
    pub fn remove_attr(&mut self, id: NodeId, key: impl Into<Key>) -> Option<AttrValue> {
        self.nodes.get_mut(id.index())?.as_mut()?.attrs.remove(key)
    }
    /// Attributes of the graph, to change.
    pub fn attrs_mut(&mut self) -> &mut AttrMap {
        &mut self.attrs
    }
}

impl Model {
    /// A model with an empty root graph.
    pub fn new(root: &str) -> Model {
        Model::of(vec![Graph::new(root)])
    }
    fn of(graphs: Vec<Graph>) -> Model {
        Model { graphs, names: names::Kept::default() }
    }
    /// The root graph.
    ///
    /// A model always has one: it is made with it and edits cannot remove it.
    pub fn root(&self) -> &Graph {
        &self.graphs[0]
    }
    /// The root graph, to write decisions into.
    pub fn root_mut(&mut self) -> &mut Graph {
        &mut self.graphs[0]
    }
    /// All graphs, root first, then in the order made.
    pub fn graphs(&self) -> &[Graph] {
        &self.graphs
    }
    /// All graphs, to write decisions into.
    pub fn graphs_mut(&mut self) -> &mut [Graph] {
        &mut self.graphs
    }
    /// Keeps the graphs whose entry is true (the root in any case); who names the others is the
    /// caller's care.
    pub fn retain_graphs(&mut self, keep: &[bool]) {
        let mut at = 0;
        self.graphs.retain(|_| {
            at += 1;
            at == 1 || keep.get(at - 1).copied().unwrap_or(true)
        });
    }
    /// Position of a graph by name.
    pub fn graph_index(&self, name: &str) -> Option<usize> {
        self.graphs.iter().position(|g| g.name == name)
    }
    /// A graph by name.
    pub fn graph(&self, name: &str) -> Option<&Graph> {
        self.graphs.iter().find(|g| g.name == name)
    }
    /// A graph by name, to write decisions into.
    pub fn graph_mut(&mut self, name: &str) -> Option<&mut Graph> {
        self.graphs.iter_mut().find(|g| g.name == name)
    }
    /// The node that names each subgraph: graph name to (graph index, node).
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
    /// Number of nodes in all graphs.
    pub fn node_count(&self) -> usize {
        self.graphs.iter().map(Graph::len).sum()
    }
    /// Makes ids equal to the order in every graph.
    pub fn compact(&mut self) {
        for g in &mut self.graphs {
            g.compact();
        }
    }
}
