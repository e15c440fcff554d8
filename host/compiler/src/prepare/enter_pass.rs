//! `EnterPass`: removes the entry of a constant into a loop, because it is the same in every
//! iteration.
//!
//! Before: `%e = Enter(%c) {is_constant = true}` over a `Const`   After: reads of `%c`
//! When: the input is a constant and no `NextIteration` returns another value.
//! Refuses: an input that is computed; a value that the loop changes (read by a `Merge`).
//! Keeps: the order of control edges.
//! Source: facts 4.3, 4.4 (1_2, 1). Cost: readers of each node once.
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::{PassContext, Rewriter};

node_pass!(
    EnterPass,
    O3,
    ["Enter", "RefEnter"],
    "`Enter(Const)` -> the `Const`",
    needs "a constant that the loop does not change",
    keeps "the order of control edges",
    visit,
);

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let n = at.n;
    let Some(c) = at.producer(0).filter(|p| p.is_const()) else {
        cx.refuse(n.name(), "its input is no constant");
        return Ok(());
    };
    if n.uses(0).iter().any(|u| at.g.get(u.node).is_some_and(|m| m.op().ends_with("Merge"))) {
        cx.refuse(n.name(), "the loop changes its value");
        return Ok(());
    }
    r.bypass(n, c.value(0));
    Ok(())
}
