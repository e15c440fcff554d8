//! `ReplaceTransShapePass`: replaces a change of only the described shape by a `Reshape`.
//!
//! Before: `%y = TransShape(%x) : f32[6]`   After: `%y = Reshape(%x) {shape = [6]} : f32[6]`
//! When: all sizes of the output are known, and it has as many elements as the input.
//! Refuses: unknown sizes; another number of elements.
//! Keeps: name, inputs, control edges.
//! Source: facts 4.3 (PrepareOptimize). Cost: each node once.
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::{PassContext, Rewriter};
use ge_ir::Key;
use ge_plugin_api::patch::Edit;

node_pass!(
    ReplaceTransShapePass,
    O0,
    ["TransShape"],
    "`TransShape(x)` -> `Reshape(x)`",
    needs "known sizes, as many elements out as in",
    keeps "name, inputs, control edges",
    visit,
);

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let (Some(x), Some(y)) = (at.input_desc(0), at.n.outputs().first()) else { return Ok(()) };
    match (x.shape.count(), y.shape.count(), y.shape.sizes_i64()) {
        (Some(a), Some(b), Some(sizes)) if a == b => {
            r.patch.push(Edit::SetOp(at.n.id(), Key::new("Reshape")));
            r.patch.set_attr(at.n.id(), "shape", sizes);
            r.count();
        }
        (Some(a), Some(b), _) => cx.refuse(at.n.name(), format!("it makes {b} elements of {a}")),
        _ => cx.refuse(at.n.name(), "a size is not known"),
    }
    Ok(())
}
