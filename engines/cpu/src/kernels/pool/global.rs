//! `GlobalAveragePool`, `GlobalMaxPool`, `GlobalLpPool`: `[N, C, ...]` to `[N, C, 1,
//! ...]`; `MaxUnpool`.
use crate::args::{Arg, bad, count, float_attr, out, put_f64, size};
use crate::kernels::conv::direct::regroup;
use crate::kernels::conv::window::{cann_pads, channels_last, spatial_list};
use crate::kernels::math::special::max;
use crate::op::Op;
use crate::store::types::{FLOAT, INDEX};
use ge_kernels::with_kind;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

fn global(ctx: &mut KernelCtx<'_>, f: impl Fn(&[f64]) -> f64) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    x.need_rank(2, usize::MAX)?;
    let r = x.rank();
    let last = channels_last(ctx) && r > 2;
    let (n, c) = (x.shape[0], if last { x.shape[r - 1] } else { x.shape[1] });
    let plane: usize = if last { &x.shape[1..r - 1] } else { &x.shape[2..] }.iter().product();
    let v = x.f64s()?;
    let v = if last { regroup(&v, n, plane, c)? } else { v };
    let mut shape = vec![1; r];
    shape[0] = n;
    shape[if last { r - 1 } else { 1 }] = c;
    let y: Vec<f64> = (0..n * c).map(|i| f(&v[i * plane..(i + 1) * plane])).collect();
    put_f64(ctx, 0, &shape, &y)
}
fn run_average(ctx: &mut KernelCtx<'_>) -> Result<()> {
    global(ctx, |p| p.iter().sum::<f64>() / p.len() as f64)
}
fn run_max(ctx: &mut KernelCtx<'_>) -> Result<()> {
    global(ctx, |p| p.iter().copied().fold(f64::NEG_INFINITY, max))
}
fn run_lp(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let e = float_attr(ctx, "p", 2.0);
    global(ctx, |p| p.iter().map(|v| v.abs().powf(e)).sum::<f64>().powf(1.0 / e))
}
/// The inverse of a max pool: writes each element to the position given by its index and zeros
/// elsewhere. Indices refer to the whole output that the windows imply.
fn run_unpool(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, at) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?);
    x.need_rank(3, 5)?;
    at.need_shape(&x.shape)?;
    let r = x.rank();
    let (k, s, p) = (spatial_list(ctx, "ksize", r, 1)?, spatial_list(ctx, "strides", r, 1)?, cann_pads(ctx, r - 2)?);
    let mut natural = x.shape.clone();
    for i in 0..r - 2 {
        let n = i128::from(x.shape[2 + i] as u64) - 1;
        let n = n * i128::from(s[i]) + i128::from(k[i]) - i128::from(p[i].0) - i128::from(p[i].1);
        natural[2 + i] = usize::try_from(n).map_err(|_| bad("window", n, "an output of zero or more"))?;
    }
    let shape = match Arg::opt(ctx, 2)? {
        Some(o) => o.list()?.iter().map(|&d| size("input 2 `output_shape`", d)).collect::<Result<Vec<_>>>()?,
        None => natural.clone(),
    };
    if shape.len() != r || shape[..2] != x.shape[..2] {
        return Err(bad("input 2 `output_shape`", format!("{shape:?}"), format!("a shape like {:?}", x.shape)));
    }
    count(&shape)?;
    let indices = at.i64s()?;
    // If the output is the one that the windows imply, an index is a position.
    let whole = count(&natural)?;
    let same = natural == shape && indices.iter().all(|i| (0..whole as i64).contains(i));
    let places = match same {
        true => indices.into_iter().map(|i| i as usize).collect(),
        false => indices.into_iter().map(|i| unpooled(i, &natural, &shape)).collect::<Result<Vec<_>>>()?,
    };
    with_kind!(x.kind()?, [F32, F64, F16, Bf16], T => {
        let (v, o) = (x.values::<T>()?, out::<T>(ctx, 0, &shape)?);
        o.fill(T::default());
        places.iter().zip(v).for_each(|(p, v)| o[*p] = *v);
        Ok(())
    }, else x.refused())
}
/// The position in the output for an index into the output that the windows imply. A larger output
/// keeps the positions within each plane.
fn unpooled(i: i64, natural: &[usize], shape: &[usize]) -> Result<usize> {
    let r = shape.len();
    let mut rest = size("input 1 `argmax`", i)?;
    let mut place = vec![0; r];
    for d in (0..r).rev() {
        place[d] = rest % natural[d].max(1);
        rest /= natural[d].max(1);
    }
    if rest > 0 || (0..r).any(|d| place[d] >= shape[d]) {
        return Err(bad("input 1 `argmax`", i, format!("places of {natural:?} inside {shape:?}")));
    }
    Ok(place.iter().zip(shape).fold(0, |a, (p, d)| a * d + p))
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[
    Op::new("GlobalAveragePool", run_average, &[FLOAT]).gives(&[FLOAT]),
    Op::new("GlobalMaxPool", run_max, &[FLOAT]).gives(&[FLOAT]),
    Op::new("GlobalLpPool", run_lp, &[FLOAT]).gives(&[FLOAT]),
    Op::new("MaxUnpool", run_unpool, &[FLOAT, INDEX, INDEX]).gives(&[FLOAT]),
];
