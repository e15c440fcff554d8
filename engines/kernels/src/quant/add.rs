//! The sum of two tensors of bytes, each with its scale and zero point.
use super::{far, is_byte, whole};
use crate::simd::act::{at_least, at_most};
use crate::simd::bytes::{Bytes, Ends, ONE, Source, byte, bytes, each, sixteen};
use crate::view::Elem;

/// Parameters of an addition of two quantised tensors: they are dequantised, added and quantised
/// again. Each pair is a scale and a zero point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AddBytes {
    /// Scale and zero point of the first tensor.
    pub a: [f32; 2],
    /// Scale and zero point of the second tensor.
    pub b: [f32; 2],
    /// Scale and zero point of the sum.
    pub y: [f32; 2],
    /// The smallest and the greatest byte of the sum.
    pub range: [f32; 2],
}

/// `y = saturate(round_half_even(((a - a_zero) * a_scale + (b - b_zero) * b_scale) / y_scale) + y_zero)`,
/// each step rounded to single precision; NaN becomes zero. Operands are signed or unsigned bytes;
/// so is the sum, which is returned as raw bytes.
pub fn add_bytes<A: Elem, B: Elem>(a: &[A], b: &[B], by: AddBytes, y: &mut [u8]) {
    let n = y.len().min(a.len()).min(b.len());
    let from = Two { a, b, by };
    bytes(from, from.ends(), &mut y[..n]);
}

#[derive(Clone, Copy)]
struct Two<'a, A, B> {
    a: &'a [A],
    b: &'a [B],
    by: AddBytes,
}

impl<A: Elem, B: Elem> Two<'_, A, B> {
    /// `None` if a step may come near the limits of single precision, or an operand is not a tensor
    /// of bytes, or a zero point is not a byte.
    fn ends(&self) -> Option<Ends> {
        let AddBytes { a, b, y, range: [low, high] } = self.by;
        let common = [a, b, y].iter().all(|[scale, _]| far(*scale)) && whole(a[1]).and(whole(b[1])).is_some();
        let common = common && is_byte::<A>() && is_byte::<B>();
        Ends::new(whole(y[1])?, [whole(low)?, whole(high)?]).filter(|_| common)
    }
}

impl<A: Elem, B: Elem> Source for Two<'_, A, B> {
    const NAN: bool = false;

    /// Multiplies the sum by the reciprocal of the scale instead of dividing.
    #[inline(always)]
    fn sixteen<I: Bytes>(&self, isa: I, at: usize) -> I::V {
        let AddBytes { a, b, y, .. } = self.by;
        let first = isa.mul(isa.of_bytes(sixteen(self.a, at), a[1] as i32), isa.splat(a[0]));
        let second = isa.mul(isa.of_bytes(sixteen(self.b, at), b[1] as i32), isa.splat(b[0]));
        isa.mul(isa.add(first, second), isa.splat(ONE / y[0]))
    }

    #[inline(always)]
    fn exact(&self, at: usize) -> u8 {
        self.byte(self.a[at], self.b[at])
    }
    #[inline(always)]
    fn exact_sixteen(&self, at: usize) -> [u8; 16] {
        let (a, b) = (sixteen(self.a, at), sixteen(self.b, at));
        each(|i| self.byte(a[i], b[i]))
    }
}

impl<A: Elem, B: Elem> Two<'_, A, B> {
    #[inline(always)]
    fn byte(&self, x: A, z: B) -> u8 {
        let AddBytes { a, b, y, range } = self.by;
        let sum = (x.to_f32() - a[1]) * a[0] + (z.to_f32() - b[1]) * b[0];
        let v = at_most(at_least((sum / y[0]).round_ties_even() + y[1], range[0]), range[1]);
        byte(if v.is_nan() { 0.0 } else { v })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, with_level};

    #[test]
    fn bytes_are_added_by_the_definition_on_every_level() {
        let a: Vec<u8> = (0..1003u32).map(|i| (i * 37 % 256) as u8).collect();
        let b: Vec<i8> = (0..1003u32).map(|i| (i * 91 % 256) as u8 as i8).collect();
        for scale in [0.25f32, 0.1, 1e-9, 0.0] {
            let by = AddBytes { a: [0.05, 128.0], b: [0.07, -3.0], y: [scale, 9.0], range: [-128.0, 127.0] };
            let want: Vec<u8> = a
                .iter()
                .zip(&b)
                .map(|(a, b)| (f32::from(*a) - 128.0) * 0.05 + (f32::from(*b) + 3.0) * 0.07)
                .map(|v| ((v / scale).round_ties_even() + 9.0).clamp(-128.0, 127.0) as i32 as u8)
                .collect();
            for level in Level::available() {
                let mut y = vec![1u8; a.len()];
                with_level(level, || add_bytes(&a, &b, by, &mut y));
                assert_eq!(y, want, "{level:?} {scale}");
            }
        }
    }

    /// Scales whose sums are on, or next to, the middle between two bytes.
    #[test]
    fn sums_near_the_middle_of_two_bytes_are_divided() {
        let (a, b): (Vec<u8>, Vec<u8>) = (0..=u16::MAX).map(|i| ((i >> 8) as u8, i as u8)).unzip();
        let scales = [
            [0.5f32, 0.5, 1.0],
            [0.1, 0.3, 0.2],
            [0.3, 0.7, 1.4],
            [1.0 / 3.0, 1.0 / 3.0, 2.0 / 3.0],
            [0.05, 0.07, 0.02],
            [1e-17, 3e-17, 2e-17],
            [-0.5, 0.25, 0.5],
            [0.25, 0.25, -0.5],
            [0.02, 1e17, 0.02],
        ];
        for ([a_scale, b_scale, y_scale], zero) in scales.iter().flat_map(|s| [0.0, 128.0, 255.0].map(|z| (*s, z))) {
            let by = AddBytes { a: [a_scale, zero], b: [b_scale, 3.0], y: [y_scale, zero], range: [0.0, 255.0] };
            let of = |a: u8, b: u8| {
                let sum = (f32::from(a) - zero) * a_scale + (f32::from(b) - 3.0) * b_scale;
                ((sum / y_scale).round_ties_even() + zero).clamp(0.0, 255.0) as u8
            };
            let want: Vec<u8> = a.iter().zip(&b).map(|(a, b)| of(*a, *b)).collect();
            for level in Level::available() {
                let mut y = vec![1u8; a.len()];
                with_level(level, || add_bytes(&a, &b, by, &mut y));
                assert!(y == want, "{level:?} {by:?}");
            }
        }
    }
}
