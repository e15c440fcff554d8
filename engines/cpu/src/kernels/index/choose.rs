//! Operators whose output sizes depend on data: `NonZero`, `Compress`, `Unique`; and `MapIndex`.
use crate::args::{Arg, axis, bad, filled, flag, out, put_i64, room};
use crate::kernels::math::cast::doubles;
use crate::kernels::reduce::top::key;
use crate::kernels::shape::moving::{Source, with_width, write_moved};
use crate::op::{Op, Text};
use crate::store::types::{ANY, BOOL, INDEX, NUMB_TEXT, REAL_TEXT};
use ge_kernels::view::{Bool, Elem, lines};
use ge_kernels::with_kind;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;
use std::cmp::Ordering;

fn run_non_zero(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    if let Ok(kind) = x.kind() {
        return with_kind!(kind, T => places_of(ctx, &x, x.values::<T>()?, |v| v != T::default()));
    }
    places_of(ctx, &x, &doubles(&x)?, |v| v != 0.0)
}
/// Writes the coordinates of the elements for which `f` is true, row by row of the last axis.
fn places_of<T: Copy>(ctx: &mut KernelCtx<'_>, x: &Arg<'_>, v: &[T], f: impl Fn(T) -> bool) -> Result<()> {
    let n = lines::fold(v, 0usize, |n, v| n + usize::from(f(v)));
    let by_axis = flag(ctx, "transpose", true);
    let (r, width) = (x.rank(), x.shape.last().copied().unwrap_or(1));
    let o = out::<i64>(ctx, 0, &if by_axis { [r, n] } else { [n, r] })?;
    let Some(lead) = x.shape.split_last().map(|(_, lead)| lead).filter(|_| n > 0) else { return Ok(()) };
    let mut row = crate::args::filled(width, 0i64)?;
    let mut index = vec![0i64; r - 1];
    let mut done = 0;
    for part in v.chunks_exact(width) {
        // Every position is written where the next accepted one belongs, so there is no branch on
        // the data.
        let mut here = 0;
        for (k, v) in part.iter().enumerate() {
            row[here] = k as i64;
            here += usize::from(f(*v));
        }
        if by_axis {
            index.iter().enumerate().for_each(|(d, i)| o[d * n + done..][..here].fill(*i));
            o[(r - 1) * n + done..][..here].copy_from_slice(&row[..here]);
        } else {
            for (o, k) in o[done * r..].chunks_exact_mut(r).zip(&row[..here]) {
                o[..r - 1].copy_from_slice(&index);
                o[r - 1] = *k;
            }
        }
        done += here;
        for (i, &size) in index.iter_mut().zip(lead).rev() {
            *i += 1;
            if *i < size as i64 {
                break;
            }
            *i = 0;
        }
    }
    Ok(())
}
/// Writes the listed parts of an axis, or of the flattened data if `a` is `None`.
fn take(ctx: &mut KernelCtx<'_>, x: &Arg<'_>, a: Option<usize>, list: &[usize]) -> Result<()> {
    let (mut shape, n, inner) = match a {
        Some(a) => (x.shape.clone(), x.shape[a], x.shape[a + 1..].iter().product::<usize>()),
        None => (vec![x.len], x.len, 1),
    };
    shape[a.unwrap_or(0)] = list.len();
    let src = Source::of(x)?;
    let run = inner * src.width;
    write_moved(ctx, 0, &shape, src.bits, |o| {
        if run == 0 || list.is_empty() {
            return Ok(());
        }
        let blocks = src.bytes().chunks_exact(n * run).zip(o.chunks_exact_mut(list.len() * run));
        for (from, to) in blocks {
            match run {
                1 | 2 | 4 | 8 | 16 => with_width!(run, N => {
                    let (from, to) = (from.as_chunks::<N>().0, to.as_chunks_mut::<N>().0);
                    to.iter_mut().zip(list).for_each(|(to, p)| *to = from[*p]);
                }),
                _ => {
                    let parts = to.chunks_exact_mut(run).zip(list);
                    parts.for_each(|(to, p)| to.copy_from_slice(&from[p * run..(p + 1) * run]));
                }
            }
        }
        Ok(())
    })
}
/// The places of the conditions that are true.
fn places(conditions: &[Bool]) -> Result<Vec<usize>> {
    // Each place is written, and the next one overwrites it unless the condition is true: a jump
    // that depends on the condition is often mispredicted.
    let mut list = filled(conditions.len() + 1, 0)?;
    let mut found = 0;
    for (i, c) in conditions.iter().enumerate() {
        list[found] = i;
        found += usize::from(c.get());
    }
    list.truncate(found);
    Ok(list)
}
fn run_compress(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, c) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?);
    let a = ctx.attrs.int("axis").map(|a| axis("attribute `axis`", a, x.rank())).transpose()?;
    let n = a.map_or(x.len, |a| x.shape[a]);
    let list = places(c.values::<Bool>()?)?;
    if let Some(&p) = list.last().filter(|&&p| p >= n) {
        return Err(bad("input 1 `condition`", format!("true at {p}"), format!("places below {n}")));
    }
    take(ctx, &x, a, &list)
}
fn compare<T: Elem>(a: &[T], b: &[T]) -> Ordering {
    let nan = |v: &T| v.partial_cmp(v).is_none();
    a.iter()
        .zip(b)
        .map(|(p, q)| p.partial_cmp(q).unwrap_or_else(|| nan(p).cmp(&nan(q))))
        .find(|o| o.is_ne())
        .unwrap_or(Ordering::Equal)
}
fn run_unique(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let a = ctx.attrs.int("axis").map(|a| axis("attribute `axis`", a, x.rank())).transpose()?;
    let (n, inner) = a.map_or((x.len, 1), |a| (x.shape[a], x.shape[a + 1..].iter().product()));
    let outer = a.map_or(1, |a| x.shape[..a].iter().product());
    let mut order: Vec<usize> = room(n)?;
    let mut same = filled(n, false)?;
    with_kind!(x.kind()?, T => {
        let v = x.values::<T>()?;
        let w: usize = outer * inner;
        if w == 1 {
            // Keys beside their places are sorted faster than places alone.
            let mut keys: Vec<(i64, usize)> = room(n)?;
            keys.extend(v.iter().map(|v| key(*v)).zip(0..));
            keys.sort_unstable();
            order.extend(keys.iter().map(|k| k.1));
            same.iter_mut().skip(1).zip(keys.windows(2)).for_each(|(s, k)| *s = k[0].0 == k[1].0);
        } else {
            // Each part of the axis becomes one row.
            let mut rows: Vec<T> = room(x.len)?;
            for k in 0..n {
                for o in 0..outer {
                    rows.extend_from_slice(&v[(o * n + k) * inner..][..inner]);
                }
            }
            let row = |k: usize| &rows[k * w..(k + 1) * w];
            order.extend(0..n);
            order.sort_by(|p, q| compare(row(*p), row(*q)));
            for i in 1..n {
                same[i] = compare(row(order[i]), row(order[i - 1])).is_eq();
            }
        }
    });
    // Where each group of equal parts begins in this order. The first of a group has the lowest
    // index.
    let mut starts: Vec<usize> = room(n)?;
    starts.extend((0..n).filter(|i| !same[*i]));
    let end = |at: usize| same[at + 1..].iter().position(|s| !s).map_or(n, |more| at + 1 + more);
    if !flag(ctx, "sorted", true) {
        starts.sort_by_key(|at| order[*at]);
    }
    let first: Vec<usize> = starts.iter().map(|at| order[*at]).collect();
    take(ctx, &x, a, &first)?;
    let m = starts.len();
    if ctx.output_count() > 1 {
        let first: Vec<i64> = first.into_iter().map(|i| i as i64).collect();
        put_i64(ctx, 1, &[m], &first)?;
    }
    if ctx.output_count() > 2 {
        let mut inverse = filled(n, 0)?;
        for (i, at) in starts.iter().enumerate() {
            order[*at..end(*at)].iter().for_each(|&k| inverse[k] = i as i64);
        }
        put_i64(ctx, 2, &[n], &inverse)?;
    }
    if ctx.output_count() > 3 {
        let counts: Vec<i64> = starts.iter().map(|at| (end(*at) - at) as i64).collect();
        put_i64(ctx, 3, &[m], &counts)?;
    }
    Ok(())
}
/// The number of the row that equals the values, or the number of rows if none does; with input 2,
/// the entry of input 2 at that number.
fn run_map_index(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, rows) = (Arg::of(ctx, 0)?.i64s()?, Arg::of(ctx, 1)?.i64s()?);
    if x.is_empty() || rows.len() % x.len() != 0 {
        return Err(bad("input data_seq", format!("{} numbers", rows.len()), format!("rows of {}", x.len())));
    }
    let found = rows.chunks_exact(x.len()).position(|r| *r == *x).unwrap_or(rows.len() / x.len());
    let levels = Arg::opt(ctx, 2)?.map(|a| a.i64s()).transpose()?;
    let y = levels.and_then(|l| l.get(found).copied()).unwrap_or(found as i64);
    put_i64(ctx, 0, &[], &[y])
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[
    Op::new("MapIndex", run_map_index, &[INDEX, INDEX, INDEX]).gives(&[INDEX]),
    // The empty string has rank zero.
    Op::new("NonZero", run_non_zero, &[REAL_TEXT]).gives(&[INDEX]).text(Text::Ranks),
    Op::moves("Compress", run_compress, &[ANY, BOOL]),
    Op::new("Unique", run_unique, &[NUMB_TEXT]).gives(&[NUMB_TEXT, INDEX]).text(Text::Ranks),
];
