//! Layer and root-mean-square normalisation of rows. Batch, instance and group normalisation as
//! scaling of channels.
use crate::norm::rows::{Spreads, WIDE};
use crate::scratch::with_scratch;
use crate::simd::isa::{Isa, PanelElem, Work, dispatch};
use crate::simd::lines::widen;
use crate::simd::turn::{load, put, vector};
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

/// Maximum number of planes that are scaled in one call.
const PLANES: usize = 64;

/// How the elements of a plane are scaled: `(x - centre) * scale + shift`, computed as
/// `x * scale + (shift - centre * scale)`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Affine {
    /// Factor of the elements.
    pub scale: f32,
    /// The element that becomes `shift`.
    pub centre: f32,
    /// What is added in the end.
    pub shift: f32,
}

/// Some planes of `size` elements, each scaled in its way.
struct Planes<'a, T> {
    size: usize,
    x: &'a [T],
    ways: &'a [Affine],
    y: &'a mut [T],
}

impl<T: PanelElem> Work for Planes<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let Planes { size, x, ways, y } = self;
        for ((x, y), way) in x.chunks_exact(size).zip(y.chunks_exact_mut(size)).zip(ways) {
            let scale = isa.splat(way.scale);
            let shift = isa.fma(isa.splat(-way.centre), scale, isa.splat(way.shift));
            let (whole, rest) = x.as_chunks::<WIDE>();
            let (to, last) = y.as_chunks_mut::<WIDE>();
            for (x, y) in whole.iter().zip(to) {
                T::put(isa, isa.fma(T::lanes(isa, x), scale, shift), y);
            }
            if rest.is_empty() {
                continue;
            }
            let v = isa.fma(vector(isa, rest), scale, shift);
            match T::singles_mut(last) {
                // SAFETY: only as many lanes are written as there are numbers.
                Some(y) => unsafe { isa.store_some(v, y.as_mut_ptr(), isa.lanes(0, y.len())) },
                None => put(isa, v, last),
            }
        }
    }
}

/// Scales planes of `size` elements, plane `p` (a unit of work) in the way `of(p)`.
pub fn affine_channels<T: PanelElem>(
    size: usize,
    units: Range<usize>,
    x: &[T],
    of: impl Fn(usize) -> Affine,
    out: &mut Out<'_, T>,
) {
    if size == 0 {
        return;
    }
    let mut ways = [Affine::default(); PLANES];
    for first in units.clone().step_by(PLANES) {
        let n = PLANES.min(units.end - first);
        ways[..n].iter_mut().zip(first..).for_each(|(way, p)| *way = of(p));
        let x = &x[first * size..(first + n) * size];
        dispatch(Planes { size, x, ways: &ways[..n], y: out.part(first * size, n * size) });
    }
}

/// Planes of fewer elements than this are scaled by rows of factors.
const SHORT: usize = 64;
/// Most elements of a row of factors.
const ROW: usize = 1 << 14;

/// Scales short planes of which every `channels`-th is scaled alike: a row of factors has one for
/// each element of `channels` planes.
struct Alike<'a, T> {
    size: usize,
    channels: usize,
    /// The first plane.
    first: usize,
    x: &'a [T],
    factors: &'a mut [f32],
    y: &'a mut [T],
}

impl<T: PanelElem> Alike<'_, T> {
    /// Lays out the factors and scales the planes.
    #[inline(always)]
    fn run(self, isa: impl Isa, of: impl Fn(usize) -> Affine) {
        let row = self.channels * self.size;
        let (scales, shifts) = self.factors.split_at_mut(row);
        for (c, (scales, shifts)) in
            scales.chunks_exact_mut(self.size).zip(shifts.chunks_exact_mut(self.size)).enumerate()
        {
            let way = of(c);
            scales.fill(way.scale);
            shifts.fill((-way.centre).mul_add(way.scale, way.shift));
        }
        let (mut x, mut y, mut at) = (self.x, self.y, self.first % self.channels * self.size);
        while !x.is_empty() {
            let len = (row - at).min(x.len());
            let (own, behind) = x.split_at(len);
            let (to, rest) = y.split_at_mut(len);
            let (scale, shift) = (&scales[at..at + len], &shifts[at..at + len]);
            for (i, (x, y)) in own.chunks(WIDE).zip(to.chunks_mut(WIDE)).enumerate() {
                let v = isa.fma(vector(isa, x), load(isa, scale, i * WIDE), load(isa, shift, i * WIDE));
                put(isa, v, y);
            }
            (x, y, at) = (behind, rest, 0);
        }
    }
}

struct AlikeWork<'a, T, F>(Alike<'a, T>, F);

impl<T: PanelElem, F: Fn(usize) -> Affine> Work for AlikeWork<'_, T, F> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        self.0.run(isa, self.1);
    }
}

/// Like [`affine_channels`], for planes of which every `channels`-th is scaled alike: `of` is asked
/// for the first of them.
pub fn affine_images<T: PanelElem>(
    [channels, size]: [usize; 2],
    units: Range<usize>,
    x: &[T],
    of: impl Fn(usize) -> Affine,
    out: &mut Out<'_, T>,
) {
    let (row, planes) = (channels * size, units.len());
    if row == 0 || size >= SHORT || row > ROW || planes < 2 * channels {
        return affine_channels(size, units, x, |p| of(p % channels.max(1)), out);
    }
    with_scratch(2 * row, |factors| {
        let (x, y) = (&x[units.start * size..units.end * size], out.part(units.start * size, planes * size));
        dispatch(AlikeWork(Alike { size, channels, first: units.start, x, factors, y }, of));
    });
}

/// Instances (units of work) of `channels` planes of `size` elements, each normalised to mean zero
/// and variance one with `epsilon` added. The elements of plane `p` are then scaled and shifted by
/// `of(p)`.
pub fn instance_norm<T: PanelElem>(
    [channels, size]: [usize; 2],
    epsilon: f32,
    units: Range<usize>,
    x: &[T],
    of: impl Fn(usize) -> (f32, f32),
    out: &mut Out<'_, T>,
) {
    let len = channels * size;
    if len == 0 {
        return;
    }
    let group = (GROUP / len).clamp(1, WIDE);
    with_scratch(group * len, |lines| {
        for first in units.clone().step_by(group) {
            let last = (first + group).min(units.end);
            let own = &x[first * len..last * len];
            let lines = match T::singles(own) {
                Some(x) => x,
                None => {
                    widen(own, &mut lines[..own.len()]);
                    &lines[..own.len()]
                }
            };
            let (means, scales) = dispatch(Spreads { x: lines, len, epsilon, rms: false });
            let way = |p: usize| {
                let (scale, shift) = of(p);
                let k = p / channels - first;
                Affine { scale: scale * scales[k], centre: means[k], shift }
            };
            affine_channels(size, first * channels..last * channels, x, way, out);
        }
    });
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
        let of = |p| Affine { scale: p as f32, centre: 1.0, shift: 0.5 };
        affine_channels(2, 1..3, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], of, &mut Out::new(&mut y));
        assert_eq!(y, [0.0, 0.0, 2.5, 3.5, 8.5, 10.5]);
    }

    /// The bits of planes that are scaled alike are those of each plane alone, whatever the first of
    /// a block is.
    #[test]
    fn planes_that_are_scaled_alike_have_the_bits_of_planes_alone() {
        fn check<T: PanelElem>() {
            for (images, channels, size) in [(9, 5, 10), (4, 3, 1), (20, 7, 16), (6, 2, 63), (3, 1, 70), (1, 4, 9)] {
                let planes = images * channels;
                let x: Vec<T> = (0..planes * size).map(|i| T::narrow((i as f32 * 0.7).sin() * 3.0)).collect();
                let of = |c: usize| Affine { scale: 0.3 + c as f32, centre: 0.7, shift: c as f32 * 0.1 };
                let mut want = vec![T::default(); x.len()];
                affine_channels(size, 0..planes, &x, |p| of(p % channels), &mut Out::new(&mut want));
                for (level, blocks) in Level::available().into_iter().flat_map(|l| [(l, 1), (l, 3)]) {
                    let mut y = vec![T::default(); x.len()];
                    with_level(level, || {
                        for b in 0..blocks {
                            let units = block_range(planes, b, blocks);
                            affine_images([channels, size], units, &x, of, &mut Out::new(&mut y));
                        }
                    });
                    assert_eq!(y, want, "{level:?} {images} {channels} {size}");
                }
            }
        }
        check::<f32>();
        check::<crate::f16>();
    }

    /// Whatever the length of a plane and the type of its elements: each has its own statistics,
    /// and the bits do not depend on the instruction set or on how the instances are shared.
    #[test]
    fn instances_of_any_length_agree_with_double_precision() {
        fn check<T: PanelElem>(tolerance: f64) {
            for (count, channels, size) in [(37, 1, 10), (5, 2, 16), (3, 1, 300), (70, 3, 1), (2, 4, 33), (1, 1, 9000)]
            {
                let len = channels * size;
                let x: Vec<T> =
                    (0..count * len).map(|i| T::narrow((i as f32 * 0.77).sin() * 3.0 + (i % 5) as f32)).collect();
                let of = |p: usize| (1.0 + (p % 7) as f32 * 0.25, (p % 3) as f32);
                let run = |blocks, level| {
                    let mut y = vec![T::default(); x.len()];
                    with_level(level, || {
                        for b in 0..blocks {
                            let units = block_range(count, b, blocks);
                            instance_norm([channels, size], 1e-5, units, &x, of, &mut Out::new(&mut y));
                        }
                    });
                    y
                };
                let y = run(1, Level::Scalar);
                Level::available().into_iter().for_each(|l| assert_eq!(run(3, l), y, "{l:?}"));
                for u in 0..count {
                    let row: Vec<f64> = x[u * len..][..len].iter().map(|v| f64::from(v.wide())).collect();
                    let mean = row.iter().sum::<f64>() / len as f64;
                    let var = row.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / len as f64;
                    for (i, v) in row.iter().enumerate() {
                        let (scale, shift) = of(u * channels + i / size);
                        let want = (v - mean) / (var + 1e-5).sqrt() * f64::from(scale) + f64::from(shift);
                        let got = f64::from(y[u * len + i].wide());
                        assert!((got - want).abs() < tolerance * want.abs().max(1.0), "{count} {channels} {size}");
                    }
                }
            }
        }
        check::<f32>(1e-5);
        check::<crate::f16>(1e-3);
    }
}
