//! `TestGraph`: a small graph that a plugin's passes, engines and inference see like a graph of the
//! host.
use crate::diagnostic::{Error, Result};
use crate::engine::{Engine, Hook};
use crate::ops::{InferCtx, OpDef};
use crate::pass::Pass;
use crate::patch::{Edit, Patch};
use crate::types::{Attr, AttrMap, AttrValue, ConstTensor, DType, Key, NodeId, Shape, TensorDesc, Use, ValueRef};
use crate::view::host::{GraphSource, NodeParts, view};
use crate::view::{Graph, Node};
use core::fmt;
use std::collections::HashMap;

/// A graph made by a test. Nodes are in topological order.
///
/// # Examples
/// ```
/// use ge_plugin_api::prelude::*;
/// use ge_plugin_api::testing::TestGraph;
///
/// let mut g = TestGraph::new();
/// let x = g.input("x", DType::F32, &[2, 3]);
/// let y = g.add("Relu", "y", &[x]).attr("slope", 0.5).value();
/// g.returns(&[y]);
/// assert_eq!(g.node("y").input_desc(0).map(|d| d.dtype), Some(DType::F32));
/// assert_eq!(g.to_string(), "%x = Data() : f32[2,3]\n%y = Relu(%x) {slope = 0.5} : f32[2,3]\nreturn %y\n");
/// ```
#[derive(Clone, Debug, Default)]
pub struct TestGraph {
    nodes: Vec<Option<Held>>,
    order: Vec<NodeId>,
    outputs: Vec<ValueRef>,
    op_flags: HashMap<Key, u64>,
}

#[derive(Clone, Debug)]
struct Held {
    op: Key,
    name: String,
    inputs: Vec<ValueRef>,
    controls: Vec<NodeId>,
    outputs: Vec<TensorDesc>,
    attrs: AttrMap,
    users: Vec<Vec<Use>>,
    control_users: Vec<NodeId>,
}

/// A node that has just been added.
pub struct NodeBuilder<'g> {
    graph: &'g mut TestGraph,
    id: NodeId,
    /// Whether it still has only its default output.
    plain: bool,
}

impl NodeBuilder<'_> {
    fn held(&mut self) -> &mut Held {
        self.graph.nodes[self.id.index()].as_mut().expect("the node was just added")
    }
    /// Sets an attribute.
    pub fn attr(mut self, key: &str, value: impl Into<AttrValue>) -> Self {
        self.held().attrs.set(key, value);
        self
    }
    /// Gives the node an output of this type and these sizes. The first call replaces the default
    /// output, which is like the first input; each further call adds an output.
    pub fn output(self, dtype: DType, sizes: &[u64]) -> Self {
        self.output_desc(TensorDesc::new(dtype, Shape::of(sizes)))
    }
    /// The same as [`output`](NodeBuilder::output), with a descriptor.
    pub fn output_desc(mut self, desc: TensorDesc) -> Self {
        if std::mem::take(&mut self.plain) {
            self.held().outputs.clear();
        }
        self.held().outputs.push(desc);
        self.graph.refresh();
        self
    }
    /// The node's first output.
    pub fn value(self) -> ValueRef {
        ValueRef::new(self.id, 0)
    }
    /// The node's id.
    pub fn id(self) -> NodeId {
        self.id
    }
}

impl TestGraph {
    /// A graph without nodes.
    pub fn new() -> TestGraph {
        TestGraph::default()
    }
    /// Adds a graph input.
    pub fn input(&mut self, name: &str, dtype: DType, sizes: &[u64]) -> ValueRef {
        self.add("Data", name, &[]).output(dtype, sizes).value()
    }
    /// Adds a constant.
    pub fn constant(&mut self, name: &str, tensor: ConstTensor) -> ValueRef {
        self.add("Const", name, &[]).output_desc(tensor.desc()).attr("value", tensor).value()
    }
    /// Adds a node that reads these values. It has one output with the descriptor of its first
    /// input.
    pub fn add(&mut self, op: &str, name: &str, inputs: &[ValueRef]) -> NodeBuilder<'_> {
        let like = inputs.first().and_then(|v| view(self).desc(*v).cloned()).unwrap_or_else(TensorDesc::unknown);
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(Some(Held {
            op: Key::new(op),
            name: name.to_owned(),
            inputs: inputs.to_vec(),
            controls: Vec::new(),
            outputs: vec![like],
            attrs: AttrMap::default(),
            users: Vec::new(),
            control_users: Vec::new(),
        }));
        self.order.push(id);
        self.refresh();
        NodeBuilder { graph: self, id, plain: true }
    }
    /// Sets the flags of an operator type's prototype ([`crate::ops::flags`]), for code that asks
    /// [`Node::op_flags`]. A host knows them for every prototype that is loaded.
    pub fn op_flags(&mut self, op: &str, flags: u64) {
        self.op_flags.insert(Key::new(op), flags);
    }
    /// Sets the outputs of the graph.
    pub fn returns(&mut self, values: &[ValueRef]) {
        self.outputs = values.to_vec();
    }
    /// The graph as a plugin sees it.
    pub fn graph(&self) -> Graph<'_> {
        view(self)
    }
    /// The node with a name.
    ///
    /// # Panics
    /// Panics if there is none.
    #[track_caller]
    pub fn node(&self, name: &str) -> Node<'_> {
        match self.graph().nodes().find(|n| n.name() == name) {
            Some(n) => n,
            None => panic!("the graph has no node `{name}`:\n{self}"),
        }
    }
    /// Runs a pass and applies its edits; returns whether there were any.
    ///
    /// # Errors
    /// Fails if the pass fails or its edits do not fit.
    pub fn run_pass(&mut self, pass: &dyn Pass) -> Result<bool> {
        let mut patch = Patch::new(&self.graph());
        pass.run(&self.graph(), &mut patch)?;
        self.apply(patch)
    }
    /// Runs an engine's graph optimizer at a hook and applies its edits; returns whether there were
    /// any.
    ///
    /// # Errors
    /// Fails if the engine fails or its edits do not fit.
    pub fn optimize(&mut self, engine: &dyn Engine, hook: Hook) -> Result<bool> {
        let mut patch = Patch::new(&self.graph());
        engine.optimize(hook, &self.graph(), &mut patch)?;
        self.apply(patch)
    }
    /// Applies a whole patch, or leaves the graph as it is on error; returns whether the patch has
    /// edits.
    ///
    /// # Errors
    /// Returns a `failed` error if an edit names a node that does not exist, if a reader is left
    /// without its input, if a cycle arises, or if an edit concerns attributes of the graph or
    /// another graph.
    pub fn apply(&mut self, patch: Patch) -> Result<bool> {
        let mut next = self.clone();
        let some = !patch.is_empty();
        for edit in patch.into_edits() {
            next.edit(edit)?;
        }
        next.sort()?;
        next.refresh();
        *self = next;
        Ok(some)
    }

    fn held_mut(&mut self, id: NodeId) -> Result<&mut Held> {
        let held = self.nodes.get_mut(id.index()).and_then(Option::as_mut);
        held.ok_or_else(|| Error::failed(format!("an edit names {id:?}, which there is not")))
    }

    fn edit(&mut self, edit: Edit) -> Result<()> {
        match edit {
            Edit::AddNode(n) => {
                if n.id.index() != self.nodes.len() {
                    return Err(Error::failed(format!("the new node `{}` does not have the next id", n.name)));
                }
                self.nodes.push(Some(Held {
                    op: n.op,
                    name: n.name.to_string(),
                    inputs: n.inputs.to_vec(),
                    controls: n.controls.to_vec(),
                    outputs: n.outputs.to_vec(),
                    attrs: n.attrs,
                    users: Vec::new(),
                    control_users: Vec::new(),
                }));
                self.order.push(n.id);
            }
            Edit::RemoveNode(id) => {
                self.held_mut(id)?;
                self.nodes[id.index()] = None;
                self.order.retain(|n| *n != id);
                self.nodes.iter_mut().flatten().for_each(|n| n.controls.retain(|c| *c != id));
            }
            Edit::SetOp(id, op) => self.held_mut(id)?.op = op,
            Edit::SetName(id, name) => self.held_mut(id)?.name = name.to_string(),
            Edit::SetInput(id, at, value) => {
                let inputs = &mut self.held_mut(id)?.inputs;
                match inputs.len() as u32 {
                    n if at < n => inputs[at as usize] = value,
                    n if at == n => inputs.push(value),
                    n => return Err(Error::failed(format!("an edit sets input {at} of a node with {n}"))),
                }
            }
            Edit::SetInputs(id, values) => self.held_mut(id)?.inputs = values.to_vec(),
            Edit::AddControl(from, to) => self.held_mut(to)?.controls.push(from),
            Edit::RemoveControl(from, to) => self.held_mut(to)?.controls.retain(|c| *c != from),
            Edit::ReplaceUses(from, to) => {
                let all = self.nodes.iter_mut().flatten().flat_map(|n| n.inputs.iter_mut());
                all.chain(self.outputs.iter_mut()).filter(|v| **v == from).for_each(|v| *v = to);
            }
            Edit::SetOutput(id, at, desc) => match self.held_mut(id)?.outputs.get_mut(at as usize) {
                Some(d) => *d = desc,
                None => return Err(Error::failed(format!("an edit sets output {at}, which the node lacks"))),
            },
            Edit::SetOutputs(id, descs) => self.held_mut(id)?.outputs = descs.to_vec(),
            Edit::SetAttr(id, a) => self.held_mut(id)?.attrs.set(a.key, a.value),
            Edit::RemoveAttr(id, key) => {
                self.held_mut(id)?.attrs.remove(key);
            }
            Edit::SetGraphOutputs(named) => self.outputs = named.iter().map(|n| n.value).collect(),
            other => {
                return Err(Error::failed(format!("a test graph has no other graphs and no attributes: {other:?}")));
            }
        }
        Ok(())
    }

    /// Sorts the nodes topologically and otherwise keeps their order.
    fn sort(&mut self) -> Result<()> {
        let mut placed = vec![false; self.nodes.len()];
        let mut left = self.order.clone();
        let mut order = Vec::with_capacity(left.len());
        for v in &self.outputs {
            self.exists(*v, "the graph's outputs")?;
        }
        while !left.is_empty() {
            let mut later = Vec::new();
            let before = left.len();
            for id in left {
                let Some(n) = &self.nodes[id.index()] else { continue };
                for v in n.inputs.iter().filter(|v| !v.is_absent()) {
                    self.exists(*v, &format!("`{}`", n.name))?;
                }
                let reads =
                    n.inputs.iter().filter(|v| !v.is_absent()).map(|v| v.node).chain(n.controls.iter().copied());
                if reads.into_iter().all(|r| placed.get(r.index()).copied().unwrap_or(false)) {
                    placed[id.index()] = true;
                    order.push(id);
                } else {
                    later.push(id);
                }
            }
            if later.len() == before {
                return Err(Error::failed("the edits make a cycle"));
            }
            left = later;
        }
        self.order = order;
        Ok(())
    }
    fn exists(&self, v: ValueRef, who: &str) -> Result<()> {
        let held = self.nodes.get(v.node.index()).and_then(Option::as_ref);
        match held.filter(|n| (v.output as usize) < n.outputs.len()) {
            Some(_) => Ok(()),
            None => Err(Error::failed(format!("{who} would read {v:?}, which there is not"))),
        }
    }
    /// Recomputes the readers of all values.
    fn refresh(&mut self) {
        let mut users: Vec<Vec<Vec<Use>>> =
            self.nodes.iter().map(|n| vec![Vec::new(); n.as_ref().map_or(0, |n| n.outputs.len())]).collect();
        let mut controls = vec![Vec::new(); self.nodes.len()];
        for id in &self.order {
            let Some(n) = &self.nodes[id.index()] else { continue };
            for (i, v) in n.inputs.iter().enumerate() {
                if let Some(list) = users.get_mut(v.node.index()).and_then(|u| u.get_mut(v.output as usize)) {
                    list.push(Use { node: *id, input: i as u32 });
                }
            }
            for c in &n.controls {
                controls[c.index()].push(*id);
            }
        }
        for ((n, users), controls) in self.nodes.iter_mut().zip(users).zip(controls) {
            if let Some(n) = n {
                (n.users, n.control_users) = (users, controls);
            }
        }
    }
    fn name_of(&self, v: ValueRef) -> String {
        let held = self.nodes.get(v.node.index()).and_then(Option::as_ref);
        match held {
            Some(n) if v.output == 0 => format!("%{}", n.name),
            Some(n) => format!("%{}#{}", n.name, v.output),
            None => "_".to_owned(),
        }
    }
}

impl GraphSource for TestGraph {
    fn order(&self) -> &[NodeId] {
        &self.order
    }
    fn node(&self, id: NodeId) -> Option<NodeParts<'_>> {
        let n = self.nodes.get(id.index())?.as_ref()?;
        Some(NodeParts {
            op: n.op,
            name: &n.name,
            inputs: &n.inputs,
            controls: &n.controls,
            outputs: &n.outputs,
            attrs: n.attrs.as_slice(),
        })
    }
    fn users(&self, value: ValueRef) -> &[Use] {
        let held = self.nodes.get(value.node.index()).and_then(Option::as_ref);
        held.and_then(|n| n.users.get(value.output as usize)).map_or(&[], Vec::as_slice)
    }
    fn control_users(&self, node: NodeId) -> &[NodeId] {
        self.nodes.get(node.index()).and_then(Option::as_ref).map_or(&[], |n| &n.control_users)
    }
    fn name(&self) -> &str {
        "test"
    }
    fn attrs(&self) -> &[Attr] {
        &[]
    }
    fn graph(&self, _: &str) -> Option<&TestGraph> {
        None
    }
    fn next_id(&self) -> NodeId {
        NodeId(self.nodes.len() as u32)
    }
    fn op_flags(&self, op: Key) -> u64 {
        self.op_flags.get(&op).copied().unwrap_or(0)
    }
}

impl fmt::Display for TestGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |values: &[ValueRef]| values.iter().map(|v| self.name_of(*v)).collect::<Vec<_>>().join(", ");
        for n in self.order.iter().filter_map(|id| self.nodes[id.index()].as_ref()) {
            write!(f, "%{} = {}({})", n.name, n.op, list(&n.inputs))?;
            if !n.attrs.is_empty() {
                let attrs: Vec<String> =
                    n.attrs.sorted().iter().map(|a| format!("{} = {}", a.key, text(&a.value))).collect();
                write!(f, " {{{}}}", attrs.join(", "))?;
            }
            let descs: Vec<String> = n.outputs.iter().map(|d| format!("{}{}", d.dtype, d.shape)).collect();
            writeln!(f, " : {}", descs.join(", "))?;
        }
        writeln!(f, "return {}", list(&self.outputs))
    }
}

fn text(v: &AttrValue) -> String {
    match v {
        AttrValue::Int(i) => i.to_string(),
        AttrValue::Float(x) => format!("{x:?}"),
        AttrValue::Bool(b) => b.to_string(),
        AttrValue::Str(s) => format!("{:?}", s.as_str()),
        AttrValue::Type(t) => t.to_string(),
        AttrValue::Ints(l) => format!("{l:?}"),
        AttrValue::Floats(l) => format!("{l:?}"),
        AttrValue::Tensor(t) => format!("<{}{}>", t.desc().dtype, t.shape()),
        other => format!("{other:?}"),
    }
}

/// Runs the inference of a prototype on a node.
///
/// # Errors
/// Fails if the inference fails.
pub fn infer(def: &OpDef, node: &Node<'_>) -> Result<Vec<TensorDesc>> {
    (def.infer)(&InferCtx { node: *node })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pass::{FnPass, PassLevel, PassStage};

    fn sample() -> TestGraph {
        let mut g = TestGraph::new();
        let x = g.input("x", DType::F32, &[2]);
        let a = g.add("Abs", "a", &[x]).value();
        let b = g.add("Abs", "b", &[a]).value();
        let c = g.add("Neg", "c", &[b]).value();
        g.returns(&[c]);
        g
    }
    fn pass(run: fn(&Graph<'_>, &mut Patch) -> Result<()>) -> FnPass {
        FnPass { name: "P", stage: PassStage::AFTER_INFER_SHAPE, level: PassLevel::O1, help: "", run }
    }

    #[test]
    fn edits_are_applied_whole_or_not_at_all() {
        let mut g = sample();
        let twice = pass(|graph, patch| {
            for outer in graph.nodes_of(&["Abs"]) {
                if let Some(inner) = outer.input(0).filter(|v| graph.node(v.node).op() == "Abs") {
                    patch.replace_uses(outer.value(0), inner);
                    patch.remove(outer.id());
                }
            }
            Ok(())
        });
        assert_eq!(g.run_pass(&twice).ok(), Some(true));
        assert_eq!(g.to_string(), "%x = Data() : f32[2]\n%a = Abs(%x) : f32[2]\n%c = Neg(%a) : f32[2]\nreturn %c\n");
        assert_eq!(g.run_pass(&twice).ok(), Some(false));
        assert_eq!(g.graph().users(g.node("a").value(0)).len(), 1);
        let before = g.to_string();
        let orphan = pass(|g, p| {
            p.remove(g.nodes().next().expect("a node").id());
            Ok(())
        });
        let unknown = pass(|_, p| {
            p.remove(NodeId(99));
            Ok(())
        });
        let cycle = pass(|g, p| {
            let (a, c) = (g.nodes().nth(1).expect("a"), g.nodes().nth(2).expect("c"));
            p.set_input(a.id(), 0, c.value(0));
            Ok(())
        });
        for (broken, words) in [(orphan, "would read"), (unknown, "n99"), (cycle, "cycle")] {
            let e = g.run_pass(&broken).expect_err("refused");
            assert!(e.to_string().contains(words), "{e}");
            assert_eq!(g.to_string(), before);
        }
    }

    #[test]
    fn new_nodes_stand_behind_what_they_read() {
        let mut g = sample();
        let insert = pass(|graph, patch| {
            let a = graph.nodes().nth(1).expect("a");
            let relu = patch.add("Relu", "r", &[a.value(0)], a.outputs().to_vec(), AttrMap::default());
            patch.set_input(graph.nodes().nth(2).expect("b").id(), 0, ValueRef::new(relu, 0));
            Ok(())
        });
        g.run_pass(&insert).expect("it fits");
        let ops: Vec<&str> = g.graph().nodes().map(|n| n.op()).collect();
        assert_eq!(ops, ["Data", "Abs", "Relu", "Abs", "Neg"]);
    }
}
