//! Convolutions with one input channel per group: every output channel is a weighted sum of shifted
//! runs of one plane.
use crate::conv::finish::{Runs, finish};
use crate::conv::image::Image;
use crate::gemm::Epilogue;
use crate::simd::isa::{Isa, PanelElem, Work, dispatch};
use crate::view::Out;
use std::ops::Range;

/// Some output channels and some rows of one image at one depth.
pub(crate) struct Strip<'p, 'a, T, U> {
    pub(crate) image: &'p Image,
    pub(crate) n: usize,
    pub(crate) channels: Range<usize>,
    pub(crate) z: usize,
    pub(crate) y: (usize, usize),
    pub(crate) x: &'a [T],
    pub(crate) w: &'a [T],
    pub(crate) epilogue: &'p Epilogue<'a, U>,
}

impl<T: PanelElem, U: PanelElem> Strip<'_, '_, T, U> {
    pub(crate) fn run(&self, out: &mut Out<'_, U>, scratch: &mut [f32]) {
        let s = &self.image.spec;
        let [depth, height, width] = self.image.out;
        let (taps, size_in) = (s.taps(), s.input.iter().product::<usize>());
        let multiplier = s.channels_out / s.groups;
        let (copy, sums) = scratch.split_at_mut(self.image.len(1));
        let rows = self.y.1 - self.y.0;
        let flat = (rows - 1) * self.image.pitch + width;
        let mut filled = None;
        for o in self.channels.clone() {
            let c = o / multiplier;
            if filled != Some(c) {
                let x = &self.x[(self.n * s.channels_in + c) * size_in..][..size_in];
                self.image.fill(x, 1, self.z, self.y, copy);
                filled = Some(c);
            }
            let w = &self.w[o * taps..(o + 1) * taps];
            dispatch(Sum { w, places: &self.image.places, highest: self.image.highest, copy, sums, flat });
            let to = (((self.n * s.channels_out + o) * depth + self.z) * height + self.y.0) * width;
            let runs = Runs { count: rows, len: width, pitch: self.image.pitch };
            finish(self.epilogue, o, runs, sums, out, to);
        }
    }
}

/// `sums[i] = sum_t w[t] * copy[places[t] + i]` for `i` below `flat`, rounded up to sixteen.
struct Sum<'p, T> {
    w: &'p [T],
    places: &'p [u32],
    highest: usize,
    copy: &'p [f32],
    sums: &'p mut [f32],
    flat: usize,
}

impl<T: PanelElem> Work for Sum<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let vectors = self.flat.div_ceil(16);
        assert!(self.w.len() == self.places.len() && self.highest + vectors * 16 <= self.copy.len());
        assert!(vectors * 16 <= self.sums.len());
        let mut v = 0;
        while v < vectors {
            let n = if vectors - v >= 4 { 4 } else { 1 };
            let to = &mut self.sums[v * 16..(v + n) * 16];
            // SAFETY: every place is at most `highest`, and `highest + 16 * vectors` is within the
            // copy by the assertion above.
            unsafe {
                match n {
                    4 => group::<I, T, 4>(isa, self.w, self.places, &self.copy[v * 16..], to),
                    _ => group::<I, T, 1>(isa, self.w, self.places, &self.copy[v * 16..], to),
                }
            }
            v += n;
        }
    }
}

/// Computes `N` vectors of the sums.
///
/// # Safety
/// Each place plus `16 * N` must be within the copy.
#[inline(always)]
unsafe fn group<I: Isa, T: PanelElem, const N: usize>(isa: I, w: &[T], places: &[u32], copy: &[f32], to: &mut [f32]) {
    let mut acc = [isa.splat(0.0); N];
    for (w, &place) in w.iter().zip(places) {
        let w = isa.splat(w.wide());
        for (i, a) in acc.iter_mut().enumerate() {
            // SAFETY: in range, as the caller guarantees.
            let x = isa.load(unsafe { &*copy.as_ptr().add(place as usize + i * 16).cast() });
            *a = isa.fma(w, x, *a);
        }
    }
    for (a, to) in acc.iter().zip(to.as_chunks_mut::<16>().0) {
        isa.store(*a, to);
    }
}
