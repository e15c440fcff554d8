//! The graph as a plugin sees it: one borrowed view a node, as fast as native access; edits go
//! through `crate::patch`.
use crate::abi::StableAbi;
use crate::abi::erase::RawSlice;
use crate::types::{Attr, AttrValue, ConstTensor, Key, NodeId, TensorDesc, Use, ValueRef};
use core::marker::PhantomData;
use std::sync::OnceLock;

pub mod host;
mod lend;

/// One node as it lies in the host, borrowed.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct RawNode {
    /// Id.
    pub id: NodeId,
    /// Operator type.
    pub op: Key,
    /// Name.
    pub name: RawSlice<u8>,
    /// Data inputs in order.
    pub inputs: RawSlice<ValueRef>,
    /// Control inputs.
    pub controls: RawSlice<NodeId>,
    /// Output descriptors.
    pub outputs: RawSlice<TensorDesc>,
    /// Attributes.
    pub attrs: RawSlice<Attr>,
}

/// A host's graph as plugins reach it. Minor versions append after the last prefix field.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = GraphTableRef)))]
#[sabi(missing_field(option))]
pub struct GraphTable {
    /// Ids of all nodes in topological order.
    pub order: unsafe extern "C" fn(*const ()) -> RawSlice<NodeId>,
    /// A node; false if there is none of that id.
    pub node: unsafe extern "C" fn(*const (), NodeId, *mut RawNode) -> bool,
    /// Readers of a value.
    pub users: unsafe extern "C" fn(*const (), ValueRef) -> RawSlice<Use>,
    /// Nodes that follow a node by control edge.
    pub control_users: unsafe extern "C" fn(*const (), NodeId) -> RawSlice<NodeId>,
    /// The graph's name.
    pub name: unsafe extern "C" fn(*const ()) -> RawSlice<u8>,
    /// The graph's attributes.
    pub attrs: unsafe extern "C" fn(*const ()) -> RawSlice<Attr>,
    /// A graph of the same model by name: its context for these functions, or null.
    pub graph: unsafe extern "C" fn(*const (), RawSlice<u8>) -> *const (),
    /// The first id that new nodes get.
    #[sabi(last_prefix_field)]
    pub next_id: unsafe extern "C" fn(*const ()) -> NodeId,
    /// What the prototype of an operator type says of it ([`crate::ops::flags`]); 0 for unknown
    /// types.
    pub op_flags: unsafe extern "C" fn(*const (), Key) -> u64,
    /// Ids of all nodes of an operator type in topological order; false where the host does not
    /// know without looking at each.
    pub of_op: unsafe extern "C" fn(*const (), Key, *mut RawSlice<NodeId>) -> bool,
    /// Operator types of all nodes by id, [`NO_TYPE`] where there is no node; false where the host
    /// has no such list at hand.
    pub op_types: unsafe extern "C" fn(*const (), *mut RawSlice<Key>) -> bool,
}

/// In a list of operator types by node: there is no node of that id.
pub const NO_TYPE: Key = Key::from_index(u32::MAX);

/// A graph, borrowed from the host for the time of a call.
#[derive(Clone, Copy)]
pub struct Graph<'a> {
    raw: RawGraph,
    life: PhantomData<&'a ()>,
}

/// A graph as it crosses.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct RawGraph {
    /// The host's context.
    pub context: *const (),
    /// The host's functions.
    pub table: GraphTableRef,
}

/// One node, borrowed.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    raw: RawNode,
    graph: Graph<'a>,
}

impl<'a> Graph<'a> {
    /// From what crossed the border.
    ///
    /// # Safety
    /// Context and table must belong together, and the graph must not change for `'a`.
    pub unsafe fn from_raw(raw: RawGraph) -> Graph<'a> {
        Graph { raw, life: PhantomData }
    }
    /// As it crosses.
    pub fn raw(&self) -> RawGraph {
        self.raw
    }
    /// Nodes in topological order.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = Node<'a>> + use<'a> {
        let g = *self;
        self.order().iter().map(move |&id| g.node(id))
    }
    /// Nodes of some operator types in topological order. Where they are few it costs no look at
    /// the others.
    pub fn nodes_of(&self, ops: &[&str]) -> impl Iterator<Item = Node<'a>> + use<'a> {
        let (g, ops) = (*self, ops.iter().map(|op| Key::new(op)).collect::<Vec<_>>());
        let (among, types) = (self.among(&ops), self.op_types());
        let fits = move |id: NodeId| ops.contains(&g.type_in(types, id));
        among.iter().copied().filter(move |id| fits(*id)).map(move |id| g.node(id))
    }
    /// Operator types of all nodes by id, where the host has them at hand: a look at one costs no
    /// look at the rest of its node.
    pub(crate) fn op_types(&self) -> Option<&'a [Key]> {
        let mut out = RawSlice::empty();
        // SAFETY: as `order`; `out` is a place for one slice.
        let known = unsafe { (self.raw.table.op_types()?)(self.raw.context, &mut out) };
        // SAFETY: as `order`.
        known.then(|| unsafe { out.get() })
    }
    /// The operator type of a node by what [`Graph::op_types`] has given; [`NO_TYPE`] where there is
    /// no such node.
    pub(crate) fn type_in(&self, types: Option<&[Key]>, id: NodeId) -> Key {
        match types {
            Some(types) => types.get(id.index()).copied().unwrap_or(NO_TYPE),
            None => self.find(id).map_or(NO_TYPE, |n| n.op_key()),
        }
    }
    /// Ids in topological order among which all nodes of some operator types are.
    pub(crate) fn among(&self, ops: &[Key]) -> &'a [NodeId] {
        let of_op = |op: &Key| {
            let mut out = RawSlice::empty();
            // SAFETY: as `order`; `out` is a place for one slice.
            let known = unsafe { (self.raw.table.of_op()?)(self.raw.context, *op, &mut out) };
            // SAFETY: as `order`.
            known.then(|| unsafe { out.get() })
        };
        let mut there = ops.iter().map(of_op).filter(|l| l.is_none_or(|l| !l.is_empty()));
        match (there.next(), there.next()) {
            (None, _) => &[],
            (Some(Some(one)), None) => one,
            _ => self.order(),
        }
    }
    /// Ids in topological order.
    pub fn order(&self) -> &'a [NodeId] {
        // SAFETY: the host keeps the graph unchanged for 'a.
        unsafe { (self.raw.table.order())(self.raw.context).get() }
    }
    /// A node that is known to exist (from `nodes`, an input, a user); an unknown id gives an empty
    /// node.
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
    /// A node, if there is one of that id.
    pub fn find(&self, id: NodeId) -> Option<Node<'a>> {
        let mut raw = core::mem::MaybeUninit::<RawNode>::uninit();
        // SAFETY: the host writes the whole node where it answers true.
        unsafe {
            if (self.raw.table.node())(self.raw.context, id, raw.as_mut_ptr()) {
                Some(Node { raw: raw.assume_init(), graph: *self })
            } else {
                None
            }
        }
    }
    /// Readers of a value, in no fixed order.
    pub fn users(&self, value: ValueRef) -> &'a [Use] {
        // SAFETY: as `order`.
        unsafe { (self.raw.table.users())(self.raw.context, value).get() }
    }
    /// Nodes that follow a node by control edge.
    pub fn control_users(&self, node: NodeId) -> &'a [NodeId] {
        // SAFETY: as `order`.
        unsafe { (self.raw.table.control_users())(self.raw.context, node).get() }
    }
    /// Name.
    pub fn name(&self) -> &'a str {
        // SAFETY: as `order`; names are UTF-8.
        unsafe { core::str::from_utf8_unchecked((self.raw.table.name())(self.raw.context).get()) }
    }
    /// Attributes.
    pub fn attrs(&self) -> &'a [Attr] {
        // SAFETY: as `order`.
        unsafe { (self.raw.table.attrs())(self.raw.context).get() }
    }
    /// A graph of the same model by name (a subgraph that an attribute names).
    pub fn graph(&self, name: &str) -> Option<Graph<'a>> {
        // SAFETY: as `order`.
        let context = unsafe { (self.raw.table.graph())(self.raw.context, RawSlice::of(name.as_bytes())) };
        if context.is_null() {
            None
        } else {
            Some(Graph { raw: RawGraph { context, table: self.raw.table }, life: PhantomData })
        }
    }
    /// The first id that new nodes get.
    pub fn next_id(&self) -> NodeId {
        // SAFETY: as `order`.
        unsafe { (self.raw.table.next_id())(self.raw.context) }
    }
    /// What the prototype of an operator type says of it: an or of [`crate::ops::flags`]. 0 for
    /// types without a prototype, and from hosts that do not tell yet.
    pub fn op_flags(&self, op: Key) -> u64 {
        // SAFETY: as `order`.
        self.raw.table.op_flags().map_or(0, |f| unsafe { f(self.raw.context, op) })
    }
    /// Descriptor of a value; None for the absent input or an unknown output.
    pub fn desc(&self, value: ValueRef) -> Option<&'a TensorDesc> {
        if value.is_absent() {
            return None;
        }
        self.find(value.node)?.outputs().get(value.output as usize)
    }
    /// The constant that a value is, if its producer is a constant with its value in the graph.
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
    /// Id.
    pub fn id(&self) -> NodeId {
        self.raw.id
    }
    /// Operator type, interned.
    pub fn op_key(&self) -> Key {
        self.raw.op
    }
    /// Operator type.
    pub fn op(&self) -> &'static str {
        self.raw.op.as_str()
    }
    /// What its operator's prototype says: an or of [`crate::ops::flags`] ([`Graph::op_flags`]).
    pub fn op_flags(&self) -> u64 {
        self.graph.op_flags(self.raw.op)
    }
    /// Whether it computes each element of its output from the same element of its inputs, which
    /// are broadcast to the output ([`crate::ops::flags::ELEMENTWISE`]).
    pub fn is_elementwise(&self) -> bool {
        self.op_flags() & crate::ops::flags::ELEMENTWISE != 0
    }
    /// Name.
    pub fn name(&self) -> &'a str {
        // SAFETY: names are UTF-8 and unchanged for 'a.
        unsafe { core::str::from_utf8_unchecked(self.raw.name.get()) }
    }
    /// Data inputs in order; absent optional ones are `ValueRef::ABSENT`.
    pub fn inputs(&self) -> &'a [ValueRef] {
        // SAFETY: unchanged for 'a.
        unsafe { self.raw.inputs.get() }
    }
    /// An input; None if absent or beyond the list.
    pub fn input(&self, i: usize) -> Option<ValueRef> {
        self.inputs().get(i).copied().filter(|v| !v.is_absent())
    }
    /// Control inputs.
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
    /// One attribute.
    pub fn attr(&self, key: impl Into<Key>) -> Option<&'a AttrValue> {
        if self.attrs().is_empty() {
            return None;
        }
        let key = key.into();
        self.attrs().iter().find(|a| a.key == key).map(|a| &a.value)
    }
    /// A whole-number attribute.
    pub fn int(&self, key: impl Into<Key>) -> Option<i64> {
        self.attr(key)?.as_int()
    }
    /// A real-number attribute.
    pub fn float(&self, key: impl Into<Key>) -> Option<f64> {
        self.attr(key)?.as_float()
    }
    /// A truth attribute, false where not given.
    pub fn flag(&self, key: impl Into<Key>) -> bool {
        self.attr(key).and_then(AttrValue::as_bool).unwrap_or(false)
    }
    /// A text attribute.
    pub fn str(&self, key: impl Into<Key>) -> Option<&'a str> {
        self.attr(key)?.as_str()
    }
    /// A list-of-integers attribute.
    pub fn ints(&self, key: impl Into<Key>) -> Option<&'a [i64]> {
        self.attr(key)?.as_ints()
    }
    /// Whether it is a constant whose value is in the graph.
    pub fn is_const(&self) -> bool {
        is_const(self.op_key())
    }
    /// The graph it is in.
    pub fn graph(&self) -> Graph<'a> {
        self.graph
    }
    /// Descriptor of an input (its producer's); None if absent.
    pub fn input_desc(&self, i: usize) -> Option<&'a TensorDesc> {
        self.graph.desc(self.input(i)?)
    }
    /// The constant behind an input, if it is one.
    pub fn const_input(&self, i: usize) -> Option<&'a ConstTensor> {
        self.graph.constant(self.input(i)?)
    }
    /// The value of its output `k`.
    pub fn value(&self, k: u32) -> ValueRef {
        ValueRef::new(self.raw.id, k)
    }
}

/// Whether an operator type is that of constants.
fn is_const(op: Key) -> bool {
    static KEYS: OnceLock<[Key; 2]> = OnceLock::new();
    KEYS.get_or_init(|| ["Const", "Constant"].map(Key::new)).contains(&op)
}

/// A node and its graph in the form that crosses the border.
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
    /// The node again.
    ///
    /// # Safety
    /// As [`Graph::from_raw`].
    pub unsafe fn get<'a>(self) -> Node<'a> {
        // SAFETY: by contract.
        unsafe { Graph::from_raw(self.graph) }.node(self.node)
    }
}
