//! Maps of one tensor: `y[i] = f(x[i])`, in single precision; half types are widened and rounded
//! once.
use crate::simd::act::{self, Map};
use crate::simd::isa::PanelElem;
use crate::simd::math;
use crate::view::Out;
use std::ops::Range;

/// A map of one number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unary {
    /// An activation.
    Act(crate::simd::Act),
    /// `|x|`.
    Abs,
    /// `-x`.
    Neg,
    /// `e^x`.
    Exp,
    /// `e^x - 1`.
    Expm1,
    /// Natural logarithm.
    Ln,
    /// `ln(1 + x)`.
    Ln1p,
    /// Square root.
    Sqrt,
    /// `1 / sqrt(x)`.
    Rsqrt,
    /// `1 / x`.
    Reciprocal,
    /// `x * x`.
    Square,
    /// Largest whole number not above.
    Floor,
    /// Smallest whole number not below.
    Ceil,
    /// Nearest whole number, ties to even.
    Round,
    /// -1, 0 or 1.
    Sign,
    /// Error function.
    Erf,
    /// `ln(1 + e^x)`.
    Softplus,
    /// `x / (1 + |x|)`.
    Softsign,
    /// `x * tanh(softplus(x))`.
    Mish,
    /// `gamma * (x > 0 ? x : alpha * (e^x - 1))`.
    Selu(f32, f32),
    /// `scale * x + shift`.
    Affine(f32, f32),
    /// Sine.
    Sin,
    /// Cosine.
    Cos,
}

macro_rules! plain_maps {
    ($($name:ident $(($($f:ident),+))? = |$x:ident| $e:expr;)*) => {$(
        #[derive(Clone, Copy)]
        struct $name $(($(plain_maps!(@ty $f)),+))?;
        impl Map for $name {
            #[inline(always)]
            fn at(self, $x: f32) -> f32 {
                $(let $name($($f),+) = self;)?
                $e
            }
        }
    )*};
    (@ty $f:ident) => { f32 };
}

plain_maps! {
    Abs = |x| x.abs();
    Neg = |x| -x;
    Exp = |x| math::exp(x);
    Expm1 = |x| math::expm1(x);
    Ln = |x| math::ln(x);
    Ln1p = |x| math::ln_1p(x);
    Sqrt = |x| x.sqrt();
    Rsqrt = |x| 1.0 / x.sqrt();
    Reciprocal = |x| 1.0 / x;
    Square = |x| x * x;
    Floor = |x| x.floor();
    Ceil = |x| x.ceil();
    Round = |x| x.round_ties_even();
    Sign = |x| if x > 0.0 { 1.0 } else if x < 0.0 { -1.0 } else { x * 0.0 };
    Erf = |x| math::erf(x);
    Softplus = |x| math::softplus(x);
    Softsign = |x| x / (1.0 + x.abs());
    Mish = |x| x * math::tanh(math::softplus(x));
    Selu(alpha, gamma) = |x| gamma * if x > 0.0 { x } else { alpha * math::expm1(x) };
    Affine(scale, shift) = |x| x.mul_add(scale, shift);
}

crate::multiversion! {
    fn map_any<T: PanelElem, M: Map>(map: M, src: &[T], dst: &mut [T]) {
        for (d, s) in dst.iter_mut().zip(src) {
            *d = T::narrow(map.at(s.wide()));
        }
    }
}

/// `out[i] = op(x[i])` for the elements of `range`. The output may be the input's memory when no
/// other block reads it.
pub fn unary<T: PanelElem>(op: Unary, range: Range<usize>, x: &[T], out: &mut Out<'_, T>) {
    use crate::simd::Act;
    let src = &x[range.clone()];
    let dst = out.part(range.start, range.len());
    match op {
        Unary::Act(Act::None) => dst.copy_from_slice(src),
        Unary::Act(Act::Relu) => map_any(act::Relu, src, dst),
        Unary::Act(Act::Clip(a, b)) => map_any(act::Clip(a, b), src, dst),
        Unary::Act(Act::LeakyRelu(a)) => map_any(act::LeakyRelu(a), src, dst),
        Unary::Act(Act::Sigmoid) => map_any(act::Sigmoid, src, dst),
        Unary::Act(Act::Tanh) => map_any(act::Tanh, src, dst),
        Unary::Act(Act::Gelu) => map_any(act::Gelu, src, dst),
        Unary::Act(Act::GeluTanh) => map_any(act::GeluTanh, src, dst),
        Unary::Act(Act::Silu) => map_any(act::Silu, src, dst),
        Unary::Act(Act::HardSigmoid(a, b)) => map_any(act::HardSigmoid(a, b), src, dst),
        Unary::Act(Act::HardSwish) => map_any(act::HardSwish, src, dst),
        Unary::Act(Act::Elu(a)) => map_any(act::Elu(a), src, dst),
        Unary::Abs => map_any(Abs, src, dst),
        Unary::Neg => map_any(Neg, src, dst),
        Unary::Exp => map_any(Exp, src, dst),
        Unary::Expm1 => map_any(Expm1, src, dst),
        Unary::Ln => map_any(Ln, src, dst),
        Unary::Ln1p => map_any(Ln1p, src, dst),
        Unary::Sqrt => map_any(Sqrt, src, dst),
        Unary::Rsqrt => map_any(Rsqrt, src, dst),
        Unary::Reciprocal => map_any(Reciprocal, src, dst),
        Unary::Square => map_any(Square, src, dst),
        Unary::Floor => map_any(Floor, src, dst),
        Unary::Ceil => map_any(Ceil, src, dst),
        Unary::Round => map_any(Round, src, dst),
        Unary::Sign => map_any(Sign, src, dst),
        Unary::Erf => map_any(Erf, src, dst),
        Unary::Softplus => map_any(Softplus, src, dst),
        Unary::Softsign => map_any(Softsign, src, dst),
        Unary::Mish => map_any(Mish, src, dst),
        Unary::Selu(a, g) => map_any(Selu(a, g), src, dst),
        Unary::Affine(a, b) => map_any(Affine(a, b), src, dst),
        Unary::Sin => each(src, dst, f64::sin),
        Unary::Cos => each(src, dst, f64::cos),
    }
}

/// One by one in double precision: the reduction of large angles is not vectorised.
fn each<T: PanelElem>(src: &[T], dst: &mut [T], f: fn(f64) -> f64) {
    for (d, s) in dst.iter_mut().zip(src) {
        *d = T::narrow(f(f64::from(s.wide())) as f32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

    #[test]
    fn maps_agree_with_double_precision() {
        type Case = (Unary, fn(f64) -> f64);
        let cases: [Case; 14] = [
            (Unary::Abs, f64::abs),
            (Unary::Neg, |x| -x),
            (Unary::Exp, f64::exp),
            (Unary::Square, |x| x * x),
            (Unary::Floor, f64::floor),
            (Unary::Ceil, f64::ceil),
            (Unary::Round, f64::round_ties_even),
            (Unary::Sin, f64::sin),
            (Unary::Cos, f64::cos),
            (Unary::Reciprocal, f64::recip),
            (Unary::Softsign, |x| x / (1.0 + x.abs())),
            (Unary::Mish, |x| x * x.exp().ln_1p().tanh()),
            (Unary::Selu(1.6, 1.05), |x| f64::from(1.05f32) * if x > 0.0 { x } else { f64::from(1.6f32) * x.exp_m1() }),
            (Unary::Sign, |x| if x == 0.0 { 0.0 } else { x.signum() }),
        ];
        let x: Vec<f32> = (-40..=40).map(|i| i as f32 * 0.125 + 0.0625).collect();
        for (op, f) in cases {
            let mut y = vec![0.0; x.len()];
            for r in [30..x.len(), 0..30] {
                unary(op, r, &x, &mut Out::new(&mut y));
            }
            for (x, y) in x.iter().zip(&y) {
                let want = f(f64::from(*x));
                assert!((f64::from(*y) - want).abs() <= 5e-7 * want.abs().max(1e-3), "{op:?} {x}: {y} for {want}");
            }
        }
        let h = [f16::from_f32(2.0)];
        let mut y = [f16::ZERO];
        unary(Unary::Rsqrt, 0..1, &h, &mut Out::new(&mut y));
        assert_eq!(y[0], f16::from_f32(std::f32::consts::FRAC_1_SQRT_2));
    }
}
