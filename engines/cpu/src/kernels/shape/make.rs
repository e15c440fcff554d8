//! Operators that make tensors from sizes: `Fill`, `Range`, `EyeLike`, `Trilu`, `OneHot`.
use super::moving::{Source, copy_through, with_width, write_moved};
use crate::args::{Arg, axis, bad, count, flag, int_attr, kind_of, out, put_f64, room, size};
use crate::op::Op;
use crate::store::types::{ANY, BITS, INDEX, NUM, NUMB};
use ge_kernels::view::{Elem, Layout};
use ge_kernels::with_kind;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

fn run_fill(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let shape = Arg::of(ctx, 0)?.list()?.iter().map(|&d| size("input 0 `dims`", d)).collect::<Result<Vec<_>>>()?;
    let v = Arg::of(ctx, 1)?;
    if v.len != 1 {
        return Err(bad("input 1 `value`", format!("{} elements", v.len), "one element"));
    }
    count(&shape)?;
    let l = Layout::contiguous(&[]).and_then(|l| l.broadcast_to(&shape)).map_err(crate::args::view_error)?;
    copy_through(ctx, 0, &shape, &Source::of(&v)?, &l)
}
fn run_range(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (a, b, d) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?, Arg::of(ctx, 2)?);
    let zero = || bad("input 2 `delta`", 0, "a step other than zero");
    if a.kind()?.is_float() {
        let (s, e, d) = (a.scalar()?, b.scalar()?, d.scalar()?);
        if d == 0.0 {
            return Err(zero());
        }
        let n = ((e - s) / d).ceil();
        if !n.is_finite() || n >= 1e15 {
            return Err(bad("length of the range", n, "a finite number below 1e15"));
        }
        let n = n.max(0.0) as usize;
        let mut v = room(n)?;
        v.extend((0..n).map(|i| s + i as f64 * d));
        return put_f64(ctx, 0, &[n], &v);
    }
    let (s, e, d) = (i128::from(a.int()?), i128::from(b.int()?), i128::from(d.int()?));
    if d == 0 {
        return Err(zero());
    }
    let span = if d > 0 { e - s } else { s - e };
    let n = if span <= 0 { 0 } else { (span - 1) / d.abs() + 1 };
    let n = usize::try_from(n).map_err(|_| bad("length of the range", n, "below 1e15"))?;
    let mut v = room(n)?;
    v.extend((0..n as i128).map(|i| (s + i * d) as i64));
    crate::args::put_i64(ctx, 0, &[n], &v)
}
fn run_eye_like(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    x.need_rank(2, 2)?;
    let k = int_attr(ctx, "k", 0);
    let d = ctx.output_dtype(0).unwrap_or_default();
    let kind = kind_of(d).ok_or_else(|| bad("type of output 0", d, "a number"))?;
    let (r, c) = (x.shape[0] as i64, x.shape[1] as i64);
    with_kind!(kind, T => {
        let o = out::<T>(ctx, 0, &x.shape)?;
        o.fill(T::default());
        for i in 0..r {
            let j = i.saturating_add(k);
            if (0..c).contains(&j) {
                o[(i * c + j) as usize] = T::from_i64(1);
            }
        }
    });
    Ok(())
}
fn run_trilu(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    x.need_rank(2, usize::MAX)?;
    let k = Arg::opt(ctx, 1)?.map_or(Ok(0), |k| k.int())?;
    let upper = flag(ctx, "upper", true);
    let (r, c) = (x.shape[x.rank() - 2], x.shape[x.rank() - 1]);
    let src = Source::of(&x)?;
    let w = src.width;
    write_moved(ctx, 0, &x.shape, src.bits, |bytes| {
        if bytes.is_empty() {
            return Ok(());
        }
        for (i, (o, from)) in bytes.chunks_exact_mut(c * w).zip(src.bytes().chunks_exact(c * w)).enumerate() {
            // The number of columns to the left of the boundary.
            let edge = ((i % r) as i64).saturating_add(k).saturating_add(i64::from(!upper)).clamp(0, c as i64);
            let (left, right) = o.split_at_mut(edge as usize * w);
            let (from_left, from_right) = from.split_at(edge as usize * w);
            if upper {
                left.fill(0);
                right.copy_from_slice(from_right);
            } else {
                left.copy_from_slice(from_left);
                right.fill(0);
            }
        }
        Ok(())
    })
}
fn run_one_hot(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, depth, on, off) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?, Arg::of(ctx, 2)?, Arg::of(ctx, 3)?);
    let depth = size("input 1 `depth`", depth.int()?)?;
    if on.len != 1 || off.len != 1 || on.dtype != off.dtype {
        return Err(bad(
            "on_value and off_value",
            format!("{} of {} and {} of {}", on.len, on.dtype, off.len, off.dtype),
            "one of each, of one type",
        ));
    }
    let a = axis("attribute `axis`", int_attr(ctx, "axis", -1), x.rank() + 1)?;
    let mut shape = x.shape.clone();
    shape.insert(a, depth);
    count(&shape)?;
    let inner: usize = x.shape[a..].iter().product();
    let places = x.i64s()?;
    let (son, soff) = (Source::of(&on)?, Source::of(&off)?);
    write_moved(ctx, 0, &shape, son.bits, |bytes| {
        with_width!(son.width, N => {
            let (one, zero, o) = (son.items::<N>()[0], soff.items::<N>()[0], bytes.as_chunks_mut::<N>().0);
            o.fill(zero);
            for (i, &p) in places.iter().enumerate() {
                let p = if p < 0 { p.saturating_add(depth as i64) } else { p };
                if (0..depth as i64).contains(&p) {
                    o[(i / inner * depth + p as usize) * inner + i % inner] = one;
                }
            }
            Ok(())
        })
    })
}
/// Operator rows of this file.
pub const OPS: &[Op] = &[
    Op::moves("Fill", run_fill, &[INDEX, ANY]),
    Op::new("Range", run_range, &[NUM]).gives(&[NUM]),
    Op::new("EyeLike", run_eye_like, &[BITS]).gives(&[NUMB]),
    Op::moves("Trilu", run_trilu, &[ANY, INDEX]),
    Op::moves("OneHot", run_one_hot, &[NUM, NUM, ANY]),
];
