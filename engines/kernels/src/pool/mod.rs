//! Pooling over one to three spatial dimensions, channels first. A unit of work is one plane (image
//! and channel), or sixteen small ones.

/// Pooling in NC1HWC0: channels in groups of sixteen, innermost.
pub mod cube;
/// Small planes, sixteen at a time.
mod lanes;
/// Windows of two columns, straight from the rows.
mod pairs;
/// Windows over rows, then over columns.
mod rows;
/// Maxima of large windows.
mod slide;

use crate::simd::isa::PanelElem;
use crate::view::Out;
use std::ops::Range;

/// The result of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// The largest element; NaN if there is one.
    Max,
    /// The mean of the elements inside the input.
    Average,
    /// The sum of the elements inside the input, divided by the number of elements of the window
    /// inside the padded input.
    AverageWithPads,
}

/// Sizes of a pooling. With fewer than three spatial dimensions, the leading ones have size one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pooling {
    /// The result of a window.
    pub op: Pool,
    /// Number of images times channels.
    pub planes: usize,
    /// Spatial sizes of the input.
    pub input: [usize; 3],
    /// Spatial sizes of the output.
    pub output: [usize; 3],
    /// Window sizes.
    pub kernel: [usize; 3],
    /// Strides.
    pub stride: [usize; 3],
    /// Dilations.
    pub dilation: [usize; 3],
    /// Padding before each axis.
    pub pad_before: [usize; 3],
    /// Padding after each axis.
    pub pad_after: [usize; 3],
}

impl Pooling {
    /// The size of one output axis; `ceil` rounds up instead of down. It is 0 if `stride` is 0.
    pub fn output_size(
        size: usize,
        kernel: usize,
        stride: usize,
        dilation: usize,
        pads: [usize; 2],
        ceil: bool,
    ) -> usize {
        let span = kernel.saturating_sub(1).saturating_mul(dilation).saturating_add(1);
        let padded = size.saturating_add(pads[0]).saturating_add(pads[1]);
        if stride == 0 {
            return 0;
        }
        if span > padded {
            // When rounding up, a window that does not fit still counts as one that reaches beyond
            // the input.
            return usize::from(ceil && span - padded < stride && size + pads[0] > 0);
        }
        let free = padded - span;
        let n = if ceil { free.div_ceil(stride) } else { free / stride } + 1;
        // A last window that would begin in the padding after the input is dropped.
        if ceil && (n - 1) * stride >= size + pads[0] { n - 1 } else { n }
    }

    /// Whether images and windows are two-dimensional (depth one).
    pub(crate) fn is_flat(&self) -> bool {
        [self.input[0], self.kernel[0], self.output[0], self.pad_before[0] + 1] == [1; 4]
    }

    /// Whether each plane is one window without padding.
    pub fn is_of_whole_planes(&self) -> bool {
        (0..3).all(|d| {
            let sizes = [self.output[d], self.kernel[d], self.pad_before[d] + self.pad_after[d]];
            sizes == [1, self.input[d], 0] && (self.dilation[d] == 1 || self.kernel[d] == 1)
        })
    }

    /// Positions of the taps of one window along an axis that are inside the input.
    pub(crate) fn taps(&self, axis: usize, o: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.kernel[axis]).filter_map(move |k| {
            let p = (o * self.stride[axis] + k * self.dilation[axis]).checked_sub(self.pad_before[axis])?;
            (p < self.input[axis]).then_some(p)
        })
    }

    /// For a window of rows, the first such position and the number of them.
    fn run_of_taps(&self, y: usize) -> (usize, usize) {
        if self.dilation[1] > 1 {
            let mut taps = self.taps(1, y);
            return taps.next().map_or((0, 0), |first| (first, 1 + taps.count()));
        }
        let (at, pad) = (y * self.stride[1], self.pad_before[1]);
        let first = at.saturating_sub(pad).min(self.input[1]);
        let end = (at + self.kernel[1]).saturating_sub(pad).min(self.input[1]);
        (first, end - first)
    }

    /// Number of elements of a window along an axis that are inside the padded input.
    fn padded_taps(&self, axis: usize, o: usize) -> usize {
        let end = self.input[axis] + self.pad_before[axis] + self.pad_after[axis];
        (0..self.kernel[axis]).filter(|k| o * self.stride[axis] + k * self.dilation[axis] < end).count()
    }

    /// Divisor of an average along an axis. It is at least one, so that the average of a window
    /// without elements is zero.
    pub(crate) fn divisor(&self, axis: usize, o: usize) -> usize {
        let taps = match self.op {
            Pool::AverageWithPads => self.padded_taps(axis, o),
            _ => self.taps(axis, o).count(),
        };
        taps.max(1)
    }

    /// Number of units of work.
    pub fn units(&self) -> usize {
        if self.by_lanes() { self.planes.div_ceil(lanes::LANES) } else { self.planes }
    }

    /// Does the units `units`.
    pub fn run<T: PanelElem>(&self, units: Range<usize>, x: &[T], out: &mut Out<'_, T>) {
        if self.by_lanes() {
            return self.run_lanes(units, x, out);
        }
        if let Some(rows) = self.pairs() {
            return self.run_pairs(units, rows, x, out);
        }
        if let Some(size) = self.slides() {
            return self.run_slides(units, size, x, out);
        }
        self.run_rows(units, x, out);
    }
}

#[inline(always)]
pub(crate) fn join(op: Pool, a: f32, b: f32) -> f32 {
    match op {
        Pool::Max => {
            if b > a || b.is_nan() {
                b
            } else {
                a
            }
        }
        _ => a + b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, with_level};
    use crate::view::block_range;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]
        #[test]
        fn windows_agree_with_the_definition(
            a in (1usize..9, 1usize..7, 1usize..4, 1usize..3, 0usize..4, 0usize..4), b in (1usize..40, 1usize..10, 1usize..10, 1usize..3, 0usize..5, 0usize..5),
            c in (1usize..6, 1usize..4, 1usize..3, 1usize..3, 0usize..3, 0usize..3), flat in any::<bool>(),
            ceil in any::<bool>(), kind in 0usize..3, by_one in any::<bool>(), planes in prop::sample::select(&[3usize, 19][..]),
        ) {
            let (a, b) = if by_one { ((a.0, a.1, 1, 1, a.4, a.5), (b.0, b.1, 1, 1, b.4, b.5)) } else { (a, b) };
            let c = if flat { (1, 1, 1, 1, 0, 0) } else { c };
            let mut p = Pooling {
                op: [Pool::Max, Pool::Average, Pool::AverageWithPads][kind], planes, input: [c.0, a.0, b.0], output: [1; 3],
                kernel: [c.1, a.1, b.1], stride: [c.2, a.2, b.2], dilation: [c.3, a.3, b.3],
                pad_before: [c.4, a.4, b.4], pad_after: [c.5, a.5, b.5],
            };
            for d in 0..3 {
                p.output[d] = Pooling::output_size(p.input[d], p.kernel[d], p.stride[d], p.dilation[d], [p.pad_before[d], p.pad_after[d]], ceil);
                prop_assume!(p.output[d] > 0);
            }
            let size: usize = p.input.iter().product();
            let x: Vec<f32> = (0..planes * size).map(|i| (i as f32 * 1.3).sin()).collect();
            let out: usize = p.output.iter().product();
            let mut y = vec![f32::NAN; planes * out];
            for blk in 0..2 {
                p.run(block_range(p.units(), blk, 2), &x, &mut Out::new(&mut y));
            }
            for (i, got) in y.into_iter().enumerate() {
                let (plane, o) = (i / out, i % out);
                let at = [o / p.output[2] / p.output[1], o / p.output[2] % p.output[1], o % p.output[2]];
                let (mut best, mut sum, mut inside, mut padded) = (f32::NEG_INFINITY, 0.0f64, 0u32, 0u32);
                for k in 0..p.kernel.iter().product::<usize>() {
                    let tap = [k / p.kernel[2] / p.kernel[1], k / p.kernel[2] % p.kernel[1], k % p.kernel[2]];
                    let place: [usize; 3] = std::array::from_fn(|d| at[d] * p.stride[d] + tap[d] * p.dilation[d]);
                    padded += u32::from((0..3).all(|d| place[d] < p.input[d] + p.pad_before[d] + p.pad_after[d]));
                    if (0..3).all(|d| (p.pad_before[d]..p.pad_before[d] + p.input[d]).contains(&place[d])) {
                        let [z, y, column] = std::array::from_fn(|d| place[d] - p.pad_before[d]);
                        let v = x[plane * size + (z * p.input[1] + y) * p.input[2] + column];
                        best = best.max(v);
                        sum += f64::from(v);
                        inside += 1;
                    }
                }
                let want = match p.op {
                    Pool::Max => f64::from(best),
                    Pool::Average => sum / f64::from(inside.max(1)),
                    Pool::AverageWithPads => sum / f64::from(padded.max(1)),
                };
                let got = f64::from(got);
                prop_assert!((got - want).abs() < 1e-6 || got == want || (got.is_nan() && want.is_nan()), "{} for {}", got, want);
            }
        }
    }

    #[test]
    fn a_number_that_is_none_is_the_largest_of_its_windows() {
        // Planes one by one, and sixteen small planes at a time.
        for (planes, columns) in [(2, 40), (18, 24)] {
            for (half, level) in [1, 2].into_iter().flat_map(|h| Level::available().into_iter().map(move |l| (h, l))) {
                largest(planes, columns, half, level);
            }
        }
    }

    fn largest(planes: usize, columns: usize, half: usize, level: Level) {
        let k = 2 * half + 1;
        let size = |n: usize, k: usize| Pooling::output_size(n, k, 1, 1, [half; 2], false);
        let p = Pooling {
            op: Pool::Max,
            planes,
            input: [1, 6, columns],
            output: [1, size(6, k), size(columns, k)],
            kernel: [1, k, k],
            stride: [1; 3],
            dilation: [1; 3],
            pad_before: [0, half, half],
            pad_after: [0, half, half],
        };
        assert_eq!(p.by_lanes(), planes > 2);
        let each = 6 * columns;
        let mut x = vec![f32::NEG_INFINITY; planes * each];
        (x[each + 3 * columns + 20], x[5], x[7]) = (f32::NAN, f32::INFINITY, -1.0);
        let mut y = vec![0.0; planes * each];
        with_level(level, || p.run(0..p.units(), &x, &mut Out::new(&mut y)));
        for (i, v) in y.iter().enumerate() {
            let (plane, row, column) = (i / each, i / columns % 6, i % columns);
            let near = |r: usize, c: usize| row.abs_diff(r) <= half && column.abs_diff(c) <= half;
            assert_eq!(v.is_nan(), plane == 1 && near(3, 20), "{i} {level:?}");
            assert_eq!(*v == f32::INFINITY, plane == 0 && near(0, 5), "{i} {level:?}");
            assert_eq!(*v == -1.0, plane == 0 && near(0, 7) && !near(0, 5), "{i} {level:?}");
        }
    }

    #[test]
    fn sizes_round_up_only_when_a_window_starts_inside() {
        assert_eq!(Pooling::output_size(4, 2, 2, 1, [0, 0], false), 2);
        assert_eq!(Pooling::output_size(5, 2, 2, 1, [0, 0], true), 3);
        assert_eq!(Pooling::output_size(2, 1, 3, 1, [0, 1], true), 1);
        assert_eq!(Pooling::output_size(2, 5, 1, 1, [0, 0], false), 0);
    }
}
