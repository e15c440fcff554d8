//! `LayerNormV3(x, gamma, beta?) -> y, mean, rstd`,
//! `LayerNorm(x, gamma, beta) -> y, mean, variance`, `RmsNorm(x, gamma) -> y, rstd`: over all axes
//! from `begin_norm_axis` on; gamma and beta broadcast against x.
use super::softmax::moments;
use crate::args::{Arg, float_attr, put_f64};
use crate::kernels::shape::view::checked_axis;
use crate::op::Op;
use crate::store::types::FLOAT;
use ge_kernels::view::Nest;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

/// All elements of a parameter, broadcast to a shape.
fn stretched(p: &Arg<'_>, shape: &[usize]) -> Result<Vec<f64>> {
    let v = p.f64s()?;
    if p.shape == shape {
        return Ok(v);
    }
    let l = p.broadcast(shape)?;
    let nest = Nest::new(shape, [&l]);
    let mut o = crate::args::room(nest.len())?;
    nest.each_run(|[at], n, [s]| o.extend((0..n as isize).map(|i| v[(at + i * s) as usize])));
    Ok(o)
}
fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, gamma) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?);
    let rms = ctx.op == "RmsNorm";
    let beta = if rms { None } else { Arg::opt(ctx, 2)? };
    let eps = float_attr(ctx, "epsilon", if ctx.op == "LayerNorm" { 1e-7 } else { 1e-5 });
    let begin = if x.rank() == 0 { 0 } else { checked_axis(ctx, "begin_norm_axis", -1, x.rank())? };
    let len: usize = x.shape[begin..].iter().product();
    let mut kept = x.shape[..begin].to_vec();
    kept.resize(x.rank(), 1);
    let mut v = x.f64s()?;
    let g = stretched(&gamma, &x.shape)?;
    let b = beta.as_ref().map(|b| stretched(b, &x.shape)).transpose()?;
    let (mut means, mut spread) = (Vec::new(), Vec::new());
    for (r, lane) in v.chunks_exact_mut(len.max(1)).enumerate() {
        let (mean, var) = if rms { (0.0, lane.iter().map(|v| v * v).sum::<f64>() / len as f64) } else { moments(lane) };
        let rstd = 1.0 / (var + eps).sqrt();
        means.push(mean);
        spread.push(if ctx.op == "LayerNorm" { var } else { rstd });
        for (i, v) in lane.iter_mut().enumerate() {
            *v = (*v - mean) * rstd * g[r * len + i] + b.as_ref().map_or(0.0, |b| b[r * len + i]);
        }
    }
    if len == 0 {
        let rows: usize = x.shape[..begin].iter().product();
        means.resize(rows, f64::NAN);
        spread.resize(rows, f64::NAN);
    }
    put_f64(ctx, 0, &x.shape, &v)?;
    if rms {
        return put_f64(ctx, 1, &kept, &spread);
    }
    put_f64(ctx, 1, &kept, &means)?;
    put_f64(ctx, 2, &kept, &spread)
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[
    Op::new("LayerNormV3", run, &[FLOAT]).gives(&[FLOAT]),
    Op::new("LayerNorm", run, &[FLOAT]).gives(&[FLOAT]),
    Op::new("RmsNorm", run, &[FLOAT]).gives(&[FLOAT]),
];
