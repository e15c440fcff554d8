//! The old state of everything that a patch changes, used to restore the model when the patch is
//! refused.
use super::attrs::NodeAttrs;
use super::{Control, Graph, Inputs, Model, Node, Places, Readers};
use ge_plugin_api::types::{AttrMap, Key, NodeId, TensorDesc};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers of the last journals that saved this node's edges and its content. A node is saved once
/// for each patch and records this itself.
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

/// Everything of a node except its edges.
struct Content {
    op: Key,
    name: Box<str>,
    outputs: Vec<TensorDesc>,
    attrs: NodeAttrs,
}

/// Old state of everything that one patch touches.
pub(super) struct Journal {
    /// Nothing is saved and the patch cannot be undone; sessions use this.
    pub(super) forget: bool,
    /// Number of graphs in the model before the patch.
    pub(super) graphs: usize,
    /// Nodes, each once, in order of first change; new nodes are listed only in sessions.
    pub(super) touched: Vec<(usize, NodeId)>,
    pub(super) removed_graphs: Vec<(usize, Graph)>,
    pub(super) orders: Vec<(usize, Vec<NodeId>)>,
    /// Number that no other patch of any model has.
    number: u64,
    links: Vec<(usize, NodeId, Links)>,
    contents: Vec<(usize, NodeId, Content)>,
    lens: BTreeMap<usize, (usize, usize)>,
    attrs: BTreeMap<usize, AttrMap>,
}

impl Journal {
    /// Makes a journal for a patch of a model with `graphs` graphs.
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
    /// Makes a journal that keeps only the list of touched nodes.
    pub(super) fn forgetful(graphs: usize) -> Journal {
        Journal { forget: true, ..Journal::new(graphs) }
    }

    /// Whether it has recorded anything about this graph or a later one.
    pub(super) fn knows_from(&self, graph: usize) -> bool {
        self.touched.iter().any(|(g, _)| *g >= graph) || self.lens.range(graph..).next().is_some()
    }

    /// Marks of a node that the patch adds. Nothing needs saving, because rolling back truncates
    /// the node table.
    pub(super) fn of_new_node(&self) -> Kept {
        if self.forget { Kept::default() } else { Kept { links: self.number, content: self.number } }
    }
    /// Saves the edges of a node before they change.
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
    /// Saves operator, name, descriptors and attributes of a node before one of them changes.
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
    /// Saves the content of a removed node; its edges have been saved already.
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
    /// Saves the length of a graph's node table before it changes.
    pub(super) fn keep_len(&mut self, gi: usize, nodes: usize, live: usize) {
        self.lens.entry(gi).or_insert((nodes, live));
    }
    /// Whether the patch itself has added a node.
    pub(super) fn added(&self, gi: usize, id: NodeId) -> bool {
        gi >= self.graphs || self.lens.get(&gi).is_some_and(|(nodes, _)| id.index() >= *nodes)
    }
    /// Saves the attributes of a graph before they change.
    pub(super) fn keep_attrs(&mut self, gi: usize, attrs: &AttrMap) {
        self.attrs.entry(gi).or_insert_with(|| attrs.clone());
    }
}

impl Model {
    /// Restores the model as it was before the patch.
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
