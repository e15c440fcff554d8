//! Casts of single numbers, with the rules that numpy and ONNX runtimes share on common hardware.
//!
//! - Floating to floating rounds once, to nearest even.
//! - Floating to integer truncates towards zero. ONNX leaves values that do not fit, NaN and
//!   infinities undefined (Cast, "casting from floating point"). Here they give what the x86
//!   conversion gives, as in numpy: the smallest value of `i32` (for targets of up to 32 bits
//!   signed and 16 bits unsigned) or of `i64`, cut to the low bits of the target.
//! - Integer to integer keeps the low bits.
//! - To boolean: not equal to zero (NaN is true). From boolean: zero or one.
use crate::simd::lines::{round_to, widen};
use crate::view::elem::{Elem, Kind};
pub use crate::view::num::Num;
use crate::view::{seen_as, seen_as_mut};
use half::{bf16, f16};

/// Casts one element to another type.
#[inline(always)]
pub fn cast<S: Elem, D: Elem>(v: S) -> D {
    D::from_num(v.to_num())
}

/// Casts every element of `src` into `dst`, up to the shorter length of the two.
pub fn cast_all<S: Elem, D: Elem>(src: &[S], dst: &mut [D]) {
    let done = match (S::KIND, D::KIND) {
        (Kind::F16, Kind::F32) => between(src, dst, widen::<f16>),
        (Kind::Bf16, Kind::F32) => between(src, dst, widen::<bf16>),
        (Kind::F32, Kind::F16) => between(src, dst, round_to::<f16>),
        (Kind::F32, Kind::Bf16) => between(src, dst, round_to::<bf16>),
        _ => false,
    };
    if !done {
        cast_each(src, dst);
    }
}

/// Calls `f` with `src` and `dst` seen as slices of `A` and `B`. Returns false, without a call, if
/// they cannot be seen so.
fn between<S: Elem, D: Elem, A: Elem, B: Elem>(src: &[S], dst: &mut [D], f: impl Fn(&[A], &mut [B])) -> bool {
    let (Ok(src), Ok(dst)) = (seen_as(src), seen_as_mut(dst)) else { return false };
    f(src, dst);
    true
}

crate::multiversion! {
    fn cast_each<S: Elem, D: Elem>(src: &[S], dst: &mut [D]) {
        // Types that a single represents exactly need no detour through doubles.
        if matches!(S::KIND, Kind::F32 | Kind::F16 | Kind::Bf16) {
            for (d, s) in dst.iter_mut().zip(src) {
                *d = D::from_f32(s.to_f32());
            }
        } else {
            for (d, s) in dst.iter_mut().zip(src) {
                *d = cast(*s);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, with_level};
    use crate::view::{Bool, as_bytes};

    #[test]
    fn floats_truncate_and_wrap_like_numpy() {
        assert_eq!(cast::<f32, i32>(-1.9), -1);
        assert_eq!(cast::<f32, u8>(300.0), 44);
        assert_eq!(cast::<f32, u8>(-1.0), 255);
        assert_eq!(cast::<f32, i8>(200.0), -56);
        assert_eq!(cast::<f32, i32>(f32::NAN), i32::MIN);
        assert_eq!(cast::<f32, i32>(3e9), i32::MIN);
        assert_eq!(cast::<f64, i64>(f64::INFINITY), i64::MIN);
        assert_eq!(cast::<f64, u64>(1.0e19), 10_000_000_000_000_000_000);
        assert_eq!(cast::<f32, u32>(4_000_000_000.0), 4_000_000_000);
    }

    /// For each pair of types, `cast_all` gives the same numbers as `cast` on every instruction
    /// set.
    #[test]
    fn many_are_cast_as_one() {
        let edges = [0.0, -0.0, 0.9, -1.9, 127.5, -129.0, 300.0, 65_520.0, 2f64.powi(-25), f64::NAN, f64::INFINITY];
        let powers = [31, 32, 53, 63, 64, 127].map(|e| 2f64.powi(e));
        let around = powers.iter().flat_map(|p| [*p, p * (1.0 - 2f64.powi(-24)), p * (1.0 + 2f64.powi(-22)), p - 1.0]);
        let all: Vec<f64> = edges.into_iter().chain(around).flat_map(|v| [v, -v]).collect();
        fn pair<S: Elem, D: Elem>(all: &[f64]) {
            let x: Vec<S> = all.iter().map(|v| S::from_f64(*v)).collect();
            let want: Vec<D> = x.iter().map(|v| cast(*v)).collect();
            for level in Level::available() {
                let mut y = vec![D::default(); x.len()];
                with_level(level, || cast_all(&x, &mut y));
                assert_eq!(as_bytes(&y), as_bytes(&want), "{} to {} {level:?}", S::KIND.name(), D::KIND.name());
            }
        }
        for (a, b) in Kind::ALL.into_iter().flat_map(|a| Kind::ALL.map(|b| (a, b))) {
            crate::with_kind!(a, S => crate::with_kind!(b, D => pair::<S, D>(&all)));
        }
    }

    #[test]
    fn integers_keep_the_low_bits() {
        assert_eq!(cast::<i64, i8>(0x1_80), -128);
        assert_eq!(cast::<u64, i32>(u64::MAX), -1);
        assert_eq!(cast::<i64, f32>(16_777_217), 16_777_216.0);
        assert_eq!(cast::<u64, f64>(u64::MAX), 18_446_744_073_709_551_615.0);
    }

    #[test]
    fn booleans_are_zero_or_one() {
        assert_eq!(cast::<f32, Bool>(f32::NAN), Bool(1));
        assert_eq!(cast::<f32, Bool>(-0.0), Bool(0));
        assert_eq!(cast::<Bool, f32>(Bool(7)), 1.0);
    }

    #[test]
    fn halves_round_once_to_even() {
        assert_eq!(cast::<f32, f16>(2049.0).to_f32(), 2048.0);
        assert_eq!(cast::<f32, f16>(70000.0), f16::INFINITY);
        assert_eq!(cast::<f32, bf16>(1.0 + 0.5f32.powi(8)).to_f32(), 1.0);
        // 1 + 2^-11 + 2^-30: rounding to f32 first would lose the last bit and go to even.
        assert_eq!(cast::<f64, f16>(1.0 + 2f64.powi(-11) + 2f64.powi(-30)).to_f32(), 1.0 + 2f32.powi(-10));
    }
}
