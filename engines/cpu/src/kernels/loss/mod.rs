//! `NegativeLogLikelihoodLoss` and `SoftmaxCrossEntropyLoss`, ONNX's semantics.
use crate::args::{Arg, bad, filled, put_f64, text};
use crate::op::Op;
use crate::store::types::{FLOAT, INDEX};
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, target, weight) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?, Arg::opt(ctx, 2)?);
    x.need_rank(2, usize::MAX)?;
    let (n, c, plane): (usize, usize, usize) = (x.shape[0], x.shape[1], x.shape[2..].iter().product());
    let mut want = vec![n];
    want.extend_from_slice(&x.shape[2..]);
    target.need_shape(&want)?;
    let weight = weight.map(|w| w.need_shape(&[c]).and_then(|()| w.f64s())).transpose()?;
    let ignore = ctx.attrs.int("ignore_index");
    let mut log = x.f64s()?;
    if ctx.op == "SoftmaxCrossEntropyLoss" {
        crate::kernels::norm::softmax::lanes(&mut log, &x.shape, &[1], |lane| {
            let top = lane.iter().copied().fold(f64::NEG_INFINITY, crate::kernels::math::special::max);
            let sum = lane.iter().map(|v| (v - top).exp()).sum::<f64>().ln();
            lane.iter_mut().for_each(|v| *v = *v - top - sum);
        })?;
        put_f64(ctx, 1, &x.shape, &log)?;
    }
    let mut loss = filled(target.len, 0f64)?;
    let (mut sum, mut weights) = (0.0, 0.0);
    for (i, t) in target.i64s()?.into_iter().enumerate() {
        if ignore == Some(t) {
            continue;
        }
        let k = usize::try_from(t)
            .ok()
            .filter(|k| *k < c)
            .ok_or_else(|| bad("class in input 1", t, format!("0 to {}", c as i64 - 1)))?;
        let w = weight.as_ref().map_or(1.0, |w| w[k]);
        loss[i] = -w * log[(i / plane * c + k) * plane + i % plane];
        sum += loss[i];
        weights += w;
    }
    match text(ctx, "reduction", "mean") {
        "none" => put_f64(ctx, 0, &want, &loss),
        "sum" => put_f64(ctx, 0, &[], &[sum]),
        "mean" => put_f64(ctx, 0, &[], &[sum / weights]),
        other => Err(bad("attribute `reduction`", other, "mean, sum or none")),
    }
}

/// The rows of this file.
pub const OPS: &[Op] = &[
    Op::new("NegativeLogLikelihoodLoss", run, &[FLOAT, INDEX, FLOAT]).gives(&[FLOAT]),
    Op::new("SoftmaxCrossEntropyLoss", run, &[FLOAT, INDEX, FLOAT]).gives(&[FLOAT]),
];
