//! The conversions to and from bytes by AVX2 and AVX-512.
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
                let pairs =
                    _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15));
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
    #[inline(always)]
    fn round_to_bytes(self, v: [[__m256; 2]; 4], ends: Ends, to: &mut [u8; 64]) {
        // SAFETY: as in `of_bytes`; 64 bytes can be written.
        unsafe {
            let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
            let first = _mm256_packus_epi16(rounded(v[0], ends), rounded(v[1], ends));
            let last = _mm256_packus_epi16(rounded(v[2], ends), rounded(v[3], ends));
            let to = to.as_mut_ptr().cast::<__m256i>();
            _mm256_storeu_si256(to, _mm256_permutevar8x32_epi32(first, order));
            _mm256_storeu_si256(to.add(1), _mm256_permutevar8x32_epi32(last, order));
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

/// Sixteen numbers rounded to bytes in 16-bit words. Each half of the register is packed
/// separately. What is below the range of an integer becomes the lowest one, and so stays below
/// every byte.
#[inline(always)]
fn rounded(v: [__m256; 2], ends: Ends) -> __m256i {
    // SAFETY: as in `words`.
    unsafe {
        let highest = _mm256_set1_ps(ends.highest());
        let a = _mm256_cvtps_epi32(_mm256_min_ps(v[0], highest));
        let b = _mm256_cvtps_epi32(_mm256_min_ps(v[1], highest));
        let v = _mm256_adds_epi16(_mm256_packs_epi32(a, b), _mm256_set1_epi16(ends.zero as i16));
        _mm256_and_si256(_mm256_max_epi16(v, _mm256_set1_epi16(ends.low as i16)), _mm256_set1_epi16(0xff))
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
    #[inline(always)]
    fn round_to_bytes(self, v: [__m512; 4], ends: Ends, to: &mut [u8; 64]) {
        // SAFETY: as in `of_bytes`; 64 bytes can be written.
        unsafe {
            let bytes = _mm512_packus_epi16(wide_rounded(v[0], v[1], ends), wide_rounded(v[2], v[3], ends));
            let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            _mm512_storeu_si512(to.as_mut_ptr().cast(), _mm512_permutexvar_epi32(order, bytes));
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

/// Like [`rounded`], for thirty-two numbers.
#[inline(always)]
fn wide_rounded(a: __m512, b: __m512, ends: Ends) -> __m512i {
    // SAFETY: as in `wide_words`.
    unsafe {
        let highest = _mm512_set1_ps(ends.highest());
        let a = _mm512_cvtps_epi32(_mm512_min_ps(a, highest));
        let b = _mm512_cvtps_epi32(_mm512_min_ps(b, highest));
        let v = _mm512_adds_epi16(_mm512_packs_epi32(a, b), _mm512_set1_epi16(ends.zero as i16));
        _mm512_and_si512(_mm512_max_epi16(v, _mm512_set1_epi16(ends.low as i16)), _mm512_set1_epi16(0xff))
    }
}
