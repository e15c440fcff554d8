//! Windows over one or two spatial axes, by rows: what a window has of each column first, over the
//! rows that it reaches, into a line with its border; then that of its columns, sixteen windows at
//! a time. Every loop is over whole vectors. The lines of several rows are made before their windows
//! are: a vector that is read at once across two that were just written waits for both.
use super::{Pool, Pooling};
use crate::reduce::{Join, Largest, Sum};
use crate::scratch::with_scratch;
use crate::simd::isa::{Isa, PanelElem, Work, dispatch};
use crate::simd::lines::round_to;
use crate::view::Out;
use std::marker::PhantomData;
use std::ops::Range;

/// Lanes of a vector.
const LANES: usize = 16;
/// Rows of windows whose lines are made at a time, and the numbers that they have at most where
/// there is more than one.
const BAND: usize = 64;
const MOST: usize = 1 << 12;

impl Pooling {
    /// Whether [`Pooling::run_rows`] does it.
    pub(super) fn is_by_rows(&self) -> bool {
        self.input[0] == 1 && self.kernel[0] == 1 && self.output[0] == 1
    }

    /// Does the planes of `units`.
    pub(super) fn run_rows<T: PanelElem>(&self, units: Range<usize>, x: &[T], out: &mut Out<'_, T>) {
        match self.op {
            Pool::Max => self.planes::<T, Largest>(units, x, out),
            _ => self.planes::<T, Sum>(units, x, out),
        }
    }

    fn planes<T: PanelElem, J: Join>(&self, units: Range<usize>, x: &[T], out: &mut Out<'_, T>) {
        let ([_, rows, columns], [_, height, width]) = (self.input, self.output);
        let vectors = width.next_multiple_of(LANES);
        // Columns that windows reach, those of windows beyond the last one too, and the vectors
        // that begin in the last place of each.
        let reach = vectors * self.stride[2] + (self.kernel[2] - 1) * self.dilation[2] + 2 * LANES;
        let line = (self.pad_before[2] + columns).max(reach);
        let band = (MOST / line).clamp(1, BAND);
        with_scratch(band * (line + width) + vectors + height, |s| {
            let (lines, s) = s.split_at_mut(band * line);
            let (results, s) = s.split_at_mut(band * width);
            let (across, down) = s.split_at_mut(vectors);
            lines.fill(J::NONE);
            if self.op != Pool::Max {
                across.fill(1.0);
                across.iter_mut().take(width).enumerate().for_each(|(o, n)| *n = self.divisor(2, o) as f32);
                down.iter_mut().enumerate().for_each(|(y, n)| *n = self.divisor(1, y) as f32);
            }
            for plane in units.start..units.end.min(self.planes) {
                let image = &x[plane * rows * columns..][..rows * columns];
                for y in (0..height).step_by(band) {
                    let n = band.min(height - y);
                    let lines = &mut lines[..n * line];
                    dispatch(Down { how: PhantomData::<J>, pool: self, image, y, lines: &mut *lines, line });
                    let counts = (self.op != Pool::Max).then_some((&down[y..y + n], &*across));
                    let to = out.part((plane * height + y) * width, n * width);
                    match T::singles_mut(to) {
                        Some(to) => self.windows::<J>(lines, line, counts, to),
                        None => {
                            let results = &mut results[..n * width];
                            self.windows::<J>(lines, line, counts, results);
                            round_to(results, to);
                        }
                    }
                }
            }
        });
    }

    /// The windows of rows whose lines are made.
    fn windows<J: Join>(&self, lines: &[f32], line: usize, counts: Option<Counts<'_>>, to: &mut [f32]) {
        macro_rules! by {
            ($of:expr) => {
                dispatch(Across { how: PhantomData::<J>, of: $of, pool: self, lines, line, counts, to })
            };
        }
        match (self.stride[2], self.dilation[2], self.kernel[2]) {
            (1, 1, 2) => by!(Beside::<2>),
            (1, 1, 3) => by!(Beside::<3>),
            (1, 1, 5) => by!(Beside::<5>),
            (2, 1, 2) => by!(Pairs::<2>),
            (2, 1, 3) => by!(Pairs::<3>),
            _ => by!(Apart),
        }
    }
}

/// Over how many rows the average of each row of windows is, and over how many columns that of each
/// window of a row.
type Counts<'a> = (&'a [f32], &'a [f32]);

/// Makes the lines of rows of windows from `y` on: what the windows of a row have of each column,
/// between borders that hold nothing.
struct Down<'a, J, T> {
    how: PhantomData<J>,
    pool: &'a Pooling,
    image: &'a [T],
    y: usize,
    lines: &'a mut [f32],
    /// Numbers of a line.
    line: usize,
}

impl<J: Join, T: PanelElem> Work for Down<'_, J, T> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let Down { pool: p, image, y, lines, line, .. } = self;
        let (columns, left) = (p.input[2], p.pad_before[2]);
        for (y, line) in (y..).zip(lines.chunks_exact_mut(line)) {
            let to = &mut line[left..left + columns];
            let (first, n) = p.run_of_taps(y);
            let rows = (&image[first * columns..], p.dilation[1] * columns);
            match n {
                0 => to.fill(J::NONE),
                1 => columns_of::<I, J, T, 1>(isa, rows, to),
                2 => columns_of::<I, J, T, 2>(isa, rows, to),
                3 => columns_of::<I, J, T, 3>(isa, rows, to),
                4 => columns_of::<I, J, T, 4>(isa, rows, to),
                5 => columns_of::<I, J, T, 5>(isa, rows, to),
                _ => {
                    for at in (0..columns / LANES).map(|i| i * LANES).chain(last(columns)) {
                        let mut v = isa.splat(J::NONE);
                        for r in 0..n {
                            let next = vector(isa, &rows.0[r * rows.1 + at..r * rows.1 + columns]);
                            v = if r == 0 { next } else { J::join(isa, next, v) };
                        }
                        put(isa, v, &mut to[at..]);
                    }
                }
            }
        }
    }
}

/// What the columns of an image have in `N` rows, the first of which it begins with and which stand
/// so far apart.
#[inline(always)]
fn columns_of<I: Isa, J: Join, T: PanelElem, const N: usize>(isa: I, rows: (&[T], usize), to: &mut [f32]) {
    let rows: [&[T]; N] = std::array::from_fn(|r| &rows.0[r * rows.1..][..to.len()]);
    let whole: [&[[T; LANES]]; N] = std::array::from_fn(|r| rows[r].as_chunks().0);
    for (i, to) in to.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
        let mut v = T::lanes(isa, &whole[0][i]);
        for row in &whole[1..] {
            v = J::join(isa, T::lanes(isa, &row[i]), v);
        }
        isa.store(v, to);
    }
    if let Some(at) = last(to.len()) {
        let mut v = vector(isa, &rows[0][at..]);
        for row in &rows[1..] {
            v = J::join(isa, vector(isa, &row[at..]), v);
        }
        put(isa, v, &mut to[at..]);
    }
}

/// What the windows of rows have of their lines.
struct Across<'a, J, W> {
    how: PhantomData<J>,
    of: W,
    pool: &'a Pooling,
    lines: &'a [f32],
    /// Numbers of a line.
    line: usize,
    /// Of averages.
    counts: Option<Counts<'a>>,
    to: &'a mut [f32],
}

impl<J: Join, W: Window> Work for Across<'_, J, W> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let Across { of, pool, lines, line, counts, to, .. } = self;
        let width = pool.output[2];
        for (y, (line, to)) in lines.chunks_exact(line).zip(to.chunks_exact_mut(width.max(1))).enumerate() {
            let counts = counts.map(|(down, across)| (isa.splat(down[y]), across));
            for (i, to) in to.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
                let v = of.of::<I, J>(isa, pool, line, i * LANES);
                isa.store(mean(isa, v, counts, i * LANES), to);
            }
            if let Some(at) = last(width) {
                let v = of.of::<I, J>(isa, pool, line, at);
                put(isa, mean(isa, v, counts, at), &mut to[at..]);
            }
        }
    }
}

/// The average of sixteen windows of which these are the sums, from window `o` on.
#[inline(always)]
fn mean<I: Isa>(isa: I, v: I::V, counts: Option<(I::V, &[f32])>, o: usize) -> I::V {
    match counts {
        Some((rows, across)) => isa.div(v, isa.mul(rows, vector(isa, &across[o..]))),
        None => v,
    }
}

/// What sixteen windows that stand side by side have of a line.
trait Window: Copy {
    /// From window `o` on.
    fn of<I: Isa, J: Join>(self, isa: I, p: &Pooling, line: &[f32], o: usize) -> I::V;
}

/// Windows of `N` that move by one.
#[derive(Clone, Copy)]
struct Beside<const N: usize>;

impl<const N: usize> Window for Beside<N> {
    #[inline(always)]
    fn of<I: Isa, J: Join>(self, isa: I, _: &Pooling, line: &[f32], o: usize) -> I::V {
        let line = &line[o..o + N - 1 + LANES];
        let mut v = vector(isa, line);
        for t in 1..N {
            v = J::join(isa, vector(isa, &line[t..]), v);
        }
        v
    }
}

/// Windows of two or three that move by two.
#[derive(Clone, Copy)]
struct Pairs<const N: usize>;

impl<const N: usize> Window for Pairs<N> {
    #[inline(always)]
    fn of<I: Isa, J: Join>(self, isa: I, _: &Pooling, line: &[f32], o: usize) -> I::V {
        let line = &line[2 * o..2 * o + 2 * LANES + 2];
        let (even, odd) = isa.even_odd(vector(isa, line), vector(isa, &line[LANES..]));
        let v = J::join(isa, odd, even);
        if N == 2 {
            return v;
        }
        J::join(isa, isa.even_odd(vector(isa, &line[2..]), vector(isa, &line[LANES + 2..])).0, v)
    }
}

/// All others.
#[derive(Clone, Copy)]
struct Apart;

impl Window for Apart {
    #[inline(always)]
    fn of<I: Isa, J: Join>(self, isa: I, p: &Pooling, line: &[f32], o: usize) -> I::V {
        let (taps, stride, dilation) = (p.kernel[2], p.stride[2], p.dilation[2]);
        let line = &line[o * stride..];
        let mut v = isa.splat(J::NONE);
        for t in 0..taps {
            let line = &line[t * dilation..];
            let next = if stride == 1 {
                vector(isa, line)
            } else {
                let own: [f32; LANES] = std::array::from_fn(|i| line[i * stride]);
                isa.load(&own)
            };
            v = if t == 0 { next } else { J::join(isa, next, v) };
        }
        v
    }
}

/// Where the last vector of `n` numbers begins that whole vectors do not cover: it covers some a
/// second time, and reaches beyond them where there are fewer than it has lanes.
#[inline(always)]
fn last(n: usize) -> Option<usize> {
    (!n.is_multiple_of(LANES)).then(|| n.saturating_sub(LANES))
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

/// The numbers of a vector for which there is room.
#[inline(always)]
fn put<I: Isa>(isa: I, v: I::V, to: &mut [f32]) {
    match to.first_chunk_mut::<LANES>() {
        Some(to) => isa.store(v, to),
        None => {
            let mut all = [0.0; LANES];
            isa.store(v, &mut all);
            to.copy_from_slice(&all[..to.len()]);
        }
    }
}
