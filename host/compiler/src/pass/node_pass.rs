//! `NodePass`: a pass over one node at a time. `GEPass` runs it in a group with others (003 §2.1).
use super::{PassContext, PassLevel, Rewriter};
use crate::error::Result;
use ge_ir::{Model, Node};

/// A pass over one node. It holds no state. It records edits through the rewriter; they are applied
/// before the next pass runs, which therefore sees them.
pub trait NodePass: Sync {
    /// Name of the pass, as used in `ge opt --passes` and `ge.optimizationSwitch`.
    fn name(&self) -> &'static str;
    /// Lowest `ge.oo.level` at which the pass runs.
    fn level(&self) -> PassLevel;
    /// What the pass does, written as `before -> after`.
    fn effect(&self) -> &'static str;
    /// Conditions that must hold for the pass to act.
    fn needs(&self) -> &'static str;
    /// What the pass leaves unchanged.
    fn keeps(&self) -> &'static str;
    /// The option that switches this pass off together with others; `None` if there is none.
    fn switch(&self) -> Option<crate::options::Switch> {
        None
    }
    /// Operator types that the pass visits; empty means all types.
    fn ops(&self) -> &'static [&'static str];
    /// Visits node `n` of graph `gi`. If it records no edit, nothing changes. It reports nodes left
    /// unchanged for a reason through [`PassContext::refuse`].
    ///
    /// # Errors
    /// An error fails the compilation.
    fn visit(&self, cx: &mut PassContext<'_>, model: &Model, gi: usize, n: &Node, r: &mut Rewriter<'_>) -> Result<()>;
}
