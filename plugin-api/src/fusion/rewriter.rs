//! `SubgraphRewriter`: replaces a match with other nodes, in one recorded patch: it checks that
//! this is allowed (CanFuse), records the edits and reports the replacement (ReportFuse).
use super::inspector::{FuseInspector, ORIGINALS, PASS_NAME, border};
use super::{Match, Verdict};
use crate::patch::{Edit, NewNode, Patch};
use crate::types::{AttrMap, AttrValue, ConstTensor, Key, NodeId, NumberMap, NumberSet, TensorDesc, ValueRef};
use crate::view::{Graph, Node};
use core::cell::RefCell;
use std::collections::HashSet;

/// What is to be replaced: nodes in topological order, and those of their values that are read
/// outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Boundary {
    /// Operators, in topological order.
    pub nodes: Vec<NodeId>,
    /// The values read outside; each of them gets a replacement.
    pub outputs: Vec<ValueRef>,
}

impl From<&Match<'_>> for Boundary {
    fn from(m: &Match<'_>) -> Boundary {
        Boundary { nodes: m.nodes().to_vec(), outputs: m.outputs().to_vec() }
    }
}

/// The nodes that replace a match, while they are being made. See
/// [`PatternFusion`](super::PatternFusion) for an example.
pub struct Replacement<'g> {
    graph: Graph<'g>,
    first: u32,
    drafts: RefCell<Vec<NewNode>>,
}

impl<'g> Replacement<'g> {
    /// The graph as it was before the pass.
    pub fn graph(&self) -> Graph<'g> {
        self.graph
    }
    /// Adds an operator. An output without a description is inferred, unless it replaces a value,
    /// whose descriptor it then gets.
    pub fn op(&self, op: &str, inputs: impl IntoIterator<Item = ValueRef>) -> Made<'_> {
        let mut inputs: Vec<ValueRef> = inputs.into_iter().collect();
        while inputs.last().is_some_and(|v| v.is_absent()) {
            inputs.pop();
        }
        let mut drafts = self.drafts.borrow_mut();
        let at = drafts.len();
        drafts.push(NewNode {
            id: NodeId(self.first + at as u32),
            op: Key::new(op),
            name: Default::default(),
            inputs: inputs.into(),
            controls: Default::default(),
            outputs: vec![TensorDesc::unknown()].into(),
            attrs: AttrMap::default(),
        });
        Made { drafts: &self.drafts, at }
    }
    /// Adds a constant.
    pub fn constant(&self, tensor: ConstTensor) -> ValueRef {
        let made = self.op("Const", []).desc(0, tensor.desc()).attr("value", tensor);
        made.value(0)
    }
}

/// A new operator that can be described further.
#[derive(Clone, Copy)]
pub struct Made<'r> {
    drafts: &'r RefCell<Vec<NewNode>>,
    at: usize,
}

impl Made<'_> {
    fn edit(self, f: impl FnOnce(&mut NewNode)) -> Self {
        if let Some(d) = self.drafts.borrow_mut().get_mut(self.at) {
            f(d);
        }
        self
    }
    /// Sets an attribute.
    pub fn attr(self, key: &str, value: impl Into<AttrValue>) -> Self {
        self.edit(|d| d.attrs.set(key, value))
    }
    /// Copies a node's attributes, except private ones (their names begin with `_`).
    pub fn attrs_of(self, node: &Node<'_>) -> Self {
        self.edit(|d| {
            for a in node.attrs().iter().filter(|a| !a.key.as_str().starts_with('_')) {
                d.attrs.set(a.key, a.value.clone());
            }
        })
    }
    /// Sets the descriptor of an output.
    pub fn desc(self, k: u32, desc: TensorDesc) -> Self {
        self.edit(|d| {
            let k = k as usize;
            if d.outputs.len() <= k {
                d.outputs.resize(k + 1, TensorDesc::unknown());
            }
            d.outputs[k] = desc;
        })
    }
    /// The value of output `k`.
    pub fn value(self, k: u32) -> ValueRef {
        let mut drafts = self.drafts.borrow_mut();
        let Some(d) = drafts.get_mut(self.at) else { return ValueRef::ABSENT };
        if d.outputs.len() <= k as usize {
            d.outputs.resize(k as usize + 1, TensorDesc::unknown());
        }
        ValueRef::new(d.id, k)
    }
}

impl From<Made<'_>> for ValueRef {
    fn from(m: Made<'_>) -> ValueRef {
        m.value(0)
    }
}

/// Rewrites one graph for one pass, one match after the other.
pub struct SubgraphRewriter<'g, 'p> {
    graph: Graph<'g>,
    patch: &'p mut Patch,
    pass: String,
    inspector: FuseInspector<'g>,
    forward: NumberMap<ValueRef, ValueRef>,
    gone: NumberSet<NodeId>,
    fired: u64,
}

impl<'g, 'p> SubgraphRewriter<'g, 'p> {
    /// A rewriter for the named pass on a graph; edits are recorded in `patch`.
    pub fn new(pass: &str, graph: &Graph<'g>, patch: &'p mut Patch) -> Self {
        SubgraphRewriter {
            graph: *graph,
            patch,
            pass: pass.to_owned(),
            inspector: FuseInspector::new(graph),
            forward: NumberMap::default(),
            gone: NumberSet::default(),
            fired: 0,
        }
    }
    /// Number of replacements made so far.
    pub fn fired(&self) -> u64 {
        self.fired
    }
    /// Whether a node has already been replaced.
    pub fn is_gone(&self, id: NodeId) -> bool {
        self.gone.contains(&id)
    }
    /// Reports why a node was left as it is.
    pub fn refuse(&mut self, node: NodeId, why: &str) {
        self.inspector.refuse(&self.pass, node, why, self.patch);
    }

    /// Replaces the nodes in `b` with what `make` makes: one value for each output of `b`, in
    /// order. A value may be an existing one; if there is no new node at all, the nodes are only
    /// deleted. If the replacement is not possible, only the reason is recorded.
    ///
    /// Returns whether the nodes were replaced.
    pub fn replace(&mut self, b: &Boundary, make: impl FnOnce(&Replacement<'g>) -> Verdict<Vec<ValueRef>>) -> bool {
        let Some(root) = b.outputs.first().map(|v| v.node) else { return false };
        match self.try_replace(b, make) {
            Ok(()) => true,
            Err(why) => {
                self.refuse(root, &why);
                false
            }
        }
    }

    fn try_replace(&mut self, b: &Boundary, make: impl FnOnce(&Replacement<'g>) -> Verdict<Vec<ValueRef>>) -> Verdict {
        if let Some(n) = b.nodes.iter().find(|n| self.gone.contains(n)) {
            return Err(format!("`{}` is part of another fusion", self.graph.node(*n).name()));
        }
        border(&self.graph, &b.nodes, &b.outputs)?;
        self.inspector.can_fuse(&b.nodes)?;
        let r = Replacement { graph: self.graph, first: self.patch.next_id().0, drafts: RefCell::default() };
        let values = make(&r)?;
        let mut drafts = r.drafts.into_inner();
        if values.len() != b.outputs.len() {
            return Err(format!("the replacement has {} outputs, the pattern {}", values.len(), b.outputs.len()));
        }
        let old: Vec<Node<'g>> = b.nodes.iter().map(|n| self.graph.node(*n)).collect();
        let first = self.patch.next_id().0;
        let mut finals = Vec::with_capacity(values.len());
        for (from, to) in b.outputs.iter().zip(values) {
            let to = self.resolve(to);
            if to.is_absent() || b.nodes.contains(&to.node) {
                return Err("the replacement gives a value of a node that is replaced".into());
            }
            let draft = to.node.0.checked_sub(first).and_then(|i| drafts.get_mut(i as usize));
            if let (Some(d), Some(desc)) = (draft, self.graph.desc(*from)) {
                let o = &mut d.outputs[to.output as usize];
                if *o == TensorDesc::unknown() {
                    *o = TensorDesc { attrs: AttrMap::default(), ..desc.clone() };
                }
            }
            finals.push((*from, to));
        }
        for v in drafts.iter().flat_map(|d| d.inputs.iter()).filter(|v| !v.is_absent()) {
            let old = self.resolve(*v).node;
            if b.nodes.contains(&old) {
                return Err(format!("the replacement reads `{}`, which it replaces", self.graph.node(old).name()));
            }
        }
        let originals = originals(&old);
        let passes = self.passes(&old);
        let constant = Key::new("Const");
        let operators: Vec<NodeId> = drafts.iter().filter(|d| d.op != constant).map(|d| d.id).collect();
        for d in &mut drafts {
            d.inputs = d.inputs.iter().map(|v| self.resolve(*v)).collect::<Vec<_>>().into();
            if operators.contains(&d.id) {
                for a in old.first().map_or(&[][..], |n| n.attrs()) {
                    if self.inspector.must_agree(a.key) {
                        d.attrs.set(a.key, a.value.clone());
                    }
                }
                d.attrs.set(ORIGINALS, originals.clone());
                d.attrs.set(PASS_NAME, passes.clone());
            }
        }
        self.record(b, drafts, &finals, &operators);
        Ok(())
    }

    fn record(&mut self, b: &Boundary, drafts: Vec<NewNode>, finals: &[(ValueRef, ValueRef)], operators: &[NodeId]) {
        let next = NodeId(self.patch.next_id().0 + drafts.len() as u32);
        self.patch.append(drafts.into_iter().map(Edit::AddNode).collect(), next);
        for (from, to) in finals {
            self.patch.replace_uses(*from, *to);
        }
        for n in b.nodes.iter().rev() {
            self.patch.remove(*n);
        }
        // A new node that replaces an old node's output takes over its name; other new nodes get
        // the first one's name with a number.
        let mut named: Vec<NodeId> = Vec::new();
        let mut after = Vec::new();
        for (from, to) in finals {
            if operators.contains(&to.node) && !named.contains(&to.node) {
                let name = self.graph.node(from.node).name();
                if !after.iter().any(|a| a == name) {
                    self.patch.push(Edit::SetName(to.node, name.into()));
                    after.push(name.to_owned());
                    named.push(to.node);
                }
            }
        }
        self.inspector.report(&self.pass, &b.nodes, &after, self.patch);
        self.forward.extend(finals.iter().copied());
        self.gone.extend(b.nodes.iter().copied());
        self.fired += 1;
    }

    /// The value that stands for an old value after the replacements so far.
    pub fn resolve(&self, mut v: ValueRef) -> ValueRef {
        while let Some(next) = self.forward.get(&v) {
            v = *next;
        }
        v
    }

    fn passes(&self, old: &[Node<'_>]) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for name in old.iter().filter_map(|n| n.attr(PASS_NAME)?.as_strs()).flatten() {
            if !all.iter().any(|a| a == name) {
                all.push(name.to_owned());
            }
        }
        all.retain(|a| *a != self.pass);
        all.push(self.pass.clone());
        all
    }
}

/// Names of the nodes of the original graph: those that a node already stands for, or else its own
/// name.
fn originals(nodes: &[Node<'_>]) -> Vec<String> {
    let mut names: Vec<&str> = Vec::with_capacity(nodes.len());
    for n in nodes {
        match n.attr(ORIGINALS).and_then(|a| a.as_strs()) {
            Some(old) => names.extend(old),
            None => names.push(n.name()),
        }
    }
    let mut seen = HashSet::with_capacity(names.len());
    names.retain(|n| seen.insert(*n));
    names.into_iter().map(str::to_owned).collect()
}
