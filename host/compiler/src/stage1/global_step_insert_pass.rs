//! `GlobalStepInsertPass`: makes a training graph count its steps in a variable.
//!
//! Before: a root graph with the attribute `_is_training = true`   After: the same with
//! `%ge_global_step = Variable() : i64[]` and `%ge_global_step_next = AssignAdd(%ge_global_step,
//! 1)`, which runs in every step
//! When: the root graph is marked as training and has no such variable.
//! Refuses: a graph that has it already.
//! Keeps: everything else.
//! Source: facts 4.4 (1_3). Cost: each node's name once.
use crate::error::Result;
use crate::pass::declare::graph_pass;
use crate::pass::{PassContext, Rewriter};
use ge_ir::{ConstTensor, DType, Model, Shape, TensorDesc, ValueRef};
use ge_plugin_api::patch::Edit;
use ge_plugin_api::types::AttrMap;

graph_pass!(
    GlobalStepInsertPass,
    O0,
    "a root graph with `_is_training` -> the same with a variable `ge_global_step` that counts its runs",
    needs "the graph attribute `_is_training = true`",
    keeps "all else",
    run,
);

/// Name of the variable.
pub const GLOBAL_STEP: &str = "ge_global_step";

fn run(cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
    let g = &model.graphs()[gi];
    if gi != 0 || !g.attrs().flag("_is_training") {
        return Ok(Vec::new());
    }
    cx.visits += 1;
    if g.find(GLOBAL_STEP).is_some() {
        cx.refuse(GLOBAL_STEP, "the graph counts its steps already");
        return Ok(Vec::new());
    }
    let mut r = Rewriter::new(g);
    let desc = TensorDesc::new(DType::I64, Shape::scalar());
    let step = r.patch.add("Variable", GLOBAL_STEP, &[], vec![desc.clone()], AttrMap::default());
    if let Some(one) = ConstTensor::of(&[], &[1i64]) {
        let one = r.patch.constant(&format!("{GLOBAL_STEP}_one"), one);
        let next = format!("{GLOBAL_STEP}_next");
        r.patch.add("AssignAdd", &next, &[ValueRef::new(step, 0), one], vec![desc], AttrMap::default());
    }
    r.count();
    Ok(r.finish(cx))
}
