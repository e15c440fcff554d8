//! Product with AMX tiles.
//!
//! The columns of B are woven once for all rows of a range of units: those that are consecutive are
//! computed as one, however small the tiles of the plan are. Sums of whole panels in single
//! precision that nothing follows leave the tiles for the output itself. Others are finished for
//! some columns at a time, while they are in the first-level cache.
use super::{DEPTH, LEAST_COLUMNS, Operands, Part, finish, weave, with_parts};
use crate::amx::block::{Left, STEPS, Second, Shaped, TOGETHER, product, tile_len};
use crate::amx::{Bf16, Tiles};
use crate::gemm::epilogue::Epilogue;
use crate::gemm::plan::{BMatrix, Gemm};
use crate::simd::isa::PanelElem;
use crate::view::Out;
use half::bf16;
use std::ops::Range;

/// Numbers in a tile.
const TILE: usize = tile_len::<bf16>();
/// Maximum count of woven numbers, unless that is fewer than [`LEAST_COLUMNS`] columns: half of the
/// second-level cache of the machines with tiles.
const WOVEN: usize = 512 * 1024;
/// The same for few rows, which read each woven number only a few times.
const WOVEN_FOR_FEW: usize = 64 * 1024;
/// Columns whose sums are finished together.
const FINISHED: usize = 256;
/// Rows of A this many bytes apart, or a multiple of it, share few sets of the first-level cache.
const CROWDED: usize = 2048;

/// The panels of some columns of B. Tiles are woven shortly before they are read for the first
/// time, but not at once: a tile cannot be loaded from stores that are still on their way.
struct Woven<'a> {
    b: &'a [bf16],
    from: BMatrix,
    k: usize,
    cols: Range<usize>,
    /// The tiles of each panel one after the other, `steps` per panel.
    tiles: &'a mut [bf16],
    steps: usize,
    /// The panel that counts as the first.
    first: usize,
    done: bool,
}

impl Second<bf16> for Woven<'_> {
    #[inline(always)]
    fn prepare(&mut self, p: usize, steps: Range<usize>) {
        if self.done {
            return;
        }
        let p = self.first + p;
        let tiles = &mut self.tiles[(p * self.steps + steps.start) * TILE..][..steps.len() * TILE];
        for (tile, s) in tiles.chunks_exact_mut(TILE).zip(steps) {
            weave::tile(self.b, self.from, self.k, self.cols.start + p * 16..self.cols.end, s, tile);
        }
    }

    #[inline(always)]
    unsafe fn tile(&self, p: usize, s: usize) -> *const bf16 {
        // SAFETY: guaranteed by the caller.
        unsafe { self.tiles.as_ptr().add(((self.first + p) * self.steps + s) * TILE) }
    }

    fn check(&self, panels: usize, steps: usize) {
        assert!(steps <= self.steps && (self.first + panels) * self.steps * TILE <= self.tiles.len());
    }
}

/// Joins units to parts that are as large as possible: units of whole rows of the result, or
/// neighbours among the units of the same rows. Rows are divided as often as by the plan, but into
/// whole blocks of [`TOGETHER`] rows, so that no part ends with a block of a few. Parts may be
/// empty.
fn joined(g: &Gemm, units: Range<usize>) -> Vec<Part> {
    let ([m, n, _], [tall, wide]) = (g.shape(), g.tile());
    let (down, across) = (m.div_ceil(tall), n.div_ceil(wide));
    let size = m.div_ceil(down.max(1)).next_multiple_of(TOGETHER);
    let end = units.end.min(g.units());
    let (mut parts, mut unit) = (vec![], units.start);
    while unit < end {
        let (batch, rest) = (unit / (down * across), unit % (down * across));
        let (i, j) = (rest / across, rest % across);
        let (several, some) = match (end - unit) / across {
            0 => (1, (end - unit).min(across - j)),
            _ if j > 0 => (1, across - j),
            whole => (whole.min(down - i), across),
        };
        let rows = (i * size).min(m)..((i + several) * size).min(m);
        parts.push(Part { batch, rows, cols: j * wide..((j + some) * wide).min(n) });
        unit += if several > 1 { several * across } else { some };
    }
    parts
}

/// Number of columns that are woven together.
fn together(g: &Gemm) -> usize {
    let [m, n, k] = g.shape();
    let most = if m <= 4 * TOGETHER { WOVEN_FOR_FEW } else { WOVEN };
    (most / k.max(1) / 32 * 32).max(LEAST_COLUMNS).min(n.next_multiple_of(16))
}

/// Whether nothing follows the sums.
fn alone<U>(e: &Epilogue<'_, U>) -> bool {
    use crate::gemm::epilogue::Bias;
    e.alpha == 1.0 && matches!(e.bias, Bias::None) && e.residual.is_none() && e.act == crate::simd::Act::None
}

/// Does the units of work `units`.
pub(super) fn run<T: Tiles, U: PanelElem>(
    g: &Gemm,
    units: Range<usize>,
    o: &Operands<'_, '_, U>,
    out: &mut Out<'_, U>,
) {
    let [m, n, k] = g.shape();
    let (steps, wide) = (k.div_ceil(DEPTH), together(g));
    // Contiguous rows are read in place, except for the last incomplete step.
    let stands = g.a().col == 1 && !(steps > STEPS && (g.a().row * size_of::<bf16>()).is_multiple_of(CROWDED));
    let whole = if stands { k / DEPTH } else { steps };
    // Copied rows are an odd number of cache lines apart.
    let (width, copied) = (wide.min(FINISHED), if stands { DEPTH } else { (steps | 1) * DEPTH });
    let direct = alone(o.epilogue);
    let mut tiles = Shaped::<T>::none();
    with_parts(TOGETHER * width, [TOGETHER * copied, wide * steps * DEPTH], |sums, rows, woven| {
        for part in joined(g, units) {
            let [at_a, at_b] = g.place(part.batch);
            let (a, b) = (&o.a[at_a..], &o.b[at_b..]);
            for from in part.cols.clone().step_by(wide) {
                let cols = from..(from + wide).min(part.cols.end);
                let mut right =
                    Woven { b, from: g.b(), k, cols: cols.clone(), tiles: &mut *woven, steps, first: 0, done: false };
                for i in part.rows.clone().step_by(TOGETHER) {
                    let count = TOGETHER.min(part.rows.end - i);
                    let left = if stands {
                        if whole < steps {
                            weave::copy(a, g.a(), i..i + count, whole * DEPTH..k, rows, DEPTH);
                        }
                        Left { data: &a[i * g.a().row..], stride: g.a().row, whole, rest: rows }
                    } else {
                        weave::copy(a, g.a(), i..i + count, 0..k, rows, copied);
                        Left { data: rows, stride: copied, whole, rest: &[] }
                    };
                    for j in cols.clone().step_by(width) {
                        let own = j..(j + width).min(cols.end);
                        let shape = [count, own.len().div_ceil(16), steps];
                        right.first = (j - cols.start) / 16;
                        let at = (part.batch * m + i) * n;
                        let whole_rows = part.cols.len() == n && own.len().is_multiple_of(16);
                        if direct
                            && whole_rows
                            && let Some(to) = U::singles_mut(out.part(at, count * n))
                        {
                            product::<T, Bf16>(tiles.of(count), shape, STEPS, &left, &mut right, &mut to[j..], n);
                            continue;
                        }
                        product::<T, Bf16>(tiles.of(count), shape, STEPS, &left, &mut right, sums, width);
                        let own = Part { batch: part.batch, rows: i..i + count, cols: own };
                        finish(g, &own, i, count, width, sums, o.epilogue, out);
                    }
                    right.done = true;
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::Matrix;

    #[test]
    fn units_are_joined_to_whole_rows_and_cover_each_place_once() {
        for (m, n, tile, batch) in
            [(100, 70, (24, 32), 2), (33, 16, (12, 16), 1), (7, 200, (36, 48), 3), (64, 64, (64, 64), 1)]
        {
            let g =
                Gemm::new([m, n, 8], Matrix::rows(8), BMatrix::Plain(Matrix::rows(n)), vec![[0, 0]; batch]).unwrap();
            let g = g.with_tile(tile.0, tile.1);
            let all = joined(&g, 0..g.units());
            assert_eq!(all.len(), batch, "each product of the batch is one part");
            assert!(all.iter().all(|p| p.cols == (0..n)));
            for (blocks, first) in (1..6).flat_map(|b| (0..b).map(move |f| (b, f))) {
                let mut seen = vec![0; batch * m * n];
                for block in (first..blocks).chain(0..first) {
                    for p in joined(&g, crate::view::block_range(g.units(), block, blocks)) {
                        assert!(p.rows.is_empty() || p.rows.start.is_multiple_of(TOGETHER));
                        for (i, j) in p.rows.flat_map(|i| p.cols.clone().map(move |j| (i, j))) {
                            seen[(p.batch * m + i) * n + j] += 1;
                        }
                    }
                }
                assert!(seen.iter().all(|v| *v == 1), "{m} {n} {tile:?} {blocks}");
            }
        }
    }
}
