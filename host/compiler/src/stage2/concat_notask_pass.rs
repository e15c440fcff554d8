//! `ConcatNotaskPass`: a concat whose inputs can be adjacent in memory needs no task.
//!
//! Before: `%c = ConcatD(%a, %b) {concat_dim = 0}`
//! After: `%c = ConcatD(%a, %b) {_no_task = true, _nopadding_continuous_input = true,
//! _output_reuse_input = true, _reuse_input_on_dim_index = 0, concat_dim = 0}`, the producers'
//! descriptors locked by `can_reused_for_concat_optimize = false`
//! When: all conditions of document 000, 2.3 hold.
//! Refuses: in the order of 000, 4.2, each with its reason (`stage2/notask.rs`).
//! Keeps: the node, so that its value is still dumped and compared (000, 7.1).
//! Source: document 000, facts 6. Cost: each input of each concat once, with its chain of views.
use super::notask::{Kind, Refusal, check_axis, run};
use crate::error::Result as CompileResult;
use crate::pass::{GraphPass, PassContext, PassLevel};
use ge_ir::{Graph, Model, Node};
use ge_plugin_api::patch::Edit;

/// See the module documentation.
pub struct ConcatNotaskPass;

impl Kind for ConcatNotaskPass {
    fn ops(&self) -> &'static [&'static str] {
        &["ConcatD", "ConcatV2D"]
    }
    fn check_format(&self, _: &Graph, _: &Node) -> Result<(), Refusal> {
        Ok(())
    }
    fn check_dim(&self, g: &Graph, n: &Node) -> Result<(), Refusal> {
        let Some(axis) = n.attrs().int("concat_dim") else { return Err("it has no concat_dim".into()) };
        for (i, v) in n.inputs().iter().enumerate() {
            let Some(d) = g.desc(*v) else { continue };
            check_axis(d, axis).map_err(|why| format!("input {i}: {why}"))?;
        }
        Ok(())
    }
}

impl GraphPass for ConcatNotaskPass {
    fn name(&self) -> &'static str {
        "ConcatNotaskPass"
    }
    fn level(&self) -> PassLevel {
        PassLevel::O3
    }
    fn effect(&self) -> &'static str {
        "`ConcatD` of inputs that can lie one behind the other -> the same without a task"
    }
    fn needs(&self) -> &'static str {
        "all conditions of document 000, 2.3 hold"
    }
    fn keeps(&self) -> &'static str {
        "the node, so that its value is still dumped and compared (000, 7.1)"
    }
    fn run(&self, cx: &mut PassContext<'_>, model: &Model, gi: usize) -> CompileResult<Vec<Edit>> {
        Ok(run(self, cx, model, gi))
    }
}
