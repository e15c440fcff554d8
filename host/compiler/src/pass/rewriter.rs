//! `Rewriter`: a patch over one graph that remembers what it has already replaced and removed. A
//! pass can therefore walk the old graph in order and rewrite chains of nodes in one patch.
use ge_ir::{ConstTensor, Dim, Graph, Node, NodeId, TensorDesc, ValueRef};
use ge_plugin_api::patch::{Edit, Patch};
use ge_plugin_api::types::{AttrMap, NumberMap, NumberSet};

/// Recorded edits of one graph, with forwarding of replaced values.
pub struct Rewriter<'g> {
    graph: &'g Graph,
    /// The patch, for edits that the methods below do not offer.
    pub patch: Patch,
    forward: NumberMap<ValueRef, ValueRef>,
    gone: NumberSet<NodeId>,
    changes: u64,
    constants: Vec<(NodeId, ConstTensor)>,
    again: Vec<NodeId>,
}

/// What a node pass recorded at one node.
pub struct Rewrite {
    /// The edits of the patch.
    pub edits: Vec<Edit>,
    /// Nodes that become constants, with their values.
    pub constants: Vec<(NodeId, ConstTensor)>,
    /// Nodes to visit again.
    pub again: Vec<NodeId>,
}

impl Rewrite {
    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty() && self.constants.is_empty() && self.again.is_empty()
    }
}

impl<'g> Rewriter<'g> {
    /// Creates an empty rewriter for `graph`.
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
    /// The graph before the recorded edits.
    pub fn graph(&self) -> &'g Graph {
        self.graph
    }
    /// The value that now stands for value `v` of the old graph.
    pub fn resolve(&self, mut v: ValueRef) -> ValueRef {
        while let Some(&next) = self.forward.get(&v) {
            v = next;
        }
        v
    }
    /// Input `i` of a node after the recorded replacements.
    pub fn input(&self, n: &Node, i: usize) -> Option<ValueRef> {
        n.input(i).map(|v| self.resolve(v))
    }
    /// The node of the old graph that now produces input `i`; `None` if the input is absent or its
    /// producer is new.
    pub fn producer(&self, n: &Node, i: usize) -> Option<&'g Node> {
        self.graph.get(self.input(n, i)?.node)
    }
    /// Whether the node is already removed.
    pub fn is_gone(&self, id: NodeId) -> bool {
        self.gone.contains(&id)
    }
    /// Number of rewrites so far.
    pub fn changes(&self) -> u64 {
        self.changes
    }
    /// Counts a rewrite that was made through `patch` directly.
    pub fn count(&mut self) {
        self.changes += 1;
    }

    /// Removes a node with one output and makes its readers read `to` instead. The order that its
    /// control edges imposed is kept.
    pub fn bypass(&mut self, n: &Node, to: ValueRef) {
        let to = self.resolve(to);
        let own = n.value(0);
        // If a control input is already removed, the value that replaced it stands for it.
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

    /// Removes a node and makes its readers read the same outputs of the equal node `twin`.
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

    /// Removes a node without readers; nodes that waited for it now wait for what it waited for.
    pub fn drop_dead_end(&mut self, n: &Node) {
        for c in n.controls() {
            for u in n.control_users() {
                self.patch.push(Edit::AddControl(*c, *u));
            }
        }
        self.remove(n.id());
    }

    /// Removes a node that has no readers.
    pub fn remove(&mut self, id: NodeId) {
        self.patch.remove(id);
        self.gone.insert(id);
        self.changes += 1;
    }

    /// Replaces a node's outputs by constants. The first keeps the node's name; the others are
    /// named `name_1` and so on.
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
        // The order that the node imposed is kept: what waited for it now waits for what it waited
        // for.
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
    /// Asks for another visit of a node even if it does not change (re-pass).
    pub fn again(&mut self, id: NodeId) {
        self.again.push(id);
    }

    /// Returns what a node pass recorded; adds the number of changes to `cx`.
    pub fn into_rewrite(self, cx: &mut super::PassContext<'_>) -> Rewrite {
        cx.changes += self.changes;
        Rewrite { edits: self.patch.into_edits().into(), constants: self.constants, again: self.again }
    }

    /// Returns the edits; adds the number of changes to `cx`.
    pub fn finish(self, cx: &mut super::PassContext<'_>) -> Vec<Edit> {
        cx.changes += self.changes;
        self.patch.into_edits().into()
    }
}

/// Whether a reader of one value may read the other and see no difference: equal type, format and
/// shape, where every dimension is known or has a name.
pub fn same_desc(a: &TensorDesc, b: &TensorDesc) -> bool {
    a.dtype == b.dtype
        && a.format == b.format
        && a.origin_format() == b.origin_format()
        && !a.shape.is_unranked()
        && !a.shape.dims().contains(&Dim::UNKNOWN)
        && a.shape == b.shape
}

/// Removes an operator that passes input 0 through unchanged; for passes that name such operators.
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
