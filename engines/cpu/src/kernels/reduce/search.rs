//! `ArgMaxV2 ArgMaxD ArgMinV2 ArgMinD` (first, or last by `select_last_index`; NaN wins), `TopKV2`
//! (equal values by lower index), `Cumsum CumsumD Cumprod CumprodD`.
use super::fold::kept_shape;
use crate::args::{Arg, axis, bad, count, filled, flag, out_bytes, put_f64, put_i64, room, size};
use crate::kernels::shape::moving::with_width;
use crate::op::{Op, Run};
use crate::store::types::{INDEX, NUM};
use ge_kernels::view::Elem;
use ge_kernels::with_kind;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;
use std::cmp::Ordering;

fn axis_of(ctx: &KernelCtx<'_>, key: &str, rank: usize) -> Result<usize> {
    let a = match ctx.attrs.int(key) {
        Some(a) => a,
        None => Arg::of(ctx, 1)?.int()?,
    };
    axis(key, a, rank)
}
/// Total order of values: NaN above all.
fn order<T: Elem>(a: &T, b: &T) -> Ordering {
    a.partial_cmp(b).unwrap_or_else(|| {
        let nan = |v: &T| v.partial_cmp(v).is_none();
        nan(a).cmp(&nan(b))
    })
}
/// As [`order`], with NaN below all.
fn order_low<T: Elem>(a: &T, b: &T) -> Ordering {
    a.partial_cmp(b).unwrap_or_else(|| {
        let nan = |v: &T| v.partial_cmp(v).is_none();
        nan(b).cmp(&nan(a))
    })
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
    let mut y = room(total)?;
    with_kind!(x.kind()?, T => {
        let v = x.values::<T>()?;
        for i in 0..total {
            let base = i / inner * n * inner + i % inner;
            let mut best = 0;
            for k in 1..n {
                let (b, c) = (&v[base + best * inner], &v[base + k * inner]);
                let o = if greatest { order(c, b) } else { order_low(b, c) };
                if o == Ordering::Greater || (last && o == Ordering::Equal) {
                    best = k;
                }
            }
            y.push(best as i64);
        }
    });
    put_i64(ctx, 0, &shape, &y)
}
fn run_top_k(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, k) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?.int()?);
    let a = axis("attribute `dim`", crate::args::int_attr(ctx, "dim", -1), x.rank())?;
    let n = x.shape[a];
    let k = size("input 1 `k`", k)?;
    if k > n {
        return Err(bad("input 1 `k`", k, format!("0 to {n}")));
    }
    let largest = flag(ctx, "largest", true);
    let mut shape = x.shape.clone();
    shape[a] = k;
    let inner: usize = x.shape[a + 1..].iter().product();
    let outer: usize = x.shape[..a].iter().product();
    let mut places = filled(count(&shape)?, 0usize)?;
    with_kind!(x.kind()?, T => {
        let v = x.values::<T>()?;
        let mut idx: Vec<usize> = Vec::new();
        for o in 0..outer {
            for i in 0..inner {
                let at = |p: usize| &v[(o * n + p) * inner + i];
                idx.clear();
                idx.extend(0..n);
                let by = |p: &usize, q: &usize| if largest { order(at(*q), at(*p)) } else { order(at(*p), at(*q)) }.then(p.cmp(q));
                if k > 0 && k < n {
                    idx.select_nth_unstable_by(k - 1, by);
                }
                idx.truncate(k);
                idx.sort_unstable_by(by);
                idx.iter().enumerate().for_each(|(r, p)| places[(o * k + r) * inner + i] = *p);
            }
        }
    });
    let width = x.kind()?.size();
    let o = out_bytes(ctx, 0, &shape)?;
    with_width!(width, N => {
        let (from, to) = (x.bytes().as_chunks::<N>().0, o.as_chunks_mut::<N>().0);
        for (j, (o, p)) in to.iter_mut().zip(&places).enumerate() {
            *o = from[(j / (k * inner).max(1) * n + p) * inner + j % inner];
        }
    });
    if ctx.output_count() > 1 {
        let v: Vec<i64> = places.into_iter().map(|p| p as i64).collect();
        put_i64(ctx, 1, &shape, &v)?;
    }
    Ok(())
}
/// Running totals along an axis.
fn running<T: Copy>(
    v: &mut [T],
    n: usize,
    inner: usize,
    unit: T,
    (exclusive, reverse): (bool, bool),
    f: impl Fn(T, T) -> T,
) {
    for part in v.chunks_exact_mut((n * inner).max(1)) {
        for i in 0..inner {
            let mut sum = unit;
            for k in 0..n {
                let p = (if reverse { n - 1 - k } else { k }) * inner + i;
                let next = f(sum, part[p]);
                part[p] = if exclusive { sum } else { next };
                sum = next;
            }
        }
    }
}
fn run_cumulative(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let a = if x.rank() == 0 { None } else { Some(axis_of(ctx, "axis", x.rank())?) };
    let (n, inner) = a.map_or((1, 1), |a| (x.shape[a], x.shape[a + 1..].iter().product()));
    let how = (flag(ctx, "exclusive", false), flag(ctx, "reverse", false));
    let product = ctx.op.starts_with("Cumprod");
    if x.kind()?.is_float() {
        let mut v = x.f64s()?;
        if product {
            running(&mut v, n, inner, 1.0, how, |a, b| a * b)
        } else {
            running(&mut v, n, inner, 0.0, how, |a, b| a + b)
        }
        return put_f64(ctx, 0, &x.shape, &v);
    }
    let mut v = x.i64s()?;
    if product {
        running(&mut v, n, inner, 1, how, i64::wrapping_mul)
    } else {
        running(&mut v, n, inner, 0, how, i64::wrapping_add)
    }
    put_i64(ctx, 0, &x.shape, &v)
}

const fn g(name: &'static str) -> Op {
    Op::new(name, run_arg as Run, &[NUM, INDEX]).gives(&[INDEX])
}
const fn c(name: &'static str) -> Op {
    Op::new(name, run_cumulative as Run, &[NUM, INDEX]).gives(&[NUM])
}
/// The rows of this file.
pub const OPS: &[Op] = &[
    g("ArgMaxV2"),
    g("ArgMaxD"),
    g("ArgMinV2"),
    g("ArgMinD"),
    c("Cumsum"),
    c("CumsumD"),
    c("Cumprod"),
    c("CumprodD"),
    Op::new("TopKV2", run_top_k, &[NUM, INDEX]).gives(&[NUM, INDEX]),
];
