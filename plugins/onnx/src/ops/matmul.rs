//! `MatMul`, `Gemm`.
use super::{Outs, back, known_type, rank};
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::map_op;
use ge_plugin_api::types::{DType, ValueRef};

fn mat_mul(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let op = if rank(n, 0) == Some(2) && rank(n, 1) == Some(2) { "MatMulV2" } else { "BatchMatMulV2" };
    Ok(vec![b.node(op).name(&n.name).input(n.input(0)?).input(n.input(1)?).build()])
}
map_op!("onnx", "ai.onnx", "MatMul", 1..=u32::MAX, mat_mul);

/// alpha·A·B + beta·C. If C is a constant vector and both factors are 1, it becomes the product's
/// bias; otherwise Muls and Add are used. Integers times a factor with a fraction are computed as
/// f64 and rounded once, at the end, and so is a type that is not known.
fn gemm(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let (alpha, beta) = (n.float_or("alpha", 1.0), n.float_or("beta", 1.0));
    let c = n.opt_input(2).filter(|_| beta != 0.0);
    let bias = n.constant(2).is_some_and(|t| t.dims.len() == 1 && t.dims[0] > 1) && alpha == 1.0 && beta == 1.0;
    let fraction = alpha.fract() != 0.0 || (c.is_some() && beta.fract() != 0.0);
    let wide = fraction && known_type(n).is_none_or(|t| t.is_int());
    // The name of the model's node, for the last node that it becomes.
    let last = |is: bool| if is { n.name.as_str() } else { "" };
    let product = b
        .node("MatMulV2")
        .name(last(c.is_none() && alpha == 1.0 || bias))
        .input(n.input(0)?)
        .input(n.input(1)?)
        .opt_input(c.filter(|_| bias))
        .attr("transpose_x1", n.int_or("transA", 0) != 0)
        .attr("transpose_x2", n.int_or("transB", 0) != 0)
        .build();
    if bias {
        return Ok(vec![product]);
    }
    let scaled = times(b, last(c.is_none() && !wide), product, alpha, wide);
    let sum = match c {
        None => scaled,
        Some(c) => {
            let c = times(b, "", c, beta, wide);
            b.node("Add").name(last(!wide)).input(scaled).input(c).build()
        }
    };
    Ok(vec![if wide { back(n, b, sum)?.name(&n.name).build() } else { sum }])
}
/// A value, cast to f64 if `wide`, times a factor.
fn times(b: &mut GraphBuilder<'_>, name: &str, v: ValueRef, factor: f64, wide: bool) -> ValueRef {
    let v = if wide { b.node("Cast").input(v).attr("dst_type", DType::F64).build() } else { v };
    if factor == 1.0 { v } else { b.node("Muls").name(name).input(v).attr("value", factor).build() }
}
map_op!("onnx", "ai.onnx", "Gemm", 1..=u32::MAX, gemm);
