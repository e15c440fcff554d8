//! `FusedMatMul`, and products of integers with real results: `MatMulIntegerToFloat`,
//! `DynamicQuantizeMatMul`, `QGemm`; `MatMulInteger16`.
use crate::declare::ort_op;
use crate::shared::{Outs, apply, cast, known_type, named, plus, quantised, rank, real, reshaped, transposed};
use ge_plugin_api::Result;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::types::{DType, ValueRef};

/// Input `i`, whose axes are `[rows, batch..., columns]` if the attribute `key` says so: then the
/// batch comes first.
fn batch_first(n: &ForeignNode, b: &mut GraphBuilder<'_>, i: usize, key: &str) -> Result<ValueRef> {
    let x = n.input(i)?;
    if n.int_or(key, 0) == 0 {
        return Ok(x);
    }
    match rank(n, i) {
        None => Err(n.refuse(format!("attribute `{key}` is given: the rank of input {i} must be known"))),
        Some(r @ 3..) => {
            let last = r as i64 - 1;
            let perm: Vec<i64> = (1..last).chain([0, last]).collect();
            Ok(transposed(b, x, &perm))
        }
        Some(_) => Ok(x),
    }
}

/// `alpha` times the product of A and B. The attributes say which of them has its batch between
/// rows and columns, and which has its last two axes swapped after that.
fn fused(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let (left, right) = (batch_first(n, b, 0, "transBatchA")?, batch_first(n, b, 1, "transBatchB")?);
    let alpha = n.float_or("alpha", 1.0);
    let (ta, tb) = (n.int_or("transA", 0) != 0, n.int_or("transB", 0) != 0);
    // A vector has no two axes to swap.
    let (ta, tb) = (ta && rank(n, 0) != Some(1), tb && rank(n, 1) != Some(1));
    let product = b
        .node("BatchMatMulV2")
        .name(if alpha == 1.0 { n.name.as_str() } else { "" })
        .input(left)
        .input(right)
        .attr("adj_x1", ta)
        .attr("adj_x2", tb)
        .build();
    Ok(vec![match alpha {
        1.0 => product,
        _ => b.node("Muls").name(&n.name).input(product).attr("value", alpha).build(),
    }])
}
ort_op!("FusedMatMul", 2, ["alpha", "transA", "transB", "transBatchA", "transBatchB"], fused);
ort_op!("TransposeMatMul", 2, ["alpha", "transA", "transB"], fused);

/// An exact product of integers that is then scaled: `(A - za)(B - zb) sa sb`.
pub(crate) struct Integers {
    /// Left factor.
    pub a: ValueRef,
    /// Right factor.
    pub b: ValueRef,
    /// Scales of the factors in f32: one number each, or one per column of `b`.
    pub scales: [ValueRef; 2],
    /// Zero points of the factors; `None` is 0.
    pub zeros: [Option<ValueRef>; 2],
    /// Whether both factors are vectors, so that the product has no axes, whatever those of the
    /// scales are.
    pub vectors: bool,
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
        if self.vectors {
            scale = reshaped(g, scale, "scalar", &[]);
        }
        if alpha != 1.0 {
            let alpha = real(g, "alpha", alpha, DType::F32);
            scale = apply(g, "Mul", &[scale, alpha]);
        }
        apply(g, "Mul", &[product, scale])
    }
}

/// Whether inputs `a` and `b` are vectors.
fn vectors(n: &ForeignNode, a: usize, b: usize) -> bool {
    [a, b].iter().all(|i| rank(n, *i) == Some(1))
}

/// Input `i` in f32.
pub(crate) fn in_f32(n: &ForeignNode, b: &mut GraphBuilder<'_>, i: usize) -> Result<ValueRef> {
    let x = n.input(i)?;
    Ok(if known_type(n, i) == Some(DType::F32) { x } else { cast(b, x, DType::F32) })
}

/// `y` plus a bias, at input `bias` if there is one, in the type of input `like`: the last node of
/// a mapping, which has the name `name`.
pub(crate) fn finished(
    n: &ForeignNode,
    b: &mut GraphBuilder<'_>,
    name: &str,
    y: ValueRef,
    bias: usize,
    like: usize,
) -> Result<ValueRef> {
    let bias = if n.opt_input(bias).is_some() { Some(in_f32(n, b, bias)?) } else { None };
    Ok(match (known_type(n, like), bias) {
        (Some(DType::F32), Some(bias)) => b.node("Add").name(name).input(y).input(bias).build(),
        (Some(DType::F32), None) => b.node("Identity").name(name).input(y).build(),
        (Some(other), bias) => {
            let y = plus(b, y, bias);
            b.node("Cast").name(name).input(y).attr("dst_type", other).build()
        }
        (None, bias) => {
            let y = plus(b, y, bias);
            b.node("CastLike").name(name).input(y).input(n.input(like)?).build()
        }
    })
}

/// The result has the type of the scales.
fn to_float(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let of = Integers {
        a: n.input(0)?,
        b: n.input(1)?,
        scales: [in_f32(n, b, 2)?, in_f32(n, b, 3)?],
        zeros: [n.opt_input(4), n.opt_input(5)],
        vectors: vectors(n, 0, 1),
    };
    let y = of.product(b, None, 1.0);
    Ok(vec![finished(n, b, &n.name, y, 6, 2)?])
}
ort_op!("MatMulIntegerToFloat", 7, [], to_float);

fn dynamic(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let q = b.node("DynamicQuantizeLinear").input(n.input(0)?).build_n(3);
    let of = Integers {
        a: q[0],
        b: n.input(1)?,
        scales: [q[1], n.input(2)?],
        zeros: [Some(q[2]), n.opt_input(3)],
        vectors: vectors(n, 0, 1),
    };
    let y = of.product(b, None, 1.0);
    Ok(vec![finished(n, b, &n.name, y, 4, 2)?])
}
ort_op!("DynamicQuantizeMatMul", 5, [], dynamic);

/// A product of two quantised matrices plus integers; the result is quantised again if a scale is
/// given.
fn q_gemm(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let side = |b: &mut GraphBuilder<'_>, i: usize, key: &str| -> Result<ValueRef> {
        let x = n.input(i)?;
        Ok(if n.int_or(key, 0) != 0 { transposed(b, x, &[1, 0]) } else { x })
    };
    let of = Integers {
        a: side(b, 0, "transA")?,
        b: side(b, 3, "transB")?,
        scales: [n.input(1)?, n.input(4)?],
        zeros: [n.opt_input(2), n.opt_input(5)],
        vectors: false,
    };
    let y = of.product(b, n.opt_input(6), n.float_or("alpha", 1.0));
    let Some(scale) = n.opt_input(7) else { return Ok(vec![named(n, b, "Identity", &[y])]) };
    quantised(n, b, y, (scale, n.opt_input(8)), 0)
}
ort_op!("QGemm", 9, ["alpha", "transA", "transB"], q_gemm);

/// A product of 16-bit integers in 32 bits.
fn mat_mul_integer_16(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let unsigned = [0, 1].iter().all(|i| known_type(n, *i) == Some(DType::U16));
    let to = if unsigned { DType::U32 } else { DType::I32 };
    let [x, y] = [n.input(0)?, n.input(1)?].map(|v| cast(b, v, to));
    Ok(vec![b.node("BatchMatMulV2").name(&n.name).input(x).input(y).build()])
}
ort_op!("MatMulInteger16", 2, [], mat_mul_integer_16);
