//! The plain product of two matrices in a wide number type: doubles for floating-point types,
//! wrapping integers for integers, of 64 bits unless all are of 32. Sums run over the inner index in
//! order, one multiply-add after the other, so they do not depend on how the matrices are cut and
//! copied.
use crate::args::{Arg, filled};
use crate::par;
use ge_kernels::simd::{Level, level};
use ge_kernels::view::Elem;
use ge_kernels::with_kind;
use ge_plugin_api::Result;

/// A number type wide enough to sum products in.
pub trait Wide: Copy + Default + Send + Sync + PartialEq {
    /// Converts from an element.
    fn of<T: Elem>(v: T) -> Self;
    /// Converts to an element, rounded or truncated once.
    fn to<T: Elem>(self) -> T;
    /// `self + a * b`, for doubles rounded once. Products of other floating-point types are exact.
    fn mul_add(self, a: Self, b: Self) -> Self;
    /// `self + a`.
    fn plus(self, a: Self) -> Self;
}
impl Wide for f64 {
    #[inline(always)]
    fn of<T: Elem>(v: T) -> f64 {
        v.to_f64()
    }
    #[inline(always)]
    fn to<T: Elem>(self) -> T {
        T::from_f64(self)
    }
    #[inline(always)]
    fn mul_add(self, a: f64, b: f64) -> f64 {
        a.mul_add(b, self)
    }
    #[inline(always)]
    fn plus(self, a: f64) -> f64 {
        self + a
    }
}
/// Integers that wrap around: the low bits of a sum do not depend on the high ones.
macro_rules! wraps {
    ($t:ty) => {
        impl Wide for $t {
            #[inline(always)]
            fn of<T: Elem>(v: T) -> $t {
                v.to_i64() as $t
            }
            #[inline(always)]
            fn to<T: Elem>(self) -> T {
                T::from_i64(self.into())
            }
            #[inline(always)]
            fn mul_add(self, a: $t, b: $t) -> $t {
                self.wrapping_add(a.wrapping_mul(b))
            }
            #[inline(always)]
            fn plus(self, a: $t) -> $t {
                self.wrapping_add(a)
            }
        }
    };
}
wraps!(i32);
wraps!(i64);

/// All elements of an input, converted to the wide type.
pub fn widen<W: Wide>(x: &Arg<'_>) -> Result<Vec<W>> {
    let mut v = crate::args::room(x.len)?;
    with_kind!(x.kind()?, T => v.extend(x.values::<T>()?.iter().map(|e| W::of(*e))));
    Ok(v)
}

/// A matrix stored in wide numbers.
#[derive(Clone, Copy)]
pub struct Mat<'a, W> {
    /// The data, from the first element of the matrix on.
    pub data: &'a [W],
    /// Distance between two rows.
    pub row: usize,
    /// Distance between two columns.
    pub col: usize,
}

/// Rows and columns whose sums are accumulated together.
const ROWS: usize = 4;
const COLUMNS: usize = 16;
/// Columns of a tile where sixteen doubles of each row would take all registers.
const FEWER: usize = 8;
/// Steps of the sums that are done for all rows of a part before the next ones: as many as leave
/// their columns in the first-level cache.
const STEPS: usize = 256;
/// Least number of rows for which the columns are copied, so that each panel is contiguous.
const PACKED: usize = 8;
/// Greatest number of rows of a part.
const PART: usize = 64;

/// `out[m][n] = sum over k of a[m][k] * b[k][n]`, plus `bias[n]`. `out` is row-major with `n`
/// columns.
pub fn product<W: Wide>(
    a: Mat<'_, W>,
    b: Mat<'_, W>,
    (m, n, k): (usize, usize, usize),
    bias: Option<&[W]>,
    out: &mut [W],
) -> Result<()> {
    if m == 0 || n == 0 {
        return Ok(());
    }
    match bias {
        Some(v) => out.chunks_exact_mut(n).for_each(|row| row.copy_from_slice(v)),
        None => out.fill(W::default()),
    }
    add_product(a, b, (m, n, k), out)
}

/// `out[m][n] += sum over k of a[m][k] * b[k][n]`; see [`product`].
pub fn add_product<W: Wide>(
    a: Mat<'_, W>,
    b: Mat<'_, W>,
    (m, n, k): (usize, usize, usize),
    out: &mut [W],
) -> Result<()> {
    if m == 0 || n == 0 || k == 0 {
        return Ok(());
    }
    let packed;
    let b = if b.col == 1 && (m < PACKED || (n <= COLUMNS && b.row <= COLUMNS)) {
        Panels { data: b.data, row: b.row, panel: COLUMNS }
    } else {
        packed = packed_panels(b, n, k)?;
        Panels { data: &packed, row: COLUMNS, panel: k * COLUMNS }
    };
    // The parts depend only on the shape.
    let rows = (m / 32).next_multiple_of(ROWS).clamp(ROWS, PART);
    let cost = (n * rows).saturating_mul(k);
    par::rows(out, n * rows, cost, |part, out| {
        let a = Mat { data: &a.data[part * rows * a.row..], ..a };
        let mut groups = filled((out.len() / n).div_ceil(ROWS) * k.min(STEPS), [W::default(); ROWS])?;
        add_rows(a, b, (n, k), &mut groups, out);
        Ok(())
    })
}

/// Panels of [`COLUMNS`] columns of the second matrix.
#[derive(Clone, Copy)]
struct Panels<'a, W> {
    data: &'a [W],
    /// Distance between two rows of a panel.
    row: usize,
    /// Distance between two panels.
    panel: usize,
}

impl<'a, W: Wide> Panels<'a, W> {
    /// Some rows of a panel. Numbers beyond the columns of the matrix are any.
    #[inline(always)]
    fn lines(self, panel: usize, steps: (usize, usize), columns: usize) -> impl Iterator<Item = [W; COLUMNS]> + 'a {
        (steps.0..steps.1).map(move |j| {
            let line = &self.data[panel * self.panel + j * self.row..];
            match line.first_chunk::<COLUMNS>() {
                Some(line) => *line,
                None => {
                    let mut own = [W::default(); COLUMNS];
                    own[..columns].copy_from_slice(&line[..columns]);
                    own
                }
            }
        })
    }
}

/// Copies a matrix to contiguous panels.
fn packed_panels<W: Wide>(b: Mat<'_, W>, n: usize, k: usize) -> Result<Vec<W>> {
    let mut packed = filled(n.div_ceil(COLUMNS) * COLUMNS * k, W::default())?;
    par::rows(&mut packed, COLUMNS * k, COLUMNS * k, |p, panel| {
        let first = p * COLUMNS;
        let columns = COLUMNS.min(n - first);
        let lines = panel.as_chunks_mut::<COLUMNS>().0;
        if b.col == 1 {
            for (j, line) in lines.iter_mut().enumerate() {
                line[..columns].copy_from_slice(&b.data[j * b.row + first..][..columns]);
            }
        } else {
            for c in 0..columns {
                let column = b.data[(first + c) * b.col..].iter().step_by(b.row.max(1));
                lines.iter_mut().zip(column).for_each(|(line, v)| line[c] = *v);
            }
        }
        Ok(())
    })?;
    Ok(packed)
}

ge_kernels::multiversion! {
    /// Computes the rows of a part. `groups` has room for some steps of all its rows.
    fn add_rows<W: Wide>(a: Mat<'_, W>, b: Panels<'_, W>, size: (usize, usize), groups: &mut [[W; ROWS]], out: &mut [W]) {
        let (n, k) = size;
        let rows = out.len() / n;
        let wide = level() >= Level::Avx512;
        for from in (0..k).step_by(STEPS) {
            let steps = (from, (from + STEPS).min(k));
            let len = steps.1 - steps.0;
            for (g, group) in groups.chunks_exact_mut(len).take(rows.div_ceil(ROWS)).enumerate() {
                for r in 0..ROWS.min(rows - g * ROWS) {
                    let line = a.data[(g * ROWS + r) * a.row + steps.0 * a.col..].iter().step_by(a.col.max(1));
                    group.iter_mut().zip(line).for_each(|(to, v)| to[r] = *v);
                }
            }
            for first in (0..n).step_by(COLUMNS) {
                let (panel, columns) = (first / COLUMNS, COLUMNS.min(n - first));
                for (group, out) in groups.chunks_exact(len).zip(out.chunks_mut(n * ROWS)) {
                    let place = (first, columns, n);
                    if out.len() < n * ROWS {
                        for (i, out) in out.chunks_exact_mut(n).enumerate() {
                            tile::<W, 1, COLUMNS>(group, i, b.lines(panel, steps, columns), place, out);
                        }
                    } else if b.panel > COLUMNS {
                        // A copy: its lines are whole.
                        let lines = &b.data[panel * b.panel + steps.0 * COLUMNS..].as_chunks::<COLUMNS>().0;
                        if wide {
                            tile::<W, ROWS, COLUMNS>(group, 0, lines.iter().copied(), place, out);
                        } else {
                            halves(group, lines, place, out);
                        }
                    } else {
                        tile::<W, ROWS, COLUMNS>(group, 0, b.lines(panel, steps, columns), place, out);
                    }
                }
            }
        }
    }
}

/// Computes the rows of a group by some columns of a copy, [`FEWER`] at a time.
#[inline(always)]
fn halves<W: Wide>(
    group: &[[W; ROWS]],
    lines: &[[W; COLUMNS]],
    (first, columns, n): (usize, usize, usize),
    out: &mut [W],
) {
    for part in 0..columns.div_ceil(FEWER) {
        let (first, columns) = (first + part * FEWER, FEWER.min(columns - part * FEWER));
        let half = lines.iter().map(|line| line.as_chunks::<FEWER>().0[part]);
        tile::<W, ROWS, FEWER>(group, 0, half, (first, columns, n), out);
    }
}

/// Computes `R` rows, the first of which is row `r` of the group, by some columns.
#[inline(always)]
fn tile<W: Wide, const R: usize, const C: usize>(
    group: &[[W; ROWS]],
    r: usize,
    lines: impl Iterator<Item = [W; C]>,
    (first, columns, n): (usize, usize, usize),
    out: &mut [W],
) {
    let mut held = [[W::default(); C]; R];
    for (i, held) in held.iter_mut().enumerate() {
        held[..columns].copy_from_slice(&out[i * n + first..][..columns]);
    }
    // Separate from the array that is sliced to the columns, so that the sums stay in registers.
    let mut sums = held;
    for (factors, line) in group.iter().zip(lines) {
        for (i, sums) in sums.iter_mut().enumerate() {
            let factor = factors[(r + i) % ROWS];
            for (sum, v) in sums.iter_mut().zip(line) {
                *sum = sum.mul_add(factor, v);
            }
        }
    }
    held = sums;
    for (i, held) in held.iter().enumerate() {
        out[i * n + first..][..columns].copy_from_slice(&held[..columns]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ge_kernels::simd::{Level, with_level};

    /// Sums in order, each multiply-add rounded once.
    fn expected(a: &[f64], b: &[f64], (m, n, k): (usize, usize, usize)) -> Vec<f64> {
        let sum = |i: usize, j: usize| (0..k).fold(0.5, |s, x| a[i * k + x].mul_add(b[x * n + j], s));
        (0..m * n).map(|at| sum(at / n, at % n)).collect()
    }

    #[test]
    fn sums_run_in_order_for_every_shape_layout_and_instruction_set() {
        let number = |i: usize| ((i * 7919 % 1013) as f64 - 500.0) / 7.0;
        for (m, n, k) in [(1, 1, 1), (3, 5, 300), (4, 16, 7), (9, 17, 513), (70, 33, 20), (13, 40, 257), (130, 1, 3)] {
            let a: Vec<f64> = (0..m * k).map(number).collect();
            let b: Vec<f64> = (0..k * n).map(|i| number(i + 31)).collect();
            let turned = |v: &[f64], rows: usize, cols: usize| -> Vec<f64> {
                (0..v.len()).map(|i| v[i % rows * cols + i / rows]).collect()
            };
            let (at, bt) = (turned(&a, m, k), turned(&b, k, n));
            let want = expected(&a, &b, (m, n, k));
            let both = |v: bool, w: bool| {
                let x = if v { Mat { data: &at[..], row: 1, col: m } } else { Mat { data: &a[..], row: k, col: 1 } };
                let y = if w { Mat { data: &bt[..], row: 1, col: k } } else { Mat { data: &b[..], row: n, col: 1 } };
                let mut out = vec![0.5; m * n];
                assert!(add_product(x, y, (m, n, k), &mut out).is_ok());
                out
            };
            for level in Level::available() {
                for (v, w) in [(false, false), (false, true), (true, false), (true, true)] {
                    assert_eq!(with_level(level, || both(v, w)), want, "{m} {n} {k} {v} {w} {level:?}");
                }
            }
        }
    }

    /// Thirty-two bits of a sum are the low bits of its sixty-four.
    #[test]
    fn integers_of_both_sizes_wrap_alike() {
        for (m, n, k) in [(1, 1, 1), (5, 9, 300), (9, 17, 70), (40, 8, 3)] {
            let number = |i: usize| (i as i32).wrapping_mul(-1_640_531_527);
            let (a, b): (Vec<i32>, Vec<i32>) = ((0..m * k).map(number).collect(), (7..7 + k * n).map(number).collect());
            fn run<W: Wide>(a: &[W], b: &[W], (m, n, k): (usize, usize, usize)) -> Vec<W> {
                let mut out = vec![W::default(); m * n];
                let (a, b) = (Mat { data: a, row: k, col: 1 }, Mat { data: b, row: n, col: 1 });
                assert!(product(a, b, (m, n, k), None, &mut out).is_ok());
                out
            }
            let long = |v: &[i32]| -> Vec<i64> { v.iter().map(|v| i64::from(*v)).collect() };
            let want: Vec<i32> = run(&long(&a), &long(&b), (m, n, k)).iter().map(|v| *v as i32).collect();
            for level in Level::available() {
                assert_eq!(with_level(level, || run(&a, &b, (m, n, k))), want, "{m} {n} {k} {level:?}");
            }
        }
    }
}
