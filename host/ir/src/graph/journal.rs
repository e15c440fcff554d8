//! What a patch changes, as it was before: to go back to when the patch is refused.
use super::attrs::NodeAttrs;
use super::{Control, Graph, Inputs, Model, Node, Places, Readers};
use ge_plugin_api::types::{AttrMap, Key, NodeId, TensorDesc};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// The journals that hold a node's edges and its content: a node is kept once a patch, and knows it
/// itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kept {
    links: u64,
    content: u64,
}

/// The edges of a node.
struct Links {
    inputs: Inputs,
    input_pos: Places,
    uses: Readers,
    control: Option<Box<Control>>,
}

/// All else of a node.
struct Content {
    op: Key,
    name: Box<str>,
    outputs: Vec<TensorDesc>,
    attrs: NodeAttrs,
}

/// Old state of what one patch touches.
pub(super) struct Journal {
    /// Nothing is kept: the patch cannot be undone (sessions).
    pub(super) forget: bool,
    /// Graphs of the model before the patch.
    pub(super) graphs: usize,
    /// Nodes, each once, in order of first change; new ones only in sessions.
    pub(super) touched: Vec<(usize, NodeId)>,
    pub(super) removed_graphs: Vec<(usize, Graph)>,
    pub(super) orders: Vec<(usize, Vec<NodeId>)>,
    /// Unlike that of any other patch of any model.
    number: u64,
    links: Vec<(usize, NodeId, Links)>,
    contents: Vec<(usize, NodeId, Content)>,
    lens: BTreeMap<usize, (usize, usize)>,
    attrs: BTreeMap<usize, AttrMap>,
}

impl Journal {
    /// For a patch of a model with so many graphs.
    pub(super) fn new(graphs: usize) -> Journal {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        Journal {
            forget: false,
            graphs,
            touched: Vec::new(),
            removed_graphs: Vec::new(),
            orders: Vec::new(),
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            links: Vec::new(),
            contents: Vec::new(),
            lens: BTreeMap::new(),
            attrs: BTreeMap::new(),
        }
    }
    /// One that keeps nothing but the list of what was touched.
    pub(super) fn forgetful(graphs: usize) -> Journal {
        Journal { forget: true, ..Journal::new(graphs) }
    }

    /// Whether it has seen a node of this graph or a later one.
    pub(super) fn knows_from(&self, graph: usize) -> bool {
        self.touched.iter().any(|(g, _)| *g >= graph) || self.lens.range(graph..).next().is_some()
    }

    /// Marks of a node that the patch adds: rolling back truncates it away.
    pub(super) fn of_new_node(&self) -> Kept {
        if self.forget { Kept::default() } else { Kept { links: self.number, content: self.number } }
    }
    /// Before the edges of a node change.
    pub(super) fn keep_links(&mut self, gi: usize, n: &mut Node) {
        if n.kept.links == self.number {
            return;
        }
        self.touch(gi, n);
        n.kept.links = self.number;
        if !self.forget {
            let old = Links {
                inputs: n.inputs.clone(),
                input_pos: n.input_pos.clone(),
                uses: n.uses.clone(),
                control: n.control.clone(),
            };
            self.links.push((gi, n.id, old));
        }
    }
    /// Before operator, name, descriptors or attributes of a node change.
    pub(super) fn keep_content(&mut self, gi: usize, n: &mut Node) {
        if n.kept.content == self.number {
            return;
        }
        self.touch(gi, n);
        n.kept.content = self.number;
        if !self.forget {
            let old = Content { op: n.op, name: n.name.clone(), outputs: n.outputs.clone(), attrs: n.attrs.clone() };
            self.contents.push((gi, n.id, old));
        }
    }
    /// A node that has gone, its edges kept before.
    pub(super) fn keep_removed(&mut self, gi: usize, n: Node) {
        if !self.forget && n.kept.content != self.number {
            let old = Content { op: n.op, name: n.name, outputs: n.outputs, attrs: n.attrs };
            self.contents.push((gi, n.id, old));
        }
    }
    fn touch(&mut self, gi: usize, n: &Node) {
        if n.kept.links != self.number && n.kept.content != self.number {
            self.touched.push((gi, n.id));
        }
    }
    /// Before the table of a graph's nodes changes.
    pub(super) fn keep_len(&mut self, gi: usize, nodes: usize, live: usize) {
        self.lens.entry(gi).or_insert((nodes, live));
    }
    /// Whether the patch itself has added a node.
    pub(super) fn added(&self, gi: usize, id: NodeId) -> bool {
        gi >= self.graphs || self.lens.get(&gi).is_some_and(|(nodes, _)| id.index() >= *nodes)
    }
    /// Before the attributes of a graph change.
    pub(super) fn keep_attrs(&mut self, gi: usize, attrs: &AttrMap) {
        self.attrs.entry(gi).or_insert_with(|| attrs.clone());
    }
}

impl Model {
    /// The model as it was before the patch.
    pub(super) fn roll_back(&mut self, j: Journal) {
        for (at, g) in j.removed_graphs.into_iter().rev() {
            self.graphs.insert(at, g);
        }
        self.graphs.truncate(j.graphs);
        self.graphs.iter_mut().for_each(|g| g.names = 0);
        for (g, id, old) in j.contents {
            let Some(slot) = self.graphs.get_mut(g).and_then(|g| g.nodes.get_mut(id.index())) else { continue };
            let Content { op, name, outputs, attrs } = old;
            match slot {
                Some(n) => (n.op, n.name, n.outputs, n.attrs) = (op, name, outputs, attrs),
                None => *slot = Some(Node::unlinked(id, op, name.into(), outputs, attrs)),
            }
        }
        for (g, id, old) in j.links {
            let slot = self.graphs.get_mut(g).and_then(|g| g.nodes.get_mut(id.index()));
            let Some(n) = slot.and_then(Option::as_mut) else { continue };
            let Links { inputs, input_pos, uses, control } = old;
            (n.inputs, n.input_pos, n.uses, n.control) = (inputs, input_pos, uses, control);
        }
        for (g, (len, live)) in j.lens {
            if let Some(g) = self.graphs.get_mut(g) {
                g.nodes.truncate(len);
                g.live = live;
            }
        }
        for (g, attrs) in j.attrs {
            if let Some(g) = self.graphs.get_mut(g) {
                g.attrs = attrs;
            }
        }
        for (g, order) in j.orders {
            if let Some(g) = self.graphs.get_mut(g) {
                g.order = order;
            }
        }
    }
}
