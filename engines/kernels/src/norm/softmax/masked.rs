//! Softmax over the last axis of numbers that are scaled and to which a mask is added.
use super::{lines_of, rows};
use crate::scratch::with_scratch;
use crate::simd::isa::PanelElem;
use crate::simd::lines::round_to;
use crate::view::{Nest, Out};
use std::ops::Range;

/// Softmax of the rows of `x * scale + mask`.
#[derive(Clone, Debug)]
pub struct MaskedSoftmax {
    /// Factor of the numbers.
    pub scale: f32,
    /// Number of rows, the units of work.
    pub rows: usize,
    /// Number of elements in a row.
    pub len: usize,
    /// Position of the mask's number for each element of all rows. `None`: no mask is added.
    pub mask: Option<Nest<1>>,
}

crate::multiversion! {
    fn scale<T: PanelElem>(x: &[T], by: f32, y: &mut [f32]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = x.wide() * by;
        }
    }
}
crate::multiversion! {
    fn add<T: PanelElem>(mask: &[T], y: &mut [f32]) {
        for (y, m) in y.iter_mut().zip(mask) {
            *y += m.wide();
        }
    }
}

impl MaskedSoftmax {
    /// Does the rows `units`.
    pub fn run<T: PanelElem>(&self, units: Range<usize>, x: &[T], mask: &[T], out: &mut Out<'_, T>) {
        let units = units.start..units.end.min(self.rows);
        if units.is_empty() || self.len == 0 {
            return;
        }
        let group = lines_of(self.len, units.len());
        with_scratch(group * self.len, |lines| {
            for first in units.clone().step_by(group) {
                let range = first * self.len..(first + group).min(units.end) * self.len;
                let lines = &mut lines[..range.len()];
                scale(&x[range.clone()], self.scale, lines);
                if let Some(nest) = &self.mask {
                    let mut rest = &mut *lines;
                    nest.each_run_in(range.clone(), |[from], len, [step]| {
                        let (now, more) = std::mem::take(&mut rest).split_at_mut(len);
                        rest = more;
                        match step {
                            1 => add(&mask[from as usize..][..len], now),
                            _ => now.iter_mut().enumerate().for_each(|(i, y)| {
                                *y += mask[(from + i as isize * step) as usize].wide();
                            }),
                        }
                    });
                }
                rows::run(None, lines, self.len, false);
                round_to(lines, out.part(range.start, range.len()));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Layout;

    #[test]
    fn rows_are_scaled_and_masked_and_no_unit_knows_another() {
        let (shape, len) = ([3, 5, 300], 300);
        let x: Vec<f32> = (0..15 * len).map(|i| (i as f32 * 1.3).sin() * 20.0).collect();
        for mask_shape in [vec![5, 300], vec![3, 1, 300], vec![3, 5, 1]] {
            let count: usize = mask_shape.iter().product();
            let values: Vec<f32> = (0..count).map(|i| if i % 7 == 4 { -1e3 } else { (i % 5) as f32 }).collect();
            let layout = Layout::contiguous(&mask_shape).and_then(|l| l.broadcast_to(&shape)).unwrap();
            let mask = Some(Nest::new(&shape, [&layout]));
            let plan = MaskedSoftmax { scale: 0.25, rows: 15, len, mask };
            let run = |blocks: usize| {
                let mut y = vec![0.0f32; x.len()];
                for b in 0..blocks {
                    plan.run(crate::view::block_range(15, b, blocks), &x, &values, &mut Out::new(&mut y));
                }
                y
            };
            let y = run(1);
            assert_eq!(run(4), y);
            let at = |r: usize, i: usize| {
                let (a, b) = (r / 5, r % 5);
                let index = match mask_shape[..] {
                    [5, 300] => b * 300 + i,
                    [3, 1, 300] => a * 300 + i,
                    _ => a * 5 + b,
                };
                f64::from(x[r * len + i]) * 0.25 + f64::from(values[index])
            };
            for r in 0..15 {
                let most = (0..len).map(|i| at(r, i)).fold(f64::MIN, f64::max);
                let sum: f64 = (0..len).map(|i| (at(r, i) - most).exp()).sum();
                for i in 0..len {
                    assert!((f64::from(y[r * len + i]) - (at(r, i) - most).exp() / sum).abs() < 1e-6, "{r} {i}");
                }
            }
        }
    }
}
