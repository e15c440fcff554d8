//! Reduction of lines that are several long pieces of memory: each piece is joined to the lanes of
//! its line where it lies, without a copy of the line. The lanes, and so the bits, are those of
//! [`fold`](crate::reduce::fold()) of the whole line.
use super::{Join, WIDE};
use crate::simd::fold::{LANES, pairwise};
use crate::simd::isa::{Isa, Work, dispatch};
use std::marker::PhantomData;

/// Minimum length of a piece: shorter ones are faster to copy.
pub(super) const LONG: usize = LANES;

/// The lanes of a line, and the number of elements that they have taken.
#[repr(align(64))]
pub(super) struct Line<J> {
    lanes: [f32; LANES],
    taken: usize,
    how: PhantomData<J>,
}

impl<J: Join> Line<J> {
    /// A line without elements.
    pub(super) fn new() -> Line<J> {
        Line { lanes: [J::NONE; LANES], taken: 0, how: PhantomData }
    }

    /// Joins the next elements of the line.
    pub(super) fn take(&mut self, x: &[f32]) {
        dispatch(Take { line: self, x });
    }

    /// All elements joined.
    pub(super) fn joined(self) -> f32 {
        pairwise(self.lanes, J::two)
    }
}

struct Take<'a, J> {
    line: &'a mut Line<J>,
    x: &'a [f32],
}

impl<J: Join> Work for Take<'_, J> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let Take { line: Line { lanes, taken, .. }, x } = self;
        let first = *taken % LANES;
        *taken += x.len();
        // Up to the first element for lane zero, then whole rounds of the lanes, then the rest.
        let (head, x) = x.split_at(x.len().min((LANES - first) % LANES));
        join_each::<J>(&mut lanes[first..], head);
        let (rounds, rest) = x.as_chunks::<LANES>();
        let own = lanes.as_chunks_mut::<WIDE>().0;
        let mut all = [isa.splat(J::NONE); LANES / WIDE];
        for (v, own) in all.iter_mut().zip(&*own) {
            *v = isa.load(own);
        }
        for round in rounds {
            for (v, x) in all.iter_mut().zip(round.as_chunks::<WIDE>().0) {
                *v = J::join(isa, *v, J::term(isa, isa.load(x)));
            }
        }
        for (v, own) in all.iter().zip(own) {
            isa.store(*v, own);
        }
        join_each::<J>(lanes, rest);
    }
}

/// Joins one element to each of the first lanes.
#[inline(always)]
fn join_each<J: Join>(lanes: &mut [f32], x: &[f32]) {
    for (lane, x) in lanes.iter_mut().zip(x) {
        *lane = J::two(*lane, J::one(*x));
    }
}

#[cfg(test)]
mod tests {
    use crate::reduce::{Reduce, Reduction, fold};
    use crate::simd::{Level, with_level};
    use crate::view::{Out, block_range};

    /// Lines of pieces of every length around the lanes have the bits of a plain fold, with all
    /// kinds of numbers.
    #[test]
    fn lines_in_pieces_have_the_bits_of_lines_in_one() {
        use Reduce::*;
        let special = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-40, f32::MAX];
        for (shape, odd) in [[1, 2, 64], [3, 3, 65], [5, 2, 63], [2, 1, 200], [4, 5, 100], [3, 2, 784]]
            .into_iter()
            .flat_map(|s| [0, 3, 40].map(|o| (s, o)))
        {
            let [images, channels, size] = shape;
            let number = |i: usize| match odd > 0 && i * 7 % odd == 1 {
                true => special[i * 5 % special.len()],
                false => (i as f32 * 0.9).sin() * 1e3,
            };
            let x: Vec<f32> = (0..images * channels * size).map(number).collect();
            let line = |c: usize| -> Vec<f32> {
                (0..images).flat_map(|n| x[(n * channels + c) * size..][..size].to_vec()).collect()
            };
            for op in [Sum, Mean, Max, Min, Prod, L1, L2, SumSquare, LogSum, LogSumExp] {
                let want: Vec<f32> = (0..channels).map(|c| fold(op, &line(c))).collect();
                let r = Reduction::new(op, &shape, &[0, 2]).unwrap();
                for (level, blocks) in Level::available().into_iter().flat_map(|l| [(l, 1), (l, 3)]) {
                    let mut y = vec![9.0f32; channels];
                    with_level(level, || {
                        (0..blocks).for_each(|b| r.run(block_range(channels, b, blocks), &x, &mut Out::new(&mut y)));
                    });
                    for (y, want) in y.iter().zip(&want) {
                        let same = y.to_bits() == want.to_bits() || y.is_nan() && want.is_nan();
                        assert!(same, "{level:?} {op:?} {shape:?}: {y} for {want}");
                    }
                }
            }
        }
    }
}
