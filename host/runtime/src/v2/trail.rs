//! The record of a run: the plans that it used and the branches that it took, graph by graph.
use super::build::Round;
use super::positions::Lengths;
use ge_plugin_api::types::DType;
use std::sync::Arc;

/// The record of one graph.
#[derive(Default)]
pub(crate) struct Trail {
    /// Index of the graph.
    pub(crate) graph: usize,
    /// Its rounds, in order.
    pub(crate) rounds: Vec<Arc<Round>>,
    /// The lengths of its slices whose positions no plan is made for.
    pub(crate) lengths: Lengths,
    /// The branches that its nodes took.
    pub(crate) calls: Vec<Call>,
}

/// A branch that was taken, or the root graph of a run.
#[derive(Default)]
pub(crate) struct Call {
    /// The node that chose the branch.
    pub(crate) node: u32,
    /// Index of the branch among those of the node.
    pub(crate) branch: usize,
    /// Types and sizes of the branch's results; `None` for a result that is not a tensor.
    pub(crate) shown: Vec<Option<(DType, Arc<[u64]>)>>,
    /// The record of the branch.
    pub(crate) trail: Trail,
}
