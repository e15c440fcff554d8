//! The graph as a plugin sees it: a borrowed view per node, as fast as native access. Edits go
//! through `crate::patch`.
use crate::abi::StableAbi;
use crate::abi::erase::RawSlice;
use crate::types::{Attr, AttrValue, ConstTensor, Key, NodeId, TensorDesc, Use, ValueRef};
use core::marker::PhantomData;
use std::sync::OnceLock;

pub mod host;
mod lend;

/// One node in the host's memory, borrowed.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct RawNode {
    /// Id of the node.
    pub id: NodeId,
    /// Operator type.
    pub op: Key,
    /// Name, UTF-8.
    pub name: RawSlice<u8>,
    /// Data inputs in order.
    pub inputs: RawSlice<ValueRef>,
    /// Nodes that must run before this one, by control edges.
    pub controls: RawSlice<NodeId>,
    /// Output descriptors.
    pub outputs: RawSlice<TensorDesc>,
    /// Attributes.
    pub attrs: RawSlice<Attr>,
}

/// The functions with which plugins read a host's graph. Minor versions append functions after the
/// last prefix field.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = GraphTableRef)))]
#[sabi(missing_field(option))]
pub struct GraphTable {
    /// Ids of all nodes in topological order.
    pub order: unsafe extern "C" fn(*const ()) -> RawSlice<NodeId>,
    /// Writes the node with an id; false if there is none.
    pub node: unsafe extern "C" fn(*const (), NodeId, *mut RawNode) -> bool,
    /// Inputs that read a value.
    pub users: unsafe extern "C" fn(*const (), ValueRef) -> RawSlice<Use>,
    /// Nodes that a control edge from a node leads to.
    pub control_users: unsafe extern "C" fn(*const (), NodeId) -> RawSlice<NodeId>,
    /// The graph's name, UTF-8.
    pub name: unsafe extern "C" fn(*const ()) -> RawSlice<u8>,
    /// The graph's attributes.
    pub attrs: unsafe extern "C" fn(*const ()) -> RawSlice<Attr>,
    /// Another graph of the same model by name: its context for these functions, or null if there
    /// is none.
    pub graph: unsafe extern "C" fn(*const (), RawSlice<u8>) -> *const (),
    /// The id that the next new node gets.
    #[sabi(last_prefix_field)]
    pub next_id: unsafe extern "C" fn(*const ()) -> NodeId,
    /// Flags in the prototype of an operator type ([`crate::ops::flags`]); 0 for unknown types.
    pub op_flags: unsafe extern "C" fn(*const (), Key) -> u64,
    /// Writes the ids of all nodes of an operator type in topological order; false if the host
    /// would have to search all nodes.
    pub of_op: unsafe extern "C" fn(*const (), Key, *mut RawSlice<NodeId>) -> bool,
    /// Writes the operator types of all nodes, indexed by id ([`NO_TYPE`] where there is no node);
    /// false if the host keeps no such list.
    pub op_types: unsafe extern "C" fn(*const (), *mut RawSlice<Key>) -> bool,
}

/// Entry in a list of operator types by node id where no node has that id.
pub const NO_TYPE: Key = Key::from_index(u32::MAX);

/// A graph, borrowed from the host for the duration of a call.
#[derive(Clone, Copy)]
pub struct Graph<'a> {
    raw: RawGraph,
    life: PhantomData<&'a ()>,
}

/// A graph in the form that crosses the ABI boundary.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct RawGraph {
    /// The host's context.
    pub context: *const (),
    /// The host's functions.
    pub table: GraphTableRef,
}

/// One node, borrowed from its graph.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    raw: RawNode,
    graph: Graph<'a>,
}

impl<'a> Graph<'a> {
    /// A graph from the form that crosses the ABI boundary.
    ///
    /// # Safety
    /// Context and table must belong together, and the graph must not change for `'a`.
    pub unsafe fn from_raw(raw: RawGraph) -> Graph<'a> {
        Graph { raw, life: PhantomData }
    }
    /// The graph in the form that crosses the ABI boundary.
    pub fn raw(&self) -> RawGraph {
        self.raw
    }
    /// Nodes in topological order.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = Node<'a>> + use<'a> {
        let g = *self;
        self.order().iter().map(move |&id| g.node(id))
    }
    /// Nodes of the given operator types in topological order. If they are few, the other nodes are
    /// usually not looked at.
    pub fn nodes_of(&self, ops: &[&str]) -> impl Iterator<Item = Node<'a>> + use<'a> {
        let (g, ops) = (*self, ops.iter().map(|op| Key::new(op)).collect::<Vec<_>>());
        let (among, types) = (self.among(&ops), self.op_types());
        let fits = move |id: NodeId| ops.contains(&g.type_in(types, id));
        among.iter().copied().filter(move |id| fits(*id)).map(move |id| g.node(id))
    }
    /// Operator types of all nodes, indexed by id, if the host keeps such a list: reading a type
    /// there does not load the rest of the node.
    pub(crate) fn op_types(&self) -> Option<&'a [Key]> {
        let mut out = RawSlice::empty();
        // SAFETY: as in `order`; `out` is room for one slice.
        let known = unsafe { (self.raw.table.op_types()?)(self.raw.context, &mut out) };
        // SAFETY: as in `order`.
        known.then(|| unsafe { out.get() })
    }
    /// The operator type of a node, read from the result of [`Graph::op_types`] if there is one;
    /// [`NO_TYPE`] if the node does not exist.
    pub(crate) fn type_in(&self, types: Option<&[Key]>, id: NodeId) -> Key {
        match types {
            Some(types) => types.get(id.index()).copied().unwrap_or(NO_TYPE),
            None => self.find(id).map_or(NO_TYPE, |n| n.op_key()),
        }
    }
    /// Ids in topological order that include all nodes of the given operator types: those of one
    /// type if the host lists them, otherwise all ids.
    pub(crate) fn among(&self, ops: &[Key]) -> &'a [NodeId] {
        let of_op = |op: &Key| {
            let mut out = RawSlice::empty();
            // SAFETY: as in `order`; `out` is room for one slice.
            let known = unsafe { (self.raw.table.of_op()?)(self.raw.context, *op, &mut out) };
            // SAFETY: as in `order`.
            known.then(|| unsafe { out.get() })
        };
        let mut there = ops.iter().map(of_op).filter(|l| l.is_none_or(|l| !l.is_empty()));
        match (there.next(), there.next()) {
            (None, _) => &[],
            (Some(Some(one)), None) => one,
            _ => self.order(),
        }
    }
    /// Ids of all nodes in topological order.
    pub fn order(&self) -> &'a [NodeId] {
        // SAFETY: the host keeps the graph unchanged for 'a.
        unsafe { (self.raw.table.order())(self.raw.context).get() }
    }
    /// The node with an id that is known to exist (from `nodes`, an input or a user); an unknown id
    /// gives an empty node.
    pub fn node(&self, id: NodeId) -> Node<'a> {
        self.find(id).unwrap_or_else(|| Node {
            raw: RawNode {
                id,
                op: Key::new(""),
                name: RawSlice::empty(),
                inputs: RawSlice::empty(),
                controls: RawSlice::empty(),
                outputs: RawSlice::empty(),
                attrs: RawSlice::empty(),
            },
            graph: *self,
        })
    }
    /// The node with an id, if there is one.
    pub fn find(&self, id: NodeId) -> Option<Node<'a>> {
        let mut raw = core::mem::MaybeUninit::<RawNode>::uninit();
        // SAFETY: the host writes the whole node if it returns true.
        unsafe {
            if (self.raw.table.node())(self.raw.context, id, raw.as_mut_ptr()) {
                Some(Node { raw: raw.assume_init(), graph: *self })
            } else {
                None
            }
        }
    }
    /// Inputs that read a value, in no fixed order.
    pub fn users(&self, value: ValueRef) -> &'a [Use] {
        // SAFETY: as in `order`.
        unsafe { (self.raw.table.users())(self.raw.context, value).get() }
    }
    /// Nodes that a control edge from `node` leads to.
    pub fn control_users(&self, node: NodeId) -> &'a [NodeId] {
        // SAFETY: as in `order`.
        unsafe { (self.raw.table.control_users())(self.raw.context, node).get() }
    }
    /// Name of the graph.
    pub fn name(&self) -> &'a str {
        // SAFETY: as in `order`; names are UTF-8.
        unsafe { core::str::from_utf8_unchecked((self.raw.table.name())(self.raw.context).get()) }
    }
    /// Attributes of the graph.
    pub fn attrs(&self) -> &'a [Attr] {
        // SAFETY: as in `order`.
        unsafe { (self.raw.table.attrs())(self.raw.context).get() }
    }
    /// Another graph of the same model by name, such as a subgraph that an attribute names.
    pub fn graph(&self, name: &str) -> Option<Graph<'a>> {
        // SAFETY: as in `order`.
        let context = unsafe { (self.raw.table.graph())(self.raw.context, RawSlice::of(name.as_bytes())) };
        if context.is_null() {
            None
        } else {
            Some(Graph { raw: RawGraph { context, table: self.raw.table }, life: PhantomData })
        }
    }
    /// The id that the next new node gets.
    pub fn next_id(&self) -> NodeId {
        // SAFETY: as in `order`.
        unsafe { (self.raw.table.next_id())(self.raw.context) }
    }
    /// Flags in the prototype of an operator type: a bitwise or of [`crate::ops::flags`]. 0 if the
    /// type has no prototype or the host is too old to tell.
    pub fn op_flags(&self, op: Key) -> u64 {
        // SAFETY: as in `order`.
        self.raw.table.op_flags().map_or(0, |f| unsafe { f(self.raw.context, op) })
    }
    /// Descriptor of a value; `None` for the absent input or an unknown output.
    pub fn desc(&self, value: ValueRef) -> Option<&'a TensorDesc> {
        if value.is_absent() {
            return None;
        }
        self.find(value.node)?.outputs().get(value.output as usize)
    }
    /// The constant tensor of a value, if its producer is a constant whose tensor is in the graph.
    pub fn constant(&self, value: ValueRef) -> Option<&'a ConstTensor> {
        let other = || self.op_types().is_some_and(|t| !is_const(self.type_in(Some(t), value.node)));
        if value.is_absent() || value.output != 0 || other() {
            return None;
        }
        let n = self.find(value.node)?;
        if !n.is_const() {
            return None;
        }
        match n.attr("value")? {
            AttrValue::Tensor(t) => Some(t),
            _ => None,
        }
    }
}

impl<'a> Node<'a> {
    /// Id of the node.
    pub fn id(&self) -> NodeId {
        self.raw.id
    }
    /// Operator type as an interned name.
    pub fn op_key(&self) -> Key {
        self.raw.op
    }
    /// Operator type.
    pub fn op(&self) -> &'static str {
        self.raw.op.as_str()
    }
    /// Flags in the prototype of the node's operator type: a bitwise or of [`crate::ops::flags`];
    /// see [`Graph::op_flags`].
    pub fn op_flags(&self) -> u64 {
        self.graph.op_flags(self.raw.op)
    }
    /// Whether the node computes each output element from the same element of its inputs, which are
    /// broadcast to the output shape ([`crate::ops::flags::ELEMENTWISE`]).
    pub fn is_elementwise(&self) -> bool {
        self.op_flags() & crate::ops::flags::ELEMENTWISE != 0
    }
    /// Name.
    pub fn name(&self) -> &'a str {
        // SAFETY: names are UTF-8 and unchanged for 'a.
        unsafe { core::str::from_utf8_unchecked(self.raw.name.get()) }
    }
    /// Data inputs in order; an absent optional input is `ValueRef::ABSENT`.
    pub fn inputs(&self) -> &'a [ValueRef] {
        // SAFETY: unchanged for 'a.
        unsafe { self.raw.inputs.get() }
    }
    /// An input; `None` if it is absent or `i` is out of range.
    pub fn input(&self, i: usize) -> Option<ValueRef> {
        self.inputs().get(i).copied().filter(|v| !v.is_absent())
    }
    /// Nodes that must run before this one, by control edges.
    pub fn controls(&self) -> &'a [NodeId] {
        // SAFETY: unchanged for 'a.
        unsafe { self.raw.controls.get() }
    }
    /// Output descriptors.
    pub fn outputs(&self) -> &'a [TensorDesc] {
        // SAFETY: unchanged for 'a.
        unsafe { self.raw.outputs.get() }
    }
    /// Attributes.
    pub fn attrs(&self) -> &'a [Attr] {
        // SAFETY: unchanged for 'a.
        unsafe { self.raw.attrs.get() }
    }
    /// The value of an attribute, if it is set.
    pub fn attr(&self, key: impl Into<Key>) -> Option<&'a AttrValue> {
        if self.attrs().is_empty() {
            return None;
        }
        let key = key.into();
        self.attrs().iter().find(|a| a.key == key).map(|a| &a.value)
    }
    /// An attribute as an integer; `None` if it is missing or of another kind.
    pub fn int(&self, key: impl Into<Key>) -> Option<i64> {
        self.attr(key)?.as_int()
    }
    /// An attribute as a float (an integer is converted); `None` if it is missing or of another
    /// kind.
    pub fn float(&self, key: impl Into<Key>) -> Option<f64> {
        self.attr(key)?.as_float()
    }
    /// Whether a boolean attribute is present and true.
    pub fn flag(&self, key: impl Into<Key>) -> bool {
        self.attr(key).and_then(AttrValue::as_bool).unwrap_or(false)
    }
    /// An attribute as a string; `None` if it is missing or of another kind.
    pub fn str(&self, key: impl Into<Key>) -> Option<&'a str> {
        self.attr(key)?.as_str()
    }
    /// An attribute as a list of integers; `None` if it is missing or of another kind.
    pub fn ints(&self, key: impl Into<Key>) -> Option<&'a [i64]> {
        self.attr(key)?.as_ints()
    }
    /// Whether the node is a constant whose tensor is in the graph.
    pub fn is_const(&self) -> bool {
        is_const(self.op_key())
    }
    /// The graph that the node belongs to.
    pub fn graph(&self) -> Graph<'a> {
        self.graph
    }
    /// Descriptor of an input, which is its producer's; `None` if the input is absent.
    pub fn input_desc(&self, i: usize) -> Option<&'a TensorDesc> {
        self.graph.desc(self.input(i)?)
    }
    /// The constant tensor that an input reads, if it is one; see [`Graph::constant`].
    pub fn const_input(&self, i: usize) -> Option<&'a ConstTensor> {
        self.graph.constant(self.input(i)?)
    }
    /// The value of output `k`.
    pub fn value(&self, k: u32) -> ValueRef {
        ValueRef::new(self.raw.id, k)
    }
}

/// Whether an operator type is one of the two constant types.
fn is_const(op: Key) -> bool {
    static KEYS: OnceLock<[Key; 2]> = OnceLock::new();
    KEYS.get_or_init(|| ["Const", "Constant"].map(Key::new)).contains(&op)
}

/// A node and its graph in the form that crosses the ABI boundary.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct RawNodeRef {
    /// Graph.
    pub graph: RawGraph,
    /// Node.
    pub node: NodeId,
}
impl RawNodeRef {
    /// The raw reference to a node.
    pub fn of(n: &Node<'_>) -> RawNodeRef {
        RawNodeRef { graph: n.graph.raw, node: n.raw.id }
    }
    /// Restores the node.
    ///
    /// # Safety
    /// The same as for [`Graph::from_raw`].
    pub unsafe fn get<'a>(self) -> Node<'a> {
        // SAFETY: guaranteed by the caller.
        unsafe { Graph::from_raw(self.graph) }.node(self.node)
    }
}
