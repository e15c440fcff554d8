//! `ScatterElements`, `TensorScatterUpdate` (ONNX's ScatterND), `ScatterNd`, `TensorScatter`.
//! Updates are applied in order, so of several updates of one position the last one wins.
use super::gather::{element_places, tuples};
use crate::args::{Arg, axis, bad, count, int_attr, out, put_f64, put_i64, size, text};
use crate::kernels::math::special::{max, min};
use crate::kernels::shape::moving::{Source, with_width, write_moved};
use crate::op::Op;
use crate::store::types::{ANY, INDEX};
use ge_kernels::view::{Elem, lines};
use ge_kernels::with_kind;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

/// Copies the data to the output, unless the output already shares its memory.
fn take_over<T: Copy>(out: &mut [T], data: &[T]) {
    if out.as_ptr() != data.as_ptr() {
        out.copy_from_slice(data);
    }
}

/// Writes blocks of `block` updates to positions of the data, combined by `reduction`.
fn apply(
    ctx: &mut KernelCtx<'_>,
    data: &Arg<'_>,
    updates: &Arg<'_>,
    at: &[usize],
    block: usize,
    reduction: &str,
) -> Result<()> {
    if updates.dtype != data.dtype || updates.len != at.len() * block {
        let want = format!("{} elements of {}", at.len() * block, data.dtype);
        return Err(bad("updates", format!("{} of {}", updates.len, updates.dtype), want));
    }
    if reduction == "none" {
        let (d, u) = (Source::of(data)?, Source::of(updates)?);
        return write_moved(ctx, 0, &data.shape, d.bits, |o| {
            take_over(o, d.bytes());
            if block == 0 {
                return Ok(());
            }
            with_width!(d.width, N => {
                let (o, u) = (o.as_chunks_mut::<N>().0, u.items::<N>());
                if block == 1 {
                    at.iter().zip(u).for_each(|(to, v)| o[*to] = *v);
                } else {
                    at.iter().zip(u.chunks_exact(block)).for_each(|(to, v)| o[*to..to + block].copy_from_slice(v));
                }
                Ok(())
            })
        });
    }
    let Some(how) = Combine::named(reduction) else {
        return Err(bad("attribute `reduction`", reduction, "none, add, mul, min or max"));
    };
    with_kind!(data.kind()?, [F32, F64, F16, Bf16], T => {
        let (of, wide) = (T::from_f64, |v: T| v.to_f64());
        match how {
            Combine::Add => combine(ctx, data, updates, at, block, |a, b| of(wide(a) + wide(b))),
            Combine::Mul => combine(ctx, data, updates, at, block, |a, b| of(wide(a) * wide(b))),
            Combine::Max => combine(ctx, data, updates, at, block, |a, b| of(max(wide(a), wide(b)))),
            Combine::Min => combine(ctx, data, updates, at, block, |a, b| of(min(wide(a), wide(b)))),
        }
    }, else with_kind!(data.kind()?, [I8, I16, I32, I64, U8, U16, U32, U64, Bool], T => {
        let (of, wide) = (T::from_i64, |v: T| v.to_i64());
        match how {
            Combine::Add => combine(ctx, data, updates, at, block, |a, b| of(wide(a).wrapping_add(wide(b)))),
            Combine::Mul => combine(ctx, data, updates, at, block, |a, b| of(wide(a).wrapping_mul(wide(b)))),
            Combine::Max => combine(ctx, data, updates, at, block, |a: T, b: T| if b > a { b } else { a }),
            Combine::Min => combine(ctx, data, updates, at, block, |a: T, b: T| if b < a { b } else { a }),
        }
    }, else data.refused()))
}

/// How an update is combined with the old value.
#[derive(Clone, Copy)]
enum Combine {
    Add,
    Mul,
    Max,
    Min,
}

impl Combine {
    fn named(name: &str) -> Option<Combine> {
        Some(match name {
            "add" => Combine::Add,
            "mul" => Combine::Mul,
            "max" => Combine::Max,
            "min" => Combine::Min,
            _ => return None,
        })
    }
}

/// Combines blocks of updates with the data, in order. Each step is rounded to the type of the
/// data, as in ONNX's reference.
fn combine<T: Elem>(
    ctx: &mut KernelCtx<'_>,
    data: &Arg<'_>,
    updates: &Arg<'_>,
    at: &[usize],
    block: usize,
    f: impl Fn(T, T) -> T,
) -> Result<()> {
    let (d, u, o) = (data.values::<T>()?, updates.values::<T>()?, out::<T>(ctx, 0, &data.shape)?);
    take_over(o, d);
    match block {
        0 => {}
        1 => at.iter().zip(u).for_each(|(to, v)| o[*to] = f(o[*to], *v)),
        _ => at.iter().zip(u.chunks_exact(block)).for_each(|(to, v)| lines::update(&mut o[*to..to + block], v, &f)),
    }
    Ok(())
}
fn run_elements(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (data, idx, updates) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?, Arg::of(ctx, 2)?);
    let a = axis("attribute `axis`", int_attr(ctx, "axis", 0), data.rank())?;
    updates.need_shape(&idx.shape)?;
    let fits = idx.rank() == data.rank() && (0..data.rank()).all(|d| d == a || idx.shape[d] <= data.shape[d]);
    if !fits {
        return Err(bad(
            "input 1 `indices`",
            format!("shape {:?}", idx.shape),
            format!("at most {:?} but for axis {a}", data.shape),
        ));
    }
    let at = element_places(&idx, &data.shape, a)?;
    let how = text(ctx, "reduction", "none");
    apply(ctx, &data, &updates, &at, 1, how)
}
fn run_nd(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (data, idx, updates) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?, Arg::of(ctx, 2)?);
    let (at, block) = tuples(&idx, &data.shape, 0)?;
    let how = text(ctx, "reduction", "none");
    apply(ctx, &data, &updates, &at, block, how)
}
/// `ScatterNd(indices, x, shape)`: adds x to zeros.
fn run_scatter_nd(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (idx, x) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?);
    let shape = Arg::of(ctx, 2)?.list()?.iter().map(|&d| size("input 2 `shape`", d)).collect::<Result<Vec<_>>>()?;
    let n = count(&shape)?;
    let (at, block) = tuples(&idx, &shape, 0)?;
    if x.len != at.len() * block {
        return Err(bad("input 1 `x`", format!("shape {:?}", x.shape), format!("{} elements", at.len() * block)));
    }
    let pairs = at.iter().enumerate().flat_map(|(u, &d)| (0..block).map(move |k| (d + k, u * block + k)));
    if x.kind()?.is_float() {
        let (mut v, u) = (crate::args::filled(n, 0f64)?, x.f64s()?);
        pairs.for_each(|(to, from)| v[to] += u[from]);
        return put_f64(ctx, 0, &shape, &v);
    }
    let (mut v, u) = (crate::args::filled(n, 0i64)?, x.i64s()?);
    pairs.for_each(|(to, from)| v[to] = v[to].wrapping_add(u[from]));
    put_i64(ctx, 0, &shape, &v)
}
/// ONNX's TensorScatter: writes a batch of updates into a cache, for each batch from its own
/// position on.
fn run_cache(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (past, update, begin) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?, Arg::opt(ctx, 2)?);
    let a = axis("attribute `axis`", int_attr(ctx, "axis", -2), past.rank())?;
    let fits = a > 0
        && update.rank() == past.rank()
        && update.dtype == past.dtype
        && (0..past.rank()).all(|d| d == a || update.shape[d] == past.shape[d]);
    if !fits || update.shape[a] > past.shape[a] {
        return Err(bad(
            "input 1 `update`",
            format!("shape {:?}", update.shape),
            format!("{:?}, no longer on axis {a}", past.shape),
        ));
    }
    let (batch, n, m) = (past.shape[0], past.shape[a], update.shape[a]);
    let starts = match &begin {
        Some(b) => {
            b.need_shape(&[batch])?;
            b.i64s()?
        }
        None => vec![0; batch],
    };
    let circular = text(ctx, "mode", "linear") == "circular";
    for &s in &starts {
        if s < 0
            || (circular && s as u64 >= n.max(1) as u64)
            || (!circular && (s as u64).saturating_add(m as u64) > n as u64)
        {
            return Err(bad("input 2 `write_indices`", s, format!("places of {m} updates in {n}")));
        }
    }
    let inner: usize = past.shape[a + 1..].iter().product();
    let mid: usize = past.shape[1..a].iter().product();
    let (p, u) = (Source::of(&past)?, Source::of(&update)?);
    let run = inner * p.width;
    write_moved(ctx, 0, &past.shape, p.bits, |o| {
        take_over(o, p.bytes());
        for row in 0..batch * mid {
            for k in 0..m {
                let to = (row * n + (starts[row / mid] as usize + k) % n) * run;
                let from = (row * m + k) * run;
                o[to..to + run].copy_from_slice(&u.bytes()[from..from + run]);
            }
        }
        Ok(())
    })
}
/// Operator rows of this file.
pub const OPS: &[Op] = &[
    Op::moves("ScatterElements", run_elements, &[ANY, INDEX, ANY]),
    Op::moves("TensorScatterUpdate", run_nd, &[ANY, INDEX, ANY]),
    Op::new("ScatterNd", run_scatter_nd, &[INDEX, crate::store::types::NUM, INDEX]),
    Op::moves("TensorScatter", run_cache, &[ANY, ANY, INDEX]),
];
