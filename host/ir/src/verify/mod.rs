//! The verifier: the rules that hold for every graph that stages and passes see. It is iterative,
//! and nearly linear in nodes, edges and attributes.
//!
//! - **V1** Every input refers to an output, and every control input to a node, of the same graph.
//! - **V2** The order contains every node once, after all nodes that it reads or follows:
//!   definition before use.
//! - **V3** Data and control edges form no cycle.
//! - **V4** Node names are not empty and are unique within a graph (with `NameScope::Model`, within
//!   the model).
//! - **V5** A graph has exactly one `NetOutput`. Nothing reads or follows it, and it has no outputs
//!   except a plain copy of its inputs' descriptors. A graph with `End` or `PlaceHolder` (one piece
//!   of a partition) may have none.
//! - **V6** The indices of `Data`, and of those `RefData` and `AippData` that have one, are 0 to
//!   n-1, each once; a piece of a partition may have gaps.
//! - **V7** A node has as many inputs as its operator takes, and every required one.
//! - **V8** A node has as many outputs as its operator produces.
//! - **V9** Types are among those that the operator allows; parameters of one type group have the
//!   same type. Inference checks the groups again (`mixed_inputs`), with the types that it finds.
//! - **V10** An attribute that the operator declares has a value of the declared kind (an integer
//!   counts as a float, 0 and 1 count as booleans, an empty list is of every kind). Attributes that
//!   it does not declare are unrestricted.
//! - **V11** Required attributes are present.
//! - **V12** Attribute values lie in their range and among their choices.
//! - **V13** An attribute names only graphs of the model, or graphs that are models of their own.
//! - **V14** A graph is named at most once, the root is never named, and graphs do not contain each
//!   other in a circle.
//! - **V15** The inputs and outputs of a subgraph match the node that names it, in number and type.
//! - **V16** The operator type is known (`UnknownOps::Allow` turns this rule off).
//! - **V17** A constant (`Const`, `Constant`) has its value, and its descriptor has the value's
//!   type and shape.
//! - **V18** `Data`, `RefData`, `AippData`, `Variable` and `FileConstant` have one output; of these
//!   only `Data` may have inputs.
mod operators;
mod structure;
mod subgraphs;
#[cfg(test)]
mod tests;

pub use operators::mixed_inputs;

use crate::graph::{Graph, Model, Node};
use ge_plugin_api::diagnostic::Diagnostic;
use ge_plugin_api::ops::OpProto;
use ge_plugin_api::types::{NodeId, TensorDesc};

/// At most this many faults are reported for one model.
pub const FAULT_LIMIT: usize = 1000;

/// Source of operator prototypes.
pub trait OpTable {
    /// The prototype of an operator type; `None` if the type is unknown.
    fn proto(&self, op: &str) -> Option<&OpProto>;
}

/// Knows no prototypes; with `UnknownOps::Allow` only the structure is verified.
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

/// How to treat operator types without a prototype (rule V16).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownOps {
    /// Report them as faults.
    #[default]
    Refuse,
    /// Accept them (graphs for stages after placement, with `_engine` on each node).
    Allow,
}

/// The scope within which node names must be unique (rule V4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameScope {
    /// Within a graph.
    #[default]
    Graph,
    /// Within the whole model.
    Model,
}

/// Options of [`verify_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyOptions<'a> {
    /// How to treat unknown operator types (rule V16).
    pub unknown_ops: UnknownOps,
    /// Scope of unique names (rule V4).
    pub names: NameScope,
    /// Graphs that are models of their own, which nodes may name (rule V13).
    pub sealed: &'a [String],
}

/// Facts about a model that passed verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// For each graph, the (graph index, node) that names it; `None` for the root and for graphs
    /// that nothing names.
    pub parents: Vec<Option<(usize, NodeId)>>,
    /// Number of nodes whose operator type has no prototype and is not one of the host's own.
    pub unknown_ops: usize,
}

/// The host's own operator types for graph structure (DESIGN 1). They are placed on the structural
/// engine, and only the host infers their shapes. They need no prototype, but one that a plugin
/// provides is respected.
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

/// The host's own operator types that stand for tasks: streams, labels and copies. An engine runs
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

/// Verifies a model against all rules with the default options.
///
/// # Errors
/// Returns every fault, up to [`FAULT_LIMIT`], by rule and then in order of graph and node. The
/// code is `GE-E0140`, the message starts with the rule, and `node` is `graph/node`.
pub fn verify(model: &Model, protos: &dyn OpTable) -> Result<Verified, Vec<Diagnostic>> {
    verify_with(model, protos, VerifyOptions::default())
}

/// Verifies a model with the given options.
///
/// # Errors
/// Returns the faults as [`verify`] does.
pub fn verify_with(
    model: &Model,
    protos: &dyn OpTable,
    options: VerifyOptions<'_>,
) -> Result<Verified, Vec<Diagnostic>> {
    let mut faults = Faults::default();
    for g in model.graphs() {
        structure::check(g, &mut faults);
    }
    structure::names(model, options.names, &mut faults);
    // The remaining rules follow edges, so they run only if all edges are valid.
    let mut verified = Verified::default();
    if faults.list.is_empty() {
        verified.unknown_ops = operators::check(model, protos, options.unknown_ops, &mut faults);
        verified.parents = subgraphs::check(model, options.sealed, &mut faults);
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

/// Collects faults up to the limit.
#[derive(Default)]
struct Faults {
    list: Vec<Diagnostic>,
    more: usize,
}

impl Faults {
    /// Adds a fault of a node.
    fn node(&mut self, rule: &str, g: &Graph, n: &Node, message: impl FnOnce(Diagnostic) -> Diagnostic, text: String) {
        self.push(rule, text, |d| message(d.node(format!("{}/{}", g.name(), n.name()), n.op())));
    }
    /// Adds a fault of a graph.
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

/// A descriptor's type as messages show it.
fn type_of(d: &TensorDesc) -> String {
    format!("{}{}", d.dtype, d.shape)
}
