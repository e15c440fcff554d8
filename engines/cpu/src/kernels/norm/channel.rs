//! Normalisation by channel: `BNInfer`, `BatchNorm`, `InstanceNorm`, `GroupNorm`,
//! `LRN` (`plugins/ops/src/norm.rs`).
use super::softmax::moments;
use crate::args::{Arg, bad, flag, float_attr, int_attr, put_f64, size};
use crate::op::Op;
use crate::store::types::FLOAT;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

/// Views `[N, C, ...]` as (batch, channels, plane); a vector has one channel.
fn channels(x: &Arg<'_>) -> Result<(usize, usize, usize)> {
    match x.shape.as_slice() {
        [] => Err(bad("input 0", "a scalar", "rank 1 or more")),
        [n] => Ok((*n, 1, 1)),
        [n, c, rest @ ..] => Ok((*n, *c, rest.iter().product())),
    }
}
fn per_channel(ctx: &KernelCtx<'_>, i: usize, c: usize) -> Result<Vec<f64>> {
    let a = Arg::of(ctx, i)?;
    if a.len != c {
        return Err(bad(format!("input {i}"), format!("shape {:?}", a.shape), format!("[{c}]")));
    }
    a.f64s()
}
fn run_batch(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let (n, c, plane) = channels(&x)?;
    let p = |i| per_channel(ctx, i, c);
    let (scale, offset, mut mean, mut var) = (p(1)?, p(2)?, p(3)?, p(4)?);
    let eps = float_attr(ctx, "epsilon", 1e-5);
    let mut v = x.f64s()?;
    let training = ctx.op == "BatchNorm" && flag(ctx, "is_training", true);
    let (old_mean, old_var) = (mean.clone(), var.clone());
    if training {
        let mut lane = crate::args::room(n * plane)?;
        for k in 0..c {
            lane.clear();
            for b in 0..n {
                lane.extend_from_slice(&v[(b * c + k) * plane..][..plane]);
            }
            (mean[k], var[k]) = moments(&lane);
        }
    }
    let f: Vec<f64> = (0..c).map(|k| scale[k] / (var[k] + eps).sqrt()).collect();
    for (i, part) in v.chunks_exact_mut(plane.max(1)).enumerate() {
        let k = i % c;
        part.iter_mut().for_each(|v| *v = (*v - mean[k]) * f[k] + offset[k]);
    }
    put_f64(ctx, 0, &x.shape, &v)?;
    if ctx.op == "BatchNorm" && ctx.output_count() > 1 {
        let m = float_attr(ctx, "momentum", 0.9);
        let blend = |old: &[f64], new: &[f64]| -> Vec<f64> {
            old.iter().zip(new).map(|(o, n)| if training { o * m + n * (1.0 - m) } else { *o }).collect()
        };
        put_f64(ctx, 1, &[c], &blend(&old_mean, &mean))?;
        put_f64(ctx, 2, &[c], &blend(&old_var, &var))?;
    }
    Ok(())
}
/// Normalises runs of channels, one per group, then applies the scale and offset of each channel
/// (or of each group).
fn grouped(ctx: &mut KernelCtx<'_>, groups: Option<usize>, eps: f64) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let (_, c, plane) = channels(&x)?;
    let g = groups.unwrap_or(c);
    if g == 0 || c % g != 0 {
        return if c == 0 {
            put_f64(ctx, 0, &x.shape, &[])
        } else {
            Err(bad("attribute `num_groups`", g, format!("a divisor of {c}")))
        };
    }
    let by_group = groups.is_some() && Arg::of(ctx, 1)?.len == g;
    let (gamma, beta) = if by_group {
        (per_channel(ctx, 1, g)?, per_channel(ctx, 2, g)?)
    } else {
        (per_channel(ctx, 1, c)?, per_channel(ctx, 2, c)?)
    };
    let run = c / g;
    let mut v = x.f64s()?;
    for (i, part) in v.chunks_exact_mut((run * plane).max(1)).enumerate() {
        let (mean, var) = moments(part);
        let rstd = 1.0 / (var + eps).sqrt();
        for (j, v) in part.iter_mut().enumerate() {
            let k = if by_group { i % g } else { i % g * run + j / plane };
            *v = (*v - mean) * rstd * gamma[k] + beta[k];
        }
    }
    put_f64(ctx, 0, &x.shape, &v)
}
fn run_instance(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let eps = float_attr(ctx, "epsilon", 1e-5);
    grouped(ctx, None, eps)
}
fn run_group(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let g = size("attribute `num_groups`", int_attr(ctx, "num_groups", 0))?;
    let eps = float_attr(ctx, "eps", 1e-5);
    grouped(ctx, Some(g), eps)
}
fn run_lrn(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let (n, c, plane) = channels(&x)?;
    let s = size("attribute `size`", int_attr(ctx, "size", 0))?;
    if s == 0 {
        return Err(bad("attribute `size`", 0, "1 or more"));
    }
    let (alpha, beta, bias) =
        (float_attr(ctx, "alpha", 1e-4), float_attr(ctx, "beta", 0.75), float_attr(ctx, "bias", 1.0));
    let v = x.f64s()?;
    let mut y = crate::args::room(v.len())?;
    for b in 0..n {
        for k in 0..c {
            let (from, to) = (k.saturating_sub((s - 1) / 2), (k + s / 2).min(c - 1));
            for p in 0..plane {
                let sum: f64 = (from..=to).map(|j| v[(b * c + j) * plane + p].powi(2)).sum();
                y.push(v[(b * c + k) * plane + p] / (bias + alpha / s as f64 * sum).powf(beta));
            }
        }
    }
    put_f64(ctx, 0, &x.shape, &y)
}

const fn f(name: &'static str, run: crate::op::Run) -> Op {
    Op::new(name, run, &[FLOAT]).gives(&[FLOAT])
}
/// Operator rows of this file.
pub const OPS: &[Op] = &[
    f("BNInfer", run_batch),
    f("BatchNorm", run_batch),
    f("InstanceNorm", run_instance),
    f("GroupNorm", run_group),
    f("LRN", run_lrn),
];
