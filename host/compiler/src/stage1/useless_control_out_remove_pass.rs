//! `UselessControlOutRemovePass`: removes control edges out of constants, because constants are
//! always ready.
//!
//! Before: `%c = Const() …  %y = Relu(%x) after(%c)`   After: `%y = Relu(%x)`
//! When: the constant itself waits for nothing.
//! Refuses: a constant with control inputs (`CtrlEdgeTransferPass` passes those on).
//! Keeps: everything else; `PrunePass` removes a constant left without readers.
//! Source: 003 §2.2, facts 4.4 (1_2, 16). Cost: each control edge of a constant once.
use crate::error::Result;
use crate::pass::{NodePass, PassContext, PassLevel, Rewriter};
use ge_ir::{Model, Node};
use ge_plugin_api::patch::Edit;

/// See the module documentation.
pub struct UselessControlOutRemovePass;

impl NodePass for UselessControlOutRemovePass {
    fn name(&self) -> &'static str {
        "UselessControlOutRemovePass"
    }
    fn level(&self) -> PassLevel {
        PassLevel::O3
    }
    fn effect(&self) -> &'static str {
        "control edges out of constants -> nothing"
    }
    fn needs(&self) -> &'static str {
        "the constant itself waits for nothing"
    }
    fn keeps(&self) -> &'static str {
        "everything else; a constant left without readers goes with `PrunePass`"
    }
    fn ops(&self) -> &'static [&'static str] {
        &["Const", "Constant"]
    }
    fn visit(&self, cx: &mut PassContext<'_>, _: &Model, _: usize, n: &Node, r: &mut Rewriter<'_>) -> Result<()> {
        if !n.controls().is_empty() {
            cx.refuse(n.name(), "it waits for others by control edges itself");
            return Ok(());
        }
        for u in n.control_users() {
            r.patch.push(Edit::RemoveControl(n.id(), *u));
            r.count();
        }
        Ok(())
    }
}
