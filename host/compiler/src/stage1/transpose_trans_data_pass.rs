//! `TransposeTransDataPass`: merges a transpose between two orders of axes and the change of layout
//! after it into one change of layout.
//!
//! Before: `%t = TransposeD(%x : @NHWC) {perm = [0, 3, 1, 2]} : @NCHW  %y = TransData(%t) :
//! @NC1HWC0`
//! After: `%y = TransData(%x) {src_format = "NHWC"} : @NC1HWC0`
//! When: the transpose moves each axis to the position of its letter.
//! Refuses: transposes that are no change of layout (format ND, another permutation); control edges
//! at the transpose.
//! Keeps: the transpose if it has other readers; name and output of the `TransData`.
//! Source: facts 4.4 (1_2, 7). Cost: each node once.
use super::trans_ops::is_layout_change;
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::{PassContext, Rewriter};

node_pass!(
    TransposeTransDataPass,
    O3,
    ["TransData"],
    "`TransData(Transpose(x))` -> `TransData(x)`",
    needs "a transpose that moves each axis to where its letter stands",
    keeps "the transpose where others read it",
    visit,
);

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let n = at.n;
    let Some(t) = at.producer(0).filter(|t| matches!(t.op(), "Transpose" | "TransposeD")) else {
        cx.refuse(n.name(), "it reads no transpose");
        return Ok(());
    };
    if !is_layout_change(at.g, t) {
        cx.refuse(n.name(), format!("`{}` moves axes for a reason", t.name()));
        return Ok(());
    }
    if !t.controls().is_empty() || !t.control_users().is_empty() {
        cx.refuse(n.name(), format!("control edges hang on `{}`", t.name()));
        return Ok(());
    }
    let (Some(x), Some(d)) = (t.input(0), at.g.input_desc(t, 0)) else { return Ok(()) };
    r.patch.set_input(n.id(), 0, x);
    r.patch.set_attr(n.id(), "src_format", d.format.name());
    if t.uses(0).len() == 1 {
        r.remove(t.id());
    } else {
        r.count();
    }
    Ok(())
}
