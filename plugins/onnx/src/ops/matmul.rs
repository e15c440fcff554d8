//! `MatMul`, `Gemm`.
use super::{Outs, rank};
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::map_op;

fn mat_mul(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let op = if rank(n, 0) == Some(2) && rank(n, 1) == Some(2) { "MatMulV2" } else { "BatchMatMulV2" };
    Ok(vec![b.node(op).name(&n.name).input(n.input(0)?).input(n.input(1)?).build()])
}
map_op!("onnx", "ai.onnx", "MatMul", 1..=u32::MAX, mat_mul);

/// alpha·A·B + beta·C. If C is a constant vector and both factors are 1, it becomes the product's
/// bias; otherwise Muls and Add are used.
fn gemm(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let (alpha, beta) = (n.float_or("alpha", 1.0), n.float_or("beta", 1.0));
    let c = n.opt_input(2).filter(|_| beta != 0.0);
    let bias = n.constant(2).is_some_and(|t| t.dims.len() == 1 && t.dims[0] > 1) && alpha == 1.0 && beta == 1.0;
    let product = b
        .node("MatMulV2")
        .name(if c.is_none() && alpha == 1.0 || bias { n.name.as_str() } else { "" })
        .input(n.input(0)?)
        .input(n.input(1)?)
        .opt_input(c.filter(|_| bias))
        .attr("transpose_x1", n.int_or("transA", 0) != 0)
        .attr("transpose_x2", n.int_or("transB", 0) != 0)
        .build();
    if bias {
        return Ok(vec![product]);
    }
    let scaled = if alpha == 1.0 {
        product
    } else {
        b.node("Muls").name(if c.is_none() { n.name.as_str() } else { "" }).input(product).attr("value", alpha).build()
    };
    let Some(c) = c else { return Ok(vec![scaled]) };
    let c = if beta == 1.0 { c } else { b.node("Muls").input(c).attr("value", beta).build() };
    Ok(vec![b.node("Add").name(&n.name).input(scaled).input(c).build()])
}
map_op!("onnx", "ai.onnx", "Gemm", 1..=u32::MAX, gemm);
