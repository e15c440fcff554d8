//! `AssignRemovePass`: removes the assignment of a variable's own value to itself.
//!
//! Before: `%a = Assign(%v, %v)`   After: reads of `%a` read `%v`
//! When: the value is the variable itself, or an `Identity` of it, and nothing writes in between
//! (no control edge).
//! Refuses: other values; control edges; another writer of the variable or of the assignment's
//! output.
//! Keeps: the variable.
//! Source: 003 §2.2, facts 4.5 (b). Cost: the readers of each variable that is assigned to itself.
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::{PassContext, Rewriter};
use ge_plugin_api::ops::flags;

node_pass!(
    AssignRemovePass,
    O3,
    ["Assign"],
    "`Assign(v, v)` -> `v`",
    needs "the variable's own value, no other writer, no control edge",
    keeps "the variable",
    visit,
);

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let (n, g) = (at.n, at.g);
    let (Some(v), Some(mut value)) = (n.input(0), n.input(1)) else { return Ok(()) };
    if let Some(copy) = g.get(value.node).filter(|c| c.op() == "Identity" && c.controls().is_empty()) {
        value = copy.input(0).unwrap_or(value);
    }
    if value != v {
        cx.refuse(n.name(), "it writes another value");
        return Ok(());
    }
    // A writer of this node's output is ordered after the reads of the variable only through this
    // node.
    let users = g.users(v).iter().chain(n.uses(0)).filter_map(|u| g.get(u.node));
    let writers = users.filter(|u| cx.op_flags(u) & flags::REFERENCE != 0);
    if writers.map(|u| u.id()).filter(|u| *u != n.id()).count() > 0
        || !n.controls().is_empty()
        || !n.control_users().is_empty()
    {
        cx.refuse(n.name(), "others write the variable, or control edges hold an order");
        return Ok(());
    }
    if n.outputs().is_empty() {
        r.drop_dead_end(n);
    } else {
        r.bypass(n, v);
    }
    Ok(())
}
