//! Loss functions with ONNX's names and semantics.
//!
//! * `NegativeLogLikelihoodLoss(input [N,C,...], target [N,...], weight? [C]) {ignore_index, reduction = mean|sum|none}`.
//! * `SoftmaxCrossEntropyLoss(scores, labels, weights?) {ignore_index, reduction} -> output, log_prob`.
use crate::read;
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef, flags::FULL_PRECISION};
use ge_plugin_api::register_ops;
use ge_plugin_api::types::dtype::{FLOATS, INDEX};
use ge_plugin_api::types::{Shape, TensorDesc};

fn loss(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    read::rank_in(c, 0, "input", 2, usize::MAX)?;
    let s = if read::text(c, "reduction", "mean") == "none" { c.input(1)?.shape.clone() } else { Shape::scalar() };
    let y = TensorDesc::new(c.input(0)?.dtype, s);
    Ok(if c.node.op() == "SoftmaxCrossEntropyLoss" && c.node.outputs().len() > 1 {
        vec![y, c.like(0)?]
    } else {
        vec![y]
    })
}

fn defs() -> Vec<OpDef> {
    let attrs = |d: OpDef| {
        d.opt_attr("ignore_index", AttrKind::INT)
            .attr("reduction", AttrKind::STRING, "mean")
            .choices(&["mean", "sum", "none"])
            .flags(FULL_PRECISION)
    };
    vec![
        attrs(
            OpDef::new("NegativeLogLikelihoodLoss", loss)
                .input("input", FLOATS, "T")
                .input("target", INDEX, "")
                .opt("weight", FLOATS, "T")
                .output("loss", FLOATS, "T"),
        ),
        attrs(
            OpDef::new("SoftmaxCrossEntropyLoss", loss)
                .input("scores", FLOATS, "T")
                .input("labels", INDEX, "")
                .opt("weights", FLOATS, "T")
                .output("output", FLOATS, "T")
                .opt_output("log_prob", FLOATS, "T"),
        ),
    ]
}
register_ops!(defs);
