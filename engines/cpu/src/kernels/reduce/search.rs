//! `ArgMaxV2 ArgMaxD ArgMinV2 ArgMinD`: the first position of the extreme, or the last one with
//! `select_last_index`. NaN counts as the extreme.
use super::fold::kept_shape;
use crate::args::{Arg, axis, bad, count, filled, flag, put_i64};
use crate::op::{Op, Run};
use crate::store::types::{INDEX, NUM};
use ge_kernels::view::{Elem, lines};
use ge_kernels::with_kind;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

/// The axis given by the attribute `key`, otherwise by input 1.
pub fn axis_of(ctx: &KernelCtx<'_>, key: &str, rank: usize) -> Result<usize> {
    let a = match ctx.attrs.int(key) {
        Some(a) => a,
        None => Arg::of(ctx, 1)?.int()?,
    };
    axis(key, a, rank)
}
/// Whether an element is NaN.
fn is_nan<T: Elem>(v: T) -> bool {
    v.partial_cmp(&v).is_none()
}
/// The position of the extreme in a line: first its value, several elements at a time, then its
/// position.
fn place<T: Elem>(line: &[T], better: impl Fn(T, T) -> T + Copy, last: bool) -> usize {
    let Some(&first) = line.first() else { return 0 };
    let best = lines::fold_lanes(line, first, better, better);
    let is = |v: &T| *v == best || (is_nan(best) && is_nan(*v));
    // Blocks that do not contain it are skipped as a whole.
    const BLOCK: usize = 64;
    let has = |part: &[T]| lines::fold(part, false, |found, v| found | is(&v));
    if last {
        let part = line.rchunks(BLOCK).position(has).unwrap_or(0);
        let end = line.len() - part * BLOCK;
        line[..end].iter().rposition(is).unwrap_or(0)
    } else {
        let start = line.chunks(BLOCK).position(has).unwrap_or(0) * BLOCK;
        start + line[start..].iter().position(is).unwrap_or(0)
    }
}
/// The positions of the extremes of columns: first their values, then their positions. Rows are
/// scanned so that the wanted position, first or last, is written last.
fn places<T: Elem>(part: &[T], inner: usize, better: impl Fn(T, T) -> T + Copy, last: bool, y: &mut [i64]) {
    let n = part.len() / inner;
    let mut best = part[..inner].to_vec();
    let rows = part.chunks_exact(inner);
    rows.clone().skip(1).for_each(|row| lines::update(&mut best, row, better));
    let mut mark = |k: usize, row: &[T]| {
        let k = k as i64;
        lines::update_by(y, row, &best, |at, v, best| if v == best || (is_nan(best) && is_nan(v)) { k } else { at });
    };
    if last {
        rows.enumerate().for_each(|(k, row)| mark(k, row));
    } else {
        rows.rev().enumerate().for_each(|(k, row)| mark(n - 1 - k, row));
    }
}
fn run_arg(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let a = axis_of(ctx, "dimension", x.rank())?;
    let (greatest, last) = (ctx.op.starts_with("ArgMax"), flag(ctx, "select_last_index", false));
    let shape = kept_shape(&x.shape, &[a], flag(ctx, "keep_dims", false));
    let (n, inner): (usize, usize) = (x.shape[a], x.shape[a + 1..].iter().product());
    let total = count(&shape)?;
    if n == 0 && total > 0 {
        return Err(bad("input 0", format!("shape {:?}", x.shape), "elements to search"));
    }
    let mut y = filled(total, 0i64)?;
    if total > 0 {
        with_kind!(x.kind()?, T => {
            let v = x.values::<T>()?;
            if greatest {
                search(v, (n, inner), |a: T, b: T| if b > a { b } else { a }, last, &mut y);
            } else {
                search(v, (n, inner), |a: T, b: T| if b < a { b } else { a }, last, &mut y);
            }
        });
    }
    put_i64(ctx, 0, &shape, &y)
}
/// Writes the position of the best element of each lane of `n` elements, `inner` apart. Nothing is
/// better than NaN; `better` chooses among numbers.
pub fn search<T: Elem>(
    v: &[T],
    (n, inner): (usize, usize),
    better: impl Fn(T, T) -> T + Copy,
    last: bool,
    y: &mut [i64],
) {
    let better = |a: T, b: T| match (is_nan(a), is_nan(b)) {
        (true, _) => a,
        (_, true) => b,
        _ => better(a, b),
    };
    if inner == 1 {
        y.iter_mut().zip(v.chunks_exact(n)).for_each(|(y, line)| *y = place(line, better, last) as i64);
    } else {
        let parts = y.chunks_exact_mut(inner).zip(v.chunks_exact(n * inner));
        parts.for_each(|(y, part)| places(part, inner, better, last, y));
    }
}

const fn g(name: &'static str) -> Op {
    Op::new(name, run_arg as Run, &[NUM, INDEX]).gives(&[INDEX])
}
/// Operator rows of this file.
pub const OPS: &[Op] = &[g("ArgMaxV2"), g("ArgMaxD"), g("ArgMinV2"), g("ArgMinD")];
