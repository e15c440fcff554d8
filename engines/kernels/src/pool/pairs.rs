//! Windows of two columns, two columns apart, without padding: each row of windows is read straight
//! from its rows of the image, without a line between.
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
/// Maximum number of rows of a window.
const ROWS: usize = 3;

impl Pooling {
    /// The number of rows of a window, if the windows are of this kind and a row has half a vector
    /// of them.
    pub(super) fn pairs(&self) -> Option<usize> {
        let [_, height, width] = self.output;
        let rows = self.kernel[1];
        let inside = (height.max(1) - 1) * self.stride[1] + (rows.max(1) - 1) * self.dilation[1] < self.input[1];
        let pairs = [self.kernel[2], self.stride[2], self.dilation[2]] == [2, 2, 1] && 2 * width <= self.input[2];
        let plain = self.is_flat() && self.pad_before[1..] == [0; 2];
        ((1..=ROWS).contains(&rows) && inside && pairs && plain && width >= LANES / 2).then_some(rows)
    }

    /// Does the planes `units` of windows of so many rows.
    pub(super) fn run_pairs<T: PanelElem>(&self, units: Range<usize>, rows: usize, x: &[T], out: &mut Out<'_, T>) {
        match self.op {
            Pool::Max => self.halves::<T, Largest>(units, rows, None, x, out),
            _ => self.halves::<T, Sum>(units, rows, Some(2 * rows), x, out),
        }
    }

    fn halves<T: PanelElem, J: Join>(
        &self,
        units: Range<usize>,
        rows: usize,
        count: Option<usize>,
        x: &[T],
        out: &mut Out<'_, T>,
    ) {
        let (size, each) = (self.input[1] * self.input[2], self.output[1] * self.output[2]);
        with_scratch(each, |results| {
            for plane in units.start..units.end.min(self.planes) {
                let image = &x[plane * size..][..size];
                let to = out.part(plane * each, each);
                let how = PhantomData::<J>;
                match T::singles_mut(to) {
                    Some(to) => dispatch(Pairs { how, pool: self, rows, count, image, to }),
                    None => {
                        dispatch(Pairs { how, pool: self, rows, count, image, to: &mut *results });
                        round_to(results, to);
                    }
                }
            }
        });
    }
}

/// The windows of one plane.
struct Pairs<'a, J, T> {
    how: PhantomData<J>,
    pool: &'a Pooling,
    /// Rows of a window.
    rows: usize,
    /// Number of elements of a window, by which averages are divided.
    count: Option<usize>,
    image: &'a [T],
    to: &'a mut [f32],
}

impl<J: Join, T: PanelElem> Work for Pairs<'_, J, T> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        match self.rows {
            1 => self.of::<I, 1>(isa),
            2 => self.of::<I, 2>(isa),
            _ => self.of::<I, ROWS>(isa),
        }
    }
}

impl<J: Join, T: PanelElem> Pairs<'_, J, T> {
    #[inline(always)]
    fn of<I: Isa, const N: usize>(self, isa: I) {
        let Pairs { pool, count, image, to, .. } = self;
        let (columns, width) = (pool.input[2], pool.output[2]);
        let (step, apart) = (pool.stride[1] * columns, pool.dilation[1] * columns);
        let count = count.map(|n| isa.splat(n as f32));
        for y in 0..pool.output[1] {
            // Up to the end of the image, and of the results: of a row of fewer windows than lanes,
            // the rest of the vector is written over by the next row.
            let rows: [&[T]; N] = std::array::from_fn(|r| &image[y * step + r * apart..]);
            let to = &mut to[y * width..];
            // The last windows overlap those before. No closure loads vectors: in the form that is
            // not inlined, each load would be a call.
            for i in 0..width.div_ceil(LANES) {
                let o = (i * LANES).min(width.saturating_sub(LANES));
                let mut lines = two(isa, rows[0], 2 * o);
                for row in &rows[1..] {
                    let more = two(isa, row, 2 * o);
                    lines = [J::join(isa, more[0], lines[0]), J::join(isa, more[1], lines[1])];
                }
                let (even, odd) = isa.even_odd(lines[0], lines[1]);
                let v = J::join(isa, odd, even);
                put(isa, count.map_or(v, |n| isa.div(v, n)), &mut to[o..]);
            }
        }
    }
}

/// The thirty-two numbers of a row from `at` on; zero beyond its end.
#[inline(always)]
fn two<I: Isa, T: PanelElem>(isa: I, row: &[T], at: usize) -> [I::V; 2] {
    [vector(isa, &row[at..]), vector(isa, &row[(at + LANES).min(row.len())..])]
}
