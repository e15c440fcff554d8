//! `Col2Im` (`plugins/ops/src/image.rs`): sums of overlapping blocks of an image. Sums are in
//! doubles, and each is rounded once.
use crate::args::{Arg, bad, count, filled, ints_attr, out, size};
use crate::op::Op;
use crate::par::{self, GRAIN};
use crate::store::types::{INDEX, NUM};
use ge_kernels::view::{Elem, lines};
use ge_kernels::{multiversion, with_kind};
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

fn run_col2im(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    x.need_rank(3, 3)?;
    let list =
        |i: usize| Arg::of(ctx, i)?.list()?.iter().map(|&d| size(&format!("input {i}"), d)).collect::<Result<Vec<_>>>();
    let (image, block) = (list(1)?, list(2)?);
    let k = image.len();
    let attr = |key: &str, n: usize, d: i64| match ints_attr(ctx, key) {
        None | Some([]) => Ok(vec![d; n]),
        Some(v) if v.len() == n => Ok(v.to_vec()),
        Some(v) => Err(bad(format!("attribute `{key}`"), format!("{} numbers", v.len()), format!("{n} numbers"))),
    };
    let (dil, pads, strides) = (attr("dilations", k, 1)?, attr("pads", 2 * k, 0)?, attr("strides", k, 1)?);
    let area = count(&block)?;
    if block.len() != k || area == 0 || x.shape[1] % area != 0 || strides.iter().chain(&dil).any(|&s| s < 1) {
        return Err(bad(
            "inputs of Col2Im",
            format!("shape {:?}, block {block:?}", x.shape),
            "whole blocks, strides and dilations of one or more",
        ));
    }
    let mut steps = Vec::new();
    for d in 0..k {
        let room = i128::from(image[d] as u64) + i128::from(pads[d]) + i128::from(pads[k + d])
            - (i128::from(block[d] as u64) - 1) * i128::from(dil[d])
            - 1;
        steps.push(if room < 0 {
            0
        } else {
            usize::try_from(room / i128::from(strides[d])).unwrap_or(usize::MAX - 1) + 1
        });
    }
    if count(&steps)? != x.shape[2] {
        return Err(bad("input 0: columns", x.shape[2], count(&steps)?));
    }
    let (n, c, plane) = (x.shape[0], x.shape[1] / area, count(&image)?);
    let mut shape = vec![n, c];
    shape.extend_from_slice(&image);
    count(&shape)?;
    // For each axis and each position in a block: the range of steps that are inside the image, and
    // the image position of the first of them.
    let mut spans = Vec::new();
    for d in 0..k {
        let list = (0..block[d] as i64).map(|q| span(q * dil[d] - pads[d], strides[d], steps[d], image[d]));
        spans.push(list.collect::<Vec<_>>());
    }
    let (columns, length) = (Columns { image: &image, steps: &steps, strides: &strides, spans }, x.shape[2]);
    // Whether no two blocks have an element in one place: then nothing is added.
    let alone = (0..k).all(|d| i128::from(block[d] as u64 - 1) * i128::from(dil[d]) < i128::from(strides[d]));
    let each = (GRAIN / area.saturating_mul(length).max(1)).max(1);
    with_kind!(x.kind()?, T => {
        let v = x.values::<T>()?;
        let columns_of = |row: usize, q: usize| &v[(row * area + q) * length..][..length];
        if alone {
            return par::chunks(out::<T>(ctx, 0, &shape)?, plane.saturating_mul(each), |start, o| {
                for (row, o) in (start / plane..).zip(o.chunks_exact_mut(plane)) {
                    o.fill(T::default());
                    for q in 0..area {
                        columns.each(q, columns_of(row, q), o, move_rows);
                    }
                }
                Ok(())
            });
        }
        par::chunks(out::<T>(ctx, 0, &shape)?, plane.saturating_mul(each), |start, o| {
            let mut sum = filled(plane, 0f64)?;
            for (row, o) in (start / plane..).zip(o.chunks_exact_mut(plane)) {
                sum.fill(0.0);
                for q in 0..area {
                    columns.each(q, columns_of(row, q), &mut sum, add_rows);
                }
                lines::map(o, &sum, T::from_f64);
            }
            Ok(())
        })?;
    });
    Ok(())
}
/// The range of the steps, `stride` apart from `first` on, that are in `0..n`, and the position of
/// the first one.
fn span(first: i64, stride: i64, steps: usize, n: usize) -> (std::ops::Range<usize>, usize) {
    let (first, stride, n) = (i128::from(first), i128::from(stride), n as i128);
    let from = if first >= 0 { 0 } else { (-first + stride - 1) / stride }.min(steps as i128);
    let to = if first >= n { 0 } else { (n - 1 - first) / stride + 1 }.clamp(from, steps as i128);
    (from as usize..to as usize, (first + from * stride).max(0) as usize)
}
/// Columns of blocks, and the position of each in the image.
struct Columns<'a> {
    image: &'a [usize],
    steps: &'a [usize],
    strides: &'a [i64],
    spans: Vec<Vec<(std::ops::Range<usize>, usize)>>,
}

impl Columns<'_> {
    /// Calls `f` with elements, their image and how they lie there, for all elements that the
    /// blocks have at position `q`.
    fn each<T: Elem, A>(&self, q: usize, v: &[T], image: &mut [A], f: impl Fn(&[T], &mut [A], Rows)) {
        let (mut rest, mut own) = (q, Vec::with_capacity(self.image.len()));
        for spans in self.spans.iter().rev() {
            own.push(&spans[rest % spans.len()]);
            rest /= spans.len();
        }
        own.reverse();
        let Some((last, lead)) = own.split_last() else { return };
        if own.iter().any(|o| o.0.is_empty()) {
            return;
        }
        let d = lead.len();
        let mut rows = Rows {
            count: 1,
            len: last.0.len(),
            stride: self.strides[d] as usize,
            from_step: self.steps[d],
            at_step: 0,
        };
        // The axis before the last one is a loop over rows. All others are counted.
        let (mut from, mut at) = (last.0.start, last.1);
        let mut outer: Vec<(usize, usize, usize)> = Vec::with_capacity(d);
        let (mut from_step, mut at_step) = (self.steps[d], self.image[d]);
        for (a, (range, first)) in lead.iter().enumerate().rev() {
            from += range.start * from_step;
            at += first * at_step;
            let stride = self.strides[a] as usize;
            if a + 1 == d {
                (rows.count, rows.at_step) = (range.len(), at_step.saturating_mul(stride));
            } else {
                outer.push((range.len(), from_step, at_step.saturating_mul(stride)));
            }
            from_step *= self.steps[a];
            at_step *= self.image[a];
        }
        let planes: usize = outer.iter().map(|o| o.0).product();
        for plane in 0..planes {
            let (mut rest, mut from, mut at) = (plane, from, at);
            for (n, from_step, at_step) in &outer {
                from += rest % n * from_step;
                at += rest % n * at_step;
                rest /= n;
            }
            f(&v[from..], &mut image[at..], rows);
        }
    }
}

/// Rows of elements, each with a place in the image.
#[derive(Clone, Copy)]
struct Rows {
    /// Number of rows, and of the elements of a row.
    count: usize,
    len: usize,
    /// Distance of the places of neighbouring elements.
    stride: usize,
    /// Distance of neighbouring rows, and of their places.
    from_step: usize,
    at_step: usize,
}

multiversion! {
    /// Adds rows of elements to the image.
    fn add_rows<T: Elem>(v: &[T], image: &mut [f64], rows: Rows) {
        for row in 0..rows.count {
            let line = &v[row * rows.from_step..][..rows.len];
            let to = &mut image[row * rows.at_step..];
            match rows.stride {
                1 => to[..rows.len].iter_mut().zip(line).for_each(|(o, v)| *o += v.to_f64()),
                2 => to.iter_mut().step_by(2).zip(line).for_each(|(o, v)| *o += v.to_f64()),
                stride => to.iter_mut().step_by(stride).zip(line).for_each(|(o, v)| *o += v.to_f64()),
            }
        }
    }
}

/// Moves rows of elements to their places in the image.
fn move_rows<T: Elem>(v: &[T], image: &mut [T], rows: Rows) {
    for row in 0..rows.count {
        let line = &v[row * rows.from_step..][..rows.len];
        let to = &mut image[row * rows.at_step..];
        match rows.stride {
            1 => to[..rows.len].copy_from_slice(line),
            2 => to.iter_mut().step_by(2).zip(line).for_each(|(o, v)| *o = *v),
            stride => to.iter_mut().step_by(stride).zip(line).for_each(|(o, v)| *o = *v),
        }
    }
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[Op::new("Col2Im", run_col2im, &[NUM, INDEX]).gives(&[NUM])];

#[cfg(test)]
mod tests {
    use crate::testing::{attrs, call, t};
    use ge_plugin_api::types::{AttrValue, DType};

    /// One axis: size of the image, size of a block, step, distance in a block, pads.
    type Axis = (i64, i64, i64, i64, [i64; 2]);

    /// The sums of a plain loop over every element of every block, for images of one channel.
    fn plain(axes: &[Axis], x: &[f32]) -> Vec<f32> {
        let steps: Vec<i64> = axes.iter().map(|(n, b, s, d, p)| (n + p[0] + p[1] - (b - 1) * d - 1) / s + 1).collect();
        let area: i64 = axes.iter().map(|a| a.1).product();
        let mut image = vec![0f64; axes.iter().map(|a| a.0 as usize).product()];
        let all: i64 = steps.iter().product();
        for q in 0..area {
            for step in 0..all {
                let (mut q_rest, mut step_rest, mut at, mut scale, mut inside) = (q, step, 0, 1, true);
                for ((n, b, s, d, p), steps) in axes.iter().zip(&steps).rev() {
                    let place = q_rest % b * d + step_rest % steps * s - p[0];
                    inside &= (0..*n).contains(&place);
                    at += place * scale;
                    scale *= n;
                    (q_rest, step_rest) = (q_rest / b, step_rest / steps);
                }
                if inside {
                    image[at as usize] += f64::from(x[(q * all + step) as usize]);
                }
            }
        }
        image.into_iter().map(|v| v as f32).collect()
    }

    #[test]
    fn blocks_of_any_number_of_axes_are_added_at_their_places() {
        let cases: [&[Axis]; 8] = [
            &[(7, 3, 1, 1, [0, 0])],
            &[(40, 2, 3, 2, [1, 4])],
            &[(5, 2, 1, 1, [0, 0]), (6, 3, 1, 1, [1, 1])],
            &[(9, 4, 4, 1, [2, 2]), (12, 3, 2, 2, [0, 3])],
            // Blocks whose first or last elements are outside the image at every step.
            &[(2, 3, 1, 1, [2, 2]), (1, 5, 1, 3, [9, 9])],
            &[(4, 2, 2, 1, [0, 0]), (3, 2, 1, 1, [1, 0]), (5, 2, 3, 1, [0, 1])],
            &[(3, 1, 1, 1, [0, 0]), (2, 2, 1, 1, [0, 0]), (3, 2, 1, 2, [2, 0]), (4, 3, 1, 1, [1, 1])],
            &[(1, 1, 5, 1, [0, 0]), (70, 2, 1, 7, [3, 3])],
        ];
        for axes in cases {
            let list = |of: &dyn Fn(&Axis) -> i64| axes.iter().map(of).collect::<Vec<i64>>();
            let columns: i64 = axes.iter().map(|(n, b, s, d, p)| (n + p[0] + p[1] - (b - 1) * d - 1) / s + 1).product();
            let area: i64 = axes.iter().map(|a| a.1).product();
            let length = (area * columns) as usize;
            let x: Vec<f32> = (0..6 * length).map(|i| (i * 37 % 101) as f32 / 7.0 - 5.0).collect();
            let rank = [axes.len() as u64];
            let pads: Vec<i64> = axes.iter().map(|a| a.4[0]).chain(axes.iter().map(|a| a.4[1])).collect();
            let given: [(&str, AttrValue); 3] =
                [("strides", list(&|a| a.2).into()), ("dilations", list(&|a| a.3).into()), ("pads", pads.into())];
            let inputs =
                [t(&[2, 3 * area as u64, columns as u64], &x), t(&rank, &list(&|a| a.0)), t(&rank, &list(&|a| a.1))];
            let inputs: Vec<_> = inputs.iter().map(Some).collect();
            let made = call("Col2Im", &inputs, &attrs(&given), &[DType::F32]).unwrap();
            let want: Vec<f32> = x.chunks(length).flat_map(|x| plain(axes, x)).collect();
            assert_eq!(made[0].view().values::<f32>().unwrap(), want, "{axes:?}");
        }
    }

    #[test]
    fn images_without_a_channel_or_a_step_are_zero() {
        for (dims, image, want) in [([2u64, 0, 4], [3i64, 3], 0), ([1, 8, 0], [1, 5], 10)] {
            let x = t(&dims, &[0f32; 0]);
            let (image, block) = (t(&[2], &image), t(&[2], &[2i64, 2]));
            let made = call("Col2Im", &[Some(&x), Some(&image), Some(&block)], &attrs(&[]), &[DType::F32]).unwrap();
            assert_eq!(made[0].view().values::<f32>().unwrap(), vec![0f32; want]);
        }
    }
}
