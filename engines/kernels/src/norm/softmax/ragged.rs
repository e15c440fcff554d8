//! Rows that are no whole number of vectors, up to sixteen that follow each other. What is done to
//! each number goes over all of them as one line of whole vectors, of which some hold the end of a
//! row and the beginning of the next: a row of 49 numbers fills three vectors, not four. Maxima and
//! sums are those of [`rows`](super::rows), bit by bit.
use super::lines::{WIDE, last};
use super::rows::most_of_rows;
use crate::reduce::sum_lanes;
use crate::simd::exp::exp_below;
use crate::simd::isa::{Isa, Work};
use crate::simd::turn::fold_rows;

/// Longer rows have a small part of their numbers in the last vector.
const MOST: usize = 6 * WIDE;

/// Whether rows of `len` numbers are of this kind; each must fill a vector.
pub(super) fn takes(len: usize) -> bool {
    (WIDE..MOST).contains(&len) && !len.is_multiple_of(WIDE)
}

/// Up to sixteen rows of `len` numbers, in `x` or else in `y`, where the results go.
pub(super) struct Ragged<'a> {
    pub(super) x: Option<&'a [f32]>,
    pub(super) y: &'a mut [f32],
    pub(super) len: usize,
}

impl Work for Ragged<'_> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let Ragged { x, y, len } = self;
        let mut less = most_of_rows(isa, x.unwrap_or(y), len);
        for less in &mut less {
            *less = -*less;
        }
        each::<I, true>(isa, x, y, len, &less);
        let mut lanes = [isa.splat(0.0); WIDE];
        for (y, lanes) in y.chunks_exact(len).zip(&mut lanes) {
            *lanes = sum_lanes(isa, y);
        }
        let mut by = fold_rows(isa, lanes, |a, b| isa.add(a, b));
        for by in &mut by {
            *by = 1.0 / *by;
        }
        each::<I, false>(isa, None, y, len, &by);
    }
}

/// Computes all numbers of rows of `len` from those of `x`, or else of `y`: `e^(x + of)` with the
/// `of` of their row if they are `POWERS`, or `x * of`.
#[inline(always)]
fn each<I: Isa, const POWERS: bool>(isa: I, x: Option<&[f32]>, y: &mut [f32], len: usize, of: &[f32; WIDE]) {
    let from = x.map(|x| x.as_chunks::<WIDE>());
    let (whole, rest) = y.as_chunks_mut::<WIDE>();
    let (mut row, mut left) = (0, len);
    let mut two = [isa.splat(of[0]), isa.splat(of[1])];
    for (k, y) in whole.iter_mut().enumerate() {
        let v = isa.load(from.map_or(&*y, |(x, _)| &x[k]));
        isa.store(one::<I, POWERS>(isa, v, isa.pick(isa.lanes(0, left.min(WIDE)), two[0], two[1])), y);
        if left > WIDE {
            left -= WIDE;
        } else {
            left += len - WIDE;
            row += 1;
            two = [two[1], isa.splat(of[(row + 1).min(WIDE - 1)])];
        }
    }
    if !rest.is_empty() {
        let (v, m) = last(isa, from.map_or(&*rest, |(_, x)| x));
        let v = one::<I, POWERS>(isa, v, isa.pick(isa.lanes(0, left.min(WIDE)), two[0], two[1]));
        // SAFETY: only as many lanes are written as there are numbers.
        unsafe { isa.store_some(v, rest.as_mut_ptr(), m) };
    }
}

#[inline(always)]
fn one<I: Isa, const POWERS: bool>(isa: I, v: I::V, of: I::V) -> I::V {
    if POWERS { exp_below(isa, isa.add(v, of)) } else { isa.mul(v, of) }
}
