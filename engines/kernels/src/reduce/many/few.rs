//! Reduction of rows of two to four numbers. The numbers of a row are joined by halves, like the
//! lanes of a longer row. The loops are over single numbers; the compiler vectorises them.
use super::Join;
use crate::simd::isa::{Isa, Work};
use std::marker::PhantomData;

/// Whether rows have two to four numbers.
pub(super) fn takes(count: usize) -> bool {
    (2..=4).contains(&count)
}

/// Rows of `count` numbers, one for each result.
pub(super) struct Few<'a, J> {
    pub(super) how: PhantomData<J>,
    pub(super) x: &'a [f32],
    pub(super) count: usize,
    pub(super) to: &'a mut [f32],
}

/// The value of a lane that starts neutral and takes one number.
#[inline(always)]
fn lane<J: Join>(v: f32) -> f32 {
    J::two(J::NONE, J::one(v))
}

impl<J: Join> Work for Few<'_, J> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, _: I) {
        let Few { x, count, to, .. } = self;
        match count {
            2 => {
                for (to, [a, b]) in to.iter_mut().zip(x.as_chunks().0) {
                    *to = J::two(lane::<J>(*a), lane::<J>(*b));
                }
            }
            3 => {
                for (to, [a, b, c]) in to.iter_mut().zip(x.as_chunks().0) {
                    *to = J::two(J::two(lane::<J>(*a), lane::<J>(*c)), lane::<J>(*b));
                }
            }
            _ => {
                for (to, [a, b, c, d]) in to.iter_mut().zip(x.as_chunks().0) {
                    *to = J::two(J::two(lane::<J>(*a), lane::<J>(*c)), J::two(lane::<J>(*b), lane::<J>(*d)));
                }
            }
        }
    }
}
