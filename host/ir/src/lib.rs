//! The graph IR: nodes, values, attributes, patches, order, views for plugins, text form and
//! verifier.
//!
//! What a graph means:
//! - A **value** is one output of one node. A node has an ordered list of input values; an absent
//!   optional input is [`ValueRef::ABSENT`]. A control edge orders two nodes without passing a
//!   value.
//! - The **order** of a graph is a topological order of its data and control edges; nodes that the
//!   edges leave unordered keep the order of the text. Planners that use a single stream take
//!   "before" to mean this order.
//! - Inputs of a graph are `Data` nodes with their `index`; its outputs are the inputs of its one
//!   `NetOutput` node.
//! - A **subgraph** belongs to the node that names it in an attribute and sees only its own Data
//!   inputs.
//! - A constant is a `Const` node whose `value` holds the bytes once; clones share them.
//! - Ids are assigned in increasing order and never reused while the graph lives;
//!   [`Graph::compact`] renumbers the nodes in topological order.
//! - All structural edits go through [`Model::apply`], which applies a patch completely or not at
//!   all.
#![forbid(unsafe_code)]

/// Graphs, nodes, patches and order.
pub mod graph;
/// The view of a graph that plugins get.
pub mod view;
/// The text form of the IR (`.ge`).
pub mod text;
/// The verifier.
pub mod verify;
/// A builder for graphs made in Rust code.
pub mod builder;

pub use ge_plugin_api::types::{
    Attr, AttrMap, AttrValue, Blob, ConstData, ConstTensor, DType, Dim, Format, Key, NodeId, Shape, TensorDesc, Use,
    ValueRef,
};
pub use graph::{EditError, EditSession, Graph, Model, Node, NodeMap};
