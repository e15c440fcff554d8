//! Builds a graph node by node in topological order, without patches. The text form and other
//! readers of whole graphs use it.
use super::{Graph, Inputs, Model, Node, Places};
use ge_plugin_api::types::{AttrMap, Key, NodeId, TensorDesc, Use, ValueRef};

/// A node that is not part of a graph: the argument of [`Graph::push`].
#[derive(Clone, Debug)]
pub struct Loose {
    /// Operator type.
    pub op: Key,
    /// Name.
    pub name: String,
    /// Data inputs.
    pub inputs: Vec<ValueRef>,
    /// Control inputs.
    pub controls: Vec<NodeId>,
    /// Output descriptors.
    pub outputs: Vec<TensorDesc>,
    /// Attributes.
    pub attrs: AttrMap,
}

impl Loose {
    /// Names of the graphs that its attributes name, in attribute order (lists in list order).
    pub fn subgraphs(&self) -> Vec<&str> {
        super::subgraphs(&self.attrs)
    }
}

impl Graph {
    /// Takes a graph apart. Returns its attributes and its nodes in order, each with its old id,
    /// which the inputs of the other nodes still use. The lists of readers are dropped.
    pub fn into_nodes(self) -> (AttrMap, impl Iterator<Item = (NodeId, Loose)>) {
        let Graph { attrs, order, mut nodes, .. } = self;
        let loose = move |id: NodeId| {
            let n = nodes.get_mut(id.index()).and_then(Option::take)?;
            let Node { op, name, inputs, control, outputs, attrs, .. } = n;
            let controls = control.map(|c| c.sources).unwrap_or_default();
            Some((
                id,
                Loose { op, name: name.into(), inputs: inputs.into_vec(), controls, outputs, attrs: attrs.into_map() },
            ))
        };
        (attrs, order.into_iter().filter_map(loose))
    }

    /// Appends a node taken from another graph, like [`Graph::push_node`].
    pub fn push(&mut self, n: Loose) -> Option<NodeId> {
        self.push_node(n.op, n.name, n.inputs, n.controls, n.outputs, n.attrs)
    }

    /// Appends a node at the end of the order; the cost is proportional to its edges. Returns
    /// `None` and changes nothing if an input is not in the graph yet. A control input that is
    /// named twice counts once.
    pub fn push_node(
        &mut self,
        op: Key,
        name: String,
        inputs: Vec<ValueRef>,
        mut controls: Vec<NodeId>,
        outputs: Vec<TensorDesc>,
        attrs: AttrMap,
    ) -> Option<NodeId> {
        let id = NodeId(u32::try_from(self.nodes.len()).ok().filter(|&i| i != u32::MAX)?);
        let known =
            |v: &ValueRef| v.is_absent() || self.get(v.node).is_some_and(|p| (v.output as usize) < p.outputs.len());
        if !inputs.iter().all(known) || controls.iter().any(|c| self.get(*c).is_none()) {
            return None;
        }
        if controls.len() > 1 {
            let mut seen = std::collections::HashSet::new();
            controls.retain(|c| seen.insert(*c));
        }
        let mut input_pos = Places::with_capacity(inputs.len());
        for (i, v) in inputs.iter().enumerate() {
            let mut pos = 0;
            if let Some(list) = self.slot(v.node).and_then(|p| p.uses.get_mut(v.output as usize)) {
                pos = u32::try_from(list.len()).ok()?;
                list.push(Use { node: id, input: u32::try_from(i).ok()? });
            }
            input_pos.push(pos);
        }
        let mut control_pos = Vec::with_capacity(controls.len());
        for c in &controls {
            let mut pos = 0;
            if let Some(p) = self.slot(*c) {
                let users = &mut p.control_mut().users;
                pos = u32::try_from(users.len()).ok()?;
                users.push(id);
            }
            control_pos.push(pos);
        }
        let mut node = Node::unlinked(id, op, name, outputs, attrs.into());
        (node.inputs, node.input_pos) = (Inputs::from_slice(&inputs), input_pos);
        if !controls.is_empty() {
            let c = node.control_mut();
            (c.sources, c.pos) = (controls, control_pos);
        }
        self.nodes.push(Some(node));
        self.live += 1;
        self.names = 0;
        self.order.push(id);
        Some(id)
    }

    fn slot(&mut self, id: NodeId) -> Option<&mut Node> {
        self.nodes.get_mut(id.index())?.as_mut()
    }
}

impl Model {
    /// Returns the graphs of a model, the root first.
    pub fn into_graphs(self) -> Vec<Graph> {
        self.graphs
    }
    /// Makes a model from whole graphs; the first is the root. Returns `None` if `graphs` is empty.
    pub fn from_graphs(graphs: Vec<Graph>) -> Option<Model> {
        if graphs.is_empty() { None } else { Some(Model::of(graphs)) }
    }
}

/// Breaks a graph in ways that no edit allows, for the verifier's tests.
#[cfg(test)]
impl Graph {
    pub(crate) fn break_input(&mut self, id: NodeId, v: ValueRef) {
        if let Some(i) = self.slot(id).and_then(|n| n.inputs.first_mut()) {
            *i = v;
        }
    }
    pub(crate) fn break_order(&mut self, order: Vec<NodeId>) {
        self.order = order;
    }
}
