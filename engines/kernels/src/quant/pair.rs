//! The sum or the product of two tensors of bytes, each with its scale and zero point.
use super::{far, is_byte, whole};
use crate::simd::act::{at_least, at_most};
use crate::simd::bytes::{Bytes, Ends, Source, byte, bytes, each, sixteen};
use crate::view::Elem;

/// What is done with the two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// They are added.
    Sum,
    /// They are multiplied.
    Product,
}

/// Parameters of the sum or product of two quantised tensors: they are dequantised, added or
/// multiplied, and quantised again. Each pair is a scale and a zero point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BytePair {
    /// Whether it is a sum or a product.
    pub join: Join,
    /// Scale and zero point of the first tensor.
    pub a: [f32; 2],
    /// Scale and zero point of the second tensor.
    pub b: [f32; 2],
    /// Scale and zero point of the result.
    pub y: [f32; 2],
    /// The smallest and the greatest byte of the result.
    pub range: [f32; 2],
}

/// `y = saturate(round_half_even(r / y_scale) + y_zero)`, where `r` is
/// `(a - a_zero) * a_scale + (b - b_zero) * b_scale` or the product of these two, each step rounded
/// to single precision; NaN becomes zero. Operands are signed or unsigned bytes; so is the result,
/// which is returned as raw bytes.
pub fn join_bytes<A: Elem, B: Elem>(a: &[A], b: &[B], by: BytePair, y: &mut [u8]) {
    let n = y.len().min(a.len()).min(b.len());
    let y = &mut y[..n];
    match by.join {
        Join::Sum => bytes(Two::<A, B, false> { a, b, by }, by.ends::<A, B>(), y),
        Join::Product => bytes(Two::<A, B, true> { a, b, by }, by.ends::<A, B>(), y),
    }
}

impl BytePair {
    /// `None` if a step may come near the limits of single precision, or an operand is not a tensor
    /// of bytes, or a zero point is not a byte.
    fn ends<A: Elem, B: Elem>(&self) -> Option<Ends> {
        let BytePair { a, b, y, range: [low, high], .. } = *self;
        let common = [a, b, y].iter().all(|[scale, _]| far(*scale)) && whole(a[1]).and(whole(b[1])).is_some();
        let common = common && is_byte::<A>() && is_byte::<B>();
        // Greatest number before and after the division. Bytes differ by at most 510 from their
        // zero point.
        let [a, b, y] = [a, b, y].map(|[scale, _]| 510.0 * f64::from(scale.abs()));
        let most = match self.join {
            Join::Sum => a + b,
            Join::Product => a * b,
        };
        let common = common && most.max(most / y * 510.0) < 1e30;
        Ends::new(whole(self.y[1])?, [whole(low)?, whole(high)?]).filter(|_| common)
    }
}

#[derive(Clone, Copy)]
struct Two<'a, A, B, const PRODUCT: bool> {
    a: &'a [A],
    b: &'a [B],
    by: BytePair,
}

impl<A: Elem, B: Elem, const PRODUCT: bool> Source for Two<'_, A, B, PRODUCT> {
    const NAN: bool = false;
    /// Where scales are simple multiples of each other, many numbers are the middle between two
    /// bytes itself, so none of them may be approximate.
    const EXACT: bool = true;

    /// The quotient is exactly that of a division. The first correction brings the product with the
    /// reciprocal to one of the two numbers next to the quotient. For such a number the remainder
    /// is exact, and because the reciprocal is rounded correctly, the second correction gives the
    /// correctly rounded quotient (Markstein, "IA-64 and Elementary Functions", 2000). Numbers for
    /// which a remainder might underflow are far below one half and become zero in any case.
    #[inline(always)]
    fn sixteen<I: Bytes>(&self, isa: I, at: usize) -> I::V {
        let BytePair { a, b, y, .. } = self.by;
        let first = isa.mul(isa.of_bytes(sixteen(self.a, at), a[1] as i32), isa.splat(a[0]));
        let second = isa.mul(isa.of_bytes(sixteen(self.b, at), b[1] as i32), isa.splat(b[0]));
        let joined = if PRODUCT { isa.mul(first, second) } else { isa.add(first, second) };
        let (less, by) = (isa.splat(-y[0]), isa.splat(1.0 / y[0]));
        let near = isa.mul(joined, by);
        let near = isa.fma(isa.fma(near, less, joined), by, near);
        isa.fma(isa.fma(near, less, joined), by, near)
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

impl<A: Elem, B: Elem, const PRODUCT: bool> Two<'_, A, B, PRODUCT> {
    #[inline(always)]
    fn byte(&self, x: A, z: B) -> u8 {
        let BytePair { a, b, y, range, .. } = self.by;
        let (first, second) = ((x.to_f32() - a[1]) * a[0], (z.to_f32() - b[1]) * b[0]);
        let joined = if PRODUCT { first * second } else { first + second };
        let v = at_most(at_least((joined / y[0]).round_ties_even() + y[1], range[0]), range[1]);
        byte(if v.is_nan() { 0.0 } else { v })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, with_level};

    #[test]
    fn bytes_are_joined_by_the_definition_on_every_level() {
        let a: Vec<u8> = (0..1003u32).map(|i| (i * 37 % 256) as u8).collect();
        let b: Vec<i8> = (0..1003u32).map(|i| (i * 91 % 256) as u8 as i8).collect();
        for (scale, join) in [0.25f32, 0.1, 1e-9, 0.0].iter().flat_map(|s| [Join::Sum, Join::Product].map(|j| (*s, j)))
        {
            let by = BytePair { join, a: [0.05, 128.0], b: [0.07, -3.0], y: [scale, 9.0], range: [-128.0, 127.0] };
            let want: Vec<u8> = a
                .iter()
                .zip(&b)
                .map(|(a, b)| ((f32::from(*a) - 128.0) * 0.05, (f32::from(*b) + 3.0) * 0.07))
                .map(|(a, b)| if join == Join::Sum { a + b } else { a * b })
                .map(|v| ((v / scale).round_ties_even() + 9.0).clamp(-128.0, 127.0) as i32 as u8)
                .collect();
            for level in Level::available() {
                let mut y = vec![1u8; a.len()];
                with_level(level, || join_bytes(&a, &b, by, &mut y));
                assert_eq!(y, want, "{level:?} {by:?}");
            }
        }
    }

    /// Scales whose sums and products are on, or next to, the middle between two bytes.
    #[test]
    fn numbers_near_the_middle_of_two_bytes_are_divided() {
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
        let all = scales.iter().flat_map(|s| [0.0, 128.0, 255.0].map(|z| (*s, z)));
        for (([a_scale, b_scale, y_scale], zero), join) in all.flat_map(|s| [Join::Sum, Join::Product].map(|j| (s, j)))
        {
            let by = BytePair { join, a: [a_scale, zero], b: [b_scale, 3.0], y: [y_scale, zero], range: [0.0, 255.0] };
            let of = |a: u8, b: u8| {
                let (a, b) = ((f32::from(a) - zero) * a_scale, (f32::from(b) - 3.0) * b_scale);
                let joined = if join == Join::Sum { a + b } else { a * b };
                ((joined / y_scale).round_ties_even() + zero).clamp(0.0, 255.0) as u8
            };
            let want: Vec<u8> = a.iter().zip(&b).map(|(a, b)| of(*a, *b)).collect();
            for level in Level::available() {
                let mut y = vec![1u8; a.len()];
                with_level(level, || join_bytes(&a, &b, by, &mut y));
                assert!(y == want, "{level:?} {by:?}");
            }
        }
    }
}
