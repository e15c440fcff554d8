//! `SplitShapeNPass`: splits a query for several shapes into one for each.
//!
//! Before: `%a, %b = ShapeN(%x, %y)`   After: `%a = Shape(%x)  %b = Shape(%y)`
//! When: always; known shapes then become constants one by one.
//! Refuses: another number of outputs than of inputs.
//! Keeps: the order of control edges; the first takes the node's name.
//! Source: facts 4.3. Cost: each node once.
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::{PassContext, Rewriter};
use ge_ir::ValueRef;
use ge_plugin_api::patch::Edit;
use ge_plugin_api::types::AttrMap;

node_pass!(
    SplitShapeNPass,
    O0,
    ["ShapeN"],
    "`ShapeN(x, y)` -> `Shape(x)`, `Shape(y)`",
    needs "as many outputs as inputs",
    keeps "the order of control edges",
    visit,
);

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let n = at.n;
    if n.inputs().len() != n.outputs().len() {
        cx.refuse(n.name(), format!("{} inputs, {} outputs", n.inputs().len(), n.outputs().len()));
        return Ok(());
    }
    r.patch.push(Edit::SetName(n.id(), format!("{}__split", n.name()).into()));
    for (k, (v, d)) in n.inputs().iter().zip(n.outputs()).enumerate() {
        let mut attrs = AttrMap::default();
        attrs.set("dtype", d.dtype);
        let name = if k == 0 { n.name().to_owned() } else { format!("{}_{k}", n.name()) };
        let s = r.patch.add("Shape", &name, &[*v], vec![d.clone()], attrs);
        for c in n.controls() {
            r.patch.push(Edit::AddControl(*c, s));
        }
        for u in n.control_users() {
            r.patch.push(Edit::AddControl(s, *u));
        }
        r.patch.replace_uses(n.value(k as u32), ValueRef::new(s, 0));
    }
    r.remove(n.id());
    Ok(())
}
