//! Blocks of output elements whose input elements lie in one, two or four registers of AVX-512.
use super::along::{Blocks, LANES};
use crate::simd::{Level, level};
use std::arch::x86_64::*;

/// Makes the output row; false where the machine has no such registers or blocks span too much.
pub(super) fn run(taps: usize, blocks: &Blocks, from: &[f32], to: &mut [f32]) -> bool {
    if level() < Level::Avx512 {
        return false;
    }
    // SAFETY: the level is only reported when the machine has its features.
    unsafe {
        match blocks.span() {
            0..=16 => rows::<1>(taps, blocks, from, to),
            17..=32 => rows::<2>(taps, blocks, from, to),
            33..=64 => rows::<4>(taps, blocks, from, to),
            _ => return false,
        }
    }
    true
}

/// With `N` registers a block.
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
