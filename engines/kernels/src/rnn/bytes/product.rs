//! Products of rows of bytes and packed byte weights, and the real numbers from their sums.
//!
//! **The packed format** of the weights of a direction, `[K, 4 H]` with the gates i, o, f, c side
//! by side: for each block of sixteen hidden units and each of its gates, a panel of sixteen
//! columns as `gemm::int8` packs it, followed by the sums of its columns as sixteen little-endian
//! 32-bit integers. Unsigned weights are stored minus 128.
use crate::gemm::int8::{dots, pack_int8};
#[cfg(target_arch = "x86_64")]
use crate::gemm::{
    int8_pairs,
    split_panels::{self, SplitPanels},
};
use crate::rnn::pack::LANES;

/// Number of gates of an LSTM.
pub(super) const GATES: usize = 4;

/// Size of a panel in bytes: its groups of four rows, and the sums of its columns.
pub(super) fn panel_len(k: usize) -> usize {
    (k.div_ceil(4) + 1) * 64
}

/// Size in bytes of the packed weights of a direction: `k` rows, `hidden` columns per gate.
pub fn packed_bytes_len(k: usize, hidden: usize) -> usize {
    hidden.div_ceil(LANES) * GATES * panel_len(k)
}

/// Packs the weights of a direction, `[k, 4 * hidden]`. `out` must have [`packed_bytes_len`] bytes.
pub fn pack_bytes(w: &[i8], k: usize, hidden: usize, out: &mut [i8]) {
    for (p, panel) in out.chunks_exact_mut(panel_len(k)).enumerate() {
        let (block, gate) = (p / GATES * LANES, p % GATES);
        let width = hidden.saturating_sub(block).min(LANES);
        let (cells, sums) = panel.split_at_mut(k.div_ceil(4) * 64);
        let own = w.get(gate * hidden + block..).unwrap_or(&[]);
        pack_int8(own, k, width, GATES * hidden, 1, cells);
        let mut of = [0i32; LANES];
        for (at, v) in cells.iter().enumerate() {
            of[at % 64 / 4] += i32::from(*v);
        }
        for (to, v) in sums.iter_mut().zip(of.iter().flat_map(|s| s.to_le_bytes())) {
            *to = v as i8;
        }
    }
}

/// The packed weights of a product, with what is needed to scale its sums.
pub(super) struct Factor<'f> {
    pub(super) packed: &'f [i8],
    pub(super) k: usize,
    /// Sum of each padded column.
    pub(super) column_sums: &'f [i32],
    /// Zero point of each padded column; empty if all are zero.
    pub(super) zeros: &'f [i32],
    pub(super) scales: &'f [f32],
    /// The weights with safe pairs, where products by them are faster.
    #[cfg(target_arch = "x86_64")]
    pub(super) split: Option<SplitPanels<'f>>,
}

crate::multiversion! {
    /// Converts the sums of a row to real numbers.
    pub(super) fn real(sums: &[i32], zero: i32, column_sums: &[i32], scale: f32, scales: &[f32], out: &mut [f32]) {
        for (((o, s), c), k) in out.iter_mut().zip(sums).zip(column_sums).zip(scales) {
            *o = s.wrapping_sub(zero.wrapping_mul(*c)) as f32 * (scale * k);
        }
    }
}

crate::multiversion! {
    /// Converts the sums of a row to real numbers and adds them and the bias to `out`.
    pub(super) fn add_real(sums: &[i32], zero: i32, column_sums: &[i32], scale: f32, scales: &[f32], bias: &[f32], out: &mut [f32]) {
        for ((((o, s), c), k), b) in out.iter_mut().zip(sums).zip(column_sums).zip(scales).zip(bias) {
            *o = (*o + s.wrapping_sub(zero.wrapping_mul(*c)) as f32 * (scale * k)) + b;
        }
    }
}

impl<'f> Factor<'f> {
    /// The same weights, prepared for products with `rows` rows in all.
    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_mut, unused_variables))]
    pub(super) fn prepared(mut self, rows: usize) -> Factor<'f> {
        #[cfg(target_arch = "x86_64")]
        if rows >= split_panels::LEAST_ROWS {
            self.split = SplitPanels::of(self.packed, self.k.next_multiple_of(4), panel_len(self.k));
        }
        self
    }

    /// Removes the zero points of the weights from the sums of a row of bytes.
    pub(super) fn centre(&self, row: &[u8], zero: i32, sums: &mut [i32]) {
        if self.zeros.is_empty() {
            return;
        }
        let centred = row.iter().map(|v| i32::from(*v)).sum::<i32>() - self.k as i32 * zero;
        for (s, z) in sums.iter_mut().zip(self.zeros) {
            *s = s.wrapping_sub(z.wrapping_mul(centred));
        }
    }

    /// Raw sums of `count` rows of bytes with `wide` columns.
    pub(super) fn sums(&self, rows: &[u8], count: usize, wide: usize, sums: &mut [i32]) {
        let len = self.k.next_multiple_of(4);
        if self.k == 0 {
            return sums.fill(0);
        }
        #[cfg(target_arch = "x86_64")]
        if crate::simd::level::vnni() {
            // SAFETY: the features were checked.
            return unsafe { vnni::product(rows, len, self.packed, sums, wide) };
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(split) = &self.split {
            return split.product(&rows[..count * len], 0..wide / LANES, sums, wide);
        }
        #[cfg(target_arch = "x86_64")]
        if crate::simd::level() >= crate::simd::Level::Avx2 {
            let panels = &self.packed[..wide / LANES * panel_len(self.k)];
            // SAFETY: as above.
            return unsafe { int8_pairs::product(&rows[..count * len], len, panels, panel_len(self.k), sums, wide) };
        }
        let mut some = [[0i32; LANES]; 8];
        for (p, panel) in self.packed.chunks_exact(panel_len(self.k)).take(wide / LANES).enumerate() {
            for first in (0..count).step_by(some.len()) {
                let now = some.len().min(count - first);
                dots(&rows[first * len..(first + now) * len], len, &panel[..len * LANES], &mut some[..now]);
                for (r, of) in some[..now].iter().enumerate() {
                    sums[(first + r) * wide + p * LANES..][..LANES].copy_from_slice(of);
                }
            }
        }
    }
}

/// Register tiles with the AVX-512 dot product of bytes.
#[cfg(target_arch = "x86_64")]
mod vnni {
    use super::LANES;
    use crate::gemm::int8::accumulate;
    use std::arch::x86_64::_mm512_storeu_si512;

    /// Sums of all rows with all panels. Panels are taken eight or four at a time, and their
    /// weights are read once for up to four rows.
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(super) fn product(rows: &[u8], len: usize, packed: &[i8], sums: &mut [i32], wide: usize) {
        let (panels, count) = (wide / LANES, rows.len() / len);
        let stride = len * LANES + 64;
        assert!(packed.len() >= panels * stride && sums.len() >= count * wide && rows.len() == count * len);
        let mut p = 0;
        while p < panels {
            let take = if panels - p >= 8 { 8 } else { 4 };
            let own = &packed[p * stride..(p + take.min(panels - p)) * stride];
            let mut i = 0;
            while i < count {
                let to = &mut sums[i * wide + p * LANES..];
                let from = &rows[i * len..];
                i += match (take, count - i) {
                    (8, 1) => tile::<1, 8>(from, len, own, to, wide),
                    (8, 2 | 3) => tile::<2, 8>(from, len, own, to, wide),
                    (8, _) => {
                        let (first, rest) = own.split_at(4 * stride);
                        tile::<4, 4>(from, len, first, to, wide);
                        tile::<4, 4>(from, len, rest, &mut to[4 * LANES..], wide)
                    }
                    (_, 1..4) => tile::<1, 4>(from, len, own, to, wide),
                    _ => tile::<4, 4>(from, len, own, to, wide),
                };
            }
            p += take;
        }
    }

    /// The sums of `R` rows and `P` panels. It returns `R`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    fn tile<const R: usize, const P: usize>(
        rows: &[u8],
        len: usize,
        panels: &[i8],
        to: &mut [i32],
        wide: usize,
    ) -> usize {
        let acc = accumulate::<R, P>(rows, len, panels, len * LANES + 64);
        for (r, row) in acc.iter().enumerate() {
            let row_to = &mut to[r * wide..][..P * LANES];
            for (to, acc) in row_to.as_chunks_mut::<LANES>().0.iter_mut().zip(row) {
                // SAFETY: sixteen numbers can be written to `to`.
                unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), *acc) };
            }
        }
        R
    }
}
