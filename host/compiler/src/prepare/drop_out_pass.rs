//! `DropOutPass`: removes dropouts, because an inference drops nothing.
//!
//! Before: `%y, %mask = DropoutV3(%x)`   After: reads of `%x`
//! When: the operator is a dropout, and its mask has no reader.
//! Refuses: a mask that is read; a training flag that is set or computed.
//! Keeps: the order of control edges; graph outputs.
//! Source: facts 4.3 (PrepareOptimize). Cost: each node once.
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::{PassContext, Rewriter};

node_pass!(
    DropOutPass,
    O1,
    ["Dropout", "DropoutV2", "DropoutV3"],
    "`Dropout(x)` -> `x`",
    needs "an unread mask; no training flag, or a constant false one",
    keeps "the order of control edges; graph outputs",
    visit,
);

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let n = at.n;
    let Some(x) = n.input(0) else { return Ok(()) };
    if (1..n.outputs().len()).any(|k| !n.uses(k).is_empty()) {
        cx.refuse(n.name(), "its mask is read");
        return Ok(());
    }
    if n.op() == "DropoutV3" {
        if let Some(flag) = n.input(2).filter(|v| !v.is_absent()) {
            let off = at.g.constant(flag).and_then(|t| t.bytes()).is_some_and(|b| b.iter().all(|b| *b == 0));
            if !off {
                cx.refuse(n.name(), "it is training, or may be");
                return Ok(());
            }
        }
    }
    match (at.g.desc(x), n.outputs().first()) {
        (Some(d), Some(own)) if d.dtype == own.dtype => r.bypass(n, x),
        _ => cx.refuse(n.name(), "its output has another type"),
    }
    Ok(())
}
