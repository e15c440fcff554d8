//! Special functions in double precision.
//!
//! `erf` uses its series with only positive terms (Abramowitz and Stegun 7.1.6). Beyond 2, `erfc`
//! uses its continued fraction (7.1.14), evaluated by the modified Lentz method.

const TWO_OVER_SQRT_PI: f64 = core::f64::consts::FRAC_2_SQRT_PI;

/// The error function.
pub fn erf(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let a = x.abs();
    if a >= 2.0 {
        return (1.0 - tail(a)).copysign(x);
    }
    let (mut term, mut sum, mut n) = (x, x, 0.0);
    while term.abs() > sum.abs() * 1e-17 {
        n += 1.0;
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
    }
    TWO_OVER_SQRT_PI * (-x * x).exp() * sum
}

/// The complementary error function, accurate where it is small.
pub fn erfc(x: f64) -> f64 {
    if x >= 2.0 {
        tail(x)
    } else if x <= -2.0 {
        2.0 - tail(-x)
    } else {
        1.0 - erf(x)
    }
}

/// `erfc(x)` for `x >= 2`.
fn tail(x: f64) -> f64 {
    if x > 27.3 {
        return 0.0;
    }
    let tiny = 1e-300;
    let (mut f, mut c, mut d) = (x, x, 0.0);
    for k in 1..200 {
        let a = f64::from(k) / 2.0;
        d = 1.0 / (x + a * d).max(tiny);
        c = (x + a / c).max(tiny);
        let step = c * d;
        f *= step;
        if (step - 1.0).abs() < 1e-16 {
            break;
        }
    }
    (-x * x).exp() / (f * core::f64::consts::PI.sqrt())
}

/// `exp(x)` without a branch, for loops over lines. The error is at most two units in the last
/// place.
///
/// `x` is written as an integer multiple of `ln 2` plus a rest of magnitude at most half of that.
/// The power series of the rest is cut after the thirteenth power.
#[inline(always)]
pub fn exp_in_line(x: f64) -> f64 {
    // Adding and then subtracting this rounds to an integer; in between, the integer is in the low
    // bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    // Numbers beyond these limits have the same result as the limits.
    let x = if x > 710.0 { 710.0 } else { x };
    let x = if x < -746.0 { -746.0 } else { x };
    let rounded = x * core::f64::consts::LOG2_E + ROUND;
    let whole = (rounded.to_bits() as i64).wrapping_sub(ROUND.to_bits() as i64);
    let k = rounded - ROUND;
    let r = (x - k * LN_2_HIGH) - k * LN_2_LOW;
    let mut sum = 1.0 / 6_227_020_800.0;
    for factorial in
        [479_001_600.0, 39_916_800.0, 3_628_800.0, 362_880.0, 40_320.0, 5_040.0, 720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0]
    {
        sum = sum * r + 1.0 / factorial;
    }
    // Multiplying in two steps reaches subnormal results.
    let power = |n: i64| f64::from_bits((n.wrapping_add(1023) as u64) << 52);
    sum * power(whole >> 1) * power(whole - (whole >> 1))
}

/// `1 / (1 + exp(-x))`.
pub fn sigmoid(x: f64) -> f64 {
    if x >= 0.0 {
        1.0 / (1.0 + (-x).exp())
    } else {
        let e = x.exp();
        e / (1.0 + e)
    }
}

/// `x` times the cumulative normal distribution at `x`.
pub fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + erf(x * core::f64::consts::FRAC_1_SQRT_2))
}

/// The tanh approximation of [`gelu`].
pub fn gelu_tanh(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / core::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
}

/// `x * max(0, min(1, x / 6 + 1 / 2))`.
pub fn hard_swish(x: f64) -> f64 {
    x * max(0.0, min(1.0, x / 6.0 + 0.5))
}

/// `log(1 + exp(x))`.
pub fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// `max` as in numpy: NaN if either is NaN.
pub fn max(a: f64, b: f64) -> f64 {
    if a.is_nan() | (a > b) { a } else { b }
}

/// `min` as in numpy: NaN if either is NaN.
pub fn min(a: f64, b: f64) -> f64 {
    if a.is_nan() | (a < b) { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erf_agrees_with_tables() {
        // Values of Python's math.erf and math.erfc.
        for (x, e, c) in [
            (0.0, 0.0, 1.0),
            (0.3, 0.3286267594591274, 0.6713732405408726),
            (1.0, 0.8427007929497149, 0.15729920705028513),
            (1.9, 0.9927904292352575, 0.007209570764742524),
            (2.5, 0.999593047982555, 0.0004069520174449589),
            (5.0, 0.9999999999984626, 1.5374597944280347e-12),
            (-1.5, -0.9661051464753108, 1.9661051464753108),
        ] {
            assert!((erf(x) - e).abs() <= 2e-15, "erf({x}) = {}", erf(x));
            assert!(
                (erfc(x) - c).abs() <= 4e-15 * c.abs() + if x < 2.0 { 1e-15 } else { 0.0 },
                "erfc({x}) = {}",
                erfc(x)
            );
        }
        assert!(erf(f64::NAN).is_nan() && erf(f64::INFINITY) == 1.0 && erfc(f64::NEG_INFINITY) == 2.0);
    }

    #[test]
    fn exponentials_in_lines_are_near_the_library() {
        for i in -74_600..=71_000 {
            let x = f64::from(i) / 100.0 + 0.001_234;
            let (got, want) = (exp_in_line(x), x.exp());
            let near = (got - want).abs() <= 4.5e-16 * want + f64::from_bits(1);
            assert!(near || got == want, "exp({x}) = {got}, not {want}");
        }
        assert_eq!([exp_in_line(0.0), exp_in_line(-0.0), exp_in_line(f64::NEG_INFINITY)], [1.0, 1.0, 0.0]);
        assert!(exp_in_line(f64::NAN).is_nan() && exp_in_line(f64::INFINITY).is_infinite());
    }

    #[test]
    fn extremes_of_max_min_and_logistics() {
        assert!(max(f64::NAN, 1.0).is_nan() && max(1.0, f64::NAN).is_nan() && min(1.0, f64::NAN).is_nan());
        assert_eq!((sigmoid(-800.0), sigmoid(800.0), softplus(-800.0), softplus(800.0)), (0.0, 1.0, 0.0, 800.0));
    }
}
