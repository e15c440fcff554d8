//! `MatMulV2`, `BatchMatMulV2` and their older names: `x1[..., M, K]` by `x2[..., K, N]`, either turned by attribute, leading
//! axes broadcast, a vector for a row or column; `bias[N]`. f32, f16, bf16, summed in single precision. `FusedMatMul`:
//! `activation(alpha * product + bias + x3)`, rounded once.
use crate::families::fused;
use crate::kernel::{Io, Kernel};
use crate::sig::{Answer, FLOATS, Sig};
use ge_kernels::gemm::{BMatrix, Bias, Epilogue, Gemm, Matrix};
use ge_kernels::simd::Act;
use ge_kernels::view::{Kind, Layout, Nest, broadcast_shapes};
use ge_kernels::with_kind;
use ge_plugin_api::{Error, Result};
use std::ops::Range;

struct MatMul {
    kind: Kind,
    gemm: Gemm,
    bias: bool,
    /// Factor of the product, whether input 3 is added, and what follows.
    alpha: f32,
    residual: bool,
    act: Act,
}

/// The kernel of a matrix product.
///
/// # Errors
/// Types, shapes or inputs that it does not take, in words.
pub fn build(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let kind = sig.one_kind(FLOATS)?;
    let (act, residual) = fused::epilogue(sig, "FusedMatMul")?;
    let (x1, x2) = (sig.input(0)?, sig.input(1)?);
    let turn = |keys: [&str; 2], rank: usize| rank > 1 && keys.iter().any(|k| sig.attrs.flag(*k));
    let (ta, tb) = (turn(["transpose_x1", "adj_x1"], x1.rank()), turn(["transpose_x2", "adj_x2"], x2.rank()));
    let (lead_a, [ra, ca]) = split(&x1.shape, true)?;
    let (lead_b, [rb, cb]) = split(&x2.shape, false)?;
    let (mut m, k) = if ta { (ca, ra) } else { (ra, ca) };
    let (kb, n) = if tb { (cb, rb) } else { (rb, cb) };
    if k != kb {
        return Err(format!("inner sizes are {k} and {kb}"));
    }
    let lead = broadcast_shapes(lead_a, lead_b).map_err(|e| e.to_string())?;
    let whole: Vec<usize> = lead.iter().copied().chain([m, n]).collect();
    let elements = ge_kernels::view::element_count(&whole).map_err(|e| e.to_string())?;
    // Not more than the elements of the output, so that nothing below can grow beyond it.
    let count = if elements == 0 { 0 } else { elements / (m * n) };
    if elements != sig.output(0)?.count() {
        return Err(format!("output 0 is {:?}, the product {lead:?} of {m} x {n}", sig.output(0)?.shape));
    }
    let bias = match sig.opt_input(2) {
        None => false,
        Some(b) if b.count() == n => true,
        Some(b) => return Err(format!("input 2 `bias` is {:?}, it takes [{n}]", b.shape)),
    };
    let one_b = lead_b.iter().all(|&d| d == 1);
    let batch = if count == 0 {
        Vec::new()
    } else if one_b && !ta {
        // All rows meet the same matrix: one tall product.
        m *= count;
        vec![[0, 0]]
    } else {
        let places = |own: &[usize]| -> Answer<Layout> {
            Layout::contiguous(own).and_then(|l| l.broadcast_to(&lead)).map_err(|e| e.to_string())
        };
        let (a, b) = (places(lead_a)?, places(lead_b)?);
        let mut batch = Vec::with_capacity(count);
        Nest::new(&lead, [&a, &b]).each_run(|[pa, pb], len, [sa, sb]| {
            for i in 0..len as isize {
                batch.push([(pa + i * sa) as usize * ra * ca, (pb + i * sb) as usize * rb * cb]);
            }
        });
        batch
    };
    let a = if ta { Matrix::transposed(ca) } else { Matrix::rows(ca) };
    let b = if tb { Matrix::transposed(cb) } else { Matrix::rows(cb) };
    let gemm = Gemm::new([m, n, k], a, BMatrix::Plain(b), batch).map_err(|e| e.to_string())?;
    let alpha = if sig.op == "FusedMatMul" { sig.float("alpha", 1.0) } else { 1.0 };
    Ok(Box::new(MatMul { kind, gemm, bias, alpha, residual, act }))
}

/// Leading axes and the matrix; a vector is a row, or a column on the right.
fn split(shape: &[usize], left: bool) -> Answer<(&[usize], [usize; 2])> {
    match *shape {
        [] => Err(format!("input {} is a scalar", usize::from(!left))),
        [n] => Ok((&[], if left { [1, n] } else { [n, 1] })),
        [.., r, c] => Ok((&shape[..shape.len() - 2], [r, c])),
    }
}

impl Kernel for MatMul {
    fn units(&self) -> usize {
        self.gemm.units()
    }

    fn work(&self) -> u64 {
        self.gemm.work() / 16
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        with_kind!(self.kind, [F32, F16, Bf16], T => {
            let (a, b) = (io.input::<T>(0)?, io.input::<T>(1)?);
            let bias = if self.bias { Bias::PerColumn(io.input::<T>(2)?) } else { Bias::None };
            let residual = if self.residual { Some((io.input::<T>(3)?, 1.0)) } else { None };
            let e = Epilogue { alpha: self.alpha, bias, residual, act: self.act };
            io.output::<T, ()>(0, |out| self.gemm.run(units, a, b, &e, out).map_err(|e| Error::failed(e.to_string())))
        }, else Err(Error::internal("type of a matrix product")))
    }
}
