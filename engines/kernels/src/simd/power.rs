//! Powers in single precision, computed in double precision: `x^y = 2^(y log2 |x|)`, branch-free
//! and with the same bits on every instruction set. The logarithm uses the series of the inverse
//! hyperbolic tangent, the power of two the series of the exponential. The truncation error of both
//! is below 1e-12 of the result, so that all but about one in a hundred thousand results are
//! rounded like the exact one.

/// `1.5 * 2^52`: adding and then subtracting it rounds to the nearest integer.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// `log2 x` for positive finite single-precision numbers.
#[inline(always)]
fn log2(x: f32) -> f64 {
    let bits = f64::from(x).to_bits();
    // The mantissa is reduced to [sqrt(1/2), sqrt(2)).
    let over = bits.wrapping_sub(0x3fe6_a09e_667f_3bcd);
    let e = (over as i64 >> 52) as i32;
    let m = f64::from_bits(bits.wrapping_sub(over & (0xfff << 52)));
    let s = (m - 1.0) / (m + 1.0);
    let q = s * s;
    let mut p = 1.0 / 17.0;
    for k in [15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        p = q.mul_add(p, 1.0 / k);
    }
    (s * p).mul_add(2.0 * std::f64::consts::LOG2_E, f64::from(e))
}

/// `2^z`, rounded; infinity on overflow and zero on underflow.
#[inline(always)]
fn exp2(z: f64) -> f32 {
    let z = if z > 200.0 { 200.0 } else { z };
    let z = if z < -200.0 { -200.0 } else { z };
    let t = z + ROUND;
    let r = (z - (t - ROUND)) * std::f64::consts::LN_2;
    let mut p = 1.0;
    for k in [10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0] {
        p = (r * (1.0 / k)).mul_add(p, 1.0);
    }
    let scale = f64::from_bits((t.to_bits() << 52).wrapping_add(1f64.to_bits()));
    (p * scale) as f32
}

/// `x` to the power `y`, with the special cases of IEEE 754: one if `y` is zero or `x` is one, NaN
/// for a negative finite `x` and a `y` that is not an integer.
#[inline(always)]
pub fn pow(x: f32, y: f32) -> f32 {
    let size = x.abs();
    let r = exp2(f64::from(y) * log2(size));
    let far = if (size > 1.0) == (y > 0.0) { f32::INFINITY } else { 0.0 };
    let r = if size == 0.0 || size == f32::INFINITY || y.abs() == f32::INFINITY { far } else { r };
    let r = if size == 1.0 { 1.0 } else { r };
    let half = y * 0.5;
    let (whole, even) = (y.floor() == y, half.floor() == half);
    let r = if x.is_sign_negative() && whole && !even { -r } else { r };
    let r = if x < 0.0 && size < f32::INFINITY && !whole { f32::NAN } else { r };
    let r = if x.is_nan() || y.is_nan() { f32::NAN } else { r };
    if y == 0.0 || x == 1.0 { 1.0 } else { r }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compared with the standard library's power in double precision.
    #[test]
    fn powers_are_rounded_as_those_in_double_precision() {
        let (mut off, mut all) = (0, 0);
        for i in 0..700 {
            for j in 0..700 {
                let x = ((i - 350) as f32 * 0.137).exp2();
                let y = (j - 350) as f32 * 0.0731;
                let (got, want) = (pow(x, y), f64::from(x).powf(f64::from(y)) as f32);
                all += 1;
                off += usize::from(got != want);
                let near = [want.next_down(), want, want.next_up()];
                assert!(near.contains(&got), "{x}^{y}: {got:e} for {want:e}");
            }
        }
        assert!(off * 20_000 < all, "{off} of {all}");
    }

    #[test]
    fn limits_signs_and_what_is_no_number() {
        let special = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            2.0,
            -2.0,
            3.0,
            0.5,
            -0.5,
            1e-40,
            -1e-40,
            1e38,
            -3e38,
            16_777_217.0,
            16_777_215.0,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
            0.999_999_94,
            1.000_000_1,
        ];
        for x in special {
            for y in special {
                let (got, want) = (pow(x, y), f64::from(x).powf(f64::from(y)) as f32);
                let same = got == want && got.is_sign_negative() == want.is_sign_negative();
                assert!(same || (got.is_nan() && want.is_nan()), "{x}^{y}: {got} for {want}");
            }
        }
    }
}
