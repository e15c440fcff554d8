//! `GatherV2`, `Gather`, `GatherElements`, `GatherNd`. Negative indices count from the end; other
//! indices out of range are errors.
use crate::args::{Arg, axis, bad, int_attr, size, view_error};
use crate::kernels::shape::moving::{Source, with_width, write_moved};
use crate::op::Op;
use crate::store::types::{ANY, INDEX};
use ge_kernels::view::{Elem, Layout, Nest};
use ge_kernels::with_kind;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

/// Indices for an axis of size `n`, converted to count from the front.
pub fn places(a: &Arg<'_>, n: usize) -> Result<Vec<usize>> {
    let mut v = a.i64s()?;
    for p in &mut v {
        *p = within(*p, n, a.index)?;
    }
    Ok(v.into_iter().map(|p| p as usize).collect())
}
/// One index for an axis of size `n`, converted to count from the front.
pub fn within(p: i64, n: usize, input: usize) -> Result<i64> {
    let at = if p < 0 { p.saturating_add(n as i64) } else { p };
    if (0..n as i64).contains(&at) {
        Ok(at)
    } else {
        Err(bad(format!("index in input {input}"), p, format!("-{n} to {}", n as i64 - 1)))
    }
}
fn run_gather(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, idx) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?);
    let a = if ctx.op == "GatherV2" { Arg::of(ctx, 2)?.int()? } else { int_attr(ctx, "axis", 0) };
    let a = axis("axis", a, x.rank())?;
    let b = size("attribute `batch_dims`", int_attr(ctx, "batch_dims", 0))?;
    if b > idx.rank() || b > a || idx.shape[..b] != x.shape[..b] {
        return Err(bad(
            "attribute `batch_dims`",
            b,
            format!("leading dimensions that {:?} and {:?} share before axis {a}", x.shape, idx.shape),
        ));
    }
    let mut shape = x.shape[..a].to_vec();
    shape.extend_from_slice(&idx.shape[b..]);
    shape.extend_from_slice(&x.shape[a + 1..]);
    let batch: usize = x.shape[..b].iter().product();
    let outer: usize = x.shape[b..a].iter().product();
    let inner: usize = x.shape[a + 1..].iter().product();
    let (n, each) = (x.shape[a], idx.shape[b..].iter().product::<usize>());
    let at = places(&idx, n)?;
    let src = Source::of(&x)?;
    let run = inner * src.width;
    write_moved(ctx, 0, &shape, src.bits, |o| {
        if o.is_empty() {
            return Ok(());
        }
        let from = src.bytes();
        crate::par::rows(o, run * each, run * each, |row, o| {
            let k = row / outer % batch.max(1);
            for (o, p) in o.chunks_exact_mut(run).zip(&at[k * each..(k + 1) * each]) {
                let f = (row * n + p) * run;
                o.copy_from_slice(&from[f..f + run]);
            }
            Ok(())
        })
    })
}
fn run_gather_elements(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, idx) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?);
    let a = axis("attribute `dim`", int_attr(ctx, "dim", 0), x.rank())?;
    let fits = idx.rank() == x.rank() && (0..x.rank()).all(|d| d == a || idx.shape[d] <= x.shape[d]);
    if !fits {
        return Err(bad(
            "input 1 `index`",
            format!("shape {:?}", idx.shape),
            format!("at most {:?} but for axis {a}", x.shape),
        ));
    }
    let at = element_places(&idx, &x.shape, a)?;
    let src = Source::of(&x)?;
    write_moved(ctx, 0, &idx.shape, src.bits, |bytes| {
        with_width!(src.width, N => {
            let from = src.items::<N>();
            bytes.as_chunks_mut::<N>().0.iter_mut().zip(&at).for_each(|(o, p)| *o = from[*p]);
            Ok(())
        })
    })
}
/// The positions in a tensor of shape `shape` that indices along axis `a` refer to. Each index
/// keeps its own position on the other axes.
pub fn element_places(idx: &Arg<'_>, shape: &[usize], a: usize) -> Result<Vec<usize>> {
    let mut at = crate::args::filled(idx.len, 0usize)?;
    if at.is_empty() {
        return Ok(at);
    }
    let whole = Layout::contiguous(shape).map_err(view_error)?;
    let (n, stride) = (shape[a], whole.strides()[a] as usize);
    // The positions if every index were 0.
    let mut base = whole;
    for (d, &size) in idx.shape.iter().enumerate() {
        base = base.slice(d, 0, 1, if d == a { 1 } else { size }).map_err(view_error)?;
    }
    let base = base.broadcast_to(&idx.shape).map_err(view_error)?;
    let nest = Nest::new(&idx.shape, [&base]);
    let mut outside = false;
    with_kind!(idx.kind()?, [I32, I64, I8, I16, U8, U16, U32, U64], T => {
        let mut from = idx.values::<T>()?;
        let mut to = &mut at[..];
        nest.each_run(|[p], len, [s]| {
            let (line, rest) = std::mem::take(&mut to).split_at_mut(len);
            let mut first = p as usize;
            for (o, i) in line.iter_mut().zip(&from[..len]) {
                let i = i.to_i64();
                let i = if i < 0 { i.wrapping_add(n as i64) } else { i } as usize;
                outside |= i >= n;
                *o = first.wrapping_add(i.wrapping_mul(stride));
                first = first.wrapping_add_signed(s);
            }
            (to, from) = (rest, &from[len..]);
        });
    }, else idx.refused()?);
    if outside {
        places(idx, n)?;
    }
    Ok(at)
}
/// Offsets that tuples of indices refer to, and the size of the blocks of trailing axes. The first
/// `b` axes are shared by the indices and x.
pub fn tuples(idx: &Arg<'_>, x_shape: &[usize], b: usize) -> Result<(Vec<usize>, usize)> {
    let Some(&k) = idx.shape.last() else { return Err(bad("input of indices", "a scalar", "rank 1 or more")) };
    if b >= idx.rank() || b + k > x_shape.len() || idx.shape[..b] != x_shape[..b] {
        return Err(bad(
            format!("input {}", idx.index),
            format!("shape {:?}", idx.shape),
            format!("tuples that name places of {x_shape:?}"),
        ));
    }
    let inner: usize = x_shape[b + k..].iter().product();
    let whole: usize = x_shape[b..].iter().product();
    let per: usize = idx.shape[b..idx.rank() - 1].iter().product();
    let total: usize = idx.shape[..idx.rank() - 1].iter().product();
    let v = idx.i64s()?;
    let mut at = crate::args::room(total)?;
    for t in 0..total {
        let mut f = 0;
        for j in 0..k {
            f = f * x_shape[b + j] + within(v[t * k + j], x_shape[b + j], idx.index)? as usize;
        }
        at.push(t / per.max(1) * whole + f * inner);
    }
    Ok((at, inner))
}
fn run_gather_nd(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, idx) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?);
    let b = size("attribute `batch_dims`", int_attr(ctx, "batch_dims", 0))?;
    let (at, inner) = tuples(&idx, &x.shape, b)?;
    let mut shape = idx.shape[..idx.rank() - 1].to_vec();
    shape.extend_from_slice(&x.shape[b + idx.shape[idx.rank() - 1]..]);
    let src = Source::of(&x)?;
    let run = inner * src.width;
    write_moved(ctx, 0, &shape, src.bits, |o| {
        if run > 0 {
            for (o, p) in o.chunks_exact_mut(run).zip(&at) {
                o.copy_from_slice(&src.bytes()[p * src.width..p * src.width + run]);
            }
        }
        Ok(())
    })
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[
    Op::moves("GatherV2", run_gather, &[ANY, INDEX]),
    Op::moves("Gather", run_gather, &[ANY, INDEX]),
    Op::moves("GatherElements", run_gather_elements, &[ANY, INDEX]),
    Op::moves("GatherNd", run_gather_nd, &[ANY, INDEX]),
];
