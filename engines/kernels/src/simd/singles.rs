//! Outputs for kernels that write only single precision.
use crate::simd::isa::PanelElem;
use crate::view::{Out, Parts};

/// Lends the parts of an output of type `T` as singles; it has none if `T` is not `f32`.
pub(crate) struct Singles<'p, 'a, T>(pub(crate) &'p mut Out<'a, T>);

impl<T: PanelElem> Parts<f32> for Singles<'_, '_, T> {
    fn part(&mut self, start: usize, len: usize) -> Option<&mut [f32]> {
        T::singles_mut(self.0.part(start, len))
    }
}
