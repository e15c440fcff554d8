//! Packed panels of signed bytes whose pairs are safe (`halved`), for products with many rows on
//! machines without a dot product of bytes. Large pairs are halved when the panels are prepared,
//! and their second halves are added when a tile of sums is done.
use super::halved::{RARE, add_four, halves, unsafe_pairs};
use std::arch::x86_64::*;
use std::borrow::Cow;
use std::ops::Range;

/// Maximum number of rows that are multiplied with a panel together.
const ROWS: usize = 4;
/// From this number of rows on, preparing panels takes little time beside their products.
pub(crate) const LEAST_ROWS: usize = 32;
/// Bytes of four consecutive k of a panel, and of half of its columns.
const GROUP: usize = 64;
const HALF: usize = GROUP / 2;

/// Second halves of pairs of one group of a panel, of half of its columns.
struct Rest {
    group: usize,
    weights: [i8; HALF],
}

/// Panels of `len` rows each, `apart` bytes from each other, with the second halves of each panel:
/// those of columns 0 to 7, then those of columns 8 to 15.
pub(crate) struct SplitPanels<'p> {
    panels: Cow<'p, [i8]>,
    len: usize,
    apart: usize,
    rest: Vec<[Vec<Rest>; 2]>,
}

impl<'p> SplitPanels<'p> {
    /// Prepares panels as `gemm::int8` packs them, with `len` rounded up to a multiple of four.
    /// They are copied only if a pair is not safe. `None` if products by halves are not faster
    /// here: the machine has better instructions or lacks these, or many pairs are not safe.
    pub(crate) fn of(panels: &'p [i8], len: usize, apart: usize) -> Option<SplitPanels<'p>> {
        assert!(len.is_multiple_of(4) && apart >= len * 16);
        let level = crate::simd::level();
        if len == 0 || level < crate::simd::Level::Avx2 || crate::simd::level::vnni() {
            return None;
        }
        let mut all = SplitPanels { panels: Cow::Borrowed(panels), len, apart, rest: Vec::new() };
        // SAFETY: the level is only reported if the machine has its features.
        unsafe { all.split(panels) }.then_some(all)
    }

    /// Halves the large pairs. Returns `false` if there are too many.
    #[target_feature(enable = "avx2,fma,f16c")]
    fn split(&mut self, panels: &[i8]) -> bool {
        let (groups, mut count) = (self.len / 4, 0);
        for (p, panel) in panels.chunks(self.apart).enumerate() {
            let mut rest = [Vec::new(), Vec::new()];
            for (g, cells) in panel.as_chunks::<GROUP>().0.iter().enumerate().take(groups) {
                let [low, high] = both(cells);
                let (first, last) = (unsafe_pairs(low), unsafe_pairs(high));
                let some = _mm256_or_si256(first, last);
                if _mm256_testz_si256(some, some) == 1 {
                    continue;
                }
                let own = &mut self.panels.to_mut()[p * self.apart + g * GROUP..][..GROUP];
                let sides = own.as_chunks_mut::<HALF>().0.iter_mut().zip(&mut rest);
                for ((own, rest), (w, large)) in sides.zip([(low, first), (high, last)]) {
                    if _mm256_testz_si256(large, large) == 0 {
                        let [safe, second] = halves(w, large);
                        let mut weights = [0; HALF];
                        put(safe, own);
                        put(second, &mut weights);
                        rest.push(Rest { group: g, weights });
                        count += 1;
                    }
                }
            }
            // The few groups of a small product must not decide alone.
            if count > (p + 1) * groups * 2 / RARE + 1 {
                return false;
            }
            self.rest.push(rest);
        }
        true
    }

    /// Raw sums of contiguous rows of bytes with some of the panels. In `to`, the sums of
    /// consecutive rows are `stride` apart, and the sixteen sums of a panel follow those of the
    /// previous panel.
    pub(crate) fn product(&self, rows: &[u8], panels: Range<usize>, to: &mut [i32], stride: usize) {
        // SAFETY: panels are only prepared on machines that have the features.
        unsafe { self.tiles(rows, panels, to, stride) }
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    fn tiles(&self, rows: &[u8], panels: Range<usize>, to: &mut [i32], stride: usize) {
        let count = rows.len() / self.len;
        for (at, p) in panels.enumerate() {
            let panel = &self.panels[p * self.apart..][..self.len * 16];
            let mut i = 0;
            while i < count {
                let (rows, to) = (&rows[i * self.len..], &mut to[i * stride + at * 16..]);
                i += match count - i {
                    ROWS.. => tile::<ROWS>(rows, panel, &self.rest[p], to, stride),
                    3 => tile::<3>(rows, panel, &self.rest[p], to, stride),
                    2 => tile::<2>(rows, panel, &self.rest[p], to, stride),
                    _ => tile::<1>(rows, panel, &self.rest[p], to, stride),
                };
            }
        }
    }
}

/// Computes the sums of `R` rows and a panel. Returns `R`.
#[target_feature(enable = "avx2,fma,f16c")]
fn tile<const R: usize>(rows: &[u8], panel: &[i8], rest: &[Vec<Rest>; 2], to: &mut [i32], stride: usize) -> usize {
    let cells = panel.as_chunks::<GROUP>().0;
    let rows = rows.as_chunks::<4>().0;
    assert!(rows.len() >= R * cells.len());
    let four = |r: usize, g: usize| {
        // SAFETY: each row has as many groups as the panel, as asserted, and `g` is one of them.
        _mm256_set1_epi32(i32::from_le_bytes(unsafe { *rows.get_unchecked(r * cells.len() + g) }))
    };
    let mut acc = [[_mm256_setzero_si256(); 2]; R];
    for (g, cells) in cells.iter().enumerate() {
        let [a, b] = both(cells);
        for (r, acc) in acc.iter_mut().enumerate() {
            let x = four(r, g);
            *acc = [add_four(acc[0], x, a), add_four(acc[1], x, b)];
        }
    }
    for rest in &rest[0] {
        assert!(rest.group < cells.len());
        let w = load(&rest.weights);
        for (r, acc) in acc.iter_mut().enumerate() {
            acc[0] = add_four(acc[0], four(r, rest.group), w);
        }
    }
    for rest in &rest[1] {
        assert!(rest.group < cells.len());
        let w = load(&rest.weights);
        for (r, acc) in acc.iter_mut().enumerate() {
            acc[1] = add_four(acc[1], four(r, rest.group), w);
        }
    }
    for (r, acc) in acc.into_iter().enumerate() {
        let to = to[r * stride..][..16].as_mut_ptr().cast::<__m256i>();
        // SAFETY: sixteen numbers can be written.
        unsafe {
            _mm256_storeu_si256(to, acc[0]);
            _mm256_storeu_si256(to.add(1), acc[1]);
        }
    }
    R
}

/// The bytes of columns 0 to 7 and of columns 8 to 15.
#[inline]
#[target_feature(enable = "avx2")]
fn both(cells: &[i8; GROUP]) -> [__m256i; 2] {
    let from = cells.as_ptr();
    // SAFETY: 64 bytes can be read.
    unsafe { [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(HALF).cast())] }
}

/// Half a group.
#[inline]
#[target_feature(enable = "avx2")]
fn load(cells: &[i8; HALF]) -> __m256i {
    // SAFETY: 32 bytes can be read.
    unsafe { _mm256_loadu_si256(cells.as_ptr().cast()) }
}

/// Writes what [`load`] reads.
#[inline]
#[target_feature(enable = "avx2")]
fn put(v: __m256i, to: &mut [i8; HALF]) {
    // SAFETY: 32 bytes can be written.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), v) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, level, with_level};

    /// Rows by panels with no, few and many large pairs, against the definition.
    #[test]
    fn products_are_the_definition_and_dense_panels_are_left_alone() {
        for (m, len, panels, beside) in [(1, 4, 1, 0), (3, 8, 2, 64), (4, 400, 1, 0), (7, 60, 3, 64), (12, 128, 2, 0)] {
            for large in [0usize, 301, 3] {
                let a: Vec<u8> = (0..m * len).map(|i| if i % 3 == 0 { 255 } else { (i * 37 % 256) as u8 }).collect();
                let apart = len * 16 + beside;
                let b: Vec<i8> = (0..panels * apart)
                    .map(|i| match i {
                        _ if large > 0 && i / 2 % large == 1 => [-128, 127][i / 2 / large % 2],
                        _ => (i * 91 % 127) as i8 - 63,
                    })
                    .collect();
                let of = |i: usize, p: usize, j: usize| {
                    let cell = |k: usize| i32::from(b[p * apart + k / 4 * 64 + j * 4 + k % 4]);
                    (0..len).map(|k| i32::from(a[i * len + k]) * cell(k)).sum::<i32>()
                };
                for set in Level::available() {
                    with_level(set, || {
                        let split = SplitPanels::of(&b, len, apart);
                        let here = set >= Level::Avx2 && !level::vnni() && large != 3;
                        assert_eq!(split.is_some(), here, "{set:?} {m} {len} {large}");
                        let Some(split) = split else { return };
                        assert!(large > 0 || matches!(split.panels, Cow::Borrowed(_)));
                        let stride = panels * 16 + 5;
                        for some in (0..panels).flat_map(|p| (p..=panels).map(move |q| p..q)) {
                            let mut sums = vec![-9; m * stride];
                            split.product(&a, some.clone(), &mut sums, stride);
                            for (at, sum) in sums.iter().enumerate() {
                                let (i, column) = (at / stride, at % stride);
                                let inside = column < some.len() * 16;
                                let want = if inside { of(i, some.start + column / 16, column % 16) } else { -9 };
                                assert_eq!(*sum, want, "{m} {len} {large} {some:?} {i} {column}");
                            }
                        }
                    });
                }
            }
        }
    }
}
