//! Filters transformed for minimal filtering before any run, in a layout that does not depend on
//! the instruction set. For each sixteen output channels of a group (the last block may have fewer,
//! and is filled with zeros), for each of the 36 places and for each input channel there are
//! sixteen numbers.
use super::even::is_small;
use super::{Grid, PLACES, SIDE, TOGETHER, store, takes, turn};
use crate::conv::spec::ConvSpec;
use crate::simd::isa::{Isa, Work, dispatch};

/// Elements of a filter per channel.
pub(super) const PER_FILTER: usize = 9;

/// Elements of the transformed filters of a convolution. `None` if minimal filtering does not
/// apply, or if they are too many to count.
pub fn changed_filters_len(s: &ConvSpec) -> Option<usize> {
    if !takes(s) || s.groups == 0 {
        return None;
    }
    let blocks = (s.channels_out / s.groups).div_ceil(TOGETHER).checked_mul(s.groups)?;
    blocks.checked_mul(PLACES * TOGETHER)?.checked_mul(s.channels_in / s.groups)
}

/// Transforms the filters `w` of a convolution. `None` if minimal filtering does not apply, if a
/// number is NaN or too large, or if `w` does not have the length of the filters.
pub fn change_filters(s: &ConvSpec, w: &[f32]) -> Option<Vec<f32>> {
    let mut to = vec![0.0; changed_filters_len(s)?];
    let channels = s.channels_in / s.groups;
    let own = s.channels_out / s.groups * channels * PER_FILTER;
    let whole = w.len() == own.checked_mul(s.groups)? && own > 0;
    (whole && dispatch(All { w, own, channels, to: &mut to })).then_some(to)
}

struct All<'a> {
    w: &'a [f32],
    /// Elements of the filters of a group.
    own: usize,
    channels: usize,
    to: &'a mut [f32],
}

impl Work for All<'_> {
    /// Whether all numbers are small enough.
    type Out = bool;

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) -> bool {
        if !is_small(isa, self.w) {
            return false;
        }
        let mut grid = [[isa.splat(0.0); SIDE]; SIDE];
        let pitch = self.channels * TOGETHER;
        let blocks = self.w.chunks_exact(self.own).flat_map(|w| w.chunks(pitch * PER_FILTER));
        for (w, to) in blocks.zip(self.to.chunks_exact_mut(PLACES * pitch)) {
            changed_filters(isa, w, self.channels, pitch, &mut grid, to);
        }
        true
    }
}

/// `G g` of three numbers.
#[inline(always)]
fn taps<I: Isa>(isa: I, g: [I::V; 3]) -> [I::V; SIDE] {
    let (a, b) = (std::f32::consts::FRAC_1_SQRT_2, std::f32::consts::SQRT_2);
    let (third, sixth) = (1.0 / 3.0, 1.0 / 6.0);
    let none = isa.splat(-0.0);
    let near = isa.fma(isa.splat(-2.0 * third), g[0], isa.fma(isa.splat(-third), g[2], none));
    let far = isa.fma(isa.splat(sixth), g[0], isa.fma(isa.splat(third), g[2], none));
    [
        g[0],
        isa.fma(isa.splat(-2.0 * third * a), g[1], near),
        isa.fma(isa.splat(2.0 * third * a), g[1], near),
        isa.fma(isa.splat(sixth * b), g[1], far),
        isa.fma(isa.splat(-sixth * b), g[1], far),
        g[2],
    ]
}

/// Transforms the filters of up to sixteen output channels to 36 numbers each. `w` has the filters
/// one after the other, each with all `channels`. The numbers of one place are `pitch` apart from
/// those of the next; within a place, channels follow each other, each with its output channels
/// side by side.
#[inline(always)]
pub(super) fn changed_filters<I: Isa>(
    isa: I,
    w: &[f32],
    channels: usize,
    pitch: usize,
    half: &mut Grid<I::V>,
    to: &mut [f32],
) {
    let (filter, nine) = (PER_FILTER * channels, isa.lanes(0, PER_FILTER));
    for c in 0..channels {
        // Loads the nine taps of sixteen output channels, zeros beyond the last channel. After the
        // transposition each tap has its output channels side by side.
        let mut g = [isa.splat(0.0); TOGETHER];
        for (g, w) in g.iter_mut().zip(w.chunks_exact(filter)) {
            // SAFETY: these are nine elements of the filter.
            *g = unsafe { isa.load_some(w[PER_FILTER * c..PER_FILTER * (c + 1)].as_ptr(), nine) };
        }
        turn(isa, &mut g);
        for k in 0..3 {
            let v = taps(isa, [g[k], g[3 + k], g[6 + k]]);
            for (half, v) in half.iter_mut().zip(&v) {
                half[k] = *v;
            }
        }
        for (i, half) in half.iter().enumerate() {
            let v = taps(isa, [half[0], half[1], half[2]]);
            for (j, v) in v.iter().enumerate() {
                store(isa, *v, to, (i * SIDE + j) * pitch + c * TOGETHER);
            }
        }
    }
}
