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
/// f64 and rounded once, at the end, and so is a type that is not known. Half precision is computed
/// as f32 and rounded once, unless a matrix is added as it is: fusions round that once.
fn gemm(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let (alpha, beta) = (n.float_or("alpha", 1.0), n.float_or("beta", 1.0));
    let c = n.opt_input(2).filter(|_| beta != 0.0);
    let bias = n.constant(2).is_some_and(|t| t.dims.len() == 1 && t.dims[0] > 1) && alpha == 1.0 && beta == 1.0;
    let fraction = alpha.fract() != 0.0 || (c.is_some() && beta.fract() != 0.0);
    let mut wide = (fraction && known_type(n).is_none_or(|t| t.is_int())).then_some(DType::F64);
    let is_half = known_type(n).is_some_and(|t| matches!(t, DType::F16 | DType::BF16));
    let plain = alpha == 1.0 && (c.is_none() || beta == 1.0 && adds_matrix(n));
    let in_singles = is_half && !bias && !plain;
    if in_singles {
        wide = Some(DType::F32);
    }
    // The name of the model's node, for the last node that it becomes.
    let last = |is: bool| if is { n.name.as_str() } else { "" };
    let product = b.node("MatMulV2");
    // Factors of half precision give a product in f32.
    let product = if in_singles { product.attr("y_dtype", DType::F32) } else { product };
    let product = product
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
    let scaled = times(b, last(c.is_none() && wide.is_none()), product, alpha, wide.filter(|_| !in_singles));
    let sum = match c {
        None => scaled,
        Some(c) => {
            let c = times(b, "", c, beta, wide);
            b.node("Add").name(last(wide.is_none())).input(scaled).input(c).build()
        }
    };
    Ok(vec![if wide.is_some() { back(n, b, sum)?.name(&n.name).build() } else { sum }])
}
/// Whether C is a matrix that is not broadcast, as far as its sizes are known.
fn adds_matrix(n: &ForeignNode) -> bool {
    n.desc(2).is_some_and(|d| d.shape.rank() == Some(2) && d.shape.dims().iter().all(|s| s.size() != Some(1)))
}
/// A value, cast to the type `wide` if there is one, times a factor.
fn times(b: &mut GraphBuilder<'_>, name: &str, v: ValueRef, factor: f64, wide: Option<DType>) -> ValueRef {
    let v = wide.map_or(v, |t| b.node("Cast").input(v).attr("dst_type", t).build());
    if factor == 1.0 { v } else { b.node("Muls").name(name).input(v).attr("value", factor).build() }
}
map_op!("onnx", "ai.onnx", "Gemm", 1..=u32::MAX, gemm);
