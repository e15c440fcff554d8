//! The register tile by 16-bit pairs, on machines without a dot product of bytes. Their product of
//! byte pairs would saturate, but products of 16 bits and the sum of two of them are exact.
//!
//! The filter of a tile is widened once, before the positions are processed. Bytes of the copy are
//! widened in registers: of the four channels of a position, the even ones make one pair and the
//! odd ones another.
use super::tile::{DEEP, ROWS, Step};
use crate::scratch::with_scratch;
use crate::view::seen_as_mut;
use std::arch::x86_64::*;

/// Output channels whose sums stay in registers.
const HALF: usize = ROWS / 2;
/// Pairs in a row of a step of the filter: first the even channels of each block of four, then the
/// odd ones.
const PAIRS: usize = DEEP / 2;

/// Like [`super::tile::tile`], for eight output channels.
///
/// # Safety
/// The machine must have AVX2, and [`Step::check`] must hold.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn tile(s: &Step<'_>, first: usize, vectors: usize, sums: &mut [i32]) {
    let steps = s.fours.div_ceil(8) * s.places.len();
    if steps == 0 {
        return sums.fill(0);
    }
    with_scratch(steps * ROWS * PAIRS, |room| {
        // The working memory is lent as floats; here it holds pairs of the same size.
        let Ok(room) = seen_as_mut::<u32, _>(room) else { return };
        let pairs = room.as_chunks_mut::<PAIRS>().0;
        // SAFETY: as the caller guarantees.
        unsafe {
            widen(s, first, pairs);
            for v in 0..vectors {
                for r in (0..ROWS).step_by(HALF) {
                    half(s, &pairs[r..], v, &mut sums[r * vectors * 16..][..HALF * vectors * 16]);
                }
            }
        }
    });
}

/// Widens eight rows of every step of the filter.
///
/// # Safety
/// As for [`tile`]; `to` must have eight rows per step.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn widen(s: &Step<'_>, first: usize, to: &mut [[u32; PAIRS]]) {
    for (i, to) in to.as_chunks_mut::<ROWS>().0.iter_mut().enumerate() {
        let from = &s.filter[i * s.stride + first * DEEP..][..ROWS * DEEP];
        for (to, from) in to.iter_mut().zip(from.as_chunks::<DEEP>().0) {
            // SAFETY: this reads 32 bytes and writes twice as many.
            unsafe {
                let row = _mm256_loadu_si256(from.as_ptr().cast());
                let even = _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(row));
                _mm256_storeu_si256(to.as_mut_ptr().cast(), even);
                _mm256_storeu_si256(to.as_mut_ptr().add(PAIRS / 2).cast(), _mm256_srai_epi16::<8>(row));
            }
        }
    }
}

/// Computes four output channels by vector `v` of sixteen positions; `pairs` begins at the first of
/// these channels.
///
/// # Safety
/// As for [`tile`]; `sums` must have a row of vectors for each of the channels.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn half(s: &Step<'_>, pairs: &[[u32; PAIRS]], v: usize, sums: &mut [i32]) {
    let mut acc = [[_mm256_setzero_si256(); 2]; HALF];
    let low = _mm256_set1_epi16(0xff);
    let mut w = pairs.as_ptr().cast::<i32>();
    // SAFETY: filter and copy are long enough by `Step::check`.
    unsafe {
        for c in 0..s.fours.div_ceil(8) {
            let here = (s.fours - c * 8).min(8);
            let x = s.copy.as_ptr().add(c * 8 * s.four + v * 16);
            for place in s.places {
                let x = x.add(*place as usize);
                for f in 0..here {
                    let (a, b) = (x.add(f * s.four), x.add(f * s.four + 8));
                    let (a, b) = (_mm256_loadu_si256(a.cast()), _mm256_loadu_si256(b.cast()));
                    let mut pair = |a: __m256i, b: __m256i, w: *const i32| {
                        for (r, acc) in acc.iter_mut().enumerate() {
                            let w = _mm256_set1_epi32(w.add(r * PAIRS).read());
                            acc[0] = _mm256_add_epi32(acc[0], _mm256_madd_epi16(a, w));
                            acc[1] = _mm256_add_epi32(acc[1], _mm256_madd_epi16(b, w));
                        }
                    };
                    pair(_mm256_and_si256(a, low), _mm256_and_si256(b, low), w.add(f));
                    pair(_mm256_srli_epi16::<8>(a), _mm256_srli_epi16::<8>(b), w.add(f + PAIRS / 2));
                }
                w = w.wrapping_add(ROWS * PAIRS);
            }
        }
        let wide = sums.len() / HALF;
        for (r, acc) in acc.iter().enumerate() {
            let to = sums[r * wide + v * 16..][..16].as_mut_ptr();
            _mm256_storeu_si256(to.cast(), acc[0]);
            _mm256_storeu_si256(to.add(8).cast(), acc[1]);
        }
    }
}
