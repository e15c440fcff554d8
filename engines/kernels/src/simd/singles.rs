//! Output of single precision, for kernels of that alone.
use crate::simd::isa::PanelElem;
use crate::view::{Out, Parts};

/// An output whose numbers are of single precision.
pub(crate) struct Singles<'p, 'a, T>(pub(crate) &'p mut Out<'a, T>);

impl<T: PanelElem> Parts<f32> for Singles<'_, '_, T> {
    fn part(&mut self, start: usize, len: usize) -> Option<&mut [f32]> {
        T::singles_mut(self.0.part(start, len))
    }
}
