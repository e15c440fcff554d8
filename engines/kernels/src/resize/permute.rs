//! Blocks of output elements whose input elements fit in a few registers of AVX-512 or AVX2.
use super::along::{Blocks, FAR, LANES};
use crate::simd::{Level, level};
use std::arch::x86_64::*;

/// Computes the output row. Returns false, without writing, if the machine has no such registers or
/// a block spans too many elements.
pub(super) fn run(taps: usize, blocks: &Blocks, from: &[f32], to: &mut [f32]) -> bool {
    // SAFETY: the level is only reported if the machine has its features.
    unsafe {
        match (level(), blocks.span()) {
            (Level::Scalar, _) => return false,
            (Level::Avx2, 0..=8) => halves::<1>(taps, blocks, from, to),
            (Level::Avx2, 9..=16) => halves::<2>(taps, blocks, from, to),
            (Level::Avx2, 17..=32) => halves::<4>(taps, blocks, from, to),
            (Level::Avx2, 33..=64) => halves::<8>(taps, blocks, from, to),
            (Level::Avx2, _) => return false,
            (_, 0..=16) => rows::<1>(taps, blocks, from, to),
            (_, 17..=32) => rows::<2>(taps, blocks, from, to),
            (_, 33..=64) => rows::<4>(taps, blocks, from, to),
            _ => return false,
        }
    }
    true
}

/// With `N` registers per block.
#[target_feature(enable = "avx512f")]
fn rows<const N: usize>(taps: usize, blocks: &Blocks, from: &[f32], to: &mut [f32]) {
    let mut last = [0.0; LANES];
    let (whole, rest) = to.as_chunks_mut::<LANES>();
    for ((start, list), to) in blocks.each(taps).zip(whole.iter_mut().chain([&mut last])) {
        let window = from[start..start + N * LANES].as_chunks::<LANES>().0;
        // SAFETY: sixteen numbers can be read from each chunk.
        let held: [__m512; N] = std::array::from_fn(|i| unsafe { _mm512_loadu_ps(window[i].as_ptr()) });
        let mut sum = _mm512_setzero_ps();
        for (tap, (places, weights)) in list.enumerate() {
            // SAFETY: sixteen numbers can be read from both.
            let (at, w) = unsafe { (_mm512_loadu_si512(places.as_ptr().cast()), _mm512_loadu_ps(weights.as_ptr())) };
            let v = match N {
                1 => _mm512_permutexvar_ps(at, held[0]),
                2 => _mm512_permutex2var_ps(held[0], at, held[1]),
                _ => {
                    let low = _mm512_permutex2var_ps(held[0], at, held[1]);
                    let high = _mm512_permutex2var_ps(held[2], at, held[3]);
                    _mm512_mask_mov_ps(low, _mm512_test_epi32_mask(at, _mm512_set1_epi32(32)), high)
                }
            };
            sum = if tap == 0 { _mm512_mul_ps(v, w) } else { _mm512_fmadd_ps(v, w, sum) };
        }
        // SAFETY: sixteen numbers can be written.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), sum) };
    }
    rest.copy_from_slice(&last[..rest.len()]);
}

/// With `N` registers of eight lanes per block, whose elements are computed eight at a time.
#[target_feature(enable = "avx2,fma")]
fn halves<const N: usize>(taps: usize, blocks: &Blocks, from: &[f32], to: &mut [f32]) {
    let mut last = [0.0; LANES];
    let (whole, rest) = to.as_chunks_mut::<LANES>();
    let all = blocks.each(taps).zip(whole.iter_mut().chain([&mut last]));
    for (block, ((start, list), to)) in all.enumerate() {
        let window = from[start..start + N * 8].as_chunks::<8>().0;
        // Fewer registers are permuted as fast as each tap's own.
        if N > 4
            && let Some(first) = &blocks.halves()[block]
        {
            near_halves(list.zip(first), &from[start..], to);
            continue;
        }
        // SAFETY: eight numbers can be read from each chunk.
        let held: [__m256; N] = std::array::from_fn(|i| unsafe { _mm256_loadu_ps(window[i].as_ptr()) });
        let mut sums = [_mm256_setzero_ps(); 2];
        for (tap, (places, weights)) in list.enumerate() {
            let halves = places.as_chunks::<8>().0.iter().zip(weights.as_chunks::<8>().0);
            for ((places, weights), sum) in halves.zip(&mut sums) {
                // SAFETY: eight numbers can be read from both.
                let (at, w) =
                    unsafe { (_mm256_loadu_si256(places.as_ptr().cast()), _mm256_loadu_ps(weights.as_ptr())) };
                let v = seen(held, at);
                *sum = if tap == 0 { _mm256_mul_ps(v, w) } else { _mm256_fmadd_ps(v, w, *sum) };
            }
        }
        for (to, sum) in to.as_chunks_mut::<8>().0.iter_mut().zip(sums) {
            // SAFETY: eight numbers can be written.
            unsafe { _mm256_storeu_ps(to.as_mut_ptr(), sum) };
        }
    }
    rest.copy_from_slice(&last[..rest.len()]);
}

/// Computes a block for most halves of which a tap reads what one register holds. All positions
/// must be within `from`.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn near_halves<'a>(
    taps: impl Iterator<Item = ((&'a [u32; LANES], &'a [f32; LANES]), &'a [u32; 2])>,
    from: &[f32],
    to: &mut [f32; LANES],
) {
    let mut sums = [_mm256_setzero_ps(); 2];
    for (tap, ((places, weights), first)) in taps.enumerate() {
        let halves = places.as_chunks::<8>().0.iter().zip(weights.as_chunks::<8>().0).zip(first);
        for (((places, weights), first), sum) in halves.zip(&mut sums) {
            // SAFETY: eight numbers can be read from both.
            let (at, w) = unsafe { (_mm256_loadu_si256(places.as_ptr().cast()), _mm256_loadu_ps(weights.as_ptr())) };
            let v = if *first == FAR {
                // SAFETY: the caller has checked that the positions of the block are readable.
                unsafe { _mm256_i32gather_ps::<4>(from.as_ptr(), at) }
            } else {
                let held = &from[*first as usize..][..8];
                // SAFETY: eight numbers can be read.
                let held = unsafe { _mm256_loadu_ps(held.as_ptr()) };
                // Only the last three bits of the positions count.
                _mm256_permutevar8x32_ps(held, _mm256_sub_epi32(at, _mm256_set1_epi32(*first as i32)))
            };
            *sum = if tap == 0 { _mm256_mul_ps(v, w) } else { _mm256_fmadd_ps(v, w, *sum) };
        }
    }
    for (to, sum) in to.as_chunks_mut::<8>().0.iter_mut().zip(sums) {
        // SAFETY: eight numbers can be written.
        unsafe { _mm256_storeu_ps(to.as_mut_ptr(), sum) };
    }
}

/// The numbers at eight positions in `N` registers.
#[inline]
#[target_feature(enable = "avx2")]
fn seen<const N: usize>(held: [__m256; N], at: __m256i) -> __m256 {
    let one = |i: usize| _mm256_permutevar8x32_ps(held[i], at);
    // The bit that tells the register is shifted to the sign bit, by which a blend chooses.
    let pair = |i: usize| _mm256_blendv_ps(one(i), one(i + 1), _mm256_castsi256_ps(_mm256_slli_epi32::<28>(at)));
    let four = |i: usize| _mm256_blendv_ps(pair(i), pair(i + 2), _mm256_castsi256_ps(_mm256_slli_epi32::<27>(at)));
    match N {
        1 => one(0),
        2 => pair(0),
        4 => four(0),
        _ => _mm256_blendv_ps(four(0), four(4), _mm256_castsi256_ps(_mm256_slli_epi32::<26>(at))),
    }
}
