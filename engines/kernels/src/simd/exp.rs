//! The exponential of sixteen numbers that are not above zero. Softmax and similar kernels apply it
//! to the distance from a maximum.
use crate::simd::isa::Isa;
use crate::simd::math::{EXP, LN2_HI, LN2_LO, ROUND};

/// `e^x` for `x <= 0`, by the polynomial of [`math::exp`](crate::simd::math::exp). The result is
/// zero below -87.69, where it would be denormal; NaN stays NaN.
#[inline(always)]
pub(crate) fn exp_below<I: Isa>(isa: I, x: I::V) -> I::V {
    let x = isa.at_least(x, isa.splat(-88.0));
    let t = isa.fma(x, isa.splat(std::f32::consts::LOG2_E), isa.splat(ROUND));
    let n = isa.add(t, isa.splat(-ROUND));
    let r = isa.fma(n, isa.splat(-LN2_LO), isa.fma(n, isa.splat(-LN2_HI), x));
    let mut p = isa.splat(EXP[EXP.len() - 1]);
    for &c in EXP[..EXP.len() - 1].iter().rev() {
        p = isa.fma(p, r, isa.splat(c));
    }
    let e = isa.fma(isa.mul(r, r), p, r);
    isa.mul(isa.add(e, isa.splat(1.0)), isa.power(t))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::isa::{Work, dispatch};
    use crate::simd::{Level, math, with_level};

    struct Exp([f32; 16]);
    impl Work for Exp {
        type Out = [f32; 16];
        #[inline(always)]
        fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) -> [f32; 16] {
            let mut y = [0.0; 16];
            isa.store(exp_below(isa, isa.load(&self.0)), &mut y);
            y
        }
    }

    #[test]
    fn the_bits_are_those_of_single_numbers_on_every_level() {
        for start in 0..600 {
            let x: [f32; 16] = std::array::from_fn(|i| -(start as f32 * 0.145) - i as f32 * 0.009);
            for level in Level::available() {
                assert_eq!(with_level(level, || dispatch(Exp(x))), x.map(math::exp), "{level:?} {x:?}");
            }
        }
        let mut x = [f32::NEG_INFINITY; 16];
        x[..4].copy_from_slice(&[0.0, -0.0, f32::NAN, -1e30]);
        for level in Level::available() {
            let y = with_level(level, || dispatch(Exp(x)));
            assert!(y[..2] == [1.0, 1.0] && y[2].is_nan() && y[3..].iter().all(|&v| v == 0.0), "{level:?} {y:?}");
        }
    }
}
