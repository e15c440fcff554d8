//! Weights for the instruction that multiplies bytes and adds pairs of products in 16 bits. It
//! saturates where both weights of a pair are large and of equal sign. Such a pair is the sum of
//! two halves that cannot: a pair is safe if its sum is at most 128 in magnitude, because 255 times
//! that fits 16 bits, and weights of different signs always are. Large pairs are rare in trained
//! weights, so a product adds their second halves afterwards.
use std::arch::x86_64::*;

/// Greatest magnitude of the sum of a safe pair.
const SAFE: i16 = 128;
/// A product by halves pays if at most one of this many steps has a second half.
pub(crate) const RARE: usize = 3;

/// The pairs of weights among 32 that are not safe, as the bits of their bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn unsafe_pairs(w: __m256i) -> __m256i {
    let sums = _mm256_abs_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), w));
    _mm256_cmpgt_epi16(sums, _mm256_set1_epi16(SAFE))
}

/// Two summands of 32 weights, all of whose pairs are safe. The second one is zero except for the
/// pairs in `large`.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn halves(w: __m256i, large: __m256i) -> [__m256i; 2] {
    // The average of a byte and zero is rounded up; as an unsigned byte, a weight is 128 more.
    let bytes = _mm256_xor_si256(w, _mm256_set1_epi8(-128));
    let half = _mm256_sub_epi8(_mm256_avg_epu8(bytes, _mm256_setzero_si256()), _mm256_set1_epi8(64));
    let second = _mm256_and_si256(half, large);
    [_mm256_sub_epi8(w, second), second]
}

/// Adds to each sum the products of four bytes and four safe weights.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn add_four(sums: __m256i, bytes: __m256i, weights: __m256i) -> __m256i {
    let pairs = _mm256_maddubs_epi16(bytes, weights);
    _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, level};

    #[target_feature(enable = "avx2")]
    fn all_pairs() {
        let load = |v: &[i8; 32]| {
            // SAFETY: 32 bytes can be read.
            unsafe { _mm256_loadu_si256(v.as_ptr().cast()) }
        };
        let bytes = |v: __m256i| {
            let mut out = [0i8; 32];
            // SAFETY: 32 bytes can be written.
            unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), v) };
            out
        };
        let safe = |a: i8, b: i8| (i32::from(a) + i32::from(b)).abs() <= 128 || (a < 0) != (b < 0);
        for first in i8::MIN..=i8::MAX {
            for block in 0..16 {
                let second = |i: usize| (block * 16 + i) as u8 as i8;
                let w: [i8; 32] = std::array::from_fn(|i| if i % 2 == 0 { first } else { second(i / 2) });
                let large = unsafe_pairs(load(&w));
                let [own, rest] = halves(load(&w), large).map(bytes);
                for (i, large) in bytes(large).as_chunks::<2>().0.iter().enumerate() {
                    let [a, b] = [own[2 * i], own[2 * i + 1]];
                    let [c, d] = [rest[2 * i], rest[2 * i + 1]];
                    assert_eq!(
                        [i16::from(a) + i16::from(c), i16::from(b) + i16::from(d)],
                        [w[2 * i], w[2 * i + 1]].map(i16::from)
                    );
                    assert!(safe(a, b) && safe(c, d), "{first} {}", second(i));
                    assert_eq!(*large != [0, 0], !safe(w[2 * i], w[2 * i + 1]));
                    assert!(*large != [0, 0] || [c, d] == [0, 0]);
                }
                for x in [0u8, 1, 127, 128, 255] {
                    let x8 = _mm256_set1_epi8(x as i8);
                    let sums = add_four(add_four(_mm256_set1_epi32(5), x8, load(&own)), x8, load(&rest));
                    let got: Vec<i32> =
                        bytes(sums).as_chunks::<4>().0.iter().map(|v| i32::from_le_bytes(v.map(|v| v as u8))).collect();
                    let of = |four: &[i8; 4]| 5 + i32::from(x) * four.iter().map(|v| i32::from(*v)).sum::<i32>();
                    let want: Vec<i32> = w.as_chunks::<4>().0.iter().map(of).collect();
                    assert_eq!(got, want);
                }
            }
        }
    }

    #[test]
    fn halves_of_every_pair_are_safe_and_their_sum_is_the_pair() {
        if level() >= Level::Avx2 {
            // SAFETY: the level is only reported if the machine has its features.
            unsafe { all_pairs() };
        }
    }
}
