//! What the prototypes of operators say of the nodes that one mapping adds.
use ge_plugin_api::frontend::ForeignNode;
use ge_plugin_api::patch::Edit;
use ge_plugin_api::services::host_or_none;
use ge_plugin_api::types::{Attr, AttrValue, Key, NodeId, TensorDesc, Use, ValueRef};
use ge_plugin_api::view::host::{GraphSource, NodeParts, view};
use std::borrow::Cow;
use std::collections::HashMap;

/// A node of the graph that inference sees.
struct Node<'e> {
    op: Key,
    name: &'e str,
    inputs: &'e [ValueRef],
    outputs: Vec<TensorDesc>,
    attrs: Cow<'e, [Attr]>,
}

/// The nodes that a mapping added, and what is known of the values that it was given.
pub struct Inferred<'e> {
    order: Vec<NodeId>,
    nodes: HashMap<NodeId, Node<'e>>,
}

impl<'e> Inferred<'e> {
    /// Infers the outputs of the nodes that a mapping of `given` added, one after the other. What
    /// cannot be inferred stays unknown, and so does everything without a host.
    pub fn of(given: &ForeignNode, added: &'e [Edit]) -> Inferred<'e> {
        let mut all = Inferred { order: Vec::new(), nodes: HashMap::new() };
        for (i, v) in given.inputs.iter().enumerate().filter(|(_, v)| !v.is_absent()) {
            all.give(*v, given, i);
        }
        for e in added {
            let Edit::AddNode(n) = e else { continue };
            let (inputs, attrs) = (n.inputs.as_slice(), Cow::Borrowed(n.attrs.iter().as_slice()));
            let node = Node { op: n.op, name: &n.name, inputs, outputs: n.outputs.to_vec(), attrs };
            all.order.push(n.id);
            all.nodes.insert(n.id, node);
            if n.op == "Const" {
                continue;
            }
            let told = host_or_none().and_then(|host| host.infer(&view(&all).node(n.id)));
            if let (Some(told), Some(node)) = (told, all.nodes.get_mut(&n.id)) {
                for (own, told) in node.outputs.iter_mut().zip(told).filter(|(own, _)| own.shape.is_unranked()) {
                    *own = told;
                }
            }
        }
        all
    }

    /// Adds the node behind input `i` of the foreign node, with what is known of its output.
    fn give(&mut self, v: ValueRef, given: &ForeignNode, i: usize) {
        let key = if given.constant(i).is_some() { "Const" } else { "Data" };
        let node = self.nodes.entry(v.node).or_insert_with(|| {
            self.order.push(v.node);
            Node { op: Key::new(key), name: "", inputs: &[], outputs: Vec::new(), attrs: Cow::Borrowed(&[]) }
        });
        let at = v.output as usize;
        if node.outputs.len() <= at {
            node.outputs.resize_with(at + 1, TensorDesc::unknown);
        }
        node.outputs[at] = given.desc(i).cloned().unwrap_or_else(TensorDesc::unknown);
        if let Some(t) = given.constant(i) {
            node.attrs = vec![Attr { key: Key::new("value"), value: AttrValue::Tensor(t.clone()) }].into();
        }
    }

    /// The descriptor of a value.
    pub fn desc(&self, v: ValueRef) -> Option<&TensorDesc> {
        self.nodes.get(&v.node)?.outputs.get(v.output as usize)
    }
}

impl GraphSource for Inferred<'_> {
    fn order(&self) -> &[NodeId] {
        &self.order
    }
    fn node(&self, id: NodeId) -> Option<NodeParts<'_>> {
        let n = self.nodes.get(&id)?;
        Some(NodeParts {
            op: n.op,
            name: n.name,
            inputs: n.inputs,
            controls: &[],
            outputs: &n.outputs,
            attrs: &n.attrs,
        })
    }
    fn users(&self, _: ValueRef) -> &[Use] {
        &[]
    }
    fn control_users(&self, _: NodeId) -> &[NodeId] {
        &[]
    }
    fn name(&self) -> &str {
        ""
    }
    fn attrs(&self) -> &[Attr] {
        &[]
    }
    fn graph(&self, _: &str) -> Option<&Self> {
        None
    }
    fn next_id(&self) -> NodeId {
        NodeId(self.order.iter().map(|n| n.0 + 1).max().unwrap_or(0))
    }
    fn op_flags(&self, _: Key) -> u64 {
        0
    }
}
