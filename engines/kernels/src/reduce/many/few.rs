//! Rows of two to four numbers: what each row gives is its numbers joined by halves, as a longer one's
//! lanes are. The loops are over numbers, which the compiler puts side by side.
use super::Join;
use crate::simd::isa::{Isa, Work};
use std::marker::PhantomData;

/// Whether rows of `count` numbers are such.
pub(super) fn takes(count: usize) -> bool {
    (2..=4).contains(&count)
}

/// Rows of `count` numbers, as many as there are results.
pub(super) struct Few<'a, J> {
    pub(super) how: PhantomData<J>,
    pub(super) x: &'a [f32],
    pub(super) count: usize,
    pub(super) to: &'a mut [f32],
}

/// A lane that begins with nothing and gets one number.
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
