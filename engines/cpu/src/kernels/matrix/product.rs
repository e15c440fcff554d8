//! The plain product of two matrices in a wide number type: doubles for floating-point types,
//! wrapping 64-bit integers for integers. Sums run over the inner index in order.
use crate::args::{Arg, filled};
use crate::par;
use ge_kernels::view::Elem;
use ge_kernels::with_kind;
use ge_plugin_api::Result;

/// A number type wide enough to sum products in.
pub trait Wide: Copy + Default + Send + Sync + PartialEq {
    /// Converts from an element.
    fn of<T: Elem>(v: T) -> Self;
    /// Converts to an element, rounded or truncated once.
    fn to<T: Elem>(self) -> T;
    /// `self + a * b`.
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
        self + a * b
    }
    #[inline(always)]
    fn plus(self, a: f64) -> f64 {
        self + a
    }
}
impl Wide for i64 {
    #[inline(always)]
    fn of<T: Elem>(v: T) -> i64 {
        v.to_i64()
    }
    #[inline(always)]
    fn to<T: Elem>(self) -> T {
        T::from_i64(self)
    }
    #[inline(always)]
    fn mul_add(self, a: i64, b: i64) -> i64 {
        self.wrapping_add(a.wrapping_mul(b))
    }
    #[inline(always)]
    fn plus(self, a: i64) -> i64 {
        self.wrapping_add(a)
    }
}

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
    if m == 0 || n == 0 {
        return Ok(());
    }
    // Rows of b are read one after the other, so a transposed b is copied first.
    let copy;
    let b = if b.col == 1 || k == 0 {
        b
    } else {
        let mut t = filled(k * n, W::default())?;
        for (i, row) in t.chunks_exact_mut(n).enumerate() {
            row.iter_mut().enumerate().for_each(|(j, o)| *o = b.data[i * b.row + j * b.col]);
        }
        copy = t;
        Mat { data: &copy, row: n, col: 1 }
    };
    par::rows(out, n * ROWS, (n * ROWS).saturating_mul(k), |group, rows| {
        let a = Mat { data: &a.data[group * ROWS * a.row..], ..a };
        add_rows(a, b, n, k, rows);
        Ok(())
    })
}

ge_kernels::multiversion! {
    /// Computes some rows of the result, at most [`ROWS`].
    fn add_rows<W: Wide>(a: Mat<'_, W>, b: Mat<'_, W>, n: usize, k: usize, out: &mut [W]) {
        let rows = out.len() / n;
        for first in (0..n).step_by(COLUMNS) {
            let columns = COLUMNS.min(n - first);
            if rows == ROWS {
                tile::<W, ROWS>(a, b, (first, columns), (n, k), out);
            } else {
                for i in 0..rows {
                    let a = Mat { data: &a.data[i * a.row..], ..a };
                    tile::<W, 1>(a, b, (first, columns), (n, k), &mut out[i * n..]);
                }
            }
        }
    }
}

/// Computes `R` rows by some columns; each sum is in the order of the inner index.
#[inline(always)]
fn tile<W: Wide, const R: usize>(
    a: Mat<'_, W>,
    b: Mat<'_, W>,
    (first, columns): (usize, usize),
    (n, k): (usize, usize),
    out: &mut [W],
) {
    let mut held = [[W::default(); COLUMNS]; R];
    for (i, held) in held.iter_mut().enumerate() {
        held[..columns].copy_from_slice(&out[i * n + first..][..columns]);
    }
    // Separate from the array that is sliced to the columns, so that the sums stay in registers.
    let mut sums = held;
    for j in 0..k {
        let line = &b.data[j * b.row + first..];
        let own = match line.first_chunk::<COLUMNS>() {
            // Numbers beyond the columns go to sums that are not used.
            Some(line) => *line,
            None => {
                let mut own = [W::default(); COLUMNS];
                own[..columns].copy_from_slice(&line[..columns]);
                own
            }
        };
        for (i, sums) in sums.iter_mut().enumerate() {
            let factor = a.data[i * a.row + j * a.col];
            for (sum, v) in sums.iter_mut().zip(own) {
                *sum = sum.mul_add(factor, v);
            }
        }
    }
    held = sums;
    for (i, held) in held.iter().enumerate() {
        out[i * n + first..][..columns].copy_from_slice(&held[..columns]);
    }
}
