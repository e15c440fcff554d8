//! Products of bf16 numbers (halves with the exponent of singles) on machines that multiply them
//! directly: two numbers of a row and two of a column at once, added to a single-precision sum.
//!
//! The instructions expect the numbers of two rows of B interleaved. Packed panels of sixteen
//! columns are interleaved ("woven") while they are loaded into registers. For AMX tiles, and where
//! B is not packed, some columns at a time are woven into working memory, once for all rows of a
//! unit of work, or with tiles of several.
//!
//! As the instructions are defined, numbers smaller than the smallest normal single count as zero.
//! The order of a sum, and so its bits, differs from that of widened numbers: it goes by pairs with
//! the AVX-512 dot product, and by thirty-two numbers with AMX tiles. It depends on the shape of
//! the product and the instruction set, not on the plan's tiles or on threads.

/// Product with the AVX-512 dot product.
#[cfg(target_arch = "x86_64")]
mod dot;
/// Product with AMX tiles.
mod tiles;
/// Copies of both operands into the layout of the instructions.
mod weave;

use crate::amx::block::depth;
use crate::gemm::epilogue::Epilogue;
use crate::gemm::plan::{BMatrix, FEW, Gemm};
use crate::scratch::with_scratch;
use crate::simd::isa::PanelElem;
use crate::view::{Out, seen_as_mut};
use half::bf16;
use std::ops::Range;

/// Longest sum for which columns are woven into working memory.
const MOST_K: usize = 16 * 1024;
/// Maximum count of numbers that are woven for the dot product, unless that is fewer than
/// [`LEAST_COLUMNS`] columns.
const WOVEN: usize = 256 * 1024;
/// Minimum number of columns that are woven together.
const LEAST_COLUMNS: usize = 32;
/// Rows whose sums are computed and finished together by the dot product.
const BY_DOTS: usize = 24;
/// Length along k of one AMX tile.
const DEPTH: usize = depth::<bf16>();

/// The instructions that compute a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The AVX-512 dot product, of packed panels as they are or of panels woven in advance.
    Dots {
        /// Whether the panels are woven in advance.
        woven: bool,
    },
    /// AMX tiles.
    Tiles,
}

/// The way to compute a product on this machine; `None` if its numbers are to be widened instead.
pub(super) fn way(g: &Gemm) -> Option<Way> {
    if !crate::simd::level::bf16() {
        return None;
    }
    chosen(g, crate::simd::level::amx())
}

/// The choice of [`way`], given whether AMX tiles are available.
fn chosen(g: &Gemm, tiles: bool) -> Option<Way> {
    let packed = matches!(g.b(), BMatrix::Packed { .. });
    let [m, _, k] = g.shape();
    match (k, packed) {
        (0, _) => None,
        (DEPTH..=MOST_K, _) if tiles && m > FEW => Some(Way::Tiles),
        (_, true) => Some(Way::Dots { woven: false }),
        // With few rows, B is read only once: the copy would cost more than it saves.
        (..=MOST_K, _) if m > FEW => Some(Way::Dots { woven: true }),
        _ => None,
    }
}

/// The operands, and the epilogue for the sums.
pub(super) struct Operands<'a, 'e, U> {
    pub(super) a: &'a [bf16],
    pub(super) b: &'a [bf16],
    pub(super) epilogue: &'a Epilogue<'e, U>,
}

/// Does the units of work `units`.
pub(super) fn run<U: PanelElem>(
    g: &Gemm,
    way: Way,
    units: Range<usize>,
    o: &Operands<'_, '_, U>,
    out: &mut Out<'_, U>,
) {
    match way {
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        Way::Tiles => tiles::run::<crate::amx::hardware::Hardware, U>(g, units, o, out),
        #[cfg(target_arch = "x86_64")]
        Way::Dots { woven } => by_dots(g, woven, units, o, out),
        #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
        _ => unreachable!("no such instructions here"),
    }
}

/// Rows and columns of one product of the batch that are processed together.
struct Part {
    batch: usize,
    rows: Range<usize>,
    cols: Range<usize>,
}

/// Calls `f` for the columns of each unit, `together` at a time.
fn each_part(g: &Gemm, units: Range<usize>, together: usize, mut f: impl FnMut(&Part)) {
    for unit in units.start..units.end.min(g.units()) {
        let (batch, rows, cols) = g.tile_of(unit);
        for from in cols.clone().step_by(together) {
            f(&Part { batch, rows: rows.clone(), cols: from..(from + together).min(cols.end) });
        }
    }
}

/// Number of columns that are woven together for the dot product.
#[cfg(target_arch = "x86_64")]
fn together(g: &Gemm) -> usize {
    let [_, n, k] = g.shape();
    (WOVEN / k.max(1) / 32 * 32).max(LEAST_COLUMNS).min(g.tile()[1]).min(n.next_multiple_of(16))
}

/// Lends working memory: sums in single precision, and two lists of halves.
fn with_parts(sums: usize, halves: [usize; 2], f: impl FnOnce(&mut [f32], &mut [bf16], &mut [bf16])) {
    // Sizes are rounded up to whole cache lines, so that each part begins at one.
    let [a, b] = halves.map(|len| len.div_ceil(32) * 16);
    let sums = sums.next_multiple_of(16);
    with_scratch(sums + a + b, |all| {
        let (sums, rest) = all.split_at_mut(sums);
        let (a, b) = rest.split_at_mut(a);
        if let (Ok(a), Ok(b)) = (seen_as_mut(a), seen_as_mut(b)) {
            f(sums, a, b);
        }
    });
}

/// Computes the product with the dot product.
#[cfg(target_arch = "x86_64")]
fn by_dots<U: PanelElem>(g: &Gemm, woven: bool, units: Range<usize>, o: &Operands<'_, '_, U>, out: &mut Out<'_, U>) {
    let [_, _, k] = g.shape();
    let (deep, wide) = (k.next_multiple_of(2), if woven { together(g) } else { g.tile()[1] });
    let width = wide.next_multiple_of(16);
    with_parts(BY_DOTS * width, [BY_DOTS * deep, if woven { width * deep } else { 0 }], |sums, rows, columns| {
        each_part(g, units, wide, |part| {
            let [at_a, at_b] = g.place(part.batch);
            let b = &o.b[at_b..];
            let panels = part.cols.len().div_ceil(16);
            let right = match g.b() {
                BMatrix::Packed { rows } if !woven => {
                    let panel = rows * 16;
                    dot::Panels { data: &b[part.cols.start / 16 * panel..], panel, k, woven: false }
                }
                plain => {
                    weave::weave(b, plain, k, deep, part.cols.clone(), columns);
                    dot::Panels { data: columns, panel: deep * 16, k: deep, woven: true }
                }
            };
            for i in part.rows.clone().step_by(BY_DOTS) {
                let count = BY_DOTS.min(part.rows.end - i);
                weave::copy(&o.a[at_a..], g.a(), i..i + count, 0..k, rows, deep);
                dot::product(&rows[..count * deep], deep, &right, panels, sums, width);
                finish(g, part, i, count, width, sums, o.epilogue, out);
            }
        });
    });
}

/// Finishes sums and writes them to the output.
#[allow(clippy::too_many_arguments)]
fn finish<U: PanelElem>(
    g: &Gemm,
    part: &Part,
    first: usize,
    count: usize,
    width: usize,
    sums: &mut [f32],
    epilogue: &Epilogue<'_, U>,
    out: &mut Out<'_, U>,
) {
    let ([m, n, _], j) = (g.shape(), part.cols.start);
    for (i, row) in (first..first + count).zip(sums.chunks_exact_mut(width)) {
        epilogue.finish(&mut row[..part.cols.len()], i, j, out, (part.batch * m + i) * n + j);
    }
}

#[cfg(test)]
mod tests;
