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

    /// The greatest number times [`ONE`], before the zero point is added.
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
            let mut at = 0;
            while at < end {
                at = at.min(last);
                let places = [at, at + 16, at + 32, at + 48];
                if let Some(to) = y[at..].first_chunk_mut() {
                    some::<I, S, false>(isa, from, ends, places, to);
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

/// The bytes of the sixteen numbers at each of four positions.
#[inline(always)]
fn some<I: Bytes, S: Source, const WOVEN: bool>(isa: I, from: S, ends: Ends, at: [usize; 4], to: &mut [u8; 64]) {
    let [a, b] = [from.sixteen(isa, at[0]), from.sixteen(isa, at[1])];
    let [c, d] = [from.sixteen(isa, at[2]), from.sixteen(isa, at[3])];
    let near = isa.to_bytes::<WOVEN>([a, b, c, d], ends, to);
    let nan = S::NAN && (isa.has_nan(a) || isa.has_nan(b) || isa.has_nan(c) || isa.has_nan(d));
    if near != 0 || nan {
        again::<S, WOVEN>(from, at, if nan { u64::MAX } else { near }, to);
    }
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
    #[inline(always)]
    fn of_bytes<T: Elem>(self, p: &[T; 16], zero: i32) -> [f32; 16] {
        p.map(|v| (v.to_i64() as i32 - zero) as f32)
    }
    #[inline(always)]
    fn of_words(self, p: &[i32; 16], more: i32) -> [f32; 16] {
        p.map(|v| v.wrapping_add(more) as f32)
    }
    #[inline(always)]
    fn has_nan(self, v: [f32; 16]) -> bool {
        v.iter().any(|v| v.is_nan())
    }
    #[inline(always)]
    fn to_bytes<const WOVEN: bool>(self, v: [[f32; 16]; 4], ends: Ends, to: &mut [u8; 64]) -> u64 {
        let mut near = 0;
        for (i, v) in v.as_flattened().iter().enumerate() {
            let w = (v.min(ends.most()).round_ties_even() as i32).saturating_add(MORE);
            near |= u64::from(w & BEHIND == 0) << i;
            to[if WOVEN { beside(i) } else { i }] = ((w >> SHIFT) + ends.zero).max(ends.low) as u8;
        }
        near
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{BEHIND, Bytes, Ends, MORE, SHIFT};
    use crate::simd::isa::{Avx2, Avx512};
    use crate::view::{Elem, Kind};
    use std::arch::x86_64::*;

    impl Bytes for Avx2 {
        #[inline(always)]
        fn of_bytes<T: Elem>(self, p: &[T; 16], zero: i32) -> [__m256; 2] {
            // SAFETY: an `Avx2` only exists if the machine has AVX2; sixteen bytes can be read.
            unsafe {
                let zero = _mm256_set1_epi32(zero);
                let (a, b) = match T::KIND {
                    Kind::U8 => {
                        let v = _mm_loadu_si128(p.as_ptr().cast());
                        (_mm256_cvtepu8_epi32(v), _mm256_cvtepu8_epi32(_mm_srli_si128::<8>(v)))
                    }
                    Kind::I8 => {
                        let v = _mm_loadu_si128(p.as_ptr().cast());
                        (_mm256_cvtepi8_epi32(v), _mm256_cvtepi8_epi32(_mm_srli_si128::<8>(v)))
                    }
                    _ => (zero, zero),
                };
                [_mm256_cvtepi32_ps(_mm256_sub_epi32(a, zero)), _mm256_cvtepi32_ps(_mm256_sub_epi32(b, zero))]
            }
        }
        #[inline(always)]
        fn of_words(self, p: &[i32; 16], more: i32) -> [__m256; 2] {
            // SAFETY: as in `of_bytes`; sixteen words can be read.
            unsafe {
                let more = _mm256_set1_epi32(more);
                let (a, b) = (_mm256_loadu_si256(p.as_ptr().cast()), _mm256_loadu_si256(p.as_ptr().add(8).cast()));
                [_mm256_cvtepi32_ps(_mm256_add_epi32(a, more)), _mm256_cvtepi32_ps(_mm256_add_epi32(b, more))]
            }
        }
        #[inline(always)]
        fn has_nan(self, v: [__m256; 2]) -> bool {
            // SAFETY: as in `of_bytes`.
            unsafe { _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_UNORD_Q>(v[0], v[1])) != 0 }
        }
        #[inline(always)]
        fn to_bytes<const WOVEN: bool>(self, v: [[__m256; 2]; 4], ends: Ends, to: &mut [u8; 64]) -> u64 {
            let [a, b, c, d] = [words(v[0][0], ends), words(v[0][1], ends), words(v[1][0], ends), words(v[1][1], ends)];
            let [e, f, g, h] = [words(v[2][0], ends), words(v[2][1], ends), words(v[3][0], ends), words(v[3][1], ends)];
            // SAFETY: as in `of_bytes`; 64 bytes can be written.
            unsafe {
                // Order of the quarters of a register whose halves were packed separately.
                let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
                let first = _mm256_packus_epi16(halves(a, b, ends), halves(c, d, ends));
                let last = _mm256_packus_epi16(halves(e, f, ends), halves(g, h, ends));
                let (low, high) = if WOVEN {
                    // Each half of a register has four numbers of each of the two halves of a
                    // vector, and those of the next vector. First two vectors are interleaved, then
                    // all four.
                    let pairs = _mm256_broadcastsi128_si256(_mm_setr_epi8(
                        0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15,
                    ));
                    let (ab, cd) = (_mm256_shuffle_epi8(first, pairs), _mm256_shuffle_epi8(last, pairs));
                    (_mm256_unpacklo_epi16(ab, cd), _mm256_unpackhi_epi16(ab, cd))
                } else {
                    (_mm256_permutevar8x32_epi32(first, order), _mm256_permutevar8x32_epi32(last, order))
                };
                _mm256_storeu_si256(to.as_mut_ptr().cast(), low);
                _mm256_storeu_si256(to.as_mut_ptr().add(32).cast(), high);
                let [first, last] = [near(a, b, c, d), near(e, f, g, h)];
                if _mm256_testz_si256(_mm256_or_si256(first, last), _mm256_set1_epi8(-1)) != 0 {
                    return 0;
                }
                let first = _mm256_movemask_epi8(_mm256_permutevar8x32_epi32(first, order)) as u32;
                let last = _mm256_movemask_epi8(_mm256_permutevar8x32_epi32(last, order)) as u32;
                u64::from(first) | u64::from(last) << 32
            }
        }
    }

    // These are functions, not closures: closures that are called twice would not get the target
    // features.

    /// Eight numbers rounded to fixed point, with [`MORE`] added.
    #[inline(always)]
    fn words(v: __m256, ends: Ends) -> __m256i {
        // SAFETY: these are registers of an `Avx2`, which only exists if the machine has its
        // instructions.
        unsafe {
            let v = _mm256_cvtps_epi32(_mm256_min_ps(v, _mm256_set1_ps(ends.most())));
            _mm256_add_epi32(v, _mm256_set1_epi32(MORE))
        }
    }

    /// The bytes of such integers as 16-bit words. Each half of the register is packed separately.
    #[inline(always)]
    fn halves(a: __m256i, b: __m256i, ends: Ends) -> __m256i {
        // SAFETY: as in `words`.
        unsafe {
            let (a, b) = (_mm256_srai_epi32::<{ SHIFT as i32 }>(a), _mm256_srai_epi32::<{ SHIFT as i32 }>(b));
            let v = _mm256_adds_epi16(_mm256_packs_epi32(a, b), _mm256_set1_epi16(ends.zero as i16));
            _mm256_and_si256(_mm256_max_epi16(v, _mm256_set1_epi16(ends.low as i16)), _mm256_set1_epi16(0xff))
        }
    }

    /// A byte of ones for each number near the middle, in the order of the packed bytes.
    #[inline(always)]
    fn near(a: __m256i, b: __m256i, c: __m256i, d: __m256i) -> __m256i {
        // SAFETY: as in `words`.
        unsafe {
            let (behind, zero) = (_mm256_set1_epi32(BEHIND), _mm256_setzero_si256());
            let a = _mm256_cmpeq_epi32(_mm256_and_si256(a, behind), zero);
            let b = _mm256_cmpeq_epi32(_mm256_and_si256(b, behind), zero);
            let c = _mm256_cmpeq_epi32(_mm256_and_si256(c, behind), zero);
            let d = _mm256_cmpeq_epi32(_mm256_and_si256(d, behind), zero);
            _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d))
        }
    }

    impl Bytes for Avx512 {
        #[inline(always)]
        fn of_bytes<T: Elem>(self, p: &[T; 16], zero: i32) -> __m512 {
            // SAFETY: an `Avx512` only exists if the machine has AVX-512; sixteen bytes can be
            // read.
            unsafe {
                let zero = _mm512_set1_epi32(zero);
                let v = match T::KIND {
                    Kind::U8 => _mm512_cvtepu8_epi32(_mm_loadu_si128(p.as_ptr().cast())),
                    Kind::I8 => _mm512_cvtepi8_epi32(_mm_loadu_si128(p.as_ptr().cast())),
                    _ => zero,
                };
                _mm512_cvtepi32_ps(_mm512_sub_epi32(v, zero))
            }
        }
        #[inline(always)]
        fn of_words(self, p: &[i32; 16], more: i32) -> __m512 {
            // SAFETY: as in `of_bytes`; sixteen words can be read.
            unsafe {
                let v = _mm512_loadu_si512(p.as_ptr().cast());
                _mm512_cvtepi32_ps(_mm512_add_epi32(v, _mm512_set1_epi32(more)))
            }
        }
        #[inline(always)]
        fn has_nan(self, v: __m512) -> bool {
            // SAFETY: as in `of_bytes`.
            unsafe { _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(v, v) != 0 }
        }
        #[inline(always)]
        fn to_bytes<const WOVEN: bool>(self, v: [__m512; 4], ends: Ends, to: &mut [u8; 64]) -> u64 {
            let [a, b] = [wide_words(v[0], ends), wide_words(v[1], ends)];
            let [c, d] = [wide_words(v[2], ends), wide_words(v[3], ends)];
            // SAFETY: as in `of_bytes`; 64 bytes can be written.
            unsafe {
                // The packed register holds the quarters of all four vectors, one after the other.
                let bytes = _mm512_packus_epi16(wide_halves(a, b, ends), wide_halves(c, d, ends));
                let bytes = if WOVEN {
                    let turned = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
                    _mm512_shuffle_epi8(bytes, _mm512_broadcast_i32x4(turned))
                } else {
                    let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
                    _mm512_permutexvar_epi32(order, bytes)
                };
                _mm512_storeu_si512(to.as_mut_ptr().cast(), bytes);
                let behind = _mm512_set1_epi32(BEHIND);
                u64::from(_mm512_testn_epi32_mask(a, behind))
                    | u64::from(_mm512_testn_epi32_mask(b, behind)) << 16
                    | u64::from(_mm512_testn_epi32_mask(c, behind)) << 32
                    | u64::from(_mm512_testn_epi32_mask(d, behind)) << 48
            }
        }
    }

    /// Like [`words`], for sixteen numbers.
    #[inline(always)]
    fn wide_words(v: __m512, ends: Ends) -> __m512i {
        // SAFETY: these are registers of an `Avx512`, which only exists if the machine has its
        // instructions.
        unsafe {
            let v = _mm512_cvtps_epi32(_mm512_min_ps(v, _mm512_set1_ps(ends.most())));
            _mm512_add_epi32(v, _mm512_set1_epi32(MORE))
        }
    }

    /// Like [`halves`], for thirty-two numbers.
    #[inline(always)]
    fn wide_halves(a: __m512i, b: __m512i, ends: Ends) -> __m512i {
        // SAFETY: as in `wide_words`.
        unsafe {
            let (a, b) = (_mm512_srai_epi32::<SHIFT>(a), _mm512_srai_epi32::<SHIFT>(b));
            let v = _mm512_adds_epi16(_mm512_packs_epi32(a, b), _mm512_set1_epi16(ends.zero as i16));
            _mm512_and_si512(_mm512_max_epi16(v, _mm512_set1_epi16(ends.low as i16)), _mm512_set1_epi16(0xff))
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
                for level in Level::available() {
                    let mut y = vec![77; n];
                    with_level(level, || bytes(given, Some(ends), &mut y));
                    assert_eq!(y, want, "{level:?} {ends:?} {n}");
                }
            }
        }
        assert_eq!([Ends::new(-1, [0, 255]), Ends::new(0, [-129, 0]), Ends::new(0, [0, 256])], [None; 3]);
    }
}
