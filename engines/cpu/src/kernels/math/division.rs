//! Quotients and remainders of integers. A division by zero gives zero (ONNX leaves it open); the
//! smallest number divided by minus one wraps.
//!
//! Processors divide several doubles at a time, but integers only one by one. If both numbers are
//! below 2^53, the quotient in doubles is on the right side of every integer: the exact quotient
//! differs from the next integer by at least 1 / b, and the rounding error of a quotient below 2^53
//! / b is smaller. So truncating or flooring it gives the exact integer quotient, and the remainder
//! follows from that.
use super::arith::is_unsigned;
use super::zip::zip_lines;
use crate::args::Arg;
use ge_kernels::view::{Elem, lines};
use ge_kernels::with_kind;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

/// The result wanted from a division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quotient {
    /// The quotient, rounded towards zero.
    Cut,
    /// The quotient, rounded down.
    Floor,
    /// The remainder with the sign of the dividend.
    RestOfCut,
    /// The remainder with the sign of the divisor.
    RestOfFloor,
}

/// Divides input 0 by input 1, which are integers and are broadcast.
pub fn run(ctx: &mut KernelCtx<'_>, how: Quotient) -> Result<()> {
    let (a, b) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?);
    if is_unsigned(a.kind()?) {
        return with_kind!(a.kind()?, [U8, U16, U32, U64], T => {
            zip_lines::<T, T, T>(ctx, &a, &b, |o, a, b| unsigned(o, a, b, how))
        }, else a.refused());
    }
    with_kind!(a.kind()?, [I8, I16, I32, I64], T => {
        zip_lines::<T, T, T>(ctx, &a, &b, |o, a, b| signed(o, a, b, how))
    }, else a.refused())
}

/// Integers below this are represented exactly by doubles.
const EXACT: u64 = 1 << 53;

/// Number of elements for which the method is chosen at a time.
const BLOCK: usize = 512;

fn signed<T: Elem>(o: &mut [T], a: &[T], b: &[T], how: Quotient) {
    let small = |v: &[T]| lines::fold(v, 0, |m: u64, v| m | v.to_i64().unsigned_abs()) < EXACT;
    for ((o, a), b) in o.chunks_mut(BLOCK).zip(a.chunks(BLOCK)).zip(b.chunks(BLOCK)) {
        if T::KIND.size() < 8 || (small(a) && small(b)) {
            by_doubles(o, a, b, how);
        } else {
            o.iter_mut().zip(a).zip(b).for_each(|((o, a), b)| *o = T::from_i64(one(a.to_i64(), b.to_i64(), how)));
        }
    }
}

fn unsigned<T: Elem>(o: &mut [T], a: &[T], b: &[T], how: Quotient) {
    let small = |v: &[T]| lines::fold(v, 0, |m: u64, v| m | v.to_i64() as u64) < EXACT;
    for ((o, a), b) in o.chunks_mut(BLOCK).zip(a.chunks(BLOCK)).zip(b.chunks(BLOCK)) {
        if T::KIND.size() < 8 || (small(a) && small(b)) {
            by_doubles(o, a, b, how);
            continue;
        }
        for ((o, a), b) in o.iter_mut().zip(a).zip(b) {
            let (a, b) = (a.to_i64() as u64, b.to_i64() as u64);
            let v = match how {
                Quotient::Cut | Quotient::Floor => a.checked_div(b),
                Quotient::RestOfCut | Quotient::RestOfFloor => a.checked_rem(b),
            };
            *o = T::from_i64(v.unwrap_or(0) as i64);
        }
    }
}

/// The quotient or remainder of two signed numbers.
fn one(a: i64, b: i64, how: Quotient) -> i64 {
    if b == 0 {
        return 0;
    }
    let (q, r) = (a.wrapping_div(b), a.wrapping_rem(b));
    let below = r != 0 && (a < 0) != (b < 0);
    match how {
        Quotient::Cut => q,
        Quotient::Floor => q - i64::from(below),
        Quotient::RestOfCut => r,
        Quotient::RestOfFloor => r + if below { b } else { 0 },
    }
}

/// Divides integers whose absolute values are below [`EXACT`].
fn by_doubles<T: Elem>(o: &mut [T], a: &[T], b: &[T], how: Quotient) {
    // A division by zero gives zero.
    let quotient = |a: f64, b: f64| if b == 0.0 { 0.0 } else { a / b };
    let rest = |a: T, b: T, q: f64| {
        let r = a.to_i64().wrapping_sub((q as i64).wrapping_mul(b.to_i64()));
        T::from_i64(if b.to_i64() == 0 { 0 } else { r })
    };
    match how {
        Quotient::Cut => lines::zip(o, a, b, |a, b| T::from_i64(quotient(a.to_f64(), b.to_f64()) as i64)),
        Quotient::Floor => lines::zip(o, a, b, |a, b| T::from_i64(quotient(a.to_f64(), b.to_f64()).floor() as i64)),
        Quotient::RestOfCut => lines::zip(o, a, b, |a, b| rest(a, b, quotient(a.to_f64(), b.to_f64()))),
        Quotient::RestOfFloor => lines::zip(o, a, b, |a, b| rest(a, b, quotient(a.to_f64(), b.to_f64()).floor())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_divide_as_whole_numbers_do() {
        let near = [0i64, 1, -1, 2, -2, 3, 7, -7, 255, 256, 1 << 31, -(1 << 31), (1 << 53) - 1, 1 - (1 << 53)];
        let far = [i64::MIN, i64::MAX, (1 << 53) + 1, 12_345_678_901_234_567];
        let all: Vec<i64> = near.iter().chain(&far).copied().collect();
        for how in [Quotient::Cut, Quotient::Floor, Quotient::RestOfCut, Quotient::RestOfFloor] {
            for &b in &all {
                let want: Vec<i64> = all.iter().map(|a| one(*a, b, how)).collect();
                let mut got = vec![0; all.len()];
                signed(&mut got, &all, &vec![b; all.len()], how);
                assert_eq!(got, want, "{how:?} by {b}");
                let mut got = vec![0; near.len()];
                signed(&mut got, &near, &vec![b; near.len()], how);
                assert_eq!(got, want[..near.len()], "{how:?} by {b}");
            }
            for b in i8::MIN..=i8::MAX {
                let a: Vec<i8> = (i8::MIN..=i8::MAX).collect();
                let mut got = vec![0; a.len()];
                signed(&mut got, &a, &vec![b; a.len()], how);
                let want: Vec<i8> = a.iter().map(|a| one(i64::from(*a), i64::from(b), how) as i8).collect();
                assert_eq!(got, want, "{how:?} by {b}");
            }
        }
        let (a, b) = ([u64::MAX, 7, 1 << 60, 9], [10u64, 0, 3, 4]);
        let mut got = [1u64; 4];
        unsigned(&mut got, &a, &b, Quotient::Cut);
        assert_eq!(got, [u64::MAX / 10, 0, (1 << 60) / 3, 2]);
    }
}
