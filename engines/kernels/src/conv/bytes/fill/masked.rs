//! The padded copy of a strip of bytes by vectors of sixteen positions. A vector is one load per
//! channel of the columns that exist, with the border blended in, and one store. What a store
//! writes beyond its row is overwritten by later rows or never read.
use crate::conv::image::Image;
use std::arch::x86_64::*;

/// Most vectors of a row of the copy.
pub(super) const MOST: usize = 16;

/// Like [`super::fill`], for rows of up to [`MOST`] vectors and every `S`th column of the input,
/// where `S` is 1 or 2.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn fill<const S: usize>(
    image: &Image,
    x: &[u8],
    at: (usize, usize, (usize, usize)),
    bytes: (u8, u8),
    copy: &mut [u32],
) {
    let ((deep, z, y), (flip, zero)) = (at, bytes);
    let size: usize = image.spec.input.iter().product();
    let width = image.spec.input[2];
    let vectors = image.pitch.div_ceil(16).min(MOST);
    let (rows, planes) = (image.rows_of(y), image.planes(z, y));
    // The four channels of a position are sixteen bytes apart. First the blocks of four positions
    // that belong together are made adjacent, then their bytes.
    let fours = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    let bytes = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    let flips = _mm512_set1_epi8(flip as i8);
    let mut masks = [0u32; MOST];
    for four in 0..deep.div_ceil(4) {
        let present = (deep - four * 4).min(4);
        let x = &x[four * 4 * size..][..present * size];
        let beside: [__m256i; 4] =
            std::array::from_fn(|q| _mm256_set1_epi8((if q < present { zero ^ flip } else { flip }) as i8));
        let border = {
            let mut border = [0; 4];
            border[..present].fill(zero);
            u32::from_le_bytes(border)
        };
        let there: [u32; 4] = std::array::from_fn(|q| if q < present { u32::MAX } else { 0 });
        for plane in &planes {
            for (j, m) in masks[..vectors].iter_mut().enumerate() {
                *m = within(plane.column + (j * 16 * S) as isize, width) as u32;
            }
            let at = four * image.channel_len() + plane.at;
            let to = &mut copy[at..at + rows.saturating_sub(1) * image.pitch + vectors * 16];
            to[..plane.first * image.pitch].fill(border);
            for r in plane.first..plane.last {
                let row = plane.source(r);
                // This is a row of the input, and the mask selects only columns of it.
                assert!((row + 1) * width <= size);
                let p = x.as_ptr().wrapping_add(row * width).wrapping_offset(plane.column).cast::<i8>();
                let to = &mut to[r * image.pitch..][..vectors * 16];
                for ((to, m), j) in to.as_chunks_mut::<16>().0.iter_mut().zip(&masks).zip(0..) {
                    let p = p.wrapping_add(j * 16 * S);
                    // SAFETY: the selected columns are columns of the row, in each channel that
                    // exists.
                    let one = |q: usize| unsafe {
                        let (p, m) = (p.wrapping_add(q * size), m & there[q]);
                        if S == 1 {
                            _mm_mask_loadu_epi8(_mm256_castsi256_si128(beside[q]), m as u16, p)
                        } else {
                            _mm256_cvtepi16_epi8(_mm256_mask_loadu_epi8(beside[q], m, p))
                        }
                    };
                    let v = _mm512_castsi128_si512(one(0));
                    let v = _mm512_inserti32x4::<1>(v, one(1));
                    let v = _mm512_inserti32x4::<2>(v, one(2));
                    let v = _mm512_inserti32x4::<3>(v, one(3));
                    let v = _mm512_shuffle_epi8(_mm512_permutexvar_epi32(fours, v), bytes);
                    // SAFETY: sixteen places can be written to `to`.
                    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), _mm512_xor_si512(v, flips)) };
                }
            }
            if plane.last < rows {
                to[plane.last * image.pitch..].fill(border);
            }
        }
    }
}

/// The columns among the 64 beginning at `column` that are within `width`, as bits.
pub(in super::super) fn within(column: isize, width: usize) -> u64 {
    let up_to = |n: isize| u64::MAX.checked_shr(64 - n.clamp(0, 64) as u32).unwrap_or(0);
    up_to(width as isize - column) & !up_to(-column)
}

#[cfg(test)]
mod tests {
    use super::within;

    #[test]
    fn columns_are_within_from_the_first_to_the_last() {
        for (column, width) in (-70..70).flat_map(|c| (0..140).map(move |w| (c, w))) {
            let want = (0..64).filter(|i| (0..width).contains(&(column + i))).fold(0, |m, i| m | 1 << i);
            assert_eq!(within(column, width as usize), want, "{column} {width}");
            let first: u32 = (0..32).filter(|i| (0..width).contains(&(column + i))).fold(0, |m, i| m | 1 << i);
            assert_eq!(within(column, width as usize) as u32, first, "{column} {width}");
        }
    }
}
