//! Large windows with a stride of one, moving down a plane. A row of the input is read once and
//! multiplied by all rows of the taps, for all result rows that need it. The sums move on by one
//! from row to row, so there are only as many sums as the window has rows.
//!
//! The plane is copied with its borders, one band of rows at a time.
use super::{Plane, Shape};
use crate::scratch::with_scratch;
use crate::simd::isa::{Isa, Work, dispatch};

/// Most elements of a band with its borders, unless it has only one result row: half of the
/// first-level cache.
const MOST: usize = 6 << 10;
/// Results per vector.
const LANES: usize = 16;

impl Shape {
    /// Computes the rows of a plane, with windows of `K` rows and columns and a stride of one.
    pub(super) fn stream<const K: usize>(&self, mut plane: Plane<'_>) {
        let width = self.width;
        let pitch = width.next_multiple_of(LANES) + K - 1;
        let band = (MOST / pitch).saturating_sub(K - 1).clamp(1, self.rows.max(1));
        let out = std::mem::take(&mut plane.out);
        with_scratch((band + K - 1) * pitch + LANES, |copy| {
            for (b, out) in out.chunks_mut(band * width).enumerate() {
                dispatch(Band::<K> { of: self, plane: &plane, first: b * band, copy, pitch, out });
            }
        });
    }
}

/// Result rows from row `first` of the unit on.
struct Band<'p, 'o, const K: usize> {
    of: &'p Shape,
    plane: &'p Plane<'p>,
    first: usize,
    /// Memory for the input rows that they read, `pitch` apart.
    copy: &'p mut [f32],
    pitch: usize,
    out: &'o mut [f32],
}

impl<const K: usize> Work for Band<'_, '_, K> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(mut self, isa: I) {
        self.copy(isa);
        let mut j = 0;
        while j < self.of.width {
            // Two vectors use each tap twice. If registers are few, they could not hold the sums.
            if NP > 1 && j + LANES < self.of.width {
                self.column::<I, 2>(isa, j);
                j += 2 * LANES;
            } else {
                self.column::<I, 1>(isa, j);
                j += LANES;
            }
        }
    }
}

impl<const K: usize> Band<'_, '_, K> {
    /// Copies the rows that the windows read, between borders of zeros. A vector may extend beyond
    /// its row, into what the next row overwrites.
    #[inline(always)]
    fn copy<I: Isa>(&mut self, isa: I) {
        let ((high, wide), (above, before)) = (self.of.size, self.of.pad);
        let (top, before) = ((self.of.first + self.first) as isize - above, (before as usize).min(self.pitch));
        let rows = self.out.len() / self.of.width + K - 1;
        let zero = isa.splat(0.0);
        for t in 0..rows {
            let to = &mut self.copy[t * self.pitch..(t + 1) * self.pitch + LANES];
            let row = usize::try_from(top + t as isize).ok().filter(|row| *row < high);
            let row = row.map_or(&[][..], |row| &self.plane.x[row * wide..][..wide]);
            for c in (0..before).step_by(LANES) {
                put(isa, zero, &mut to[c..]);
            }
            for c in (0..self.pitch - before).step_by(LANES) {
                let from = row.get(c..).unwrap_or_default();
                let v = match from.first_chunk() {
                    Some(v) => isa.load(v),
                    // Not even a load with no lanes: its address may be unmapped, which makes it
                    // slow.
                    None if from.is_empty() => zero,
                    // SAFETY: the mask selects only existing elements.
                    None => unsafe { isa.load_some(from.as_ptr(), isa.lanes(0, from.len())) },
                };
                put(isa, v, &mut to[before + c..]);
            }
        }
    }

    /// Computes `N` vectors of columns beginning at `j`.
    #[inline(always)]
    fn column<I: Isa, const N: usize>(&mut self, isa: I, j: usize) {
        let (p, plane) = (self.of, self.plane);
        let rows = self.out.len() / p.width;
        let (shift, low, most) = (isa.splat(plane.shift), isa.splat(p.limits.0), isa.splat(p.limits.1));
        let mut some = [isa.lanes(0, LANES); N];
        for (n, some) in some.iter_mut().enumerate() {
            *some = isa.lanes(0, (p.width - j - n * LANES).min(LANES));
        }
        // The taps are read again for every row of the input; copies in all lanes would not fit in
        // the registers.
        let Some(taps) = plane.w.as_chunks::<K>().0.first_chunk::<K>() else { return };
        // Sum `r` belongs to the result row that has received `r` input rows.
        let mut sums = [[isa.splat(0.0); N]; K];
        for (t, row) in self.copy.chunks_exact(self.pitch).enumerate().take(rows + K - 1) {
            let row = &row[j..j + N * LANES + K - 1];
            if (K - 1..rows).contains(&t) {
                add::<I, K, N, true>(isa, taps, row, (t, rows), &mut sums);
            } else {
                add::<I, K, N, false>(isa, taps, row, (t, rows), &mut sums);
            }
            if t + 1 >= K {
                let at = (t + 1 - K) * p.width + j;
                for (n, v) in sums[K - 1].into_iter().enumerate() {
                    let at = at + n * LANES;
                    let mut v = if p.alpha == 1.0 { v } else { isa.mul(v, isa.splat(p.alpha)) };
                    v = isa.add(v, shift);
                    if let Some((residual, factor)) = plane.residual {
                        let from = &residual[self.first * p.width + at..];
                        // SAFETY: the residual has the columns of the result.
                        v = isa.fma(unsafe { isa.load_some(from.as_ptr(), some[n]) }, isa.splat(factor), v);
                    }
                    v = isa.at_most(isa.at_least(v, low), most);
                    // SAFETY: the columns up to the width are columns of the result.
                    unsafe { isa.store_some(v, self.out[at..].as_mut_ptr(), some[n]) };
                }
            }
            for r in (1..K).rev() {
                sums[r] = sums[r - 1];
            }
            sums[0] = [isa.splat(0.0); N];
        }
    }
}

/// Adds the products of input row `t` to the sums of all `rows` result rows that read it; of `ALL`
/// sums, if each of them belongs to such a row. Each vector of the input is loaded when all sums
/// take it, so that registers need to hold no more than one.
#[inline(always)]
fn add<I: Isa, const K: usize, const N: usize, const ALL: bool>(
    isa: I,
    taps: &[[f32; K]; K],
    row: &[f32],
    (t, rows): (usize, usize),
    sums: &mut [[I::V; N]; K],
) {
    for i in 0..K {
        let mut x = [isa.splat(0.0); N];
        for (n, x) in x.iter_mut().enumerate() {
            if let Some(v) = row[i + n * LANES..].first_chunk() {
                *x = isa.load(v);
            }
        }
        for (r, sums) in sums.iter_mut().enumerate() {
            if ALL || r <= t && t - r < rows {
                let tap = isa.splat(taps[r][i]);
                for (sum, x) in sums.iter_mut().zip(x) {
                    *sum = isa.fma(tap, x, *sum);
                }
            }
        }
    }
}

/// Stores sixteen elements at the start of a row; does nothing if the row is shorter.
#[inline(always)]
fn put<I: Isa>(isa: I, v: I::V, to: &mut [f32]) {
    if let Some(to) = to.first_chunk_mut() {
        isa.store(v, to);
    }
}
