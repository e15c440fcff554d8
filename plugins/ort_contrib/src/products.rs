//! `FusedMatMul`, and products of integers with real results: `MatMulIntegerToFloat`,
//! `DynamicQuantizeMatMul`, `QGemm`.
use crate::shared::{Outs, apply, cast, no_more_inputs, only, plus, quantised, rank, real, transposed};
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::map_op;
use ge_plugin_api::types::{DType, ValueRef};

/// `alpha` times the product of A and B, each with its last two axes swapped if the attributes say
/// so.
fn fused(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    only(n, "transBatchA", 0)?;
    only(n, "transBatchB", 0)?;
    let alpha = n.float_or("alpha", 1.0);
    let (ta, tb) = (n.int_or("transA", 0) != 0, n.int_or("transB", 0) != 0);
    // A vector has no two axes to swap.
    let (ta, tb) = (ta && rank(n, 0) != Some(1), tb && rank(n, 1) != Some(1));
    let product = b
        .node("BatchMatMulV2")
        .name(if alpha == 1.0 { n.name.as_str() } else { "" })
        .input(n.input(0)?)
        .input(n.input(1)?)
        .attr("adj_x1", ta)
        .attr("adj_x2", tb)
        .build();
    Ok(vec![match alpha {
        1.0 => product,
        _ => b.node("Muls").name(&n.name).input(product).attr("value", alpha).build(),
    }])
}
map_op!("onnx", "com.microsoft", "FusedMatMul", 1..=u32::MAX, fused);
map_op!("onnx", "com.microsoft", "TransposeMatMul", 1..=u32::MAX, fused);

/// An exact product of integers that is then scaled: `(A - za)(B - zb) sa sb`.
pub(crate) struct Integers {
    /// Left factor.
    pub a: ValueRef,
    /// Right factor.
    pub b: ValueRef,
    /// Scales of the factors: one number each, or one per column of `b`.
    pub scales: [ValueRef; 2],
    /// Zero points of the factors; `None` is 0.
    pub zeros: [Option<ValueRef>; 2],
}
impl Integers {
    /// The product in f32, times `alpha`; `sum` is added to the integers.
    pub fn product(self, g: &mut GraphBuilder<'_>, sum: Option<ValueRef>, alpha: f64) -> ValueRef {
        let product = g
            .node("MatMulInteger")
            .input(self.a)
            .input(self.b)
            .opt_input(self.zeros[0])
            .opt_input(self.zeros[1])
            .build();
        let whole = plus(g, product, sum);
        let product = cast(g, whole, DType::F32);
        let mut scale = apply(g, "Mul", &self.scales);
        if alpha != 1.0 {
            let alpha = real(g, "alpha", alpha, DType::F32);
            scale = apply(g, "Mul", &[scale, alpha]);
        }
        apply(g, "Mul", &[product, scale])
    }
}

/// The result under the foreign node's name, with a bias if there is one.
fn with_bias(n: &ForeignNode, b: &mut GraphBuilder<'_>, y: ValueRef, bias: Option<ValueRef>) -> ValueRef {
    let d = b.node(if bias.is_some() { "Add" } else { "Identity" }).name(&n.name).input(y);
    match bias {
        Some(v) => d.input(v).build(),
        None => d.build(),
    }
}

fn to_float(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let of = Integers {
        a: n.input(0)?,
        b: n.input(1)?,
        scales: [n.input(2)?, n.input(3)?],
        zeros: [n.opt_input(4), n.opt_input(5)],
    };
    let y = of.product(b, None, 1.0);
    Ok(vec![with_bias(n, b, y, n.opt_input(6))])
}
map_op!("onnx", "com.microsoft", "MatMulIntegerToFloat", 1..=u32::MAX, to_float);

fn dynamic(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let q = b.node("DynamicQuantizeLinear").input(n.input(0)?).build_n(3);
    let of = Integers { a: q[0], b: n.input(1)?, scales: [q[1], n.input(2)?], zeros: [Some(q[2]), n.opt_input(3)] };
    let y = of.product(b, None, 1.0);
    Ok(vec![with_bias(n, b, y, n.opt_input(4))])
}
map_op!("onnx", "com.microsoft", "DynamicQuantizeMatMul", 1..=u32::MAX, dynamic);

/// A product of two quantised matrices plus integers; the result is quantised again if a scale is
/// given.
fn q_gemm(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    no_more_inputs(n, 9, "a further input of QGemm")?;
    let side = |b: &mut GraphBuilder<'_>, i: usize, key: &str| -> ge_plugin_api::Result<ValueRef> {
        let x = n.input(i)?;
        Ok(if n.int_or(key, 0) != 0 { transposed(b, x, &[1, 0]) } else { x })
    };
    let of = Integers {
        a: side(b, 0, "transA")?,
        b: side(b, 3, "transB")?,
        scales: [n.input(1)?, n.input(4)?],
        zeros: [n.opt_input(2), n.opt_input(5)],
    };
    let y = of.product(b, n.opt_input(6), n.float_or("alpha", 1.0));
    let Some(scale) = n.opt_input(7) else { return Ok(vec![with_bias(n, b, y, None)]) };
    quantised(n, b, y, (scale, n.opt_input(8)), 0)
}
map_op!("onnx", "com.microsoft", "QGemm", 1..=u32::MAX, q_gemm);
