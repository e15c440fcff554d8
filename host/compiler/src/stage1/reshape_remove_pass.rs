//! `NoUseReshapeRemovePass` and `ReshapeRemovePass`: views that change no shape are removed.
//!
//! Before: `%y = Reshape(%x : f32[2,3], …) : f32[2,3]`   After: reads of `%x`
//! When: a view (the first handles `Reshape` alone, the second every operator with the view flag) gives its input's type, shape
//! and format, all sizes known.
//! Refuses: another or an unknown shape.
//! Keeps: the order of control edges; graph outputs.
//! Source: 003 §2.2, facts 4.3 and 4.4 (1_2, 8). Cost: each node once.
use crate::error::Result;
use crate::pass::rewriter::same_desc;
use crate::pass::{GraphPass, PassContext, PassLevel, Rewriter};
use ge_ir::Model;
use ge_plugin_api::ops::flags;
use ge_plugin_api::patch::Edit;

/// `Reshape` alone, right after inference.
pub struct NoUseReshapeRemovePass;
/// Every view, after formats are settled.
pub struct ReshapeRemovePass;

fn remove(cx: &mut PassContext<'_>, model: &Model, gi: usize, any_view: bool) -> Vec<Edit> {
    let g = &model.graphs()[gi];
    let mut r = Rewriter::new(g);
    for n in g.nodes() {
        let view = n.op() == "Reshape" || (any_view && cx.op_flags(n) & flags::VIEW != 0);
        if !view || n.op() == "Identity" || n.outputs().len() != 1 {
            continue;
        }
        cx.visits += 1;
        let Some(x) = n.input(0) else { continue };
        match g.desc(x) {
            Some(d) if same_desc(d, &n.outputs()[0]) => r.bypass(n, x),
            Some(d) => cx.refuse(n.name(), format!("it changes {} to {}", d.shape, n.outputs()[0].shape)),
            None => {}
        }
    }
    r.finish(cx)
}

impl GraphPass for NoUseReshapeRemovePass {
    fn name(&self) -> &'static str {
        "NoUseReshapeRemovePass"
    }
    fn level(&self) -> PassLevel {
        PassLevel::O1
    }
    fn effect(&self) -> &'static str {
        "`Reshape` to the same shape -> `x`"
    }
    fn run(&self, cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
        Ok(remove(cx, model, gi, false))
    }
}

impl GraphPass for ReshapeRemovePass {
    fn name(&self) -> &'static str {
        "ReshapeRemovePass"
    }
    fn level(&self) -> PassLevel {
        PassLevel::O1
    }
    fn effect(&self) -> &'static str {
        "any view to the same shape -> `x`"
    }
    fn run(&self, cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
        Ok(remove(cx, model, gi, true))
    }
}
