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

/// Numbers to and from which a sum rounds to an integer: in between, the integer is in the low
/// bits.
const ROUND: f64 = 6_755_399_441_055_744.0;
/// `ln 2` in two parts: products of the first with integers up to 2^20 are exact.
const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// Splits `x` into an integer multiple of `ln 2` and a rest of magnitude at most half of that: the
/// integer, and the rest.
#[inline(always)]
fn halved(x: f64) -> (i64, f64) {
    let rounded = x * core::f64::consts::LOG2_E + ROUND;
    let whole = (rounded.to_bits() as i64).wrapping_sub(ROUND.to_bits() as i64);
    let k = rounded - ROUND;
    (whole, (x - k * LN_2_HIGH) - k * LN_2_LOW)
}

/// `(exp(r) - 1) / r` for small numbers: the power series, cut after the thirteenth power of `exp`.
#[inline(always)]
fn series(r: f64) -> f64 {
    let mut sum = 1.0 / 6_227_020_800.0;
    for factorial in
        [479_001_600.0, 39_916_800.0, 3_628_800.0, 362_880.0, 40_320.0, 5_040.0, 720.0, 120.0, 24.0, 6.0, 2.0, 1.0]
    {
        sum = sum * r + 1.0 / factorial;
    }
    sum
}

/// `2^n` for exponents of normal numbers.
#[inline(always)]
fn power(n: i64) -> f64 {
    f64::from_bits((n.wrapping_add(1023) as u64) << 52)
}

/// `exp(x)` without a branch, for loops over lines. The error is at most two units in the last
/// place.
#[inline(always)]
pub fn exp_in_line(x: f64) -> f64 {
    // Numbers beyond these limits have the same result as the limits.
    let x = if x > 710.0 { 710.0 } else { x };
    let x = if x < -746.0 { -746.0 } else { x };
    let (whole, r) = halved(x);
    // Multiplying in two steps reaches subnormal results.
    (series(r) * r + 1.0) * power(whole >> 1) * power(whole - (whole >> 1))
}

/// `tanh(x)` without a branch, from `exp(2 |x|) - 1`, which keeps the digits of small numbers.
#[inline(always)]
pub fn tanh_in_line(x: f64) -> f64 {
    let a = 2.0 * x.abs();
    // One is the nearest number from here on.
    let a = if a > 44.0 { 44.0 } else { a };
    let (whole, r) = halved(a);
    let two = power(whole);
    let less = two * (series(r) * r) + (two - 1.0);
    (less / (less + 2.0)).copysign(x)
}

/// `ln((1 + s) / (1 - s))` for `|s| <= 3 - sqrt(8)`: twice the series of the inverse hyperbolic
/// tangent.
#[inline(always)]
fn ratio(s: f64) -> f64 {
    let z = s * s;
    let mut sum = 1.0 / 23.0;
    for odd in [21.0, 19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0] {
        sum = sum * z + 1.0 / odd;
    }
    2.0 * s + 2.0 * s * (z * sum)
}

/// `ln(x)` without a branch. The error is at most two units in the last place.
#[inline(always)]
pub fn ln_in_line(x: f64) -> f64 {
    // Subnormal numbers are scaled.
    let small = x < f64::MIN_POSITIVE;
    let (v, less) = if small { (x * 18_014_398_509_481_984.0, 54.0) } else { (x, 0.0) };
    // The exponent for which the rest is between the roots of 1/2 and 2.
    const ROOT: u64 = core::f64::consts::FRAC_1_SQRT_2.to_bits();
    let above = v.to_bits().wrapping_sub(ROOT);
    let m = f64::from_bits((above & 0x000f_ffff_ffff_ffff).wrapping_add(ROOT));
    // An integer of a few bits becomes a double by way of the low bits of a large one.
    let whole = (above >> 52) as u32 & 0x7ff;
    let whole = if whole > 1024 { f64::from(whole) - 2048.0 } else { f64::from(whole) };
    let k = whole - less;
    let y = k * LN_2_HIGH + (k * LN_2_LOW + ratio((m - 1.0) / (m + 1.0)));
    let y = if x == 0.0 { f64::NEG_INFINITY } else { y };
    let y = if x == f64::INFINITY { x } else { y };
    if (x < 0.0) | x.is_nan() { f64::NAN } else { y }
}

/// `ln(1 + u)` for `0 <= u <= 1`, without a branch.
#[inline(always)]
fn ln_1p_of_part(u: f64) -> f64 {
    // Above the root of 2, half of the number.
    let high = u > core::f64::consts::SQRT_2 - 1.0;
    let (s, k) = if high { ((u - 1.0) / (u + 3.0), 1.0) } else { (u / (u + 2.0), 0.0) };
    k * LN_2_HIGH + (k * LN_2_LOW + ratio(s))
}

/// The cosine of `x` turns, for `0 <= x <= 1`, without a branch. The nearest quarter of a turn is
/// subtracted without rounding.
#[inline(always)]
pub fn cos_of_turns(x: f64) -> f64 {
    let quarters = (4.0 * x + ROUND) - ROUND;
    let r = core::f64::consts::TAU * (x - quarters * 0.25);
    let z = r * r;
    let of = |divisors: [f64; 8]| divisors.into_iter().fold(1.0, |sum, by| 1.0 - sum * (z * (1.0 / by)));
    // Products of two neighbouring numbers: the series from its last term on.
    let cos = of([240.0, 182.0, 132.0, 90.0, 56.0, 30.0, 12.0, 2.0]);
    let sin = r * of([272.0, 210.0, 156.0, 110.0, 72.0, 42.0, 20.0, 6.0]);
    let odd = (quarters == 1.0) | (quarters == 3.0);
    let value = if odd { sin } else { cos };
    if (quarters == 1.0) | (quarters == 2.0) { -value } else { value }
}

/// `1 / (1 + exp(-x))`.
#[inline(always)]
pub fn sigmoid(x: f64) -> f64 {
    let e = exp_in_line(-x.abs());
    (if x >= 0.0 { 1.0 } else { e }) / (1.0 + e)
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
#[inline(always)]
pub fn softplus(x: f64) -> f64 {
    max(x, 0.0) + ln_1p_of_part(exp_in_line(-x.abs()))
}

/// `max` as in numpy: NaN if either is NaN.
#[inline(always)]
pub fn max(a: f64, b: f64) -> f64 {
    if a.is_nan() | (a > b) { a } else { b }
}

/// `min` as in numpy: NaN if either is NaN.
#[inline(always)]
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

    /// Compares with the library, in units of the last place, for numbers of every magnitude.
    #[test]
    fn functions_in_lines_are_near_the_library() {
        let near = |got: f64, want: f64, units: f64, what: &str| {
            let most = units * f64::EPSILON * want.abs() + f64::from_bits(1);
            assert!((got - want).abs() <= most || got == want, "{what} = {got}, not {want}");
        };
        for i in -3000..=3000 {
            for x in [f64::from(i) / 97.0, f64::from(i) * 1e-9, f64::from(i) * 1e-308, f64::from(i) * 0.3] {
                near(tanh_in_line(x), x.tanh(), 2.5, &format!("tanh({x})"));
                near(softplus(x), x.max(0.0) + (-x.abs()).exp().ln_1p(), 3.0, &format!("softplus({x})"));
                let e = (-x.abs()).exp();
                near(sigmoid(x), if x < 0.0 { e } else { 1.0 } / (1.0 + e), 4.0, &format!("sigmoid({x})"));
            }
        }
        for i in 1..=20_000 {
            let x = f64::from(i);
            for x in [x / 10_000.0, x, x * 1e-312, x * 1e300, 1.0 + x * 1e-13, 1.0 - x * 1e-13] {
                near(ln_in_line(x), x.ln(), 2.0, &format!("ln({x})"));
            }
        }
        for i in 0..=4096 {
            let x = f64::from(i) / 4096.0;
            let (got, want) = (cos_of_turns(x), (core::f64::consts::TAU * x).cos());
            assert!((got - want).abs() <= 1e-15, "{x} turns: {got}, not {want}");
        }
        let bits = |v: f64| v.to_bits();
        assert_eq!([tanh_in_line(-0.0), tanh_in_line(0.0)].map(bits), [-0.0, 0.0].map(bits));
        assert_eq!([tanh_in_line(f64::INFINITY), tanh_in_line(f64::NEG_INFINITY)], [1.0, -1.0]);
        assert_eq!([ln_in_line(0.0), ln_in_line(-0.0), ln_in_line(1.0)], [f64::NEG_INFINITY, f64::NEG_INFINITY, 0.0]);
        assert_eq!([ln_in_line(f64::INFINITY), ln_in_line(f64::MAX)], [f64::INFINITY, f64::MAX.ln()]);
        assert!(ln_in_line(-1.0).is_nan() && ln_in_line(f64::NEG_INFINITY).is_nan());
        for f in [tanh_in_line, ln_in_line, softplus, sigmoid] {
            assert!(f(f64::NAN).is_nan());
        }
        assert_eq!([softplus(f64::NEG_INFINITY), softplus(f64::INFINITY)], [0.0, f64::INFINITY]);
        assert_eq!([sigmoid(f64::NEG_INFINITY), sigmoid(f64::INFINITY)], [0.0, 1.0]);
    }

    #[test]
    fn extremes_of_max_min_and_logistics() {
        assert!(max(f64::NAN, 1.0).is_nan() && max(1.0, f64::NAN).is_nan() && min(1.0, f64::NAN).is_nan());
        assert_eq!((sigmoid(-800.0), sigmoid(800.0), softplus(-800.0), softplus(800.0)), (0.0, 1.0, 0.0, 800.0));
    }
}
