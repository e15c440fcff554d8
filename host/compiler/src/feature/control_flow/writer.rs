//! Writes a graph node by node, in the order in which its tasks will stand on the stream.
use crate::error::{CompileError, Result};
use ge_ir::{Graph, Key, NodeId, TensorDesc, ValueRef};
use ge_plugin_api::types::AttrMap;
use std::collections::HashSet;

/// The graph, and the names that are taken in it.
pub(super) struct Writer {
    pub(super) graph: Graph,
    names: HashSet<String>,
}

impl Writer {
    /// Creates an empty graph with the name and attributes of `old`. The names of the nodes of
    /// `old`, except `freed`, are reserved for these nodes.
    pub(super) fn like(old: &Graph, freed: &str) -> Writer {
        let mut graph = Graph::new(old.name());
        *graph.attrs_mut() = old.attrs().clone();
        let names = old.nodes().map(|n| n.name().to_owned()).filter(|n| n != freed).collect();
        Writer { graph, names }
    }

    /// Reserves a free name: `wish`, or else `prefix/wish`, with a number if that is taken too.
    pub(super) fn take(&mut self, prefix: &str, wish: &str) -> String {
        if self.names.insert(wish.to_owned()) {
            return wish.to_owned();
        }
        let base = format!("{prefix}/{wish}");
        let mut name = base.clone();
        let mut k = 1;
        while !self.names.insert(name.clone()) {
            name = format!("{base}_{k}");
            k += 1;
        }
        name
    }

    /// Appends a node under a name that was reserved before. Fails if an input does not stand
    /// before it.
    pub(super) fn push(
        &mut self,
        op: Key,
        name: String,
        inputs: Vec<ValueRef>,
        controls: Vec<NodeId>,
        outputs: Vec<TensorDesc>,
        attrs: AttrMap,
    ) -> Result<NodeId> {
        let told = name.clone();
        self.graph
            .push_node(op, name, inputs, controls, outputs, attrs)
            .ok_or_else(|| CompileError::unordered("conflict", &told))
    }

    /// Like [`Self::push`], with the operator type as text.
    pub(super) fn add(
        &mut self,
        op: &str,
        name: String,
        inputs: Vec<ValueRef>,
        controls: Vec<NodeId>,
        outputs: Vec<TensorDesc>,
        attrs: AttrMap,
    ) -> Result<NodeId> {
        self.push(Key::new(op), name, inputs, controls, outputs, attrs)
    }

    /// The descriptor of a value. Fails if there is none.
    pub(super) fn desc(&self, v: ValueRef) -> Result<TensorDesc> {
        self.graph.desc(v).cloned().ok_or_else(|| CompileError::internal("conflict", "a value has no descriptor"))
    }
}
