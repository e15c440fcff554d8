//! Lines of numbers from any panel type to single precision and back.
use crate::simd::isa::PanelElem;

crate::multiversion! {
    /// Widened, up to the shorter of the two.
    pub(crate) fn widen<T: PanelElem>(from: &[T], to: &mut [f32]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = from.wide();
        }
    }
}
crate::multiversion! {
    /// Rounded, up to the shorter of the two.
    pub(crate) fn round_to<T: PanelElem>(from: &[f32], to: &mut [T]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = T::narrow(*from);
        }
    }
}
