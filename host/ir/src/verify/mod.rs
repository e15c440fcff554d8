//! The verifier: what holds of every graph that stages and passes see. Iterative, near-linear in
//! nodes, edges and attributes.
//!
//! - **V1** every input and control input is an output, or a node, of the same graph.
//! - **V2** the order holds every node once, and each node after all that it reads or follows:
//!   defined before use.
//! - **V3** data and control edges make no cycle.
//! - **V4** node names are not empty and differ within a graph (`NameScope::Model`: within the
//!   model).
//! - **V5** a graph has exactly one
//!   `NetOutput`, nothing reads or follows it, and it has no outputs but a plain copy of its inputs' descriptors. A graph with `End`
//!   or `PlaceHolder` (one piece of a partition) may have none.
//! - **V6** the indices of `Data`, and of `RefData` and `AippData` that have one, are 0 to n-1,
//!   each once; a piece of a partition may have gaps.
//! - **V7** a node has as many inputs as its operator takes, and every required one.
//! - **V8** a node has as many outputs as its operator gives.
//! - **V9** types are among those that the operator allows; parameters of one type group have one
//!   type.
//! - **V10** an attribute that the operator declares has a value of its kind (a whole number counts
//!   as a real one, 0 and 1 count as truth values, an empty list is of every kind). Attributes that
//!   it does not declare are free.
//! - **V11** attributes that must be given are given.
//! - **V12** attribute values lie in their range and among their choices.
//! - **V13** an attribute names only graphs of the model.
//! - **V14** a graph is named once at most, never the root, and graphs do not contain each other in
//!   a circle.
//! - **V15** the inputs and outputs of a subgraph fit the node that names it, in number and type.
//! - **V16** the operator type is known (`UnknownOps::Allow` turns it off).
//! - **V17** a constant has its value (`Const`, `Constant`), and its descriptor says the value's
//!   type and shape.
//! - **V18** `Data`, `RefData`, `AippData`, `Variable`,
//!   `FileConstant` have one output; sources but `Data` have no inputs.
mod operators;
mod structure;
mod subgraphs;
#[cfg(test)]
mod tests;

use crate::graph::{Graph, Model, Node};
use ge_plugin_api::diagnostic::Diagnostic;
use ge_plugin_api::ops::OpProto;
use ge_plugin_api::types::{NodeId, TensorDesc};

/// So many faults are told of one model.
pub const FAULT_LIMIT: usize = 1000;

/// Where prototypes come from.
pub trait OpTable {
    /// The prototype of an operator type.
    fn proto(&self, op: &str) -> Option<&OpProto>;
}

/// No prototypes: with `UnknownOps::Allow` the structure alone is verified.
pub struct NoOps;
impl OpTable for NoOps {
    fn proto(&self, _: &str) -> Option<&OpProto> {
        None
    }
}
impl OpTable for std::collections::BTreeMap<String, OpProto> {
    fn proto(&self, op: &str) -> Option<&OpProto> {
        self.get(op)
    }
}

/// What is thought of operator types without a prototype (rule V16).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownOps {
    /// They are faults.
    #[default]
    Refuse,
    /// They are taken as they are (graphs for stages after placement, with `_engine` on each node).
    Allow,
}

/// Within what node names must differ (rule V4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameScope {
    /// Within a graph.
    #[default]
    Graph,
    /// Within the whole model.
    Model,
}

/// How to verify.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyOptions {
    /// Rule V16.
    pub unknown_ops: UnknownOps,
    /// Rule V4.
    pub names: NameScope,
}

/// What a verified model promises to those that take it, with facts found on the way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// For each graph the graph and node that name it; None for the root and for graphs that
    /// nothing names.
    pub parents: Vec<Option<(usize, NodeId)>>,
    /// Nodes whose operator type has no prototype and is not the host's own.
    pub unknown_ops: usize,
}

/// The host's own operator types that graphs are made of (DESIGN 1): they stand on the structural
/// engine and are inferred by the host alone. They need no prototype; one that a plugin gives all
/// the same is honoured.
pub const STRUCTURE: &[&str] = &[
    "Data",
    "RefData",
    "AippData",
    "Const",
    "Constant",
    "FileConstant",
    "Variable",
    "NetOutput",
    "PartitionedCall",
    "If",
    "While",
    "Case",
    "For",
    "PlaceHolder",
    "End",
];

/// The host's own operator types that stand for tasks: streams, labels, copies. An engine runs
/// them; they need no prototype either.
pub const TASK_STRUCTURE: &[&str] = &[
    "Send",
    "Recv",
    "SendNotify",
    "RecvNotify",
    "StreamActive",
    "StreamSwitch",
    "StreamMerge",
    "LabelSet",
    "LabelGotoEx",
    "LabelSwitchByIndex",
    "Identity",
    "MemcpyAsync",
    "AtomicAddrClean",
    "MemSet",
];

/// Verifies a model by all rules.
///
/// Errors: every fault, up to
/// [`FAULT_LIMIT`], by rule and then in order of graph and node; code `GE-E0140`, the message opens
/// with the rule, `node` is `graph/node`.
pub fn verify(model: &Model, protos: &dyn OpTable) -> Result<Verified, Vec<Diagnostic>> {
    verify_with(model, protos, VerifyOptions::default())
}

/// Verifies a model as the options say. Errors: as [`verify`].
pub fn verify_with(model: &Model, protos: &dyn OpTable, options: VerifyOptions) -> Result<Verified, Vec<Diagnostic>> {
    let mut faults = Faults::default();
    for g in model.graphs() {
        structure::check(g, &mut faults);
    }
    structure::names(model, options.names, &mut faults);
    // The rest reads along edges: only on graphs whose edges hold.
    let mut verified = Verified::default();
    if faults.list.is_empty() {
        verified.unknown_ops = operators::check(model, protos, options.unknown_ops, &mut faults);
        verified.parents = subgraphs::check(model, &mut faults);
    }
    if faults.list.is_empty() {
        return Ok(verified);
    }
    if faults.more > 0 {
        faults.list.push(
            Diagnostic::error(format!("{} further faults are not shown", faults.more)).code(ge_codes::GRAPH_RULE),
        );
    }
    Err(faults.list)
}

/// Gathers faults up to the limit.
#[derive(Default)]
struct Faults {
    list: Vec<Diagnostic>,
    more: usize,
}

impl Faults {
    /// A fault of a node.
    fn node(&mut self, rule: &str, g: &Graph, n: &Node, message: impl FnOnce(Diagnostic) -> Diagnostic, text: String) {
        self.push(rule, text, |d| message(d.node(format!("{}/{}", g.name(), n.name()), n.op())));
    }
    /// A fault of a graph.
    fn graph(&mut self, rule: &str, g: &Graph, text: String) {
        self.push(rule, text, |d| d.subject(format!("@{}", g.name())));
    }
    fn push(&mut self, rule: &str, text: String, finish: impl FnOnce(Diagnostic) -> Diagnostic) {
        if self.list.len() < FAULT_LIMIT {
            self.list.push(finish(Diagnostic::error(format!("{rule}: {text}")).code(ge_codes::GRAPH_RULE)));
        } else {
            self.more += 1;
        }
    }
}

/// A descriptor's type as messages write it.
fn type_of(d: &TensorDesc) -> String {
    format!("{}{}", d.dtype, d.shape)
}
