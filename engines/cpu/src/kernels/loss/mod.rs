//! `NegativeLogLikelihoodLoss` and `SoftmaxCrossEntropyLoss`, with ONNX's semantics.
use crate::args::{Arg, bad, filled, put_f64, text};
use crate::kernels::math::special::{exp_in_line, max};
use crate::kernels::reduce::walk::Walk;
use crate::op::Op;
use crate::store::types::{FLOAT, INDEX};
use ge_kernels::view::Elem;
use ge_kernels::with_kind;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

/// Logarithms of the softmax over the classes, which are also written to output 1.
fn log_softmax(ctx: &mut KernelCtx<'_>, x: &Arg<'_>, lanes: usize) -> Result<Vec<f64>> {
    let (v, walk) = (x.f64s()?, Walk::new(&x.shape, &[1]));
    let mut top = filled(lanes, f64::NEG_INFINITY)?;
    walk.by(&v, &mut top, f64::NEG_INFINITY, max, max);
    let mut sums = filled(lanes, 0f64)?;
    walk.by_place((&v, &top), &mut sums, 0.0, |s, e, top| s + exp_in_line(e - top), |a, b| a + b);
    let both: Vec<(f64, f64)> = top.iter().zip(&sums).map(|(t, s)| (*t, s.ln())).collect();
    let mut y = filled(v.len(), 0f64)?;
    walk.map(&v, &both, &mut y, |v, (top, sum)| v - top - sum);
    put_f64(ctx, 1, &x.shape, &y)?;
    Ok(y)
}

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, target, weight) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?, Arg::opt(ctx, 2)?);
    x.need_rank(2, usize::MAX)?;
    let (n, c, plane): (usize, usize, usize) = (x.shape[0], x.shape[1], x.shape[2..].iter().product());
    let mut want = vec![n];
    want.extend_from_slice(&x.shape[2..]);
    target.need_shape(&want)?;
    let weight = weight.map(|w| w.need_shape(&[c]).and_then(|()| w.f64s())).transpose()?;
    let ignore = ctx.attrs.int("ignore_index");
    let log = if ctx.op == "SoftmaxCrossEntropyLoss" { Some(log_softmax(ctx, &x, target.len)?) } else { None };
    let mut loss = filled(target.len, 0f64)?;
    let (mut sum, mut weights) = (0.0, 0.0);
    let targets = target.i64s()?;
    with_kind!(x.kind()?, [F32, F64, F16, Bf16], T => {
        let given = x.values::<T>()?;
        let lanes = loss.chunks_mut(plane.max(1)).zip(targets.chunks(plane.max(1)));
        for (batch, (loss, targets)) in lanes.enumerate() {
            for (at, (loss, &t)) in loss.iter_mut().zip(targets).enumerate() {
                if ignore == Some(t) {
                    continue;
                }
                let k = usize::try_from(t).ok().filter(|k| *k < c);
                let k = k.ok_or_else(|| bad("class in input 1", t, format!("0 to {}", c as i64 - 1)))?;
                let w = weight.as_ref().map_or(1.0, |w| w[k]);
                let place = (batch * c + k) * plane + at;
                *loss = -w * log.as_ref().map_or_else(|| given[place].to_f64(), |log| log[place]);
                sum += *loss;
                weights += w;
            }
        }
    }, else return x.refused());
    match text(ctx, "reduction", "mean") {
        "none" => put_f64(ctx, 0, &want, &loss),
        "sum" => put_f64(ctx, 0, &[], &[sum]),
        "mean" => put_f64(ctx, 0, &[], &[sum / weights]),
        other => Err(bad("attribute `reduction`", other, "mean, sum or none")),
    }
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[
    Op::new("NegativeLogLikelihoodLoss", run, &[FLOAT, INDEX, FLOAT]).gives(&[FLOAT]),
    Op::new("SoftmaxCrossEntropyLoss", run, &[FLOAT, INDEX, FLOAT]).gives(&[FLOAT]),
];
