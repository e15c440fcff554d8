//! Structural operators: data, constants, identities, copies, and what control flow, streams,
//! events and labels are made of.
//!
//! The host handles these types itself (DESIGN 1); the prototypes tell it their arity, attributes
//! and flags. `Identity(x)` is a view of x. `GearView(x)` is the memory of `x` under another shape,
//! which may take fewer or more bytes. `IdentityN(x...)`; `MemcpyAsync(x)` copies; `NoOp` does
//! nothing.
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef, flags::*, infer};
use ge_plugin_api::register_ops;
use ge_plugin_api::types::TensorDesc;
use ge_plugin_api::types::dtype::ANY;

fn stated(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    Ok(c.node.outputs().to_vec())
}
fn constant(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    Ok(match c.node.attr("value") {
        Some(ge_plugin_api::types::AttrValue::Tensor(t)) => vec![t.desc()],
        _ => c.node.outputs().to_vec(),
    })
}
fn each(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    (0..c.input_count()).map(|i| c.like(i)).collect()
}
fn switch(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    Ok(vec![c.like(0)?, c.like(0)?])
}
fn merge(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let index = TensorDesc::new(ge_plugin_api::types::DType::I32, ge_plugin_api::types::Shape::scalar());
    Ok(vec![c.like(0)?, index])
}

fn defs() -> Vec<OpDef> {
    let (i, s) = (AttrKind::INT, AttrKind::STRING);
    let source = |name: &str, f| OpDef::new(name, f).output("y", ANY, "");
    let through = |name: &str| OpDef::new(name, infer::same).input("x", ANY, "T").output("y", ANY, "T");
    let task = |name: &str| OpDef::new(name, stated).flags(STATEFUL);
    vec![
        source("Data", stated).opt("x", ANY, "").opt_attr("index", i),
        source("RefData", stated).opt("x", ANY, "").opt_attr("index", i),
        source("AippData", stated).opt("x", ANY, "").opt_attr("index", i),
        source("Const", constant).opt_attr("value", AttrKind::TENSOR),
        source("Constant", constant).opt_attr("value", AttrKind::TENSOR),
        source("FileConstant", stated).opt_attr("location", s).opt_attr("offset", i).opt_attr("length", i),
        source("Variable", stated).opt("x", ANY, "").flags(STATEFUL),
        OpDef::new("NetOutput", stated).dynamic("x", ANY, "").dynamic_output("y", ANY, ""),
        through("Identity").flags(VIEW),
        // The first bytes of a value with a smaller shape, or a value with a larger shape and the
        // room for it behind the value.
        OpDef::new("GearView", stated).input("x", ANY, "T").output("y", ANY, "T").flags(VIEW),
        OpDef::new("IdentityN", each).dynamic("x", ANY, "").dynamic_output("y", ANY, ""),
        through("TensorMove"),
        // Reads from a queue of the host. The host feeds graphs through their inputs instead, so no
        // engine accepts this operator.
        OpDef::new("GetNext", stated)
            .dynamic_output("y", ANY, "")
            .opt_attr("output_types", AttrKind::ANY)
            .opt_attr("output_shapes", AttrKind::ANY)
            .opt_attr("channel_name", s)
            .flags(STATEFUL),
        through("MemcpyAsync").opt("held", ANY, "T").opt_attr("_ref_input", i),
        source("PlaceHolder", stated).opt("x", ANY, ""),
        OpDef::new("End", stated).dynamic("x", ANY, "").dynamic_output("y", ANY, ""),
        task("NoOp").dynamic("x", ANY, "").dynamic_output("y", ANY, ""),
        task("ControlTrigger"),
        through("Enter")
            .opt_attr("frame_name", s)
            .opt_attr("is_constant", AttrKind::BOOL)
            .opt_attr("parallel_iterations", i),
        through("RefEnter")
            .opt_attr("frame_name", s)
            .opt_attr("is_constant", AttrKind::BOOL)
            .opt_attr("parallel_iterations", i),
        through("LoopCond"),
        // The next iteration of the loop takes the value although no edge leads back, so the
        // operator has an effect beyond its output.
        through("NextIteration").opt("held", ANY, "T").flags(STATEFUL),
        through("RefNextIteration").opt("held", ANY, "T").flags(STATEFUL),
        through("Exit"),
        through("RefExit"),
        OpDef::new("Switch", switch)
            .input("data", ANY, "T")
            .input("pred", ANY, "")
            .output("output_false", ANY, "T")
            .output("output_true", ANY, "T"),
        OpDef::new("RefSwitch", switch)
            .input("data", ANY, "T")
            .input("pred", ANY, "")
            .output("output_false", ANY, "T")
            .output("output_true", ANY, "T"),
        OpDef::new("Merge", merge)
            .dynamic("x", ANY, "")
            .output("y", ANY, "")
            .output("value_index", ANY, "")
            .opt_attr("_next_iteration_node", s),
        OpDef::new("RefMerge", merge)
            .dynamic("x", ANY, "")
            .output("y", ANY, "")
            .output("value_index", ANY, "")
            .opt_attr("_next_iteration_node", s),
        task("StreamActive").dynamic("x", ANY, "").opt_attr("active_stream_list", AttrKind::INTS),
        task("Send").opt_attr("event_id", i),
        task("Recv").opt_attr("event_id", i),
        task("SendNotify").opt_attr("notify_id", i),
        task("RecvNotify").opt_attr("notify_id", i),
        task("StreamSwitch").dynamic("x", ANY, "").opt_attr("cond", i).opt_attr("true_branch_stream", i),
        OpDef::new("StreamMerge", merge).dynamic("x", ANY, "").output("y", ANY, "").output("value_index", ANY, ""),
        task("LabelSet").opt_attr("label_id", i).opt_attr("_label_index", i),
        task("LabelGotoEx").opt_attr("label_id", i).opt_attr("_label_index", i),
        task("LabelSwitchByIndex").dynamic("index", ANY, "").opt_attr("label_list", AttrKind::INTS),
        task("AtomicAddrClean"),
        task("MemSet"),
    ]
}
register_ops!(defs);
