//! Small planes, sixteen at a time. Their elements are transposed, so that lanes are planes and
//! vectors are full however short a row is, and the results are transposed back. Windows are
//! computed as in `rows`: first over the rows of each column, then over the columns.
use super::{Pool, Pooling};
use crate::reduce::{Join, Largest, Sum};
use crate::scratch::with_scratch;
use crate::simd::isa::{Isa, PanelElem, Work, dispatch};
use crate::simd::turn::{put, turn, vector};
use crate::view::Out;
use std::marker::PhantomData;
use std::ops::Range;

/// Lanes of a vector.
pub(super) const LANES: usize = 16;
/// Maximum number of columns of input and output: longer rows fill vectors on their own.
const WIDE: usize = 32;
/// Maximum number of elements of a plane, so that sixteen planes stay in the second-level cache.
const MOST: usize = 4096;
/// Minimum number of planes: fewer would leave most lanes unused.
const LEAST: usize = 6;

type Line = [f32; LANES];

impl Pooling {
    /// Whether planes are processed sixteen at a time.
    pub(super) fn by_lanes(&self) -> bool {
        let size = |s: &[usize; 3]| s.iter().fold(1usize, |n, d| n.saturating_mul(*d));
        let narrow = self.input[2].max(self.output[2]) <= WIDE;
        self.pairs().is_none() && narrow && self.planes >= LEAST && size(&self.input).max(size(&self.output)) <= MOST
    }

    /// Does the units `units`, each of sixteen planes.
    pub(super) fn run_lanes<T: PanelElem>(&self, units: Range<usize>, x: &[T], out: &mut Out<'_, T>) {
        match self.op {
            Pool::Max => self.groups::<T, Largest>(units, x, out),
            _ => self.groups::<T, Sum>(units, x, out),
        }
    }

    fn groups<T: PanelElem, J: Join>(&self, units: Range<usize>, x: &[T], out: &mut Out<'_, T>) {
        let (size, each): (usize, usize) = (self.input.iter().product(), self.output.iter().product());
        let [_, rows, columns] = self.input;
        let [deep, height, width] = self.output;
        // The rows that each row of windows covers, by where they begin, and the columns that each
        // window covers.
        let row = |r: usize| {
            let starts = self.taps(0, r / height).flat_map(move |z| {
                let (first, n) = self.run_of_taps(r % height);
                (0..n).map(move |t| (z * rows + first + t * self.dilation[1]) * columns)
            });
            Taps { starts: starts.collect(), divisor: self.divisor(0, r / height) * self.divisor(1, r % height) }
        };
        let column = |o: usize| Taps { starts: self.taps(2, o).collect(), divisor: self.divisor(2, o) };
        let seen = Seen {
            rows: (0..deep * height).map(row).collect(),
            columns: (0..width).map(column).collect(),
            mean: self.op != Pool::Max,
        };
        let whole = |n: usize| n.next_multiple_of(LANES) * LANES;
        with_scratch(whole(size) + whole(each) + columns * LANES, |room| {
            let (lines, room) = room.as_chunks_mut::<LANES>().0.split_at_mut(size.next_multiple_of(LANES));
            let (results, row) = room.split_at_mut(each.next_multiple_of(LANES));
            for unit in units {
                let planes = unit * LANES..((unit + 1) * LANES).min(self.planes);
                let (x, to) =
                    (&x[planes.start * size..planes.end * size], out.part(planes.start * each, planes.len() * each));
                let (how, lines, results, row) = (PhantomData::<J>, &mut *lines, &mut *results, &mut *row);
                dispatch(Group { how, seen: &seen, planes: planes.len(), x, lines, row, results, to });
            }
        });
    }
}

/// The elements that a row or a column of windows covers.
struct Taps {
    starts: Vec<usize>,
    /// Divisor of an average along the axis.
    divisor: usize,
}

/// The elements that all windows cover.
struct Seen {
    rows: Vec<Taps>,
    columns: Vec<Taps>,
    /// Whether sums become averages.
    mean: bool,
}

/// Up to sixteen planes.
struct Group<'a, J, T> {
    how: PhantomData<J>,
    seen: &'a Seen,
    planes: usize,
    x: &'a [T],
    /// The transposed planes, rounded up to whole squares.
    lines: &'a mut [Line],
    /// For each column, the rows of a window joined.
    row: &'a mut [Line],
    /// The results of windows, rounded up to whole squares.
    results: &'a mut [Line],
    to: &'a mut [T],
}

/// Joins the lines that begin at `starts`; there may be none.
#[inline(always)]
fn joined<I: Isa, J: Join>(isa: I, lines: &[Line], starts: &[usize]) -> I::V {
    let Some((first, more)) = starts.split_first() else { return isa.splat(J::NONE) };
    let mut v = isa.load(&lines[*first]);
    for start in more {
        v = J::join(isa, isa.load(&lines[*start]), v);
    }
    v
}

/// Joins `N` rows, column by column.
#[inline(always)]
fn joined_rows<I: Isa, J: Join, const N: usize>(isa: I, lines: &[Line], starts: &[usize], to: &mut [Line]) {
    let rows: [&[Line]; N] = std::array::from_fn(|t| &lines[starts[t]..][..to.len()]);
    for (c, to) in to.iter_mut().enumerate() {
        let mut v = isa.load(&rows[0][c]);
        for row in &rows[1..] {
            v = J::join(isa, isa.load(&row[c]), v);
        }
        isa.store(v, to);
    }
}

/// Joins `N` neighbouring columns from `first` on.
#[inline(always)]
fn joined_beside<I: Isa, J: Join, const N: usize>(isa: I, row: &[Line], first: usize) -> I::V {
    let row = &row[first..][..N];
    let mut v = isa.load(&row[0]);
    for line in &row[1..] {
        v = J::join(isa, isa.load(line), v);
    }
    v
}

impl<J: Join, T: PanelElem> Work for Group<'_, J, T> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let Group { seen, planes, x, lines, row, results, to, .. } = self;
        let (size, each) = (x.len() / planes, to.len() / planes);
        for (at, square) in (0..size).step_by(LANES).zip(lines.as_chunks_mut::<LANES>().0) {
            let mut v = [isa.splat(0.0); LANES];
            for (plane, v) in v.iter_mut().enumerate().take(planes) {
                // Elements beyond the end of the plane are loaded, but not used.
                *v = vector(isa, &x[plane * size + at..]);
            }
            turn(isa, &mut v);
            for (v, line) in v.into_iter().zip(square) {
                isa.store(v, line);
            }
        }

        for (taps, to) in seen.rows.iter().zip(results.chunks_exact_mut(seen.columns.len())) {
            match taps.starts.len() {
                1 => joined_rows::<I, J, 1>(isa, lines, &taps.starts, row),
                2 => joined_rows::<I, J, 2>(isa, lines, &taps.starts, row),
                3 => joined_rows::<I, J, 3>(isa, lines, &taps.starts, row),
                _ => {
                    for (c, line) in row.iter_mut().enumerate() {
                        isa.store(joined::<I, J>(isa, &lines[c..], &taps.starts), line);
                    }
                }
            }
            for (column, to) in seen.columns.iter().zip(to) {
                let mut v = match column.starts[..] {
                    [first, second] if second == first + 1 => joined_beside::<I, J, 2>(isa, row, first),
                    [first, _, third] if third == first + 2 => joined_beside::<I, J, 3>(isa, row, first),
                    _ => joined::<I, J>(isa, row, &column.starts),
                };
                if seen.mean {
                    v = isa.div(v, isa.splat((taps.divisor * column.divisor) as f32));
                }
                isa.store(v, to);
            }
        }

        // The last square comes first: what its vectors write beyond their planes is overwritten
        // later.
        for (k, square) in results.as_chunks::<LANES>().0.iter().enumerate().rev() {
            let mut v = [isa.splat(0.0); LANES];
            for (v, line) in v.iter_mut().zip(square) {
                *v = isa.load(line);
            }
            turn(isa, &mut v);
            for (plane, v) in v.into_iter().enumerate().take(planes) {
                put(isa, v, &mut to[plane * each + k * LANES..]);
            }
        }
    }
}
