//! `PackNotaskPass`: a pack whose inputs can be adjacent in memory needs no task.
//!
//! Before: `%c = Pack(%a, %b) {axis = 0}`   After: the same with the attributes of
//! `ConcatNotaskPass`
//! When: the conditions of `ConcatNotaskPass` hold, and all sizes before the new axis are 1.
//! Refuses: in the same order; run-time formats other than plain ones and FRACTAL_NZ.
//! Keeps: the node, so that its value is still dumped and compared.
//! Source: facts 6. Cost: each input of each pack once, with its chain of views.
use super::notask::{Kind, Refusal, run};
use crate::error::Result as CompileResult;
use crate::pass::{GraphPass, PassContext, PassLevel};
use ge_ir::{Format, Graph, Model, Node};
use ge_plugin_api::patch::Edit;
use ge_plugin_api::types::format::is_plain;

/// See the module documentation.
pub struct PackNotaskPass;

impl Kind for PackNotaskPass {
    fn ops(&self) -> &'static [&'static str] {
        &["Pack"]
    }
    fn check_format(&self, g: &Graph, n: &Node) -> Result<(), Refusal> {
        for (i, v) in n.inputs().iter().enumerate() {
            let Some(d) = g.desc(*v) else { continue };
            if !is_plain(d.format) && d.format != Format::FRACTAL_NZ {
                return Err(format!("input {i} has the run-time format {}", d.format));
            }
        }
        Ok(())
    }
    fn check_dim(&self, g: &Graph, n: &Node) -> Result<(), Refusal> {
        let axis = n.attrs().int("axis").unwrap_or(0);
        let Some(sizes) = n.input(0).and_then(|v| g.desc(v)).and_then(|d| d.origin_shape().sizes()) else {
            return Err("the shape of its inputs is not known".into());
        };
        let rank = sizes.len() as i64;
        let axis = if axis < 0 { axis + rank + 1 } else { axis };
        let Some(before) = usize::try_from(axis).ok().and_then(|a| sizes.get(..a)) else {
            return Err(format!("axis {axis} is not one of 0 to {rank}"));
        };
        match before.iter().position(|s| *s != 1) {
            Some(at) => Err(format!("axis {at} before the new axis has size {}", before[at])),
            None => Ok(()),
        }
    }
}

impl GraphPass for PackNotaskPass {
    fn name(&self) -> &'static str {
        "PackNotaskPass"
    }
    fn level(&self) -> PassLevel {
        PassLevel::O3
    }
    fn effect(&self) -> &'static str {
        "`Pack` of inputs that can lie one behind the other -> the same without a task"
    }
    fn needs(&self) -> &'static str {
        "the conditions of `ConcatNotaskPass`, and all sizes before the new axis are 1"
    }
    fn keeps(&self) -> &'static str {
        "the node, so that its value is still dumped and compared"
    }
    fn run(&self, cx: &mut PassContext<'_>, model: &Model, gi: usize) -> CompileResult<Vec<Edit>> {
        Ok(run(self, cx, model, gi))
    }
}
