//! Arithmetic of two inputs, broadcast. Floats compute in double precision and round once; whole
//! numbers wrap, a division or remainder by zero gives zero (ONNX leaves it open), shifts by the
//! width or more shift everything out.
use super::special::{max, min};
use super::zip::zip;
use crate::args::Arg;
use crate::op::{Op, Run};
use crate::store::types::{FLOAT, INT, NUM};
use ge_kernels::view::{Elem, Kind};
use ge_kernels::with_kind;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

type Signed<'a> = &'a (dyn Fn(i64, i64) -> i64 + Sync);
type Unsigned<'a> = &'a (dyn Fn(u64, u64) -> u64 + Sync);

fn floats(ctx: &mut KernelCtx<'_>, f: impl Fn(f64, f64) -> f64 + Sync) -> Result<()> {
    let (a, b) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?);
    if a.kind()? == Kind::F32 {
        return zip::<f32, f32>(ctx, &a, &b, |x, y| f(f64::from(x), f64::from(y)) as f32);
    }
    let f: &(dyn Fn(f64, f64) -> f64 + Sync) = &f;
    with_kind!(a.kind()?, [F64, F16, Bf16], T => zip::<T, T>(ctx, &a, &b, |x, y| T::from_f64(f(x.to_f64(), y.to_f64()))), else a.refused())
}
/// Whether a kind is unsigned.
pub fn is_unsigned(k: Kind) -> bool {
    matches!(k, Kind::U8 | Kind::U16 | Kind::U32 | Kind::U64)
}
fn ints(ctx: &mut KernelCtx<'_>, i: Signed<'_>, u: Unsigned<'_>) -> Result<()> {
    let (a, b) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?);
    if is_unsigned(a.kind()?) {
        return with_kind!(a.kind()?, [U8, U16, U32, U64], T => {
            zip::<T, T>(ctx, &a, &b, |x, y| T::from_i64(u(x.to_i64() as u64, y.to_i64() as u64) as i64))
        }, else a.refused());
    }
    with_kind!(a.kind()?, [I8, I16, I32, I64], T => zip::<T, T>(ctx, &a, &b, |x, y| T::from_i64(i(x.to_i64(), y.to_i64()))), else a.refused())
}
fn numbers(ctx: &mut KernelCtx<'_>, f: impl Fn(f64, f64) -> f64 + Sync, i: Signed<'_>, u: Unsigned<'_>) -> Result<()> {
    if Arg::of(ctx, 0)?.kind()?.is_float() { floats(ctx, f) } else { ints(ctx, i, u) }
}

fn run_add(ctx: &mut KernelCtx<'_>) -> Result<()> {
    numbers(ctx, |a, b| a + b, &i64::wrapping_add, &u64::wrapping_add)
}
fn run_sub(ctx: &mut KernelCtx<'_>) -> Result<()> {
    numbers(ctx, |a, b| a - b, &i64::wrapping_sub, &u64::wrapping_sub)
}
fn run_mul(ctx: &mut KernelCtx<'_>) -> Result<()> {
    numbers(ctx, |a, b| a * b, &i64::wrapping_mul, &u64::wrapping_mul)
}
fn div(a: i64, b: i64) -> i64 {
    if b == 0 { 0 } else { a.wrapping_div(b) }
}
fn run_div(ctx: &mut KernelCtx<'_>) -> Result<()> {
    numbers(ctx, |a, b| a / b, &div, &|a, b| a.checked_div(b).unwrap_or(0))
}
fn floor_div(a: i64, b: i64) -> i64 {
    let q = div(a, b);
    if b != 0 && a.wrapping_rem(b) != 0 && (a < 0) != (b < 0) { q - 1 } else { q }
}
fn run_floor_div(ctx: &mut KernelCtx<'_>) -> Result<()> {
    numbers(ctx, |a, b| (a / b).floor(), &floor_div, &|a, b| a.checked_div(b).unwrap_or(0))
}
fn rem(a: i64, b: i64) -> i64 {
    if b == 0 { 0 } else { a.wrapping_rem(b) }
}
fn run_mod(ctx: &mut KernelCtx<'_>) -> Result<()> {
    numbers(ctx, |a, b| a % b, &rem, &|a, b| a.checked_rem(b).unwrap_or(0))
}
/// Remainder with the sign of the divisor, as numpy has it.
pub fn floor_mod(a: f64, b: f64) -> f64 {
    let r = a % b;
    if r == 0.0 {
        0f64.copysign(b)
    } else if (r < 0.0) != (b < 0.0) {
        r + b
    } else {
        r
    }
}
fn floor_rem(a: i64, b: i64) -> i64 {
    let r = rem(a, b);
    if r != 0 && (r < 0) != (b < 0) { r + b } else { r }
}
fn run_floor_mod(ctx: &mut KernelCtx<'_>) -> Result<()> {
    numbers(ctx, floor_mod, &floor_rem, &|a, b| a.checked_rem(b).unwrap_or(0))
}
fn run_maximum(ctx: &mut KernelCtx<'_>) -> Result<()> {
    numbers(ctx, max, &i64::max, &u64::max)
}
fn run_minimum(ctx: &mut KernelCtx<'_>) -> Result<()> {
    numbers(ctx, min, &i64::min, &u64::min)
}
fn run_squared_difference(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let i = |a: i64, b: i64| a.wrapping_sub(b).wrapping_mul(a.wrapping_sub(b));
    let u = |a: u64, b: u64| a.wrapping_sub(b).wrapping_mul(a.wrapping_sub(b));
    numbers(ctx, |a, b| (a - b) * (a - b), &i, &u)
}
fn run_atan2(ctx: &mut KernelCtx<'_>) -> Result<()> {
    floats(ctx, f64::atan2)
}
/// Whole powers by squaring; a negative exponent gives zero, but for bases 1 and -1.
fn power(mut a: i64, mut e: i64) -> i64 {
    if e < 0 {
        return match a {
            1 => 1,
            -1 => 1 - 2 * (e & 1),
            _ => 0,
        };
    }
    let mut r = 1i64;
    while e > 0 {
        if e & 1 == 1 {
            r = r.wrapping_mul(a);
        }
        a = a.wrapping_mul(a);
        e >>= 1;
    }
    r
}
fn run_pow(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (a, b) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?);
    let (ka, kb) = (a.kind()?, b.kind()?);
    if ka.is_float() && ka == kb {
        return floats(ctx, f64::powf);
    }
    // Exponents of another type: as doubles for floats, as integers among whole numbers.
    let e = if kb.is_int() && ka.is_int() { None } else { Some(b.f64s()?) };
    let shape = ge_kernels::view::broadcast_shapes(&a.shape, &b.shape).map_err(crate::args::view_error)?;
    let nest = ge_kernels::view::Nest::new(&shape, [&a.broadcast(&shape)?, &b.broadcast(&shape)?]);
    match e {
        Some(e) => with_kind!(ka, [F32, F64, F16, Bf16, I8, I16, I32, I64, U8, U16, U32, U64], T => {
            let (v, o) = (a.values::<T>()?, crate::args::out::<T>(ctx, 0, &shape)?);
            let mut at = 0;
            nest.each_run(|[pa, pb], n, [sa, sb]| {
                for i in 0..n as isize {
                    o[at] = T::from_f64(v[(pa + i * sa) as usize].to_f64().powf(e[(pb + i * sb) as usize]));
                    at += 1;
                }
            });
            Ok(())
        }, else a.refused()),
        None => {
            let e = b.i64s()?;
            with_kind!(ka, [I8, I16, I32, I64, U8, U16, U32, U64], T => {
                let (v, o) = (a.values::<T>()?, crate::args::out::<T>(ctx, 0, &shape)?);
                let mut at = 0;
                nest.each_run(|[pa, pb], n, [sa, sb]| {
                    for i in 0..n as isize {
                        o[at] = T::from_i64(power(v[(pa + i * sa) as usize].to_i64(), e[(pb + i * sb) as usize]));
                        at += 1;
                    }
                });
                Ok(())
            }, else a.refused())
        }
    }
}
fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
fn run_gcd(ctx: &mut KernelCtx<'_>) -> Result<()> {
    ints(ctx, &|a, b| gcd(a.unsigned_abs(), b.unsigned_abs()) as i64, &gcd)
}
/// `x < 0 ? weight * x : x`.
fn run_prelu(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let i = |a: i64, w: i64| if a < 0 { a.wrapping_mul(w) } else { a };
    numbers(ctx, |a, w| if a < 0.0 { a * w } else { a }, &i, &|a, _| a)
}
const fn n(name: &'static str, run: Run) -> Op {
    Op::new(name, run, &[NUM]).gives(&[NUM])
}
/// The rows of this file.
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
    n("Pow", run_pow),
    n("PRelu", run_prelu),
    Op::new("RealDiv", run_div, &[FLOAT]).gives(&[FLOAT]),
    Op::new("Atan2", run_atan2, &[FLOAT]).gives(&[FLOAT]),
    Op::new("Gcd", run_gcd, &[INT]).gives(&[INT]),
];
