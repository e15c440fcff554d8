//! `NodePass`: a pass over one node at a time, run with others of its group by `GEPass` (003 §2.1).
use super::{PassContext, PassLevel, Rewriter};
use crate::error::Result;
use ge_ir::{Model, Node};

/// A pass over one node. It holds no state; it records edits through the rewriter, which are
/// applied before the next pass sees the graph, and are seen by it.
pub trait NodePass: Sync {
    /// Name, as `ge opt --passes` and `ge.optimizationSwitch` have it.
    fn name(&self) -> &'static str;
    /// Level: it runs at every `ge.oo.level` at or above.
    fn level(&self) -> PassLevel;
    /// What it does, as `before -> after`.
    fn effect(&self) -> &'static str;
    /// What must be so for it to act.
    fn needs(&self) -> &'static str;
    /// What stays as it was.
    fn keeps(&self) -> &'static str;
    /// The option that switches it off with others, if one does.
    fn switch(&self) -> Option<crate::options::Switch> {
        None
    }
    /// Operator types that it looks at; empty: all.
    fn ops(&self) -> &'static [&'static str];
    /// Looks at a node of graph
    /// `gi`. No edit, no change; nodes left alone for a reason are told to `cx`.
    ///
    /// Errors: the compilation fails.
    fn visit(&self, cx: &mut PassContext<'_>, model: &Model, gi: usize, n: &Node, r: &mut Rewriter<'_>) -> Result<()>;
}
