//! Nodes and graphs as arguments of calls over the border.
use super::{Graph, Node, RawGraph, RawNodeRef};
use crate::abi::table::Lend;

// SAFETY: a node crosses by its graph and its id.
unsafe impl<'a> Lend<RawNodeRef> for &Node<'a> {
    type Held = Node<'a>;
    fn lend(self) -> RawNodeRef {
        RawNodeRef::of(self)
    }
    unsafe fn hold(raw: RawNodeRef) -> Node<'a> {
        // SAFETY: by contract.
        unsafe { raw.get() }
    }
}
// SAFETY: a graph crosses by its context and its functions.
unsafe impl<'a> Lend<RawGraph> for &Graph<'a> {
    type Held = Graph<'a>;
    fn lend(self) -> RawGraph {
        self.raw()
    }
    unsafe fn hold(raw: RawGraph) -> Graph<'a> {
        // SAFETY: by contract.
        unsafe { Graph::from_raw(raw) }
    }
}
