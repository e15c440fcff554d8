//! Passes: what one is, how lists of them run, and what a compilation keeps about them: which ran,
//! how long, what they changed and refused.
pub mod blame;
pub(crate) mod declare;
pub mod ge_pass;
pub mod hooks;
mod owner;
pub mod inline;
pub mod listed;
pub mod manager;
pub mod node_pass;
pub mod record;
pub mod rewriter;
pub(crate) mod subgraph;
pub mod switches;

pub use blame::{Blame, Blamed};
pub use ge_pass::GEPass;
pub use ge_plugin_api::pass::PassLevel;
pub use listed::{Kind, Listed};
pub use manager::PassManager;
pub use node_pass::NodePass;
pub use record::{KernelCounts, PassRecord, Records};
pub use rewriter::Rewriter;
pub use switches::Switches;

use crate::error::Result;
use crate::options::Options;
use crate::toolbox::Toolbox;
use ge_ir::Model;
use ge_plugin_api::patch::Edit;

/// A pass over one graph. It holds no state between runs; it records edits, which are applied whole
/// or not at all.
pub trait GraphPass: Sync {
    /// Name, as `ge opt --passes` and `ge.optimizationSwitch` have it.
    fn name(&self) -> &'static str;
    /// Level: it runs at every `ge.oo.level` at or above.
    fn level(&self) -> PassLevel;
    /// What it does, as `before -> after`.
    fn effect(&self) -> &'static str;
    /// What must be so for it to act.
    fn needs(&self) -> &'static str {
        ""
    }
    /// What stays as it was.
    fn keeps(&self) -> &'static str {
        ""
    }
    /// The option that switches it off with others (`ge.oo.constantFolding`), if one does.
    fn switch(&self) -> Option<crate::options::Switch> {
        None
    }
    /// How often it is run again on a model that it changed, the first run included.
    fn rounds(&self) -> u32 {
        1
    }
    /// Edits for graph
    /// `gi` of a model. Nodes that it looked at and left alone for a reason are told to `cx`.
    ///
    /// Errors: the compilation fails; nothing of the edits is applied.
    fn run(&self, cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>>;
}

/// What a pass may ask, and where it leaves its refusals.
pub struct PassContext<'a> {
    /// What the plugins offer: prototypes, engines.
    pub toolbox: &'a Toolbox,
    /// Options of the compilation.
    pub options: &'a Options,
    /// Nodes visited.
    pub visits: u64,
    /// Changes made, counted by the pass (a patch may hold many).
    pub changes: u64,
    pub(super) refusals: Vec<(String, String)>,
    pub(super) warnings: Vec<String>,
}

impl<'a> PassContext<'a> {
    /// For one pass.
    pub fn new(toolbox: &'a Toolbox, options: &'a Options) -> PassContext<'a> {
        PassContext { toolbox, options, visits: 0, changes: 0, refusals: Vec::new(), warnings: Vec::new() }
    }
    /// Keeps why a node was left alone.
    pub fn refuse(&mut self, node: &str, reason: impl Into<String>) {
        self.refusals.push((node.to_owned(), reason.into()));
    }
    /// Keeps what the user should know of the model that comes out.
    pub fn warn(&mut self, text: impl Into<String>) {
        self.warnings.push(text.into());
    }
    /// Prototype flags of an operator type ([`ge_plugin_api::ops::flags`]).
    pub fn op_flags(&self, n: &ge_ir::Node) -> u64 {
        self.toolbox.op_flags(n.op_key())
    }
}
