//! Panels of sixteen columns, and the copies that the register tile reads.
//!
//! **The packed format** of a K x N matrix is the same on every machine, and it is the format of
//! weights in a model file: `ceil(N / 16)` panels one after the other. A panel is K rows of sixteen
//! numbers; columns beyond N are zero. Element (k, n) is at `((n / 16) * K + k) * 16 + n % 16`.
use crate::simd::isa::{Isa, PanelElem, Work, dispatch};
use crate::simd::turn::{turn, vector};

/// Block length along K.
pub const KC: usize = 256;
/// Distance between two rows of A in working memory: [`KC`] plus a little, so that rows do not
/// share one cache set.
pub(crate) const A_STRIDE: usize = KC + 16;
/// Number of panels that are packed side by side.
const SIDE_BY_SIDE: usize = 4;

/// Number of elements of a packed K x N matrix.
pub fn packed_len(k: usize, n: usize) -> usize {
    n.div_ceil(16) * 16 * k
}

/// Packs a K x N matrix whose element (k, n) is at `k * row + n * col`.
///
/// `out` must have at least [`packed_len`] elements. It panics if `b` is too short; callers exclude
/// that with their shape checks.
pub fn pack_columns<T: PanelElem>(b: &[T], k: usize, n: usize, row: usize, col: usize, out: &mut [T]) {
    for (p, panel) in out[..packed_len(k, n)].chunks_exact_mut((16 * k).max(1)).enumerate() {
        let width = (n - p * 16).min(16);
        for (kk, cells) in panel.chunks_exact_mut(16).enumerate() {
            for (j, cell) in cells.iter_mut().enumerate() {
                *cell = if j < width { b[kk * row + (p * 16 + j) * col] } else { T::default() };
            }
        }
    }
}

crate::multiversion! {
    /// Packs columns `cols.0..cols.1` of rows `rows.0..rows.1` of B into panels of
    /// `rows.1 - rows.0` rows, widened to singles.
    pub(crate) fn pack_tile<T: PanelElem>(b: &[T], rows: (usize, usize), cols: (usize, usize), strides: (usize, usize), out: &mut [f32]) {
        let k = rows.1 - rows.0;
        let n = cols.1 - cols.0;
        // Whole panels of contiguous rows are packed several at a time, so that the reads of a row
        // are contiguous too.
        let whole = if strides.1 == 1 { n / 16 } else { 0 };
        for first in (0..whole).step_by(SIDE_BY_SIDE) {
            let some = SIDE_BY_SIDE.min(whole - first);
            let panels = &mut out[first * 16 * k..][..some * 16 * k];
            for kk in 0..k {
                let from = (rows.0 + kk) * strides.0 + cols.0 + first * 16;
                for (q, v) in b[from..from + some * 16].as_chunks::<16>().0.iter().enumerate() {
                    let at = (q * k + kk) * 16;
                    for (c, v) in panels[at..at + 16].iter_mut().zip(v) {
                        *c = v.wide();
                    }
                }
            }
        }
        for p in whole..n.div_ceil(16) {
            let panel = &mut out[p * 16 * k..(p + 1) * 16 * k];
            let width = (n - p * 16).min(16);
            let first = cols.0 + p * 16;
            if strides.0 == 1 {
                let from = &b[rows.0 + first * strides.1..];
                dispatch(Turned { from, pitch: strides.1, lines: width, len: k, to: panel, to_pitch: 16 });
                continue;
            }
            if width < 16 {
                panel.fill(0.0);
            }
            if strides.1 == 1 {
                for (kk, to) in panel.as_chunks_mut::<16>().0.iter_mut().enumerate() {
                    let from = &b[(rows.0 + kk) * strides.0 + first..][..width];
                    for (to, v) in to.iter_mut().zip(from) {
                        *to = v.wide();
                    }
                }
                continue;
            }
            for j in 0..width {
                let from = rows.0 * strides.0 + (first + j) * strides.1;
                for kk in 0..k {
                    panel[kk * 16 + j] = b[from + kk * strides.0].wide();
                }
            }
        }
    }
}

crate::multiversion! {
    /// Copies rows `rows.0..rows.1`, columns `cols.0..cols.1` of A to rows [`A_STRIDE`] apart,
    /// widened to singles.
    pub(crate) fn copy_tile<T: PanelElem>(a: &[T], rows: (usize, usize), cols: (usize, usize), strides: (usize, usize), out: &mut [f32]) {
        let k = cols.1 - cols.0;
        if strides.1 == 1 {
            for i in rows.0..rows.1 {
                let from = i * strides.0 + cols.0;
                let to = (i - rows.0) * A_STRIDE;
                for (d, s) in out[to..to + k].iter_mut().zip(&a[from..from + k]) {
                    *d = s.wide();
                }
            }
        } else if strides.0 == 1 {
            let (from, len) = (&a[rows.0 + cols.0 * strides.1..], rows.1 - rows.0);
            dispatch(Turned { from, pitch: strides.1, lines: k, len, to: out, to_pitch: A_STRIDE });
        } else {
            for kk in 0..k {
                let from = (cols.0 + kk) * strides.1;
                for i in rows.0..rows.1 {
                    out[(i - rows.0) * A_STRIDE + kk] = a[from + i * strides.0].wide();
                }
            }
        }
    }
}

/// `to[j][i] = from[i][j]`, for `lines` lines `i` of `len` elements, widened to singles. Rows of
/// `to` are `to_pitch` apart and are filled with zeros up to a multiple of sixteen.
struct Turned<'a, T> {
    from: &'a [T],
    pitch: usize,
    lines: usize,
    len: usize,
    to: &'a mut [f32],
    to_pitch: usize,
}

impl<T: PanelElem> Work for Turned<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let Turned { from, pitch, lines, len, to, to_pitch } = self;
        for first in (0..lines).step_by(16) {
            for at in (0..len).step_by(16) {
                let mut v = [isa.splat(0.0); 16];
                for (i, v) in (first..lines).zip(&mut v) {
                    // Elements beyond the end of a line are loaded, but not stored.
                    *v = vector(isa, &from[i * pitch + at..]);
                }
                turn(isa, &mut v);
                for (j, v) in (at..len).zip(v) {
                    if let Some(to) = to[j * to_pitch + first..].first_chunk_mut() {
                        isa.store(v, to);
                    }
                }
            }
        }
    }
}
