//! What a run has done: the plans that it went by and the branches that it took, graph by graph.
use super::build::Round;
use ge_plugin_api::types::DType;
use std::sync::Arc;

/// A graph that was run.
#[derive(Default)]
pub(crate) struct Trail {
    /// Its number.
    pub(crate) graph: usize,
    /// Its rounds, in order.
    pub(crate) rounds: Vec<Arc<Round>>,
    /// The branches that its nodes took.
    pub(crate) calls: Vec<Call>,
}

/// A branch that was taken, or the graph that a run begins with.
#[derive(Default)]
pub(crate) struct Call {
    /// The node that chose it.
    pub(crate) node: u32,
    /// Its number among those of the node.
    pub(crate) branch: usize,
    /// Types and sizes of what it gave; None: it is no tensor.
    pub(crate) shown: Vec<Option<(DType, Arc<[u64]>)>>,
    /// What was done in it.
    pub(crate) trail: Trail,
}
