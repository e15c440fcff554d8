//! `y = e^(x - max) / sum(e^(x - max))` along one axis, and its logarithm.
use crate::scratch::with_scratch;
use crate::simd::isa::PanelElem;
use crate::simd::lines::{round_to, widen};
use crate::view::Out;
use std::ops::Range;

/// Columns as lanes of vectors.
mod columns;
/// Steps shared by the variants in which rows or columns are lanes.
mod lines;
/// Softmax of scaled numbers and a mask.
mod masked;
/// Rows of a few vectors, of which the last is not full.
mod ragged;
/// Long rows: lanes are numbers of a row.
mod rows;
/// Short rows of neighbouring columns, in memory order.
mod slabs;
/// Short rows, transposed so that lanes are rows.
mod turned;

pub use masked::MaskedSoftmax;

/// A tensor viewed as `outer` x `len` x `inner`, normalised along `len`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Softmax {
    /// Product of the sizes before the axis.
    pub outer: usize,
    /// Size of the axis.
    pub len: usize,
    /// Product of the sizes after the axis.
    pub inner: usize,
    /// Whether the logarithm of the softmax is computed instead.
    pub log: bool,
}

impl Softmax {
    /// Number of units of work: a unit is one row, or all rows of an outer index.
    pub fn units(&self) -> usize {
        match self.len {
            0 => 0,
            _ if slabs::takes(self) => self.outer,
            _ => self.outer * self.inner,
        }
    }
}

/// Number of rows of `len` numbers that are widened at a time, at most `rows`.
fn lines_of(len: usize, rows: usize) -> usize {
    (4096 / len).clamp(1, rows)
}

/// Does the units `units`. Unit `u` is the row of outer index `u / inner` and inner index
/// `u % inner`, or all rows of outer index `u` if units are those ([`Softmax::units`]).
pub fn softmax<T: PanelElem>(s: &Softmax, units: Range<usize>, x: &[T], out: &mut Out<'_, T>) {
    let units = units.start..units.end.min(s.units());
    if units.is_empty() {
        return;
    }
    if slabs::takes(s) {
        return slabs::run(s, units, x, out);
    }
    if s.inner > 1 {
        return columns::run(s, units, x, out);
    }
    let (start, n) = (units.start * s.len, units.len() * s.len);
    if let Some(x) = T::singles(&x[start..][..n])
        && let Some(y) = T::singles_mut(out.part(start, n))
    {
        return rows::run(Some(x), y, s.len, s.log);
    }
    let group = lines_of(s.len, units.len());
    with_scratch(group * s.len, |lines| {
        for (k, x) in x[start..][..n].chunks(group * s.len).enumerate() {
            let lines = &mut lines[..x.len()];
            widen(x, lines);
            rows::run(None, lines, s.len, s.log);
            round_to(lines, out.part(start + k * group * s.len, x.len()));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, with_level};
    use crate::view::block_range;

    #[test]
    fn rows_agree_with_double_precision_on_any_axis() {
        let shapes = [
            (3, 1, 1),
            (2, 37, 1),
            (37, 130, 1),
            (17, 16, 1),
            (3, 1100, 1),
            (2, 5, 7),
            (1, 100, 2),
            (2, 3, 45),
            (1, 70_000, 2),
            (3, 128, 17),
            (2, 5, 90),
            (4, 1, 3),
            (1, 1_100_000, 2),
            (1, 33, 32),
            (37, 49, 1),
            (16, 31, 1),
            (33, 95, 1),
        ];
        for (outer, len, inner) in shapes {
            let n = outer * len * inner;
            let x: Vec<f32> = (0..n).map(|i| (i as f32 * 1.7).sin() * 9.0).collect();
            for log in [false, true] {
                let s = Softmax { outer, len, inner, log };
                let run = |blocks: usize, level| {
                    let mut y = vec![0.0; n];
                    with_level(level, || {
                        (0..blocks)
                            .for_each(|b| softmax(&s, block_range(s.units(), b, blocks), &x, &mut Out::new(&mut y)))
                    });
                    y
                };
                let y = run(1, Level::Scalar);
                for level in Level::available() {
                    assert_eq!(run(7, level), y);
                }
                for u in 0..outer * inner {
                    let base = u / inner * len * inner + u % inner;
                    let e: Vec<f64> = (0..len).map(|i| f64::from(x[base + i * inner]).exp()).collect();
                    let sum: f64 = e.iter().sum();
                    for i in 0..len {
                        let want = if log { (e[i] / sum).ln() } else { e[i] / sum };
                        assert!(
                            (f64::from(y[base + i * inner]) - want).abs()
                                < 2e-6 * want.abs().max(if log { 1.0 } else { 0.1 })
                        );
                    }
                }
            }
        }
    }

    /// Values of numpy in double precision, for x = 10000 + [0, 0.5, 1, -3].
    #[test]
    fn the_logarithm_keeps_its_digits_beside_large_numbers() {
        let x = [10_000.0, 10_000.5, 10_001.0, 9_997.0];
        let want = [-1.689_503_4, -1.189_503_4, -0.689_503_4, -4.689_503];
        let s = Softmax { outer: 1, len: 4, inner: 1, log: true };
        let mut y = [0.0f32; 4];
        softmax(&s, 0..1, &x, &mut Out::new(&mut y));
        for (y, w) in y.iter().zip(want) {
            assert!((y - w).abs() < 1e-6, "{y} for {w}");
        }
    }

    #[test]
    fn masked_rows_stay_finite() {
        let s = Softmax { outer: 1, len: 3, inner: 1, log: false };
        let mut y = [0.0f32; 3];
        softmax(&s, 0..1, &[f32::NEG_INFINITY, 1e30, -1e9], &mut Out::new(&mut y));
        assert_eq!(y, [0.0, 1.0, 0.0]);
    }
}
