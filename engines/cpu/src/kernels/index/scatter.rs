//! `ScatterElements`, `TensorScatterUpdate` (ONNX's ScatterND), `ScatterNd`, `TensorScatter`.
//! Updates are applied in order, so that of several to one place the last one stays.
use super::gather::{places, tuples};
use crate::args::{Arg, axis, bad, count, int_attr, put_f64, put_i64, size, text};
use crate::kernels::math::special::{max, min};
use crate::kernels::shape::moving::{Source, write_moved};
use crate::op::Op;
use crate::store::types::{BITS, INDEX};
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

/// Begins with the data, which an output in their place holds.
fn take_over(out: &mut [u8], data: &[u8]) {
    if out.as_ptr() != data.as_ptr() {
        out.copy_from_slice(data);
    }
}

/// Puts blocks of `block` updates at places of the data, combined by `reduction`.
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
    let pairs = at.iter().enumerate().flat_map(|(u, &d)| (0..block).map(move |k| (d + k, u * block + k)));
    if reduction == "none" {
        let (d, u) = (Source::of(data)?, Source::of(updates)?);
        let w = d.width;
        return write_moved(ctx, 0, &data.shape, d.bits, |o| {
            take_over(o, d.bytes());
            pairs.for_each(|(to, from)| o[to * w..(to + 1) * w].copy_from_slice(&u.bytes()[from * w..(from + 1) * w]));
            Ok(())
        });
    }
    if data.kind()?.is_float() {
        let f: fn(f64, f64) -> f64 = match reduction {
            "add" => |a, b| a + b,
            "mul" => |a, b| a * b,
            "max" => max,
            "min" => min,
            other => return Err(bad("attribute `reduction`", other, "none, add, mul, min or max")),
        };
        let (mut v, u) = (data.f64s()?, updates.f64s()?);
        pairs.for_each(|(to, from)| v[to] = f(v[to], u[from]));
        return put_f64(ctx, 0, &data.shape, &v);
    }
    let unsigned = crate::kernels::math::arith::is_unsigned(data.kind()?);
    let key = move |v: i64| if unsigned { i128::from(v as u64) } else { i128::from(v) };
    let f: &dyn Fn(i64, i64) -> i64 = match reduction {
        "add" => &|a, b| a.wrapping_add(b),
        "mul" => &|a, b| a.wrapping_mul(b),
        "max" => &|a, b| if key(b) > key(a) { b } else { a },
        "min" => &|a, b| if key(b) < key(a) { b } else { a },
        other => return Err(bad("attribute `reduction`", other, "none, add, mul, min or max")),
    };
    let (mut v, u) = (data.i64s()?, updates.i64s()?);
    pairs.for_each(|(to, from)| v[to] = f(v[to], u[from]));
    put_i64(ctx, 0, &data.shape, &v)
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
    let mut at = places(&idx, data.shape[a])?;
    let strides: Vec<usize> = data.layout()?.strides().iter().map(|&s| s as usize).collect();
    for (i, p) in at.iter_mut().enumerate() {
        let (mut rest, mut f) = (i, *p * strides[a]);
        for d in (0..idx.rank()).rev() {
            if d != a {
                f += rest % idx.shape[d] * strides[d];
            }
            rest /= idx.shape[d];
        }
        *p = f;
    }
    let how = text(ctx, "reduction", "none");
    apply(ctx, &data, &updates, &at, 1, how)
}
fn run_nd(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (data, idx, updates) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?, Arg::of(ctx, 2)?);
    let (at, block) = tuples(&idx, &data.shape, 0)?;
    let how = text(ctx, "reduction", "none");
    apply(ctx, &data, &updates, &at, block, how)
}
/// `ScatterNd(indices, x, shape)`: x added into zeros.
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
/// ONNX's TensorScatter: a batch of updates written into a cache from each batch's own place on.
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
/// The rows of this file.
pub const OPS: &[Op] = &[
    Op::new("ScatterElements", run_elements, &[BITS, INDEX, BITS]),
    Op::new("TensorScatterUpdate", run_nd, &[BITS, INDEX, BITS]),
    Op::new("ScatterNd", run_scatter_nd, &[INDEX, crate::store::types::NUM, INDEX]),
    Op::new("TensorScatter", run_cache, &[BITS, BITS, INDEX]),
];
