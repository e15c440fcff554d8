//! `MatMulV2`, `BatchMatMulV2` and their older names: `x1[..., M, K]` by `x2[..., K, N]`.
//! Attributes can transpose either factor, leading axes are broadcast, and a vector counts as a row
//! or column; `bias[N]`. f32, f16, bf16, summed in single precision; 16-bit factors may also give
//! f32, with bias and x3 in f32. `FusedMatMul`: `activation(alpha * product + bias + x3)`, rounded
//! once. A single f16 or bf16 matrix x2 that is not transposed may be in FRACTAL_NZ: its blocks are
//! the panels that the product reads, so nothing is packed at run time. An f32 matrix x2 may come
//! as panels `[ceil(N / 16), K, 16]`, with K and N in the original shape (`passes/panels.rs`).
use crate::families::fused;
use crate::kernel::{Io, Kernel, divided, near};
use crate::sig::{Answer, FLOATS, Sig, Tensor};
use ge_kernels::gemm::{BMatrix, Bias, Epilogue, Gemm, Matrix};
use ge_kernels::simd::Act;
use ge_kernels::simd::isa::PanelElem;
use ge_kernels::view::{Kind, Layout, Nest, broadcast_shapes};
use ge_kernels::with_kind;
use ge_plugin_api::types::Format;
use ge_plugin_api::types::format::{CUBE, c0};
use ge_plugin_api::{Error, Result};
use std::ops::Range;

#[derive(Clone)]
struct MatMul {
    /// Type of the factors.
    kind: Kind,
    /// Type of all other tensors.
    gives: Kind,
    gemm: Gemm,
    /// Whether the factors are swapped: a result column is computed as the row of the transposed
    /// product.
    turned: bool,
    bias: bool,
    /// Factor of the product; whether input 3 is added; the activation.
    alpha: f32,
    residual: bool,
    act: Act,
    /// Number of elements of x2 that a launch packs.
    packed: u64,
}

/// The kernel of a matrix product.
///
/// # Errors
/// Fails with a reason if types, shapes or inputs are not supported.
pub fn build(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let (kind, gives) = sig.factors(FLOATS)?;
    let (act, residual) = fused::epilogue(sig, "FusedMatMul")?;
    sig.plain(0)?;
    let (x1, x2) = (sig.input(0)?, sig.input(1)?);
    let turn = |keys: [&str; 2], rank: usize| rank > 1 && keys.iter().any(|k| sig.attrs.flag(*k));
    let (ta, tb) = (turn(["transpose_x1", "adj_x1"], x1.rank()), turn(["transpose_x2", "adj_x2"], x2.rank()));
    let (lead_a, [ra, ca]) = split(&x1.shape, true)?;
    let in_blocks = x2.format == Format::FRACTAL_NZ;
    let plain_b = match &x2.origin {
        _ if in_blocks => Some(in_panels(sig, tb, ra, ca, ta)?),
        Some((_, whole)) => Some(packed_ahead(x2, whole, tb)?),
        None => None,
    };
    let (lead_b, [rb, cb]) = match &plain_b {
        Some(s) => split(s, false)?,
        None => split(&x2.shape, false)?,
    };
    let (mut m, k) = if ta { (ca, ra) } else { (ra, ca) };
    let (kb, n) = if tb { (cb, rb) } else { (rb, cb) };
    if k != kb {
        return Err(format!("inner sizes are {k} and {kb}"));
    }
    let lead = broadcast_shapes(lead_a, lead_b).map_err(|e| e.to_string())?;
    let whole: Vec<usize> = lead.iter().copied().chain([m, n]).collect();
    let elements = ge_kernels::view::element_count(&whole).map_err(|e| e.to_string())?;
    // At most the number of output elements, so that no list below can be larger than the output.
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
        // All rows are multiplied by the same matrix: one tall product.
        m *= count;
        vec![[0, 0]]
    } else {
        places(&lead, [lead_a, lead_b], [ra * ca, rb * cb])?
    };
    let a = if ta { Matrix::transposed(ca) } else { Matrix::rows(ca) };
    let b = match (&plain_b, tb) {
        (Some(_), _) => BMatrix::Packed { rows: if in_blocks { k.next_multiple_of(CUBE as usize) } else { k } },
        (None, true) => BMatrix::Plain(Matrix::transposed(cb)),
        (None, false) => BMatrix::Plain(Matrix::rows(cb)),
    };
    // For a matrix times a column, the matrix's rows are read from front to back, as those of the
    // second factor are.
    let (turned, gemm) = match b {
        BMatrix::Plain(b) if n == 1 && kind == Kind::F32 && a.col == 1 => {
            let swapped = batch.into_iter().map(|[a, b]| [b, a]).collect();
            let (x2, x1) = (Matrix { row: k, col: b.row }, Matrix::transposed(a.row));
            (true, Gemm::new([1, m, k], x2, BMatrix::Plain(x1), swapped))
        }
        _ => (false, Gemm::new([m, n, k], a, b, batch)),
    };
    let gemm = gemm.map_err(|e| e.to_string())?;
    let alpha = if sig.op == "FusedMatMul" { sig.float("alpha", 1.0) } else { 1.0 };
    let packed = takes_panels(sig).map_or(0, |x2| packed(sig, x2));
    fused::followed(sig, Box::new(MatMul { kind, gives, gemm, turned, bias, alpha, residual, act, packed }))
}

/// The sizes of x2 before it was converted to FRACTAL_NZ: K of x1 by N of the output.
fn in_panels(sig: &Sig, tb: bool, ra: usize, ca: usize, ta: bool) -> Answer<Vec<usize>> {
    let (x2, y) = (sig.input(1)?, sig.output(0)?);
    let (k, n) = (if ta { ra } else { ca }, y.shape.last().copied().unwrap_or(1));
    let (cube, block) = (CUBE as usize, c0(x2.dtype) as usize);
    let want = [n.div_ceil(block), k.div_ceil(cube), cube, block];
    if tb || block != 16 || x2.rank() < 4 || !x2.shape.ends_with(&want) || x2.count() != want.iter().product::<usize>()
    {
        return Err(format!("input 1 is FRACTAL_NZ {:?}; of {} it takes {want:?}, not turned", x2.shape, x2.dtype));
    }
    let lead = x2.rank() - 4;
    Ok(x2.shape[..lead].iter().copied().chain([k, n]).collect())
}

/// The sizes of x2 before it was packed into panels of sixteen columns.
fn packed_ahead(x2: &Tensor, whole: &[usize], tb: bool) -> Answer<Vec<usize>> {
    match whole {
        [lead @ .., k, n]
            if !tb
                && x2.kind == Some(Kind::F32)
                && x2.format == Format::ND
                && lead.iter().all(|d| *d == 1)
                && x2.shape == [n.div_ceil(16), *k, 16] =>
        {
            Ok(whole.to_vec())
        }
        _ => Err(format!("input 1 is {:?} of {whole:?}; it takes panels [ceil(N / 16), K, 16] of f32", x2.shape)),
    }
}

/// x2, if it can be converted to FRACTAL_NZ.
fn takes_panels(sig: &Sig) -> Option<&Tensor> {
    let x2 = sig.input(1).ok()?;
    let turned = ["transpose_x2", "adj_x2"].iter().any(|k| sig.attrs.flag(*k));
    let [lead @ .., k, n] = &x2.shape[..] else { return None };
    let plain = !turned && x2.format == Format::ND && lead.iter().all(|d| *d == 1) && *k > 0 && *n > 0;
    (plain && c0(x2.dtype) == 16 && matches!(x2.kind, Some(Kind::F16 | Kind::Bf16))).then_some(x2)
}

/// The product with x2 in FRACTAL_NZ; `None` if that is not possible.
pub fn laid_out(sig: &Sig) -> Option<Sig> {
    let panels = takes_panels(sig)?.laid_out(Format::FRACTAL_NZ)?;
    let mut other = sig.clone();
    other.inputs[1] = Some(panels);
    Some(other)
}

/// Number of elements of x2 that a launch packs, which would not be necessary in FRACTAL_NZ.
fn packed(sig: &Sig, x2: &Tensor) -> u64 {
    let [.., k, n] = x2.shape[..] else { return 0 };
    let rows = sig.output(0).map_or(0, |y| y.count() / n) as u64;
    if rows <= FEW_ROWS {
        return 0;
    }
    (k as u64).saturating_mul(n as u64).saturating_mul(rows.div_ceil(TILE_ROWS))
}

/// Up to this many rows, a product reads x2 without packing.
const FEW_ROWS: u64 = 24;
/// Number of rows of a product for which one packing of x2 is used.
const TILE_ROWS: u64 = 192;

/// Maximum number of products in a batch, whose offsets are stored in a list.
const MOST_PRODUCTS: usize = 1 << 22;

/// Offsets of the two matrices of each product in a batch. `own`: the leading axes of each factor;
/// `sizes`: number of elements of a matrix.
pub fn places(lead: &[usize], own: [&[usize]; 2], sizes: [usize; 2]) -> Answer<Vec<[usize; 2]>> {
    let spread = |own: &[usize]| -> Answer<Layout> {
        Layout::contiguous(own).and_then(|l| l.broadcast_to(lead)).map_err(|e| e.to_string())
    };
    let (a, b) = (spread(own[0])?, spread(own[1])?);
    let count: usize = lead.iter().product();
    if count > MOST_PRODUCTS {
        return Err(format!("a batch of {count} products, it takes {MOST_PRODUCTS}"));
    }
    let mut batch = Vec::with_capacity(count);
    Nest::new(lead, [&a, &b]).each_run(|[pa, pb], len, [sa, sb]| {
        for i in 0..len as isize {
            batch.push([(pa + i * sa) as usize * sizes[0], (pb + i * sb) as usize * sizes[1]]);
        }
    });
    Ok(batch)
}

/// Splits a shape into leading axes and matrix; a vector is a row, or a column on the right.
pub fn split(shape: &[usize], left: bool) -> Answer<(&[usize], [usize; 2])> {
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
        self.products() / 16
    }

    fn products(&self) -> u64 {
        self.gemm.work()
    }

    fn moved(&self) -> u64 {
        self.gemm.moved()
    }

    fn schedules(&self) -> Vec<String> {
        near("tile", self.gemm.tile(), |t| self.gemm.takes_tile(t))
    }

    fn scheduled(&self, schedule: &str) -> Option<Box<dyn Kernel>> {
        let [rows, cols] = divided(self, schedule)?;
        Some(Box::new(MatMul { gemm: self.gemm.clone().with_tile(rows, cols), ..self.clone() }))
    }

    fn lays_out(&self) -> u64 {
        self.packed
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let unknown = || Err(Error::internal("type of a matrix product"));
        if self.gives == self.kind {
            with_kind!(self.kind, [F32, F16, Bf16], T => self.run_in::<T, T>(units, io), else unknown())
        } else {
            with_kind!(self.kind, [F16, Bf16], T => self.run_in::<T, f32>(units, io), else unknown())
        }
    }
}

impl MatMul {
    fn run_in<T: PanelElem, U: PanelElem>(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let (first, second) = if self.turned { (1, 0) } else { (0, 1) };
        let (a, b) = (io.input::<T>(first)?, io.input::<T>(second)?);
        let bias = match (self.bias, self.turned) {
            (false, _) => Bias::None,
            (true, false) => Bias::PerColumn(io.input::<U>(2)?),
            (true, true) => Bias::PerRow(io.input::<U>(2)?),
        };
        let residual = if self.residual { Some((io.input::<U>(3)?, 1.0)) } else { None };
        let e = Epilogue { alpha: self.alpha, bias, residual, act: self.act };
        io.output::<U, ()>(0, |out| self.gemm.run(units, a, b, &e, out).map_err(|e| Error::failed(e.to_string())))
    }
}
