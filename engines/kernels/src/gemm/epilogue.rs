//! The steps that follow a finished tile: scale, bias, residual, activation, rounding.
use crate::simd::Act;
use crate::simd::isa::PanelElem;
use crate::simd::lines::round_to;
use crate::view::Out;

/// A vector added to every row or column of the result.
#[derive(Clone, Copy, Debug, Default)]
pub enum Bias<'a, T> {
    /// Nothing is added.
    #[default]
    None,
    /// Adds number `j` to column `j`; the slice holds N numbers.
    PerColumn(&'a [T]),
    /// Adds number `i` to row `i`; the slice holds M numbers.
    PerRow(&'a [T]),
}

/// The operation `act(alpha * product + bias + beta * residual)`.
#[derive(Clone, Copy, Debug)]
pub struct Epilogue<'a, T> {
    /// Factor of the product.
    pub alpha: f32,
    /// Vector to add.
    pub bias: Bias<'a, T>,
    /// A tensor of the result's shape and layout, and its factor (`beta`).
    pub residual: Option<(&'a [T], f32)>,
    /// Activation, applied last.
    pub act: Act,
}

impl<T> Default for Epilogue<'_, T> {
    fn default() -> Self {
        Epilogue { alpha: 1.0, bias: Bias::None, residual: None, act: Act::None }
    }
}

crate::multiversion! {
    fn add_scaled<T: PanelElem>(row: &mut [f32], other: &[T], factor: f32) {
        for (v, r) in row.iter_mut().zip(other) {
            *v = r.wide().mul_add(factor, *v);
        }
    }
}
crate::multiversion! {
    fn shift(row: &mut [f32], by: f32) {
        for v in row.iter_mut() {
            *v += by;
        }
    }
}
crate::multiversion! {
    fn times(row: &mut [f32], by: f32) {
        for v in row.iter_mut() {
            *v *= by;
        }
    }
}

impl<'a, T: PanelElem> Epilogue<'a, T> {
    /// The same epilogue for kernels that handle only single precision; `None` if `T` is not `f32`.
    pub(crate) fn singles(&self) -> Option<Epilogue<'a, f32>> {
        let bias = match self.bias {
            Bias::None => Bias::None,
            Bias::PerColumn(b) => Bias::PerColumn(T::singles(b)?),
            Bias::PerRow(b) => Bias::PerRow(T::singles(b)?),
        };
        let residual = match self.residual {
            None => None,
            Some((r, factor)) => Some((T::singles(r)?, factor)),
        };
        T::singles(&[])?;
        Some(Epilogue { alpha: self.alpha, bias, residual, act: self.act })
    }
}

crate::multiversion! {
    /// Copies the first `n` numbers of each row of `width` numbers (whole vectors) to rows of `n`.
    fn narrower(sums: &[f32], width: usize, n: usize, to: &mut [f32]) {
        for (r, row) in sums.chunks_exact(width).enumerate() {
            let Some(to) = to.get_mut(r * n..) else { return };
            match to.get_mut(..width) {
                // Copies whole vectors: what is written beyond the end of a row is overwritten by
                // the next row.
                Some(to) => {
                    for (to, from) in to.as_chunks_mut::<16>().0.iter_mut().zip(row.as_chunks::<16>().0) {
                        *to = *from;
                    }
                }
                None => to[..n].copy_from_slice(&row[..n]),
            }
        }
    }
}
crate::multiversion! {
    fn add_to_rows<T: PanelElem>(rows: &mut [f32], bias: &[T]) {
        for row in rows.chunks_exact_mut(bias.len()) {
            for (v, b) in row.iter_mut().zip(bias) {
                *v += b.wide();
            }
        }
    }
}

impl<T: PanelElem> Epilogue<'_, T> {
    /// Finishes whole rows of `n` numbers from row `i` on, each as [`Epilogue::finish`] does. In
    /// `sums` they are `width` apart, a multiple of sixteen.
    pub(crate) fn finish_rows(
        &self,
        sums: &mut [f32],
        (width, n): (usize, usize),
        i: usize,
        out: &mut Out<'_, T>,
        at: usize,
    ) {
        let count = sums.len() / width * n;
        let to = out.part(at, count);
        if let Some(rows) = T::singles_mut(to) {
            narrower(sums, width, n, rows);
            return self.follow_rows(rows, (i, 0), n, at);
        }
        for r in 1..count / n {
            sums.copy_within(r * width..r * width + n, r * n);
        }
        self.follow_rows(&mut sums[..count], (i, 0), n, at);
        round_to(&sums[..count], to);
    }

    /// Applies scale, bias, residual and activation to rows of `n` numbers, from row `i` and column
    /// `j` on.
    fn follow_rows(&self, rows: &mut [f32], (i, j): (usize, usize), n: usize, at: usize) {
        if self.alpha != 1.0 {
            times(rows, self.alpha);
        }
        match self.bias {
            Bias::None => {}
            Bias::PerColumn(b) => add_to_rows(rows, &b[j..j + n]),
            Bias::PerRow(b) => {
                for (row, b) in rows.chunks_exact_mut(n).zip(&b[i..]) {
                    shift(row, b.wide());
                }
            }
        }
        if let Some((r, factor)) = self.residual {
            add_scaled(rows, &r[at..at + rows.len()], factor);
        }
        self.act.apply(rows);
    }

    /// Finishes part of a row and writes it. `row` holds the product for row `i`, columns from `j`.
    /// The result goes to `out[at..]`, and `residual[at..]` is added.
    #[inline]
    pub fn finish(&self, row: &mut [f32], i: usize, j: usize, out: &mut Out<'_, T>, at: usize) {
        self.follow_rows(row, (i, j), row.len(), at);
        round_to(row, out.part(at, row.len()));
    }
}
