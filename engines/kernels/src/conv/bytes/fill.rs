//! The padded copy of a strip of bytes: four channels of a position side by side, with the zero
//! point in the border.
#[cfg(target_arch = "x86_64")]
pub(super) mod masked;

use crate::conv::image::{Image, SourceRows};

/// Copies what output rows `y.0..y.1` of depth `z` need from `deep` channels; `x` begins at the
/// first of them. Bytes pass through an exclusive or with `flip`. The border is `zero`. Channels
/// beyond the last are read from `blank`, and are zero after the flip.
pub(super) fn fill(
    image: &Image,
    x: &[u8],
    at: (usize, usize, (usize, usize)),
    bytes: (u8, u8),
    blank: &[u8],
    copy: &mut [u32],
) {
    #[cfg(target_arch = "x86_64")]
    if crate::simd::level() >= crate::simd::Level::Avx512 {
        let (vectors, step) = (image.pitch.div_ceil(16), image.columns().1);
        if vectors <= masked::MOST && step <= 2 {
            // SAFETY: the level is only reported if the machine has its features.
            return unsafe {
                if step == 1 {
                    masked::fill::<1>(image, x, at, bytes, copy)
                } else {
                    masked::fill::<2>(image, x, at, bytes, copy)
                }
            };
        }
    }
    by_rows(image, x, at, bytes, blank, copy);
}

crate::multiversion! {
    fn by_rows(image: &Image, x: &[u8], at: (usize, usize, (usize, usize)), bytes: (u8, u8), blank: &[u8], copy: &mut [u32]) {
        let ((deep, z, y), (flip, zero)) = (at, bytes);
        let size: usize = image.spec.input.iter().product();
        let width = image.spec.input[2];
        let (before, step) = image.columns();
        for four in 0..deep.div_ceil(4) {
            let present = (deep - four * 4).min(4);
            let mut border = [0; 4];
            border[..present].fill(zero);
            let border = u32::from_le_bytes(border);
            let x = &x[four * 4 * size..];
            image.rows(four, z, y, copy, Woven { x, size, width, present, blank, flip: u32::from_le_bytes([flip; 4]), border, before, step });
        }
    }
}

/// Source rows of four channels, of which only the first `present` exist.
struct Woven<'p> {
    x: &'p [u8],
    /// Bytes of a channel, and of a row.
    size: usize,
    width: usize,
    present: usize,
    blank: &'p [u8],
    flip: u32,
    border: u32,
    before: isize,
    step: usize,
}

impl SourceRows<u32> for Woven<'_> {
    #[inline(always)]
    fn fill(&mut self, from: Option<usize>, phase: usize, row: &mut [u32]) {
        let Some(at) = from else { return row.fill(self.border) };
        let blank = &self.blank[..self.width];
        let mut rows = [blank; 4];
        for (q, r) in rows.iter_mut().enumerate().take(self.present) {
            *r = &self.x[q * self.size + at..][..self.width];
        }
        let (n, step, from) = (row.len(), self.step, phase as isize - self.before);
        let lead = ((-from).max(0) as usize).div_ceil(step).min(n);
        let start = ((from + (lead * step) as isize).max(0) as usize).min(self.width);
        let len = (self.width - start).div_ceil(step).min(n - lead);
        row[..lead].fill(self.border);
        row[lead + len..].fill(self.border);
        weave(rows.map(|r| &r[start..]), self.flip, step, &mut row[lead..lead + len]);
    }
}

/// Sets `row[i]` to byte `i * step` of each of four rows, side by side.
#[inline(always)]
fn weave(rows: [&[u8]; 4], flip: u32, step: usize, row: &mut [u32]) {
    #[cfg(target_arch = "x86_64")]
    if step <= 2 && row.len() >= 16 && rows.iter().all(|r| r.len() > (row.len() - 1) * step) {
        let mut at = 0;
        while at < row.len() {
            // The last sixteen overlap the ones before, so that they end with the row.
            at = at.min(row.len() - 16);
            let from = rows.map(|r| &r[at * step..][..15 * step + 1]);
            if let Some((to, _)) = row[at..].split_first_chunk_mut() {
                sixteen(from, flip, to);
            }
            at += 16;
        }
        return;
    }
    let [a, b, c, d] = rows;
    let of = |a: u8, b: u8, c: u8, d: u8| {
        (u32::from(a) | u32::from(b) << 8 | u32::from(c) << 16 | u32::from(d) << 24) ^ flip
    };
    if step == 1 {
        for ((((r, a), b), c), d) in row.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            *r = of(*a, *b, *c, *d);
        }
    } else if step == 2 {
        // Pairs let the compiler recognize the pattern.
        let [p, q, s, t] = [a, b, c, d].map(|r| r.as_chunks::<2>().0);
        for ((((r, a), b), c), d) in row.iter_mut().zip(p).zip(q).zip(s).zip(t) {
            *r = of(a[0], b[0], c[0], d[0]);
        }
        if let Some(r) = row.get_mut(p.len()) {
            let i = p.len() * 2;
            *r = of(a[i], b[i], c[i], d[i]);
        }
    } else {
        for (i, r) in row.iter_mut().enumerate() {
            *r = of(a[i * step], b[i * step], c[i * step], d[i * step]);
        }
    }
}

/// Sixteen elements of [`weave`], from rows of sixteen bytes, or of thirty-one of which every
/// second is used.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn sixteen(rows: [&[u8]; 4], flip: u32, to: &mut [u32; 16]) {
    use std::arch::x86_64::*;
    // SAFETY: SSE2 is part of the architecture; each load reads sixteen existing bytes of a row,
    // and each store writes a quarter of `to`.
    unsafe {
        let load = |r: &[u8]| {
            let Some((first, rest)) = r.split_first_chunk::<16>() else { return _mm_setzero_si128() };
            let first = _mm_loadu_si128(first.as_ptr().cast());
            if rest.is_empty() {
                return first;
            }
            let Some(second) = r.last_chunk::<16>() else { return first };
            let second = _mm_srli_epi16::<8>(_mm_loadu_si128(second.as_ptr().cast()));
            _mm_packus_epi16(_mm_and_si128(first, _mm_set1_epi16(0xff)), second)
        };
        let [a, b, c, d] = rows.map(load);
        let pairs =
            [(_mm_unpacklo_epi8(a, b), _mm_unpacklo_epi8(c, d)), (_mm_unpackhi_epi8(a, b), _mm_unpackhi_epi8(c, d))];
        let flip = _mm_set1_epi32(flip as i32);
        for (to, (p, q)) in to.as_chunks_mut::<8>().0.iter_mut().zip(pairs) {
            let to = to.as_mut_ptr().cast::<__m128i>();
            _mm_storeu_si128(to, _mm_xor_si128(_mm_unpacklo_epi16(p, q), flip));
            _mm_storeu_si128(to.add(1), _mm_xor_si128(_mm_unpackhi_epi16(p, q), flip));
        }
    }
}
