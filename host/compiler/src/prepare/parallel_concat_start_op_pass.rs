//! `ParallelConcatStartOpPass`: replaces the empty tensor into which parallel pieces are written by
//! a constant.
//!
//! Before: `%p = _ParallelConcatStart() {shape = [2, 3], dtype = f32}`   After: `%p = Const()
//! {value = dense<f32[2,3]: splat 0>}`
//! When: shape and type are given and known.
//! Refuses: an unknown size.
//! Keeps: the node's name.
//! Source: facts 4.3 (PrepareOptimize). Cost: each node once; a splat holds one element.
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::{PassContext, Rewriter};
use ge_ir::ConstTensor;

node_pass!(
    ParallelConcatStartOpPass,
    O0,
    ["_ParallelConcatStart", "ParallelConcatStart"],
    "`_ParallelConcatStart {shape, dtype}` -> `Const` of zeros",
    needs "a known shape and type",
    keeps "the node's name",
    visit,
);

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let Some(d) = at.n.outputs().first() else { return Ok(()) };
    let dims = match at.n.attrs().ints("shape") {
        Some(s) => s.iter().map(|v| u64::try_from(*v).ok()).collect::<Option<Vec<u64>>>(),
        None => d.shape.sizes(),
    };
    let zero = d.dtype.bytes_of(1).and_then(|b| usize::try_from(b).ok()).map(|b| vec![0u8; b]);
    match dims.zip(zero).and_then(|(dims, z)| ConstTensor::splat(d.dtype, &dims, &z)) {
        Some(t) => r.fold(at.n, vec![t]),
        None => cx.refuse(at.n.name(), "its shape or type is not known"),
    }
    Ok(())
}
