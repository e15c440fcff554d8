//! A few rows by all panels. The panels are read only once, one after the other, and registers hold
//! exactly as many rows as there are.
use crate::gemm::micro::{Left, Panels, Strided, micro};
use crate::simd::isa::Isa;

/// Rows of a register tile.
pub(super) const TILE: usize = 12;
/// Columns of a panel.
const PANEL: usize = 16;

/// Whether the rows are few enough: one register tile, or two that are each more than half full.
pub(super) fn takes(rows: usize) -> bool {
    rows <= 2 * TILE && rows != TILE + 1
}

/// `c[rows][panels] = a b`, with sums of `k` steps. Rows of `c` are `width` apart.
#[inline(always)]
pub(super) fn tile<I: Isa>(
    isa: I,
    (rows, panels, k): (usize, usize, usize),
    a: Left<'_>,
    b: Strided<'_, f32>,
    c: &mut [f32],
    width: usize,
) {
    let first = if rows > TILE { rows.div_ceil(2) } else { rows };
    let together = match first {
        1 | 2 => 8,
        3..=6 => 4,
        _ => 2,
    };
    let mut panel = 0;
    while panel < panels {
        let whole = panels - panel >= together;
        for (row, many) in [(0, first), (first, rows - first)] {
            if many == 0 {
                continue;
            }
            let (a, b, c) = (a.starting_at(row), b.starting_at(panel), &mut c[row * width + panel * PANEL..]);
            match many {
                1 => some::<I, 1, 8>(isa, whole, k, a, b, c, width),
                2 => some::<I, 2, 8>(isa, whole, k, a, b, c, width),
                3 => some::<I, 3, 4>(isa, whole, k, a, b, c, width),
                4 => some::<I, 4, 4>(isa, whole, k, a, b, c, width),
                5 => some::<I, 5, 4>(isa, whole, k, a, b, c, width),
                6 => some::<I, 6, 4>(isa, whole, k, a, b, c, width),
                7 => some::<I, 7, 2>(isa, whole, k, a, b, c, width),
                8 => some::<I, 8, 2>(isa, whole, k, a, b, c, width),
                9 => some::<I, 9, 2>(isa, whole, k, a, b, c, width),
                10 => some::<I, 10, 2>(isa, whole, k, a, b, c, width),
                11 => some::<I, 11, 2>(isa, whole, k, a, b, c, width),
                _ => some::<I, TILE, 2>(isa, whole, k, a, b, c, width),
            }
        }
        panel += if whole { together } else { 1 };
    }
}

/// Computes `R` rows by `N` panels, or by one panel unless `whole`.
#[inline(always)]
fn some<I: Isa, const R: usize, const N: usize>(
    isa: I,
    whole: bool,
    k: usize,
    a: Left<'_>,
    b: Strided<'_, f32>,
    c: &mut [f32],
    width: usize,
) {
    if whole {
        micro::<I, _, R, N, false>(isa, k, a, b, c, width, true);
    } else {
        micro::<I, _, R, 1, false>(isa, k, a, b, c, width, true);
    }
}
