//! Pooling of half types in NC1HWC0: channels in groups of sixteen, innermost. Lanes beyond the
//! channels are written as zero.
use super::{Pool, Pooling, join};
use crate::conv::cube::LANES;
use crate::simd::isa::PanelElem;
use crate::view::Out;
use std::ops::Range;

/// Window pooling over two spatial axes. `plan.planes` counts the groups of channels of all images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CubePooling {
    /// Sizes of the pooling.
    pub plan: Pooling,
    /// Number of channels of an image.
    pub channels: usize,
}

/// Approximate number of outputs of a unit.
const AREA: usize = 1024;

impl CubePooling {
    /// Number of output rows of a unit.
    fn rows(&self) -> usize {
        (AREA / self.plan.output[2].max(1)).clamp(1, self.plan.output[1].max(1))
    }

    /// Number of units of work: strips of rows of planes.
    pub fn units(&self) -> usize {
        self.plan.planes * self.plan.output[1].div_ceil(self.rows())
    }

    /// Does the strips `units`.
    pub fn run<T: PanelElem>(&self, units: Range<usize>, x: &[T], out: &mut Out<'_, T>) {
        let p = &self.plan;
        let ([_, high, wide], [_, height, width]) = (p.input, p.output);
        let groups = self.channels.div_ceil(LANES).max(1);
        let start = if p.op == Pool::Max { f32::NEG_INFINITY } else { 0.0 };
        crate::scratch::with_scratch(width * LANES, |line| {
            let strips = height.div_ceil(self.rows());
            for unit in units.start..units.end.min(self.units()) {
                let (plane, first) = (unit / strips, unit % strips * self.rows());
                let image = &x[plane * high * wide * LANES..(plane + 1) * high * wide * LANES];
                let used = self.channels - plane % groups * LANES;
                for y in first..(first + self.rows()).min(height) {
                    line.fill(start);
                    for iy in p.taps(1, y) {
                        let row = &image[iy * wide * LANES..(iy + 1) * wide * LANES];
                        (0..p.kernel[2]).for_each(|k| self.tap(k, row, line));
                    }
                    if p.op != Pool::Max {
                        let rows = p.divisor(1, y);
                        for (o, v) in line.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
                            let by = (rows * p.divisor(2, o)) as f32;
                            v.iter_mut().for_each(|v| *v /= by);
                        }
                    }
                    if used < LANES {
                        line.as_chunks_mut::<LANES>().0.iter_mut().for_each(|v| v[used..].fill(0.0));
                    }
                    let to = out.part((plane * height + y) * width * LANES, width * LANES);
                    to.iter_mut().zip(&*line).for_each(|(t, v)| *t = T::narrow(*v));
                }
            }
        });
    }

    /// Joins the elements that one tap reads from a row to the outputs that it contributes to.
    fn tap<T: PanelElem>(&self, k: usize, row: &[T], line: &mut [f32]) {
        let p = &self.plan;
        let (stride, at, pad) = (p.stride[2], k * p.dilation[2], p.pad_before[2]);
        // Outputs o with 0 <= o * stride + at - pad < wide.
        let first = pad.saturating_sub(at).div_ceil(stride);
        let behind = (p.input[2] + pad).saturating_sub(at).div_ceil(stride).min(p.output[2]);
        if first < behind {
            let from = (first * stride + at - pad) * LANES;
            lanes(p.op, &row[from..], stride, &mut line[first * LANES..behind * LANES]);
        }
    }
}

crate::multiversion! {
    fn lanes<T: PanelElem>(op: Pool, row: &[T], step: usize, line: &mut [f32]) {
        let from = row.as_chunks::<16>().0.iter().step_by(step);
        for (to, from) in line.as_chunks_mut::<16>().0.iter_mut().zip(from) {
            if op == Pool::Max {
                to.iter_mut().zip(from).for_each(|(t, v)| *t = join(Pool::Max, *t, v.wide()));
            } else {
                to.iter_mut().zip(from).for_each(|(t, v)| *t += v.wide());
            }
        }
    }
}

/// Global pooling of each channel to one number: from NC1HWC0 to the plain `[N, C]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CubeGlobal {
    /// Whether the maximum is taken; otherwise the mean.
    pub max: bool,
    /// Number of images.
    pub batch: usize,
    /// Number of channels of an image.
    pub channels: usize,
    /// Number of positions of a plane.
    pub positions: usize,
}

impl CubeGlobal {
    /// Number of units of work: planes of groups of channels.
    pub fn units(&self) -> usize {
        self.batch * self.channels.div_ceil(LANES)
    }

    /// Does the planes `units`.
    pub fn run<T: PanelElem>(&self, units: Range<usize>, x: &[T], out: &mut Out<'_, T>) {
        let groups = self.channels.div_ceil(LANES).max(1);
        let size = self.positions * LANES;
        for plane in units.start..units.end.min(self.units()) {
            let mut line = [0.0f32; LANES];
            whole(self.max, &x[plane * size..(plane + 1) * size], &mut line);
            let (n, first) = (plane / groups, plane % groups * LANES);
            let to = out.part(n * self.channels + first, (self.channels - first).min(LANES));
            to.iter_mut().zip(line).for_each(|(t, v)| *t = T::narrow(v));
        }
    }
}

crate::multiversion! {
    fn whole<T: PanelElem>(max: bool, x: &[T], line: &mut [f32; 16]) {
        // Four sums, each over every fourth position, joined in one order.
        let start = if max { f32::NEG_INFINITY } else { 0.0 };
        let mut sums = [[start; 16]; 4];
        let x = x.as_chunks::<16>().0;
        for four in x.chunks(4) {
            for (sum, v) in sums.iter_mut().zip(four) {
                for (s, v) in sum.iter_mut().zip(v) {
                    *s = if max { join(Pool::Max, *s, v.wide()) } else { *s + v.wide() };
                }
            }
        }
        for (l, to) in line.iter_mut().enumerate() {
            let [a, b, c, d] = [sums[0][l], sums[1][l], sums[2][l], sums[3][l]];
            *to = match max {
                true => join(Pool::Max, join(Pool::Max, a, b), join(Pool::Max, c, d)),
                false => ((a + b) + (c + d)) / x.len() as f32,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::blocked::{Blocked, Part};
    use crate::view::block_range;
    use half::f16;
    use proptest::prelude::*;

    fn grouped(x: &[f16], [n, c, h, w]: [usize; 4]) -> Vec<f16> {
        let part = |axis, step, size| Part { axis, step, size };
        let parts = [part(0, 1, n), part(1, LANES, c.div_ceil(LANES)), part(2, 1, h), part(3, 1, w), part(1, 1, LANES)];
        let plan = Blocked::new(&[n, c, h, w], &parts).unwrap();
        let mut y = vec![f16::NAN; plan.len()];
        plan.pack(0..plan.packed_rows(), x, &mut Out::new(&mut y));
        y
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]
        #[test]
        fn groups_of_channels_give_what_planes_give(
            batch in 1usize..3, channels in 1usize..40, kind in 0usize..3,
            a in (1usize..9, 1usize..4, 1usize..4, 1usize..3, 0usize..3, 0usize..3),
            b in (1usize..20, 1usize..4, 1usize..4, 1usize..3, 0usize..3, 0usize..3),
        ) {
            let size = |v: (usize, usize, usize, usize, usize, usize)|
                Pooling::output_size(v.0, v.1, v.2, v.3, [v.4, v.5], false);
            let plan = Pooling {
                op: [Pool::Max, Pool::Average, Pool::AverageWithPads][kind], planes: batch * channels,
                input: [1, a.0, b.0], output: [1, size(a), size(b)], kernel: [1, a.1, b.1], stride: [1, a.2, b.2],
                dilation: [1, a.3, b.3], pad_before: [0, a.4, b.4], pad_after: [0, a.5, b.5],
            };
            prop_assume!(plan.output[1] > 0 && plan.output[2] > 0);
            let x: Vec<f16> = (0..plan.planes * a.0 * b.0).map(|i| f16::from_f32((i as f32 * 1.3).sin())).collect();
            let mut want = vec![f16::NAN; plan.planes * plan.output[1] * plan.output[2]];
            plan.run(0..plan.units(), &x, &mut Out::new(&mut want));
            let want = grouped(&want, [batch, channels, plan.output[1], plan.output[2]]);
            let x = grouped(&x, [batch, channels, a.0, b.0]);
            let planes = batch * channels.div_ceil(LANES);
            let cube = CubePooling { plan: Pooling { planes, ..plan }, channels };
            let mut y = vec![f16::NAN; want.len()];
            for block in 0..2 {
                cube.run(block_range(cube.units(), block, 2), &x, &mut Out::new(&mut y));
            }
            for (g, w) in y.iter().zip(&want) {
                let near = (g.to_f32() - w.to_f32()).abs() < 2e-3;
                prop_assert!(near || g == w || (g.is_nan() && w.is_nan()), "{} for {}", g, w);
            }
        }

        #[test]
        fn one_number_a_channel(batch in 1usize..3, channels in 1usize..40, h in 1usize..9, w in 1usize..9, max in any::<bool>()) {
            let x: Vec<f16> = (0..batch * channels * h * w).map(|i| f16::from_f32((i as f32 * 0.7).cos())).collect();
            let plan = CubeGlobal { max, batch, channels, positions: h * w };
            let mut y = vec![f16::NAN; batch * channels];
            plan.run(0..plan.units(), &grouped(&x, [batch, channels, h, w]), &mut Out::new(&mut y));
            for (g, plane) in y.iter().zip(x.chunks(h * w)) {
                let values = plane.iter().map(|v| f64::from(v.to_f32()));
                let want = if max { values.fold(f64::MIN, f64::max) } else { values.sum::<f64>() / (h * w) as f64 };
                prop_assert!((f64::from(g.to_f32()) - want).abs() < 1e-3, "{} for {}", g, want);
            }
        }
    }
}
