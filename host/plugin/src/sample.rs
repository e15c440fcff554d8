//! Small graphs that a plugin is shown to see what it does: some `Data` nodes and one node that
//! reads them.
use ge_plugin_api::abi::WithMetadata;
use ge_plugin_api::abi::erase::RawSlice;
use ge_plugin_api::types::{Attr, AttrMap, Key, NodeId, TensorDesc, Use, ValueRef};
use ge_plugin_api::view::{Graph, GraphTable, GraphTableRef, Node, RawGraph, RawNode};

struct Held {
    op: Key,
    name: String,
    inputs: Vec<ValueRef>,
    outputs: Vec<TensorDesc>,
    attrs: Vec<Attr>,
    users: Vec<Use>,
}

/// A graph of `Data` nodes and one node over them.
pub struct SampleGraph {
    nodes: Vec<Held>,
    order: Vec<NodeId>,
}

static TABLE: &WithMetadata<GraphTable> =
    &WithMetadata::new(GraphTable { order, node, users, control_users, name, attrs, graph, next_id });

impl SampleGraph {
    /// A node of a type with inputs and outputs of unknown type and shape.
    pub fn new(op: &str, inputs: usize, outputs: usize) -> SampleGraph {
        SampleGraph::with(
            op,
            vec![Some(TensorDesc::unknown()); inputs],
            vec![TensorDesc::unknown(); outputs],
            AttrMap::default(),
        )
    }
    /// A node of a type over inputs of the given descriptors; None is an absent input.
    pub fn with(op: &str, inputs: Vec<Option<TensorDesc>>, outputs: Vec<TensorDesc>, attrs: AttrMap) -> SampleGraph {
        let mut nodes = Vec::new();
        let mut values = Vec::new();
        let id = |n: usize| NodeId(u32::try_from(n).unwrap_or(u32::MAX));
        let last = id(inputs.iter().flatten().count());
        for (i, d) in inputs.into_iter().enumerate() {
            values.push(match d {
                None => ValueRef::ABSENT,
                Some(d) => {
                    let at = id(nodes.len());
                    nodes.push(Held {
                        op: Key::new("Data"),
                        name: format!("x{i}"),
                        inputs: Vec::new(),
                        outputs: vec![d],
                        attrs: Vec::new(),
                        users: vec![Use { node: last, input: u32::try_from(i).unwrap_or(u32::MAX) }],
                    });
                    ValueRef::new(at, 0)
                }
            });
        }
        nodes.push(Held {
            op: Key::new(op),
            name: "sample".into(),
            inputs: values,
            outputs,
            attrs: attrs.iter().cloned().collect(),
            users: Vec::new(),
        });
        let order = (0..nodes.len()).map(id).collect();
        SampleGraph { nodes, order }
    }
    /// The graph as a plugin sees it.
    pub fn graph(&self) -> Graph<'_> {
        let raw = RawGraph {
            context: self as *const SampleGraph as *const (),
            table: GraphTableRef(TABLE.static_as_prefix()),
        };
        // SAFETY: the table's functions take this context, and the graph does not change while it
        // is borrowed.
        unsafe { Graph::from_raw(raw) }
    }
    /// The node over the inputs.
    pub fn node(&self) -> Node<'_> {
        self.graph().node(self.order.last().copied().unwrap_or(NodeId(0)))
    }
}

unsafe fn held<'a>(context: *const ()) -> &'a SampleGraph {
    // SAFETY: `SampleGraph::graph` made the context; the view lives no longer than the graph.
    unsafe { &*(context as *const SampleGraph) }
}
unsafe fn at<'a>(context: *const (), id: NodeId) -> Option<&'a Held> {
    // SAFETY: as `held`.
    unsafe { held(context) }.nodes.get(id.0 as usize)
}
unsafe extern "C" fn order(c: *const ()) -> RawSlice<NodeId> {
    // SAFETY: as `held`.
    RawSlice::of(&unsafe { held(c) }.order)
}
unsafe extern "C" fn node(c: *const (), id: NodeId, out: *mut RawNode) -> bool {
    // SAFETY: as `held`; `out` is the caller's place for a node.
    unsafe {
        let Some(n) = at(c, id) else { return false };
        out.write(RawNode {
            id,
            op: n.op,
            name: RawSlice::of(n.name.as_bytes()),
            inputs: RawSlice::of(&n.inputs),
            controls: RawSlice::empty(),
            outputs: RawSlice::of(&n.outputs),
            attrs: RawSlice::of(&n.attrs),
        });
        true
    }
}
unsafe extern "C" fn users(c: *const (), v: ValueRef) -> RawSlice<Use> {
    // SAFETY: as `held`.
    unsafe { at(c, v.node) }.filter(|_| v.output == 0).map_or(RawSlice::empty(), |n| RawSlice::of(&n.users))
}
unsafe extern "C" fn control_users(_: *const (), _: NodeId) -> RawSlice<NodeId> {
    RawSlice::empty()
}
unsafe extern "C" fn name(_: *const ()) -> RawSlice<u8> {
    RawSlice::of(b"sample")
}
unsafe extern "C" fn attrs(_: *const ()) -> RawSlice<Attr> {
    RawSlice::empty()
}
unsafe extern "C" fn graph(_: *const (), _: RawSlice<u8>) -> *const () {
    std::ptr::null()
}
unsafe extern "C" fn next_id(c: *const ()) -> NodeId {
    // SAFETY: as `held`.
    NodeId(u32::try_from(unsafe { held(c) }.nodes.len()).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn a_plugin_sees_the_node_and_its_inputs() {
        let g = SampleGraph::with(
            "Add",
            vec![Some(TensorDesc::unknown()), None],
            vec![TensorDesc::unknown()],
            AttrMap::default(),
        );
        let n = g.node();
        assert_eq!((n.op(), n.inputs().len(), n.outputs().len()), ("Add", 2, 1));
        assert!(n.input_desc(0).is_some() && n.input_desc(1).is_none());
        let producer = n.input(0).unwrap();
        assert_eq!(g.graph().users(producer).len(), 1);
        assert_eq!(g.graph().node(producer.node).op(), "Data");
        assert!(g.graph().find(NodeId(9)).is_none());
    }
}
