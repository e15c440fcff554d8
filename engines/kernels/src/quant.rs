//! Quantisation of real numbers to eight-bit integers and back, with one scale and zero point, or
//! with one per column.
/// Sum or product of two quantised tensors.
mod pair;
/// Functions of one byte as tables.
mod table;

use crate::requantise::byte_of;
use crate::simd::act::{at_least, at_most};
use crate::simd::bytes::{Bytes, Ends, ONE, Source, byte, bytes, each, sixteen};
use crate::simd::isa::{Isa, Work, dispatch};
use crate::view::{Elem, Kind, as_bytes_mut};

pub use pair::{BytePair, Join, join_bytes};
pub use table::{Table, look_up};

/// The smallest and the greatest value of an eight-bit type.
pub fn range<T: Elem>() -> [f32; 2] {
    if T::KIND == Kind::U8 { [0.0, 255.0] } else { [-128.0, 127.0] }
}

/// Whether the scale is so far from the limits of single precision that its reciprocal, and
/// products with that, are too.
fn far(scale: f32) -> bool {
    (1e-18..1e18).contains(&scale.abs())
}

/// The integer equal to `v`, if `v` is an integer of magnitude at most 255.
fn whole(v: f32) -> Option<i32> {
    (v.fract() == 0.0 && v.abs() <= 255.0).then_some(v as i32)
}

/// Whether elements are bytes, signed or unsigned.
fn is_byte<T: Elem>() -> bool {
    matches!(T::KIND, Kind::U8 | Kind::I8)
}

/// The bounds of bytes of a type; `None` if `zero` is not such a byte.
fn ends<T: Elem>(zero: f32) -> Option<Ends> {
    let [low, high] = range::<T>().map(|v| v as i32);
    Ends::new(whole(zero)?, [low, high])
}

/// `y = saturate(round_half_even(x / scale) + zero)`, up to the shorter length of the two. NaN
/// becomes the zero point. `T` is a signed or unsigned byte.
pub fn quantise<T: Elem>(x: &[f32], scale: f32, zero: f32, y: &mut [T]) {
    let n = y.len().min(x.len());
    let from = Real { x, scale, zero, range: range::<T>() };
    bytes(from, ends::<T>(zero).filter(|_| far(scale)), as_bytes_mut(&mut y[..n]));
}

/// Numbers that are divided by one scale.
#[derive(Clone, Copy)]
struct Real<'a> {
    x: &'a [f32],
    scale: f32,
    zero: f32,
    range: [f32; 2],
}

impl Source for Real<'_> {
    const NAN: bool = true;
    const LANES: bool = true;

    /// Multiplies by the reciprocal of the scale instead of dividing.
    #[inline(always)]
    fn sixteen<I: Bytes>(&self, isa: I, at: usize) -> I::V {
        isa.mul(isa.load(sixteen(self.x, at)), isa.splat(ONE / self.scale))
    }

    #[inline(always)]
    fn lanes<I: Bytes>(&self, isa: I, at: usize) -> I::V {
        isa.div(isa.load(sixteen(self.x, at)), isa.splat(self.scale))
    }

    #[inline(always)]
    fn exact(&self, at: usize) -> u8 {
        self.byte(self.x[at])
    }
    #[inline(always)]
    fn exact_sixteen(&self, at: usize) -> [u8; 16] {
        let x = sixteen(self.x, at);
        each(|i| self.byte(x[i]))
    }
}

impl Real<'_> {
    #[inline(always)]
    fn byte(&self, x: f32) -> u8 {
        let v = at_most(at_least((x / self.scale).round_ties_even() + self.zero, self.range[0]), self.range[1]);
        byte(if v.is_nan() { self.zero } else { v })
    }
}

/// `y[j] = saturate(round_half_even(sums[j] * scale[j]) + zero)`, with the product in double
/// precision. `T` is a signed or unsigned byte.
pub fn requantise<T: Elem>(sums: &[i32], scale: &[f32], zero: f32, y: &mut [T]) {
    let n = y.len().min(sums.len()).min(scale.len());
    let from = Columns { sums, scale, zero, range: range::<T>() };
    bytes(from, ends::<T>(zero), as_bytes_mut(&mut y[..n]));
}

/// Sums, each with its own scale.
#[derive(Clone, Copy)]
struct Columns<'a> {
    sums: &'a [i32],
    scale: &'a [f32],
    zero: f32,
    range: [f32; 2],
}

impl Source for Columns<'_> {
    /// A scale may be NaN, or so large that it becomes infinite times 2^14 while the sum is zero.
    const NAN: bool = true;

    #[inline(always)]
    fn sixteen<I: Bytes>(&self, isa: I, at: usize) -> I::V {
        let scale = isa.mul(isa.load(sixteen(self.scale, at)), isa.splat(ONE));
        isa.mul(isa.of_words(sixteen(self.sums, at), 0), scale)
    }

    #[inline(always)]
    fn exact(&self, at: usize) -> u8 {
        byte_of(self.sums[at], self.scale[at], f64::from(self.zero), self.range.map(f64::from))
    }
    #[inline(always)]
    fn exact_sixteen(&self, at: usize) -> [u8; 16] {
        let (sums, scale) = (sixteen(self.sums, at), sixteen(self.scale, at));
        let (zero, range) = (f64::from(self.zero), self.range.map(f64::from));
        each(|i| byte_of(sums[i], scale[i], zero, range))
    }
}

crate::multiversion! {
    /// `y = (x - zero) * scale`, where the exact difference is rounded once to single precision.
    pub fn dequantise<T: Elem>(x: &[T], scale: f32, zero: i32, y: &mut [f32]) {
        if T::KIND == Kind::I32 && zero == 0 {
            for (y, x) in y.iter_mut().zip(x) {
                *y = x.to_i64() as i32 as f32 * scale;
            }
        } else if T::KIND == Kind::I32 {
            for (y, x) in y.iter_mut().zip(x) {
                *y = difference(*x, zero) * scale;
            }
        } else {
            // Differences of bytes are exact in single precision.
            for (y, x) in y.iter_mut().zip(x) {
                *y = (x.to_f32() - zero as f32) * scale;
            }
        }
    }
}

/// The difference of words, rounded once: it is exact in double precision, for which there are
/// vector instructions, unlike for words of twice the size.
#[inline(always)]
fn difference<T: Elem>(x: T, zero: i32) -> f32 {
    (f64::from(x.to_i64() as i32) - f64::from(zero)) as f32
}

crate::multiversion! {
    /// Like [`dequantise`], with a scale and a zero point for each element.
    pub fn dequantise_each<T: Elem>(x: &[T], scale: &[f32], zero: &[i32], y: &mut [f32]) {
        let of = y.iter_mut().zip(x).zip(scale).zip(zero);
        if T::KIND == Kind::I32 {
            for (((y, x), scale), zero) in of {
                *y = difference(*x, *zero) * scale;
            }
        } else {
            for (((y, x), scale), zero) in of {
                *y = (x.to_f32() - *zero as f32) * scale;
            }
        }
    }
}

crate::multiversion! {
    /// Like [`quantise`], with a scale and a zero point for each element.
    pub fn quantise_each<T: Elem>(x: &[f32], scale: &[f32], zero: &[i32], y: &mut [T]) {
        let [low, high] = range::<T>();
        for (((y, x), scale), zero) in y.iter_mut().zip(x).zip(scale).zip(zero) {
            let v = at_most(at_least((x / scale).round_ties_even() + *zero as f32, low), high);
            *y = T::from_f32(if v.is_nan() { *zero as f32 } else { v });
        }
    }
}

crate::multiversion! {
    /// `y[j] = sums[j] * scale[j] + bias[j]`; an empty `bias` adds nothing.
    pub fn scale_columns(sums: &[i32], scale: &[f32], bias: &[f32], y: &mut [f32]) {
        for ((y, s), k) in y.iter_mut().zip(sums).zip(scale) {
            *y = *s as f32 * k;
        }
        for (y, b) in y.iter_mut().zip(bias) {
            *y += b;
        }
    }
}

/// The smallest and the greatest of the numbers and zero; NaN is ignored.
pub fn extremes(x: &[f32]) -> [f32; 2] {
    dispatch(Extremes(x))
}

/// Scale and zero point for quantising numbers with these extremes ([`extremes`]) to unsigned
/// bytes. If all numbers are zero, the scale is one, as in onnxruntime.
pub fn by_extremes([low, high]: [f32; 2]) -> (f32, f32) {
    let scale = (high - low) / 255.0;
    if scale == 0.0 {
        return (1.0, 0.0);
    }
    let zero = (-low / scale).clamp(0.0, 255.0).round_ties_even();
    (scale, if zero.is_nan() { 0.0 } else { zero })
}

/// Accumulators of each of the two extremes.
const CHAINS: usize = 3;

struct Extremes<'a>(&'a [f32]);

impl Work for Extremes<'_> {
    type Out = [f32; 2];

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) -> [f32; 2] {
        let zero = isa.splat(0.0);
        // Several accumulators of each, because a single one would wait for itself, but not more
        // than the registers of every instruction set hold.
        let (mut low, mut high) = ([zero; CHAINS], [zero; CHAINS]);
        let (together, rest) = self.0.as_chunks::<{ CHAINS * 16 }>();
        let mut see = |k: usize, block: &[f32; 16]| {
            let v = isa.load(block);
            // The old value stays if the new number is NaN.
            low[k] = isa.at_most(low[k], v);
            high[k] = isa.at_least(high[k], v);
        };
        for blocks in together {
            for (k, block) in blocks.as_chunks::<16>().0.iter().enumerate() {
                see(k, block);
            }
        }
        let (blocks, rest) = rest.as_chunks::<16>();
        blocks.iter().for_each(|b| see(0, b));
        see(1, &std::array::from_fn(|i| rest.get(i).copied().unwrap_or(0.0)));
        let (mut least, mut most) = ([[0.0; 16]; CHAINS], [[0.0; 16]; CHAINS]);
        for k in 0..CHAINS {
            isa.store(low[k], &mut least[k]);
            isa.store(high[k], &mut most[k]);
        }
        [
            least.as_flattened().iter().fold(0.0, |a, &b| if b < a { b } else { a }),
            most.as_flattened().iter().fold(0.0, |a, &b| if b > a { b } else { a }),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, with_level};

    #[test]
    fn bytes_saturate_and_ties_go_to_even_on_every_level() {
        let x: Vec<f32> = [0.25, 0.75, 1.25, -1.25, 1e9, -1e9, f32::NAN, f32::INFINITY].repeat(5);
        for level in Level::available() {
            let (mut u, mut i) = (vec![0u8; x.len()], vec![0i8; x.len()]);
            with_level(level, || {
                quantise(&x, 0.5, 10.0, &mut u);
                quantise(&x, 0.5, -3.0, &mut i);
            });
            assert_eq!(u, [10, 12, 12, 8, 255, 0, 10, 255].repeat(5));
            assert_eq!(i, [-3, -1, -1, -5, 127, -128, -3, 127].repeat(5));
        }
    }

    /// Runs of numbers of which many, few or none are the middle between two bytes.
    #[test]
    fn numbers_are_divided_where_many_are_near_the_middle() {
        let one = |i: usize| match i / 700 % 4 {
            0 => (i % 300) as f32 - 150.5,
            1 if i % 331 == 7 => f32::NAN,
            1 => (i % 97) as f32 * 0.37 - 11.1,
            2 if i % 90 == 1 => f32::NAN,
            2 => [127.5, -127.5, f32::INFINITY, f32::NEG_INFINITY, 3e38, -3e38, 0.5][i % 7],
            _ => (i % 211) as f32 + if i.is_multiple_of(80) { 0.5 } else { 0.25 },
        };
        for (scale, zero) in [(1.0f32, 127.0f32), (0.007_843_138, 128.0), (3.0, 0.0)] {
            for n in [64, 127, 700, 7000, 8191] {
                let x: Vec<f32> = (0..n).map(|i| one(i) * scale).collect();
                let of = |v: &f32| ((v / scale).round_ties_even() + zero).clamp(0.0, 255.0);
                let want: Vec<u8> = x.iter().map(|v| if v.is_nan() { zero as u8 } else { of(v) as u8 }).collect();
                for level in Level::available() {
                    let mut y = vec![1u8; n];
                    with_level(level, || quantise(&x, scale, zero, &mut y));
                    assert!(y == want, "{level:?} {scale} {n}");
                }
            }
        }
    }

    #[test]
    fn dequantising_rounds_once() {
        let mut y = [0.0; 40];
        for level in Level::available() {
            with_level(level, || {
                dequantise(&[200u8; 40], 0.5, 201, &mut y);
                assert_eq!(y, [-0.5; 40]);
                dequantise(&[-128i8; 40], 2.0, 127, &mut y);
                assert_eq!(y, [-510.0; 40]);
                dequantise(&[i32::MIN; 40], 1.0, i32::MAX, &mut y);
                assert_eq!(y, [-4_294_967_295.0f64 as f32; 40]);
            });
        }
    }

    #[test]
    fn each_element_with_its_scale_is_as_all_with_one() {
        let x: Vec<f32> = [0.25, 0.75, 1.25, -1.25, 1e9, -1e9, f32::NAN, f32::INFINITY, -0.0].repeat(9);
        let scale: Vec<f32> = (0..x.len()).map(|i| [0.5, 0.013, 3.0, 0.0, 1e-30][i % 5]).collect();
        let zero: Vec<i32> = (0..x.len()).map(|i| (i * 37 % 128) as i32).collect();
        for level in Level::available() {
            with_level(level, || {
                let (mut q, mut back) = (vec![0u8; x.len()], vec![0.0; x.len()]);
                quantise_each(&x, &scale, &zero, &mut q);
                dequantise_each(&q, &scale, &zero, &mut back);
                for i in 0..x.len() {
                    let (mut one, mut real) = ([0u8], [0.0]);
                    quantise(&x[i..=i], scale[i], zero[i] as f32, &mut one);
                    dequantise(&one, scale[i], zero[i], &mut real);
                    assert_eq!(
                        (q[i], back[i].to_bits()),
                        (one[0], real[0].to_bits()),
                        "{level:?} {} {}",
                        x[i],
                        scale[i]
                    );
                }
            });
        }
    }

    #[test]
    fn sums_are_scaled_by_column() {
        let (sums, scale) = ([3, -5, 1 << 24, 40_000_001], [0.5, 0.5, 1.0, 0.25]);
        let mut y = [0.0; 4];
        scale_columns(&sums, &scale, &[1.0, 0.0, 0.0, -1.0], &mut y);
        assert_eq!(y, [2.5, -2.5, 16_777_216.0, 9_999_999.0]);
        let mut q = [0u8; 4];
        requantise(&sums, &[0.5; 4], 7.0, &mut q);
        assert_eq!(q, [9, 5, 255, 255]);
        let ends = [f32::NAN, f32::INFINITY, -f32::INFINITY, f32::INFINITY, 3e38, -3e38, 1e-45, 0.0];
        for level in Level::available() {
            let (sums, mut q) = ([5, 5, 5, 0, 0, 1, i32::MAX, 9].repeat(3), vec![1i8; 24]);
            with_level(level, || requantise(&sums, &ends.repeat(3), 7.0, &mut q));
            assert_eq!(q, [0, 127, -128, 0, 7, -128, 7, 7].repeat(3), "{level:?}");
        }
    }

    #[test]
    fn extremes_hold_zero_and_leave_out_what_is_no_number() {
        let x: Vec<f32> = (0..37).map(|i| if i == 20 { f32::NAN } else { i as f32 - 30.0 }).collect();
        for level in Level::available() {
            with_level(level, || {
                assert_eq!(extremes(&x), [-30.0, 6.0], "{level:?}");
                // Each position in whole and partial vectors, where all other numbers are NaN.
                for (n, at) in [1, 15, 47, 48, 64, 65, 80, 137].into_iter().flat_map(|n| (0..n).map(move |at| (n, at)))
                {
                    let mut x = vec![f32::NAN; n];
                    (x[at], x[n - 1 - at]) = (3.0, if at == n - 1 - at { 3.0 } else { -f32::INFINITY });
                    let low = if at == n - 1 - at { 0.0 } else { -f32::INFINITY };
                    assert_eq!(extremes(&x), [low, 3.0], "{level:?} {n} {at}");
                }
            });
        }
        assert_eq!(extremes(&[2.0]), [0.0, 2.0]);
        assert_eq!(extremes(&[]), [0.0, 0.0]);
    }
}
