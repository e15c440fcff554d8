//! Reduction of contiguous rows: each row is folded to a vector, and sixteen such vectors are
//! transposed and folded together.
use super::{Join, Sum, WIDE};
use crate::simd::fold::LANES;
use crate::simd::isa::{Isa, Work};
use crate::simd::turn::{fold, load, turn};
use std::marker::PhantomData;

/// Number of vectors that a row is folded into.
const SUMS: usize = LANES / WIDE;

/// Rows of `count` numbers, one for each result.
pub(super) struct Rows<'a, J> {
    pub(super) how: PhantomData<J>,
    pub(super) x: &'a [f32],
    pub(super) count: usize,
    pub(super) to: &'a mut [f32],
}

/// Sixteen lanes of a row, to which the others of its sixty-four lanes have been joined.
#[inline(always)]
fn lanes<I: Isa, J: Join>(isa: I, row: &[f32]) -> I::V {
    let mut sums = [isa.splat(J::NONE); SUMS];
    let (blocks, rest) = row.as_chunks::<LANES>();
    for block in blocks {
        for (sum, x) in sums.iter_mut().zip(block.as_chunks::<WIDE>().0) {
            *sum = J::join(isa, *sum, J::term(isa, isa.load(x)));
        }
    }
    for (k, sum) in sums.iter_mut().enumerate() {
        if k * WIDE < rest.len() {
            let some = isa.lanes(0, (rest.len() - k * WIDE).min(WIDE));
            let last = isa.pick(some, J::term(isa, load(isa, rest, k * WIDE)), isa.splat(J::NONE));
            *sum = J::join(isa, *sum, last);
        }
    }
    J::join(isa, J::join(isa, sums[0], sums[2]), J::join(isa, sums[1], sums[3]))
}

/// Sixteen partial sums of a row.
#[inline(always)]
pub(crate) fn sum_lanes<I: Isa>(isa: I, row: &[f32]) -> I::V {
    lanes::<I, Sum>(isa, row)
}

impl<J: Join> Work for Rows<'_, J> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let Rows { x, count, to, .. } = self;
        for (group, to) in to.chunks_mut(WIDE).enumerate() {
            let mut v = [isa.splat(0.0); WIDE];
            for (row, v) in v.iter_mut().enumerate().take(to.len()) {
                let at = (group * WIDE + row) * count;
                // For a row of at most one vector, numbers beyond its end are replaced below.
                *v =
                    if count <= WIDE { J::term(isa, load(isa, x, at)) } else { lanes::<I, J>(isa, &x[at..at + count]) };
            }
            turn(isa, &mut v);
            v.iter_mut().skip(count).for_each(|v| *v = isa.splat(J::NONE));
            // Starting from zero, a sum is never minus zero.
            v[0] = J::join(isa, isa.splat(J::NONE), v[0]);
            let mut results = [0.0; WIDE];
            isa.store(fold(v, |a, b| J::join(isa, a, b)), &mut results);
            to.copy_from_slice(&results[..to.len()]);
        }
    }
}

/// Products of rows, each in the order of its numbers.
pub(super) struct Products<'a> {
    pub(super) x: &'a [f32],
    pub(super) count: usize,
    pub(super) to: &'a mut [f32],
}

impl Work for Products<'_> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let Products { x, count, to } = self;
        for (group, to) in to.chunks_mut(WIDE).enumerate() {
            let x = &x[group * WIDE * count..];
            let mut product = isa.splat(1.0);
            for from in (0..count).step_by(WIDE) {
                let mut v = [isa.splat(0.0); WIDE];
                for (row, v) in v.iter_mut().enumerate().take(to.len()) {
                    *v = load(isa, x, row * count + from);
                }
                turn(isa, &mut v);
                for v in v.iter().take(count - from) {
                    product = isa.mul(product, *v);
                }
            }
            let mut results = [0.0; WIDE];
            isa.store(product, &mut results);
            to.copy_from_slice(&results[..to.len()]);
        }
    }
}
