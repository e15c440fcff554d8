//! `AddN(x...)`: the sum of tensors of equal shape. `Assign`, `AssignAdd`, `AssignSub` write the
//! variable, which is output 0.
use crate::args::{Arg, all, bad, out_bytes, put_f64, put_i64};
use crate::op::Op;
use crate::store::types::{BITS, NUM};
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

fn combine(ctx: &mut KernelCtx<'_>, sign: f64) -> Result<()> {
    let inputs = all(ctx, 0)?;
    let Some(first) = inputs.first() else { return Err(bad("inputs", "none", "at least one")) };
    for a in &inputs {
        a.need_shape(&first.shape)?;
    }
    if first.kind()?.is_float() {
        let mut sum = first.f64s()?;
        for a in &inputs[1..] {
            sum.iter_mut().zip(a.f64s()?).for_each(|(s, v)| *s += sign * v);
        }
        return put_f64(ctx, 0, &first.shape, &sum);
    }
    let mut sum = first.i64s()?;
    for a in &inputs[1..] {
        sum.iter_mut()
            .zip(a.i64s()?)
            .for_each(|(s, v)| *s = if sign < 0.0 { s.wrapping_sub(v) } else { s.wrapping_add(v) });
    }
    put_i64(ctx, 0, &first.shape, &sum)
}
fn run_add_n(ctx: &mut KernelCtx<'_>) -> Result<()> {
    combine(ctx, 1.0)
}
fn run_assign_sub(ctx: &mut KernelCtx<'_>) -> Result<()> {
    combine(ctx, -1.0)
}
fn run_assign(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (r, v) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?);
    v.need_shape(&r.shape)?;
    out_bytes(ctx, 0, &r.shape)?.copy_from_slice(v.bytes());
    Ok(())
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[
    Op::new("AddN", run_add_n, &[NUM]).gives(&[NUM]),
    Op::new("Assign", run_assign, &[BITS]),
    Op::new("AssignAdd", run_add_n, &[NUM]).gives(&[NUM]),
    Op::new("AssignSub", run_assign_sub, &[NUM]).gives(&[NUM]),
];
