//! `UnusedConstPass`: removes constants that have no readers.
//!
//! Before: `%c = Const() {value = ...}` without a reader   After: nothing
//! When: no data edge and no control edge leaves it.
//! Refuses: nothing.
//! Keeps: the order, because nothing waits for such a constant.
//! Source: facts 4.3 and 4.5 (RemoveIsolatedConst). Cost: each constant once.
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::{PassContext, Rewriter};

node_pass!(
    UnusedConstPass,
    O1,
    ["Const", "Constant", "FileConstant"],
    "`Const` without readers -> nothing",
    needs "no data and no control edge out of it",
    keeps "all else",
    visit,
);

fn visit(_: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    if at.n.uses(0).is_empty() && at.n.control_users().is_empty() {
        r.remove(at.n.id());
    }
    Ok(())
}
