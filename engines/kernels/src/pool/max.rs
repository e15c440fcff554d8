//! The largest element of windows over one or two spatial axes, by rows first: each row of the
//! input is looked through once, and a window is the largest of the results of its rows.
use super::{Pool, Pooling, join};
use crate::simd::isa::PanelElem;
use crate::view::Out;
use std::ops::Range;

impl Pooling {
    /// Whether [`Pooling::run_max`] does it.
    pub(super) fn is_max_of_rows(&self) -> bool {
        self.op == Pool::Max && self.input[0] == 1 && self.kernel[0] == 1 && self.output[0] == 1
    }

    /// Does the planes of `units`; `inside` are the output columns whose windows lie wholly inside.
    pub(super) fn run_max<T: PanelElem>(
        &self,
        units: Range<usize>,
        inside: Range<usize>,
        x: &[T],
        out: &mut Out<'_, T>,
    ) {
        let [_, height_in, width_in] = self.input;
        let [_, height, width] = self.output;
        // Rows that a window reaches over are as many places of the ring.
        let span = ((self.kernel[1] - 1) * self.dilation[1] + 1).min(height_in.max(1));
        let mut held = vec![usize::MAX; span];
        crate::scratch::with_scratch((span + 1) * width, |s| {
            let (ring, line) = s.split_at_mut(span * width);
            for plane in units.start..units.end.min(self.planes) {
                let image = &x[plane * height_in * width_in..][..height_in * width_in];
                held.fill(usize::MAX);
                for y in 0..height {
                    line.fill(f32::NEG_INFINITY);
                    for iy in self.taps(1, y) {
                        let of_row = &mut ring[iy % span * width..][..width];
                        if held[iy % span] != iy {
                            held[iy % span] = iy;
                            self.of_row(&image[iy * width_in..(iy + 1) * width_in], &inside, of_row);
                        }
                        larger(line, of_row);
                    }
                    narrow(line, out.part((plane * height + y) * width, width));
                }
            }
        });
    }

    /// The largest elements of the windows of one row.
    fn of_row<T: PanelElem>(&self, row: &[T], inside: &Range<usize>, line: &mut [f32]) {
        line.fill(f32::NEG_INFINITY);
        for o in (0..inside.start).chain(inside.end..line.len()) {
            for ix in self.taps(2, o) {
                line[o] = join(Pool::Max, line[o], row[ix].wide());
            }
        }
        if inside.start < inside.end {
            let first = inside.start * self.stride[2] - self.pad_before[2];
            for t in 0..self.kernel[2] {
                let from = &row[first + t * self.dilation[2]..];
                stepped(from, self.stride[2], &mut line[inside.clone()]);
            }
        }
    }
}

crate::multiversion! {
    fn larger(line: &mut [f32], other: &[f32]) {
        for (v, o) in line.iter_mut().zip(other) {
            *v = join(Pool::Max, *v, *o);
        }
    }
}
crate::multiversion! {
    fn stepped<T: PanelElem>(row: &[T], step: usize, line: &mut [f32]) {
        match step {
            1 => line.iter_mut().zip(row).for_each(|(v, x)| *v = join(Pool::Max, *v, x.wide())),
            2 => {
                // Pairs let the compiler see the pattern.
                let (pairs, rest) = row.as_chunks::<2>();
                line.iter_mut().zip(pairs).for_each(|(v, x)| *v = join(Pool::Max, *v, x[0].wide()));
                if let (Some(v), Some(x)) = (line.get_mut(pairs.len()), rest.first()) {
                    *v = join(Pool::Max, *v, x.wide());
                }
            }
            _ => line.iter_mut().zip(row.iter().step_by(step)).for_each(|(v, x)| *v = join(Pool::Max, *v, x.wide())),
        }
    }
}
crate::multiversion! {
    fn narrow<T: PanelElem>(line: &[f32], out: &mut [T]) {
        for (o, v) in out.iter_mut().zip(line) {
            *o = T::narrow(*v);
        }
    }
}
