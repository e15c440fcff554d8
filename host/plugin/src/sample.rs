//! Small sample graphs that show what a plugin does with a node: some `Data` or `Const` nodes and
//! one node that reads them.
use ge_plugin_api::types::{Attr, AttrMap, AttrValue, ConstTensor, Key, NodeId, TensorDesc, Use, ValueRef};
use ge_plugin_api::view::host::{GraphSource, NodeParts, view};
use ge_plugin_api::view::{Graph, Node};

struct Held {
    op: Key,
    name: String,
    inputs: Vec<ValueRef>,
    outputs: Vec<TensorDesc>,
    attrs: Vec<Attr>,
    users: Vec<Use>,
}

/// A graph of `Data` or `Const` nodes and one node that reads them.
pub struct SampleGraph {
    nodes: Vec<Held>,
    order: Vec<NodeId>,
    flags: u64,
}

impl SampleGraph {
    /// A node of type `op` with inputs and outputs of unknown type and shape.
    pub fn new(op: &str, inputs: usize, outputs: usize) -> SampleGraph {
        SampleGraph::with(
            op,
            vec![Some(TensorDesc::unknown()); inputs],
            vec![TensorDesc::unknown(); outputs],
            AttrMap::default(),
        )
    }
    /// A node of type `op` with inputs of the given descriptors; `None` is an absent input.
    pub fn with(op: &str, inputs: Vec<Option<TensorDesc>>, outputs: Vec<TensorDesc>, attrs: AttrMap) -> SampleGraph {
        SampleGraph::over(op, inputs.into_iter().map(|d| d.map(|d| (d, None))).collect(), outputs, attrs)
    }
    /// Like `with`, but inputs may be constants.
    pub fn over(
        op: &str,
        inputs: Vec<Option<(TensorDesc, Option<ConstTensor>)>>,
        outputs: Vec<TensorDesc>,
        attrs: AttrMap,
    ) -> SampleGraph {
        let mut nodes = Vec::new();
        let mut values = Vec::new();
        let id = |n: usize| NodeId(u32::try_from(n).unwrap_or(u32::MAX));
        let last = id(inputs.iter().flatten().count());
        for (i, d) in inputs.into_iter().enumerate() {
            values.push(match d {
                None => ValueRef::ABSENT,
                Some((d, value)) => {
                    let at = id(nodes.len());
                    let op = Key::new(if value.is_some() { "Const" } else { "Data" });
                    let value = value.map(|v| Attr { key: Key::new("value"), value: AttrValue::Tensor(v) });
                    nodes.push(Held {
                        op,
                        name: format!("x{i}"),
                        inputs: Vec::new(),
                        outputs: vec![d],
                        attrs: value.into_iter().collect(),
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
        SampleGraph { nodes, order, flags: 0 }
    }
    /// Sets the flags of the prototype of the node's type ([`ge_plugin_api::ops::flags`]).
    pub fn flags(mut self, flags: u64) -> SampleGraph {
        self.flags = flags;
        self
    }
    /// The graph as a plugin sees it.
    pub fn graph(&self) -> Graph<'_> {
        view(self)
    }
    /// The node that reads the inputs.
    pub fn node(&self) -> Node<'_> {
        self.graph().node(self.order.last().copied().unwrap_or(NodeId(0)))
    }
}

impl GraphSource for SampleGraph {
    fn order(&self) -> &[NodeId] {
        &self.order
    }
    fn node(&self, id: NodeId) -> Option<NodeParts<'_>> {
        let n = self.nodes.get(id.0 as usize)?;
        Some(NodeParts {
            op: n.op,
            name: &n.name,
            inputs: &n.inputs,
            controls: &[],
            outputs: &n.outputs,
            attrs: &n.attrs,
        })
    }
    fn users(&self, v: ValueRef) -> &[Use] {
        self.nodes.get(v.node.0 as usize).filter(|_| v.output == 0).map_or(&[], |n| &n.users)
    }
    fn control_users(&self, _: NodeId) -> &[NodeId] {
        &[]
    }
    fn name(&self) -> &str {
        "sample"
    }
    fn attrs(&self) -> &[Attr] {
        &[]
    }
    fn graph(&self, _: &str) -> Option<&SampleGraph> {
        None
    }
    fn next_id(&self) -> NodeId {
        NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX))
    }
    fn op_flags(&self, op: Key) -> u64 {
        self.nodes.last().filter(|n| n.op == op).map_or(0, |_| self.flags)
    }
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
