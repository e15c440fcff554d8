//! `SoftmaxV2`, `LogSoftmaxV2 {axes}` (over the axes together).
use crate::args::{Arg, axes, ints_attr, put_f64};
use crate::kernels::math::special::{exp_in_line, max};
use crate::op::Op;
use crate::store::types::FLOAT;
use ge_kernels::view::{Layout, Nest};
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

/// Calls `f` on each lane along the axes `over`, gathered into a slice, and writes the lane back.
pub fn lanes(v: &mut [f64], shape: &[usize], over: &[usize], mut f: impl FnMut(&mut [f64])) -> Result<()> {
    let kept: Vec<usize> = (0..shape.len()).filter(|a| !over.contains(a)).collect();
    let l = Layout::contiguous(shape).map_err(crate::args::view_error)?;
    let order: Vec<usize> = kept.iter().chain(over).copied().collect();
    let p = l.permute(&order).map_err(crate::args::view_error)?;
    let len: usize = over.iter().map(|&a| shape[a]).product();
    if len == 0 || v.is_empty() {
        return Ok(());
    }
    if p.is_contiguous() {
        v.chunks_exact_mut(len).for_each(f);
        return Ok(());
    }
    let mut places = crate::args::room(v.len())?;
    Nest::new(p.shape(), [&p]).each_run(|[at], n, [s]| places.extend((0..n as isize).map(|i| (at + i * s) as usize)));
    let mut lane = crate::args::filled(len, 0f64)?;
    for at in places.chunks_exact(len) {
        lane.iter_mut().zip(at).for_each(|(o, &a)| *o = v[a]);
        f(&mut lane);
        lane.iter().zip(at).for_each(|(o, &a)| v[a] = *o);
    }
    Ok(())
}
fn over_axes(ctx: &mut KernelCtx<'_>, default: &[i64], f: impl FnMut(&mut [f64])) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let mut v = x.f64s()?;
    if x.rank() == 0 {
        let mut f = f;
        f(&mut v);
    } else {
        let over = axes("attribute `axes`", ints_attr(ctx, "axes").unwrap_or(default), x.rank())?;
        lanes(&mut v, &x.shape, &over, f)?;
    }
    put_f64(ctx, 0, &x.shape, &v)
}
ge_kernels::multiversion! {
    /// `v = exp(v - top)` for each number of a lane.
    fn exponentials(lane: &mut [f64], top: f64) {
        for v in lane.iter_mut() {
            *v = exp_in_line(*v - top);
        }
    }
}
/// Softmax of one lane, in place.
pub fn softmax(lane: &mut [f64]) {
    let top = lane.iter().copied().fold(f64::NEG_INFINITY, max);
    exponentials(lane, top);
    let sum: f64 = lane.iter().sum();
    lane.iter_mut().for_each(|v| *v /= sum);
}
fn log_softmax(lane: &mut [f64]) {
    let top = lane.iter().copied().fold(f64::NEG_INFINITY, max);
    let sum: f64 = lane.iter().map(|v| (v - top).exp()).sum();
    let log = sum.ln();
    lane.iter_mut().for_each(|v| *v = *v - top - log);
}
fn run_softmax(ctx: &mut KernelCtx<'_>) -> Result<()> {
    over_axes(ctx, &[-1], softmax)
}
fn run_log_softmax(ctx: &mut KernelCtx<'_>) -> Result<()> {
    over_axes(ctx, &[-1], log_softmax)
}
/// Mean and population variance of a lane.
pub fn moments(lane: &[f64]) -> (f64, f64) {
    let n = lane.len() as f64;
    let mean = lane.iter().sum::<f64>() / n;
    (mean, lane.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n)
}

const fn f(name: &'static str, run: crate::op::Run) -> Op {
    Op::new(name, run, &[FLOAT]).gives(&[FLOAT])
}
/// Operator rows of this file.
pub const OPS: &[Op] = &[f("SoftmaxV2", run_softmax), f("LogSoftmaxV2", run_log_softmax)];
