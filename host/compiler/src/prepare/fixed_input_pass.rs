//! `FixedInputPass`: replaces an input whose value is given at compile time by a constant for its
//! readers.
//!
//! Before: `%sr = Data() {_fixed_value = dense<i64[]: 16000>, index = 2}  %y = Equal(%sr, %c)`
//! After: the same input without readers, and `%y = Equal(Const(16000), %c)`
//! When: a `Data` of the model has `_fixed_value`.
//! Refuses: inputs of subgraphs, whose values come from their callers.
//! Keeps: the input with its number and its value; a run with another value is refused.
//! Source: 003 §8 (constants settle shapes). Cost: each node once.
use crate::error::{CompileError, Result};
use crate::pass::declare::{At, node_pass};
use crate::pass::{PassContext, Rewriter};
use ge_ir::{AttrValue, DType};
use ge_plugin_api::diagnostic::Diagnostic;

node_pass!(
    FixedInputPass,
    O0,
    ["Data"],
    "`Data {_fixed_value}` -> its readers read a `Const`",
    needs "an input of the model, a value of its type and shape",
    keeps "the input, its number and its value",
    visit,
);

/// The attribute that holds the value.
pub const FIXED: &str = "_fixed_value";

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let n = at.n;
    let Some(AttrValue::Tensor(value)) = n.attr(FIXED) else { return Ok(()) };
    if at.gi != 0 {
        cx.refuse(n.name(), "its graph's caller gives it");
        return Ok(());
    }
    if let Some(d) = n.outputs().first() {
        let given = value.desc();
        let same_type = d.dtype == given.dtype || d.dtype == DType::UNKNOWN;
        let sizes = d.shape.dims().iter().zip(given.shape.dims());
        let same_shape = d.shape.is_unranked()
            || d.shape.rank() == given.shape.rank() && sizes.into_iter().all(|(a, b)| !a.is_known() || a == b);
        if !same_type || !same_shape {
            return Err(CompileError::model(
                ge_codes::INPUT,
                Diagnostic::error(format!("the value given for input `{}` does not fit it", n.name()))
                    .node(n.name(), n.op())
                    .found(format!("{}{}", given.dtype, given.shape), format!("{}{}", d.dtype, d.shape)),
            ));
        }
    }
    if n.uses(0).is_empty() {
        return Ok(());
    }
    let c = r.patch.constant(&format!("{}__given", n.name()), value.clone());
    r.patch.replace_uses(n.value(0), c);
    r.count();
    Ok(())
}
