//! Reduction of neighbouring columns. Like the sum of a row, a sum uses sixty-four lanes that are
//! added as a tree. Elements are visited in the order in which the tree needs them, so that only
//! one partial sum of each height is kept.
use super::{Join, WIDE};
use crate::simd::fold::LANES;
use crate::simd::isa::{Isa, PanelElem, Work};
use crate::simd::turn::vector;
use std::marker::PhantomData;

/// Vectors of columns that are folded together if there are enough.
const TOGETHER: usize = 4;
/// Columns of that many vectors.
const TOGETHER_AND_MORE: usize = TOGETHER * WIDE;

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
}

impl<J: Join, T: PanelElem> Work for Columns<'_, J, T> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(mut self, isa: I) {
        let mut done = 0;
        while done < self.to.len() {
            let left = self.to.len() - done;
            let now = match left {
                TOGETHER_AND_MORE.. => TOGETHER * WIDE,
                _ => left.min(2 * WIDE),
            };
            match now.div_ceil(WIDE) {
                TOGETHER => self.vectors::<I, TOGETHER>(isa, done, now),
                // The second vector may be incomplete: it still shares the way through the rows.
                2 => self.vectors::<I, 2>(isa, done, now),
                _ => self.vectors::<I, 1>(isa, done, now),
            }
            done += now;
        }
    }
}

impl<J: Join, T: PanelElem> Columns<'_, J, T> {
    /// Reduces `columns` columns from column `first` on, in `N` vectors.
    #[inline(always)]
    fn vectors<I: Isa, const N: usize>(&mut self, isa: I, first: usize, columns: usize) {
        let sums =
            if self.in_line { self.line::<I, N>(isa, first, columns) } else { self.tree::<I, N>(isa, first, columns) };
        for (sum, to) in sums.into_iter().zip(self.to[first..first + columns].chunks_mut(WIDE)) {
            // SAFETY: only as many lanes are written as there are numbers.
            unsafe { isa.store_some(sum, to.as_mut_ptr(), isa.lanes(0, to.len())) };
        }
    }

    /// The terms of one element of these columns.
    #[inline(always)]
    fn terms<I: Isa, const N: usize>(&self, isa: I, element: usize, first: usize, columns: usize) -> [I::V; N] {
        let row = &self.x[self.places.at(element) + first..][..columns];
        let mut v = [isa.splat(0.0); N];
        for (v, x) in v.iter_mut().zip(row.chunks(WIDE)) {
            *v = J::term(isa, vector(isa, x));
        }
        v
    }

    /// Joins all elements one after the other.
    #[inline(always)]
    fn line<I: Isa, const N: usize>(&self, isa: I, first: usize, columns: usize) -> [I::V; N] {
        let mut all = [isa.splat(J::NONE); N];
        for element in 0..self.count {
            let v = self.terms::<I, N>(isa, element, first, columns);
            for (all, v) in all.iter_mut().zip(v) {
                *all = J::join(isa, *all, v);
            }
        }
        all
    }

    /// Adds all elements like the lanes of a row: lane `l` takes every sixty-fourth element from
    /// `l` on, and lanes that are half their number apart are added first.
    #[inline(always)]
    fn tree<I: Isa, const N: usize>(&self, isa: I, first: usize, columns: usize) -> [I::V; N] {
        // Lanes without an element would only add zero.
        let lanes = self.count.min(LANES).next_power_of_two();
        let bits = lanes.trailing_zeros();
        let leaf = |turn: usize| self.lane::<I, N>(isa, turn, bits, first, columns);
        if bits < 2 {
            return if bits == 0 { leaf(0) } else { both(isa, leaf(0), leaf(1)) };
        }
        // Partial sums of four lanes, of eight and so on, while they wait for others.
        let mut heights = [[isa.splat(0.0); N]; LANES.trailing_zeros() as usize - 1];
        for turn in 0..lanes / 4 {
            let near = both(isa, leaf(4 * turn), leaf(4 * turn + 1));
            let mut sum = both(isa, near, both(isa, leaf(4 * turn + 2), leaf(4 * turn + 3)));
            let mut height = 0;
            while turn >> height & 1 == 1 {
                sum = both(isa, heights[height], sum);
                height += 1;
            }
            heights[height] = sum;
        }
        heights[bits as usize - 2]
    }

    /// The sum of the lane that is added at `turn`, of `2^bits` lanes.
    #[inline(always)]
    fn lane<I: Isa, const N: usize>(&self, isa: I, turn: usize, bits: u32, first: usize, columns: usize) -> [I::V; N] {
        // The leaves are visited in bit-reversed order.
        let lane = if bits == 0 { 0 } else { turn.reverse_bits() >> (usize::BITS - bits) };
        let mut sum = [isa.splat(0.0); N];
        for element in (lane..self.count).step_by(LANES) {
            let v = self.terms::<I, N>(isa, element, first, columns);
            for (sum, v) in sum.iter_mut().zip(v) {
                *sum = isa.add(*sum, v);
            }
        }
        sum
    }
}

/// Adds `N` vectors to `N` others.
#[inline(always)]
fn both<I: Isa, const N: usize>(isa: I, a: [I::V; N], b: [I::V; N]) -> [I::V; N] {
    let mut sum = a;
    for (sum, b) in sum.iter_mut().zip(b) {
        *sum = isa.add(*sum, b);
    }
    sum
}
