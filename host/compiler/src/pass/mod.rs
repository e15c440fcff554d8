//! Passes: the pass traits, the code that runs lists of passes, and the records that a compilation
//! keeps about them: which passes ran, how long they took, what they changed and what they refused.
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

/// A pass over one graph. It holds no state between runs. It records edits; the edits of one run
/// are applied all together or not at all.
pub trait GraphPass: Sync {
    /// Name of the pass, as used in `ge opt --passes` and `ge.optimizationSwitch`.
    fn name(&self) -> &'static str;
    /// Lowest `ge.oo.level` at which the pass runs.
    fn level(&self) -> PassLevel;
    /// What the pass does, written as `before -> after`.
    fn effect(&self) -> &'static str;
    /// Conditions that must hold for the pass to act.
    fn needs(&self) -> &'static str {
        ""
    }
    /// What the pass leaves unchanged.
    fn keeps(&self) -> &'static str {
        ""
    }
    /// The option that switches this pass off together with others, such as
    /// `ge.oo.constantFolding`; `None` if there is none.
    fn switch(&self) -> Option<crate::options::Switch> {
        None
    }
    /// Maximum number of runs on one model, the first included. The pass runs again only if it
    /// changed the model.
    fn rounds(&self) -> u32 {
        1
    }
    /// Returns the edits for graph `gi` of `model`. Reports nodes that the pass examined and left
    /// unchanged for a reason through [`PassContext::refuse`].
    ///
    /// # Errors
    /// An error fails the compilation; none of the edits is applied.
    fn run(&self, cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>>;
}

/// What a pass may query, and where it records its refusals and warnings.
pub struct PassContext<'a> {
    /// What the plugins provide: operator prototypes, engines.
    pub toolbox: &'a Toolbox,
    /// Options of the compilation.
    pub options: &'a Options,
    /// Number of nodes visited.
    pub visits: u64,
    /// Number of changes, counted by the pass (one patch may hold many).
    pub changes: u64,
    pub(super) refusals: Vec<(String, String)>,
    pub(super) warnings: Vec<String>,
}

impl<'a> PassContext<'a> {
    /// Creates an empty context for one pass.
    pub fn new(toolbox: &'a Toolbox, options: &'a Options) -> PassContext<'a> {
        PassContext { toolbox, options, visits: 0, changes: 0, refusals: Vec::new(), warnings: Vec::new() }
    }
    /// Records why the pass left a node unchanged.
    pub fn refuse(&mut self, node: &str, reason: impl Into<String>) {
        self.refusals.push((node.to_owned(), reason.into()));
    }
    /// Records a warning about the resulting model for the user.
    pub fn warn(&mut self, text: impl Into<String>) {
        self.warnings.push(text.into());
    }
    /// Prototype flags of the node's operator type ([`ge_plugin_api::ops::flags`]).
    pub fn op_flags(&self, n: &ge_ir::Node) -> u64 {
        self.toolbox.op_flags(n.op_key())
    }
}
