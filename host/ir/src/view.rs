//! The view of a model that plugins get: one context for each graph, behind the functions of
//! `ge_plugin_api::view`.
use crate::graph::{Graph, Model};
use ge_plugin_api::types::{Attr, Key, NodeId, Use, ValueRef};
use ge_plugin_api::view::NO_TYPE;
use ge_plugin_api::view::host::{GraphSource, NodeParts, view};
use std::cell::OnceCell;
use std::sync::OnceLock;

/// What the host knows about operator types beyond their names: the flags of their prototypes.
pub trait OpFlags {
    /// Flags of a type ([`ge_plugin_api::ops::flags`]); 0 for types without a prototype.
    fn op_flags(&self, op: Key) -> u64;
}
/// Stands for an empty set of prototypes: every type has flags 0.
impl OpFlags for () {
    fn op_flags(&self, _: Key) -> u64 {
        0
    }
}

/// One graph of a model, lent to plugins. [`GraphContext::graph`] gives the view; the context must
/// outlive it.
pub struct GraphContext<'m> {
    model: &'m Model,
    index: usize,
    ops: &'m dyn OpFlags,
    /// Contexts of all graphs, made when a plugin first asks for another graph.
    others: OnceCell<Vec<GraphContext<'m>>>,
    /// An index from an earlier context of the same graph; if absent, `found` is used.
    given: Option<&'m OpIndex>,
    found: OpIndex,
}

/// The nodes of each operator type in graph order, and the type of each node. The index is filled
/// when a plugin first asks for it. It stays valid as long as the graph does not change, and any
/// number of threads may use it.
#[derive(Debug, Default)]
pub struct OpIndex(OnceLock<ByOp>);

#[derive(Debug, Default)]
struct ByOp {
    nodes: Vec<Vec<NodeId>>,
    types: Vec<Key>,
}

impl OpIndex {
    fn filled(&self, g: &Graph) -> &ByOp {
        self.0.get_or_init(|| {
            let mut all = ByOp { nodes: Vec::new(), types: vec![NO_TYPE; g.id_bound()] };
            for n in g.nodes() {
                let i = n.op_key().index() as usize;
                if all.nodes.len() <= i {
                    all.nodes.resize_with(i + 1, Vec::new);
                }
                all.nodes[i].push(n.id());
                all.types[n.id().index()] = n.op_key();
            }
            all
        })
    }
    fn of(&self, g: &Graph, op: Key) -> &[NodeId] {
        self.filled(g).nodes.get(op.index() as usize).map_or(&[], Vec::as_slice)
    }
}

impl<'m> GraphContext<'m> {
    /// Makes a context for graph `index` of a model (0 is the root); `ops` gives the flags of the
    /// operators.
    pub fn new(model: &'m Model, index: usize, ops: &'m dyn OpFlags) -> GraphContext<'m> {
        GraphContext { model, index, ops, others: OnceCell::new(), given: None, found: OpIndex::default() }
    }
    /// Uses an index that was filled earlier for the same graph.
    pub fn indexed(self, by_op: &'m OpIndex) -> GraphContext<'m> {
        GraphContext { given: Some(by_op), ..self }
    }
    /// Returns the view to lend to plugins.
    pub fn graph(&self) -> ge_plugin_api::view::Graph<'_> {
        view(self)
    }
    fn own(&self) -> &'m Graph {
        &self.model.graphs()[self.index]
    }
}

impl GraphSource for GraphContext<'_> {
    fn order(&self) -> &[NodeId] {
        self.own().order()
    }
    fn node(&self, id: NodeId) -> Option<NodeParts<'_>> {
        let n = self.own().get(id)?;
        Some(NodeParts {
            op: n.op_key(),
            name: n.name(),
            inputs: n.inputs(),
            controls: n.controls(),
            outputs: n.outputs(),
            attrs: n.attrs().as_slice(),
        })
    }
    fn users(&self, value: ValueRef) -> &[Use] {
        self.own().users(value)
    }
    fn control_users(&self, node: NodeId) -> &[NodeId] {
        self.own().get(node).map_or(&[], |n| n.control_users())
    }
    fn name(&self) -> &str {
        self.own().name()
    }
    fn attrs(&self) -> &[Attr] {
        self.own().attrs().as_slice()
    }
    fn graph(&self, name: &str) -> Option<&Self> {
        let i = self.model.graph_index(name)?;
        self.others
            .get_or_init(|| {
                (0..self.model.graphs().len()).map(|k| GraphContext::new(self.model, k, self.ops)).collect()
            })
            .get(i)
    }
    fn next_id(&self) -> NodeId {
        self.own().next_id()
    }
    fn op_flags(&self, op: Key) -> u64 {
        self.ops.op_flags(op)
    }
    fn of_op(&self, op: Key) -> Option<&[NodeId]> {
        Some(self.given.unwrap_or(&self.found).of(self.own(), op))
    }
    fn op_types(&self) -> Option<&[Key]> {
        match self.given {
            Some(index) => Some(&index.filled(self.own()).types),
            // A plugin that looks at a few nodes should not pay for a list of all of them.
            None => self.found.0.get().map(|found| found.types.as_slice()),
        }
    }
}
