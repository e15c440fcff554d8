//! Small windows of one plane: sixteen columns of several result rows at a time.
use super::{Plane, Shape, Source};
use crate::simd::isa::{Isa, Work};

/// Result rows that are computed at a time.
pub(super) const ROWS: usize = 4;
/// Content of rows outside the input; sixteen results read no more columns than this.
static ZEROS: [f32; 48] = [0.0; 48];

/// The taps of one window, each broadcast to all lanes.
#[inline(always)]
pub(super) fn taps<I: Isa, const K: usize>(isa: I, w: &[f32]) -> [[I::V; K]; K] {
    let mut taps = [[isa.splat(0.0); K]; K];
    for (to, from) in taps.iter_mut().zip(w.as_chunks::<K>().0) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = isa.splat(*from);
        }
    }
    taps
}

/// The vectors that the taps of one window row are multiplied by; `p` is the first column.
///
/// # Safety
/// The columns, or those that the masks select, must be readable.
#[inline(always)]
pub(super) unsafe fn row<I: Isa, const K: usize, const S: usize, const MASKED: bool>(
    isa: I,
    p: *const f32,
    masks: &[[I::M; 2]; K],
) -> [I::V; K] {
    let mut v = [isa.splat(0.0); K];
    // SAFETY: as the caller guarantees.
    unsafe {
        if S == 1 {
            for i in 0..K {
                v[i] = load::<I, MASKED>(isa, p.wrapping_add(i), masks[i][0]);
            }
        } else {
            for i in (0..K).step_by(2) {
                let a = load::<I, MASKED>(isa, p.wrapping_add(i), masks[i][0]);
                let b = load::<I, MASKED>(isa, p.wrapping_add(i + 16), masks[i][1]);
                let (even, odd) = isa.even_odd(a, b);
                v[i] = even;
                if i + 1 < K {
                    v[i + 1] = odd;
                }
            }
        }
    }
    v
}

/// Most input rows that the windows of [`ROWS`] result rows read.
const SEEN: usize = (ROWS - 1) * 2 + 5;

/// Computes at least [`ROWS`] rows without residual and factor, in bands of [`ROWS`] rows. Along a
/// band only a few rows, one after the other, are read and written.
pub(super) struct Bands<'p, const K: usize, const S: usize, P> {
    pub(super) of: &'p Shape,
    pub(super) count: usize,
    pub(super) source: &'p mut P,
}

impl<const K: usize, const S: usize, P: Source> Work for Bands<'_, K, S, P> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let edges = Edges::new::<S>(isa, self.of);
        for i in 0..self.count {
            band::<I, K, S>(isa, self.of, &edges, self.source.plane(i));
        }
    }
}

/// What all rows of all planes have in common.
pub(super) struct Edges<I: Isa, const K: usize> {
    /// The first of the last sixteen columns, or zero if there are fewer.
    pub(super) last: usize,
    /// The columns that loads for the first and for the last result columns read.
    pub(super) left: [[I::M; 2]; K],
    pub(super) right: [[I::M; 2]; K],
    /// The result columns that are stored if the result is narrower than a vector.
    pub(super) stored: I::M,
    limits: [I::V; 2],
}

impl<I: Isa, const K: usize> Edges<I, K> {
    #[inline(always)]
    pub(super) fn new<const S: usize>(isa: I, of: &Shape) -> Edges<I, K> {
        let Shape { size: (_, wide), pad, limits, width, .. } = *of;
        // The last columns are computed together with some of those before them.
        let last = width.saturating_sub(16);
        Edges {
            last,
            left: masks::<I, K>(isa, -pad.1, wide),
            right: masks::<I, K>(isa, (last * S) as isize - pad.1, wide),
            stored: isa.lanes(0, width.min(16)),
            limits: [isa.splat(limits.0), isa.splat(limits.1)],
        }
    }
}

/// Computes the rows of one plane in bands.
#[inline(always)]
pub(super) fn band<I: Isa, const K: usize, const S: usize>(isa: I, of: &Shape, edges: &Edges<I, K>, plane: Plane<'_>) {
    let Shape { size: (high, wide), pad, first, rows, width, .. } = *of;
    let Plane { x, w, shift, out, .. } = plane;
    assert!(x.len() == high * wide && rows >= ROWS && out.len() == rows * width);
    let (taps, shift, last) = (taps::<I, K>(isa, w), isa.splat(shift), edges.last);
    // Input columns that sixteen results read.
    let reach = if S == 1 { 15 + K } else { 31 + K };
    for y in (0..rows).step_by(ROWS) {
        // The last rows, too, are computed together with some of those before them.
        let y = y.min(rows - ROWS);
        let top = ((first + y) * S) as isize - pad.0;
        // Where each input row begins, and how far one result column moves it. Rows of zeros do not
        // move.
        let mut lines = [(ZEROS.as_ptr(), 0); SEEN];
        for (row, line) in (top..).zip(&mut lines).take((ROWS - 1) * S + K) {
            if (0..high as isize).contains(&row) {
                *line = (x.as_ptr().wrapping_offset(row * wide as isize - pad.1), S);
            }
        }
        let to = out[y * width..].as_mut_ptr();
        for j in (0..width).step_by(16) {
            let j = j.min(last);
            let from = (j * S) as isize - pad.1;
            // SAFETY: these are rows of the input, of which all columns exist or the masks select
            // existing ones, or zeros, of which there are as many as are read.
            let sums = unsafe {
                if from >= 0 && from as usize + reach <= wide && width >= 16 {
                    sums::<I, K, S, false>(isa, &lines, j, &taps, &edges.left)
                } else if j == 0 {
                    sums::<I, K, S, true>(isa, &lines, j, &taps, &edges.left)
                } else if j == last {
                    sums::<I, K, S, true>(isa, &lines, j, &taps, &edges.right)
                } else {
                    sums::<I, K, S, true>(isa, &lines, j, &taps, &masks::<I, K>(isa, from, wide))
                }
            };
            for (r, sum) in sums.into_iter().enumerate() {
                let v = isa.at_most(isa.at_least(isa.add(sum, shift), edges.limits[0]), edges.limits[1]);
                let to = to.wrapping_add(r * width + j);
                // SAFETY: rows and columns of the result: sixteen columns, or all that exist.
                unsafe {
                    if width < 16 {
                        isa.store_some(v, to, edges.stored);
                    } else {
                        isa.store(v, &mut *to.cast());
                    }
                }
            }
        }
    }
}

/// The sums of sixteen results of each row of a band, beginning at column `j`.
///
/// # Safety
/// The columns of the lines that the results read, or those that the masks select, must be
/// readable.
#[inline(always)]
unsafe fn sums<I: Isa, const K: usize, const S: usize, const MASKED: bool>(
    isa: I,
    lines: &[(*const f32, usize); SEEN],
    j: usize,
    taps: &[[I::V; K]; K],
    masks: &[[I::M; 2]; K],
) -> [I::V; ROWS] {
    let mut sums = [isa.splat(0.0); ROWS];
    // One input row at a time, for all results that read it.
    for (t, (line, step)) in lines.iter().enumerate().take((ROWS - 1) * S + K) {
        // SAFETY: as the caller guarantees.
        let v = unsafe { row::<I, K, S, MASKED>(isa, line.wrapping_add(j * step), masks) };
        for r in 0..ROWS {
            if t >= r * S && t < r * S + K {
                for i in 0..K {
                    sums[r] = isa.fma(taps[t - r * S][i], v[i], sums[r]);
                }
            }
        }
    }
    sums
}

/// Computes any number of rows, with any epilogue.
pub(super) struct Rows<'p, const K: usize, const S: usize, P> {
    pub(super) of: &'p Shape,
    pub(super) count: usize,
    pub(super) source: &'p mut P,
}

impl<const K: usize, const S: usize, P: Source> Work for Rows<'_, K, S, P> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        for i in 0..self.count {
            rows::<I, K, S>(isa, self.of, self.source.plane(i));
        }
    }
}

/// Computes the rows of one plane one by one.
#[inline(always)]
fn rows<I: Isa, const K: usize, const S: usize>(isa: I, of: &Shape, plane: Plane<'_>) {
    let ((high, wide), width) = (of.size, of.width);
    assert!(plane.x.len() == high * wide && plane.out.len() == of.rows * width);
    let taps = taps::<I, K>(isa, plane.w);
    for j in (0..width).step_by(16) {
        let first = (j * S) as isize - of.pad.1;
        let masks = masks::<I, K>(isa, first, wide);
        let end = isa.lanes(0, (width - j).min(16));
        for y in 0..of.rows {
            let top = ((of.first + y) * S) as isize - of.pad.0;
            let mut v = isa.splat(0.0);
            for (t, taps) in taps.iter().enumerate() {
                let row_of = top + t as isize;
                if row_of < 0 || row_of >= high as isize {
                    continue;
                }
                let at = plane.x.as_ptr().wrapping_add(row_of as usize * wide).wrapping_offset(first);
                // SAFETY: a row of the input; the masks select existing columns.
                let x = unsafe { row::<I, K, S, true>(isa, at, &masks) };
                for (w, x) in taps.iter().zip(x) {
                    v = isa.fma(*w, x, v);
                }
            }
            if of.alpha != 1.0 {
                v = isa.mul(v, isa.splat(of.alpha));
            }
            v = isa.add(v, isa.splat(plane.shift));
            let at = y * width + j;
            if let Some((residual, factor)) = plane.residual {
                // SAFETY: the residual has the columns of the result.
                let other = unsafe { isa.load_some(residual[at..].as_ptr(), end) };
                v = isa.fma(other, isa.splat(factor), v);
            }
            v = isa.at_most(isa.at_least(v, isa.splat(of.limits.0)), isa.splat(of.limits.1));
            // SAFETY: the columns up to the width are columns of the result.
            unsafe { isa.store_some(v, plane.out[at..].as_mut_ptr(), end) };
        }
    }
}

/// The columns that the loads for each tap read, if the first input column is `from`.
#[inline(always)]
pub(super) fn masks<I: Isa, const K: usize>(isa: I, from: isize, width: usize) -> [[I::M; 2]; K] {
    let mut masks = [[isa.lanes(0, 0); 2]; K];
    for (i, m) in masks.iter_mut().enumerate() {
        let column = from + i as isize;
        *m = [within(isa, column, width), within(isa, column + 16, width)];
    }
    masks
}

/// Which of the sixteen columns beginning at `first` are columns of a row of width `width`.
#[inline(always)]
pub(crate) fn within<I: Isa>(isa: I, first: isize, width: usize) -> I::M {
    let from = (-first).clamp(0, 16) as usize;
    let to = (width as isize - first).clamp(from as isize, 16) as usize;
    isa.lanes(from, to)
}

/// Loads sixteen elements, or only those that the mask selects if `MASKED`.
///
/// # Safety
/// These elements must be readable.
#[inline(always)]
unsafe fn load<I: Isa, const MASKED: bool>(isa: I, p: *const f32, mask: I::M) -> I::V {
    // SAFETY: as the caller guarantees.
    unsafe { if MASKED { isa.load_some(p, mask) } else { isa.load(&*p.cast()) } }
}
