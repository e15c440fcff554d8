//! Windows in two passes. First each column is joined over the rows of the window (and over all its
//! slices, if it has a depth) into a line with a border. Then the columns are joined, sixteen
//! windows at a time. Every loop covers whole vectors. The lines of several rows are made before
//! their windows: a vector load across two vectors that were just stored would have to wait for
//! both.
use super::{Pool, Pooling};
use crate::reduce::{Join, Largest, Sum};
use crate::scratch::with_scratch;
use crate::simd::isa::{Isa, PanelElem, Work, dispatch};
use crate::simd::lines::round_to;
use crate::simd::turn::{put, vector};
use crate::view::Out;
use std::marker::PhantomData;
use std::ops::Range;

/// Lanes of a vector.
const LANES: usize = 16;
/// Maximum number of rows of windows whose lines are made at a time, and the maximum count of
/// numbers in them if there is more than one row.
const BAND: usize = 64;
const MOST: usize = 1 << 12;
/// Largest stride for which the windows in between are computed too: sixteen windows at a time cost
/// less than one by one.
const STEP: usize = 8;

impl Pooling {
    /// Does the planes `units`.
    pub(super) fn run_rows<T: PanelElem>(&self, units: Range<usize>, x: &[T], out: &mut Out<'_, T>) {
        match self.op {
            Pool::Max => self.planes::<T, Largest>(units, x, out),
            _ => self.planes::<T, Sum>(units, x, out),
        }
    }

    fn planes<T: PanelElem, J: Join>(&self, units: Range<usize>, x: &[T], out: &mut Out<'_, T>) {
        let ([depth, rows, columns], [deep, height, width]) = (self.input, self.output);
        let (size, high) = (depth * rows * columns, deep * height);
        let vectors = width.next_multiple_of(LANES);
        // Columns that windows reach, including windows beyond the last one, and the vectors that
        // begin at the last position of each.
        let reach = vectors * self.stride[2] + (self.kernel[2] - 1) * self.dilation[2] + 2 * LANES;
        let line = (self.pad_before[2] + columns).max(reach);
        let band = (MOST / line).clamp(1, BAND);
        with_scratch(band * (line + width) + line + vectors + high, |s| {
            let (lines, s) = s.split_at_mut(band * line);
            let (results, s) = s.split_at_mut(band * width);
            let (all, s) = s.split_at_mut(line);
            let (across, down) = s.split_at_mut(vectors);
            lines.fill(J::NONE);
            if self.op != Pool::Max {
                across.fill(1.0);
                across.iter_mut().take(width).enumerate().for_each(|(o, n)| *n = self.divisor(2, o) as f32);
                let of = |r: usize| self.divisor(0, r / height) * self.divisor(1, r % height);
                down.iter_mut().enumerate().for_each(|(r, n)| *n = of(r) as f32);
            }
            let mut starts = Vec::new();
            for plane in units.start..units.end.min(self.planes) {
                let image = &x[plane * size..][..size];
                for row in (0..high).step_by(band) {
                    let n = band.min(high - row);
                    let lines = &mut lines[..n * line];
                    let (how, starts) = (PhantomData::<J>, &mut starts);
                    dispatch(Down { how, pool: self, image, row, starts, lines: &mut *lines, line });
                    let counts = (self.op != Pool::Max).then_some((&down[row..row + n], &*across));
                    let to = out.part((plane * high + row) * width, n * width);
                    match T::singles_mut(to) {
                        Some(to) => self.windows::<J>(lines, line, counts, all, to),
                        None => {
                            let results = &mut results[..n * width];
                            self.windows::<J>(lines, line, counts, all, results);
                            round_to(results, to);
                        }
                    }
                }
            }
        });
    }

    /// Computes the windows of rows whose lines are made. `all` is working memory for one line.
    fn windows<J: Join>(
        &self,
        lines: &[f32],
        line: usize,
        counts: Option<Counts<'_>>,
        all: &mut [f32],
        to: &mut [f32],
    ) {
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
            (2..=STEP, ..) => dispatch(Between { how: PhantomData::<J>, pool: self, lines, line, counts, all, to }),
            _ => by!(Apart),
        }
    }
}

/// Divisors of averages: the number of rows for each row of windows, and the number of columns for
/// each window of a row.
type Counts<'a> = (&'a [f32], &'a [f32]);

/// Makes the lines of rows of windows from `row` on, counted across the depth. A line holds each
/// column joined over the rows of the window, between borders of the neutral element.
struct Down<'a, J, T> {
    how: PhantomData<J>,
    pool: &'a Pooling,
    image: &'a [T],
    row: usize,
    /// Where the input rows begin that a row of windows covers; working memory.
    starts: &'a mut Vec<usize>,
    lines: &'a mut [f32],
    /// Length of a line.
    line: usize,
}

impl<J: Join, T: PanelElem> Work for Down<'_, J, T> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let Down { pool: p, image, row, starts, lines, line, .. } = self;
        let ([_, rows, columns], left, height) = (p.input, p.pad_before[2], p.output[1]);
        let flat = p.is_flat();
        for (row, line) in (row..).zip(lines.chunks_exact_mut(line)) {
            let to = &mut line[left..left + columns];
            let (first, n) = p.run_of_taps(row % height);
            let (first, step) = (first * columns, p.dilation[1] * columns);
            let start = |r: usize| first + r * step;
            match if flat { n } else { 0 } {
                1 => columns_of::<I, J, T, 1>(isa, image, [first], to),
                2 => columns_of::<I, J, T, 2>(isa, image, [first, start(1)], to),
                3 => columns_of::<I, J, T, 3>(isa, image, [first, start(1), start(2)], to),
                4 => columns_of::<I, J, T, 4>(isa, image, [first, start(1), start(2), start(3)], to),
                5 => columns_of::<I, J, T, 5>(isa, image, [first, start(1), start(2), start(3), start(4)], to),
                _ => {
                    starts.clear();
                    for z in p.taps(0, row / height) {
                        starts.extend((0..n).map(|r| z * rows * columns + start(r)));
                    }
                    columns_of_listed::<I, J, T>(isa, image, starts, to);
                }
            }
        }
    }
}

/// Joins, column by column, the rows of an image that begin at `starts`; there may be none.
#[inline(always)]
fn columns_of_listed<I: Isa, J: Join, T: PanelElem>(isa: I, image: &[T], starts: &[usize], to: &mut [f32]) {
    let Some((first, more)) = starts.split_first() else {
        return to.fill(J::NONE);
    };
    let columns = to.len();
    for at in (0..columns / LANES).map(|i| i * LANES).chain(last(columns)) {
        let mut v = vector(isa, &image[first + at..first + columns]);
        for start in more {
            v = J::join(isa, vector(isa, &image[start + at..start + columns]), v);
        }
        put(isa, v, &mut to[at..]);
    }
}

/// Joins, column by column, the `N` rows of an image that begin at `starts`.
#[inline(always)]
fn columns_of<I: Isa, J: Join, T: PanelElem, const N: usize>(isa: I, image: &[T], starts: [usize; N], to: &mut [f32]) {
    let rows: [&[T]; N] = std::array::from_fn(|r| &image[starts[r]..][..to.len()]);
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

/// Computes the windows of rows from their lines.
struct Across<'a, J, W> {
    how: PhantomData<J>,
    of: W,
    pool: &'a Pooling,
    lines: &'a [f32],
    /// Length of a line.
    line: usize,
    /// Divisors, for averages only.
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

/// Like [`Across`], for windows with a small stride: windows at every column are computed, and
/// those of the stride are kept.
struct Between<'a, J> {
    how: PhantomData<J>,
    pool: &'a Pooling,
    lines: &'a [f32],
    /// Length of a line.
    line: usize,
    /// Divisors, for averages only.
    counts: Option<Counts<'a>>,
    /// Working memory for the windows at every column of a line.
    all: &'a mut [f32],
    to: &'a mut [f32],
}

impl<J: Join> Work for Between<'_, J> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let Between { pool, lines, line, counts, all, to, .. } = self;
        let (width, step) = (pool.output[2], pool.stride[2]);
        // Covers the last window that is kept, rounded up to whole vectors below.
        let seen = (width.max(1) - 1) * step + 1;
        for (y, (line, to)) in lines.chunks_exact(line).zip(to.chunks_exact_mut(width.max(1))).enumerate() {
            for (i, all) in all.as_chunks_mut::<LANES>().0[..seen.div_ceil(LANES)].iter_mut().enumerate() {
                isa.store(Apart.beside::<I, J>(isa, pool, &line[i * LANES..]), all);
            }
            for (to, v) in to.iter_mut().zip(all.iter().step_by(step)) {
                *to = *v;
            }
            if let Some((down, across)) = counts {
                to.iter_mut().zip(across).for_each(|(to, n)| *to /= down[y] * n);
            }
        }
    }
}

/// Divides the sums of sixteen windows, from window `o` on, if averages are wanted.
#[inline(always)]
fn mean<I: Isa>(isa: I, v: I::V, counts: Option<(I::V, &[f32])>, o: usize) -> I::V {
    match counts {
        Some((rows, across)) => isa.div(v, isa.mul(rows, vector(isa, &across[o..]))),
        None => v,
    }
}

/// How sixteen neighbouring windows are computed from a line.
trait Window: Copy {
    /// The sixteen windows from window `o` on.
    fn of<I: Isa, J: Join>(self, isa: I, p: &Pooling, line: &[f32], o: usize) -> I::V;
}

/// Windows of `N` columns with stride one.
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

/// Windows of two or three columns with stride two.
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

/// All other windows.
#[derive(Clone, Copy)]
struct Apart;

impl Window for Apart {
    #[inline(always)]
    fn of<I: Isa, J: Join>(self, isa: I, p: &Pooling, line: &[f32], o: usize) -> I::V {
        let (stride, line) = (p.stride[2], &line[o * p.stride[2]..]);
        if stride == 1 {
            return self.beside::<I, J>(isa, p, line);
        }
        let mut v = isa.splat(J::NONE);
        for t in 0..p.kernel[2] {
            let line = &line[t * p.dilation[2]..];
            let own: [f32; LANES] = std::array::from_fn(|i| line[i * stride]);
            let next = isa.load(&own);
            v = if t == 0 { next } else { J::join(isa, next, v) };
        }
        v
    }
}

impl Apart {
    /// Sixteen windows one column apart, from the first column of the line on.
    #[inline(always)]
    fn beside<I: Isa, J: Join>(self, isa: I, p: &Pooling, line: &[f32]) -> I::V {
        let mut v = vector(isa, line);
        for t in 1..p.kernel[2] {
            v = J::join(isa, vector(isa, &line[t * p.dilation[2]..]), v);
        }
        v
    }
}

/// Start of the last vector if whole vectors do not cover `n` numbers. It overlaps the vector
/// before, and reaches beyond the numbers if there are fewer than it has lanes.
#[inline(always)]
pub(super) fn last(n: usize) -> Option<usize> {
    (!n.is_multiple_of(LANES)).then(|| n.saturating_sub(LANES))
}
