//! `ComputedReshapePass`: a `Reshape` to sizes that are computed from its own input gets them as an
//! attribute, so that nothing has to compute them.
//!
//! Before: `%s = Shape(%x : f32[n,m,8])  …  %y = Reshape(%x, [n,m,2,4])`   After: `%y = Reshape(%x)
//! {shape = [0,0,2,4]}`
//! When: the wanted shape is no constant, and each of its sizes is a number, the size of the input
//! on the same axis (0), or, if all others are numbers above zero, the one determined by the number
//! of elements (-1).
//! Refuses: other sizes; a zero if zeros do not mean copies (`allowzero`); inputs of unknown rank.
//! Keeps: name, output, control edges. Nodes that computed the shape are removed if nothing else
//! reads them.
//! Source: ours. Cost: each node once.
use super::value::{Value, read};
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::{PassContext, Rewriter};
use ge_ir::{Dim, Key, TensorDesc};
use ge_plugin_api::patch::Edit;
use ge_plugin_api::types::Expr;

node_pass!(
    ComputedReshapePass,
    O3,
    ["Reshape"],
    "`Reshape(x : [n,m,8], [n,m,2,4])` of computed sizes -> `Reshape(x) {shape = [0,0,2,4]}`",
    needs "sizes that are numbers, those of the input at their places, or the one that is left",
    keeps "name, output, control edges",
    visit,
);

/// One entry of the attribute.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// The number; -1 stands for the size that is left.
    Number(i64),
    /// The size of the input on the same axis.
    Copy,
    /// A size other than that of the input on the same axis.
    Other,
}

fn place(v: &Value, own: Option<&Dim>, zeros_copy: bool) -> Option<Place> {
    match (v.settled(), &v.expr) {
        (Some(0), _) => zeros_copy.then_some(Place::Copy),
        (Some(n), _) => (n >= -1).then_some(Place::Number(n)),
        (None, Some(e)) => {
            let copied = own.is_some_and(|d| !d.is_known() && Expr::of(*d).as_ref() == Some(e));
            Some(if copied { Place::Copy } else { Place::Other })
        }
        (None, None) => None,
    }
}

/// The attribute that states the wanted shape.
///
/// # Errors
/// Returns the reason why no attribute can state it.
fn attribute(at: &At<'_>) -> Result<Vec<i64>, &'static str> {
    let x = at.input_desc(0).filter(|d| !d.shape.is_unranked()).ok_or("the rank of its input is not known")?;
    let zeros_copy = at.n.attrs().int("allowzero").unwrap_or(0) == 0;
    let values = read(at, 1).ok_or("its shape is not known to be made of sizes")?;
    let places = values.iter().enumerate().map(|(k, v)| place(v, x.shape.dims().get(k), zeros_copy));
    let places = places.collect::<Option<Vec<_>>>().ok_or("a place of its shape may be anything")?;
    let count = |p: Place| places.iter().filter(|q| **q == p).count();
    let fits = match (count(Place::Other), count(Place::Number(-1)), count(Place::Copy)) {
        (0, ..) => true,
        (1, 0, 0) => is_left(x, &values).unwrap_or(false),
        _ => false,
    };
    if !fits {
        return Err("its sizes stand elsewhere in its input, or nowhere");
    }
    let said = |p: &Place| match p {
        Place::Number(n) => *n,
        Place::Copy => 0,
        Place::Other => -1,
    };
    Ok(places.iter().map(said).collect())
}

/// Whether the wanted shape has as many elements as the input, whatever the sizes are.
fn is_left(x: &TensorDesc, values: &[Value]) -> Option<bool> {
    let times = |product: Expr, size: Option<Expr>| product.mul(&size?);
    let given = x.shape.dims().iter().map(|d| Expr::of(*d)).try_fold(Expr::from(1), times)?;
    let wanted = values.iter().map(|v| v.expr.clone()).try_fold(Expr::from(1), times)?;
    Some(given == wanted)
}

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let n = at.n;
    let Some(shape) = n.input(1).filter(|v| !v.is_absent()) else { return Ok(()) };
    if at.g.constant(shape).is_some() || n.attr("shape").is_some() {
        return Ok(());
    }
    match attribute(at) {
        Ok(list) => {
            r.patch.set_attr(n.id(), "shape", list);
            r.patch.push(Edit::RemoveAttr(n.id(), Key::new("allowzero")));
            r.patch.push(Edit::SetInputs(n.id(), n.inputs()[..1].into()));
            r.count();
        }
        Err(why) => cx.refuse(n.name(), why),
    }
    Ok(())
}
