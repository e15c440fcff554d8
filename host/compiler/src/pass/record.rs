//! Records of passes: time, visits, patches and refusals.
use std::collections::BTreeMap;

/// One run of one pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassRecord {
    /// Stage in which the pass ran.
    pub stage: &'static str,
    /// Name of the pass.
    pub pass: String,
    /// Wall time in microseconds.
    pub micros: u64,
    /// Number of nodes visited.
    pub visits: u64,
    /// Number of changes that the pass counted.
    pub changes: u64,
}

/// Number of kernels that a compilation made, by the way they were compiled (003 §6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelCounts {
    /// Kernels compiled with their subgraphs.
    pub fused_graph: u64,
    /// Kernels compiled alone.
    pub single_op: u64,
    /// Kernels requested again and reused.
    pub hits: u64,
}

impl KernelCounts {
    /// Adds the counts of another compilation.
    pub fn add(&mut self, other: &KernelCounts) {
        self.fused_graph += other.fused_graph;
        self.single_op += other.single_op;
        self.hits += other.hits;
    }
}

/// Everything that passes report to the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// Runs of passes, in order.
    pub runs: Vec<PassRecord>,
    /// From node name to (pass, reason), in the order reported; only the first reason of each pass
    /// is kept.
    pub refusals: BTreeMap<String, Vec<(String, String)>>,
    /// Fusions, in order.
    pub fusions: Vec<crate::fusion::FusionRecord>,
    /// Kernel counts.
    pub kernels: KernelCounts,
    /// Warnings about the model for the user, in order.
    pub warnings: Vec<String>,
}

impl Records {
    /// Records why a pass left a node unchanged; only the first reason of each pass is kept.
    pub fn refuse(&mut self, node: &str, pass: &str, reason: impl Into<String>) {
        let list = self.refusals.entry(node.to_owned()).or_default();
        if !list.iter().any(|(p, _)| p == pass) {
            list.push((pass.to_owned(), reason.into()));
        }
    }
}
