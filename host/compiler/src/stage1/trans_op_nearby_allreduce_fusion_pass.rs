//! `TransOpNearbyAllreduceFusionPass`: removes a change of layout before a collective and its
//! inverse after it, because ranks add their values elementwise in any layout.
//!
//! Before: `%a = TransData(%x)  %s = HcomAllReduce(%a)  %y = TransData(%s)` back to the layout of
//! `%x`   After: `%s = HcomAllReduce(%x)`
//! When: the second change undoes the first, and each is read once.
//! Refuses: other layouts at the end; further readers; control edges.
//! Keeps: the collective's name and attributes.
//! Source: facts 4.4 (1_2, 10). Cost: each collective once.
use super::trans_ops::is_layout_change;
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::rewriter::same_desc;
use crate::pass::{PassContext, Rewriter};
use ge_plugin_api::patch::Edit;

node_pass!(
    TransOpNearbyAllreduceFusionPass,
    O3,
    ["HcomAllReduce"],
    "`TransData(HcomAllReduce(TransData(x)))` back to the start -> `HcomAllReduce(x)`",
    needs "a change of layout before it and its inverse behind it, each read once",
    keeps "the collective's name and attributes",
    visit,
);

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let (n, g) = (at.n, at.g);
    let Some(before) = at.producer(0).filter(|t| is_layout_change(g, t)) else {
        cx.refuse(n.name(), "no change of layout leads to it");
        return Ok(());
    };
    let behind = match n.uses(0) {
        [u] => g.get(u.node).filter(|t| is_layout_change(g, t)),
        _ => None,
    };
    let Some(behind) = behind.filter(|_| n.inputs().len() == 1) else {
        cx.refuse(n.name(), "no change of layout alone reads it");
        return Ok(());
    };
    let plain = [before, n, behind].iter().all(|n| n.controls().is_empty() && n.control_users().is_empty());
    if !plain || before.uses(0).len() != 1 {
        cx.refuse(n.name(), "others read what is changed, or control edges hang on it");
        return Ok(());
    }
    let (Some(x), Some(d), Some(end)) = (before.input(0), g.input_desc(before, 0), behind.outputs().first()) else {
        return Ok(());
    };
    if !same_desc(d, end) {
        cx.refuse(n.name(), "the change behind it does not undo the one before it");
        return Ok(());
    }
    r.patch.set_input(n.id(), 0, x);
    r.patch.push(Edit::SetOutput(n.id(), 0, end.clone()));
    r.patch.replace_uses(behind.value(0), n.value(0));
    r.remove(behind.id());
    r.remove(before.id());
    Ok(())
}
