//! Bytes times signed bytes, in 32-bit integers: `C[i][j] = sum_k (a[i][k] - a_zero) * (b[k][j] - b_zero[j])`.
//!
//! **The packed format** of a K x N matrix of signed bytes: panels of sixteen columns; a panel is `ceil(K / 4)` groups of
//! 64 bytes, each column's four consecutive k side by side; columns beyond N and k beyond K zero. Element (k, n) stands at
//! `((n / 16) * ceil(K / 4) + k / 4) * 64 + (n % 16) * 4 + k % 4`.
use crate::view::Out;
use std::ops::Range;

/// Bytes of a packed K x N matrix.
pub fn packed_int8_len(k: usize, n: usize) -> usize {
    n.div_ceil(16) * k.div_ceil(4) * 64
}

/// Packs a matrix whose element (k, n) stands at `k * row + n * col`; `out` has [`packed_int8_len`] bytes.
pub fn pack_int8(b: &[i8], k: usize, n: usize, row: usize, col: usize, out: &mut [i8]) {
    out[..packed_int8_len(k, n)].fill(0);
    let groups = k.div_ceil(4);
    for j in 0..n {
        for kk in 0..k {
            out[((j / 16) * groups + kk / 4) * 64 + (j % 16) * 4 + kk % 4] = b[kk * row + j * col];
        }
    }
}

/// A product of M x K bytes (row-major, rows `a_row` apart) by a packed matrix, into row-major 32-bit sums. A unit of work
/// is one row block of sixteen rows by one panel group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GemmInt8 {
    /// Rows.
    pub m: usize,
    /// Columns.
    pub n: usize,
    /// Length of the sums.
    pub k: usize,
    /// Distance of two rows of A.
    pub a_row: usize,
}

/// Rows of a unit.
const ROWS: usize = 16;
/// Panels of a unit.
const PANELS: usize = 8;

impl GemmInt8 {
    /// Number of units of work.
    pub fn units(&self) -> usize {
        self.m.div_ceil(ROWS) * self.n.div_ceil(16).div_ceil(PANELS)
    }

    /// Raw sums of unsigned bytes by signed bytes for the units; zero points are the caller's ([`correct`]).
    pub fn run(&self, units: Range<usize>, a: &[u8], packed: &[i8], out: &mut Out<'_, i32>) {
        let panels = self.n.div_ceil(16);
        let across = panels.div_ceil(PANELS);
        let groups = self.k.div_ceil(4);
        let mut row = vec![0u8; groups * 4];
        for unit in units.start..units.end.min(self.units()) {
            let (i0, p0) = (unit / across * ROWS, unit % across * PANELS);
            for i in i0..(i0 + ROWS).min(self.m) {
                row[..self.k].copy_from_slice(&a[i * self.a_row..i * self.a_row + self.k]);
                for p in p0..(p0 + PANELS).min(panels) {
                    let mut acc = [0i32; 16];
                    dot(&row, &packed[p * groups * 64..(p + 1) * groups * 64], &mut acc);
                    let width = (self.n - p * 16).min(16);
                    out.part(i * self.n + p * 16, width).copy_from_slice(&acc[..width]);
                }
            }
        }
    }
}

/// Turns raw sums into those of numbers without their zero points: subtracts `a_zero * sum_k b[k][j]`, then, for each row,
/// `b_zero[j] * (sum_k a[i][k] - k * a_zero)`.
pub fn correct(sums: &mut [i32], a_zero: i32, column_sums: &[i32], b_zero: &[i32], row_sum: i32, k: usize) {
    let centred = row_sum.wrapping_sub((k as i32).wrapping_mul(a_zero));
    for (j, s) in sums.iter_mut().enumerate() {
        *s = s.wrapping_sub(a_zero.wrapping_mul(column_sums[j]));
        if !b_zero.is_empty() {
            *s = s.wrapping_sub(b_zero[j.min(b_zero.len() - 1)].wrapping_mul(centred));
        }
    }
}

fn dot(a: &[u8], panel: &[i8], acc: &mut [i32; 16]) {
    #[cfg(target_arch = "x86_64")]
    if crate::simd::level::vnni() {
        // SAFETY: the features were asked for.
        unsafe { dot_vnni(a, panel, acc) };
        return;
    }
    dot_plain(a, panel, acc);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn dot_vnni(a: &[u8], panel: &[i8], acc: &mut [i32; 16]) {
    use std::arch::x86_64::*;
    let mut sum = _mm512_setzero_si512();
    for (four, cells) in a.as_chunks::<4>().0.iter().zip(panel.as_chunks::<64>().0) {
        let x = _mm512_set1_epi32(i32::from_le_bytes(*four));
        // SAFETY: 64 bytes can be read from `cells`.
        let w = unsafe { _mm512_loadu_si512(cells.as_ptr().cast()) };
        sum = _mm512_dpbusd_epi32(sum, x, w);
    }
    // SAFETY: sixteen numbers can be written to `acc`.
    unsafe { _mm512_storeu_si512(acc.as_mut_ptr().cast(), sum) };
}

crate::multiversion! {
    fn dot_plain(a: &[u8], panel: &[i8], acc: &mut [i32; 16]) {
        for (four, cells) in a.as_chunks::<4>().0.iter().zip(panel.as_chunks::<64>().0) {
            for j in 0..16 {
                for q in 0..4 {
                    acc[j] = acc[j].wrapping_add(i32::from(four[q]) * i32::from(cells[j * 4 + q]));
                }
            }
        }
    }
}
