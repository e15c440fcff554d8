//! One node and its inputs, in the form that plugins receive. Inputs with known values appear as
//! constants, the others as graph inputs.
use ge_plugin_api::types::{Attr, AttrValue, ConstTensor, Key, NodeId, TensorDesc, Use, ValueRef};
use ge_plugin_api::view::host::{GraphSource, NodeParts, view};
use ge_plugin_api::view::{Graph, Node};

/// A node that stands for the producer of an input.
struct Source {
    op: Key,
    outputs: [TensorDesc; 1],
    attrs: Vec<Attr>,
}

/// A graph that consists of one node and its inputs.
pub(crate) struct OneNode<'a> {
    name: &'a str,
    op: Key,
    /// Flags of its prototype.
    flags: u64,
    attrs: &'a [Attr],
    inputs: Vec<ValueRef>,
    sources: Vec<Source>,
    /// Descriptors of its outputs, set once they are inferred.
    pub(crate) outputs: Vec<TensorDesc>,
    order: Vec<NodeId>,
}

impl<'a> OneNode<'a> {
    /// Makes the graph. `inputs` has the value number, the descriptor and, if known, the contents
    /// of each input; `None` is an absent optional input.
    pub(crate) fn new(
        name: &'a str,
        (op, flags): (Key, u64),
        attrs: &'a [Attr],
        inputs: &[Option<(u32, TensorDesc, Option<ConstTensor>)>],
        outputs: Vec<TensorDesc>,
    ) -> OneNode<'a> {
        let mut sources: Vec<Source> = Vec::with_capacity(inputs.len());
        let mut ids: Vec<(u32, NodeId)> = Vec::with_capacity(inputs.len());
        let mut refs = Vec::with_capacity(inputs.len());
        for i in inputs {
            let Some((id, desc, value)) = i else {
                refs.push(ValueRef::ABSENT);
                continue;
            };
            // A value that is read twice has only one producer.
            let known = ids.iter().find(|k| k.0 == *id).map(|k| k.1);
            let node = known.unwrap_or_else(|| {
                let node = NodeId(sources.len() as u32);
                ids.push((*id, node));
                let (op, attrs) = match value {
                    Some(v) => ("Const", vec![Attr { key: Key::new("value"), value: AttrValue::Tensor(v.clone()) }]),
                    None => ("Data", Vec::new()),
                };
                sources.push(Source { op: Key::new(op), outputs: [desc.clone()], attrs });
                node
            });
            refs.push(ValueRef::new(node, 0));
        }
        let order = (0..=sources.len() as u32).map(NodeId).collect();
        OneNode { name, op, flags, attrs, inputs: refs, sources, outputs, order }
    }

    /// The graph view; [`OneNode::node`] gives the node in it.
    pub(crate) fn graph(&self) -> Graph<'_> {
        view(self)
    }
    /// The node in a view of this graph.
    pub(crate) fn node<'v>(&self, graph: &Graph<'v>) -> Node<'v> {
        graph.node(NodeId(self.sources.len() as u32))
    }
}

impl GraphSource for OneNode<'_> {
    fn order(&self) -> &[NodeId] {
        &self.order
    }
    fn node(&self, id: NodeId) -> Option<NodeParts<'_>> {
        if id.index() == self.sources.len() {
            return Some(NodeParts {
                op: self.op,
                name: self.name,
                inputs: &self.inputs,
                controls: &[],
                outputs: &self.outputs,
                attrs: self.attrs,
            });
        }
        let s = self.sources.get(id.index())?;
        Some(NodeParts { op: s.op, name: "input", inputs: &[], controls: &[], outputs: &s.outputs, attrs: &s.attrs })
    }
    fn users(&self, _: ValueRef) -> &[Use] {
        &[]
    }
    fn control_users(&self, _: NodeId) -> &[NodeId] {
        &[]
    }
    fn name(&self) -> &str {
        "one"
    }
    fn attrs(&self) -> &[Attr] {
        &[]
    }
    fn graph(&self, _: &str) -> Option<&Self> {
        None
    }
    fn next_id(&self) -> NodeId {
        NodeId(self.order.len() as u32)
    }
    fn op_flags(&self, op: Key) -> u64 {
        if op == self.op { self.flags } else { 0 }
    }
}
