//! Maxima of large windows with stride one. With a border around a plane, a window of two is the
//! larger of each number and the next, a window of four the larger of two such windows, and so on,
//! along rows and then along columns. The cost grows with the logarithm of the window size.
use super::{Pool, Pooling};
use crate::scratch::with_scratch;
use crate::simd::isa::{Isa, PanelElem, Work, dispatch};
use crate::view::Out;
use std::ops::Range;

/// Minimum window size for this method.
const LARGE: usize = 8;
/// Maximum count of numbers in a plane with its border.
const MOST: usize = 1 << 24;

impl Pooling {
    /// Height and width of a plane with its border, if [`Pooling::run_slides`] handles this
    /// pooling.
    pub(super) fn slides(&self) -> Option<(usize, usize)> {
        let steps = self.stride[1..] == [1, 1] && self.dilation[1..] == [1, 1];
        let large = self.kernel[1].max(self.kernel[2]) >= LARGE;
        let high = self.output[1] + self.kernel[1] - 1;
        let wide = self.output[2] + self.kernel[2] - 1;
        // The output may leave out some of the border after the plane, but none of the border
        // before it.
        let fits = self.pad_before[1] < high && self.pad_before[2] < wide;
        let some = high.checked_mul(wide).is_some_and(|n| n <= MOST);
        (self.op == Pool::Max && steps && self.is_flat() && large && fits && some).then_some((high, wide))
    }

    /// Does the planes `units`.
    pub(super) fn run_slides<T: PanelElem>(
        &self,
        units: Range<usize>,
        (high, wide): (usize, usize),
        x: &[T],
        out: &mut Out<'_, T>,
    ) {
        let ([_, rows, columns], [_, height, width]) = (self.input, self.output);
        let [_, top, left] = self.pad_before;
        let (rows_in, columns_in) = (rows.min(high - top), columns.min(wide - left));
        // Room after the plane for what the last vectors touch.
        let len = (high * wide).next_multiple_of(16);
        let slack = 16 + self.kernel[1] * wide + self.kernel[2];
        with_scratch(len + slack, |plane| {
            for unit in units.start..units.end.min(self.planes) {
                let image = &x[unit * rows * columns..][..rows * columns];
                plane.fill(f32::NEG_INFINITY);
                for r in 0..rows_in {
                    let to = &mut plane[(top + r) * wide + left..][..columns_in];
                    for (to, from) in to.iter_mut().zip(&image[r * columns..]) {
                        *to = from.wide();
                    }
                }
                for (window, step) in [(self.kernel[2], 1), (self.kernel[1], wide)] {
                    let mut done = 1;
                    while done < window {
                        let by = done.min(window - done);
                        dispatch(Slide { data: plane, len, by: by * step });
                        done += by;
                    }
                }
                for y in 0..height {
                    let to = out.part((unit * height + y) * width, width);
                    for (to, from) in to.iter_mut().zip(&plane[y * wide..]) {
                        *to = T::narrow(*from);
                    }
                }
            }
        });
    }
}

/// Replaces `data[i]` by the larger of itself and `data[i + by]`, for the first `len` numbers;
/// `len` is a multiple of sixteen.
struct Slide<'a> {
    data: &'a mut [f32],
    len: usize,
    by: usize,
}

impl Work for Slide<'_> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        assert!(self.len.is_multiple_of(16) && self.len + self.by <= self.data.len());
        let p = self.data.as_mut_ptr();
        let mut i = 0;
        while i < self.len {
            // SAFETY: `i + 16` is at most `len`, and `len + by` is within the data. Both are read
            // before the first is written, and nothing that is read later has been written.
            unsafe {
                let at = p.wrapping_add(i);
                let (a, b) = (isa.load(&*at.cast()), isa.load(&*at.wrapping_add(self.by).cast()));
                isa.store(isa.larger(a, b), &mut *at.cast());
            }
            i += 16;
        }
    }
}
