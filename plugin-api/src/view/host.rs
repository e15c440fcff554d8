//! The host's side of the view: turns any store of nodes into a `Graph` for plugins.
use super::{Graph, GraphTable, GraphTableRef, RawGraph, RawNode};
use crate::abi::WithMetadata;
use crate::abi::erase::RawSlice;
use crate::types::{Attr, Key, NodeId, TensorDesc, Use, ValueRef};

/// A node, borrowed from its store.
pub struct NodeParts<'a> {
    /// Operator type.
    pub op: Key,
    /// Name.
    pub name: &'a str,
    /// Data inputs.
    pub inputs: &'a [ValueRef],
    /// Nodes that must run before this one, by control edges.
    pub controls: &'a [NodeId],
    /// Output descriptors.
    pub outputs: &'a [TensorDesc],
    /// Attributes.
    pub attrs: &'a [Attr],
}

/// A store that holds a graph. What it lends must stay unchanged while the view lives; the borrow
/// in [`view`] guarantees that.
///
/// # Examples
/// A graph without nodes:
/// ```
/// use ge_plugin_api::types::{Attr, Key, NodeId, Use, ValueRef};
/// use ge_plugin_api::view::host::{GraphSource, NodeParts, view};
///
/// struct Empty;
///
/// impl GraphSource for Empty {
///     fn order(&self) -> &[NodeId] {
///         &[]
///     }
///     fn node(&self, _: NodeId) -> Option<NodeParts<'_>> {
///         None
///     }
///     fn users(&self, _: ValueRef) -> &[Use] {
///         &[]
///     }
///     fn control_users(&self, _: NodeId) -> &[NodeId] {
///         &[]
///     }
///     fn name(&self) -> &str {
///         "empty"
///     }
///     fn attrs(&self) -> &[Attr] {
///         &[]
///     }
///     fn graph(&self, _: &str) -> Option<&Empty> {
///         None
///     }
///     fn next_id(&self) -> NodeId {
///         NodeId(0)
///     }
///     fn op_flags(&self, _: Key) -> u64 {
///         0
///     }
/// }
/// assert_eq!(view(&Empty).nodes().count(), 0);
/// ```
pub trait GraphSource: Sized {
    /// Nodes in topological order.
    fn order(&self) -> &[NodeId];
    /// The node with an id, if there is one.
    fn node(&self, id: NodeId) -> Option<NodeParts<'_>>;
    /// Inputs that read a value.
    fn users(&self, value: ValueRef) -> &[Use];
    /// Nodes that a control edge from `node` leads to.
    fn control_users(&self, node: NodeId) -> &[NodeId];
    /// Name of the graph.
    fn name(&self) -> &str;
    /// Attributes of the graph.
    fn attrs(&self) -> &[Attr];
    /// Another graph of the same model, by name.
    fn graph(&self, name: &str) -> Option<&Self>;
    /// The id that the next new node gets.
    fn next_id(&self) -> NodeId;
    /// Flags in the prototype of an operator type ([`crate::ops::flags`]); 0 if it has no
    /// prototype.
    fn op_flags(&self, op: Key) -> u64;
    /// Nodes of an operator type in topological order; `None` if the store would have to search all
    /// nodes.
    fn of_op(&self, op: Key) -> Option<&[NodeId]> {
        let _ = op;
        None
    }
    /// Operator types of all nodes, indexed by id ([`super::NO_TYPE`] where there is no node);
    /// `None` if the store keeps no such list.
    fn op_types(&self) -> Option<&[Key]> {
        None
    }
}

/// A graph view of a store.
pub fn view<S: GraphSource>(source: &S) -> Graph<'_> {
    let table = GraphTableRef(Table::<S>::VT.as_prefix());
    // SAFETY: the table's functions cast the context back to S, which is borrowed while the view
    // lives.
    unsafe { Graph::from_raw(RawGraph { context: source as *const S as *const (), table }) }
}

struct Table<S>(core::marker::PhantomData<S>);
impl<S: GraphSource> Table<S> {
    crate::abi::staticref! { const VT: WithMetadata<GraphTable> = WithMetadata::new(GraphTable {
        order: order::<S>,
        node: node::<S>,
        users: users::<S>,
        control_users: control_users::<S>,
        name: name::<S>,
        attrs: attrs::<S>,
        graph: graph::<S>,
        next_id: next_id::<S>,
        op_flags: op_flags::<S>,
        of_op: of_op::<S>,
        op_types: op_types::<S>,
    }) }
}

// SAFETY of all functions below: the context is the `S` of `view`, borrowed while the view lives;
// the host does not panic in them, and what they lend lives as long as the borrow.
unsafe fn of<'a, S>(c: *const ()) -> &'a S {
    // SAFETY: see above.
    unsafe { &*(c as *const S) }
}
unsafe extern "C" fn order<S: GraphSource>(c: *const ()) -> RawSlice<NodeId> {
    // SAFETY: see above.
    RawSlice::of(unsafe { of::<S>(c) }.order())
}
unsafe extern "C" fn node<S: GraphSource>(c: *const (), id: NodeId, out: *mut RawNode) -> bool {
    // SAFETY: see above; `out` points to room for one node.
    unsafe {
        match of::<S>(c).node(id) {
            Some(n) => {
                out.write(RawNode {
                    id,
                    op: n.op,
                    name: RawSlice::of(n.name.as_bytes()),
                    inputs: RawSlice::of(n.inputs),
                    controls: RawSlice::of(n.controls),
                    outputs: RawSlice::of(n.outputs),
                    attrs: RawSlice::of(n.attrs),
                });
                true
            }
            None => false,
        }
    }
}
unsafe extern "C" fn users<S: GraphSource>(c: *const (), v: ValueRef) -> RawSlice<Use> {
    // SAFETY: see above.
    RawSlice::of(unsafe { of::<S>(c) }.users(v))
}
unsafe extern "C" fn control_users<S: GraphSource>(c: *const (), n: NodeId) -> RawSlice<NodeId> {
    // SAFETY: see above.
    RawSlice::of(unsafe { of::<S>(c) }.control_users(n))
}
unsafe extern "C" fn name<S: GraphSource>(c: *const ()) -> RawSlice<u8> {
    // SAFETY: see above.
    RawSlice::of(unsafe { of::<S>(c) }.name().as_bytes())
}
unsafe extern "C" fn attrs<S: GraphSource>(c: *const ()) -> RawSlice<Attr> {
    // SAFETY: see above.
    RawSlice::of(unsafe { of::<S>(c) }.attrs())
}
unsafe extern "C" fn graph<S: GraphSource>(c: *const (), name: RawSlice<u8>) -> *const () {
    // SAFETY: see above; names are UTF-8.
    let (s, name) = unsafe { (of::<S>(c), core::str::from_utf8_unchecked(name.get())) };
    s.graph(name).map_or(core::ptr::null(), |g| g as *const S as *const ())
}
unsafe extern "C" fn next_id<S: GraphSource>(c: *const ()) -> NodeId {
    // SAFETY: see above.
    unsafe { of::<S>(c) }.next_id()
}
unsafe extern "C" fn op_flags<S: GraphSource>(c: *const (), op: Key) -> u64 {
    // SAFETY: see above.
    unsafe { of::<S>(c) }.op_flags(op)
}
unsafe extern "C" fn of_op<S: GraphSource>(c: *const (), op: Key, out: *mut RawSlice<NodeId>) -> bool {
    // SAFETY: see above; `out` points to room for one slice.
    unsafe {
        match of::<S>(c).of_op(op) {
            Some(list) => {
                out.write(RawSlice::of(list));
                true
            }
            None => false,
        }
    }
}
unsafe extern "C" fn op_types<S: GraphSource>(c: *const (), out: *mut RawSlice<Key>) -> bool {
    // SAFETY: see above; `out` points to room for one slice.
    unsafe {
        match of::<S>(c).op_types() {
            Some(types) => {
                out.write(RawSlice::of(types));
                true
            }
            None => false,
        }
    }
}
