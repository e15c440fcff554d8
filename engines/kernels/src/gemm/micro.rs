//! The register tile: `MR` rows of A times `NP` panels of B, added to a tile of C.
use crate::gemm::pack::A_STRIDE;
use crate::simd::isa::{Isa, PanelElem};
use crate::simd::rows::{Rows, STEPS};

/// Location of the panels of B: the sixteen numbers of row `k` and panel `p`.
pub(crate) trait Panels: Copy {
    /// Element type in memory.
    type T: PanelElem;
    /// The address of the sixteen numbers of row `k` and panel `p`.
    ///
    /// # Safety
    /// `k` and `p` must be below the limits that [`Panels::reaches`] confirmed.
    unsafe fn at(self, k: usize, p: usize) -> *const [Self::T; 16];
    /// True if rows `0..k` of panels `0..p` are within the borrowed memory.
    fn reaches(self, k: usize, p: usize) -> bool;
    /// The same panels, starting with panel `p`.
    fn starting_at(self, p: usize) -> Self;
}

/// Rows and panels at fixed distances: packed panels (distances 16 and 16 K) or plain rows of a
/// matrix (its row stride and 16).
#[derive(Clone, Copy)]
pub(crate) struct Strided<'a, T> {
    pub(crate) data: &'a [T],
    pub(crate) row: usize,
    pub(crate) panel: usize,
}

impl<T: PanelElem> Panels for Strided<'_, T> {
    type T = T;
    #[inline(always)]
    unsafe fn at(self, k: usize, p: usize) -> *const [T; 16] {
        // SAFETY: the caller guarantees that it is in range.
        unsafe { self.data.as_ptr().add(k * self.row + p * self.panel).cast() }
    }
    #[inline(always)]
    fn reaches(self, k: usize, p: usize) -> bool {
        k == 0 || p == 0 || (k - 1) * self.row + (p - 1) * self.panel + 16 <= self.data.len()
    }
    #[inline(always)]
    fn starting_at(self, p: usize) -> Self {
        Strided { data: &self.data[(p * self.panel).min(self.data.len())..], ..self }
    }
}

/// Rows at listed positions, with contiguous panels: an image as a convolution reads it.
#[derive(Clone, Copy)]
pub(crate) struct Listed<'a, T> {
    pub(crate) data: &'a [T],
    /// The position of each row in `data`.
    pub(crate) rows: &'a [u32],
    /// The largest of these positions.
    pub(crate) highest: usize,
}

impl<T: PanelElem> Panels for Listed<'_, T> {
    type T = T;
    #[inline(always)]
    unsafe fn at(self, k: usize, p: usize) -> *const [T; 16] {
        // SAFETY: the caller guarantees that `k` is below the number of rows and the address in
        // range.
        unsafe { self.data.as_ptr().add(*self.rows.get_unchecked(k) as usize + p * 16).cast() }
    }
    #[inline(always)]
    fn reaches(self, k: usize, p: usize) -> bool {
        k == 0 || p == 0 || (k <= self.rows.len() && self.highest + p * 16 <= self.data.len())
    }
    #[inline(always)]
    fn starting_at(self, p: usize) -> Self {
        Listed { data: &self.data[(p * 16).min(self.data.len())..], ..self }
    }
}

/// Rows at listed positions, with panels at listed offsets from each row, in rising order.
#[derive(Clone, Copy)]
pub(crate) struct Placed<'a, T> {
    pub(crate) rows: Listed<'a, T>,
    pub(crate) panels: &'a [u32],
}

impl<T: PanelElem> Panels for Placed<'_, T> {
    type T = T;
    #[inline(always)]
    unsafe fn at(self, k: usize, p: usize) -> *const [T; 16] {
        // SAFETY: the caller guarantees `p` below the number of panels, and the rest as for
        // `Listed`.
        unsafe {
            let row = *self.rows.rows.get_unchecked(k) as usize;
            self.rows.data.as_ptr().add(row + *self.panels.get_unchecked(p) as usize).cast()
        }
    }
    #[inline(always)]
    fn reaches(self, k: usize, p: usize) -> bool {
        let last = self.panels[..p].iter().copied().max().unwrap_or(0) as usize;
        k == 0 || p == 0 || (k <= self.rows.rows.len() && self.rows.highest + last + 16 <= self.rows.data.len())
    }
    #[inline(always)]
    fn starting_at(self, p: usize) -> Self {
        Placed { panels: &self.panels[p..], ..self }
    }
}

/// The first operand: rows at a fixed distance. It is the matrix itself or a copy with rows
/// [`A_STRIDE`](crate::gemm::pack::A_STRIDE) apart.
#[derive(Clone, Copy)]
pub(crate) struct Left<'a> {
    pub(crate) data: &'a [f32],
    pub(crate) stride: usize,
}

impl<'a> Left<'a> {
    /// A copy in working memory, with rows [`A_STRIDE`] apart.
    #[inline(always)]
    pub(crate) fn copied(data: &'a [f32]) -> Left<'a> {
        Left { data, stride: A_STRIDE }
    }

    /// The same operand from row `i` on.
    #[inline(always)]
    pub(crate) fn starting_at(self, i: usize) -> Left<'a> {
        Left { data: &self.data[i * self.stride..], ..self }
    }
}

/// Whether a row distance suits a register tile badly: rows at such distances share few cache sets
/// and evict each other.
pub(crate) fn crowded(distance: usize) -> bool {
    distance >= 512 && distance.is_multiple_of(512)
}

/// A distance between rows of `len` elements that suits a register tile: an odd number of vectors,
/// so that rows do not share few cache sets.
pub(crate) fn uncrowded(len: usize) -> usize {
    (len.div_ceil(16) | 1) * 16
}

/// Adds the products of step `kk`, which is `step` steps after the addresses of `rows`, to `acc`.
///
/// # Safety
/// The step must be within `R` rows of A and `N` panels of B.
#[inline(always)]
unsafe fn add_step<I: Isa, B: Panels, const R: usize, const N: usize>(
    isa: I,
    rows: &Rows<f32, R>,
    step: usize,
    b: B,
    kk: usize,
    acc: &mut [[I::V; N]; R],
) {
    let mut col = [isa.splat(0.0); N];
    for (p, v) in col.iter_mut().enumerate() {
        // SAFETY: guaranteed by the caller.
        *v = B::T::lanes(isa, unsafe { &*b.at(kk, p) });
    }
    // SAFETY: guaranteed by the caller.
    unsafe { rows.add_products(isa, step, col, acc) };
}

/// `c[0..R][0..16 N] (+)= a[0..R][0..k] * b[0..k][panels 0..N]`. Rows of `c` are `c_stride` apart.
/// If `first`, the tile is set, otherwise it is added to. If `NARROW`, this concerns only the first
/// eight columns of each panel: of what is not stored, the compiler leaves out the computation, too.
#[inline(always)]
pub(crate) fn micro<I: Isa, B: Panels, const R: usize, const N: usize, const NARROW: bool>(
    isa: I,
    k: usize,
    a: Left<'_>,
    b: B,
    c: &mut [f32],
    c_stride: usize,
    first: bool,
) {
    assert!(a.data.len() >= (R - 1) * a.stride + k && b.reaches(k, N));
    assert!(c.len() >= (R - 1) * c_stride + 16 * N);
    let mut acc = [[isa.splat(0.0); N]; R];
    if !first {
        for (i, row) in acc.iter_mut().enumerate() {
            for (p, v) in row.iter_mut().enumerate() {
                // SAFETY: in range by the assertion on `c`.
                *v = isa.load(unsafe { &*c.as_ptr().add(i * c_stride + p * 16).cast() });
            }
        }
    }
    let mut rows = Rows::<f32, R>::of(a.data.as_ptr(), a.stride);
    let mut kk = 0;
    while kk + STEPS <= k {
        rows.hide();
        for step in 0..STEPS {
            // SAFETY: in range by the assertions on `a` and `b`.
            unsafe { add_step(isa, &rows, step, b, kk + step, &mut acc) };
        }
        rows.advance(STEPS);
        kk += STEPS;
    }
    while kk < k {
        // SAFETY: as above.
        unsafe { add_step(isa, &rows, 0, b, kk, &mut acc) };
        rows.advance(1);
        kk += 1;
    }
    for (i, row) in acc.iter().enumerate() {
        for (p, v) in row.iter().enumerate() {
            // SAFETY: in range by the assertion on `c`.
            let to: &mut [f32; 16] = unsafe { &mut *c.as_mut_ptr().add(i * c_stride + p * 16).cast() };
            if NARROW {
                let mut all = [0.0; 16];
                isa.store(*v, &mut all);
                to[..8].copy_from_slice(&all[..8]);
            } else {
                isa.store(*v, to);
            }
        }
    }
}

/// How many of `rows` rows are computed by whole tiles of `tile` rows. The others are computed four
/// at a time, and then one by one. With tiles of six, two groups of four take the place of a tile if
/// two or three rows would be left over.
#[inline(always)]
pub(crate) fn in_tiles(rows: usize, tile: usize) -> usize {
    let whole = rows / tile * tile;
    match rows - whole {
        2 | 3 if tile == 6 && whole > 0 => whole - tile,
        _ => whole,
    }
}

/// Multiplies all rows of a tile with all its columns, one register tile at a time. `shape` has
/// rows, columns and steps. What the last panel has beyond the columns may be set to anything.
#[inline(always)]
pub(crate) fn tile<I: Isa, B: Panels, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(
    isa: I,
    shape: (usize, usize, usize),
    a: Left<'_>,
    b: B,
    c: &mut [f32],
    c_stride: usize,
    first: bool,
) {
    let (m, n, k) = shape;
    let main = in_tiles(m, MR);
    let four = main + (m - main) / 4 * 4;
    strip::<I, B, MR, NP>(isa, (0..main, n, k), a, b, c, c_stride, first);
    strip::<I, B, 4, N4>(isa, (main..four, n, k), a, b, c, c_stride, first);
    strip::<I, B, 1, N1>(isa, (four..m, n, k), a, b, c, c_stride, first);
}

#[inline(always)]
fn strip<I: Isa, B: Panels, const R: usize, const N: usize>(
    isa: I,
    shape: (std::ops::Range<usize>, usize, usize),
    a: Left<'_>,
    b: B,
    c: &mut [f32],
    c_stride: usize,
    first: bool,
) {
    let (rows, n, k) = shape;
    if rows.is_empty() {
        return;
    }
    let panels = n.div_ceil(16);
    let mut p = 0;
    while p < panels {
        // For a single row, the panels left over from whole groups are taken four at a time: one
        // panel alone is a chain of additions, each of which waits for the previous one.
        let group = match panels - p {
            left if left >= N => N,
            left if R == 1 && N > 4 && left >= 4 => 4,
            _ => 1,
        };
        let narrow = I::IN_TWO && R > 4 && n - p * 16 <= 8;
        let bp = b.starting_at(p);
        let mut i = rows.start;
        while i < rows.end {
            let (ai, ci) = (a.starting_at(i), &mut c[i * c_stride + p * 16..]);
            match group {
                1 if narrow => micro::<I, B, R, 1, true>(isa, k, ai, bp, ci, c_stride, first),
                1 => micro::<I, B, R, 1, false>(isa, k, ai, bp, ci, c_stride, first),
                4 if N > 4 => micro::<I, B, R, 4, false>(isa, k, ai, bp, ci, c_stride, first),
                _ => micro::<I, B, R, N, false>(isa, k, ai, bp, ci, c_stride, first),
            }
            i += R;
        }
        p += group;
    }
}
