//! Sums of products of bytes on machines without a dot product of bytes. The instruction for pairs
//! of bytes saturates where both numbers are large. So bytes are widened to 16 bits, where products
//! and sums of two are exact: of four bytes, the even ones form one pair and the odd ones another.
use crate::scratch::with_scratch;
use crate::view::seen_as_mut;
use std::arch::x86_64::*;

/// Maximum number of rows that are multiplied with a panel together.
const ROWS: usize = 4;

/// Sums of contiguous rows of `len` bytes with panels that begin `apart` bytes from each other. In
/// `to`, the sums of consecutive rows are `stride` apart, and the sixteen sums of a panel follow
/// those of the previous panel.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn product(rows: &[u8], len: usize, panels: &[i8], apart: usize, to: &mut [i32], stride: usize) {
    let (groups, count) = (len / 4, rows.len() / len);
    with_scratch(ROWS * groups * 2, |room| {
        // The working memory is lent as floats; here it holds words of the same size.
        let Ok(room) = seen_as_mut::<u32, _>(room) else { return };
        let words = room.as_chunks_mut::<2>().0;
        let mut i = 0;
        while i < count {
            let take = match count - i {
                ROWS.. => ROWS,
                2.. => 2,
                _ => 1,
            };
            let words = &mut words[..take * groups];
            let to = &mut to[i * stride..];
            for (to, four) in words.iter_mut().zip(rows[i * len..].as_chunks::<4>().0) {
                let four = u32::from_le_bytes(*four);
                *to = if take > 1 { even_and_odd(four) } else { low_and_high(four) };
            }
            for (p, panel) in panels.chunks(apart).enumerate() {
                let panel = panel[..len * 16].as_chunks::<64>().0;
                let to = &mut to[p * 16..];
                match take {
                    ROWS => some::<ROWS>(words, panel, to, stride),
                    2 => some::<2>(words, panel, to, stride),
                    _ => one(words, panel, to),
                }
            }
            i += take;
        }
    });
}

/// The even and the odd bytes of four bytes, widened to 16 bits.
#[inline(always)]
fn even_and_odd(four: u32) -> [u32; 2] {
    [four & 0x00ff_00ff, four >> 8 & 0x00ff_00ff]
}

/// The lower seven bits of four bytes, and their highest bits.
#[inline(always)]
fn low_and_high(four: u32) -> [u32; 2] {
    [four & 0x7f7f_7f7f, four >> 7 & 0x0101_0101]
}

/// The sums of `R` rows and a panel.
#[target_feature(enable = "avx2,fma,f16c")]
fn some<const R: usize>(words: &[[u32; 2]], panel: &[[i8; 64]], to: &mut [i32], stride: usize) {
    assert!(words.len() >= R * panel.len());
    let mut acc = [[_mm256_setzero_si256(); 2]; R];
    for (g, cells) in panel.iter().enumerate() {
        let (a, b) = halves(cells);
        let even =
            (_mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(a)), _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(b)));
        let odd = (_mm256_srai_epi16::<8>(a), _mm256_srai_epi16::<8>(b));
        for (r, acc) in acc.iter_mut().enumerate() {
            // SAFETY: each row has as many groups as the panel, as asserted.
            let [x, y] = unsafe { *words.get_unchecked(r * panel.len() + g) };
            let (x, y) = (_mm256_set1_epi32(x as i32), _mm256_set1_epi32(y as i32));
            acc[0] = _mm256_add_epi32(acc[0], _mm256_madd_epi16(even.0, x));
            acc[1] = _mm256_add_epi32(acc[1], _mm256_madd_epi16(even.1, x));
            acc[0] = _mm256_add_epi32(acc[0], _mm256_madd_epi16(odd.0, y));
            acc[1] = _mm256_add_epi32(acc[1], _mm256_madd_epi16(odd.1, y));
        }
    }
    for (r, acc) in acc.into_iter().enumerate() {
        store(acc, &mut to[r * stride..]);
    }
}

/// Groups whose highest bits are summed in 16 bits: each group adds two weights of magnitude 128 at
/// most.
const SHORT: usize = 120;

/// The sums of one row and a panel. The weights are read only once, so widening them would cost as
/// much as the rest. Instead the row is split: the product of pairs of bytes is exact for its lower
/// seven bits and for its highest bits.
#[target_feature(enable = "avx2,fma,f16c")]
fn one(words: &[[u32; 2]], panel: &[[i8; 64]], to: &mut [i32]) {
    let ones = _mm256_set1_epi16(1);
    let mut acc = [_mm256_setzero_si256(); 2];
    for (words, panel) in words.chunks(SHORT).zip(panel.chunks(SHORT)) {
        let mut high = [_mm256_setzero_si256(); 2];
        for (word, cells) in words.iter().zip(panel) {
            let (a, b) = halves(cells);
            let low = _mm256_set1_epi32(word[0] as i32);
            acc[0] = _mm256_add_epi32(acc[0], _mm256_madd_epi16(_mm256_maddubs_epi16(low, a), ones));
            acc[1] = _mm256_add_epi32(acc[1], _mm256_madd_epi16(_mm256_maddubs_epi16(low, b), ones));
            let top = _mm256_set1_epi32(word[1] as i32);
            high[0] = _mm256_add_epi16(high[0], _mm256_maddubs_epi16(top, a));
            high[1] = _mm256_add_epi16(high[1], _mm256_maddubs_epi16(top, b));
        }
        for (acc, high) in acc.iter_mut().zip(high) {
            *acc = _mm256_add_epi32(*acc, _mm256_madd_epi16(high, _mm256_set1_epi16(128)));
        }
    }
    store(acc, to);
}

/// Groups of four bytes, of columns 0 to 7 and of columns 8 to 15.
#[inline]
#[target_feature(enable = "avx2")]
fn halves(cells: &[i8; 64]) -> (__m256i, __m256i) {
    // SAFETY: 64 bytes can be read.
    unsafe { (_mm256_loadu_si256(cells.as_ptr().cast()), _mm256_loadu_si256(cells.as_ptr().add(32).cast())) }
}

/// Stores the sixteen sums of a row and a panel.
#[inline]
#[target_feature(enable = "avx2")]
fn store(sums: [__m256i; 2], to: &mut [i32]) {
    let to = to[..16].as_mut_ptr();
    // SAFETY: sixteen numbers can be written.
    unsafe {
        _mm256_storeu_si256(to.cast(), sums[0]);
        _mm256_storeu_si256(to.add(8).cast(), sums[1]);
    }
}
