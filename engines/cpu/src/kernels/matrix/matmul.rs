//! `MatMulV2`, `MatMul`, `BatchMatMulV2`, `BatchMatMul` (NumPy's matmul),
//! `GroupedMatmul`, `MatrixDeterminant`.
use super::product::{Mat, Wide, product, widen};
use crate::args::{Arg, bad, count, filled, flag, int_attr, put, put_f64};
use crate::op::{Op, Run};
use crate::store::types::{FLOAT, INDEX, NUM};
use ge_kernels::view::{Elem, Kind, broadcast_shapes};
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;
use ge_plugin_api::types::DType;

/// The product of two stacks of matrices, with its shape.
pub fn batched<W: Wide>(
    a: &[W],
    sa: &[usize],
    b: &[W],
    sb: &[usize],
    (swap_a, swap_b): (bool, bool),
    bias: Option<&[W]>,
) -> Result<(Vec<usize>, Vec<W>)> {
    if sa.is_empty() || sb.is_empty() {
        return Err(bad("input of the product", "a scalar", "a vector or a matrix"));
    }
    let (ra, rb) = (sa.len(), sb.len());
    // Sizes and strides of rows and columns; a vector is a single row or column.
    let (m, ka, row_a, col_a) = match (ra, swap_a) {
        (1, _) => (1, sa[0], sa[0], 1),
        (_, false) => (sa[ra - 2], sa[ra - 1], sa[ra - 1], 1),
        (_, true) => (sa[ra - 1], sa[ra - 2], 1, sa[ra - 1]),
    };
    let (kb, n, row_b, col_b) = match (rb, swap_b) {
        (1, _) => (sb[0], 1, 1, 1),
        (_, false) => (sb[rb - 2], sb[rb - 1], sb[rb - 1], 1),
        (_, true) => (sb[rb - 1], sb[rb - 2], 1, sb[rb - 1]),
    };
    if ka != kb {
        return Err(bad("inner dimensions of the product", format!("{ka} and {kb} ({sa:?} by {sb:?})"), "equal ones"));
    }
    let (la, lb) = (&sa[..ra.saturating_sub(2)], &sb[..rb.saturating_sub(2)]);
    let lead = broadcast_shapes(la, lb).map_err(crate::args::view_error)?;
    let mut shape = lead.clone();
    if ra > 1 {
        shape.push(m);
    }
    if rb > 1 {
        shape.push(n);
    }
    count(&shape)?;
    let batches = count(&lead)?;
    let mut out = filled(batches * m * n, W::default())?;
    let place = |own: &[usize], t: usize| {
        let (mut rest, mut at, mut step) = (t, 0, 1);
        for d in 0..lead.len() {
            let full = lead[lead.len() - 1 - d];
            if d < own.len() {
                let size = own[own.len() - 1 - d];
                at += if size == 1 { 0 } else { rest % full * step };
                step *= size;
            }
            rest /= full;
        }
        at
    };
    for (t, o) in out.chunks_exact_mut((m * n).max(1)).enumerate() {
        let (pa, pb) = (place(la, t) * m * ka, place(lb, t) * ka * n);
        let am = Mat { data: &a[pa..], row: row_a, col: col_a };
        let bm = Mat { data: &b[pb..], row: row_b, col: col_b };
        product(am, bm, (m, n, ka), bias, o)?;
    }
    Ok((shape, out))
}
fn swaps(ctx: &KernelCtx<'_>) -> (bool, bool) {
    let (a, b) = if ctx.op.starts_with("Batch") { ("adj_x1", "adj_x2") } else { ("transpose_x1", "transpose_x2") };
    (flag(ctx, a, false), flag(ctx, b, false))
}
fn bias_row<W: Wide>(bias: Option<&Arg<'_>>, n: usize) -> Result<Option<Vec<W>>> {
    let Some(b) = bias else { return Ok(None) };
    if b.len != n {
        return Err(bad("input 2 `bias`", format!("shape {:?}", b.shape), format!("[{n}]")));
    }
    Ok(Some(widen(b)?))
}
fn run_matmul(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (a, b, bias) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?, Arg::opt(ctx, 2)?);
    if !ctx.op.starts_with("Batch") {
        a.need_rank(2, 2)?;
        b.need_rank(2, 2)?;
    }
    let s = swaps(ctx);
    let n = match (b.rank(), s.1) {
        (0 | 1, _) => 1,
        (r, true) => b.shape[r - 2],
        (r, false) => b.shape[r - 1],
    };
    if a.kind()?.is_float() {
        return put_product::<f64>(ctx, [&a, &b], bias.as_ref(), n, s);
    }
    let given = [&a, &b].into_iter().chain(&bias).all(|x| x.kind().is_ok_and(|kind| kind == Kind::I32));
    if given && ctx.output_dtype(0) == Some(DType::I32) {
        return put_product::<i32>(ctx, [&a, &b], bias.as_ref(), n, s);
    }
    put_product::<i64>(ctx, [&a, &b], bias.as_ref(), n, s)
}

/// Writes the product of two stacks of matrices, with `n` columns, as summed in `W`.
fn put_product<W: Wide + Elem>(
    ctx: &mut KernelCtx<'_>,
    [a, b]: [&Arg<'_>; 2],
    bias: Option<&Arg<'_>>,
    n: usize,
    swaps: (bool, bool),
) -> Result<()> {
    let bias = bias_row::<W>(bias, n)?;
    let (shape, y) = batched(&widen::<W>(a)?, &a.shape, &widen::<W>(b)?, &b.shape, swaps, bias.as_deref())?;
    put(ctx, 0, &shape, &y)
}

fn run_grouped(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, w, g, bias) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?, Arg::of(ctx, 2)?, Arg::opt(ctx, 3)?);
    x.need_rank(2, 2)?;
    w.need_rank(3, 3)?;
    let (m, k, e, n) = (x.shape[0], x.shape[1], w.shape[0], w.shape[2]);
    g.need_shape(&[e])?;
    if w.shape[1] != k {
        return Err(bad("input 1 `weight`", format!("shape {:?}", w.shape), format!("[{e}, {k}, {n}]")));
    }
    if let Some(b) = &bias {
        b.need_shape(&[e, n])?;
    }
    let (vx, vw) = (widen::<f64>(&x)?, widen::<f64>(&w)?);
    let vb = bias.as_ref().map(widen::<f64>).transpose()?;
    let by_count = int_attr(ctx, "group_list_type", 0) == 1;
    let mut y = filled(count(&[m, n])?, 0f64)?;
    let mut start = 0usize;
    for (i, &v) in g.i64s()?.iter().enumerate() {
        let end = usize::try_from(v).ok().and_then(|v| if by_count { start.checked_add(v) } else { Some(v) });
        let end = end.filter(|&end| end >= start && end <= m);
        let end = end.ok_or_else(|| bad("input 2 `group_list`", v, format!("groups within {m} rows, in order")))?;
        let am = Mat { data: &vx[start * k..], row: k, col: 1 };
        let bm = Mat { data: &vw[i * k * n..], row: n, col: 1 };
        product(am, bm, (end - start, n, k), vb.as_ref().map(|b| &b[i * n..(i + 1) * n]), &mut y[start * n..end * n])?;
        start = end;
    }
    if start != m {
        return Err(bad("input 2 `group_list`", format!("{start} rows"), format!("{m} rows, as `x` has")));
    }
    put_f64(ctx, 0, &[m, n], &y)
}
ge_kernels::multiversion! {
    /// Subtracts from each row below the multiple of the pivot's row that makes its column `c` zero.
    fn eliminate(pivot: &[f64], below: &mut [f64], c: usize) {
        for row in below.chunks_exact_mut(pivot.len() + c) {
            let f = row[c] / pivot[0];
            row[c..].iter_mut().zip(pivot).for_each(|(v, p)| *v -= f * p);
        }
    }
}
/// Gaussian elimination with the greatest pivot of each column.
fn run_determinant(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    x.need_rank(2, usize::MAX)?;
    let (r, n) = (x.rank(), x.shape[x.rank() - 1]);
    if x.shape[r - 2] != n {
        return Err(bad("input 0", format!("shape {:?}", x.shape), "square matrices"));
    }
    let mut v = x.f64s()?;
    let shape = x.shape[..r - 2].to_vec();
    let mut y = filled(count(&shape)?, 1f64)?;
    for (m, y) in v.chunks_exact_mut((n * n).max(1)).zip(&mut y) {
        for c in 0..n {
            let p = (c..n).max_by(|&i, &j| m[i * n + c].abs().total_cmp(&m[j * n + c].abs())).unwrap_or(c);
            if p != c {
                (0..n).for_each(|j| m.swap(p * n + j, c * n + j));
                *y = -*y;
            }
            let pivot = m[c * n + c];
            *y *= pivot;
            if pivot == 0.0 {
                break;
            }
            let (above, below) = m.split_at_mut((c + 1) * n);
            eliminate(&above[c * n + c..], below, c);
        }
    }
    put_f64(ctx, 0, &shape, &y)
}

const fn p(name: &'static str, run: Run) -> Op {
    Op::new(name, run, &[NUM]).gives(&[NUM])
}
/// Operator rows of this file.
pub const OPS: &[Op] = &[
    p("MatMulV2", run_matmul),
    p("MatMul", run_matmul),
    p("BatchMatMulV2", run_matmul),
    p("BatchMatMul", run_matmul),
    Op::new("GroupedMatmul", run_grouped, &[FLOAT, FLOAT, INDEX, FLOAT]).gives(&[FLOAT]),
    Op::new("MatrixDeterminant", run_determinant, &[FLOAT]).gives(&[FLOAT]),
];
