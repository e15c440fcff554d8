//! Recorded edits of a graph: plain data that the host verifies and applies whole or not at all.
use crate::abi::{RString, RVec, StableAbi};
use crate::types::{Attr, AttrMap, AttrValue, ConstTensor, Key, NodeId, Shape, TensorDesc, ValueRef};
use crate::view::Graph;

/// A new node, as an edit or as the builder makes it.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub struct NewNode {
    /// The id it gets: ids of new nodes count up from the graph's `next_id`.
    pub id: NodeId,
    /// Operator type.
    pub op: Key,
    /// Name; empty: the host makes one (`<Type>_<n>`). A name already taken is made unique by the
    /// host.
    pub name: RString,
    /// Inputs.
    pub inputs: RVec<ValueRef>,
    /// Control inputs.
    pub controls: RVec<NodeId>,
    /// Outputs; unknown ones are inferred.
    pub outputs: RVec<TensorDesc>,
    /// Attributes.
    pub attrs: AttrMap,
}

/// A graph input or output by name.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub struct NamedValue {
    /// Name that the user knows.
    pub name: RString,
    /// Value.
    pub value: ValueRef,
}

/// One recorded edit. Edits apply in order to the graph that the last `InGraph` named (at first:
/// the graph of the call).
#[repr(u8)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub enum Edit {
    /// The edits that follow are for this graph; a name not there yet makes a new, empty graph.
    InGraph(RString),
    /// Adds a node.
    AddNode(NewNode),
    /// Removes a node; its outputs must have no readers left at the end of the patch.
    RemoveNode(NodeId),
    /// Replaces a node's type.
    SetOp(NodeId, Key),
    /// Renames a node.
    SetName(NodeId, RString),
    /// Replaces one input; a position just past the end appends.
    SetInput(NodeId, u32, ValueRef),
    /// Replaces all inputs.
    SetInputs(NodeId, RVec<ValueRef>),
    /// Adds a control edge from the first to the second.
    AddControl(NodeId, NodeId),
    /// Removes a control edge.
    RemoveControl(NodeId, NodeId),
    /// Every reader of the first value reads the second (graph outputs too).
    ReplaceUses(ValueRef, ValueRef),
    /// Replaces an output's descriptor.
    SetOutput(NodeId, u32, TensorDesc),
    /// Replaces all output descriptors (their number may change while no reader is left hanging).
    SetOutputs(NodeId, RVec<TensorDesc>),
    /// Sets an attribute.
    SetAttr(NodeId, Attr),
    /// Removes an attribute.
    RemoveAttr(NodeId, Key),
    /// Sets an attribute of the graph.
    SetGraphAttr(Attr),
    /// Sets the graph's outputs, in order.
    SetGraphOutputs(RVec<NamedValue>),
    /// Removes a subgraph that nothing names any more.
    RemoveGraph(RString),
}

/// A recorder of edits.
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
    /// Where this graph's ids go on after visits to other graphs.
    resume: Vec<(String, u32)>,
}

impl Patch {
    /// A patch for a graph: new ids go on from its own.
    pub fn new(graph: &Graph<'_>) -> Patch {
        Patch { edits: Vec::new(), next: graph.next_id().0, resume: Vec::new() }
    }
    /// A patch for an empty graph.
    pub fn for_new_graph() -> Patch {
        Patch::default()
    }
    /// A patch whose first new node gets the id `next`.
    pub fn starting_at(next: NodeId) -> Patch {
        Patch { next: next.0, ..Patch::default() }
    }
    /// Makes room for so many edits more.
    pub fn reserve(&mut self, edits: usize) {
        self.edits.reserve(edits);
    }
    /// The id that the next new node gets.
    pub fn next_id(&self) -> NodeId {
        NodeId(self.next)
    }
    /// Appends edits recorded elsewhere that went on from this patch's `next_id`.
    pub fn append(&mut self, edits: Vec<Edit>, next: NodeId) {
        if self.edits.capacity() == 0 {
            self.edits = edits;
        } else {
            self.edits.extend(edits);
        }
        self.next = self.next.max(next.0);
    }
    /// The edits that follow are for another graph of the model; `next_id` is that graph's (0 for a
    /// new one).
    pub fn in_graph(&mut self, name: &str, next_id: NodeId) {
        let next = self.resume.iter().find(|(n, _)| n == name).map_or(next_id.0, |(_, n)| *n);
        self.edits.push(Edit::InGraph(name.into()));
        self.next = next;
    }
    /// Leaves a graph, remembering where its ids stand.
    pub(crate) fn remember(&mut self, name: &str) {
        let next = self.next;
        match self.resume.iter_mut().find(|(n, _)| n == name) {
            Some(r) => r.1 = next,
            None => self.resume.push((name.to_owned(), next)),
        }
    }
    /// Adds a node and gives its id.
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
    /// Adds a constant and gives its value.
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
    /// Every reader of `from` reads `to`.
    pub fn replace_uses(&mut self, from: ValueRef, to: ValueRef) {
        self.push(Edit::ReplaceUses(from, to));
    }
    /// Sets an attribute.
    pub fn set_attr(&mut self, node: NodeId, key: &str, value: impl Into<AttrValue>) {
        self.push(Edit::SetAttr(node, Attr { key: Key::new(key), value: value.into() }));
    }
    /// Removes an attribute.
    pub fn remove_attr(&mut self, node: NodeId, key: &str) {
        self.push(Edit::RemoveAttr(node, Key::new(key)));
    }
    /// Makes a node one of another type; inputs, outputs and attributes stay.
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
    /// Runs `after` behind `before`, whatever they read.
    pub fn add_control(&mut self, before: NodeId, after: NodeId) {
        self.push(Edit::AddControl(before, after));
    }
    /// Replaces one input.
    pub fn set_input(&mut self, node: NodeId, index: u32, value: ValueRef) {
        self.push(Edit::SetInput(node, index, value));
    }
    /// Whether nothing is recorded.
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }
    /// The edits.
    pub fn into_edits(self) -> RVec<Edit> {
        self.edits.into()
    }
    /// The edits so far.
    pub fn edits(&self) -> &[Edit] {
        &self.edits
    }
}

/// What the user's graph input looks like.
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
    /// Name.
    pub name: String,
    /// Type and shape as the model declares them.
    pub desc: TensorDesc,
}

impl InputSpec {
    /// An input.
    pub fn new(name: &str, desc: TensorDesc) -> InputSpec {
        InputSpec { name: name.to_owned(), desc }
    }
    /// With another shape.
    pub fn shaped(mut self, shape: Shape) -> InputSpec {
        self.desc.shape = shape;
        self
    }
}
