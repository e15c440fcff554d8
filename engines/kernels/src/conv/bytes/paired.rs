//! The register tile by products of bytes whose pairs are added in 16 bits, on machines without a
//! dot product of bytes. It takes three instructions for what 16-bit pairs (`widened`) take four
//! for, and bytes of the copy are not widened. Pairs of weights that would saturate are halved
//! (`gemm::halved`); their second halves are added when a row is done. Filters with many such pairs
//! are left to `widened`.
use super::tile::{DEEP, ROWS, Step};
use super::widened;
use crate::gemm::halved::{RARE, add_four, halves, unsafe_pairs};
use std::arch::x86_64::*;

/// Output channels whose sums stay in registers.
const HALF: usize = ROWS / 2;
/// Blocks of four channels in a row of a step of the filter.
const FOURS: usize = DEEP / 4;

/// The second half of four weights of a row, and where the bytes that they multiply begin in the
/// copy.
#[derive(Clone, Copy)]
struct Rest {
    at: usize,
    weights: i32,
}

/// The filter of eight output channels with safe pairs.
pub(super) struct Split {
    /// Eight rows for each step.
    own: Vec<[i32; FOURS]>,
    /// The second halves, by rows, and the furthest place that they read.
    rest: [Vec<Rest>; ROWS],
    far: usize,
    /// Whether these are few; otherwise the filter is not split.
    few: bool,
}

/// Like [`super::tile::tile`], for eight output channels. `all` holds what was split before, of this
/// filter and for copies of the same form.
///
/// # Safety
/// The machine must have AVX2, and [`Step::check`] must hold.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn tile(s: &Step<'_>, first: usize, vectors: usize, all: &mut Vec<Option<Split>>, sums: &mut [i32]) {
    if s.fours == 0 || s.places.is_empty() {
        return sums.fill(0);
    }
    let at = first / ROWS;
    if all.len() <= at {
        all.resize_with(at + 1, || None);
    }
    let split = match &mut all[at] {
        Some(split) => split,
        // Not by a closure, which would not have the target features.
        none => none.insert(split(s, first)),
    };
    if !split.few {
        // SAFETY: as the caller guarantees.
        return unsafe { widened::tile(s, first, vectors, sums) };
    }
    assert!(split.own.len() == s.fours.div_ceil(FOURS) * s.places.len() * ROWS);
    assert!(split.far + vectors * 16 <= s.copy.len());
    // SAFETY: as the caller guarantees, and by these lengths.
    unsafe {
        for v in 0..vectors {
            for r in (0..ROWS).step_by(HALF) {
                half(s, &split.own[r..], v, &mut sums[r * vectors * 16..][..HALF * vectors * 16]);
            }
        }
        for (rest, sums) in split.rest.iter().zip(sums.chunks_exact_mut(vectors * 16)) {
            add_rest(s, rest, sums);
        }
    }
}

/// Splits eight rows of every step of the filter, as long as second halves are few.
#[target_feature(enable = "avx2,fma,f16c")]
fn split(s: &Step<'_>, first: usize) -> Split {
    let steps = s.fours.div_ceil(FOURS) * s.places.len();
    let mut split =
        Split { own: vec![[0; FOURS]; steps * ROWS], rest: [const { Vec::new() }; ROWS], far: 0, few: true };
    let (most, mut count) = (split.own.len() * FOURS / RARE, 0);
    for (i, to) in split.own.as_chunks_mut::<ROWS>().0.iter_mut().enumerate() {
        let from = &s.filter[i * s.stride + first * DEEP..][..ROWS * DEEP];
        let (c, t) = (i / s.places.len(), i % s.places.len());
        for ((to, from), rest) in to.iter_mut().zip(from.as_chunks::<DEEP>().0).zip(split.rest.iter_mut()) {
            // SAFETY: this reads and writes 32 bytes.
            let (w, to) = unsafe { (_mm256_loadu_si256(from.as_ptr().cast()), to.as_mut_ptr().cast()) };
            let large = unsafe_pairs(w);
            let [own, second] = halves(w, large);
            // SAFETY: as above.
            unsafe { _mm256_storeu_si256(to, own) };
            if _mm256_movemask_epi8(large) == 0 {
                continue;
            }
            let mut words = [0i32; FOURS];
            // SAFETY: this writes 32 bytes.
            unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), second) };
            // Channels beyond the last block of four may have any weights, and no bytes.
            for (f, weights) in words.into_iter().enumerate().take(s.fours - c * FOURS) {
                if weights != 0 {
                    let at = (c * FOURS + f) * s.four + s.places[t] as usize;
                    rest.push(Rest { at, weights });
                    split.far = split.far.max(at);
                    count += 1;
                }
            }
        }
        if count > most {
            return Split { own: Vec::new(), rest: [const { Vec::new() }; ROWS], far: 0, few: false };
        }
    }
    split
}

/// Computes four output channels by vector `v` of sixteen positions; `own` begins at the first of
/// these channels.
///
/// # Safety
/// As for [`tile`]; `sums` must have a row of vectors for each of the channels.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn half(s: &Step<'_>, own: &[[i32; FOURS]], v: usize, sums: &mut [i32]) {
    let mut acc = [[_mm256_setzero_si256(); 2]; HALF];
    let mut w = own.as_ptr().cast::<i32>();
    // SAFETY: filter and copy are long enough by `Step::check`.
    unsafe {
        for c in 0..s.fours.div_ceil(FOURS) {
            let here = (s.fours - c * FOURS).min(FOURS);
            let x = s.copy.as_ptr().add(c * FOURS * s.four + v * 16);
            for place in s.places {
                let mut x = x.add(*place as usize);
                for f in 0..here {
                    let (a, b) = (_mm256_loadu_si256(x.cast()), _mm256_loadu_si256(x.add(8).cast()));
                    for (r, acc) in acc.iter_mut().enumerate() {
                        let w = _mm256_set1_epi32(w.add(r * FOURS + f).read());
                        acc[0] = add_four(acc[0], a, w);
                        acc[1] = add_four(acc[1], b, w);
                    }
                    x = x.wrapping_add(s.four);
                }
                w = w.wrapping_add(ROWS * FOURS);
            }
        }
    }
    let wide = sums.len() / HALF;
    for (r, acc) in acc.iter().enumerate() {
        let to = sums[r * wide + v * 16..][..16].as_mut_ptr();
        // SAFETY: sixteen sums can be written.
        unsafe {
            _mm256_storeu_si256(to.cast(), acc[0]);
            _mm256_storeu_si256(to.add(8).cast(), acc[1]);
        }
    }
}

/// Adds the products of the second halves to the sums of a row.
///
/// # Safety
/// As for [`tile`]; `rest` must be of this step.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn add_rest(s: &Step<'_>, rest: &[Rest], sums: &mut [i32]) {
    if rest.is_empty() {
        return;
    }
    for (v, sums) in sums.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let to = sums.as_mut_ptr().cast::<__m256i>();
        // SAFETY: these are sixteen sums.
        let (mut low, mut high) = unsafe { (_mm256_loadu_si256(to), _mm256_loadu_si256(to.add(1))) };
        for r in rest {
            let w = _mm256_set1_epi32(r.weights);
            // SAFETY: the copy is long enough by `Step::check`.
            let [a, b] = unsafe {
                let x = s.copy.as_ptr().add(r.at + v * 16);
                [_mm256_loadu_si256(x.cast()), _mm256_loadu_si256(x.add(8).cast())]
            };
            (low, high) = (add_four(low, a, w), add_four(high, b, w));
        }
        // SAFETY: as above.
        unsafe {
            _mm256_storeu_si256(to, low);
            _mm256_storeu_si256(to.add(1), high);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tile::{self, Kept};
    use super::*;
    use crate::simd::{Level, with_level};

    /// Filters with no, few and many large pairs, at every remainder of the channels, against the
    /// plain loop. The unused channels of the last block have large weights too.
    #[test]
    fn sums_are_those_of_the_plain_tile_however_many_pairs_are_large() {
        let cases = [(0, 1, 2), (1, 1, 1), (2, 9, 1), (3, 2, 4), (8, 1, 2), (9, 9, 3), (16, 3, 2), (19, 1, 1)];
        for ((fours, taps, vectors), large) in cases.into_iter().flat_map(|c| [0usize, 57, 2].map(|l| (c, l))) {
            let (own, four) = (16 * DEEP, vectors * 16 + 11);
            let filter: Vec<i8> = (0..usize::div_ceil(fours, FOURS) * taps * own)
                .map(|i| match i {
                    _ if large > 0 && i / 2 % large == 1 => [-128, 127, -127][i / 2 / large % 3],
                    _ => (i * 91 % 127) as i8 - 63,
                })
                .collect();
            let copy: Vec<u32> =
                (0..fours * four).map(|i| if i % 3 == 0 { u32::MAX } else { i as u32 * 2_654_435_761 }).collect();
            let places: Vec<u32> = (0..taps as u32).map(|t| t * 5 % 12).collect();
            let step = Step { filter: &filter, stride: own, places: &places, fours, four, copy: &copy };
            for first in [0, 8] {
                let mut want = vec![0; ROWS * vectors * 16];
                tile::plain(&step, first, vectors, &mut want);
                for level in Level::available() {
                    let mut got = vec![-7; want.len()];
                    with_level(level, || {
                        // Once more with what was kept.
                        let mut kept = Kept::default();
                        tile::tile(&step, first, vectors, &mut kept, &mut got);
                        assert_eq!(got, want, "{level:?} {fours} {taps} {vectors} {large}");
                        got.fill(-7);
                        tile::tile(&step, first, vectors, &mut kept, &mut got);
                    });
                    assert_eq!(got, want, "{level:?} {fours} {taps} {vectors} {large}");
                }
            }
        }
    }
}
