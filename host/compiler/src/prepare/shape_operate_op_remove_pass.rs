//! `ShapeOperateOpRemovePass`: removes nodes that a front end has marked as superfluous.
//!
//! Before: `%y = Reshape(%x, %s) {to_be_deleted = true}`   After: reads of `%x`
//! When: the node has one output and the mark.
//! Refuses: an output of another type than the input.
//! Keeps: the order of control edges; graph outputs.
//! Source: facts 4.3 (PrepareOptimize). Cost: each node once.
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::rewriter::step_over;
use crate::pass::{PassContext, Rewriter};

node_pass!(
    ShapeOperateOpRemovePass,
    O0,
    [],
    "a node with `to_be_deleted = true` -> its input",
    needs "one output of the input's type",
    keeps "the order of control edges; graph outputs",
    visit,
);

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    if at.n.attrs().flag("to_be_deleted") && at.n.outputs().len() == 1 {
        return step_over(cx, at, r);
    }
    Ok(())
}
