//! `Rewriter`: a patch over one graph that remembers what it has already replaced and removed, so
//! that a pass may walk the old graph in order and rewrite chains in one patch.
use ge_ir::{ConstTensor, Dim, Graph, Node, NodeId, TensorDesc, ValueRef};
use ge_plugin_api::patch::{Edit, Patch};
use ge_plugin_api::types::{AttrMap, NumberMap, NumberSet};

/// Recorded edits of one graph, with forwarding.
pub struct Rewriter<'g> {
    graph: &'g Graph,
    /// The patch, for edits beyond those below.
    pub patch: Patch,
    forward: NumberMap<ValueRef, ValueRef>,
    gone: NumberSet<NodeId>,
    changes: u64,
    constants: Vec<(NodeId, ConstTensor)>,
    again: Vec<NodeId>,
}

/// What a node pass has recorded at one node.
pub struct Rewrite {
    /// The patch.
    pub edits: Vec<Edit>,
    /// Nodes that become constants.
    pub constants: Vec<(NodeId, ConstTensor)>,
    /// Nodes to be looked at again.
    pub again: Vec<NodeId>,
}

impl Rewrite {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty() && self.constants.is_empty() && self.again.is_empty()
    }
}

impl<'g> Rewriter<'g> {
    /// For a graph.
    pub fn new(graph: &'g Graph) -> Rewriter<'g> {
        Rewriter {
            graph,
            patch: Patch::starting_at(graph.next_id()),
            forward: NumberMap::default(),
            gone: NumberSet::default(),
            changes: 0,
            constants: Vec::new(),
            again: Vec::new(),
        }
    }
    /// The graph as it was.
    pub fn graph(&self) -> &'g Graph {
        self.graph
    }
    /// Where a value of the old graph is found now.
    pub fn resolve(&self, mut v: ValueRef) -> ValueRef {
        while let Some(&next) = self.forward.get(&v) {
            v = next;
        }
        v
    }
    /// Input `i` of a node, as it is now.
    pub fn input(&self, n: &Node, i: usize) -> Option<ValueRef> {
        n.input(i).map(|v| self.resolve(v))
    }
    /// The old node that produces input `i` now; None if it is absent or new.
    pub fn producer(&self, n: &Node, i: usize) -> Option<&'g Node> {
        self.graph.get(self.input(n, i)?.node)
    }
    /// Whether a node is removed already.
    pub fn is_gone(&self, id: NodeId) -> bool {
        self.gone.contains(&id)
    }
    /// Number of rewrites.
    pub fn changes(&self) -> u64 {
        self.changes
    }
    /// Counts a rewrite made through `patch`.
    pub fn count(&mut self) {
        self.changes += 1;
    }

    /// Removes a node with one output whose readers read `to` instead. The order that its control
    /// edges stood for is kept.
    pub fn bypass(&mut self, n: &Node, to: ValueRef) {
        let to = self.resolve(to);
        let own = n.value(0);
        // A control input that is removed already stands for what took its place.
        let before: Vec<NodeId> = n.controls().iter().map(|c| self.resolve(ValueRef::new(*c, 0)).node).collect();
        let followers: Vec<NodeId> = n.control_users().iter().copied().filter(|u| !self.is_gone(*u)).collect();
        let mut after: Vec<NodeId> = n.uses(0).iter().map(|u| u.node).filter(|u| !self.is_gone(*u)).collect();
        after.extend_from_slice(&followers);
        after.sort_unstable();
        after.dedup();
        for c in before.into_iter().filter(|c| !self.gone.contains(c)) {
            for r in &after {
                self.patch.push(Edit::AddControl(c, *r));
            }
        }
        for u in followers {
            self.patch.push(Edit::AddControl(to.node, u));
        }
        self.patch.replace_uses(own, to);
        self.patch.remove(n.id());
        self.forward.insert(own, to);
        self.gone.insert(n.id());
        self.changes += 1;
    }

    /// Removes a node whose readers read the same outputs of an equal one.
    pub fn replace_all(&mut self, n: &Node, twin: &Node) {
        for u in n.control_users().iter().filter(|u| !self.gone.contains(*u)) {
            self.patch.push(Edit::AddControl(twin.id(), *u));
        }
        for k in 0..n.outputs().len() as u32 {
            self.patch.replace_uses(n.value(k), twin.value(k));
            self.forward.insert(n.value(k), twin.value(k));
        }
        self.patch.remove(n.id());
        self.gone.insert(n.id());
        self.changes += 1;
    }

    /// Removes a node without readers; what waited for it waits for what it waited for.
    pub fn drop_dead_end(&mut self, n: &Node) {
        for c in n.controls() {
            for u in n.control_users() {
                self.patch.push(Edit::AddControl(*c, *u));
            }
        }
        self.remove(n.id());
    }

    /// Removes a node that nothing reads.
    pub fn remove(&mut self, id: NodeId) {
        self.patch.remove(id);
        self.gone.insert(id);
        self.changes += 1;
    }

    /// Puts constants in place of a node's outputs: it keeps its name, further ones are `name_1`
    /// and so on.
    pub fn fold(&mut self, n: &Node, outputs: Vec<ConstTensor>) {
        self.changes += 1;
        match <[ConstTensor; 1]>::try_from(outputs) {
            Ok([only]) if n.outputs().len() == 1 && n.controls().is_empty() => self.constants.push((n.id(), only)),
            Ok([only]) => self.fold_all(n, vec![only]),
            Err(outputs) => self.fold_all(n, outputs),
        }
    }
    fn fold_all(&mut self, n: &Node, outputs: Vec<ConstTensor>) {
        let name = n.name();
        self.patch.push(Edit::SetName(n.id(), format!("{name}__folded").into()));
        let mut first = None;
        for (k, t) in outputs.into_iter().enumerate() {
            let mut attrs = AttrMap::default();
            let desc = t.desc();
            attrs.set("value", t);
            let own = if k == 0 { name.to_owned() } else { format!("{name}_{k}") };
            let c = self.patch.add("Const", &own, &[], vec![desc], attrs);
            self.patch.replace_uses(n.value(k as u32), ValueRef::new(c, 0));
            first.get_or_insert(c);
        }
        // The order that it stood for is kept: what waited for it waits for what it waited for.
        for c in n.controls() {
            for u in n
                .control_users()
                .iter()
                .chain(n.outputs().iter().enumerate().flat_map(|(k, _)| n.uses(k)).map(|u| &u.node))
            {
                self.patch.push(Edit::AddControl(*c, *u));
            }
        }
        self.patch.remove(n.id());
        self.gone.insert(n.id());
    }
    /// Asks for another visit of a node, where nothing of it changes (re-pass).
    pub fn again(&mut self, id: NodeId) {
        self.again.push(id);
    }

    /// What a node pass recorded; counts go to `cx`.
    pub fn into_rewrite(self, cx: &mut super::PassContext<'_>) -> Rewrite {
        cx.changes += self.changes;
        Rewrite { edits: self.patch.into_edits().into(), constants: self.constants, again: self.again }
    }

    /// The edits; counts go to `cx`.
    pub fn finish(self, cx: &mut super::PassContext<'_>) -> Vec<Edit> {
        cx.changes += self.changes;
        self.patch.into_edits().into()
    }
}

/// Whether a reader of one value may read the other without seeing a difference: type, format, and
/// equal shapes whose sizes are known or have names.
pub fn same_desc(a: &TensorDesc, b: &TensorDesc) -> bool {
    a.dtype == b.dtype
        && a.format == b.format
        && a.origin_format() == b.origin_format()
        && !a.shape.is_unranked()
        && !a.shape.dims().contains(&Dim::UNKNOWN)
        && a.shape == b.shape
}

/// Removes an operator that gives input 0 as it is; for passes that name such operators.
pub fn step_over(
    cx: &mut super::PassContext<'_>,
    at: &super::declare::At<'_>,
    r: &mut Rewriter<'_>,
) -> crate::error::Result<()> {
    let (Some(x), Some(own)) = (at.n.input(0), at.n.outputs().first()) else { return Ok(()) };
    match at.g.desc(x) {
        Some(d) if d.dtype == own.dtype || own.dtype == ge_ir::DType::UNKNOWN => r.bypass(at.n, x),
        Some(d) => cx.refuse(at.n.name(), format!("it gives {}, its input is {}", own.dtype, d.dtype)),
        None => {}
    }
    Ok(())
}
