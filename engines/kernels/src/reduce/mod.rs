//! Reductions over any axes. A unit of work is one element of the output.
use crate::simd::fold::{max_of, min_of, sum_by};
use crate::simd::isa::PanelElem;
use crate::simd::lines::{round_to, widen};
use crate::simd::math;
use crate::view::{Layout, Nest, Out, ViewError};
use std::ops::Range;

/// Index of the largest or smallest element.
pub mod arg;
/// Reductions that compute many results at a time.
mod many;
/// The best elements of a line.
pub mod top;

pub(crate) use many::{Join, Largest, Sum, sum_lanes};

/// Maximum count of numbers in the rows that are widened or gathered at a time, unless a single row
/// has more.
const GROUP: usize = 4096;

/// What a reduction computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduce {
    /// `sum x`.
    Sum,
    /// `sum x / n`.
    Mean,
    /// Largest element.
    Max,
    /// Smallest element.
    Min,
    /// Product of all elements.
    Prod,
    /// `sum |x|`.
    L1,
    /// `sqrt(sum x^2)`.
    L2,
    /// `sum x^2`.
    SumSquare,
    /// `ln(sum x)`.
    LogSum,
    /// `ln(sum e^x)`.
    LogSumExp,
}

/// A planned reduction of a row-major tensor.
#[derive(Clone, Debug)]
pub struct Reduction {
    op: Reduce,
    kept: Nest<1>,
    reduced: Nest<1>,
    count: usize,
    /// Whether each result reduces one contiguous row.
    rows: bool,
    /// Whether neighbouring results reduce neighbouring columns.
    columns: bool,
    /// How groups of few columns are reduced, if their rows follow each other.
    narrow: Option<many::Narrow>,
}

impl Reduction {
    /// Plans a reduction over `axes` of a row-major tensor of this shape.
    ///
    /// # Errors
    /// Returns `TooLarge` if the shape cannot be addressed, `Axis` if an axis is beyond the rank.
    pub fn new(op: Reduce, shape: &[usize], axes: &[usize]) -> Result<Reduction, ViewError> {
        let all = Layout::contiguous(shape)?;
        if let Some(&a) = axes.iter().find(|&&a| a >= shape.len()) {
            return Err(ViewError::Axis { axis: i64::try_from(a).unwrap_or(i64::MAX), rank: shape.len() });
        }
        let part = |inside: bool| {
            let order: Vec<usize> = (0..shape.len()).filter(|d| axes.contains(d) == inside).collect();
            let rest: Vec<usize> = (0..shape.len()).filter(|d| axes.contains(d) != inside).collect();
            let n = order.len();
            let l = all.permute(&order.into_iter().chain(rest).collect::<Vec<_>>())?;
            Ok(Nest::new(&l.shape()[..n], [&l]))
        };
        let (kept, reduced) = (part(false)?, part(true)?);
        // The order of the axes with more than one element tells where results and their elements
        // are.
        let mut order = (0..shape.len()).filter(|d| shape[*d] > 1).map(|d| axes.contains(&d));
        let rows = order.by_ref().skip_while(|inside| !inside).all(|inside| inside);
        let last = (0..shape.len()).rev().find(|d| shape[*d] > 1);
        let columns = last.is_some_and(|d| !axes.contains(&d));
        // From the last axis on: axes of the columns, then all axes that are reduced, then others.
        let mut order = (0..shape.len()).rev().filter(|d| shape[*d] > 1).peekable();
        let mut width = 1;
        while let Some(d) = order.next_if(|d| !axes.contains(d)) {
            width *= shape[d];
        }
        let grouped = columns && order.skip_while(|d| axes.contains(d)).all(|d| !axes.contains(&d));
        // A product is in the order of its numbers. Extremes are found faster group by group: what
        // replaces a number by a larger one in memory becomes masked stores, which are slow.
        let in_order = matches!(op, Reduce::Prod | Reduce::Max | Reduce::Min);
        let narrow = many::Narrow::new(width).filter(|_| grouped && !in_order);
        Ok(Reduction { op, count: reduced.len(), kept, reduced, rows, columns, narrow })
    }

    /// Number of output elements, the units of work.
    pub fn units(&self) -> usize {
        self.kept.len()
    }

    /// Number of elements reduced to each output element.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Computes the output elements `units`.
    pub fn run<T: PanelElem>(&self, units: Range<usize>, x: &[T], out: &mut Out<'_, T>) {
        let units = units.start..units.end.min(self.units());
        if self.run_many(units.clone(), x, out) {
            return;
        }
        // Rows that are not contiguous are gathered first, so that additions follow the order of
        // the reduced elements.
        let count = self.count;
        let group = (GROUP / count.max(1)).clamp(1, units.len().max(1));
        crate::scratch::with_scratch(group * (count + 1), |s| {
            let (lines, results) = s.split_at_mut(group * count);
            for first in (units.start..units.end).step_by(group) {
                let some = first..(first + group).min(units.end);
                let (lines, results) = (&mut lines[..some.len() * count], &mut results[..some.len()]);
                if self.rows {
                    widen(&x[first * count..some.end * count], lines);
                } else {
                    let mut at = 0;
                    self.each_line(some.clone(), |base| {
                        self.gather(base, x, &mut lines[at..at + count]);
                        at += count;
                    });
                }
                self.op.rows(count, lines, results);
                round_to(results, out.part(first, some.len()));
            }
        });
    }

    /// Calls `f` for each of the output elements `units`, with the position that its elements are
    /// relative to.
    fn each_line(&self, units: Range<usize>, mut f: impl FnMut(isize)) {
        self.kept.each_run_in(units, |[p], len, [step]| (0..len as isize).for_each(|i| f(p + i * step)));
    }

    /// Copies the elements of one output element to a line.
    fn gather<T: PanelElem>(&self, base: isize, x: &[T], line: &mut [f32]) {
        let mut n = 0;
        self.reduced.each_run(|[q], len, [s]| {
            if s == 1 {
                let from = (base + q) as usize;
                widen(&x[from..from + len], &mut line[n..n + len]);
            } else {
                for (k, v) in line[n..n + len].iter_mut().enumerate() {
                    *v = x[(base + q + k as isize * s) as usize].wide();
                }
            }
            n += len;
        });
    }
}

crate::multiversion! {
    /// Reduces a line of numbers, in the fixed order of the reduction.
    pub fn fold(op: Reduce, x: &[f32]) -> f32 {
        match op {
            Reduce::Sum => sum_by(x, |v| v),
            Reduce::Mean => sum_by(x, |v| v) / x.len().max(1) as f32,
            Reduce::Max => max_of(x),
            Reduce::Min => min_of(x),
            Reduce::Prod => x.iter().fold(1.0, |a, v| a * v),
            Reduce::L1 => sum_by(x, f32::abs),
            Reduce::L2 => sum_by(x, |v| v * v).sqrt(),
            Reduce::SumSquare => sum_by(x, |v| v * v),
            Reduce::LogSum => math::ln(sum_by(x, |v| v)),
            Reduce::LogSumExp => {
                let m = max_of(x);
                if m.is_infinite() { m } else { m + math::ln(sum_by(x, |v| math::exp(v - m))) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, with_level};
    use crate::view::block_range;
    use proptest::prelude::*;

    fn naive(op: Reduce, v: &[f64]) -> f64 {
        match op {
            Reduce::Sum => v.iter().sum(),
            Reduce::Mean => v.iter().sum::<f64>() / v.len().max(1) as f64,
            Reduce::Max => v.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            Reduce::Min => v.iter().copied().fold(f64::INFINITY, f64::min),
            Reduce::Prod => v.iter().product(),
            Reduce::L1 => v.iter().map(|x| x.abs()).sum(),
            Reduce::L2 => v.iter().map(|x| x * x).sum::<f64>().sqrt(),
            Reduce::SumSquare => v.iter().map(|x| x * x).sum(),
            Reduce::LogSum => v.iter().sum::<f64>().ln(),
            Reduce::LogSumExp => v.iter().map(|x| x.exp()).sum::<f64>().ln(),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
        #[test]
        fn any_axes_agree_with_the_definition(shape in prop::collection::vec(1usize..6, 0..5), mask in any::<u8>()) {
            use Reduce::*;
            let axes: Vec<usize> = (0..shape.len()).filter(|d| mask >> d & 1 == 1).collect();
            let n: usize = shape.iter().product();
            let x: Vec<f32> = (0..n).map(|i| (i as f32 * 0.9).sin() + 1.25).collect();
            for op in [Sum, Mean, Max, Min, Prod, L1, L2, SumSquare, LogSum, LogSumExp] {
                let r = Reduction::new(op, &shape, &axes).unwrap();
                let mut groups: Vec<Vec<f64>> = vec![vec![]; r.units()];
                for (i, v) in x.iter().enumerate() {
                    let (mut rest, mut at, mut scale) = (i, 0, 1);
                    for d in (0..shape.len()).rev() {
                        if !axes.contains(&d) {
                            at += rest % shape[d] * scale;
                            scale *= shape[d];
                        }
                        rest /= shape[d];
                    }
                    groups[at].push(f64::from(*v));
                }
                let run = |blocks, level| {
                    let mut y = vec![0.0f32; r.units()];
                    with_level(level, || (0..blocks).for_each(|b| r.run(block_range(r.units(), b, blocks), &x, &mut Out::new(&mut y))));
                    y
                };
                let y = run(1, Level::Scalar);
                for level in Level::available() {
                    prop_assert_eq!(&run(7, level), &y);
                }
                for (g, y) in groups.iter().zip(&y) {
                    let want = naive(op, g);
                    prop_assert!((f64::from(*y) - want).abs() <= 1e-5 * want.abs().max(1.0), "{:?}: {} for {}", op, y, want);
                }
            }
        }
    }

    #[test]
    fn the_mean_of_nothing_is_zero() {
        for (shape, axes) in [(&[0usize, 3][..], &[0usize][..]), (&[2, 0, 3], &[1]), (&[0], &[0]), (&[40, 0], &[1])] {
            let r = Reduction::new(Reduce::Mean, shape, axes).unwrap();
            let mut y = vec![1.0f32; r.units()];
            r.run(0..r.units(), &[] as &[f32], &mut Out::new(&mut y));
            assert!(y.iter().all(|y| *y == 0.0), "{shape:?}: {y:?}");
        }
    }

    #[test]
    fn many_at_a_time_have_the_bits_of_each_alone() {
        use Reduce::*;
        let shapes: [(&[usize], &[usize]); 11] = [
            (&[37, 9], &[1]),
            (&[5, 16], &[1]),
            (&[18, 7, 7], &[1, 2]),
            (&[3, 300], &[1]),
            (&[2, 90, 21], &[1]),
            (&[4, 3, 5, 17], &[0, 2]),
            (&[33, 1], &[1]),
            (&[6, 1, 40], &[0]),
            (&[200, 70], &[0]),
            (&[3, 64, 33], &[1]),
            (&[5, 1300], &[1]),
        ];
        for (shape, axes) in shapes {
            let n: usize = shape.iter().product();
            let x: Vec<f32> = (0..n).map(|i| if i % 5 == 0 { -0.0 } else { (i as f32 * 0.9).sin() * 1e3 }).collect();
            for op in [Sum, Mean, L1, L2, SumSquare, LogSum, Max, Min, Prod] {
                let r = Reduction::new(op, shape, axes).unwrap();
                let alone = |i: usize| {
                    let mut line = Vec::new();
                    r.kept.each_run_in(i..i + 1, |[p], _, _| {
                        r.reduced.each_run(|[q], len, [s]| {
                            line.extend((0..len as isize).map(|k| x[(p + q + k * s) as usize]))
                        });
                    });
                    fold(op, &line).to_bits()
                };
                let want: Vec<u32> = (0..r.units()).map(alone).collect();
                for level in Level::available() {
                    let mut y = vec![9.0f32; r.units()];
                    with_level(level, || {
                        (0..3).for_each(|b| r.run(block_range(r.units(), b, 3), &x, &mut Out::new(&mut y)));
                    });
                    assert_eq!(y.iter().map(|v| v.to_bits()).collect::<Vec<_>>(), want, "{level:?} {op:?} {shape:?}");
                }
            }
        }
    }

    #[test]
    fn empty_and_not_a_number() {
        let r = Reduction::new(Reduce::Sum, &[2, 0], &[1]).unwrap();
        let mut y = [9.0f32; 2];
        r.run(0..2, &[], &mut Out::new(&mut y));
        assert_eq!(y, [0.0, 0.0]);
        for op in [Reduce::Max, Reduce::Min] {
            let mut y = [0.0f32];
            Reduction::new(op, &[3], &[0]).unwrap().run(0..1, &[1.0, f32::NAN, 2.0], &mut Out::new(&mut y));
            assert!(y[0].is_nan());
        }
        assert!(matches!(Reduction::new(Reduce::Sum, &[2], &[1]), Err(ViewError::Axis { axis: 1, rank: 1 })));
    }
}
