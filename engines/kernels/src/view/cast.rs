//! Casts of single numbers, with the rules that numpy and ONNX runtimes share on common hardware.
//!
//! - Floating to floating rounds once, to nearest even.
//! - Floating to integer truncates towards zero. What does not fit, NaN and infinities are
//!   undefined in ONNX (Cast, "casting from floating point"); here they give what the x86
//!   conversion gives, as numpy does: the smallest value of
//!   `i32` (targets of up to 32 bits signed and 16 bits unsigned) or of `i64`, then the low bits of
//!   that.
//! - Integer to integer keeps the low bits.
//! - To boolean: not equal zero (NaN is true). From boolean: zero or one.
use crate::view::elem::Elem;
pub use crate::view::num::Num;

/// One element cast to another type.
#[inline(always)]
pub fn cast<S: Elem, D: Elem>(v: S) -> D {
    D::from_num(v.to_num())
}

/// Every element of `src` cast into `dst`, up to the shorter of the two.
pub fn cast_all<S: Elem, D: Elem>(src: &[S], dst: &mut [D]) {
    for (d, s) in dst.iter_mut().zip(src) {
        *d = cast(*s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Bool;
    use half::{bf16, f16};

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
