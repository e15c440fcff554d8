//! Sine, cosine, tangent and their inverses in single precision, branch-free and with the same bits
//! on every instruction set, like the functions of `math`.
//!
//! An angle is reduced to at most an eighth of a turn by subtracting quarter turns, whose size is
//! stored in three parts (Cody and Waite). With fused products this is accurate to the last bits up
//! to `REACH`; larger angles use double precision (`FarMap`). The inverses reduce their range by
//! the identities of half and of opposite angles. Polynomials are interpolated at Chebyshev nodes,
//! computed with 40 digits. Errors, measured by the tests below: at most 4e-7 relative.
use super::act::Map;
use super::math::{ROUND, poly};
use std::f32::consts::{FRAC_2_PI, FRAC_PI_2, PI};

/// A quarter turn is the sum of `FRAC_PI_2` and these two.
const QUARTER_MID: f32 = -4.371_139e-8;
const QUARTER_LOW: f32 = -1.715_124_5e-15;

/// Largest magnitude for which [`sin`], [`cos`] and [`tan`] reduce angles exactly.
pub const REACH: f32 = 100_000.0;

/// A map that is accurate only up to a certain `|x|`, and the function that it approximates.
#[derive(Clone, Copy)]
pub struct FarMap<M> {
    /// The map for `|x|` up to [`REACH`].
    pub near: M,
    /// The function for any number.
    pub far: fn(f64) -> f64,
}

impl<M: Map> FarMap<M> {
    /// The value for any number.
    #[inline(always)]
    pub fn at(&self, x: f32) -> f32 {
        if x.abs() > REACH { (self.far)(f64::from(x)) as f32 } else { self.near.at(x) }
    }
}

/// Sine and cosine of `x` minus its quarter turns, and the number of quarter turns in the last bits
/// of an integer.
#[inline(always)]
fn reduced(x: f32) -> (f32, f32, u32) {
    let t = x.mul_add(FRAC_2_PI, ROUND);
    let n = t - ROUND;
    let r = n.mul_add(-QUARTER_LOW, n.mul_add(-QUARTER_MID, n.mul_add(-FRAC_PI_2, x)));
    let s = r * r;
    let sin = (r * s).mul_add(poly(s, [-0.166_666_67, 0.008_333_332, -0.000_198_400_77, 2.724_870_2e-6]), r);
    let p = poly(s, [0.041_666_668, -0.001_388_888_8, 2.480_059_3e-5, -2.729_994e-7]);
    let cos = s.mul_add(s.mul_add(p, -0.5), 1.0);
    (sin, cos, t.to_bits())
}

/// `v`, negated if `bit` is 1.
#[inline(always)]
fn signed(v: f32, bit: u32) -> f32 {
    f32::from_bits(v.to_bits() ^ (bit << 31))
}

/// Sine, for `|x|` up to [`REACH`].
#[inline(always)]
pub fn sin(x: f32) -> f32 {
    let (s, c, n) = reduced(x);
    let y = signed(if n & 1 == 0 { s } else { c }, (n >> 1) & 1);
    // Keeps the sign of zero.
    if x == 0.0 { x } else { y }
}

/// Cosine, for `|x|` up to [`REACH`].
#[inline(always)]
pub fn cos(x: f32) -> f32 {
    let (s, c, n) = reduced(x);
    signed(if n & 1 == 0 { c } else { s }, (n.wrapping_add(1) >> 1) & 1)
}

/// Tangent, for `|x|` up to [`REACH`].
#[inline(always)]
pub fn tan(x: f32) -> f32 {
    let (s, c, n) = reduced(x);
    let odd = n & 1 == 1;
    let y = if odd { -c } else { s } / if odd { s } else { c };
    if x == 0.0 { x } else { y }
}

/// Inverse tangent.
#[inline(always)]
pub fn atan(x: f32) -> f32 {
    let a = x.abs();
    let over = a > 1.0;
    let t = if over { 1.0 / a } else { a };
    let s = t * t;
    let p = poly(
        s,
        [
            -0.333_333_34,
            0.199_999_5,
            -0.142_840_04,
            0.110_882_62,
            -0.089_318_27,
            0.070_319_146,
            -0.048_960_514,
            0.026_305_001,
            -0.009_144_629,
            0.001_488_691_9,
        ],
    );
    let p = (t * s).mul_add(p, t);
    let r = if over { FRAC_PI_2 - (p - QUARTER_MID) } else { p };
    r.copysign(x)
}

/// Whether `|x|` is above one half; then also the inverse sine of `sqrt((1 - |x|) / 2)`, otherwise
/// that of `x`.
#[inline(always)]
fn arc(x: f32) -> (bool, f32) {
    let a = x.abs();
    let over = a > 0.5;
    let s = if over { 0.5 * (1.0 - a) } else { a * a };
    let t = if over { s.sqrt() } else { x };
    let p = poly(s, [0.166_666_66, 0.075_000_94, 0.044_599_403, 0.031_100_662, 0.017_149_238, 0.033_690_847]);
    (over, t + t * s * p)
}

/// Inverse sine; NaN for `|x|` above one.
#[inline(always)]
pub fn asin(x: f32) -> f32 {
    // asin(a) = pi / 2 - 2 asin(sqrt((1 - a) / 2))
    let (over, p) = arc(x);
    if over { (FRAC_PI_2 - (p + p - QUARTER_MID)).copysign(x) } else { p }
}

/// Inverse cosine; NaN for `|x|` above one.
#[inline(always)]
pub fn acos(x: f32) -> f32 {
    let (over, p) = arc(x);
    let near = FRAC_PI_2 - (p - QUARTER_MID);
    let far = if x < 0.0 { PI - (p + p - 2.0 * QUARTER_MID) } else { p + p };
    if over { far } else { near }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::errors::worst;

    #[test]
    fn relative_errors_are_below_four_in_ten_million() {
        type Case<'a> = (&'a str, fn(f32) -> f32, &'a dyn Fn(f64) -> f64, f32, f32, f64);
        let cases: [Case<'_>; 14] = [
            ("sin", sin, &f64::sin, -10.0, 10.0, 2e-7),
            ("sin near 0", sin, &f64::sin, -1e-3, 1e-3, 2e-7),
            ("sin far", sin, &f64::sin, 1e4, REACH, 2e-7),
            ("cos", cos, &f64::cos, -10.0, 10.0, 2e-7),
            ("cos far", cos, &f64::cos, -REACH, -1e4, 2e-7),
            ("tan", tan, &f64::tan, -10.0, 10.0, 4e-7),
            ("tan far", tan, &f64::tan, 1e4, REACH, 4e-7),
            ("atan", atan, &f64::atan, -4.0, 4.0, 2e-7),
            ("atan far", atan, &f64::atan, 4.0, 1e6, 2e-7),
            ("asin", asin, &f64::asin, -1.0, 1.0, 3e-7),
            ("asin near 0", asin, &f64::asin, -1e-3, 1e-3, 2e-7),
            ("acos", acos, &f64::acos, -1.0, 0.999, 3e-7),
            ("acos near 1", acos, &f64::acos, 0.999, 1.0, 4e-7),
            ("acos near 0", acos, &f64::acos, -1e-3, 1e-3, 2e-7),
        ];
        for (name, f, want, from, to, limit) in cases {
            let (e, at) = worst(f, want, from, to);
            assert!(e <= limit, "{name}: {e:e} at {at}");
        }
    }

    /// Multiples of a quarter turn, where most bits cancel, and their neighbours.
    #[test]
    fn angles_near_quarter_turns_are_right() {
        for n in 1..63_000 {
            let at = (f64::from(n) * std::f64::consts::FRAC_PI_2) as f32;
            for x in [at.next_down(), at, at.next_up()] {
                for (f, want) in [(sin as fn(f32) -> f32, f64::from(x).sin()), (cos, f64::from(x).cos())] {
                    let e = (f64::from(f(x)) - want).abs() / want.abs();
                    assert!(e <= 3e-7, "{x}: {e:e}");
                }
            }
        }
    }

    #[test]
    fn limits_and_not_a_number() {
        for f in [sin, tan, atan, asin] {
            assert!(f(-0.0).is_sign_negative() && f(0.0).is_sign_positive() && f(f32::NAN).is_nan());
            assert_eq!(f(1e-42), 1e-42, "denormal numbers stay");
        }
        assert!(cos(f32::NAN).is_nan() && acos(f32::NAN).is_nan());
        assert_eq!([cos(0.0), acos(1.0), acos(-1.0)], [1.0, 0.0, PI]);
        assert_eq!([asin(1.0), asin(-1.0), acos(0.0)], [FRAC_PI_2, -FRAC_PI_2, FRAC_PI_2]);
        assert_eq!([atan(f32::INFINITY), atan(f32::NEG_INFINITY)], [FRAC_PI_2, -FRAC_PI_2]);
        for x in [1.000_000_1, -1.000_000_1, 2.0, f32::INFINITY, f32::NEG_INFINITY] {
            assert!(asin(x).is_nan() && acos(x).is_nan());
        }
    }
}
