//! Nodes and graphs as arguments of calls across the ABI boundary.
use super::{Graph, Node, RawGraph, RawNodeRef};
use crate::abi::table::Lend;

// SAFETY: a node crosses as its graph and its id.
unsafe impl<'a> Lend<RawNodeRef> for &Node<'a> {
    type Held = Node<'a>;
    fn lend(self) -> RawNodeRef {
        RawNodeRef::of(self)
    }
    unsafe fn hold(raw: RawNodeRef) -> Node<'a> {
        // SAFETY: guaranteed by the caller.
        unsafe { raw.get() }
    }
}
// SAFETY: a graph crosses as its context and its function table.
unsafe impl<'a> Lend<RawGraph> for &Graph<'a> {
    type Held = Graph<'a>;
    fn lend(self) -> RawGraph {
        self.raw()
    }
    unsafe fn hold(raw: RawGraph) -> Graph<'a> {
        // SAFETY: guaranteed by the caller.
        unsafe { Graph::from_raw(raw) }
    }
}
