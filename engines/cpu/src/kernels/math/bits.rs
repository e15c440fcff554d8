//! Bitwise and logical operators, shifts. A shift by the width of the type or more gives zero (or
//! the sign, for a right shift of a signed number). Negative distances count as too large.
use super::arith::is_unsigned;
use super::zip::zip;
use crate::args::Arg;
use crate::op::{Op, Run};
use crate::store::types::{BOOL, INT};
use ge_kernels::view::{Bool, Elem};
use ge_kernels::with_kind;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

fn words(ctx: &mut KernelCtx<'_>, f: impl Fn(i64, i64) -> i64 + Sync) -> Result<()> {
    let (a, b) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?);
    with_kind!(a.kind()?, [I8, I16, I32, I64, U8, U16, U32, U64], T => {
        zip::<T, T, T>(ctx, &a, &b, |x, y| T::from_i64(f(x.to_i64(), y.to_i64())))
    }, else a.refused())
}
fn run_and(ctx: &mut KernelCtx<'_>) -> Result<()> {
    words(ctx, |a, b| a & b)
}
fn run_or(ctx: &mut KernelCtx<'_>) -> Result<()> {
    words(ctx, |a, b| a | b)
}
fn run_xor(ctx: &mut KernelCtx<'_>) -> Result<()> {
    words(ctx, |a, b| a ^ b)
}
fn run_left_shift(ctx: &mut KernelCtx<'_>) -> Result<()> {
    words(ctx, |a, b| if (0..64).contains(&b) { a << b } else { 0 })
}
fn run_right_shift(ctx: &mut KernelCtx<'_>) -> Result<()> {
    if is_unsigned(Arg::of(ctx, 0)?.kind()?) {
        return words(ctx, |a, b| if (0..64).contains(&b) { ((a as u64) >> b) as i64 } else { 0 });
    }
    words(ctx, |a, b| a >> if (0..64).contains(&b) { b } else { 63 })
}
fn truth(ctx: &mut KernelCtx<'_>, f: impl Fn(bool, bool) -> bool + Sync) -> Result<()> {
    let (a, b) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?);
    zip::<Bool, Bool, Bool>(ctx, &a, &b, |x, y| Bool::from(f(x.get(), y.get())))
}
fn run_logical_and(ctx: &mut KernelCtx<'_>) -> Result<()> {
    truth(ctx, |a, b| a & b)
}
fn run_logical_or(ctx: &mut KernelCtx<'_>) -> Result<()> {
    truth(ctx, |a, b| a | b)
}
fn run_logical_xor(ctx: &mut KernelCtx<'_>) -> Result<()> {
    truth(ctx, |a, b| a ^ b)
}
const fn w(name: &'static str, run: Run) -> Op {
    Op::new(name, run, &[INT]).gives(&[INT])
}
const fn t(name: &'static str, run: Run) -> Op {
    Op::new(name, run, &[BOOL]).gives(&[BOOL])
}
/// Operator rows of this file.
pub const OPS: &[Op] = &[
    w("BitwiseAnd", run_and),
    w("BitwiseOr", run_or),
    w("BitwiseXor", run_xor),
    w("LeftShift", run_left_shift),
    w("RightShift", run_right_shift),
    t("LogicalAnd", run_logical_and),
    t("LogicalOr", run_logical_or),
    t("LogicalXor", run_logical_xor),
];
