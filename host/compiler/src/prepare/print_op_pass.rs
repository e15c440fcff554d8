//! `PrintOpPass`: removes prints, because an inference prints nothing.
//!
//! Before: `%y = Print(%x, %shown)`   After: reads of `%x`; `PrintV2(%shown) : ()` is removed
//! When: always.
//! Refuses: outputs of another type than the input.
//! Keeps: the order of control edges; graph outputs.
//! Source: facts 4.3 (PrepareOptimize). Cost: each node once.
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::rewriter::step_over;
use crate::pass::{PassContext, Rewriter};

node_pass!(
    PrintOpPass,
    O0,
    ["Print", "PrintV2", "PrintV3"],
    "`Print(x, ...)` -> `x`",
    needs "input and output of one type, or no output",
    keeps "the order of control edges; graph outputs",
    visit,
);

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    if at.n.outputs().is_empty() {
        r.drop_dead_end(at.n);
        return Ok(());
    }
    step_over(cx, at, r)
}
