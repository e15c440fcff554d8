//! `DimensionAdjustPass`: turns the position of a new axis into an attribute if it is a constant.
//!
//! Before: `%y = ExpandDims(%x, %axis)` over a `Const`   After: `%y = Unsqueeze(%x) {axes =
//! [axis]}`
//! When: the axis is a constant of one element within the output's rank.
//! Refuses: an axis that is computed, or out of range.
//! Keeps: name, output, control edges; the constant for other readers.
//! Source: facts 4.4 (1_2, 15), 4.5 (b). Cost: each node once.
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::{PassContext, Rewriter};
use ge_ir::Key;
use ge_plugin_api::patch::Edit;

node_pass!(
    DimensionAdjustPass,
    O1,
    ["ExpandDims"],
    "`ExpandDims(x, Const)` -> `Unsqueeze(x) {axes}`",
    needs "an axis that is a constant of one element, within the rank",
    keeps "name, output, control edges",
    visit,
);

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let n = at.n;
    let given = n.attrs().int("axis");
    let axis = given.or_else(|| at.g.constant(n.input(1)?)?.to_i64(1)?.first().copied());
    let (Some(axis), Some(x)) = (axis, n.input(0)) else {
        cx.refuse(n.name(), "its axis is computed");
        return Ok(());
    };
    let Some(rank) = n.outputs().first().and_then(|d| d.shape.rank()).and_then(|r| i64::try_from(r).ok()) else {
        cx.refuse(n.name(), "its rank is not known");
        return Ok(());
    };
    let place = if axis < 0 { axis + rank } else { axis };
    if !(0..rank).contains(&place) {
        cx.refuse(n.name(), format!("axis {axis} is not within rank {rank}"));
        return Ok(());
    }
    r.patch.push(Edit::SetOp(n.id(), Key::new("Unsqueeze")));
    r.patch.push(Edit::SetInputs(n.id(), vec![x].into()));
    r.patch.push(Edit::RemoveAttr(n.id(), Key::new("axis")));
    r.patch.set_attr(n.id(), "axes", vec![place]);
    r.count();
    Ok(())
}
