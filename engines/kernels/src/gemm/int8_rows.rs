//! Products of a few rows of bytes and a row-major matrix of signed bytes that is read as it is:
//! each of its elements is used so few times that packing would cost more than the product. Also
//! the corrections of many rows of sums by the zero points.

/// Most rows for which a matrix is read as it is.
pub const FEW_ROWS: usize = 8;
/// Columns that are summed together.
const WIDE: usize = 64;
/// Rows whose sums of [`WIDE`] columns fit the registers together.
#[cfg(target_arch = "x86_64")]
const MOST: usize = 5;

/// A matrix of signed bytes in memory.
#[derive(Clone, Copy, Debug)]
pub struct PlainMatrix<'a> {
    /// Its bytes from the first column on.
    pub bytes: &'a [i8],
    /// Number of columns.
    pub columns: usize,
    /// Distance between two rows in bytes.
    pub row: usize,
    /// Whether the bytes are unsigned, so that their highest bit must be flipped.
    pub unsigned: bool,
}

/// Raw sums of contiguous rows of `k` bytes times the columns of `b`, one row of sums after the
/// other. If `column_sums` is not empty, it gets the sums of the columns.
pub fn few_rows(rows: &[u8], k: usize, b: PlainMatrix<'_>, sums: &mut [i32], column_sums: &mut [i32]) {
    sums.fill(0);
    column_sums.fill(0);
    if k == 0 || b.columns == 0 {
        return;
    }
    // The sums of the columns are the product with a row of ones.
    let ones = if column_sums.is_empty() { Vec::new() } else { vec![1u8; k] };
    let rows: Vec<&[u8]> = rows.chunks_exact(k).chain(ones.chunks_exact(k)).collect();
    let to: Vec<&mut [i32]> = sums.chunks_exact_mut(b.columns).chain(column_sums.chunks_exact_mut(b.columns)).collect();
    #[cfg(target_arch = "x86_64")]
    if crate::simd::level::vnni() {
        // SAFETY: the features were checked.
        return unsafe { vnni::product(&rows, b, to) };
    }
    for (row, to) in rows.into_iter().zip(to) {
        one_row(row, b, to);
    }
}

crate::multiversion! {
    fn one_row(row: &[u8], b: PlainMatrix<'_>, to: &mut [i32]) {
        let flip = if b.unsigned { -128 } else { 0 };
        for (c, to) in to.chunks_mut(WIDE).enumerate() {
            for (a, line) in row.iter().zip(b.bytes[c * WIDE..].chunks(b.row)) {
                for (to, w) in to.iter_mut().zip(line) {
                    *to = to.wrapping_add(i32::from(*a) * i32::from(*w ^ flip));
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod vnni {
    use super::{MOST, PlainMatrix, WIDE};
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(super) fn product(rows: &[&[u8]], b: PlainMatrix<'_>, mut to: Vec<&mut [i32]>) {
        for (rows, to) in rows.chunks(MOST).zip(to.chunks_mut(MOST)) {
            for first in (0..b.columns).step_by(WIDE) {
                match rows.len() {
                    5 => block::<5>(rows, b, first, to),
                    4 => block::<4>(rows, b, first, to),
                    3 => block::<3>(rows, b, first, to),
                    2 => block::<2>(rows, b, first, to),
                    _ => block::<1>(rows, b, first, to),
                }
            }
        }
    }

    /// The sums of `R` rows and at most [`WIDE`] columns from `first` on.
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    fn block<const R: usize>(rows: &[&[u8]], b: PlainMatrix<'_>, first: usize, to: &mut [&mut [i32]]) {
        let width = WIDE.min(b.columns - first);
        let mask = u64::MAX >> (WIDE - width);
        let flip = _mm512_set1_epi8(if b.unsigned { -128 } else { 0 });
        let rows: [&[u8]; R] = std::array::from_fn(|r| rows[r]);
        let k = rows[0].len();
        let mut acc = [[_mm512_setzero_si512(); 4]; R];
        for g in 0..k.div_ceil(4) {
            let count = (k - g * 4).min(4);
            let mut lines = [_mm512_setzero_si512(); 4];
            for (q, line) in lines.iter_mut().enumerate().take(count) {
                let from = &b.bytes[(g * 4 + q) * b.row + first..][..width];
                // SAFETY: the mask selects the `width` bytes of `from`.
                let bytes = unsafe { _mm512_maskz_loadu_epi8(mask, from.as_ptr()) };
                *line = _mm512_xor_si512(bytes, flip);
            }
            // Four lines become groups of four bytes, one of each line. Each quarter of the
            // registers is interleaved on its own.
            let [a, c] = [_mm512_unpacklo_epi8(lines[0], lines[1]), _mm512_unpacklo_epi8(lines[2], lines[3])];
            let [d, e] = [_mm512_unpackhi_epi8(lines[0], lines[1]), _mm512_unpackhi_epi8(lines[2], lines[3])];
            let w = [
                _mm512_unpacklo_epi16(a, c),
                _mm512_unpackhi_epi16(a, c),
                _mm512_unpacklo_epi16(d, e),
                _mm512_unpackhi_epi16(d, e),
            ];
            for (acc, row) in acc.iter_mut().zip(&rows) {
                let mut four = [0u8; 4];
                match row[g * 4..].first_chunk::<4>() {
                    Some(whole) => four = *whole,
                    None => four[..count].copy_from_slice(&row[g * 4..]),
                }
                let a = _mm512_set1_epi32(i32::from_le_bytes(four));
                for (acc, w) in acc.iter_mut().zip(w) {
                    *acc = _mm512_dpbusd_epi32(*acc, a, w);
                }
            }
        }
        for (acc, to) in acc.iter().zip(to) {
            let mut all = [[0i32; 16]; 4];
            for (all, acc) in all.iter_mut().zip(acc) {
                // SAFETY: sixteen numbers can be written.
                unsafe { _mm512_storeu_si512(all.as_mut_ptr().cast(), *acc) };
            }
            for (j, to) in to[first..first + width].iter_mut().enumerate() {
                *to = all[j / 4 % 4][j / 16 * 4 + j % 4];
            }
        }
    }
}

/// Zero points of a product, and the sums of its columns, for [`correct_rows`].
#[derive(Clone, Copy, Debug)]
pub struct Zeros<'a> {
    /// The zero point of the rows.
    pub a: i32,
    /// The sums of the columns.
    pub column_sums: &'a [i32],
    /// The zero points of the columns; empty if all are zero.
    pub b: &'a [i32],
}

/// Turns raw sums of contiguous rows of `k` bytes into sums of numbers without their zero points,
/// like [`correct`](super::int8::correct) for each row.
pub fn correct_rows(sums: &mut [i32], rows: &[u8], k: usize, zeros: Zeros<'_>) {
    if zeros.b.is_empty() {
        if zeros.a != 0 {
            take_columns(sums, zeros.a, zeros.column_sums);
        }
        return;
    }
    take_both(sums, rows, k, zeros);
}

crate::multiversion! {
    fn take_columns(sums: &mut [i32], by: i32, column_sums: &[i32]) {
        for line in sums.chunks_exact_mut(column_sums.len().max(1)) {
            for (s, c) in line.iter_mut().zip(column_sums) {
                *s = s.wrapping_sub(by.wrapping_mul(*c));
            }
        }
    }
}

crate::multiversion! {
    fn take_both(sums: &mut [i32], rows: &[u8], k: usize, zeros: Zeros<'_>) {
        for (i, line) in sums.chunks_exact_mut(zeros.column_sums.len().max(1)).enumerate() {
            let all: i32 = rows[i * k..(i + 1) * k].iter().map(|v| i32::from(*v)).fold(0, i32::wrapping_add);
            let centred = all.wrapping_sub((k as i32).wrapping_mul(zeros.a));
            for ((s, c), z) in line.iter_mut().zip(zeros.column_sums).zip(zeros.b) {
                *s = s.wrapping_sub(zeros.a.wrapping_mul(*c)).wrapping_sub(z.wrapping_mul(centred));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, with_level};

    /// Every number of rows and all remainders of sizes, against the sums by their definition.
    #[test]
    fn few_rows_and_corrections_are_the_definition_on_every_level() {
        for (m, k, n) in [(1, 1, 1), (1, 7, 65), (2, 8, 64), (3, 130, 130), (4, 64, 17), (6, 5, 200), (8, 33, 63)] {
            let row = n + 3;
            let a: Vec<u8> = (0..m * k).map(|i| (i * 37 % 256) as u8).collect();
            let b: Vec<i8> = (0..k * row).map(|i| (i * 91 % 256) as u8 as i8).collect();
            for unsigned in [false, true] {
                let value = |x: usize, j: usize| {
                    let v = b[x * row + j];
                    if unsigned { i64::from(v as u8) } else { i64::from(v) }
                };
                let (za, zb) = (5, if unsigned { 77 } else { -9 });
                let want: Vec<i64> = (0..m * n)
                    .map(|i| (0..k).map(|x| (i64::from(a[i / n * k + x]) - za) * (value(x, i % n) - zb)).sum())
                    .collect();
                for level in Level::available() {
                    let (mut sums, mut columns) = (vec![9; m * n], vec![9; n]);
                    with_level(level, || {
                        let plain = PlainMatrix { bytes: &b, columns: n, row, unsigned };
                        few_rows(&a, k, plain, &mut sums, &mut columns);
                        let zero = zb as i32 - if unsigned { 128 } else { 0 };
                        correct_rows(&mut sums, &a, k, Zeros { a: 5, column_sums: &columns, b: &vec![zero; n] });
                    });
                    let got: Vec<i64> = sums.iter().map(|v| i64::from(*v)).collect();
                    assert_eq!(got, want, "{level:?} {m} {k} {n} {unsigned}");
                }
            }
        }
    }
}
