//! `CondPass`: converts a condition to one bool.
//!
//! Before: `%y = If(%c : f32, ...)`   After: `%b = Cast(%c) : bool  %y = If(%b, ...)`
//! Before: `%y = If(%c : f32[3], ...)`   After: a `Const` that says whether `%c` has elements
//! When: the condition of an `If`, or the result of the condition graph of a `While`, has another
//! type than bool, or not exactly one element. In the latter case it is true if it has any element.
//! Refuses: unknown shapes; conditions that are one bool.
//! Keeps: everything but the edge of the condition.
//! Source: facts 4.3 (PrepareOptimize). Cost: each node once.
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::{PassContext, Rewriter};
use ge_ir::{ConstTensor, DType, Graph, Node, TensorDesc, ValueRef};
use ge_plugin_api::patch::Edit;
use ge_plugin_api::types::AttrMap;

node_pass!(
    CondPass,
    O0,
    ["If", "StatelessIf", "While", "StatelessWhile"],
    "a condition of any type -> one `bool`",
    needs "a known shape and a type other than bool",
    keeps "everything but the edge of the condition",
    visit,
);

fn boolean(r: &mut Rewriter<'_>, value: ValueRef, d: &TensorDesc, name: &str) -> Result<ValueRef, &'static str> {
    let count = d.shape.count().ok_or("the shape of its condition is not known")?;
    if count != 1 {
        let t = ConstTensor::splat(DType::BOOL, &[], &[u8::from(count > 0)]).ok_or("no constant")?;
        return Ok(r.patch.constant(&format!("{name}_any"), t));
    }
    if d.dtype == DType::BOOL {
        return Err("its condition is one bool");
    }
    if !d.dtype.is_float() && !d.dtype.is_int() {
        return Err("its condition is no number");
    }
    let mut attrs = AttrMap::default();
    attrs.set("dst_type", DType::BOOL);
    let out = TensorDesc::new(DType::BOOL, d.shape.clone());
    Ok(ValueRef::new(r.patch.add("Cast", &format!("{name}_bool"), &[value], vec![out], attrs), 0))
}

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let n = at.n;
    if n.op().ends_with("If") {
        let (Some(v), Some(d)) = (n.input(0), at.input_desc(0)) else { return Ok(()) };
        match boolean(r, v, d, &format!("{}_cond", n.name())) {
            Ok(b) => {
                r.patch.set_input(n.id(), 0, b);
                r.count();
            }
            Err(why) => cx.refuse(n.name(), why),
        }
        return Ok(());
    }
    let Some(ge_ir::AttrValue::Graph(name)) = n.attr("cond") else { return Ok(()) };
    let cond: Option<&Graph> = at.model.graph(name);
    let Some((cond, out)) = cond.and_then(|c| Some((c, c.net_output()?))) else { return Ok(()) };
    within(cx, at, cond, out, r);
    Ok(())
}

fn within(cx: &mut PassContext<'_>, at: &At<'_>, cond: &Graph, out: &Node, r: &mut Rewriter<'_>) {
    let (Some(v), Some(d)) = (out.input(0), cond.input_desc(out, 0)) else { return };
    let mut inner = Rewriter::new(cond);
    match boolean(&mut inner, v, d, &format!("{}_cond", at.n.name())) {
        Ok(b) => {
            inner.patch.set_input(out.id(), 0, b);
            inner.count();
            let host = at.g.name();
            r.patch.push(Edit::InGraph(cond.name().into()));
            for e in inner.into_rewrite(cx).edits {
                r.patch.push(e);
            }
            r.patch.push(Edit::InGraph(host.into()));
        }
        Err(why) => cx.refuse(at.n.name(), why),
    }
}
