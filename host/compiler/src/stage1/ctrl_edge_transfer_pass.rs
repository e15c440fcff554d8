//! `CtrlEdgeTransferPass`: moves the control inputs of a constant to its readers.
//!
//! Before: `%c = Const() … after(%a)  %y = Add(%x, %c)`   After: `%c = Const() …  %y = Add(%x, %c)
//! after(%a)`
//! When: all shapes of the graph are known (a constant is then in memory from the start).
//! Refuses: graphs with an unknown shape.
//! Keeps: the order of all nodes that have a task.
//! Source: facts 4.2 (the end of PreRunOptimizeOriginalGraph). Cost: control edges of constants
//! times their readers.
use crate::error::Result;
use crate::pass::{GraphPass, PassContext, PassLevel, Rewriter};
use ge_ir::Model;
use ge_plugin_api::patch::Edit;

/// See the module documentation.
pub struct CtrlEdgeTransferPass;

impl GraphPass for CtrlEdgeTransferPass {
    fn name(&self) -> &'static str {
        "CtrlEdgeTransferPass"
    }
    fn level(&self) -> PassLevel {
        PassLevel::O0
    }
    fn effect(&self) -> &'static str {
        "control edges into a constant -> into its readers"
    }
    fn needs(&self) -> &'static str {
        "the graph's shapes are all known (a constant is then in memory from the start)"
    }
    fn keeps(&self) -> &'static str {
        "the order of all nodes that have a task"
    }
    fn run(&self, cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
        let g = &model.graphs()[gi];
        let mut held = g.nodes().filter(|n| n.is_const() && !n.controls().is_empty()).peekable();
        if held.peek().is_none() {
            return Ok(Vec::new());
        }
        let known = g.nodes().all(|n| n.outputs().iter().all(|d| d.is_static()));
        let mut r = Rewriter::new(g);
        for n in held {
            cx.visits += 1;
            if !known {
                cx.refuse(n.name(), "the graph has unknown shapes");
                continue;
            }
            let mut readers: Vec<_> = n.uses(0).iter().map(|u| u.node).collect();
            readers.extend_from_slice(n.control_users());
            readers.sort_unstable();
            readers.dedup();
            for c in n.controls() {
                for u in &readers {
                    r.patch.push(Edit::AddControl(*c, *u));
                }
                r.patch.push(Edit::RemoveControl(*c, n.id()));
            }
            r.count();
        }
        Ok(r.finish(cx))
    }
}
