//! Conversion of numbers to bytes, 64 at a time. Numbers are rounded as fixed-point integers with
//! 14 fractional bits.
//!
//! A source gives its numbers in single precision, with a relative error of at most 1.5 * 2^-23.
//! Within the bounds, which are less than 2^8 away from the zero point, and with the rounding to 14
//! fractional bits, the total error is at most one and a quarter of the last bit. So rounding gives
//! the same integer as the exact number would, except for numbers that are so near to the middle
//! between two integers. The source computes these exactly.
use crate::simd::isa::{Isa, Scalar, Work, dispatch};
use crate::view::Elem;

/// The conversions by AVX2 and AVX-512.
#[cfg(target_arch = "x86_64")]
mod x86;

/// Number of fractional bits.
const SHIFT: u32 = 14;
/// Factor that turns a number into fixed point.
pub(crate) const ONE: f32 = (1 << SHIFT) as f32;
/// A number counts as near the middle between two integers if it is at most this many last bits
/// below it, or at most one fewer above it.
const NEAR: i32 = 2;
/// Added before the fractional bits are cut off: one half, so that this rounds, and [`NEAR`].
const MORE: i32 = (1 << (SHIFT - 1)) + NEAR;
/// The fractional bits that are all zero after that addition if a number was near the middle.
const BEHIND: i32 = (1 << SHIFT) - 2 * NEAR;

/// The zero point, the smallest and the greatest value of bytes, all within one type of byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    zero: i32,
    low: i32,
    high: i32,
}

impl Ends {
    /// `None` if the three values do not fit one type of byte, signed or unsigned.
    pub(crate) fn new(zero: i32, [low, high]: [i32; 2]) -> Option<Ends> {
        let kind = if low < 0 { -128..128 } else { 0..256 };
        [zero, low, high].iter().all(|v| kind.contains(v)).then_some(Ends { zero, low, high })
    }

    /// The greatest number before the zero point is added.
    #[inline(always)]
    fn highest(self) -> f32 {
        (self.high - self.zero) as f32
    }

    /// The same times [`ONE`].
    #[inline(always)]
    fn most(self) -> f32 {
        ((self.high - self.zero) << SHIFT) as f32
    }
}

/// The operations of an instruction set that convert to and from bytes.
pub trait Bytes: Isa {
    /// Bytes of either type minus `zero`. For other element types the result is unspecified.
    fn of_bytes<T: Elem>(self, p: &[T; 16], zero: i32) -> Self::V;
    /// Integers plus `more` (wrapping around), rounded to single precision.
    fn of_words(self, p: &[i32; 16], more: i32) -> Self::V;
    /// Whether any lane is NaN.
    fn has_nan(self, v: Self::V) -> bool;
    /// Writes the bytes of 64 numbers, none of them NaN, that are given times 2^14. If `WOVEN`,
    /// they are written as sixteen groups of four, one of each vector (as for `woven`). Returns one
    /// bit per number, in the order of the vectors, that tells whether it is near the middle
    /// between two integers.
    fn to_bytes<const WOVEN: bool>(self, v: [Self::V; 4], ends: Ends, to: &mut [u8; 64]) -> u64;
    /// Writes the bytes of 64 numbers, each rounded to the nearest integer, ties to even. The bytes
    /// of NaN are unspecified.
    fn round_to_bytes(self, v: [Self::V; 4], ends: Ends, to: &mut [u8; 64]);
}

/// A source of numbers.
pub(crate) trait Source: Copy {
    /// The numbers `at..at + 16`, which must exist, times [`ONE`].
    fn sixteen<I: Bytes>(&self, isa: I, at: usize) -> I::V;
    /// The exact byte of the number at `at`.
    fn exact(&self, at: usize) -> u8;
    /// The exact bytes of the numbers `at..at + 16`, which must exist.
    fn exact_sixteen(&self, at: usize) -> [u8; 16];
    /// Whether numbers can be NaN.
    const NAN: bool;
    /// Whether `sixteen` gives the numbers themselves, not times [`ONE`], and they are exact, so
    /// that none has to be computed again. Such numbers cannot be written woven.
    const EXACT: bool = false;
    /// Whether `lanes` gives exact numbers.
    const LANES: bool = Self::EXACT;
    /// The exact numbers `at..at + 16`, which must exist, more slowly than `sixteen` gives
    /// approximate ones.
    #[inline(always)]
    fn lanes<I: Bytes>(&self, isa: I, at: usize) -> I::V {
        self.sixteen(isa, at)
    }
}

/// Writes the bytes of the first numbers of a source. Without `ends`, each one is computed exactly.
pub(crate) fn bytes<S: Source>(from: S, ends: Option<Ends>, y: &mut [u8]) {
    match ends {
        Some(ends) if y.len() >= 16 => dispatch(Fill { from, ends, y }),
        _ => (0..).zip(y).for_each(|(i, y)| *y = from.exact(i)),
    }
}

struct Fill<'a, S> {
    from: S,
    ends: Ends,
    y: &'a mut [u8],
}

impl<S: Source> Work for Fill<'_, S> {
    type Out = ();

    #[inline(always)]
    fn run<I: Bytes, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let Fill { from, ends, y } = self;
        let end = y.len();
        // The last group overlaps the one before and computes some bytes again.
        if let Some(last) = end.checked_sub(64) {
            let (mut at, mut exact) = (0, if S::EXACT { usize::MAX } else { 0 });
            while at < end {
                at = at.min(last);
                let places = [at, at + 16, at + 32, at + 48];
                if let Some(to) = y[at..].first_chunk_mut() {
                    if S::LANES && exact > 0 {
                        exactly(isa, from, ends, places, to);
                        exact -= 1;
                    } else if some::<I, S, false>(isa, from, ends, places, to) {
                        exact = LIKELY;
                    }
                }
                at += 64;
            }
        } else {
            let (last, mut to) = (end - 16, [0; 64]);
            let places = [0, last.min(16), last.min(32), last];
            some::<I, S, false>(isa, from, ends, places, &mut to);
            for (at, to) in places.into_iter().zip(to.as_chunks::<16>().0) {
                y[at..at + 16].copy_from_slice(to);
            }
        }
    }
}

/// Writes the bytes of numbers that are stored in groups of 64. A group is one row of four columns
/// of sixteen tiles, column by column; the bytes of one row of a tile become contiguous. Group `g`
/// goes to `64 * (g / rows)` of row `g % rows`. There are `rows` rows of bytes, `wide` apart.
pub(crate) fn woven<S: Source>(from: S, ends: Option<Ends>, [rows, wide]: [usize; 2], y: &mut [u8]) {
    match ends {
        Some(ends) => dispatch(Weave { from, ends, rows, wide, y }),
        _ => {
            (0..rows * wide).for_each(|i| y[i / 64 % rows * wide + i / 64 / rows * 64 + beside(i % 64)] = from.exact(i))
        }
    }
}

/// Destination of number `i` of a group of 64.
#[inline(always)]
fn beside(i: usize) -> usize {
    i % 16 * 4 + i / 16
}

struct Weave<'a, S> {
    from: S,
    ends: Ends,
    rows: usize,
    wide: usize,
    y: &'a mut [u8],
}

impl<S: Source> Work for Weave<'_, S> {
    type Out = ();

    #[inline(always)]
    fn run<I: Bytes, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let Weave { from, ends, rows, wide, y } = self;
        for r in 0..rows {
            let row = y[r * wide..][..wide].as_chunks_mut::<64>().0;
            for (g, to) in row.iter_mut().enumerate() {
                let at = (g * rows + r) * 64;
                some::<I, S, true>(isa, from, ends, [at, at + 16, at + 32, at + 48], to);
            }
        }
    }
}

/// If many of 64 numbers are near the middle between two bytes, many of so many groups that follow
/// are likely to be as well. These are computed exactly at once.
const LIKELY: usize = 32;

/// The exact bytes of the sixteen numbers at each of four positions.
#[inline(always)]
fn exactly<I: Bytes, S: Source>(isa: I, from: S, ends: Ends, at: [usize; 4], to: &mut [u8; 64]) {
    let [a, b] = [from.lanes(isa, at[0]), from.lanes(isa, at[1])];
    let [c, d] = [from.lanes(isa, at[2]), from.lanes(isa, at[3])];
    isa.round_to_bytes([a, b, c, d], ends, to);
    if S::NAN && (isa.has_nan(a) || isa.has_nan(b) || isa.has_nan(c) || isa.has_nan(d)) {
        again::<S, false>(from, at, u64::MAX, to);
    }
}

/// The bytes of the sixteen numbers at each of four positions. Returns whether many of them had to
/// be computed again.
#[inline(always)]
fn some<I: Bytes, S: Source, const WOVEN: bool>(
    isa: I,
    from: S,
    ends: Ends,
    at: [usize; 4],
    to: &mut [u8; 64],
) -> bool {
    const { assert!(!(S::EXACT && WOVEN), "woven numbers are approximate") };
    if S::EXACT {
        exactly(isa, from, ends, at, to);
        return false;
    }
    let [a, b] = [from.sixteen(isa, at[0]), from.sixteen(isa, at[1])];
    let [c, d] = [from.sixteen(isa, at[2]), from.sixteen(isa, at[3])];
    let near = isa.to_bytes::<WOVEN>([a, b, c, d], ends, to);
    let nan = S::NAN && (isa.has_nan(a) || isa.has_nan(b) || isa.has_nan(c) || isa.has_nan(d));
    if near != 0 || nan {
        again::<S, WOVEN>(from, at, if nan { u64::MAX } else { near }, to);
    }
    near.count_ones() > FEW
}

/// Up to so many bytes are computed exactly one by one; with more of them, all 64 are at once. Many
/// are near the middle where a scale is a power of two, or where numbers are bounded and the bound
/// is the middle itself (`Tanh`, quantised by the extremes that it has: 127.5).
const FEW: u32 = 3;

/// Computes exactly at least the bytes that are marked in `near`.
#[cold]
#[inline(never)]
fn again<S: Source, const WOVEN: bool>(from: S, at: [usize; 4], near: u64, to: &mut [u8; 64]) {
    if near.count_ones() > FEW {
        return dispatch(All::<S, WOVEN> { from, at, to });
    }
    for i in (0..64).filter(|i| near >> i & 1 != 0) {
        to[if WOVEN { beside(i) } else { i }] = from.exact(at[i / 16] + i % 16);
    }
}

/// The exact bytes of sixteen numbers at each of four positions.
struct All<'a, S, const WOVEN: bool> {
    from: S,
    at: [usize; 4],
    to: &'a mut [u8; 64],
}

impl<S: Source, const WOVEN: bool> Work for All<'_, S, WOVEN> {
    type Out = ();

    #[inline(always)]
    fn run<I: Bytes, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, _: I) {
        let All { from, at, to } = self;
        for (k, at) in at.into_iter().enumerate() {
            let bytes = from.exact_sixteen(at);
            for (i, byte) in bytes.into_iter().enumerate() {
                to[if WOVEN { beside(k * 16 + i) } else { k * 16 + i }] = byte;
            }
        }
    }
}

/// The byte of a number between -128 and 255, without its fraction. Unlike a cast, which must treat
/// numbers beyond an integer's range, this becomes vector instructions: the number is added to one
/// whose last bit counts ones.
#[inline(always)]
pub(crate) fn byte(v: f32) -> u8 {
    const ONES: f32 = (3 << 22) as f32;
    (v.trunc() + ONES).to_bits() as u8
}

/// Like [`byte`], in double precision.
#[inline(always)]
pub(crate) fn byte_of_double(v: f64) -> u8 {
    const ONES: f64 = (3u64 << 51) as f64;
    (v.trunc() + ONES).to_bits() as u8
}

/// Sixteen bytes, each computed from one number of the same position.
#[inline(always)]
pub(crate) fn each(byte: impl Fn(usize) -> u8) -> [u8; 16] {
    let mut out = [0; 16];
    for (i, out) in out.iter_mut().enumerate() {
        *out = byte(i);
    }
    out
}

/// Sixteen elements of a slice from `at` on. It panics if there are fewer.
#[inline(always)]
pub(crate) fn sixteen<T>(of: &[T], at: usize) -> &[T; 16] {
    of[at..].first_chunk().expect("sixteen numbers")
}

impl Bytes for Scalar {
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn of_bytes<T: Elem>(self, p: &[T; 16], zero: i32) -> [f32; 16] {
        p.map(|v| (v.to_i64() as i32 - zero) as f32)
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn of_words(self, p: &[i32; 16], more: i32) -> [f32; 16] {
        p.map(|v| v.wrapping_add(more) as f32)
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn has_nan(self, v: [f32; 16]) -> bool {
        v.iter().any(|v| v.is_nan())
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn to_bytes<const WOVEN: bool>(self, v: [[f32; 16]; 4], ends: Ends, to: &mut [u8; 64]) -> u64 {
        let mut near = 0;
        for (i, v) in v.as_flattened().iter().enumerate() {
            let w = (v.min(ends.most()).round_ties_even() as i32).saturating_add(MORE);
            near |= u64::from(w & BEHIND == 0) << i;
            to[if WOVEN { beside(i) } else { i }] = ((w >> SHIFT) + ends.zero).max(ends.low) as u8;
        }
        near
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn round_to_bytes(self, v: [[f32; 16]; 4], ends: Ends, to: &mut [u8; 64]) {
        for (v, to) in v.as_flattened().iter().zip(to) {
            let w = v.min(ends.highest()).round_ties_even() as i32;
            *to = w.saturating_add(ends.zero).max(ends.low) as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, with_level};
    use std::iter;

    #[derive(Clone, Copy)]
    struct Given<'a>(&'a [f32], Ends);

    impl Source for Given<'_> {
        const NAN: bool = true;

        #[inline(always)]
        fn sixteen<I: Bytes>(&self, isa: I, at: usize) -> I::V {
            isa.mul(isa.load(sixteen(self.0, at)), isa.splat(ONE))
        }

        fn exact(&self, at: usize) -> u8 {
            let v = self.0[at].round_ties_even() + self.1.zero as f32;
            v.clamp(self.1.low as f32, self.1.high as f32) as i32 as u8
        }
        fn exact_sixteen(&self, at: usize) -> [u8; 16] {
            each(|i| self.exact(at + i))
        }
    }

    /// The same numbers, none of them NaN, as exact ones.
    #[derive(Clone, Copy)]
    struct Exact<'a>(Given<'a>);

    impl Source for Exact<'_> {
        const NAN: bool = false;
        const EXACT: bool = true;

        #[inline(always)]
        fn sixteen<I: Bytes>(&self, isa: I, at: usize) -> I::V {
            isa.load(sixteen(self.0.0, at))
        }

        fn exact(&self, at: usize) -> u8 {
            self.0.exact(at)
        }
        fn exact_sixteen(&self, at: usize) -> [u8; 16] {
            self.0.exact_sixteen(at)
        }
    }

    #[test]
    fn numbers_become_the_nearest_bytes_on_every_level_and_of_every_length() {
        let near = (-600..600).flat_map(|k| [-1e-4, -3e-5, 0.0, 3e-5, 1e-4].map(|d| k as f32 / 2.0 + d));
        let far = [1e9, -1e9, 3e38, -3e38, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -0.0, 1e-45];
        let dense: Vec<f32> = near.chain(far).collect();
        // Few of any 64 in a row are near the middle between two bytes here, many there.
        let thin: Vec<f32> = dense.iter().flat_map(|v| iter::once(*v).chain(iter::repeat_n(0.3, 40))).collect();
        let both = [&dense, &thin].into_iter();
        let kinds = [(0, [0, 255]), (255, [0, 255]), (128, [128, 200]), (-128, [-128, 127]), (5, [-128, 6])];
        for (v, (zero, range)) in both.flat_map(|v| kinds.map(|k| (v, k))) {
            let ends = Ends::new(zero, range).unwrap();
            for n in (0..130).chain([v.len()]) {
                let given = Given(&v[v.len() - n..], ends);
                let want: Vec<u8> = (0..n).map(|i| given.exact(i)).collect();
                let numbers: Vec<f32> = given.0.iter().map(|v| if v.is_nan() { -0.5 } else { *v }).collect();
                let exact = Exact(Given(&numbers, ends));
                let want_exact: Vec<u8> = (0..n).map(|i| exact.exact(i)).collect();
                for level in Level::available() {
                    let mut y = vec![77; n];
                    with_level(level, || bytes(given, Some(ends), &mut y));
                    assert_eq!(y, want, "{level:?} {ends:?} {n}");
                    y.fill(77);
                    with_level(level, || bytes(exact, Some(ends), &mut y));
                    assert_eq!(y, want_exact, "{level:?} {ends:?} {n} exact");
                }
            }
        }
        assert_eq!([Ends::new(-1, [0, 255]), Ends::new(0, [-129, 0]), Ends::new(0, [0, 256])], [None; 3]);
    }
}
