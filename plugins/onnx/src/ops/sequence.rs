//! Sequences and optionals.
use super::{Outs, scalar, type_attr};
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::map_op;
use ge_plugin_api::types::DType;
use ge_plugin_api::types::tensor::Container;

fn empty(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let dtype = type_attr(n, "dtype")?.unwrap_or(DType::F32);
    Ok(vec![b.node("SequenceEmpty").name(&n.name).attr("dtype", dtype).build()])
}
map_op!("onnx", "ai.onnx", "SequenceEmpty", 11..=u32::MAX, empty);

fn construct(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    Ok(vec![b.node("SequenceConstruct").name(&n.name).inputs(&n.inputs).build()])
}
map_op!("onnx", "ai.onnx", "SequenceConstruct", 11..=u32::MAX, construct);

fn insert(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let d = b.node("SequenceInsert").name(&n.name).input(n.input(0)?).input(n.input(1)?);
    Ok(vec![d.opt_input(n.opt_input(2)).build()])
}
map_op!("onnx", "ai.onnx", "SequenceInsert", 11..=u32::MAX, insert);

fn erase(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    Ok(vec![b.node("SequenceErase").name(&n.name).input(n.input(0)?).opt_input(n.opt_input(1)).build()])
}
map_op!("onnx", "ai.onnx", "SequenceErase", 11..=u32::MAX, erase);

fn at(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    Ok(vec![b.node("SequenceAt").name(&n.name).input(n.input(0)?).input(n.input(1)?).build()])
}
map_op!("onnx", "ai.onnx", "SequenceAt", 11..=u32::MAX, at);

fn length(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    Ok(vec![b.node("SequenceLength").name(&n.name).input(n.input(0)?).build()])
}
map_op!("onnx", "ai.onnx", "SequenceLength", 11..=u32::MAX, length);

fn split(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let d = b.node("SplitToSequence").name(&n.name).input(n.input(0)?).opt_input(n.opt_input(1));
    Ok(vec![d.attr("axis", n.int_or("axis", 0)).attr("keepdims", n.int_or("keepdims", 1)).build()])
}
map_op!("onnx", "ai.onnx", "SplitToSequence", 11..=u32::MAX, split);

fn concat(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let d = b.node("ConcatFromSequence").name(&n.name).input(n.input(0)?);
    Ok(vec![d.attr("axis", n.int_or("axis", 0)).attr("new_axis", n.int_or("new_axis", 0)).build()])
}
map_op!("onnx", "ai.onnx", "ConcatFromSequence", 11..=u32::MAX, concat);

fn has(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    if n.opt_input(0).is_none() {
        return Ok(vec![scalar(b, "has", false)]);
    }
    // Only an optional can be empty.
    if n.desc(0).is_some_and(|d| matches!(d.container, Container::TENSOR | Container::SEQ)) {
        return Ok(vec![scalar(b, "has", true)]);
    }
    Ok(vec![b.node("OptionalHasElement").name(&n.name).opt_input(n.opt_input(0)).build()])
}
map_op!("onnx", "ai.onnx", "OptionalHasElement", 15..=u32::MAX, has);

fn get(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    // A tensor is its own element.
    if n.desc(0).is_some_and(|d| d.container == Container::TENSOR) {
        return Ok(vec![b.node("Identity").name(&n.name).input(n.input(0)?).build()]);
    }
    Ok(vec![b.node("OptionalGetElement").name(&n.name).input(n.input(0)?).build()])
}
map_op!("onnx", "ai.onnx", "OptionalGetElement", 15..=u32::MAX, get);

fn optional(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    Ok(vec![b.node("Optional").name(&n.name).opt_input(n.opt_input(0)).build()])
}
map_op!("onnx", "ai.onnx", "Optional", 15..=u32::MAX, optional);
