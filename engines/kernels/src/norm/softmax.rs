//! `y = e^(x - max) / sum(e^(x - max))` along one axis, and its logarithm.
use crate::scratch::with_scratch;
use crate::simd::fold::{LANES, max_of, tree};
use crate::simd::isa::PanelElem;
use crate::simd::math;
use crate::view::Out;
use std::ops::Range;

/// A tensor seen as `outer` x `len` x `inner`, normalised along `len`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Softmax {
    /// Product of the sizes before the axis.
    pub outer: usize,
    /// Size of the axis.
    pub len: usize,
    /// Product of the sizes after the axis.
    pub inner: usize,
    /// The logarithm is wanted.
    pub log: bool,
}

impl Softmax {
    /// Units of work: rows.
    pub fn units(&self) -> usize {
        if self.len == 0 { 0 } else { self.outer * self.inner }
    }
}

crate::multiversion! {
    fn row(data: &mut [f32], log: bool) {
        let max = max_of(data);
        let mut lanes = [0.0f32; LANES];
        if log {
            let (blocks, rest) = data.as_chunks::<LANES>();
            for block in blocks {
                for (l, &x) in lanes.iter_mut().zip(block) {
                    *l += math::exp(x - max);
                }
            }
            for (l, &x) in lanes.iter_mut().zip(rest) {
                *l += math::exp(x - max);
            }
            // Not `x - (max + ln)`: beside a large maximum the logarithm's digits would be lost.
            let log = math::ln(tree(lanes));
            for x in data.iter_mut() {
                *x = (*x - max) - log;
            }
            return;
        }
        let (blocks, rest) = data.as_chunks_mut::<LANES>();
        for block in blocks {
            for (l, x) in lanes.iter_mut().zip(block) {
                *x = math::exp(*x - max);
                *l += *x;
            }
        }
        for (l, x) in lanes.iter_mut().zip(rest) {
            *x = math::exp(*x - max);
            *l += *x;
        }
        let scale = 1.0 / tree(lanes);
        for x in data.iter_mut() {
            *x *= scale;
        }
    }
}

crate::multiversion! {
    /// The same from one row to another, not its logarithm.
    fn row_to(from: &[f32], to: &mut [f32]) {
        let max = max_of(from);
        let mut lanes = [0.0f32; LANES];
        let ((blocks, rest), (to_blocks, to_rest)) = (from.as_chunks::<LANES>(), to.as_chunks_mut::<LANES>());
        for (block, to) in blocks.iter().zip(to_blocks) {
            for ((l, y), x) in lanes.iter_mut().zip(to).zip(block) {
                *y = math::exp(*x - max);
                *l += *y;
            }
        }
        for ((l, y), x) in lanes.iter_mut().zip(to_rest).zip(rest) {
            *y = math::exp(*x - max);
            *l += *y;
        }
        let scale = 1.0 / tree(lanes);
        for y in to.iter_mut() {
            *y *= scale;
        }
    }
}

crate::multiversion! {
    fn widen<T: PanelElem>(x: &[T], y: &mut [f32]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = x.wide();
        }
    }
}
crate::multiversion! {
    fn round_to<T: PanelElem>(x: &[f32], y: &mut [T]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = T::narrow(*x);
        }
    }
}

/// Does the rows of `units`: row `u` is that of outer index `u / inner` and inner index
/// `u % inner`.
pub fn softmax<T: PanelElem>(s: &Softmax, units: Range<usize>, x: &[T], out: &mut Out<'_, T>) {
    with_scratch(s.len, |line| {
        for u in units.start..units.end.min(s.units()) {
            let base = u / s.inner * s.len * s.inner + u % s.inner;
            if let (1, false, Some(from)) = (s.inner, s.log, T::singles(&x[base..][..s.len]))
                && let Some(to) = T::singles_mut(out.part(base, s.len))
            {
                row_to(from, to);
                continue;
            }
            if s.inner == 1 {
                widen(&x[base..base + s.len], line);
                row(line, s.log);
                round_to(line, out.part(base, s.len));
                continue;
            }
            for (i, v) in line.iter_mut().enumerate() {
                *v = x[base + i * s.inner].wide();
            }
            row(line, s.log);
            for (i, v) in line.iter().enumerate() {
                out.part(base + i * s.inner, 1)[0] = T::narrow(*v);
            }
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
        for (outer, len, inner) in [(3, 1, 1), (2, 37, 1), (2, 5, 7), (1, 100, 2)] {
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
                for u in 0..s.units() {
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

    /// Values of numpy in double precision, of x = 10000 + [0, 0.5, 1, -3].
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
