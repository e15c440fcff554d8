//! Transposed convolutions of images of one position in single precision, with which generator
//! networks begin. The result is the filter weighted by the input channels, so each image is one
//! product with the filter in its given layout.
use crate::conv::finish::{Runs, finish};
use crate::conv::plan::Conv;
use crate::conv::spec::{ConvError, ConvSpec};
use crate::gemm::{BMatrix, Epilogue, Gemm, Matrix};
use crate::scratch::with_scratch;
use crate::view::Out;
use std::ops::Range;

/// Approximate number of result elements of a unit.
const WIDE: usize = 4096;

/// The products that compute a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OnePlace {
    /// One for a whole block of output channels, and one for the last block, which may be smaller.
    products: Vec<Gemm>,
    /// Positions of the result.
    taps: usize,
}

/// Whether this kernel applies: the result is exactly the filter, with nothing cut off or added.
fn takes(s: &ConvSpec, out: [usize; 3]) -> bool {
    let whole = s.transposed.is_some() && s.input == [1; 3] && s.pad_before == [0; 3] && out == s.kernel;
    whole && s.dilation == [1; 3]
}

impl OnePlace {
    /// Output channels of a unit, and the products. `None` if this kernel does not apply.
    pub(crate) fn plan(s: &ConvSpec, out: [usize; 3]) -> Option<(usize, OnePlace)> {
        if !takes(s, out) {
            return None;
        }
        let (own, cin, taps) = (s.channels_out / s.groups, s.channels_in / s.groups, s.taps());
        let block = (WIDE / taps.max(1)).clamp(1, own.max(1));
        let rest = (own.max(1) - 1) % block + 1;
        let product = |channels: usize| {
            let b = BMatrix::Plain(Matrix::rows(own.checked_mul(taps)?));
            Gemm::new([1, channels * taps, cin], Matrix::rows(cin), b, vec![[0, 0]]).ok()
        };
        let products = [block, rest].map(product).into_iter().collect::<Option<_>>()?;
        Some((block, OnePlace { products, taps }))
    }

    /// Computes output channels `channels` of group `group` of image `n`.
    ///
    /// # Errors
    /// Never fails for a planned convolution.
    pub(crate) fn run(
        &self,
        s: &ConvSpec,
        (n, group, channels): (usize, usize, Range<usize>),
        (x, w): (&[f32], &[f32]),
        epilogue: &Epilogue<'_, f32>,
        out: &mut Out<'_, f32>,
    ) -> Result<(), ConvError> {
        let (own, cin, taps) = (s.channels_out / s.groups, s.channels_in / s.groups, self.taps);
        let len = channels.len() * taps;
        let Some(product) = self.products.iter().find(|p| p.shape()[1] == len) else { return Err(ConvError::Overflow) };
        let x = &x[n * s.channels_in + group * cin..][..cin];
        let w = &w[group * cin * own * taps + channels.start * taps..];
        with_scratch(len, |sums| {
            product.run(0..product.units(), x, w, &Epilogue::default(), &mut Out::new(sums))?;
            let first = group * own + channels.start;
            let runs = Runs { count: 1, len: taps, pitch: taps };
            for (o, sums) in sums.chunks_exact_mut(taps).enumerate() {
                finish(epilogue, first + o, runs, sums, out, (n * s.channels_out + first + o) * taps);
            }
            Ok(())
        })
    }
}

impl Conv {
    /// Whether this is a transposed convolution of images of one position. In single precision it
    /// uses the plain filter.
    pub fn is_of_one_place(&self) -> bool {
        takes(&self.spec, self.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::Bias;
    use crate::simd::Act;

    /// Compares with the sums of all products, one by one.
    #[test]
    fn the_result_is_the_weighted_filter() {
        for (batch, groups, cin, own, kernel) in
            [(1, 1, 100, 70, [1, 4, 4]), (3, 2, 5, 1100, [2, 1, 3]), (2, 1, 1, 3, [1, 1, 1])]
        {
            let s = ConvSpec {
                batch,
                groups,
                channels_in: cin * groups,
                channels_out: own * groups,
                input: [1; 3],
                kernel,
                stride: [1, 2, 1],
                dilation: [1; 3],
                pad_before: [0; 3],
                pad_after: [0; 3],
                transposed: Some([0; 3]),
            };
            let plan = Conv::new(&s).unwrap().in_singles();
            assert!(plan.is_of_one_place() && plan.one_place.is_some());
            let taps = s.taps();
            let x: Vec<f32> = (0..batch * cin * groups).map(|i| (i * 7 % 13) as f32 - 6.0).collect();
            let w: Vec<f32> = (0..cin * groups * own * taps).map(|i| (i * 11 % 17) as f32 - 8.0).collect();
            let bias: Vec<f32> = (0..own * groups).map(|i| i as f32).collect();
            let e = Epilogue { bias: Bias::PerRow(&bias[..]), act: Act::Relu, ..Epilogue::default() };
            let mut y = vec![f32::NAN; batch * own * groups * taps];
            for unit in (0..plan.units()).rev() {
                plan.run(unit..unit + 1, &x, &w, &e, &mut Out::new(&mut y)).unwrap();
            }
            for (i, y) in y.iter().enumerate() {
                let (n, o, t) = (i / taps / (own * groups), i / taps % (own * groups), i % taps);
                let of = |c: usize| {
                    x[n * cin * groups + o / own * cin + c] * w[((o / own * cin + c) * own + o % own) * taps + t]
                };
                assert_eq!(*y, ((0..cin).map(of).sum::<f32>() + bias[o]).max(0.0), "{i}");
            }
        }
    }
}
