//! Products of bytes and signed bytes, in 32-bit integers:
//! `C[i][j] = sum_k (a[i][k] - a_zero) * (b[k][j] - b_zero[j])`.
//!
//! **The packed format** of a K x N matrix of signed bytes: panels of sixteen columns. A panel is
//! `ceil(K / 4)` groups of 64 bytes, with four consecutive k of each column next to each other.
//! Columns beyond N and k beyond K are zero. Element (k, n) is at
//! `((n / 16) * ceil(K / 4) + k / 4) * 64 + (n % 16) * 4 + k % 4`.
use crate::gemm::int8_amx;
#[cfg(target_arch = "x86_64")]
use crate::gemm::split_panels::{self, SplitPanels};
#[cfg(target_arch = "x86_64")]
use crate::simd::rows::Rows;
use crate::view::Out;
use std::ops::Range;

/// Size in bytes of a packed K x N matrix.
pub fn packed_int8_len(k: usize, n: usize) -> usize {
    n.div_ceil(16) * k.div_ceil(4) * 64
}

/// Packs a matrix whose element (k, n) is at `k * row + n * col`. `out` must have at least
/// [`packed_int8_len`] bytes.
pub fn pack_int8(b: &[i8], k: usize, n: usize, row: usize, col: usize, out: &mut [i8]) {
    let out = &mut out[..packed_int8_len(k, n)];
    if k == 0 || n == 0 {
        return;
    }
    for (p, panel) in out.chunks_exact_mut(k.div_ceil(4) * 64).enumerate() {
        pack_panel(&b[p * 16 * col..], [k, (n - p * 16).min(16)], [row, col], panel);
    }
}

crate::multiversion! {
    fn pack_panel(b: &[i8], size: [usize; 2], step: [usize; 2], panel: &mut [i8]) {
        let ([k, width], [row, col]) = (size, step);
        for (g, cells) in panel.as_chunks_mut::<64>().0.iter_mut().enumerate() {
            let at = g * 4 * row;
            if width == 16 && col == 1 && g * 4 + 4 <= k {
                // Interleaves four whole rows, written as integers of four bytes so that it becomes
                // vector instructions.
                let [r0, r1, r2, r3] = [0, 1, 2, 3].map(|q| &b[at + q * row..][..16]);
                for (j, cell) in cells.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                    let of = |v: i8| u32::from(v as u8);
                    let four = of(r0[j]) | of(r1[j]) << 8 | of(r2[j]) << 16 | of(r3[j]) << 24;
                    *cell = four.to_le_bytes().map(|v| v as i8);
                }
            } else if width == 16 && row == 1 && g * 4 + 4 <= k {
                for j in 0..16 {
                    cells[j * 4..j * 4 + 4].copy_from_slice(&b[at + j * col..][..4]);
                }
            } else {
                cells.fill(0);
                for j in 0..width {
                    for q in 0..(k - g * 4).min(4) {
                        cells[j * 4 + q] = b[at + q * row + j * col];
                    }
                }
            }
        }
    }
}

/// A product of M x K bytes (row-major, rows `a_row` apart) and a packed matrix, with row-major
/// 32-bit sums. A unit of work is thirty-two rows by sixty-four panels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GemmInt8 {
    /// Number of rows of A and of the result.
    pub m: usize,
    /// Number of columns of the result.
    pub n: usize,
    /// Length of the sums.
    pub k: usize,
    /// Distance between two rows of A in bytes.
    pub a_row: usize,
}

/// Rows of a unit.
const ROWS: usize = 32;
/// Panels of a unit.
pub(super) const PANELS: usize = 64;
/// Rows that are multiplied with panels together; their sums stay in registers.
const TILE: usize = 12;
/// Panels that are multiplied with rows together.
const PAIR: usize = 2;

impl GemmInt8 {
    /// Number of units of work.
    pub fn units(&self) -> usize {
        self.m.div_ceil(ROWS) * self.across()
    }

    /// Number of units side by side.
    pub(super) fn across(&self) -> usize {
        self.n.div_ceil(16).div_ceil(PANELS)
    }

    /// The rows that a unit covers.
    pub(super) fn rows_of(&self, unit: usize) -> Range<usize> {
        let first = unit / self.across().max(1) * ROWS;
        first..(first + ROWS).min(self.m)
    }

    /// The panels that a unit covers.
    pub(super) fn panels_of(&self, unit: usize) -> Range<usize> {
        let first = unit % self.across().max(1) * PANELS;
        first..(first + PANELS).min(self.n.div_ceil(16))
    }

    /// Computes the raw sums of unsigned bytes times signed bytes for the units. The caller applies
    /// zero points ([`correct`]).
    pub fn run(&self, units: Range<usize>, a: &[u8], packed: &[i8], out: &mut Out<'_, i32>) {
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        if self.m >= int8_amx::LEAST_ROWS && crate::simd::level::amx() {
            return int8_amx::run::<crate::amx::hardware::Hardware>(self, units, a, packed, out);
        }
        self.by_vectors(units, a, packed, out);
    }

    /// Like [`GemmInt8::run`], but without AMX tiles.
    pub(super) fn by_vectors(&self, units: Range<usize>, a: &[u8], packed: &[i8], out: &mut Out<'_, i32>) {
        let len = self.k.div_ceil(4) * 4;
        let mut rows = vec![0u8; len * TILE];
        let mut sums = [[0i32; 16]; TILE * PAIR];
        // The panels of units side by side, prepared when they are needed.
        let mut all: Vec<Option<Prepared<'_>>> = (0..self.across()).map(|_| None).collect();
        // Units of the full width own whole rows: sums of complete panels go directly to the
        // output.
        let whole = if self.across() == 1 && len > 0 { self.n / 16 } else { 0 };
        for unit in units.start..units.end.min(self.units()) {
            let (of_rows, of_panels) = (self.rows_of(unit), self.panels_of(unit));
            let own = &packed[of_panels.start * len * 16..of_panels.end * len * 16];
            let panels = all[unit % self.across()].get_or_insert_with(|| Prepared::of(own, len, self.m));
            for i in of_rows.clone().step_by(TILE) {
                let count = TILE.min(of_rows.end - i);
                for (r, row) in rows.chunks_exact_mut(len.max(1)).take(count).enumerate() {
                    row[..self.k].copy_from_slice(&a[(i + r) * self.a_row..][..self.k]);
                }
                let rows = &rows[..len * count];
                if whole > 0 {
                    panels.product(rows, 0..whole, out.part(i * self.n, count * self.n), self.n);
                }
                for p in (whole..of_panels.len()).step_by(PAIR) {
                    let pair = PAIR.min(of_panels.len() - p);
                    panels.product(rows, p..p + pair, sums[..count * pair].as_flattened_mut(), pair * 16);
                    for (at, acc) in sums[..count * pair].iter().enumerate() {
                        let (r, p) = (at / pair, of_panels.start + p + at % pair);
                        let width = (self.n - p * 16).min(16);
                        out.part((i + r) * self.n + p * 16, width).copy_from_slice(&acc[..width]);
                    }
                }
            }
        }
    }
}

/// Panels of a unit in the form for its products.
enum Prepared<'p> {
    /// As they are packed, with the length of a row.
    Plain(&'p [i8], usize),
    /// With safe pairs.
    #[cfg(target_arch = "x86_64")]
    Split(SplitPanels<'p>),
}

impl<'p> Prepared<'p> {
    /// The faster form for products with `count` rows of `len` bytes.
    fn of(panels: &'p [i8], len: usize, count: usize) -> Prepared<'p> {
        #[cfg(target_arch = "x86_64")]
        if count >= split_panels::LEAST_ROWS
            && let Some(split) = SplitPanels::of(panels, len, len * 16)
        {
            return Prepared::Split(split);
        }
        let _ = count;
        Prepared::Plain(panels, len)
    }

    /// Sums of contiguous rows with some panels. The sums of consecutive rows are `stride` apart.
    fn product(&self, rows: &[u8], panels: Range<usize>, to: &mut [i32], stride: usize) {
        match self {
            Prepared::Plain(_, 0) => to.fill(0),
            Prepared::Plain(all, len) => {
                dots_to(rows, *len, &all[panels.start * len * 16..panels.end * len * 16], to, stride);
            }
            #[cfg(target_arch = "x86_64")]
            Prepared::Split(split) => split.product(rows, panels, to, stride),
        }
    }
}

/// Raw sums of contiguous rows of bytes times one column of signed bytes.
pub fn dot_rows(rows: &[u8], column: &[i8], sums: &mut [i32]) {
    if column.is_empty() {
        return sums.fill(0);
    }
    #[cfg(target_arch = "x86_64")]
    if crate::simd::level::vnni() {
        // SAFETY: the features were checked.
        return unsafe { dot_rows_vnni(rows, column, sums) };
    }
    dot_rows_plain(rows, column, sums);
}

crate::multiversion! {
    fn dot_rows_plain(rows: &[u8], column: &[i8], sums: &mut [i32]) {
        for (sum, row) in sums.iter_mut().zip(rows.chunks_exact(column.len())) {
            *sum = 0;
            for (a, w) in row.iter().zip(column) {
                *sum = sum.wrapping_add(i32::from(*a) * i32::from(*w));
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn dot_rows_vnni(rows: &[u8], column: &[i8], sums: &mut [i32]) {
    use std::arch::x86_64::*;
    let (whole, last) = column.as_chunks::<64>();
    let some = (1u64 << last.len()) - 1;
    for (sum, row) in sums.iter_mut().zip(rows.chunks_exact(column.len())) {
        let (cells, end) = row.as_chunks::<64>();
        let mut acc = _mm512_setzero_si512();
        for (a, w) in cells.iter().zip(whole) {
            // SAFETY: 64 bytes can be read from each operand.
            let (a, w) = unsafe { (_mm512_loadu_si512(a.as_ptr().cast()), _mm512_loadu_si512(w.as_ptr().cast())) };
            acc = _mm512_dpbusd_epi32(acc, a, w);
        }
        // SAFETY: the mask `some` selects the last bytes of the row and of the column.
        let (a, w) = unsafe {
            (_mm512_maskz_loadu_epi8(some, end.as_ptr().cast()), _mm512_maskz_loadu_epi8(some, last.as_ptr().cast()))
        };
        *sum = _mm512_reduce_add_epi32(_mm512_dpbusd_epi32(acc, a, w));
    }
}

/// Turns raw sums into sums of numbers without their zero points: subtracts
/// `a_zero * sum_k b[k][j]`, then, for each row, `b_zero[j] * (sum_k a[i][k] - k * a_zero)`. The
/// last number of `b_zero` also serves the columns beyond it; an empty slice means zero.
pub fn correct(sums: &mut [i32], a_zero: i32, column_sums: &[i32], b_zero: &[i32], row_sum: i32, k: usize) {
    let centred = row_sum.wrapping_sub((k as i32).wrapping_mul(a_zero));
    for (j, s) in sums.iter_mut().enumerate() {
        *s = s.wrapping_sub(a_zero.wrapping_mul(column_sums[j]));
        if !b_zero.is_empty() {
            *s = s.wrapping_sub(b_zero[j.min(b_zero.len() - 1)].wrapping_mul(centred));
        }
    }
}

/// Sums of contiguous rows of `len` bytes with panels. The sums of a row are contiguous.
pub(crate) fn dots(rows: &[u8], len: usize, panels: &[i8], sums: &mut [[i32; 16]]) {
    if len == 0 {
        return sums.fill([0; 16]);
    }
    dots_to(rows, len, panels, sums.as_flattened_mut(), panels.len() / len);
}

/// Like [`dots`], with the sums of consecutive rows `stride` apart. `len` must not be 0.
fn dots_to(rows: &[u8], len: usize, panels: &[i8], to: &mut [i32], stride: usize) {
    let wide = panels.len() / len;
    #[cfg(target_arch = "x86_64")]
    {
        if crate::simd::level::vnni() {
            // SAFETY: the features were checked.
            return unsafe { on_vnni(rows, len, panels, to, stride) };
        }
        if crate::simd::level() >= crate::simd::Level::Avx2 {
            // SAFETY: the level is only reported when the machine has its features.
            unsafe { super::int8_pairs::product(rows, len, panels, len * 16, to, stride) };
            return;
        }
    }
    for (to, row) in to.chunks_mut(stride).zip(rows.chunks_exact(len)) {
        for (to, panel) in to[..wide].as_chunks_mut::<16>().0.iter_mut().zip(panels.chunks_exact(len * 16)) {
            *to = [0; 16];
            dot_plain(row, panel, to);
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn on_vnni(rows: &[u8], len: usize, panels: &[i8], to: &mut [i32], stride: usize) {
    let count = rows.len() / len;
    for (pair, panels) in panels.chunks(PAIR * len * 16).enumerate() {
        let two = panels.len() == PAIR * len * 16;
        let mut i = 0;
        while i < count {
            let (rows, to) = (&rows[i * len..], &mut to[i * stride + pair * PAIR * 16..]);
            i += match (count - i, two) {
                (12.., true) => dots_vnni::<12, 2>(rows, len, panels, to, stride),
                (8.., true) => dots_vnni::<8, 2>(rows, len, panels, to, stride),
                (8.., _) => dots_vnni::<8, 1>(rows, len, panels, to, stride),
                (4.., true) => dots_vnni::<4, 2>(rows, len, panels, to, stride),
                (4.., _) => dots_vnni::<4, 1>(rows, len, panels, to, stride),
                (_, true) => dots_vnni::<1, 2>(rows, len, panels, to, stride),
                _ => dots_vnni::<1, 1>(rows, len, panels, to, stride),
            };
        }
    }
}

/// The sums of `R` rows and `P` panels. It returns `R`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn dots_vnni<const R: usize, const P: usize>(
    rows: &[u8],
    len: usize,
    panels: &[i8],
    to: &mut [i32],
    stride: usize,
) -> usize {
    let acc = accumulate::<R, P>(rows, len, panels, len * 16);
    for (r, acc) in acc.iter().enumerate() {
        for (to, acc) in to[r * stride..][..P * 16].as_chunks_mut::<16>().0.iter_mut().zip(acc) {
            // SAFETY: sixteen numbers can be written to `to`.
            unsafe { std::arch::x86_64::_mm512_storeu_si512(to.as_mut_ptr().cast(), *acc) };
        }
    }
    R
}

/// The sums of `R` rows of `len` bytes with `P` panels that are `stride` bytes apart.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(crate) fn accumulate<const R: usize, const P: usize>(
    rows: &[u8],
    len: usize,
    panels: &[i8],
    stride: usize,
) -> [[std::arch::x86_64::__m512i; P]; R] {
    use std::arch::x86_64::*;
    assert!(len.is_multiple_of(4) && rows.len() >= R * len && panels.len() >= (P - 1) * stride + len * 16);
    let mut acc = [[_mm512_setzero_si512(); P]; R];
    let mut rows = Rows::<[u8; 4], R>::of(rows.as_ptr().cast(), len / 4);
    let panels = panels.as_ptr();
    let mut add = |rows: &Rows<[u8; 4], R>, step: usize, g: usize| {
        // SAFETY: group `g` is within each row and each panel by the assertion above.
        unsafe {
            let w: [__m512i; P] = std::array::from_fn(|p| _mm512_loadu_si512(panels.add(p * stride + g * 64).cast()));
            for (r, acc) in acc.iter_mut().enumerate() {
                let a = _mm512_set1_epi32(i32::from_le_bytes(*rows.at(r, step)));
                for (acc, w) in acc.iter_mut().zip(w) {
                    *acc = _mm512_dpbusd_epi32(*acc, a, w);
                }
            }
        }
    };
    let mut g = 0;
    while g + 2 <= len / 4 {
        rows.hide();
        add(&rows, 0, g);
        add(&rows, 1, g + 1);
        rows.advance(2);
        g += 2;
    }
    if g < len / 4 {
        add(&rows, 0, g);
    }
    acc
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
