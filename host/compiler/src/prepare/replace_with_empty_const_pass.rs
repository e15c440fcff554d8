//! `ReplaceWithEmptyConstPass`: replaces nodes whose outputs have no elements by empty constants.
//!
//! Before: `%y = MatMul(%a : f32[0,4], %b) : f32[0,8]`   After: `%y = Const() {value =
//! dense<f32[0,8]: >}`
//! When: every output has known sizes and one of them is 0.
//! Refuses: operators that are random, stateful, communicate or write in place; nodes with
//! subgraphs; outputs in a run-time format.
//! Keeps: the node's name.
//! Source: facts 4.3, 4.4 (1_2, 11). Cost: each node once.
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::{PassContext, Rewriter};
use ge_ir::verify::STRUCTURE;
use ge_ir::{ConstTensor, DType, TensorDesc};
use ge_plugin_api::ops::flags;
use ge_plugin_api::types::{Blob, bytes_of_strings};

node_pass!(
    ReplaceWithEmptyConstPass,
    O1,
    [],
    "a node whose outputs have no elements -> empty `Const`",
    needs "known sizes, one of them 0 in each output",
    keeps "the node's name; operators with effects",
    visit,
);

fn empty(d: &TensorDesc) -> bool {
    d.shape.count() == Some(0)
}

/// The constant without elements; strings have their table of offsets even so.
fn constant(d: &TensorDesc) -> Option<ConstTensor> {
    let bytes = match d.dtype {
        DType::STRING => Blob::from_owner(bytes_of_strings::<&str>(&[])),
        _ => Blob::empty(),
    };
    ConstTensor::new(d.dtype, &d.shape.sizes()?, bytes)
}

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let n = at.n;
    if n.outputs().is_empty() || !n.outputs().iter().all(empty) || n.is_const() || STRUCTURE.contains(&n.op()) {
        return Ok(());
    }
    if cx.op_flags(n) & (flags::RANDOM | flags::STATEFUL | flags::COMMUNICATION | flags::REFERENCE) != 0
        || !n.subgraphs().is_empty()
    {
        cx.refuse(n.name(), "it acts beyond its outputs");
        return Ok(());
    }
    if n.outputs().iter().any(|d| d.format != d.origin_format()) {
        cx.refuse(n.name(), "an output has a run-time format");
        return Ok(());
    }
    if let Some(made) = n.outputs().iter().map(constant).collect() {
        r.fold(n, made);
    }
    Ok(())
}
