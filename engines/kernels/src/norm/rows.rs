//! Sums of up to sixteen rows at a time. Each row is added in sixty-four lanes, in the order of
//! [`sum`](crate::simd::fold::sum); the lanes of all rows are transposed and added together.
use crate::reduce::sum_lanes;
use crate::simd::fold::LANES;
use crate::simd::isa::{Isa, Work};
use crate::simd::turn::{fold_rows, load};

/// Maximum number of rows in a group.
pub(super) const WIDE: usize = 16;
/// Number of vectors that accumulate a sum.
const SUMS: usize = LANES / WIDE;

/// Mean and scale of each of up to sixteen rows of `len` numbers. The mean is to be subtracted. The
/// scale is one over the square root of `epsilon` plus the mean square of the remaining numbers.
pub(super) struct Spreads<'a> {
    pub(super) x: &'a [f32],
    pub(super) len: usize,
    pub(super) epsilon: f32,
    /// The mean is taken as zero.
    pub(super) rms: bool,
}

impl Work for Spreads<'_> {
    type Out = ([f32; WIDE], [f32; WIDE]);

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) -> Self::Out {
        let n = self.len as f32;
        let mut means = [0.0; WIDE];
        if !self.rms {
            let mut lanes = [isa.splat(0.0); WIDE];
            for (row, lanes) in self.x.chunks_exact(self.len).zip(&mut lanes) {
                *lanes = sum_lanes(isa, row);
            }
            means = fold_rows(isa, lanes, |a, b| isa.add(a, b));
            means.iter_mut().for_each(|m| *m /= n);
        }
        let mut lanes = [isa.splat(0.0); WIDE];
        for ((row, lanes), mean) in self.x.chunks_exact(self.len).zip(&mut lanes).zip(means) {
            *lanes = squares(isa, row, mean);
        }
        let mut scales = fold_rows(isa, lanes, |a, b| isa.add(a, b));
        scales.iter_mut().for_each(|s| *s = 1.0 / (*s / n + self.epsilon).sqrt());
        (means, scales)
    }
}

/// A sum of squared distances from a centre in sixteen lanes, to which the other lanes have been
/// added.
#[inline(always)]
fn squares<I: Isa>(isa: I, row: &[f32], centre: f32) -> I::V {
    let less = isa.splat(-centre);
    let mut sums = [isa.splat(0.0); SUMS];
    let (blocks, rest) = row.as_chunks::<LANES>();
    for block in blocks {
        for (sum, x) in sums.iter_mut().zip(block.as_chunks::<WIDE>().0) {
            let d = isa.add(isa.load(x), less);
            *sum = isa.fma(d, d, *sum);
        }
    }
    for (k, sum) in sums.iter_mut().enumerate() {
        if k * WIDE < rest.len() {
            let some = isa.lanes(0, (rest.len() - k * WIDE).min(WIDE));
            let d = isa.add(load(isa, rest, k * WIDE), less);
            *sum = isa.pick(some, isa.fma(d, d, *sum), *sum);
        }
    }
    isa.add(isa.add(sums[0], sums[2]), isa.add(sums[1], sums[3]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::fold::{sum, sum_of_squares};
    use crate::simd::isa::dispatch;
    use crate::simd::{Level, with_level};

    #[test]
    fn the_bits_are_those_of_each_row_alone() {
        for len in [1, 5, 16, 17, 63, 64, 65, 130, 300] {
            let x: Vec<f32> = (0..len * 7).map(|i| (i as f32 * 0.37).sin() * 40.0 + 3.0).collect();
            for rms in [false, true] {
                for level in Level::available() {
                    let (means, scales) = with_level(level, || dispatch(Spreads { x: &x, len, epsilon: 1e-5, rms }));
                    for (r, row) in x.chunks_exact(len).enumerate() {
                        let mean = if rms { 0.0 } else { sum(row) / len as f32 };
                        let scale = 1.0 / (sum_of_squares(row, mean) / len as f32 + 1e-5).sqrt();
                        assert_eq!((means[r], scales[r]), (mean, scale), "{level:?} {len} {r}");
                    }
                }
            }
        }
    }
}
