//! `AssertPass`: removes assertions, because an inference checks none.
//!
//! Before: `%a = Assert(%ok, %x) : ()  %y = Relu(%x) after(%a)`   After: `%y = Relu(%x)`
//! When: always; `PrunePass` removes what only the assertion needed.
//! Refuses: an assertion with outputs.
//! Keeps: what waited for the assertion now waits for what the assertion waited for.
//! Source: facts 4.3 (inference graphs). Cost: each node once.
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::{PassContext, Rewriter};

node_pass!(
    AssertPass,
    O0,
    ["Assert"],
    "`Assert(ok, x)` -> nothing",
    needs "no outputs",
    keeps "the order of control edges",
    visit,
);

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    if at.n.outputs().is_empty() {
        r.drop_dead_end(at.n);
    } else {
        cx.refuse(at.n.name(), "it has outputs");
    }
    Ok(())
}
