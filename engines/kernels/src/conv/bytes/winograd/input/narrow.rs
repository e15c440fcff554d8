//! Transforms eight tiles at a time, on machines whose loads have no byte masks. Whole registers
//! are read, and bytes that are not columns of the row are discarded.
use super::super::ring::{narrow::Halves, seen};
use super::super::{LANES, PLACES, SIDE, STEP};
use super::Segment;
use std::arch::x86_64::*;

/// Tiles of a vector.
const TILES: usize = LANES / 2;

/// Transforms one vector of pair `pair` of the channels of `x`, as [`super::on_avx512`] does.
///
/// # Safety
/// The machine must have AVX2, the segments must be for planes of `size` bytes, and `to` must have
/// a vector of words at each of the 36 multiples of `pitch`.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn change(
    x: &[u8],
    pair: usize,
    size: usize,
    (flip, zero): (u8, u8),
    segments: &[Segment],
    pitch: usize,
    to: &mut [u32],
) {
    assert!(to.len() >= (PLACES - 1) * pitch + TILES);
    let (flips, beside) = (_mm256_set1_epi8(flip as i8), _mm256_set1_epi8((zero ^ flip) as i8));
    let low = _mm256_set1_epi16(0xff);
    // If the last pair has only one channel, that channel also stands for the second, whose filter
    // is zero.
    let first = 2 * pair * size;
    let planes = [first, if first + 2 * size <= x.len() { first + size } else { first }];
    let row = |i: usize| {
        let (mut a, mut e, mut b, mut f) = (beside, beside, beside, beside);
        for s in segments {
            if !s.rows[i] {
                continue;
            }
            let (own, next) = (s.masks[0] as u32, s.masks[1] as u32);
            let at = s.from + (i * s.width) as isize;
            let (p, q) = (planes[0] as isize + at, planes[1] as isize + at);
            if own != 0 {
                let mask = bytes_of(own);
                a = _mm256_blendv_epi8(a, bytes_at(x, p), mask);
                b = _mm256_blendv_epi8(b, bytes_at(x, q), mask);
            }
            if next != 0 {
                let mask = bytes_of(next);
                e = _mm256_blendv_epi8(e, bytes_at(x, p + STEP as isize), mask);
                f = _mm256_blendv_epi8(f, bytes_at(x, q + STEP as isize), mask);
            }
        }
        // Combines the lower halves of two words, and the upper halves.
        let ab = _mm256_blend_epi16::<0xaa>(a, _mm256_slli_epi32::<16>(b));
        let cd = _mm256_blend_epi16::<0xaa>(_mm256_srli_epi32::<16>(a), b);
        let ef = _mm256_blend_epi16::<0xaa>(e, _mm256_slli_epi32::<16>(f));
        let (ab, cd, ef) = (_mm256_xor_si256(ab, flips), _mm256_xor_si256(cd, flips), _mm256_xor_si256(ef, flips));
        seen([
            Halves(_mm256_and_si256(ab, low)),
            Halves(_mm256_srli_epi16::<8>(ab)),
            Halves(_mm256_and_si256(cd, low)),
            Halves(_mm256_srli_epi16::<8>(cd)),
            Halves(_mm256_and_si256(ef, low)),
            Halves(_mm256_srli_epi16::<8>(ef)),
        ])
    };
    // Called one by one: a function that maps a closure over an array lacks the target features.
    let half: [[Halves; SIDE]; SIDE] = [row(0), row(1), row(2), row(3), row(4), row(5)];
    let column = |j: usize| [half[0][j], half[1][j], half[2][j], half[3][j], half[4][j], half[5][j]];
    for j in 0..SIDE {
        for (i, x) in seen(column(j)).into_iter().enumerate() {
            // SAFETY: this writes eight words of the output.
            unsafe { _mm256_storeu_si256(to.as_mut_ptr().add((i * SIDE + j) * pitch).cast(), x.0) };
        }
    }
}

/// Sets all bits of the bytes whose bit in `mask` is set.
#[inline]
#[target_feature(enable = "avx2")]
fn bytes_of(mask: u32) -> __m256i {
    let quarter = _mm256_setr_epi64x(0, 0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303);
    let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
    let spread = _mm256_shuffle_epi8(_mm256_set1_epi32(mask as i32), quarter);
    _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit), bit)
}

/// The 32 bytes of `x` beginning at `at`; those outside may have any value.
#[inline]
#[target_feature(enable = "avx2")]
fn bytes_at(x: &[u8], at: isize) -> __m256i {
    if at < 0 || at as usize + 32 > x.len() {
        return at_the_end(x, at);
    }
    // SAFETY: the 32 bytes are within `x`.
    unsafe { _mm256_loadu_si256(x.as_ptr().add(at as usize).cast()) }
}

#[cold]
#[target_feature(enable = "avx2")]
fn at_the_end(x: &[u8], at: isize) -> __m256i {
    let mut bytes = [0u8; 32];
    for (i, b) in bytes.iter_mut().enumerate() {
        *b = usize::try_from(at + i as isize).ok().and_then(|i| x.get(i)).copied().unwrap_or(0);
    }
    // SAFETY: `bytes` has 32 bytes.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}
