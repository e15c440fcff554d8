//! `TransOpWithoutReshapeFusionPass`: shortens a chain of layout and type changes that returns to
//! the layout of an earlier value.
//!
//! Before: `%a = TransData(%x) %b = Cast(%a) : f32 %c = TransData(%b) back %d = Cast(%c) : f16`
//! After: reads of `%d` read `%x`
//! Before: the same without the last   After: `%c = Cast(%x) : f32`
//! When: the end has the layout of the start. If the types are equal too, the chain is removed;
//! otherwise it becomes one cast.
//! Refuses: casts in the chain that lose bits; transposes that are no change of layout; control
//! edges in the chain.
//! Keeps: values in the chain that have other readers; the name of the last node if a cast is left.
//! Source: facts 4.2 (AfterPrecisionRefine), 4.4 (1_1, 10). Cost: each node once, chains no longer
//! than 16.
use super::trans_ops::{is_trans_op, loses_nothing};
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::rewriter::same_desc;
use crate::pass::{PassContext, Rewriter};
use ge_ir::{DType, Key, TensorDesc, ValueRef};
use ge_plugin_api::patch::Edit;

node_pass!(
    TransOpWithoutReshapeFusionPass,
    O3,
    ["TransData", "Cast", "Transpose", "TransposeD"],
    "a chain of `TransData`, `Cast`, `Transpose` back to the layout of its start -> the start, or one `Cast`",
    needs "no cast that loses bits on the way, no control edge",
    keeps "values on the way that others read",
    visit,
);

/// Maximum length of a chain that is followed.
const LONGEST: usize = 16;

/// Whether the end of a chain has the value of its start, cast to the end's type. `types` are
/// listed from the end to the start.
fn keeps_values(types: &[DType]) -> bool {
    let (Some(end), Some(start)) = (types.first(), types.last()) else { return false };
    // Every type in between must hold all values of the start's type, up to the point from which
    // all types are the end's.
    let down = types.iter().take_while(|t| *t == end).count();
    types.iter().skip(down).all(|t| loses_nothing(*start, *t))
}

fn same_layout(a: &TensorDesc, b: &TensorDesc) -> bool {
    let mut c = a.clone();
    c.dtype = b.dtype;
    same_desc(&c, b)
}

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let (n, g) = (at.n, at.g);
    let Some(own) = n.outputs().first().filter(|_| is_trans_op(g, n)) else { return Ok(()) };
    // Earlier values with the same layout, nearest first, each with the number of types from the
    // end to it.
    let mut types: Vec<DType> = vec![own.dtype];
    let mut found: Vec<(ValueRef, usize)> = Vec::new();
    let mut at_node = n;
    while types.len() <= LONGEST && is_trans_op(g, at_node) && at_node.controls().is_empty() {
        let Some((x, d)) = at_node.input(0).and_then(|x| Some((x, g.desc(x)?))) else { break };
        types.push(d.dtype);
        if types.len() > 2 && same_layout(d, own) {
            found.push((x, types.len()));
        }
        let Some(p) = g.get(x.node) else { break };
        at_node = p;
    }
    if found.is_empty() {
        cx.refuse(n.name(), "no value before it has its layout");
        return Ok(());
    }
    let whole = |(_, len): &&(ValueRef, usize)| types.get(..*len).is_some_and(keeps_values);
    let legal: Vec<&(ValueRef, usize)> = found.iter().filter(whole).collect();
    if let Some((x, _)) = legal.iter().rev().find(|(_, len)| types.get(len - 1) == Some(&own.dtype)) {
        r.bypass(n, *x);
        return Ok(());
    }
    let Some((x, _)) = legal.last().copied().copied() else {
        cx.refuse(n.name(), "a cast on the way loses bits");
        return Ok(());
    };
    if n.op() == "Cast" && n.input(0) == Some(x) {
        return Ok(());
    }
    r.patch.push(Edit::SetOp(n.id(), Key::new("Cast")));
    r.patch.push(Edit::SetInputs(n.id(), vec![x].into()));
    for key in ["src_format", "dst_format", "groups", "perm"] {
        if n.attr(key).is_some() {
            r.patch.push(Edit::RemoveAttr(n.id(), Key::new(key)));
        }
    }
    r.patch.set_attr(n.id(), "dst_type", own.dtype);
    r.count();
    Ok(())
}
