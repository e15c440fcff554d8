//! Reduction of neighbouring columns. Like the sum of a row, a sum uses sixty-four lanes that are
//! added as a tree. Elements are visited in the order in which the tree needs them, so that only
//! one partial sum of each height is kept. Rows are read four at a time, over many columns: memory
//! is then read in long runs, and few registers are needed.
use super::{Join, Sum, WIDE};
use crate::simd::fold::LANES;
use crate::simd::isa::{Isa, PanelElem, Work};
use std::marker::PhantomData;

/// Rows that are read at a time.
const ROWS: usize = 4;
/// Maximum number of columns that are folded together.
const BAND: usize = 512;
/// Partial sums that wait for others: of four lanes, of eight and so on up to all.
const HEIGHTS: usize = (LANES / ROWS).ilog2() as usize + 1;
/// Bands of working memory: partial sums, and the lanes of four rows.
const BANDS: usize = HEIGHTS + ROWS;
/// Numbers of working memory.
pub(super) const ROOM: usize = BANDS * BAND;

/// Positions of the elements of a column, relative to the first.
pub(super) enum Places {
    /// Evenly spaced, this far apart.
    Even(usize),
    /// The position of each element.
    Listed(Vec<usize>),
}

impl Places {
    #[inline(always)]
    fn at(&self, element: usize) -> usize {
        match self {
            Places::Even(step) => element * step,
            Places::Listed(list) => list[element],
        }
    }
}

/// One column for each result; `x` begins with the first number of the first column.
pub(super) struct Columns<'a, J, T> {
    pub(super) how: PhantomData<J>,
    /// Whether elements are joined one after the other, instead of as a tree.
    pub(super) in_line: bool,
    pub(super) x: &'a [T],
    pub(super) places: &'a Places,
    pub(super) count: usize,
    pub(super) to: &'a mut [f32],
    /// [`ROOM`] numbers.
    pub(super) room: &'a mut [f32],
}

impl<J: Join, T: PanelElem> Work for Columns<'_, J, T> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let Columns { in_line, x, places, count, to, room, .. } = self;
        let (bands, _) = room.as_chunks_mut::<BAND>();
        for (band, to) in to.chunks_mut(BAND).enumerate() {
            let rows = Rows { x: &x[band * BAND..], places, count, columns: to.len() };
            let found = if in_line { rows.line::<I, J>(isa, bands) } else { rows.tree::<I, J>(isa, bands) };
            to.copy_from_slice(&bands[found][..to.len()]);
        }
    }
}

/// Rows of some neighbouring columns.
struct Rows<'a, T> {
    x: &'a [T],
    places: &'a Places,
    count: usize,
    columns: usize,
}

impl<T: PanelElem> Rows<'_, T> {
    /// The elements of a row, one for each column.
    #[inline(always)]
    fn row(&self, element: usize) -> &[T] {
        &self.x[self.places.at(element)..][..self.columns]
    }

    /// The first `N` elements of a lane.
    #[inline(always)]
    fn lane<const N: usize>(&self, lane: usize) -> [&[T]; N] {
        let mut rows = [&[][..]; N];
        for (i, row) in rows.iter_mut().enumerate() {
            *row = self.row(lane + i * LANES);
        }
        rows
    }

    /// Joins all elements one after the other, in the first band.
    #[inline(always)]
    fn line<I: Isa, J: Join>(&self, isa: I, bands: &mut [[f32; BAND]]) -> usize {
        let all = &mut bands[0];
        all.fill(J::NONE);
        self.join::<I, J>(isa, 0, 1, all);
        0
    }

    /// Joins every `step`th row from `first` on to the numbers of a band.
    #[inline(always)]
    fn join<I: Isa, J: Join>(&self, isa: I, first: usize, step: usize, to: &mut [f32; BAND]) {
        let mut element = first;
        while element < self.count {
            // Each of these reads and writes the band once.
            match (self.count - element).div_ceil(step) {
                ROWS.. => self.join_some::<I, J, ROWS>(isa, &mut element, step, to),
                2.. => self.join_some::<I, J, 2>(isa, &mut element, step, to),
                _ => self.join_some::<I, J, 1>(isa, &mut element, step, to),
            }
        }
    }

    /// Joins `K` rows from `element` on, and moves that behind them.
    #[inline(always)]
    fn join_some<I: Isa, J: Join, const K: usize>(
        &self,
        isa: I,
        element: &mut usize,
        step: usize,
        to: &mut [f32; BAND],
    ) {
        let mut rows: [&[T]; K] = [&[]; K];
        for row in &mut rows {
            *row = self.row(*element);
            *element += step;
        }
        let mut chunks: [&[[T; WIDE]]; K] = [&[]; K];
        for (chunks, row) in chunks.iter_mut().zip(rows) {
            *chunks = row.as_chunks().0;
        }
        let (vectors, rest) = to[..self.columns].as_chunks_mut::<WIDE>();
        for (i, to) in vectors.iter_mut().enumerate() {
            let mut v = isa.load(to);
            for chunks in chunks {
                v = J::join(isa, v, J::term(isa, T::lanes(isa, &chunks[i])));
            }
            isa.store(v, to);
        }
        let done = vectors.len() * WIDE;
        for row in rows {
            for (to, v) in rest.iter_mut().zip(&row[done..]) {
                *to = J::two(*to, J::one(v.wide()));
            }
        }
    }

    /// Adds all elements like the lanes of a row: lane `l` takes every sixty-fourth element from
    /// `l` on, and lanes that are half their number apart are added first. Returns the number of
    /// the band that has the sums.
    #[inline(always)]
    fn tree<I: Isa, J: Join>(&self, isa: I, bands: &mut [[f32; BAND]]) -> usize {
        let (heights, bands) = bands.split_at_mut(HEIGHTS);
        let own = &mut bands[..ROWS];
        // Lanes without an element only add zero.
        let lanes = self.count.min(LANES).next_power_of_two().max(ROWS);
        let bits = lanes.trailing_zeros();
        for turn in 0..lanes / ROWS {
            // Lanes are visited in bit-reversed order.
            let mut lane = [0; ROWS];
            for (k, lane) in lane.iter_mut().enumerate() {
                *lane = (ROWS * turn + k).reverse_bits() >> (usize::BITS - bits);
            }
            let (lower, higher) = heights.split_at_mut(turn.trailing_ones() as usize);
            let to = &mut higher[0];
            // Lanes of one or two elements each need no sums of their own. The last lane is the
            // highest of the four, and the first the lowest.
            let alike = |n: usize| lane[ROWS - 1] + (n - 1) * LANES < self.count && lane[0] + n * LANES >= self.count;
            if alike(1) {
                add_four::<I, J, T, 1>(isa, lane.map(|lane| self.lane(lane)), lower, to);
                continue;
            } else if alike(2) {
                add_four::<I, J, T, 2>(isa, lane.map(|lane| self.lane(lane)), lower, to);
                continue;
            }
            for (own, lane) in own.iter_mut().zip(lane) {
                own[..self.columns].fill(0.0);
                self.join::<I, J>(isa, lane, LANES, own);
            }
            let own = [0, 1, 2, 3].map(|k| [&own[k][..self.columns]]);
            add_four::<I, Sum, f32, 1>(isa, own, lower, to);
        }
        bits as usize - 2
    }
}

/// The sum of four lanes of `N` elements each, as a tree, and of what waits for it.
#[inline(always)]
fn add_four<I: Isa, J: Join, T: PanelElem, const N: usize>(
    isa: I,
    lanes: [[&[T]; N]; ROWS],
    waiting: &[[f32; BAND]],
    to: &mut [f32; BAND],
) {
    let columns = lanes[0][0].len();
    let mut chunks: [[&[[T; WIDE]]; N]; ROWS] = [[&[]; N]; ROWS];
    for (chunks, row) in chunks.as_flattened_mut().iter_mut().zip(lanes.as_flattened()) {
        *chunks = row.as_chunks().0;
    }
    for (i, to) in to[..columns].as_chunks_mut::<WIDE>().0.iter_mut().enumerate() {
        let mut sums = [isa.splat(0.0); ROWS];
        for (sum, rows) in sums.iter_mut().zip(&chunks) {
            for row in rows {
                *sum = isa.add(*sum, J::term(isa, T::lanes(isa, &row[i])));
            }
        }
        let [a, b, c, d] = sums;
        let mut sum = isa.add(isa.add(a, b), isa.add(c, d));
        for band in waiting {
            if let Some(v) = band[i * WIDE..].first_chunk() {
                sum = isa.add(isa.load(v), sum);
            }
        }
        isa.store(sum, to);
    }
    for i in columns / WIDE * WIDE..columns {
        let [a, b, c, d] = lanes.map(|rows| rows.iter().fold(0.0, |sum, row| sum + J::one(row[i].wide())));
        to[i] = waiting.iter().fold((a + b) + (c + d), |sum, band| band[i] + sum);
    }
}
