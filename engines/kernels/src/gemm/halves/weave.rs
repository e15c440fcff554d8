//! Copies of the operands of a product of halves: rows of A padded with zeros, and columns of B
//! with pairs of rows interleaved.
//!
//! **Woven panels** of sixteen columns: each pair of rows of B gives thirty-two numbers, with the
//! two of a column next to each other. Positions beyond K or N are zero.
use crate::gemm::plan::{BMatrix, Matrix};
use half::bf16;
use half::slice::HalfFloatSliceExt;
use std::ops::Range;

/// Copies rows `rows` and columns `cols` of A to rows that are `stride` numbers apart and padded
/// with zeros.
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

/// Copies columns `cols` of the `k` rows of B into woven panels of `deep` rows. If B is packed, the
/// first column must be a multiple of sixteen.
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

/// Number of rows of B in a tile.
const TILE_ROWS: usize = 32;

/// Weaves step `s` of the panel that begins with column `cols.start`, as [`weave`] does: thirty-two
/// rows, or fewer at the end of the `k` rows of B.
pub(super) fn tile(b: &[bf16], from: BMatrix, k: usize, cols: Range<usize>, s: usize, out: &mut [bf16]) {
    let (first, width) = (cols.start, cols.len().min(16));
    let row = s * TILE_ROWS;
    let here = (k - row).min(TILE_ROWS);
    #[cfg(target_arch = "x86_64")]
    if here == TILE_ROWS && crate::simd::level() >= crate::simd::Level::Avx512 {
        let (from, stride) = match from {
            BMatrix::Packed { rows } => (&b[(first / 16 * rows + row) * 16..], 16),
            BMatrix::Plain(s) if s.col == 1 && width == 16 => (&b[row * s.row + first..], s.row),
            BMatrix::Plain(s) => return by_numbers(&b[row * s.row + first * s.col..], s, [here, width], out),
        };
        // SAFETY: the level is only reported if the machine has these features.
        return unsafe { by_vectors(bits(from), stride, bits_mut(out)) };
    }
    match from {
        BMatrix::Packed { rows } => by_rows(bits(&b[(first / 16 * rows + row) * 16..]), 16, here, bits_mut(out)),
        BMatrix::Plain(s) if s.col == 1 && width == 16 => {
            by_rows(bits(&b[row * s.row + first..]), s.row, here, bits_mut(out));
        }
        BMatrix::Plain(s) => by_numbers(&b[row * s.row + first * s.col..], s, [here, width], out),
    }
    out[here.next_multiple_of(2) * 16..].fill(bf16::ZERO);
}

fn bits(v: &[bf16]) -> &[u16] {
    v.reinterpret_cast()
}

fn bits_mut(v: &mut [bf16]) -> &mut [u16] {
    v.reinterpret_cast_mut()
}

crate::multiversion! {
    /// Weaves rows of sixteen numbers that are `stride` apart.
    fn by_rows(b: &[u16], stride: usize, k: usize, panel: &mut [u16]) {
        const NONE: [u16; 16] = [0; 16];
        for (g, cells) in panel.as_chunks_mut::<32>().0.iter_mut().enumerate().take(k.div_ceil(2)) {
            let even = &b[g * 2 * stride..][..16];
            let odd = if g * 2 + 1 < k { &b[(g * 2 + 1) * stride..][..16] } else { &NONE[..] };
            // Written as integers that hold two halves, so that it becomes vector instructions.
            for ((cell, e), o) in cells.as_chunks_mut::<2>().0.iter_mut().zip(even).zip(odd) {
                let both = u32::from(*e) | u32::from(*o) << 16;
                *cell = [both as u16, (both >> 16) as u16];
            }
        }
    }
}

/// Weaves [`TILE_ROWS`] rows of sixteen numbers that are `stride` apart.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn by_vectors(b: &[u16], stride: usize, tile: &mut [u16]) {
    use std::arch::x86_64::*;
    assert!(b.len() >= (TILE_ROWS - 1) * stride + 16 && tile.len() >= TILE_ROWS * 16);
    let turns = _mm512_setr_epi32(
        0x10_0000, 0x11_0001, 0x12_0002, 0x13_0003, 0x14_0004, 0x15_0005, 0x16_0006, 0x17_0007, 0x18_0008, 0x19_0009,
        0x1a_000a, 0x1b_000b, 0x1c_000c, 0x1d_000d, 0x1e_000e, 0x1f_000f,
    );
    for (g, to) in tile.as_chunks_mut::<32>().0.iter_mut().enumerate().take(TILE_ROWS / 2) {
        // SAFETY: both rows are within `b` by the assertion above, and `to` has sixty-four bytes.
        unsafe {
            let from = b.as_ptr().add(g * 2 * stride);
            let both = if stride == 16 {
                _mm512_loadu_si512(from.cast())
            } else {
                let (even, odd) = (_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(stride).cast()));
                _mm512_inserti64x4::<1>(_mm512_castsi256_si512(even), odd)
            };
            _mm512_storeu_si512(to.as_mut_ptr().cast(), _mm512_permutexvar_epi16(turns, both));
        }
    }
}

/// Weaves numbers at any strides.
fn by_numbers(b: &[bf16], s: Matrix, [k, width]: [usize; 2], panel: &mut [bf16]) {
    panel[..k.next_multiple_of(2) * 16].fill(bf16::ZERO);
    for j in 0..width {
        for x in 0..k {
            panel[x / 2 * 32 + j * 2 + x % 2] = b[x * s.row + j * s.col];
        }
    }
}
