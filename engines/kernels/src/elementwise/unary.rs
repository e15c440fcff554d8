//! Functions of one tensor: `y[i] = f(x[i])` in single precision. Half types are widened, and the
//! result is rounded once.
use crate::simd::act::{self, Map};
use crate::simd::angle::{self, FarMap, REACH};
use crate::simd::hyperbolic;
use crate::simd::isa::PanelElem;
use crate::simd::lines::{round_to, widen};
use crate::simd::math;
use crate::simd::tanh::tanh_to;
use crate::view::Out;
use std::ops::Range;

/// A function of one number.
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
    /// Largest integer not above `x`.
    Floor,
    /// Smallest integer not below `x`.
    Ceil,
    /// Nearest integer, ties to even.
    Round,
    /// Sign of `x`: -1, 0 or 1.
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
    /// Tangent.
    Tan,
    /// Inverse sine.
    Asin,
    /// Inverse cosine.
    Acos,
    /// Inverse tangent.
    Atan,
    /// Hyperbolic sine.
    Sinh,
    /// Hyperbolic cosine.
    Cosh,
    /// Inverse hyperbolic sine.
    Asinh,
    /// Inverse hyperbolic cosine.
    Acosh,
    /// Inverse hyperbolic tangent.
    Atanh,
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
    Sin = |x| angle::sin(x);
    Cos = |x| angle::cos(x);
    Tan = |x| angle::tan(x);
    Asin = |x| angle::asin(x);
    Acos = |x| angle::acos(x);
    Atan = |x| angle::atan(x);
    Sinh = |x| hyperbolic::sinh(x);
    Cosh = |x| hyperbolic::cosh(x);
    Asinh = |x| hyperbolic::asinh(x);
    Acosh = |x| hyperbolic::acosh(x);
    Atanh = |x| hyperbolic::atanh(x);
}

crate::multiversion! {
    fn map_any<M: Map>(map: M, src: &[f32], dst: &mut [f32]) {
        for (d, s) in dst.iter_mut().zip(src) {
            *d = map.at(*s);
        }
    }
}

crate::multiversion! {
    /// Checks a block of numbers at once for arguments beyond the reach of the map.
    fn map_far<M: Map>(map: FarMap<M>, src: &[f32], dst: &mut [f32]) {
        for (dst, src) in dst.chunks_mut(64).zip(src.chunks(64)) {
            let far = src.iter().fold(false, |far, s| far | (s.abs() > REACH));
            for (d, s) in dst.iter_mut().zip(src) {
                *d = if far { map.at(*s) } else { map.near.at(*s) };
            }
        }
    }
}

/// Halves that are widened at a time.
const BLOCK: usize = 512;

/// Numbers of a block, at the beginning of a cache line: no vector of them crosses one.
#[repr(align(64))]
struct Block([f32; BLOCK]);

/// `out[i] = op(x[i])` for the elements of `range`. The output may be the input's memory if no
/// other block reads it.
pub fn unary<T: PanelElem>(op: Unary, range: Range<usize>, x: &[T], out: &mut Out<'_, T>) {
    let src = &x[range.clone()];
    let dst = out.part(range.start, range.len());
    if let (Some(src), Some(dst)) = (T::singles(src), T::singles_mut(dst)) {
        return singles(op, src, dst);
    }
    if op == Unary::Act(act::Act::None) {
        return dst.copy_from_slice(src);
    }
    let (mut from, mut to) = (Block([0.0; BLOCK]), Block([0.0; BLOCK]));
    for (src, dst) in src.chunks(BLOCK).zip(dst.chunks_mut(BLOCK)) {
        let (from, to) = (&mut from.0[..src.len()], &mut to.0[..src.len()]);
        widen(src, from);
        singles(op, from, to);
        round_to(to, dst);
    }
}

/// `dst[i] = op(src[i])`.
fn singles(op: Unary, src: &[f32], dst: &mut [f32]) {
    use crate::simd::Act;
    match op {
        Unary::Act(Act::None) => dst.copy_from_slice(src),
        Unary::Act(Act::Relu) => map_any(act::Relu, src, dst),
        Unary::Act(Act::Clip(a, b)) => map_any(act::Clip(a, b), src, dst),
        Unary::Act(Act::LeakyRelu(a)) => map_any(act::LeakyRelu(a), src, dst),
        Unary::Act(Act::Sigmoid) => map_any(act::Sigmoid, src, dst),
        Unary::Act(Act::Tanh) => tanh_to(src, dst),
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
        Unary::Sin => map_far(FarMap { near: Sin, far: f64::sin }, src, dst),
        Unary::Cos => map_far(FarMap { near: Cos, far: f64::cos }, src, dst),
        Unary::Tan => map_far(FarMap { near: Tan, far: f64::tan }, src, dst),
        Unary::Asin => map_any(Asin, src, dst),
        Unary::Acos => map_any(Acos, src, dst),
        Unary::Atan => map_any(Atan, src, dst),
        Unary::Sinh => map_any(Sinh, src, dst),
        Unary::Cosh => map_any(Cosh, src, dst),
        Unary::Asinh => map_any(Asinh, src, dst),
        Unary::Acosh => map_any(Acosh, src, dst),
        Unary::Atanh => map_any(Atanh, src, dst),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, with_level};
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
    }

    /// Small and large angles next to each other, in blocks that use either method.
    #[test]
    fn every_level_gives_the_same_bits_at_any_size() {
        let size = |i: u32| f32::from_bits(i.wrapping_mul(0x9e37_79b9));
        let x: Vec<f32> = (0..20_000).map(size).chain((0..300).map(|i| i as f32 * 1e3 - 1.5e5)).collect();
        for op in [
            Unary::Sin,
            Unary::Cos,
            Unary::Tan,
            Unary::Asin,
            Unary::Acos,
            Unary::Atan,
            Unary::Sinh,
            Unary::Cosh,
            Unary::Asinh,
            Unary::Acosh,
            Unary::Atanh,
        ] {
            let run = || {
                let mut y = vec![0.0; x.len()];
                unary(op, 0..x.len(), &x, &mut Out::new(&mut y));
                y.iter().map(|v| if v.is_nan() { None } else { Some(v.to_bits()) }).collect::<Vec<_>>()
            };
            let want = with_level(Level::Scalar, run);
            for level in Level::available() {
                assert!(with_level(level, run) == want, "{op:?} {level:?}");
            }
            if let Unary::Sin | Unary::Cos = op {
                let f = if op == Unary::Sin { f64::sin } else { f64::cos };
                for (x, y) in x.iter().zip(want) {
                    let y = y.map_or(f64::NAN, |y| f64::from(f32::from_bits(y)));
                    let w = f(f64::from(*x));
                    assert!(
                        (y - w).abs() <= 3e-7 * w.abs() || w.abs() < 1e-37 || y.is_nan() && w.is_nan(),
                        "{op:?} {x}: {y} for {w}"
                    );
                }
            }
        }
    }

    /// More halves than are widened at a time.
    #[test]
    fn halves_are_what_their_numbers_give_rounded() {
        let x: Vec<f16> = (0..1300u16).map(|i| f16::from_bits(i.wrapping_mul(197))).collect();
        let wide: Vec<f32> = x.iter().map(|v| v.to_f32()).collect();
        for op in [Unary::Exp, Unary::Sin, Unary::Neg, Unary::Act(crate::simd::Act::Tanh)] {
            let (mut y, mut want) = (vec![f16::ZERO; x.len()], vec![0.0; x.len()]);
            unary(op, 0..7, &x, &mut Out::new(&mut y));
            unary(op, 7..x.len(), &x, &mut Out::new(&mut y));
            unary(op, 0..x.len(), &wide, &mut Out::new(&mut want));
            for (y, w) in y.iter().zip(want) {
                assert!(*y == f16::narrow(w) || y.is_nan() && w.is_nan(), "{op:?}: {y} for {w}");
            }
        }
        let mut same = [f16::ZERO];
        unary(Unary::Act(crate::simd::Act::None), 0..1, &[f16::from_bits(0x7c01)], &mut Out::new(&mut same));
        assert_eq!(same[0].to_bits(), 0x7c01);
    }

    #[test]
    fn halves_are_rounded_once() {
        let h = [f16::from_f32(2.0)];
        let mut y = [f16::ZERO];
        unary(Unary::Rsqrt, 0..1, &h, &mut Out::new(&mut y));
        assert_eq!(y[0], f16::from_f32(std::f32::consts::FRAC_1_SQRT_2));
    }
}
