//! Windows over one or two spatial axes, by rows: what a window has of each column first, over the
//! rows that it reaches, into a line with its border; then that of its columns, sixteen windows at
//! a time. Every loop is over whole vectors.
use super::{Pool, Pooling};
use crate::scratch::with_scratch;
use crate::simd::isa::{Isa, PanelElem, Work, dispatch};
use crate::view::Out;
use std::ops::Range;

/// Lanes of a vector.
const LANES: usize = 16;

impl Pooling {
    /// Whether [`Pooling::run_rows`] does it.
    pub(super) fn is_by_rows(&self) -> bool {
        self.input[0] == 1 && self.kernel[0] == 1 && self.output[0] == 1
    }

    /// Does the planes of `units`.
    pub(super) fn run_rows<T: PanelElem>(&self, units: Range<usize>, x: &[T], out: &mut Out<'_, T>) {
        let ([_, rows, columns], [_, height, width]) = (self.input, self.output);
        let vectors = width.next_multiple_of(LANES);
        // Columns that windows reach, those of windows beyond the last one too, and the vectors
        // that begin in the last place of each.
        let reach = vectors * self.stride[2] + (self.kernel[2] - 1) * self.dilation[2] + 2 * LANES;
        let line = (self.pad_before[2] + columns).max(reach);
        with_scratch(line + vectors, |s| {
            let (line, counts) = s.split_at_mut(line);
            for (o, n) in counts.iter_mut().enumerate() {
                *n = if o < width { self.divisor(2, o) as f32 } else { 1.0 };
            }
            for plane in units.start..units.end.min(self.planes) {
                let image = &x[plane * rows * columns..][..rows * columns];
                let to = out.part(plane * height * width, height * width);
                dispatch(Plane { pool: self, image, line, counts, out: to });
            }
        });
    }
}

/// One plane.
struct Plane<'a, T> {
    pool: &'a Pooling,
    image: &'a [T],
    /// The columns of the windows of a row, with their border.
    line: &'a mut [f32],
    /// How many columns the average of each window is over.
    counts: &'a [f32],
    out: &'a mut [T],
}

impl<T: PanelElem> Work for Plane<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let pool = self.pool;
        match pool.op {
            Pool::Max => self.rows(isa, f32::NEG_INFINITY, |a, b| isa.larger(b, a), |_| 1.0),
            _ => self.rows(isa, 0.0, |a, b| isa.add(a, b), |y| pool.divisor(1, y) as f32),
        }
    }
}

impl<T: PanelElem> Plane<'_, T> {
    /// `start` is what a window of nothing gives, `join` adds an element to it, `count` says over how
    /// many rows the average of a row of windows is.
    #[inline(always)]
    fn rows<I: Isa>(self, isa: I, start: f32, join: impl Fn(I::V, I::V) -> I::V + Copy, count: impl Fn(usize) -> f32) {
        let p = self.pool;
        let (columns, width, left) = (p.input[2], p.output[2], p.pad_before[2]);
        self.line.fill(start);
        for (y, out) in self.out.chunks_exact_mut(width.max(1)).enumerate() {
            let mut taps = p.taps(1, y);
            let (first, more) = (taps.next(), taps.count());
            let step = p.dilation[1] * columns;
            let seen = first.map_or(&[][..], |row| &self.image[row * columns..]);
            for at in starts(columns) {
                let v = match first {
                    Some(_) => column(isa, seen, (at, columns), (more, step), join),
                    None => isa.splat(start),
                };
                put(isa, v, &mut self.line[left + at..], columns - at);
            }
            let rows = count(y);
            for o in starts(width) {
                let line = &self.line[o * p.stride[2]..];
                let v = match (p.stride[2], p.dilation[2], p.kernel[2]) {
                    (1, 1, 2) => beside::<I, 2>(isa, line, join),
                    (1, 1, 3) => beside::<I, 3>(isa, line, join),
                    (1, 1, 5) => beside::<I, 5>(isa, line, join),
                    (2, 1, 2) => pairs::<I, 2>(isa, line, join),
                    (2, 1, 3) => pairs::<I, 3>(isa, line, join),
                    _ => apart(isa, p, line, join),
                };
                let out = &mut out[o..];
                match T::singles_mut(out) {
                    Some(out) if p.op == Pool::Max => put(isa, v, out, out.len()),
                    _ => {
                        let mut all = [0.0; LANES];
                        isa.store(v, &mut all);
                        if p.op != Pool::Max
                            && let Some(counts) = self.counts[o..].first_chunk::<LANES>()
                        {
                            for (v, n) in all.iter_mut().zip(counts) {
                                *v /= rows * n;
                            }
                        }
                        match out.first_chunk_mut::<LANES>() {
                            Some(out) => *out = all.map(T::narrow),
                            None => out.iter_mut().zip(all).for_each(|(o, v)| *o = T::narrow(v)),
                        }
                    }
                }
            }
        }
    }
}

/// Where vectors begin that cover `n` numbers: the last one may cover some a second time, and
/// reaches beyond them where there are fewer than it has lanes.
#[inline(always)]
fn starts(n: usize) -> impl Iterator<Item = usize> {
    (0..n).step_by(LANES).map(move |at| at.min(n.saturating_sub(LANES)))
}

/// What sixteen columns of an image have in a row, which begins with it, and in `more` rows behind
/// it, `step` apart.
#[inline(always)]
fn column<I: Isa, T: PanelElem>(
    isa: I,
    image: &[T],
    (at, columns): (usize, usize),
    (more, step): (usize, usize),
    join: impl Fn(I::V, I::V) -> I::V,
) -> I::V {
    let row = |r: usize| &image[r * step + at..r * step + columns];
    let mut v = vector(isa, row(0));
    match more {
        1 => v = join(v, vector(isa, row(1))),
        2 => v = join(join(v, vector(isa, row(1))), vector(isa, row(2))),
        _ => (1..=more).for_each(|r| v = join(v, vector(isa, row(r)))),
    }
    v
}

/// What sixteen windows have of a line that begins with the first column of the first: windows of
/// `N` that move by one.
#[inline(always)]
fn beside<I: Isa, const N: usize>(isa: I, line: &[f32], join: impl Fn(I::V, I::V) -> I::V) -> I::V {
    let line = &line[..N - 1 + LANES];
    let mut v = vector(isa, line);
    for t in 1..N {
        v = join(v, vector(isa, &line[t..]));
    }
    v
}

/// The same for windows of two or three that move by two.
#[inline(always)]
fn pairs<I: Isa, const N: usize>(isa: I, line: &[f32], join: impl Fn(I::V, I::V) -> I::V) -> I::V {
    let line = &line[..2 * LANES + 2];
    let (even, odd) = isa.even_odd(vector(isa, line), vector(isa, &line[LANES..]));
    let v = join(even, odd);
    if N == 2 {
        return v;
    }
    join(v, isa.even_odd(vector(isa, &line[2..]), vector(isa, &line[LANES + 2..])).0)
}

/// The same for all windows.
#[inline(always)]
fn apart<I: Isa>(isa: I, p: &Pooling, line: &[f32], join: impl Fn(I::V, I::V) -> I::V) -> I::V {
    let (taps, stride, dilation) = (p.kernel[2], p.stride[2], p.dilation[2]);
    let at = |t: usize| {
        let line = &line[t * dilation..];
        if stride == 1 {
            return vector(isa, line);
        }
        let own: [f32; LANES] = std::array::from_fn(|i| line[i * stride]);
        isa.load(&own)
    };
    let mut v = at(0);
    for t in 1..taps {
        v = join(v, at(t));
    }
    v
}

/// Sixteen elements, zeros behind the last one.
#[inline(always)]
fn vector<I: Isa, T: PanelElem>(isa: I, from: &[T]) -> I::V {
    match from.first_chunk::<LANES>() {
        Some(all) => T::lanes(isa, all),
        None => {
            let mut some = [T::default(); LANES];
            some[..from.len()].copy_from_slice(from);
            T::lanes(isa, &some)
        }
    }
}

/// `n` numbers of a vector, all where it has no more.
#[inline(always)]
fn put<I: Isa>(isa: I, v: I::V, to: &mut [f32], n: usize) {
    match to.first_chunk_mut::<LANES>() {
        Some(to) if n >= LANES => isa.store(v, to),
        _ => {
            let mut all = [0.0; LANES];
            isa.store(v, &mut all);
            to[..n.min(LANES)].copy_from_slice(&all[..n.min(LANES)]);
        }
    }
}
