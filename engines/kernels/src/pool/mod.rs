//! Pooling of one to three spatial dimensions, channels first. A unit of work is one plane (image
//! and channel).

/// Channels in groups of sixteen, innermost.
pub mod cube;
/// Windows over one or two axes, by rows.
mod rows;
/// The largest elements of large windows.
mod slide;

use crate::simd::isa::PanelElem;
use crate::view::Out;
use std::ops::Range;

/// What a window gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Its largest element; NaN if there is one.
    Max,
    /// The mean of its elements inside the input.
    Average,
    /// Their sum over the elements of the window inside the padded input.
    AverageWithPads,
}

/// Sizes of a pooling; fewer than three spatial dimensions are led by ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pooling {
    /// What a window gives.
    pub op: Pool,
    /// Images times channels, the units of work.
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
    /// The size of one output axis.
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
            // Rounded up, less than one window is one that reaches beyond the input.
            return usize::from(ceil && span - padded < stride && size + pads[0] > 0);
        }
        let free = padded - span;
        let n = if ceil { free.div_ceil(stride) } else { free / stride } + 1;
        // A last window that would begin in the padding behind is dropped.
        if ceil && (n - 1) * stride >= size + pads[0] { n - 1 } else { n }
    }

    /// Taps of one window along an axis that are inside the input.
    pub(crate) fn taps(&self, axis: usize, o: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.kernel[axis]).filter_map(move |k| {
            let p = (o * self.stride[axis] + k * self.dilation[axis]).checked_sub(self.pad_before[axis])?;
            (p < self.input[axis]).then_some(p)
        })
    }

    /// The first of those of a window of rows, and how many there are.
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

    /// Elements of a window along an axis that are inside the padded input.
    fn padded_taps(&self, axis: usize, o: usize) -> usize {
        let end = self.input[axis] + self.pad_before[axis] + self.pad_after[axis];
        (0..self.kernel[axis]).filter(|k| o * self.stride[axis] + k * self.dilation[axis] < end).count()
    }

    /// Elements along an axis that an average divides by; the average of a window without elements
    /// is zero.
    pub(crate) fn divisor(&self, axis: usize, o: usize) -> usize {
        let taps = match self.op {
            Pool::AverageWithPads => self.padded_taps(axis, o),
            _ => self.taps(axis, o).count(),
        };
        taps.max(1)
    }

    /// Does the planes of `units`.
    pub fn run<T: PanelElem>(&self, units: Range<usize>, x: &[T], out: &mut Out<'_, T>) {
        if let Some(size) = self.slides() {
            return self.run_slides(units, size, x, out);
        }
        if self.is_by_rows() {
            return self.run_rows(units, x, out);
        }
        let size_in: usize = self.input.iter().product();
        let size_out: usize = self.output.iter().product();
        let [depth, height, width] = self.output;
        // Output columns whose windows lie wholly inside.
        let (k, s, d, p) = (self.kernel[2], self.stride[2], self.dilation[2], self.pad_before[2]);
        let first = p.div_ceil(s).min(width);
        let reach = (k - 1) * d;
        let last = (self.input[2] + p)
            .checked_sub(reach + 1)
            .map_or(0, |v| v / s + 1)
            .clamp(first, width.max(first))
            .min(width);
        crate::scratch::with_scratch(width, |line| {
            for plane in units.start..units.end.min(self.planes) {
                let image = &x[plane * size_in..(plane + 1) * size_in];
                for z in 0..depth {
                    for y in 0..height {
                        let start = if self.op == Pool::Max { f32::NEG_INFINITY } else { 0.0 };
                        line.fill(start);
                        for iz in self.taps(0, z) {
                            for iy in self.taps(1, y) {
                                let row = &image[(iz * self.input[1] + iy) * self.input[2]..][..self.input[2]];
                                for o in (0..first).chain(last..width) {
                                    for ix in self.taps(2, o) {
                                        line[o] = join(self.op, line[o], row[ix].wide());
                                    }
                                }
                                if first < last {
                                    for t in 0..k {
                                        inner(self.op, &row[first * s + t * d - p..], s, &mut line[first..last]);
                                    }
                                }
                            }
                        }
                        if self.op != Pool::Max {
                            let rows = self.divisor(0, z) * self.divisor(1, y);
                            for (o, v) in line.iter_mut().enumerate() {
                                *v /= (rows * self.divisor(2, o)) as f32;
                            }
                        }
                        let to = out.part(plane * size_out + (z * height + y) * width, width);
                        for (t, v) in to.iter_mut().zip(line.iter()) {
                            *t = T::narrow(*v);
                        }
                    }
                }
            }
        });
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

crate::multiversion! {
    fn inner<T: PanelElem>(op: Pool, row: &[T], step: usize, line: &mut [f32]) {
        if op == Pool::Max {
            for (i, v) in line.iter_mut().enumerate() {
                *v = join(Pool::Max, *v, row[i * step].wide());
            }
        } else {
            for (i, v) in line.iter_mut().enumerate() {
                *v += row[i * step].wide();
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

    proptest! {
        #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]
        #[test]
        fn windows_agree_with_the_definition(
            a in (1usize..9, 1usize..7, 1usize..4, 1usize..3, 0usize..4, 0usize..4), b in (1usize..40, 1usize..10, 1usize..4, 1usize..3, 0usize..5, 0usize..5),
            ceil in any::<bool>(), kind in 0usize..3, by_one in any::<bool>(),
        ) {
            let (a, b) = if by_one { ((a.0, a.1, 1, 1, a.4, a.5), (b.0, b.1, 1, 1, b.4, b.5)) } else { (a, b) };
            let mut p = Pooling {
                op: [Pool::Max, Pool::Average, Pool::AverageWithPads][kind], planes: 3, input: [1, a.0, b.0], output: [1; 3],
                kernel: [1, a.1, b.1], stride: [1, a.2, b.2], dilation: [1, a.3, b.3],
                pad_before: [0, a.4, b.4], pad_after: [0, a.5, b.5],
            };
            for d in 1..3 {
                p.output[d] = Pooling::output_size(p.input[d], p.kernel[d], p.stride[d], p.dilation[d], [p.pad_before[d], p.pad_after[d]], ceil);
                prop_assume!(p.output[d] > 0);
            }
            let size = p.input[1] * p.input[2];
            let x: Vec<f32> = (0..3 * size).map(|i| (i as f32 * 1.3).sin()).collect();
            let out = p.output[1] * p.output[2];
            let mut y = vec![f32::NAN; 3 * out];
            for blk in 0..2 {
                p.run(block_range(3, blk, 2), &x, &mut Out::new(&mut y));
            }
            for plane in 0..3 {
                for oy in 0..p.output[1] {
                    for ox in 0..p.output[2] {
                        let (mut best, mut sum, mut inside, mut padded) = (f32::NEG_INFINITY, 0.0f64, 0, 0);
                        for ky in 0..p.kernel[1] {
                            for kx in 0..p.kernel[2] {
                                let (iy, ix) = (oy * p.stride[1] + ky * p.dilation[1], ox * p.stride[2] + kx * p.dilation[2]);
                                if iy < p.input[1] + p.pad_before[1] + p.pad_after[1] && ix < p.input[2] + p.pad_before[2] + p.pad_after[2] {
                                    padded += 1;
                                }
                                if iy >= p.pad_before[1] && ix >= p.pad_before[2] && iy - p.pad_before[1] < p.input[1] && ix - p.pad_before[2] < p.input[2] {
                                    let v = x[plane * size + (iy - p.pad_before[1]) * p.input[2] + ix - p.pad_before[2]];
                                    best = best.max(v);
                                    sum += f64::from(v);
                                    inside += 1;
                                }
                            }
                        }
                        let got = f64::from(y[plane * out + oy * p.output[2] + ox]);
                        let want = match p.op {
                            Pool::Max => f64::from(best),
                            Pool::Average => sum / f64::from(inside.max(1)),
                            Pool::AverageWithPads => sum / f64::from(padded.max(1)),
                        };
                        prop_assert!((got - want).abs() < 1e-6 || got == want || (got.is_nan() && want.is_nan()), "{} for {}", got, want);
                    }
                }
            }
        }
    }

    #[test]
    fn a_number_that_is_none_is_the_largest_of_its_windows() {
        for (half, level) in [1, 2].into_iter().flat_map(|h| Level::available().into_iter().map(move |l| (h, l))) {
            let k = 2 * half + 1;
            let size = |n: usize, k: usize| Pooling::output_size(n, k, 1, 1, [half; 2], false);
            let p = Pooling {
                op: Pool::Max,
                planes: 2,
                input: [1, 6, 40],
                output: [1, size(6, k), size(40, k)],
                kernel: [1, k, k],
                stride: [1; 3],
                dilation: [1; 3],
                pad_before: [0, half, half],
                pad_after: [0, half, half],
            };
            let mut x = vec![f32::NEG_INFINITY; 480];
            (x[240 + 3 * 40 + 20], x[5], x[7]) = (f32::NAN, f32::INFINITY, -1.0);
            let mut y = vec![0.0; 480];
            with_level(level, || p.run(0..2, &x, &mut Out::new(&mut y)));
            for (i, v) in y.iter().enumerate() {
                let (plane, row, column) = (i / 240, i / 40 % 6, i % 40);
                let near = |r: usize, c: usize| row.abs_diff(r) <= half && column.abs_diff(c) <= half;
                assert_eq!(v.is_nan(), plane == 1 && near(3, 20), "{i} {level:?}");
                assert_eq!(*v == f32::INFINITY, plane == 0 && near(0, 5), "{i} {level:?}");
                assert_eq!(*v == -1.0, plane == 0 && near(0, 7) && !near(0, 5), "{i} {level:?}");
            }
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
