//! Variables. `Assign(ref, value)`, `AssignAdd`, `AssignSub`: output 0 is the variable itself,
//! whose value persists between runs.
//!
//! Optimizer steps update several variables: in `ApplyMomentum(var, accum, lr, grad, momentum)` and
//! `ApplyAdam(var, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad)` output k is
//! input k. Outputs that the model leaves out are added when the graph is read.
//! `VarIsInitializedOp(var)` returns whether a variable has a value. `RefIdentity(ref)` is another
//! name for a variable.
use crate::dims;
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef, flags::*, infer};
use ge_plugin_api::register_ops;
use ge_plugin_api::types::dtype::{ANY, FLOATS, NUMERIC};
use ge_plugin_api::types::{DType, Shape, TensorDesc};

fn assign(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let mut d = c.like(0)?;
    d.shape = dims::equal_shapes("input 1 `value`", &d.shape, &c.input(1)?.shape)?;
    Ok(vec![d])
}

/// Each output is the input with the same number. The gradient and the other updated inputs must
/// have the variable's shape.
fn step(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let (grad, states) = match c.node.op() {
        "ApplyGradientDescent" => (2, 1),
        "ApplyMomentum" => (3, 2),
        _ => (9, 3),
    };
    let shape = c.input(0)?.shape.clone();
    for i in (1..states).chain([grad]) {
        dims::equal_shapes(&format!("input {i}"), &shape, &c.input(i)?.shape)?;
    }
    (0..c.node.outputs().len().clamp(1, states)).map(|k| c.like(k)).collect()
}
fn initialized(_: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    Ok(vec![TensorDesc::new(DType::BOOL, Shape::scalar())])
}

fn defs() -> Vec<OpDef> {
    let op = |name: &str, types| {
        OpDef::new(name, assign)
            .input("ref", types, "T")
            .input("value", types, "T")
            .output("ref", types, "T")
            .flags(STATEFUL | REFERENCE)
    };
    let one = |d: OpDef, names: &[&str]| names.iter().fold(d, |d, n| d.input(n, FLOATS, "T"));
    let nesterov = |d: OpDef| d.attr("use_nesterov", AttrKind::BOOL, false).attr("use_locking", AttrKind::BOOL, false);
    let asks = |name: &str| {
        OpDef::new(name, initialized).input("x", ANY, "").output("y", &[DType::BOOL], "").flags(STATEFUL | NAMES_INPUT)
    };
    vec![
        op("Assign", ANY),
        op("AssignAdd", NUMERIC),
        op("AssignSub", NUMERIC),
        one(OpDef::new("ApplyGradientDescent", step), &["var", "alpha", "delta"])
            .attr("use_locking", AttrKind::BOOL, false)
            .output("var", FLOATS, "T")
            .flags(STATEFUL | REFERENCE),
        nesterov(one(OpDef::new("ApplyMomentum", step), &["var", "accum", "lr", "grad", "momentum"]))
            .output("var", FLOATS, "T")
            .opt_output("accum", FLOATS, "T")
            .flags(STATEFUL | REFERENCE | REFERENCE_1),
        nesterov(one(
            OpDef::new("ApplyAdam", step),
            &["var", "m", "v", "beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon", "grad"],
        ))
        .output("var", FLOATS, "T")
        .opt_output("m", FLOATS, "T")
        .opt_output("v", FLOATS, "T")
        .flags(STATEFUL | REFERENCE | REFERENCE_1 | REFERENCE_2),
        asks("VarIsInitializedOp"),
        asks("IsVariableInitialized"),
        OpDef::new("RefIdentity", infer::same).input("x", ANY, "T").output("y", ANY, "T").flags(STATEFUL),
    ]
}
register_ops!(defs);
