//! Elementary functions in single precision. They are branch-free, so that loops over them
//! vectorise, and have the same bits on every instruction set.
//!
//! Each one is a range reduction and a polynomial interpolated at Chebyshev nodes of the reduced
//! range (computed with 40 digits). Errors, measured against double precision over the whole range
//! by the tests below: at most 4e-7 relative.

/// `ln 2` in two parts. The first has so few bits that its product with a small integer is exact.
pub(super) const LN2_HI: f32 = 0.693_359_4;
pub(super) const LN2_LO: f32 = -2.121_944_4e-4;
/// `1.5 * 2^23`: adding and then subtracting it rounds to the nearest integer.
pub(super) const ROUND: f32 = 12_582_912.0;

/// The coefficients of `p` in `e^r = 1 + r + r^2 p(r)`, the constant first.
pub(super) const EXP: [f32; 6] = [0.5, 0.166_666_67, 0.041_666_456, 0.008_333_31, 0.001_393_454_1, 0.000_198_919_8];

/// Evaluates the polynomial with these coefficients, the constant first.
#[inline(always)]
pub(super) fn poly<const N: usize>(x: f32, c: [f32; N]) -> f32 {
    let mut r = c[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        r = r.mul_add(x, c[i]);
    }
    r
}

/// `v * 2^n` for integers `n` from -252 to 254. It multiplies by two factors, so that results near
/// the limits do not overflow early.
#[inline(always)]
fn scale(v: f32, n: i32) -> f32 {
    let half = n >> 1;
    let rest = n.wrapping_sub(half);
    let power = |e: i32| f32::from_bits((e.wrapping_add(127) as u32) << 23);
    v * power(half) * power(rest)
}

/// `e^r - 1` where `x = n ln 2 + r`, and `n` in the last bits of a float.
#[inline(always)]
fn reduced(x: f32) -> (f32, f32) {
    let t = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = t - ROUND;
    let r = n.mul_add(-LN2_LO, n.mul_add(-LN2_HI, x));
    let p = poly(r, EXP);
    ((r * r).mul_add(p, r), t)
}

/// `2^n` for the `n` of [`reduced`], from -127 (which gives zero) to 128 (which gives infinity).
#[inline(always)]
pub(super) fn power(t: f32) -> f32 {
    f32::from_bits((t.to_bits() << 23).wrapping_add(1f32.to_bits()))
}

/// `e^x`. Infinite above 88.72, zero below -103.97; NaN stays NaN.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -105.0 { -105.0 } else { x };
    let (q, t) = reduced(x);
    let e = q + 1.0;
    scale(e, (t.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32))
}

/// `e^x - 1`, accurate near zero.
#[inline(always)]
pub fn expm1(x: f32) -> f32 {
    let near = x.abs() < 0.34;
    let p = poly(x, EXP);
    let small = (x * x).mul_add(p, x);
    if near { small } else { exp(x) - 1.0 }
}

/// `ln x`: minus infinity at zero, NaN below it.
#[inline(always)]
pub fn ln(x: f32) -> f32 {
    // Denormals are first scaled into the normal range.
    let tiny = x < f32::MIN_POSITIVE;
    let v = if tiny { x * 8_388_608.0 } else { x };
    let bits = v.to_bits() as i32;
    // The mantissa is reduced to [sqrt(1/2), sqrt(2)).
    let e = bits.wrapping_sub(0x3f35_04f3) >> 23;
    let m = f32::from_bits(bits.wrapping_sub(e << 23) as u32);
    let n = e as f32 - if tiny { 23.0 } else { 0.0 };
    let f = m - 1.0;
    let p = poly(
        f,
        [
            0.333_333_3,
            -0.249_999_97,
            0.200_007_16,
            -0.166_678_03,
            0.142_490_58,
            -0.124_256_87,
            0.116_854_2,
            -0.114_797_34,
            0.069_716_12,
        ],
    );
    let f2 = f * f;
    let low = n.mul_add(LN2_LO, f2.mul_add(f * p, f2 * -0.5));
    let r = n.mul_add(LN2_HI, f + low);
    let r = if x == f32::INFINITY { f32::INFINITY } else { r };
    let r = if x == 0.0 { f32::NEG_INFINITY } else { r };
    if x >= 0.0 { r } else { f32::NAN }
}

/// `ln(1 + x)`, accurate near zero.
#[inline(always)]
pub fn ln_1p(x: f32) -> f32 {
    // Kahan's correction for the rounding of 1 + x.
    let u = 1.0 + x;
    let r = ln(u) * (x / (u - 1.0));
    let r = if u == 1.0 { x } else { r };
    if x == f32::INFINITY { f32::INFINITY } else { r }
}

/// Hyperbolic tangent.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    // With e = e^2a - 1, which is accurate near zero, tanh a = e / (e + 2). Beyond 20 the result is
    // one.
    let a = x.abs() + x.abs();
    let (q, t) = reduced(if a > 40.0 { 40.0 } else { a });
    let scale = power(t);
    let e = scale.mul_add(q, scale - 1.0);
    (e / (e + 2.0)).copysign(x)
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    let y = if -x > 89.0 { 89.0 } else { -x };
    let (q, t) = reduced(if y < -88.0 { -88.0 } else { y });
    1.0 / (q + 1.0).mul_add(power(t), 1.0)
}

/// The error function: an odd polynomial near zero, `1 - p(a)^-8` further out, which becomes one
/// where `p` is large.
#[inline(always)]
pub fn erf(x: f32) -> f32 {
    let a = x.abs();
    let p = poly(
        x * x,
        [0.128_379_17, -0.376_126_32, 0.112_836_51, -0.026_857_022, 0.005_195_373, -0.000_808_097_7, 8.119_061e-5],
    );
    let small = a.mul_add(p, a);
    // erfc(a)^(-1/8) from 0.94 on, to 1.5e-8 of erfc(a).
    let q = poly(
        a,
        [
            0.997_446_54,
            0.154_772_77,
            0.058_058_303,
            0.064_558_74,
            -0.027_292_734,
            0.015_639_58,
            -0.003_579_18,
            0.000_508_078_3,
        ],
    );
    let q = q * q;
    let q = q * q;
    let large = 1.0 - 1.0 / (q * q);
    let r = if a < 0.95 { small } else { large };
    r.copysign(x)
}

/// `x * sigmoid(x)`.
#[inline(always)]
pub fn silu(x: f32) -> f32 {
    x * sigmoid(x)
}

/// The Gaussian error linear unit, `x (1 + erf(x / sqrt 2)) / 2`.
#[inline(always)]
pub fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2))
}

/// The tanh approximation of GELU, `x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2`.
#[inline(always)]
pub fn gelu_tanh(x: f32) -> f32 {
    let inner = 0.797_884_6 * (x * x * x).mul_add(0.044_715, x);
    0.5 * x * (1.0 + tanh(inner))
}

/// `ln(1 + e^x)`.
#[inline(always)]
pub fn softplus(x: f32) -> f32 {
    let m = if x > 0.0 { x } else { 0.0 };
    let r = m + ln_1p(exp(-x.abs()));
    if x.is_nan() { x } else { r }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::errors::worst;

    /// The error function from its series, for large arguments from its continued fraction.
    fn erf64(x: f64) -> f64 {
        if x.abs() > 3.0 {
            let mut f = 0.0;
            for k in (1..60).rev() {
                f = f64::from(k) / 2.0 / (x.abs() + f);
            }
            return (1.0 - (-x * x).exp() / (std::f64::consts::PI.sqrt() * (x.abs() + f))).copysign(x);
        }
        let (mut term, mut sum) = (x, x);
        for n in 1..90 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    }

    #[test]
    fn relative_errors_are_below_four_in_ten_million() {
        type Case<'a> = (&'a str, fn(f32) -> f32, &'a dyn Fn(f64) -> f64, f32, f32, f64);
        let cases: [Case<'_>; 12] = [
            ("exp", exp, &f64::exp, -87.0, 88.7, 2e-7),
            ("exp near 0", exp, &f64::exp, -1.0, 1.0, 1.5e-7),
            ("expm1", expm1, &f64::exp_m1, -2.0, 2.0, 4e-7),
            ("ln", ln, &f64::ln, 1e-3, 10.0, 2e-7),
            ("ln large", ln, &f64::ln, 10.0, 3e38, 2e-7),
            ("ln_1p", ln_1p, &f64::ln_1p, -0.5, 2.0, 4e-7),
            ("tanh", tanh, &f64::tanh, -10.0, 10.0, 2e-7),
            ("tanh near 0", tanh, &f64::tanh, -1e-3, 1e-3, 2e-7),
            ("sigmoid", sigmoid, &|x| 1.0 / (1.0 + (-x).exp()), -80.0, 80.0, 3e-7),
            ("erf", erf, &erf64, -5.0, 5.0, 2e-7),
            ("silu", silu, &|x| x / (1.0 + (-x).exp()), -80.0, 20.0, 4e-7),
            ("softplus", softplus, &|x| x.max(0.0) + (-x.abs()).exp().ln_1p(), -80.0, 20.0, 4e-7),
        ];
        for (name, f, want, from, to, limit) in cases {
            let (e, at) = worst(f, want, from, to);
            assert!(e <= limit, "{name}: {e:e} at {at}");
        }
    }

    #[test]
    fn gelu_is_right_to_the_last_bits_of_its_scale() {
        for i in -6000..6000 {
            let x = i as f32 / 1000.0;
            let d = f64::from(x);
            let want = 0.5 * d * (1.0 + erf64(d / 2f64.sqrt()));
            assert!((f64::from(gelu(x)) - want).abs() <= 3e-7 * want.abs().max(1.0), "{x}");
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (d + 0.044715 * d * d * d);
            let want = 0.5 * d * (1.0 + inner.tanh());
            assert!((f64::from(gelu_tanh(x)) - want).abs() <= 3e-7 * want.abs().max(1.0), "{x}");
        }
    }

    #[test]
    fn limits_and_not_a_number() {
        assert_eq!([exp(f32::NEG_INFINITY), exp(f32::INFINITY), exp(0.0)], [0.0, f32::INFINITY, 1.0]);
        assert!(exp(-100.0) > 0.0, "denormal results are kept");
        assert_eq!([ln(0.0), ln(f32::INFINITY), ln(1.0)], [f32::NEG_INFINITY, f32::INFINITY, 0.0]);
        assert!(ln(-1.0).is_nan() && ln(-0.0) == f32::NEG_INFINITY);
        assert!((f64::from(ln(1e-40)) - 1e-40f32.to_f64_ln()).abs() < 1e-4);
        assert_eq!([tanh(50.0), tanh(-50.0), erf(9.0), erf(-9.0)], [1.0, -1.0, 1.0, -1.0]);
        assert_eq!([sigmoid(-200.0), sigmoid(200.0)], [0.0, 1.0]);
        assert!(tanh(-0.0).is_sign_negative() && erf(-0.0).is_sign_negative());
        for f in [exp, expm1, ln, ln_1p, tanh, sigmoid, erf, silu, gelu, gelu_tanh, softplus] {
            assert!(f(f32::NAN).is_nan());
        }
        assert_eq!(softplus(200.0), 200.0);
        assert_eq!(softplus(f32::INFINITY), f32::INFINITY);
    }

    trait Ln64 {
        fn to_f64_ln(self) -> f64;
    }
    impl Ln64 for f32 {
        fn to_f64_ln(self) -> f64 {
            f64::from(self).ln()
        }
    }
}
