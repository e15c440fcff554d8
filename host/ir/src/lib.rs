//! The graph: nodes, values, attributes, patches, order, views for plugins, text form and verifier.
//!
//! What a graph means:
//! - A **value** is one output of one node. A node reads values in order; an absent optional input
//!   is [`ValueRef::ABSENT`]. A control edge orders two nodes without a value.
//! - The **order** of a graph is a topological order of data and control edges; among nodes that
//!   the edges leave free the text's order stands. It is what "before" means to planners of one
//!   stream.
//! - Inputs of a graph are `Data` nodes with their `index`; its outputs are the inputs of its one
//!   `NetOutput` node.
//! - A **subgraph** belongs to the node that names it in an attribute and sees only its own Data
//!   inputs.
//! - A constant is a `Const` node whose `value` holds the bytes once; clones share them.
//! - Ids are handed out in order and never again while the graph lives; [`Graph::compact`] makes
//!   ids equal to the order.
//! - All edits go through [`Model::apply`]: whole or not at all.
#![forbid(unsafe_code)]

/// Graphs, nodes, patches and order.
pub mod graph;
/// A graph as plugins see it.
pub mod view;
/// The text form.
pub mod text;
/// The verifier.
pub mod verify;
/// Graphs built in Rust.
pub mod builder;

pub use ge_plugin_api::types::{
    Attr, AttrMap, AttrValue, Blob, ConstData, ConstTensor, DType, Dim, Format, Key, NodeId, Shape, TensorDesc, Use,
    ValueRef,
};
pub use graph::{EditError, EditSession, Graph, Model, Node, NodeMap};
