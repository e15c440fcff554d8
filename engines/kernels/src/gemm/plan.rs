//! `Gemm`: the plan of a product, made once from shapes, and its execution over tiles.
use crate::gemm::dots::{Each, dots};
use crate::gemm::epilogue::Epilogue;
use crate::gemm::halves;
use crate::gemm::micro::{Left, Panels, Strided, crowded, tile};
use crate::gemm::pack::{A_STRIDE, KC, copy_tile, pack_tile, packed_len};
use crate::scratch::with_scratch;
use crate::shrink::shrink;
use crate::simd::isa::{Isa, PanelElem, Work, dispatch};
use crate::view::Out;
use std::ops::Range;
use thiserror::Error;

/// Errors of a plan or of its operands.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GemmError {
    /// An operand is too short for its matrix.
    #[error("{operand} has {has} elements, the product needs {needs}")]
    Short {
        /// Which operand: A, B, C, bias or residual.
        operand: &'static str,
        /// Number of elements it has.
        has: usize,
        /// Number of elements it needs.
        needs: usize,
    },
    /// Neither the rows nor the columns of a matrix are contiguous in memory.
    #[error("{operand} has strides {row} and {col}, one of them must be 1")]
    Strides {
        /// Which operand.
        operand: &'static str,
        /// Distance between rows in elements.
        row: usize,
        /// Distance between columns in elements.
        col: usize,
    },
}

/// Location of the elements of a matrix: (i, j) is at `i * row + j * col`; one of the two is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// Distance between two rows in elements.
    pub row: usize,
    /// Distance between two columns in elements.
    pub col: usize,
}

impl Matrix {
    /// A row-major matrix with rows of `width` elements.
    pub fn rows(width: usize) -> Matrix {
        Matrix { row: width, col: 1 }
    }

    /// The transpose of a row-major matrix with rows of `width` elements.
    pub fn transposed(width: usize) -> Matrix {
        Matrix { row: 1, col: width }
    }

    fn reach(self, rows: usize, cols: usize) -> usize {
        if rows == 0 || cols == 0 {
            return 0;
        }
        (rows - 1).saturating_mul(self.row).saturating_add((cols - 1).saturating_mul(self.col)).saturating_add(1)
    }
}

/// The second operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BMatrix {
    /// A matrix that is not packed.
    Plain(Matrix),
    /// The packed format of [`crate::gemm::pack`], with panels of `rows` rows.
    Packed {
        /// Rows of a panel: K or more; the extra ones are not read.
        rows: usize,
    },
}

/// A batch of products of M x K and K x N matrices. The results are row-major, one matrix after the
/// other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gemm {
    m: usize,
    n: usize,
    k: usize,
    a: Matrix,
    b: BMatrix,
    /// Where the matrices of each product of the batch begin in A and B, in elements.
    batch: Vec<[usize; 2]>,
    tile: [usize; 2],
}

/// Maximum number of rows of a tile; a multiple of the rows of every register tile.
const TILE_M: usize = 384;
/// Maximum number of columns of a tile.
const TILE_N: usize = 256;
/// Minimum number of columns of a tile, even when its panels are long.
const LEAST_N: usize = 64;
/// Maximum count of numbers in the panels of a tile, so that they stay in the second-level cache
/// while the rows are processed.
const PANELS: usize = 64 * 1024;
/// Maximum count of these numbers that are packed at once.
const MOST_PACKED: usize = 1 << 20;
/// Row length up to which whole blocks of rows are finished at once. Longer rows are finished one
/// at a time, so that each stays in the first-level cache.
const SHORT: usize = 64;
/// Rows whose sums are computed and finished together; a multiple of the rows of every register
/// tile.
const TOGETHER: usize = 24;
/// Sums longer than this are computed in steps, each done for all rows of a tile before the next
/// one: the panels that a step reads stay in the second-level cache although the tile is wide.
const LONG: usize = 640;
/// Maximum number of rows and columns of such a tile.
const LONG_TILE: [usize; 2] = [384, 256];
/// Steps of a sum that are taken together when the rows of A need no copy.
const OWN: usize = 1024;
/// Number of rows up to which reading B dominates: its rows are then streamed, a few at a time.
pub(super) const FEW: usize = 4;
/// Number of rows of B that are then read at a time.
const STREAMS: usize = 8;
/// Rows of B up to this length are read as one stream.
const NARROW: usize = 256;
/// Minimum and maximum number of columns of such a tile.
const LEAST_STREAM: usize = 1024;
const MOST_STREAM: usize = 4096;
/// Minimum associativity of a first-level cache: lines that can stay in one set.
const WAYS: usize = 8;
/// Number of tiles wanted to keep the cores of a device busy, if the matrix is large enough.
const WANTED: usize = 12;

/// The size of nearly equal parts of `size`, each at most `most`: threads that take them in turn
/// then finish together. The result is a multiple of `step`, as `most` is.
fn alike(size: usize, most: usize, step: usize) -> usize {
    size.div_ceil(size.div_ceil(most).max(1)).next_multiple_of(step)
}

impl Gemm {
    /// Makes a plan. `batch` lists where the matrices of each product begin in A and in B, in
    /// elements: one `[0, 0]` for a single product.
    ///
    /// # Errors
    /// Returns `Strides` if a matrix has neither unit stride, `Short` if packed panels of B have
    /// fewer than K rows.
    pub fn new(shape: [usize; 3], a: Matrix, b: BMatrix, batch: Vec<[usize; 2]>) -> Result<Gemm, GemmError> {
        let [m, n, k] = shape;
        if a.row != 1 && a.col != 1 {
            return Err(GemmError::Strides { operand: "A", row: a.row, col: a.col });
        }
        if let BMatrix::Plain(b) = b
            && b.row != 1
            && b.col != 1
        {
            return Err(GemmError::Strides { operand: "B", row: b.row, col: b.col });
        }
        if let BMatrix::Packed { rows } = b
            && rows < k
        {
            return Err(GemmError::Short { operand: "panels of B", has: rows, needs: k });
        }
        let mut g = Gemm { m, n, k, a, b, batch, tile: [TILE_M, TILE_N] };
        g.tile = g.choose_tile();
        Ok(g)
    }

    /// Makes a plan for one product of row-major matrices.
    ///
    /// # Errors
    /// None for these strides; the type is that of [`Gemm::new`].
    pub fn plain(m: usize, n: usize, k: usize) -> Result<Gemm, GemmError> {
        Gemm::new([m, n, k], Matrix::rows(k), BMatrix::Plain(Matrix::rows(n)), vec![[0, 0]])
    }

    /// The tile for these shapes: large, and halved while there are fewer tiles than [`WANTED`].
    fn choose_tile(&self) -> [usize; 2] {
        let batch = self.batch.len().max(1);
        let wide = (PANELS / self.k.max(1) / 32 * 32).clamp(LEAST_N, TILE_N);
        let within = |[rows, cols]: [usize; 2]| {
            let whole = [self.m.next_multiple_of(12), self.n.next_multiple_of(16)];
            [alike(self.m, rows, 12).min(whole[0]), alike(self.n, cols, 32).min(whole[1])]
        };
        let mut t = within([TILE_M, wide]);
        if t[0] == 0 || t[1] == 0 {
            return [12, 16];
        }
        if self.by_steps() {
            t = within(LONG_TILE);
        }
        if self.m <= FEW && matches!(self.b, BMatrix::Plain(b) if b.col == 1) {
            // Long parts of the rows of B, which memory delivers faster than short ones.
            let wide = (self.n / 2).clamp(LEAST_STREAM, MOST_STREAM);
            return [12, wide.min(self.n).next_multiple_of(16)];
        }
        let enough = |t: [usize; 2]| {
            let tiles = [batch, self.m.div_ceil(t[0]), self.n.div_ceil(t[1])];
            tiles.into_iter().fold(1usize, usize::saturating_mul) >= WANTED
        };
        shrink(t, enough, |[rows, cols]| {
            if cols >= 128 && (cols >= rows || rows < 96) {
                Some([rows, (cols / 2).next_multiple_of(32)])
            } else {
                (rows >= 96).then(|| [(rows / 2).next_multiple_of(12), cols])
            }
        })
    }

    /// Whether sums are computed in steps, each done for all rows of a tile.
    fn by_steps(&self) -> bool {
        self.k > LONG && self.m > 2 * TOGETHER && self.n >= 2 * LEAST_N
    }

    /// Whether a tile packs its columns of B once, for several groups of rows.
    fn packs_whole(&self) -> bool {
        let plain = matches!(self.b, BMatrix::Plain(_));
        plain && !self.by_steps() && self.m > TOGETHER && self.k.saturating_mul(self.tile[1]) <= MOST_PACKED
    }

    /// A, if it is of single precision and its rows can be read in place. A few rows stay in the
    /// first-level cache at any distance.
    fn own_rows<'a, T: PanelElem>(&self, a: &'a [T]) -> Option<&'a [f32]> {
        T::singles(a).filter(|_| self.a.col == 1 && (self.m <= FEW || !crowded(self.a.row)))
    }

    /// Whether few rows of A are multiplied with contiguous columns of B, so that reading B
    /// dominates.
    fn by_dots(&self) -> bool {
        self.k > 0
            && self.m <= FEW
            && self.a.col == 1
            && matches!(self.b, BMatrix::Plain(b) if b.row == 1 && b.col != 1)
    }

    /// M, N and K: rows, columns and the length of the sums.
    pub(crate) fn shape(&self) -> [usize; 3] {
        [self.m, self.n, self.k]
    }

    /// Location of the elements of A.
    pub(super) fn a(&self) -> Matrix {
        self.a
    }

    /// The second operand.
    pub(super) fn b(&self) -> BMatrix {
        self.b
    }

    /// Where the matrices of one product of the batch begin in A and B.
    pub(super) fn place(&self, batch: usize) -> [usize; 2] {
        self.batch[batch]
    }

    /// The product of the batch that a unit belongs to, its rows and its columns.
    pub(super) fn tile_of(&self, unit: usize) -> (usize, Range<usize>, Range<usize>) {
        let [tm, tn] = self.tile;
        let (rows, cols) = (self.m.div_ceil(tm), self.n.div_ceil(tn));
        let (batch, rest) = (unit / (rows * cols), unit % (rows * cols));
        let (i, j) = (rest / cols * tm, rest % cols * tn);
        (batch, i..(i + tm).min(self.m), j..(j + tn).min(self.n))
    }

    /// Rows and columns of the plan's tiles.
    pub fn tile(&self) -> [usize; 2] {
        self.tile
    }

    /// Whether a tile size is a multiple of the register tiles and no larger than the matrix,
    /// rounded up to them.
    pub fn takes_tile(&self, [rows, cols]: [usize; 2]) -> bool {
        let within = rows <= self.m.next_multiple_of(12) && cols <= self.n.next_multiple_of(16);
        within && rows.is_multiple_of(12) && cols.is_multiple_of(16)
    }

    /// The same plan with other tiles, rounded up to multiples of 12 and 16. The result does not
    /// depend on the tiles.
    pub fn with_tile(mut self, rows: usize, cols: usize) -> Gemm {
        self.tile = [rows.max(1).next_multiple_of(12), cols.max(1).next_multiple_of(16)];
        self
    }

    /// Number of tiles, the units of work.
    pub fn units(&self) -> usize {
        if self.m == 0 || self.n == 0 {
            return 0;
        }
        self.batch.len() * self.m.div_ceil(self.tile[0]) * self.n.div_ceil(self.tile[1])
    }

    /// Number of multiply-adds of the whole product.
    pub fn work(&self) -> u64 {
        let f = |v: usize| v as u64;
        f(self.batch.len()).saturating_mul(f(self.m)).saturating_mul(f(self.n)).saturating_mul(f(self.k))
    }

    /// Number of elements read and written, counted for the matrices of each product.
    pub fn moved(&self) -> u64 {
        let product = |a: usize, b: usize| (a as u64).saturating_mul(b as u64);
        let one =
            product(self.m, self.k).saturating_add(product(self.k, self.n)).saturating_add(product(self.m, self.n));
        one.saturating_mul(self.batch.len() as u64)
    }

    /// Checks the lengths of the operands and of the result.
    ///
    /// # Errors
    /// Returns `Short` with the name of the first operand that is too short.
    pub fn check<T>(&self, a: usize, b: usize, out: usize, epilogue: &Epilogue<'_, T>) -> Result<(), GemmError> {
        let reach_b = match self.b {
            BMatrix::Plain(b) => b.reach(self.k, self.n),
            BMatrix::Packed { rows } => packed_len(rows, self.n),
        };
        let need = |operand, has: usize, needs: usize| {
            if has < needs { Err(GemmError::Short { operand, has, needs }) } else { Ok(()) }
        };
        for at in &self.batch {
            need("A", a, at[0].saturating_add(self.a.reach(self.m, self.k)))?;
            need("B", b, at[1].saturating_add(reach_b))?;
        }
        let total = self.batch.len().saturating_mul(self.m).saturating_mul(self.n);
        need("C", out, total)?;
        match epilogue.bias {
            crate::gemm::Bias::None => {}
            crate::gemm::Bias::PerColumn(v) => need("bias", v.len(), self.n)?,
            crate::gemm::Bias::PerRow(v) => need("bias", v.len(), self.m)?,
        }
        if let Some((r, _)) = epilogue.residual {
            need("residual", r.len(), total)?;
        }
        Ok(())
    }

    /// Does the tiles `units`. The output type may differ from the input type: sums are in single
    /// precision.
    ///
    /// # Errors
    /// Returns the errors of [`Gemm::check`].
    pub fn run<T: PanelElem, U: PanelElem>(
        &self,
        units: Range<usize>,
        a: &[T],
        b: &[T],
        epilogue: &Epilogue<'_, U>,
        out: &mut Out<'_, U>,
    ) -> Result<(), GemmError> {
        self.check(a.len(), b.len(), out.len(), epilogue)?;
        if let (Some(a), Some(b), Some(way)) = (T::bf16s(a), T::bf16s(b), halves::way(self)) {
            halves::run(self, way, units, &halves::Operands { a, b, epilogue }, out);
            return Ok(());
        }
        let [tm, tn] = self.tile;
        let together = tm.min(TOGETHER);
        let kept = if self.by_steps() { tm } else { together };
        let panels = match self.b {
            BMatrix::Packed { .. } => 0,
            BMatrix::Plain(_) => tn * if self.packs_whole() { self.k } else { KC.min(self.k) },
        };
        let end = units.end.min(self.units());
        with_scratch(together * A_STRIDE + panels + kept * tn, |s| {
            let (sa, s) = s.split_at_mut(together * A_STRIDE);
            let (sb, sc) = s.split_at_mut(panels);
            for unit in units.start..end {
                dispatch(Tile { plan: self, unit, a, b, epilogue, out, sa, sb, sc });
            }
        });
        Ok(())
    }
}

struct Tile<'p, 'a, 'o, T, U> {
    plan: &'p Gemm,
    unit: usize,
    a: &'a [T],
    b: &'a [T],
    epilogue: &'p Epilogue<'a, U>,
    out: &'p mut Out<'o, U>,
    sa: &'p mut [f32],
    sb: &'p mut [f32],
    sc: &'p mut [f32],
}

impl<T: PanelElem, U: PanelElem> Work for Tile<'_, '_, '_, T, U> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(mut self, isa: I) {
        let g = self.plan;
        let (batch, rows, cols) = g.tile_of(self.unit);
        let (i0, i1, j0, j1) = (rows.start, rows.end, cols.start, cols.end);
        let n = j1 - j0;
        let panels = n.div_ceil(16);
        let width = panels * 16;
        let [at_a, at_b] = g.batch[batch];
        let (a, b) = (&self.a[at_a..], &self.b[at_b..]);
        // A few rows and a matrix with contiguous columns: dot products of rows.
        if let (true, BMatrix::Plain(s), Some(a), Some(b)) = (g.by_dots(), g.b, T::singles(a), T::singles(b)) {
            for (i, row) in (i0..i1).zip(self.sc.chunks_exact_mut(width)) {
                dots(isa, &b[j0 * s.col..], s.col, n, &a[i * g.a.row..][..g.k], Row(row));
            }
            self.finish(batch, (i0, i1), (j0, n), width);
            return;
        }
        if g.by_steps() {
            self.by_steps::<I, MR, NP, N4, N1>(isa, (a, b), (i0, i1), (j0, j1));
            self.finish(batch, (i0, i1), (j0, n), width);
            return;
        }
        let whole = g.packs_whole();
        if let (BMatrix::Plain(s), true) = (g.b, whole) {
            pack_tile(b, (0, g.k), (j0, j1), (s.row, s.col), self.sb);
        }
        // With a single panel, each number of A is used once: no copy is needed for as many rows as
        // a cache set has ways.
        let once = if panels == 1 && MR < WAYS && g.a.col == 1 { T::singles(a) } else { None };
        let own = g.own_rows(a).or(once);
        // A few rows at a time, so that their sums are finished while they are in the first-level
        // cache.
        for from in (i0..i1).step_by(TOGETHER) {
            let to = (from + TOGETHER).min(i1);
            if g.k == 0 {
                self.sc[..(to - from) * width].fill(0.0);
            }
            let step = match g.b {
                BMatrix::Plain(s) if s.col == 1 && g.m <= FEW && s.row > NARROW => STREAMS,
                BMatrix::Plain(_) if !whole => KC,
                // Panels that are read once and as a whole come from memory faster than parts of them.
                _ if own.is_some() && g.m == 1 => g.k.max(1),
                _ if own.is_some() => OWN,
                _ => KC,
            };
            for k0 in (0..g.k).step_by(step) {
                let k1 = (k0 + step).min(g.k);
                let shape = (to - from, n, k1 - k0);
                let left = left(g, (own, a), (from, to), (k0, k1), self.sa);
                // A few rows use each number of B only once or twice: reading it in place is faster
                // than a copy.
                let found = match g.b {
                    BMatrix::Plain(s) if s.col == 1 && g.m <= 2 * MR => in_place(b, s, (k0, k1), (j0, panels)),
                    _ => None,
                };
                match (g.b, found) {
                    (BMatrix::Packed { rows }, _) => {
                        let p = packed(b, rows, j0, k0);
                        tile::<I, _, MR, NP, N4, N1>(isa, shape, left, p, self.sc, width, k0 == 0);
                    }
                    (_, Some(p)) => tile::<I, _, MR, NP, N4, N1>(isa, shape, left, p, self.sc, width, k0 == 0),
                    (BMatrix::Plain(s), None) => {
                        if !whole {
                            pack_tile(b, (k0, k1), (j0, j1), (s.row, s.col), self.sb);
                        }
                        let (first, rows) = if whole { (k0, g.k) } else { (0, k1 - k0) };
                        let p = Strided { data: &self.sb[first * 16..], row: 16, panel: 16 * rows };
                        tile::<I, _, MR, NP, N4, N1>(isa, shape, left, p, self.sc, width, k0 == 0);
                    }
                }
            }
            self.finish(batch, (from, to), (j0, n), width);
        }
    }
}

impl<T: PanelElem, U: PanelElem> Tile<'_, '_, '_, T, U> {
    /// Computes the sums of a tile in steps of [`KC`], each done for all rows.
    #[inline(always)]
    fn by_steps<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(
        &mut self,
        isa: I,
        (a, b): (&[T], &[T]),
        rows: (usize, usize),
        cols: (usize, usize),
    ) {
        let g = self.plan;
        let n = cols.1 - cols.0;
        let width = n.next_multiple_of(16);
        let own = g.own_rows(a);
        for k0 in (0..g.k).step_by(KC) {
            let k1 = (k0 + KC).min(g.k);
            if let BMatrix::Plain(s) = g.b {
                pack_tile(b, (k0, k1), cols, (s.row, s.col), self.sb);
            }
            for from in (rows.0..rows.1).step_by(TOGETHER) {
                let to = (from + TOGETHER).min(rows.1);
                let shape = (to - from, n, k1 - k0);
                let left = left(g, (own, a), (from, to), (k0, k1), self.sa);
                let sums = &mut self.sc[(from - rows.0) * width..];
                match g.b {
                    BMatrix::Packed { rows } => {
                        let p = packed(b, rows, cols.0, k0);
                        tile::<I, _, MR, NP, N4, N1>(isa, shape, left, p, sums, width, k0 == 0);
                    }
                    BMatrix::Plain(_) => {
                        let p = Strided { data: &*self.sb, row: 16, panel: 16 * (k1 - k0) };
                        tile::<I, _, MR, NP, N4, N1>(isa, shape, left, p, sums, width, k0 == 0);
                    }
                }
            }
        }
    }

    /// Finishes the sums of some rows and columns and writes them to the output.
    fn finish(&mut self, batch: usize, rows: (usize, usize), (j, n): (usize, usize), width: usize) {
        if n == self.plan.n && n <= SHORT {
            let (sums, first) = (&mut self.sc[..(rows.1 - rows.0) * width], batch * self.plan.m + rows.0);
            return self.epilogue.finish_rows(sums, (width, n), rows.0, self.out, first * n);
        }
        for (i, row) in (rows.0..rows.1).zip(self.sc.chunks_exact_mut(width)) {
            let at = (batch * self.plan.m + i) * self.plan.n + j;
            self.epilogue.finish(&mut row[..n], i, j, self.out, at);
        }
    }
}

/// Sums of one row of the result.
struct Row<'o>(&'o mut [f32]);

impl Each for Row<'_> {
    #[inline(always)]
    fn take(&mut self, i: usize, sum: f32) {
        self.0[i] = sum;
    }
}

/// Some rows and steps of A: in place, or copied to working memory.
#[inline(always)]
fn left<'s, T: PanelElem>(
    g: &Gemm,
    (own, a): (Option<&'s [f32]>, &[T]),
    rows: (usize, usize),
    steps: (usize, usize),
    copy: &'s mut [f32],
) -> Left<'s> {
    match own {
        Some(a) => Left { data: &a[rows.0 * g.a.row + steps.0..], stride: g.a.row },
        None => {
            copy_tile(a, rows, steps, (g.a.row, g.a.col), copy);
            Left::copied(copy)
        }
    }
}

/// Packed panels of `rows` rows, from a column and a row on.
#[inline(always)]
fn packed<T: PanelElem>(b: &[T], rows: usize, column: usize, row: usize) -> Strided<'_, T> {
    Strided { data: &b[(column / 16) * 16 * rows + row * 16..], row: 16, panel: 16 * rows }
}

/// Rows of B in place; `None` if whole panels cannot be read there.
fn in_place<T: PanelElem>(b: &[T], s: Matrix, k: (usize, usize), at: (usize, usize)) -> Option<Strided<'_, T>> {
    let p = Strided { data: b.get(k.0 * s.row + at.0..)?, row: s.row, panel: 16 };
    p.reaches(k.1 - k.0, at.1).then_some(p)
}
