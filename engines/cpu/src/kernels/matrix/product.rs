//! The plain product of two matrices in a wide number, and the choice of it: doubles for floats,
//! wrapping 64-bit integers for whole numbers. Sums run over the inner index in order.
use crate::args::{Arg, filled};
use crate::par;
use ge_kernels::view::{Elem, lines};
use ge_kernels::with_kind;
use ge_plugin_api::Result;

/// A number wide enough to sum products in.
pub trait Wide: Copy + Default + Send + Sync + PartialEq {
    /// From an element.
    fn of<T: Elem>(v: T) -> Self;
    /// To an element, rounded or cut once.
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

/// All elements of an input, wide.
pub fn widen<W: Wide>(x: &Arg<'_>) -> Result<Vec<W>> {
    let mut v = crate::args::room(x.len)?;
    with_kind!(x.kind()?, T => v.extend(x.values::<T>()?.iter().map(|e| W::of(*e))));
    Ok(v)
}

/// A matrix inside wide data.
#[derive(Clone, Copy)]
pub struct Mat<'a, W> {
    /// The data, from the first element.
    pub data: &'a [W],
    /// Distance of two rows.
    pub row: usize,
    /// Distance of two columns.
    pub col: usize,
}

/// Columns of one block.
const BLOCK: usize = 512;

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
    // Rows of b are read one after the other: a transposed b is copied first.
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
    par::rows(out, n, n.saturating_mul(k), |i, row| {
        for (c, o) in row.chunks_mut(BLOCK).enumerate() {
            let len = o.len();
            let factor = |j: usize| a.data[i * a.row + j * a.col];
            let line = |j: usize| &b.data[j * b.row + c * BLOCK..][..len];
            // Two rows of b at a time, added one behind the other.
            for j in (0..k / 2 * 2).step_by(2) {
                let (f, g) = (factor(j), factor(j + 1));
                lines::update_by(o, line(j), line(j + 1), |o: W, v, w| o.mul_add(f, v).mul_add(g, w));
            }
            if k % 2 == 1 {
                let f = factor(k - 1);
                lines::update(o, line(k - 1), |o: W, v| o.mul_add(f, v));
            }
        }
        Ok(())
    })
}
