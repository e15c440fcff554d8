//! Copies of the operands of a product of halves: rows of A with zeros behind them, and columns of
//! B with two rows by turns.
//!
//! **Woven panels** of sixteen columns: for each two rows of B thirty-two numbers, the two of a
//! column side by side; what is beyond K or N is zero.
use crate::gemm::plan::{BMatrix, Matrix};
use half::bf16;
use half::slice::HalfFloatSliceExt;
use std::ops::Range;

/// Rows `rows`, columns `cols` of A, each row `stride` numbers behind the one before, filled with
/// zeros up to there.
pub(super) fn copy(a: &[bf16], at: Matrix, rows: Range<usize>, cols: Range<usize>, out: &mut [bf16], stride: usize) {
    let len = cols.len();
    if at.col == 1 {
        for (i, to) in rows.zip(out.chunks_exact_mut(stride)) {
            let (own, beyond) = to.split_at_mut(len);
            own.copy_from_slice(&a[i * at.row + cols.start..][..len]);
            beyond.fill(bf16::ZERO);
        }
        return;
    }
    for to in out.chunks_exact_mut(stride).take(rows.len()) {
        to[len..].fill(bf16::ZERO);
    }
    for (x, k) in cols.enumerate() {
        for (r, i) in rows.clone().enumerate() {
            out[r * stride + x] = a[i * at.row + k * at.col];
        }
    }
}

/// Columns `cols` of the `k` rows of B, whose first is a multiple of sixteen where B is packed,
/// into woven panels of `deep` rows.
pub(super) fn weave(b: &[bf16], from: BMatrix, k: usize, deep: usize, cols: Range<usize>, out: &mut [bf16]) {
    for (panel, first) in out.chunks_exact_mut(deep * 16).zip(cols.clone().step_by(16)) {
        let width = (cols.end - first).min(16);
        match from {
            BMatrix::Packed { rows } => by_rows(bits(&b[first / 16 * rows * 16..]), 16, k, bits_mut(panel)),
            BMatrix::Plain(s) if s.col == 1 && width == 16 => {
                by_rows(bits(&b[first..]), s.row, k, bits_mut(panel));
            }
            BMatrix::Plain(s) => by_numbers(&b[first * s.col..], s, [k, width], panel),
        }
        panel[k.next_multiple_of(2) * 16..].fill(bf16::ZERO);
    }
}

fn bits(v: &[bf16]) -> &[u16] {
    v.reinterpret_cast()
}

fn bits_mut(v: &mut [bf16]) -> &mut [u16] {
    v.reinterpret_cast_mut()
}

crate::multiversion! {
    /// Rows of sixteen numbers, `stride` apart.
    fn by_rows(b: &[u16], stride: usize, k: usize, panel: &mut [u16]) {
        const NONE: [u16; 16] = [0; 16];
        for (g, cells) in panel.as_chunks_mut::<32>().0.iter_mut().enumerate().take(k.div_ceil(2)) {
            let even = &b[g * 2 * stride..][..16];
            let odd = if g * 2 + 1 < k { &b[(g * 2 + 1) * stride..][..16] } else { &NONE[..] };
            // As whole numbers of two halves, which become vector instructions.
            for ((cell, e), o) in cells.as_chunks_mut::<2>().0.iter_mut().zip(even).zip(odd) {
                let both = u32::from(*e) | u32::from(*o) << 16;
                *cell = [both as u16, (both >> 16) as u16];
            }
        }
    }
}

/// Numbers at any distances.
fn by_numbers(b: &[bf16], s: Matrix, [k, width]: [usize; 2], panel: &mut [bf16]) {
    panel[..k.next_multiple_of(2) * 16].fill(bf16::ZERO);
    for j in 0..width {
        for x in 0..k {
            panel[x / 2 * 32 + j * 2 + x % 2] = b[x * s.row + j * s.col];
        }
    }
}
