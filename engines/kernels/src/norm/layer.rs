//! Layer and root-mean-square normalisation of rows. Batch, instance and group normalisation as
//! scaling of channels.
use crate::norm::rows::{Spreads, WIDE};
use crate::scratch::with_scratch;
use crate::simd::isa::{PanelElem, dispatch};
use crate::simd::lines::widen;
use crate::view::Out;
use std::ops::Range;

/// Rows of `len` elements, each normalised to mean zero (unless `rms`) and variance one, then
/// scaled and shifted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerNorm {
    /// Number of rows, the units of work.
    pub rows: usize,
    /// Number of elements in a row.
    pub len: usize,
    /// Number added to the variance.
    pub epsilon: f32,
    /// Whether the mean is not subtracted: root-mean-square normalisation.
    pub rms: bool,
}

/// Maximum count of numbers in a group of rows, unless a single row has more.
const GROUP: usize = 8192;

crate::multiversion! {
    fn scale_row<T: PanelElem>(x: &[f32], mean: f32, scale: f32, gamma: &[T], beta: &[T], y: &mut [T]) {
        match (gamma.is_empty(), beta.is_empty()) {
            (true, true) => {
                for (y, x) in y.iter_mut().zip(x) {
                    *y = T::narrow((x - mean) * scale);
                }
            }
            (false, true) => {
                for ((y, x), g) in y.iter_mut().zip(x).zip(gamma) {
                    *y = T::narrow((x - mean) * scale * g.wide());
                }
            }
            (true, false) => {
                for ((y, x), b) in y.iter_mut().zip(x).zip(beta) {
                    *y = T::narrow((x - mean) * scale + b.wide());
                }
            }
            (false, false) => {
                for (((y, x), g), b) in y.iter_mut().zip(x).zip(gamma).zip(beta) {
                    *y = T::narrow(((x - mean) * scale).mul_add(g.wide(), b.wide()));
                }
            }
        }
    }
}

/// Does the rows `units`. `gamma` and `beta` have `len` elements or none. `each(row, mean, scale)`
/// receives what was subtracted from each row and what it was then multiplied by.
pub fn layer_norm<T: PanelElem>(
    n: &LayerNorm,
    units: Range<usize>,
    x: &[T],
    gamma: &[T],
    beta: &[T],
    out: &mut Out<'_, T>,
    mut each: impl FnMut(usize, f32, f32),
) {
    let units = units.start..units.end.min(n.rows);
    if n.len == 0 {
        // The mean of no elements is NaN.
        let mean = if n.rms { 0.0 } else { f32::NAN };
        return units.for_each(|r| each(r, mean, f32::NAN));
    }
    // Rows of a group stay in the first-level cache.
    let group = (GROUP / n.len).clamp(1, WIDE);
    with_scratch(group * n.len, |lines| {
        for first in units.clone().step_by(group) {
            let last = (first + group).min(units.end);
            let x = &x[first * n.len..last * n.len];
            // Rows of single precision are read in place.
            let lines = match T::singles(x) {
                Some(x) => x,
                None => {
                    widen(x, &mut lines[..x.len()]);
                    &lines[..x.len()]
                }
            };
            let (means, scales) = dispatch(Spreads { x: lines, len: n.len, epsilon: n.epsilon, rms: n.rms });
            let y = out.part(first * n.len, lines.len());
            let rows = lines.chunks_exact(n.len).zip(y.chunks_exact_mut(n.len));
            for (k, (x, y)) in rows.enumerate() {
                scale_row(x, means[k], scales[k], gamma, beta, y);
                each(first + k, means[k], scales[k]);
            }
        }
    });
}

crate::multiversion! {
    fn affine<T: PanelElem>(x: &[T], scale: f32, shift: f32, y: &mut [T]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = T::narrow(x.wide().mul_add(scale, shift));
        }
    }
}

/// `y = x * scale + shift` over planes of `size` elements, with `(scale, shift) = of(p)` for plane
/// `p` (a unit of work).
pub fn affine_channels<T: PanelElem>(
    size: usize,
    units: Range<usize>,
    x: &[T],
    of: impl Fn(usize) -> (f32, f32),
    out: &mut Out<'_, T>,
) {
    for p in units {
        let (scale, shift) = of(p);
        affine(&x[p * size..(p + 1) * size], scale, shift, out.part(p * size, size));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, with_level};
    use crate::view::block_range;

    #[test]
    fn rows_agree_with_double_precision() {
        let (rows, len) = (5, 53);
        let x: Vec<f32> = (0..rows * len).map(|i| (i as f32 * 0.77).sin() * 3.0 + 5.0).collect();
        let gamma: Vec<f32> = (0..len).map(|i| 1.0 + i as f32 * 0.01).collect();
        let beta: Vec<f32> = (0..len).map(|i| i as f32 * 0.1).collect();
        for rms in [false, true] {
            for (g, b) in [(&gamma[..], &beta[..]), (&gamma, &[]), (&[], &beta), (&[], &[])] {
                let n = LayerNorm { rows, len, epsilon: 1e-5, rms };
                let run = |blocks, level| {
                    let mut y = vec![0.0; rows * len];
                    with_level(level, || {
                        for k in 0..blocks {
                            layer_norm(&n, block_range(rows, k, blocks), &x, g, b, &mut Out::new(&mut y), |_, _, _| {});
                        }
                    });
                    y
                };
                let y = run(1, Level::Scalar);
                Level::available().into_iter().for_each(|l| assert_eq!(run(3, l), y));
                for r in 0..rows {
                    let row: Vec<f64> = x[r * len..(r + 1) * len].iter().map(|&v| f64::from(v)).collect();
                    let mean = if rms { 0.0 } else { row.iter().sum::<f64>() / len as f64 };
                    let var = row.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / len as f64;
                    for i in 0..len {
                        let (g, b) = (g.get(i).map_or(1.0, |&v| v), b.get(i).map_or(0.0, |&v| v));
                        let want = (row[i] - mean) / (var + 1e-5).sqrt() * f64::from(g) + f64::from(b);
                        assert!((f64::from(y[r * len + i]) - want).abs() < 5e-6);
                    }
                }
            }
        }
    }

    #[test]
    fn rows_of_nothing_have_no_number_as_mean_and_scale() {
        let n = LayerNorm { rows: 3, len: 0, epsilon: 1e-5, rms: false };
        let mut seen = Vec::new();
        layer_norm::<f32>(&n, 1..3, &[], &[], &[], &mut Out::new(&mut []), |r, m, s| seen.push((r, m, s)));
        assert!(seen.iter().map(|s| s.0).eq([1, 2]) && seen.iter().all(|s| s.1.is_nan() && s.2.is_nan()));
    }

    #[test]
    fn planes_are_scaled_apart() {
        let mut y = [0.0f32; 6];
        affine_channels(2, 1..3, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], |p| (p as f32, 0.5), &mut Out::new(&mut y));
        assert_eq!(y, [0.0, 0.0, 3.5, 4.5, 10.5, 12.5]);
    }
}
