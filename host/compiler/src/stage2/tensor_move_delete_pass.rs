//! `TensorMoveDeletePass`: removes a move whose source has no other reader.
//!
//! Before: `%y = TensorMove(%x)`   After: reads of `%x`
//! When: the move is the only reader of a computed value of the same type and shape.
//! Refuses: sources (inputs, constants, variables); further readers; control edges.
//! Keeps: names; graph outputs.
//! Source: facts 4.2 (OptimizeTensorMove). Cost: each move once.
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::rewriter::same_desc;
use crate::pass::{PassContext, Rewriter};

node_pass!(
    TensorMoveDeletePass,
    O3,
    ["TensorMove"],
    "`TensorMove(x)` whose source nobody else reads -> `x`",
    needs "a computed value that the move alone reads; no control edge",
    keeps "names; graph outputs",
    visit,
);

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let n = at.n;
    let (Some(x), Some(p), Some(own)) = (n.input(0), at.producer(0), n.outputs().first()) else { return Ok(()) };
    let why = if p.inputs().is_empty() {
        "its source is no computed value"
    } else if at.g.users(x).len() != 1 {
        "others read its source"
    } else if !n.controls().is_empty() || !n.control_users().is_empty() {
        "its control edges hold an order"
    } else if !at.g.desc(x).is_some_and(|d| same_desc(d, own)) {
        "its source has another type or shape"
    } else {
        r.bypass(n, x);
        return Ok(());
    };
    cx.refuse(n.name(), why);
    Ok(())
}
