//! Records of passes: time, visits, patches, refusals.
use std::collections::BTreeMap;

/// One run of one pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassRecord {
    /// Stage.
    pub stage: &'static str,
    /// Pass.
    pub pass: String,
    /// Wall time.
    pub micros: u64,
    /// Nodes visited.
    pub visits: u64,
    /// Patches applied.
    pub changes: u64,
}

/// How many kernels a compilation made, and when (003 §6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelCounts {
    /// Compiled with their subgraphs.
    pub fused_graph: u64,
    /// Compiled alone.
    pub single_op: u64,
    /// Asked for again, and there.
    pub hits: u64,
}

impl KernelCounts {
    /// Adds those of another compilation.
    pub fn add(&mut self, other: &KernelCounts) {
        self.fused_graph += other.fused_graph;
        self.single_op += other.single_op;
        self.hits += other.hits;
    }
}

/// All that passes leave for the user: records in order, and refusals by node and pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// Runs, in order.
    pub runs: Vec<PassRecord>,
    /// Node name to (pass, reason), in the order given; the first reason of a pass stays.
    pub refusals: BTreeMap<String, Vec<(String, String)>>,
    /// Fusions, in order.
    pub fusions: Vec<crate::fusion::FusionRecord>,
    /// Kernels.
    pub kernels: KernelCounts,
    /// What the user should know of the model, in order.
    pub warnings: Vec<String>,
}

impl Records {
    /// Keeps the first reason why a pass left a node alone.
    pub fn refuse(&mut self, node: &str, pass: &str, reason: impl Into<String>) {
        let list = self.refusals.entry(node.to_owned()).or_default();
        if !list.iter().any(|(p, _)| p == pass) {
            list.push((pass.to_owned(), reason.into()));
        }
    }
}
