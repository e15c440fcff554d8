//! Remainders of numbers of at most single precision, many at a time. Two numbers of 24 bits have a
//! quotient that differs from every integer by at least 2^-24 of one, or is one: in double precision
//! a quotient below 2^28 is on the right side of every integer. Its integer part times the divisor
//! has at most 52 bits, so that the remainder is exact, like that of `%`.
use ge_kernels::view::{Elem, lines};

/// Quotients below this have an exact remainder.
const NEAR: f64 = (1 << 28) as f64;
/// Number of elements for which the method is chosen at a time.
const BLOCK: usize = 512;

/// Remainder with the sign of the divisor, as in numpy.
pub(super) fn floor_mod(a: f64, b: f64) -> f64 {
    let r = a % b;
    if r == 0.0 {
        0f64.copysign(b)
    } else if (r < 0.0) != (b < 0.0) {
        r + b
    } else {
        r
    }
}

/// `o[i] = a[i] % b[i]`, with the sign of `a[i]`, or of `b[i]` if `floor`.
pub fn remainders<T: Elem>(o: &mut [T], a: &[T], b: &[T], floor: bool) {
    let mut rest = [0.0; BLOCK];
    for ((o, a), b) in o.chunks_mut(BLOCK).zip(a.chunks(BLOCK)).zip(b.chunks(BLOCK)) {
        let rest = &mut rest[..o.len()];
        lines::zip(rest, a, b, |a, b| quotient(a.to_f64(), b.to_f64()));
        if lines::fold(rest, 0, |far, q: f64| far | u32::from((q.abs() >= NEAR) | q.is_nan())) != 0 {
            let one = if floor { floor_mod } else { |a: f64, b: f64| a % b };
            o.iter_mut().zip(a).zip(b).for_each(|((o, a), b)| *o = T::from_f64(one(a.to_f64(), b.to_f64())));
            continue;
        }
        lines::update_by(rest, a, b, |q, a, b| (a.to_f64() - q * b.to_f64()).copysign(a.to_f64()));
        if floor {
            lines::update(rest, b, |r, b| {
                let b = b.to_f64();
                let moved = if (r < 0.0) != (b < 0.0) { r + b } else { r };
                if r == 0.0 { 0f64.copysign(b) } else { moved }
            });
        }
        lines::map(o, rest, T::from_f64);
    }
}

/// The integer part of a quotient; NaN if the divisor is infinite.
fn quotient(a: f64, b: f64) -> f64 {
    let q = (a / b).trunc();
    if b.is_infinite() { f64::NAN } else { q }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remainders_have_the_bits_of_those_of_single_numbers() {
        let special =
            [0.0, -0.0, 1.0, -1.0, 0.1, 3.0, -7.5, 1e-40, -1e-45, 3e38, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
        let plain: Vec<f32> = (0..700).map(|i| (i * 7919 % 1013) as f32 * 0.37 - 150.0).collect();
        let near: Vec<f32> = plain.iter().map(|v| if *v == 0.0 { 1.0 } else { *v }).collect();
        let cases = [
            (plain.clone(), near.iter().rev().copied().collect()),
            (near.iter().map(|v| v * 1e6).collect(), near.clone()),
            (near.clone(), near.clone()),
            (plain, vec![f32::from_bits(0x3f80_0001); 700]),
            special.iter().flat_map(|a| special.map(|_| *a)).zip(special.iter().cycle().copied()).unzip(),
        ];
        for (a, b) in cases {
            for floor in [false, true] {
                let mut o = vec![0.0f32; a.len()];
                remainders(&mut o, &a, &b, floor);
                for ((o, a), b) in o.iter().zip(&a).zip(&b) {
                    let (a, b) = (f64::from(*a), f64::from(*b));
                    let want = (if floor { floor_mod(a, b) } else { a % b }) as f32;
                    assert!(o.to_bits() == want.to_bits() || o.is_nan() && want.is_nan(), "{a} by {b}: {o} for {want}");
                }
            }
        }
    }
}
