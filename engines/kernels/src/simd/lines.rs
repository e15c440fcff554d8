//! Conversion of slices between any panel type and single precision.
use crate::simd::isa::{Isa, PanelElem, Work, dispatch};

/// Widens elements to singles, up to the shorter length of the two.
pub(crate) fn widen<T: PanelElem>(from: &[T], to: &mut [f32]) {
    dispatch(Widen(from, to));
}

/// Rounds singles to elements, up to the shorter length of the two.
pub(crate) fn round_to<T: PanelElem>(from: &[f32], to: &mut [T]) {
    dispatch(Round(from, to));
}

struct Widen<'a, T>(&'a [T], &'a mut [f32]);

impl<T: PanelElem> Work for Widen<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let n = self.0.len().min(self.1.len());
        let ((from, rest), (to, last)) = (self.0[..n].as_chunks(), self.1[..n].as_chunks_mut());
        for (from, to) in from.iter().zip(to) {
            isa.store(T::lanes(isa, from), to);
        }
        for (from, to) in rest.iter().zip(last) {
            *to = from.wide();
        }
    }
}

struct Round<'a, T>(&'a [f32], &'a mut [T]);

impl<T: PanelElem> Work for Round<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let n = self.0.len().min(self.1.len());
        let ((from, rest), (to, last)) = (self.0[..n].as_chunks(), self.1[..n].as_chunks_mut());
        for (from, to) in from.iter().zip(to) {
            T::put(isa, isa.load(from), to);
        }
        for (from, to) in rest.iter().zip(last) {
            *to = T::narrow(*from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, with_level};
    use half::{bf16, f16};

    /// Numbers of all magnitudes, midpoints between two halves and their neighbours, and NaN.
    fn numbers() -> Vec<f32> {
        let exponents = (90..=150u32).chain([0, 1, 254, 255]);
        let each =
            |e: u32| [0, 1, 0xfff, 0x1000, 0x1001, 0x3000, 0x3f_f000, 0x7f_ffff].map(|m| f32::from_bits(e << 23 | m));
        exponents.flat_map(each).flat_map(|v| [v, -v]).collect()
    }

    fn agree<T: PanelElem>(bits: impl Fn(T) -> u16) {
        let x = numbers();
        let sizes = [0, 1, 15, 16, 17, x.len()];
        for (n, level) in sizes.into_iter().flat_map(|n| Level::available().into_iter().map(move |l| (n, l))) {
            let (mut y, mut back) = (vec![T::default(); n], vec![0.0; n]);
            with_level(level, || {
                round_to(&x, &mut y);
                widen(&y, &mut back);
            });
            for i in 0..n {
                let want = T::narrow(x[i]);
                assert_eq!((bits(y[i]), back[i].to_bits()), (bits(want), want.wide().to_bits()), "{level:?} {}", x[i]);
            }
        }
    }

    #[test]
    fn every_level_rounds_and_widens_as_single_numbers_are() {
        agree::<f16>(|v| v.to_bits());
        agree::<bf16>(|v| v.to_bits());
    }
}
