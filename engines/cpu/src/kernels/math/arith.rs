//! Arithmetic of two inputs, broadcast. Floating-point results are computed in double precision and
//! rounded once; integers wrap.
use super::division::{self, Quotient};
use super::remainder::{floor_mod, remainders};
use super::special::{max, min};
use super::zip::{zip, zip_lines};
use crate::args::Arg;
use crate::op::{Op, Run};
use crate::store::types::{FLOAT, INT, NUM};
use ge_kernels::view::{Elem, Kind};
use ge_kernels::with_kind;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

/// Floating-point types, by a function of doubles.
fn floats(ctx: &mut KernelCtx<'_>, f: impl Fn(f64, f64) -> f64 + Sync) -> Result<()> {
    let (a, b) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?);
    with_kind!(a.kind()?, [F32, F64, F16, Bf16], T => {
        zip::<T, T, T>(ctx, &a, &b, |x, y| T::from_f64(f(x.to_f64(), y.to_f64())))
    }, else a.refused())
}
/// Whether a kind is unsigned.
pub fn is_unsigned(k: Kind) -> bool {
    matches!(k, Kind::U8 | Kind::U16 | Kind::U32 | Kind::U64)
}
/// Integers: signed and unsigned types each use a function of the widest type.
fn ints(ctx: &mut KernelCtx<'_>, i: impl Fn(i64, i64) -> i64 + Sync, u: impl Fn(u64, u64) -> u64 + Sync) -> Result<()> {
    let (a, b) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?);
    if is_unsigned(a.kind()?) {
        return with_kind!(a.kind()?, [U8, U16, U32, U64], T => {
            zip::<T, T, T>(ctx, &a, &b, |x, y| T::from_i64(u(x.to_i64() as u64, y.to_i64() as u64) as i64))
        }, else a.refused());
    }
    with_kind!(a.kind()?, [I8, I16, I32, I64], T => {
        zip::<T, T, T>(ctx, &a, &b, |x, y| T::from_i64(i(x.to_i64(), y.to_i64())))
    }, else a.refused())
}
fn numbers(
    ctx: &mut KernelCtx<'_>,
    f: impl Fn(f64, f64) -> f64 + Sync,
    i: impl Fn(i64, i64) -> i64 + Sync,
    u: impl Fn(u64, u64) -> u64 + Sync,
) -> Result<()> {
    if Arg::of(ctx, 0)?.kind()?.is_float() { floats(ctx, f) } else { ints(ctx, i, u) }
}

fn run_add(ctx: &mut KernelCtx<'_>) -> Result<()> {
    numbers(ctx, |a, b| a + b, i64::wrapping_add, u64::wrapping_add)
}
fn run_sub(ctx: &mut KernelCtx<'_>) -> Result<()> {
    numbers(ctx, |a, b| a - b, i64::wrapping_sub, u64::wrapping_sub)
}
fn run_mul(ctx: &mut KernelCtx<'_>) -> Result<()> {
    numbers(ctx, |a, b| a * b, i64::wrapping_mul, u64::wrapping_mul)
}
fn run_div(ctx: &mut KernelCtx<'_>) -> Result<()> {
    quotients(ctx, |a, b| a / b, Quotient::Cut)
}
fn run_floor_div(ctx: &mut KernelCtx<'_>) -> Result<()> {
    quotients(ctx, |a, b| (a / b).floor(), Quotient::Floor)
}
fn run_mod(ctx: &mut KernelCtx<'_>) -> Result<()> {
    rests(ctx, false)
}
fn run_floor_mod(ctx: &mut KernelCtx<'_>) -> Result<()> {
    rests(ctx, true)
}
/// Remainders, with the sign of the divisor if `floor`.
fn rests(ctx: &mut KernelCtx<'_>, floor: bool) -> Result<()> {
    let (a, b) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?);
    with_kind!(a.kind()?, [F32, F16, Bf16], T => {
        zip_lines::<T, T, T>(ctx, &a, &b, |o, a, b| remainders(o, a, b, floor))
    }, else match floor {
        true => quotients(ctx, floor_mod, Quotient::RestOfFloor),
        false => quotients(ctx, |a, b| a % b, Quotient::RestOfCut),
    })
}
fn quotients(ctx: &mut KernelCtx<'_>, f: impl Fn(f64, f64) -> f64 + Sync, how: Quotient) -> Result<()> {
    if Arg::of(ctx, 0)?.kind()?.is_float() { floats(ctx, f) } else { division::run(ctx, how) }
}
fn run_maximum(ctx: &mut KernelCtx<'_>) -> Result<()> {
    numbers(ctx, max, i64::max, u64::max)
}
fn run_minimum(ctx: &mut KernelCtx<'_>) -> Result<()> {
    numbers(ctx, min, i64::min, u64::min)
}
fn run_squared_difference(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let i = |a: i64, b: i64| a.wrapping_sub(b).wrapping_mul(a.wrapping_sub(b));
    let u = |a: u64, b: u64| a.wrapping_sub(b).wrapping_mul(a.wrapping_sub(b));
    numbers(ctx, |a, b| (a - b) * (a - b), i, u)
}
fn run_atan2(ctx: &mut KernelCtx<'_>) -> Result<()> {
    floats(ctx, f64::atan2)
}
fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
fn run_gcd(ctx: &mut KernelCtx<'_>) -> Result<()> {
    ints(ctx, |a, b| gcd(a.unsigned_abs(), b.unsigned_abs()) as i64, gcd)
}
/// `x < 0 ? weight * x : x`.
fn run_prelu(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let i = |a: i64, w: i64| if a < 0 { a.wrapping_mul(w) } else { a };
    numbers(ctx, |a, w| if a < 0.0 { a * w } else { a }, i, |a, _| a)
}
const fn n(name: &'static str, run: Run) -> Op {
    Op::new(name, run, &[NUM]).gives(&[NUM])
}
/// Operator rows of this file.
pub const OPS: &[Op] = &[
    n("Add", run_add),
    n("Sub", run_sub),
    n("Mul", run_mul),
    n("Div", run_div),
    n("FloorDiv", run_floor_div),
    n("Mod", run_mod),
    n("FloorMod", run_floor_mod),
    n("Maximum", run_maximum),
    n("Minimum", run_minimum),
    n("SquaredDifference", run_squared_difference),
    n("PRelu", run_prelu),
    Op::new("RealDiv", run_div, &[FLOAT]).gives(&[FLOAT]),
    Op::new("Atan2", run_atan2, &[FLOAT]).gives(&[FLOAT]),
    Op::new("Gcd", run_gcd, &[INT]).gives(&[INT]),
];
