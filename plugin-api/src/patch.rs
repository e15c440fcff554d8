//! Patches: recorded edits of a graph, as plain data. The host verifies a patch and applies it as a
//! whole or not at all.
use crate::abi::{RString, RVec, StableAbi};
use crate::types::{Attr, AttrMap, AttrValue, ConstTensor, Key, NodeId, Shape, TensorDesc, ValueRef};
use crate::view::Graph;

/// A new node of an edit.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub struct NewNode {
    /// Id of the node: new nodes get consecutive ids from the graph's `next_id`.
    pub id: NodeId,
    /// Operator type.
    pub op: Key,
    /// Name. If empty, the host makes one (`<Type>_<n>`); a name that is already taken is made
    /// unique.
    pub name: RString,
    /// Input values, in order.
    pub inputs: RVec<ValueRef>,
    /// Nodes that must run before this one.
    pub controls: RVec<NodeId>,
    /// Output descriptors; the host infers unknown ones.
    pub outputs: RVec<TensorDesc>,
    /// Attributes.
    pub attrs: AttrMap,
}

/// A graph output with its name.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub struct NamedValue {
    /// Name that the user knows it by.
    pub name: RString,
    /// Value.
    pub value: ValueRef,
}

/// One recorded edit. Edits apply in order, each to the graph that the last `InGraph` named (at
/// first the graph of the call).
#[repr(u8)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub enum Edit {
    /// Selects the graph of the following edits. An unknown name creates a new, empty graph.
    InGraph(RString),
    /// Adds a node.
    AddNode(NewNode),
    /// Removes a node; none of its outputs may have a reader at the end of the patch.
    RemoveNode(NodeId),
    /// Replaces a node's operator type.
    SetOp(NodeId, Key),
    /// Renames a node.
    SetName(NodeId, RString),
    /// Replaces one input; the position just past the last input appends one.
    SetInput(NodeId, u32, ValueRef),
    /// Replaces all inputs.
    SetInputs(NodeId, RVec<ValueRef>),
    /// Adds a control edge from the first node to the second.
    AddControl(NodeId, NodeId),
    /// Removes the control edge from the first node to the second.
    RemoveControl(NodeId, NodeId),
    /// Makes every reader of the first value, graph outputs included, read the second.
    ReplaceUses(ValueRef, ValueRef),
    /// Replaces an output's descriptor.
    SetOutput(NodeId, u32, TensorDesc),
    /// Replaces all output descriptors. Their number may change if no removed output has a reader.
    SetOutputs(NodeId, RVec<TensorDesc>),
    /// Sets an attribute of a node.
    SetAttr(NodeId, Attr),
    /// Removes an attribute of a node.
    RemoveAttr(NodeId, Key),
    /// Sets an attribute of the graph.
    SetGraphAttr(Attr),
    /// Sets the graph's outputs, in order.
    SetGraphOutputs(RVec<NamedValue>),
    /// Removes a subgraph that nothing refers to any more.
    RemoveGraph(RString),
}

/// Records edits of a graph.
/// # Examples
/// ```
/// use ge_plugin_api::patch::Patch;
/// use ge_plugin_api::types::{AttrMap, DType, NodeId, Shape, TensorDesc, ValueRef};
///
/// // New nodes of this graph get ids from 5 on.
/// let mut patch = Patch::starting_at(NodeId(5));
/// let x = ValueRef::new(NodeId(0), 0);
/// let desc = TensorDesc::new(DType::F32, Shape::of(&[2]));
/// let relu = patch.add("Relu", "", &[x], vec![desc], AttrMap::default());
/// patch.replace_uses(ValueRef::new(NodeId(3), 0), ValueRef::new(relu, 0));
/// patch.remove(NodeId(3));
/// assert_eq!((relu, patch.edits().len()), (NodeId(5), 3));
/// ```
#[derive(Debug, Default)]
pub struct Patch {
    edits: Vec<Edit>,
    next: u32,
    /// Next node id of each graph that was left, to continue from on return.
    resume: Vec<(String, u32)>,
}

impl Patch {
    /// A patch for a graph; new nodes get ids from the graph's next id on.
    pub fn new(graph: &Graph<'_>) -> Patch {
        Patch { edits: Vec::new(), next: graph.next_id().0, resume: Vec::new() }
    }
    /// A patch for an empty graph; ids start at 0.
    pub fn for_new_graph() -> Patch {
        Patch::default()
    }
    /// A patch whose first new node gets the id `next`.
    pub fn starting_at(next: NodeId) -> Patch {
        Patch { next: next.0, ..Patch::default() }
    }
    /// Reserves room for `edits` more edits.
    pub fn reserve(&mut self, edits: usize) {
        self.edits.reserve(edits);
    }
    /// The id that the next new node gets.
    pub fn next_id(&self) -> NodeId {
        NodeId(self.next)
    }
    /// Appends edits that were recorded elsewhere with ids from this patch's `next_id` on. `next`
    /// is the next free id after them.
    pub fn append(&mut self, edits: Vec<Edit>, next: NodeId) {
        if self.edits.capacity() == 0 {
            self.edits = edits;
        } else {
            self.edits.extend(edits);
        }
        self.next = self.next.max(next.0);
    }
    /// Selects another graph of the model for the following edits. `next_id` is the next id of that
    /// graph (0 for a new one); it is ignored if this patch has left the graph before.
    pub fn in_graph(&mut self, name: &str, next_id: NodeId) {
        let next = self.resume.iter().find(|(n, _)| n == name).map_or(next_id.0, |(_, n)| *n);
        self.edits.push(Edit::InGraph(name.into()));
        self.next = next;
    }
    /// Stores the next id of the graph that is left.
    pub(crate) fn remember(&mut self, name: &str) {
        let next = self.next;
        match self.resume.iter_mut().find(|(n, _)| n == name) {
            Some(r) => r.1 = next,
            None => self.resume.push((name.to_owned(), next)),
        }
    }
    /// Adds a node and returns its id.
    pub fn add(
        &mut self,
        op: &str,
        name: &str,
        inputs: &[ValueRef],
        outputs: Vec<TensorDesc>,
        attrs: AttrMap,
    ) -> NodeId {
        let id = NodeId(self.next);
        self.next += 1;
        self.edits.push(Edit::AddNode(NewNode {
            id,
            op: Key::new(op),
            name: name.into(),
            inputs: inputs.into(),
            controls: RVec::new(),
            outputs: outputs.into(),
            attrs,
        }));
        id
    }
    /// Adds a constant and returns its value.
    pub fn constant(&mut self, name: &str, tensor: ConstTensor) -> ValueRef {
        let desc = tensor.desc();
        let mut attrs = AttrMap::default();
        attrs.set("value", tensor);
        ValueRef::new(self.add("Const", name, &[], vec![desc], attrs), 0)
    }
    /// Records any edit.
    pub fn push(&mut self, edit: Edit) {
        self.edits.push(edit);
    }
    /// Removes a node.
    pub fn remove(&mut self, node: NodeId) {
        self.push(Edit::RemoveNode(node));
    }
    /// Makes every reader of `from` read `to`.
    pub fn replace_uses(&mut self, from: ValueRef, to: ValueRef) {
        self.push(Edit::ReplaceUses(from, to));
    }
    /// Sets an attribute of a node.
    pub fn set_attr(&mut self, node: NodeId, key: &str, value: impl Into<AttrValue>) {
        self.push(Edit::SetAttr(node, Attr { key: Key::new(key), value: value.into() }));
    }
    /// Removes an attribute of a node.
    pub fn remove_attr(&mut self, node: NodeId, key: &str) {
        self.push(Edit::RemoveAttr(node, Key::new(key)));
    }
    /// Changes a node's operator type; inputs, outputs and attributes stay.
    pub fn set_op(&mut self, node: NodeId, op: &str) {
        self.push(Edit::SetOp(node, Key::new(op)));
    }
    /// Renames a node.
    pub fn set_name(&mut self, node: NodeId, name: &str) {
        self.push(Edit::SetName(node, name.into()));
    }
    /// Replaces an output's descriptor.
    pub fn set_output(&mut self, node: NodeId, index: u32, desc: TensorDesc) {
        self.push(Edit::SetOutput(node, index, desc));
    }
    /// Makes `after` run after `before`, whatever they read.
    pub fn add_control(&mut self, before: NodeId, after: NodeId) {
        self.push(Edit::AddControl(before, after));
    }
    /// Replaces one input; the position just past the last input appends one.
    pub fn set_input(&mut self, node: NodeId, index: u32, value: ValueRef) {
        self.push(Edit::SetInput(node, index, value));
    }
    /// Whether the patch has no edits.
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }
    /// The recorded edits.
    pub fn into_edits(self) -> RVec<Edit> {
        self.edits.into()
    }
    /// The edits recorded so far.
    pub fn edits(&self) -> &[Edit] {
        &self.edits
    }
}

/// Type and shape of one of the user's graph inputs.
/// # Examples
/// ```
/// use ge_plugin_api::patch::InputSpec;
/// use ge_plugin_api::types::{DType, Shape, TensorDesc};
///
/// let open = InputSpec::new("x", TensorDesc::new(DType::F32, Shape::default()));
/// let fixed = open.shaped(Shape::of(&[1, 3, 224, 224]));
/// assert_eq!(fixed.desc.shape.count(), Some(150_528));
/// ```
#[derive(Clone, Debug)]
pub struct InputSpec {
    /// Name of the input.
    pub name: String,
    /// Type and shape as the model declares them.
    pub desc: TensorDesc,
}

impl InputSpec {
    /// An input with its name, type and shape.
    pub fn new(name: &str, desc: TensorDesc) -> InputSpec {
        InputSpec { name: name.to_owned(), desc }
    }
    /// Replaces the shape.
    pub fn shaped(mut self, shape: Shape) -> InputSpec {
        self.desc.shape = shape;
        self
    }
}
