//! `NoUseReshapeRemovePass` and `ReshapeRemovePass`: remove views that do not change the shape.
//!
//! Before: `%y = Reshape(%x : f32[2,3], …) : f32[2,3]`   After: reads of `%x`
//! When: a view has its input's type, shape and format, and all sizes are known or named. The first
//! pass handles only `Reshape`, the second every operator with the view flag except `Identity`.
//! Refuses: another shape, sizes without a name.
//! Keeps: the order of control edges; graph outputs.
//! Source: 003 §2.2, facts 4.3 and 4.4 (1_2, 8). Cost: each node once.
use crate::error::Result;
use crate::pass::rewriter::same_desc;
use crate::pass::{NodePass, PassContext, PassLevel, Rewriter};
use ge_ir::{Model, Node};
use ge_plugin_api::ops::flags;

/// Removes only `Reshape`, right after inference.
pub struct NoUseReshapeRemovePass;
/// Removes every kind of view, after formats are chosen.
pub struct ReshapeRemovePass;

fn remove(cx: &mut PassContext<'_>, model: &Model, gi: usize, n: &Node, r: &mut Rewriter<'_>) {
    let g = &model.graphs()[gi];
    if n.outputs().len() != 1 {
        return;
    }
    let Some(x) = n.input(0) else { return };
    match g.desc(x) {
        Some(d) if same_desc(d, &n.outputs()[0]) => r.bypass(n, x),
        Some(d) => cx.refuse(n.name(), format!("it changes {} to {}", d.shape, n.outputs()[0].shape)),
        None => {}
    }
}

impl NodePass for NoUseReshapeRemovePass {
    fn name(&self) -> &'static str {
        "NoUseReshapeRemovePass"
    }
    fn level(&self) -> PassLevel {
        PassLevel::O1
    }
    fn effect(&self) -> &'static str {
        "`Reshape` to the same shape -> `x`"
    }
    fn needs(&self) -> &'static str {
        "input and output have one type, shape and format, all sizes known or named"
    }
    fn keeps(&self) -> &'static str {
        "the order of control edges; graph outputs"
    }
    fn ops(&self) -> &'static [&'static str] {
        &["Reshape"]
    }
    fn visit(&self, cx: &mut PassContext<'_>, model: &Model, gi: usize, n: &Node, r: &mut Rewriter<'_>) -> Result<()> {
        remove(cx, model, gi, n, r);
        Ok(())
    }
}

impl NodePass for ReshapeRemovePass {
    fn name(&self) -> &'static str {
        "ReshapeRemovePass"
    }
    fn level(&self) -> PassLevel {
        PassLevel::O1
    }
    fn effect(&self) -> &'static str {
        "any view to the same shape -> `x`"
    }
    fn needs(&self) -> &'static str {
        "input and output have one type, shape and format, all sizes known or named"
    }
    fn keeps(&self) -> &'static str {
        "the order of control edges; graph outputs; `Identity`, which has passes of its own"
    }
    fn ops(&self) -> &'static [&'static str] {
        &[]
    }
    fn visit(&self, cx: &mut PassContext<'_>, model: &Model, gi: usize, n: &Node, r: &mut Rewriter<'_>) -> Result<()> {
        if n.op() != "Identity" && cx.op_flags(n) & flags::VIEW != 0 {
            remove(cx, model, gi, n, r);
        }
        Ok(())
    }
}
