//! `VarIsInitializedOpPass`: replaces the query whether a variable is initialized by true, because
//! every variable has a value from the start.
//!
//! Before: `%b = VarIsInitializedOp(%v)` over a `Variable`   After: `%b = Const() {value = true}`
//! When: the input is a variable. Until it is assigned, it is zero or the value of its
//! `init_value`.
//! Refuses: an input that is no variable.
//! Keeps: the node's name; the variable.
//! Source: facts 4.3 (PrepareOptimize). Cost: each node once.
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::{PassContext, Rewriter};
use ge_ir::{ConstTensor, DType};

node_pass!(
    VarIsInitializedOpPass,
    O0,
    ["VarIsInitializedOp", "IsVariableInitialized"],
    "`VarIsInitializedOp(v)` -> `true`",
    needs "a `Variable` as input",
    keeps "the node's name; the variable",
    visit,
);

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    if at.producer(0).is_none_or(|p| p.op() != "Variable") {
        cx.refuse(at.n.name(), "its input is no variable");
        return Ok(());
    }
    if let Some(t) = ConstTensor::splat(DType::BOOL, &[], &[1]) {
        r.fold(at.n, vec![t]);
    }
    Ok(())
}
