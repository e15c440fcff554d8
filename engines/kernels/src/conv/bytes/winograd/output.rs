//! Transforms the 36 products of sixteen tiles to their sums.
use super::ring::joined;
use super::{LANES, PLACES, SIDE, STEP, SUMS};

/// The inverse of 9 modulo 2^32.
const NINTH: i32 = 0x38e3_8e39;
/// The rest of 576 after the division by 9: 64, as a shift of 6 bits.
const REST: u32 = 6;

/// The sums of vectors of tiles, ordered by rows, columns and tiles, from their products ordered by
/// place.
pub(super) fn sums(products: &[i32], to: &mut [i32]) {
    assert!(products.len() * SUMS == to.len() * PLACES * LANES && to.len().is_multiple_of(SUMS));
    #[cfg(target_arch = "x86_64")]
    if crate::simd::level() >= crate::simd::Level::Avx512 {
        // SAFETY: the level is only reported if the machine has its features.
        return unsafe { on_avx512(products, to) };
    }
    #[cfg(target_arch = "x86_64")]
    if crate::simd::level() >= crate::simd::Level::Avx2 {
        // SAFETY: as above.
        return unsafe { on_avx2(products, to) };
    }
    plain(products, to);
}

crate::multiversion! {
    fn plain(products: &[i32], to: &mut [i32]) {
        let flat = products.len() / PLACES;
        for (v, to) in to.chunks_exact_mut(SUMS).enumerate() {
            let mut half = [[[0i32; LANES]; STEP]; SIDE];
            for (i, half) in half.iter_mut().enumerate() {
                for lane in 0..LANES {
                    let at = v * LANES + lane;
                    let v = joined::<i32>(std::array::from_fn(|j| products[(i * SIDE + j) * flat + at]));
                    for (half, v) in half.iter_mut().zip(v) {
                        half[lane] = v;
                    }
                }
            }
            for j in 0..STEP {
                for lane in 0..LANES {
                    let v = joined::<i32>(std::array::from_fn(|i| half[i][j][lane]));
                    for (i, v) in v.into_iter().enumerate() {
                        to[(i * STEP + j) * LANES + lane] = v.wrapping_mul(NINTH) >> REST;
                    }
                }
            }
        }
    }
}

/// Defines [`sums`] for registers of `$bits` bits.
#[cfg(target_arch = "x86_64")]
macro_rules! by_vectors {
    ($name:ident, $features:literal, $words:ident, $bits:literal, $load:ident, $store:ident, $set:ident, $mul:ident, $shr:ident) => {
        #[target_feature(enable = $features)]
        fn $name(products: &[i32], to: &mut [i32]) {
            use super::ring::$words::Words;
            use std::arch::x86_64::*;
            let flat = products.len() / PLACES;
            let ninth = $set(NINTH);
            const LONG: usize = $bits / 32;
            for at in (0..to.len() / SUMS * LANES).step_by(LONG) {
                let (v, lane) = (at / LANES, at % LANES);
                let row = |i: usize| {
                    let m = |j: usize| {
                        let from = products.as_ptr().wrapping_add((i * SIDE + j) * flat + v * LANES + lane);
                        // SAFETY: each place has a vector for each vector of sums.
                        Words(unsafe { $load(from.cast()) })
                    };
                    joined([m(0), m(1), m(2), m(3), m(4), m(5)])
                };
                // Called one by one: a function that maps a closure over an array lacks the target
                // features.
                let half: [[Words; STEP]; SIDE] = [row(0), row(1), row(2), row(3), row(4), row(5)];
                let column = |j: usize| [half[0][j], half[1][j], half[2][j], half[3][j], half[4][j], half[5][j]];
                for j in 0..STEP {
                    for (i, sum) in joined(column(j)).into_iter().enumerate() {
                        let sum = $shr::<{ REST as _ }>($mul(sum.0, ninth));
                        let to = &mut to[v * SUMS + (i * STEP + j) * LANES + lane..][..LONG];
                        // SAFETY: the slice has exactly as many sums as a register.
                        unsafe { $store(to.as_mut_ptr().cast(), sum) };
                    }
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
by_vectors!(
    on_avx512,
    "avx512f,avx512bw,avx512dq,avx512vl",
    wide,
    512,
    _mm512_loadu_si512,
    _mm512_storeu_si512,
    _mm512_set1_epi32,
    _mm512_mullo_epi32,
    _mm512_srai_epi32
);
#[cfg(target_arch = "x86_64")]
by_vectors!(
    on_avx2,
    "avx2,fma,f16c",
    narrow,
    256,
    _mm256_loadu_si256,
    _mm256_storeu_si256,
    _mm256_set1_epi32,
    _mm256_mullo_epi32,
    _mm256_srai_epi32
);
