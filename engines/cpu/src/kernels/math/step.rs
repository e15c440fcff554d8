//! Steps of optimizers, which write the variables that are their first outputs (TensorFlow's
//! formulas; all in f64, rounded once).
//!
//! * `ApplyGradientDescent(var, alpha, delta)`: `var -= alpha * delta`.
//! * `ApplyMomentum(var, accum, lr, grad, momentum) {use_nesterov}`:
//!   `accum = accum * momentum + grad; var -= lr * accum`, with Nesterov
//!   `var -= lr * grad + lr * momentum * accum`.
//! * `ApplyAdam(var, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad) {use_nesterov}`:
//!   `m += (grad - m) * (1 - beta1); v += (grad^2 - v) * (1 - beta2)`, with
//!   `a = lr * sqrt(1 - beta2_power) / (1 - beta1_power)`: `var -= a * m / (sqrt(v) + epsilon)`,
//!   with Nesterov `m * beta1 + grad * (1 - beta1)` for `m`.
use crate::args::{Arg, flag, put_f64};
use crate::op::Op;
use crate::store::types::FLOAT;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

/// Input `i` as doubles; it must have the shape of the variable.
fn like(ctx: &KernelCtx<'_>, i: usize, shape: &[usize]) -> Result<Vec<f64>> {
    let a = Arg::of(ctx, i)?;
    a.need_shape(shape)?;
    a.f64s()
}
fn number(ctx: &KernelCtx<'_>, i: usize) -> Result<f64> {
    Arg::of(ctx, i)?.scalar()
}
fn variable(ctx: &KernelCtx<'_>) -> Result<(Vec<usize>, Vec<f64>)> {
    let var = Arg::of(ctx, 0)?;
    Ok((var.shape.to_vec(), var.f64s()?))
}

fn run_descent(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (shape, mut var) = variable(ctx)?;
    let (alpha, delta) = (number(ctx, 1)?, like(ctx, 2, &shape)?);
    var.iter_mut().zip(&delta).for_each(|(v, d)| *v -= alpha * d);
    put_f64(ctx, 0, &shape, &var)
}

fn run_momentum(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (shape, mut var) = variable(ctx)?;
    let (mut accum, lr) = (like(ctx, 1, &shape)?, number(ctx, 2)?);
    let (grad, momentum) = (like(ctx, 3, &shape)?, number(ctx, 4)?);
    let nesterov = flag(ctx, "use_nesterov", false);
    for ((v, a), g) in var.iter_mut().zip(&mut accum).zip(&grad) {
        *a = *a * momentum + g;
        *v -= if nesterov { lr * g + lr * momentum * *a } else { lr * *a };
    }
    put_f64(ctx, 0, &shape, &var)?;
    put_f64(ctx, 1, &shape, &accum)
}

fn run_adam(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (shape, mut var) = variable(ctx)?;
    let (mut m, mut v) = (like(ctx, 1, &shape)?, like(ctx, 2, &shape)?);
    let (power1, power2, lr) = (number(ctx, 3)?, number(ctx, 4)?, number(ctx, 5)?);
    let (beta1, beta2, epsilon) = (number(ctx, 6)?, number(ctx, 7)?, number(ctx, 8)?);
    let grad = like(ctx, 9, &shape)?;
    let nesterov = flag(ctx, "use_nesterov", false);
    let alpha = lr * (1.0 - power2).sqrt() / (1.0 - power1);
    for (((w, m), v), g) in var.iter_mut().zip(&mut m).zip(&mut v).zip(&grad) {
        *m += (g - *m) * (1.0 - beta1);
        *v += (g * g - *v) * (1.0 - beta2);
        let first = if nesterov { *m * beta1 + g * (1.0 - beta1) } else { *m };
        *w -= alpha * first / (v.sqrt() + epsilon);
    }
    put_f64(ctx, 0, &shape, &var)?;
    put_f64(ctx, 1, &shape, &m)?;
    put_f64(ctx, 2, &shape, &v)
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[
    Op::new("ApplyGradientDescent", run_descent, &[FLOAT]).gives(&[FLOAT]),
    Op::new("ApplyMomentum", run_momentum, &[FLOAT]).gives(&[FLOAT]),
    Op::new("ApplyAdam", run_adam, &[FLOAT]).gives(&[FLOAT]),
];
