//! Sequences and optionals: values that hold tensors. They live on the host, and a graph that has
//! one is scheduled there.
//!
//! * `SequenceEmpty() {dtype, element}`, where `element` is the declared shape of what a loop will
//!   append (-1: unknown size), `SequenceConstruct(x...)`, `SequenceInsert(s, x, position?)`,
//!   `SequenceErase(s, position?)`, `SequenceAt(s, position)`, `SequenceLength(s)`.
//! * `SplitToSequence(x, split?) {axis = 0, keepdims = 1}`: parts along an axis. Without `split`
//!   the parts have one element each, and `keepdims` 0 removes their axis.
//!   `ConcatFromSequence(s) {axis, new_axis = 0}` joins them, along a new axis if `new_axis` is 1.
//! * `Optional(x?) {dtype}`, `OptionalHasElement(x?)`, `OptionalGetElement(x)`.
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef};
use ge_plugin_api::register_ops;
use ge_plugin_api::types::dtype::{ANY, INDEX};
use ge_plugin_api::types::tensor::Container;
use ge_plugin_api::types::{AttrValue, DType, Shape, TensorDesc};

fn sequence(dtype: DType) -> TensorDesc {
    TensorDesc { container: Container::SEQ, ..TensorDesc::new(dtype, Shape::unranked()) }
}
fn stated(c: &InferCtx<'_>) -> DType {
    match c.node.attr("dtype") {
        Some(AttrValue::Type(t)) => *t,
        _ => DType::UNKNOWN,
    }
}
/// The first known type among inputs that have the same type; unknown if there is none.
fn element(c: &InferCtx<'_>, inputs: std::ops::Range<usize>) -> DType {
    let types = inputs.filter_map(|i| c.opt_input(i)).map(|d| d.dtype);
    types.into_iter().find(|t| *t != DType::UNKNOWN).unwrap_or(DType::UNKNOWN)
}
fn empty(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    Ok(vec![sequence(stated(c))])
}
fn construct(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    Ok(vec![sequence(element(c, 0..c.input_count()))])
}
fn insert(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    Ok(vec![sequence(element(c, 0..2))])
}
fn of_first(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    Ok(vec![sequence(element(c, 0..1))])
}
fn tensor(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    Ok(vec![TensorDesc::new(element(c, 0..1), Shape::unranked())])
}
fn length(_: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    Ok(vec![TensorDesc::new(DType::I64, Shape::scalar())])
}
fn optional(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let dtype = c.opt_input(0).map_or_else(|| stated(c), |d| d.dtype);
    let seq = c.opt_input(0).is_some_and(|d| d.container == Container::SEQ);
    let container = if seq { Container::OPT_SEQ } else { Container::OPT };
    Ok(vec![TensorDesc { container, ..TensorDesc::new(dtype, Shape::unranked()) }])
}
fn has(_: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    Ok(vec![TensorDesc::new(DType::BOOL, Shape::scalar())])
}
fn get(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let d = c.input(0)?;
    Ok(vec![match d.container {
        Container::SEQ | Container::OPT_SEQ => sequence(d.dtype),
        Container::TENSOR => TensorDesc::new(d.dtype, d.shape.clone()),
        _ => TensorDesc::new(d.dtype, Shape::unranked()),
    }])
}

fn defs() -> Vec<OpDef> {
    let op = |name: &str, f| OpDef::new(name, f);
    vec![
        op("SequenceEmpty", empty)
            .output("y", ANY, "")
            .opt_attr("dtype", AttrKind::TYPE)
            .opt_attr("element", AttrKind::INTS),
        op("SequenceConstruct", construct).dynamic("x", ANY, "T").output("y", ANY, "T"),
        op("SequenceInsert", insert)
            .input("s", ANY, "T")
            .input("x", ANY, "T")
            .opt("position", INDEX, "")
            .output("y", ANY, "T"),
        op("SequenceErase", of_first).input("s", ANY, "T").opt("position", INDEX, "").output("y", ANY, "T"),
        op("SequenceAt", tensor).input("s", ANY, "T").input("position", INDEX, "").output("y", ANY, "T"),
        op("SequenceLength", length).input("s", ANY, "").output("y", &[DType::I64], ""),
        op("SplitToSequence", of_first)
            .input("x", ANY, "T")
            .opt("split", INDEX, "")
            .output("y", ANY, "T")
            .attr("axis", AttrKind::INT, 0i64)
            .attr("keepdims", AttrKind::INT, 1i64),
        op("ConcatFromSequence", tensor)
            .input("s", ANY, "T")
            .output("y", ANY, "T")
            .attr("axis", AttrKind::INT, 0i64)
            .attr("new_axis", AttrKind::INT, 0i64),
        op("Optional", optional).opt("x", ANY, "T").output("y", ANY, "T").opt_attr("dtype", AttrKind::TYPE),
        op("OptionalHasElement", has).opt("x", ANY, "").output("y", &[DType::BOOL], ""),
        op("OptionalGetElement", get).input("x", ANY, "T").output("y", ANY, "T"),
    ]
}
register_ops!(defs);
