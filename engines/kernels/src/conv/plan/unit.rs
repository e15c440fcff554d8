//! Some units of a dense or pointwise convolution: products of the weights, and of a copy of a
//! strip of the image or of the image itself.
use super::{Conv, Kind};
use crate::conv::finish::{Runs, finish};
use crate::gemm::Epilogue;
use crate::gemm::micro::{Left, Listed, Panels, Placed, Strided, crowded, tile};
use crate::gemm::pack::{A_STRIDE, copy_tile};
use crate::simd::isa::{Isa, PanelElem, Work};
use crate::view::Out;
use std::ops::Range;

/// Steps of a sum that are computed at a time if they are not packed. What a panel reads in a step
/// lies in two cache lines, and those of all these steps stay in the nearest cache.
const STEPS: usize = 128;
/// Fewer output channels than this are computed one by one.
const FEW: usize = 4;
/// Steps that are computed at a time for each of these. What they read of the image then stays in
/// the nearest cache for all of them.
const FEW_STEPS: usize = 96;
/// Most rows of weights at a time that do not evict each other, whatever their distance.
const CROWD: usize = 8;
/// Fewest output channels for which packing pays.
pub(super) const MANY: usize = 96;
/// Output channels that are computed and finished at a time; a multiple of every register tile.
pub(super) const TOGETHER: usize = 24;

/// The position of one or more units: image, group, strip, and output channels within the group.
pub(super) struct At {
    pub(super) n: usize,
    pub(super) g: usize,
    pub(super) strip: usize,
    pub(super) channels: Range<usize>,
}

/// Some units of one strip of a dense or pointwise convolution.
pub(super) struct Unit<'p, 'a, 'o, T, U> {
    pub(super) conv: &'p Conv,
    pub(super) at: At,
    /// Whether the strip of the image must still be copied.
    pub(super) fresh: bool,
    /// How many steps of the sums are packed at a time, if any: working memory is made for the
    /// largest strip, and smaller ones do the same.
    pub(super) steps: Option<usize>,
    pub(super) x: &'a [T],
    pub(super) w: &'a [T],
    pub(super) epilogue: &'p Epilogue<'a, U>,
    pub(super) out: &'p mut Out<'o, U>,
    pub(super) sa: &'p mut [f32],
    pub(super) sb: &'p mut [f32],
    pub(super) image: &'p mut [f32],
    pub(super) sums: &'p mut [f32],
}

impl<T: PanelElem, U: PanelElem> Work for Unit<'_, '_, '_, T, U> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let c = self.conv;
        let s = &c.spec;
        let (group_in, group_out) = (s.channels_in / s.groups, s.channels_out / s.groups);
        let k = group_in * s.taps();
        let (o0, m) = (self.at.channels.start, self.at.channels.len());
        let size_in: usize = s.input.iter().product();
        let size_out: usize = c.out.iter().product();
        let x = &self.x[(self.at.n * s.channels_in + self.at.g * group_in) * size_in..][..group_in * size_in];
        let channel = self.at.g * group_out + o0;
        // The outputs of the strip, and their layout in the sums: runs of `run` elements, `pitch`
        // apart.
        let (first, run, pitch, runs) = match c.kind {
            Kind::Pointwise => {
                let p0 = self.at.strip * c.rows;
                let n = (p0 + c.rows).min(size_out) - p0;
                (p0, n, n, 1)
            }
            _ => {
                let per = c.out[1].div_ceil(c.rows);
                let (z, y0) = (self.at.strip / per, self.at.strip % per * c.rows);
                let y1 = (y0 + c.rows).min(c.out[1]);
                if self.fresh {
                    c.image.fill(x, group_in, z, (y0, y1), self.image);
                }
                let (first, rows) = ((z * c.out[1] + y0) * c.out[2], y1 - y0);
                if c.image.pitch == c.out[2] || !c.panels.is_empty() {
                    let all = rows * c.out[2];
                    (first, all, all, 1)
                } else {
                    (first, c.out[2], c.image.pitch, rows)
                }
            }
        };
        let flat = (runs - 1) * pitch + run;
        let panels = flat.div_ceil(16);
        let width = panels * 16;
        // A channel stride that is a multiple of 1 KiB maps all channels to few cache sets. Such
        // channels are copied.
        let in_place = Listed { data: x.get(first..).unwrap_or(&[]), rows: &c.channels[0], highest: 0 };
        let highest = (group_in.max(1) - 1) * size_in;
        let pitch_of_copy = super::pitch(c.rows);
        let direct = c.kind == Kind::Pointwise
            && !size_in.is_multiple_of(256)
            && Listed { highest, ..in_place }.reaches(group_in, panels);
        if c.kind == Kind::Pointwise && !direct && self.fresh {
            for ch in 0..group_in {
                let row = &mut self.image[ch * pitch_of_copy..ch * pitch_of_copy + width];
                let (head, tail) = row.split_at_mut(run);
                tail.fill(0.0);
                for (d, v) in head.iter_mut().zip(&x[ch * size_in + first..][..run]) {
                    *d = v.wide();
                }
            }
        }
        // Weights in single precision are read in place, unless so many rows are read at a time
        // that they evict each other from the cache.
        let apart = MR <= CROWD || !crowded(k);
        let own = T::singles(self.w).filter(|_| s.transposed.is_none() && apart);
        let own = own.map(|w| &w[self.at.g * group_out * k..][..group_out * k]);
        let packed = self.steps.filter(|_| m >= MANY);
        // Some channels at a time, so that their sums are finished while they are in the nearest
        // cache.
        let (group, most) = match packed {
            Some(steps) => (m, steps),
            None if m < FEW => (TOGETHER, FEW_STEPS),
            None => (TOGETHER, STEPS),
        };
        for first_row in (0..m).step_by(group) {
            let rows_here = group.min(m - first_row);
            if k == 0 {
                self.sums[..rows_here * width].fill(0.0);
            }
            for k0 in (0..k).step_by(most) {
                let k1 = (k0 + most).min(k);
                let (rows, highest) = match c.kind {
                    Kind::Pointwise if direct => (&c.channels[0][k0..k1], highest),
                    Kind::Pointwise => (&c.channels[1][k0..k1], (group_in - 1) * pitch_of_copy),
                    _ => (&c.image.places[k0..k1], c.image.highest),
                };
                let part = Part {
                    conv: c,
                    w: self.w,
                    own,
                    group: self.at.g,
                    channels: o0 + first_row..o0 + first_row + rows_here,
                    steps: k0..k1,
                    columns: flat,
                    packed: packed.is_some(),
                    sa: self.sa,
                    sb: self.sb,
                    sums: self.sums,
                };
                let listed = Listed { data: &*self.image, rows, highest };
                if direct {
                    part.add::<I, _, MR, NP, N4, N1>(isa, Listed { rows, highest, ..in_place });
                } else if c.panels.is_empty() {
                    part.add::<I, _, MR, NP, N4, N1>(isa, listed);
                } else {
                    let placed = Placed { rows: listed, panels: &c.panels[..panels.min(c.panels.len())] };
                    part.add::<I, _, MR, NP, N4, N1>(isa, placed);
                }
            }
            for i in 0..rows_here {
                let row = &mut self.sums[i * width..(i + 1) * width];
                let own = channel + first_row + i;
                let to = (self.at.n * s.channels_out + own) * size_out + first;
                finish(self.epilogue, own, Runs { count: runs, len: run, pitch }, row, self.out, to);
            }
        }
    }
}

/// Some steps of the sums of some channels of a unit.
struct Part<'p, 'a, T> {
    conv: &'p Conv,
    w: &'a [T],
    /// The weights of the group, if they are read in place.
    own: Option<&'a [f32]>,
    group: usize,
    /// Output channels within the group.
    channels: Range<usize>,
    steps: Range<usize>,
    /// Positions.
    columns: usize,
    /// Whether what the steps read is packed for all the channels.
    packed: bool,
    sa: &'p mut [f32],
    sb: &'p mut [f32],
    sums: &'p mut [f32],
}

impl<T: PanelElem> Part<'_, '_, T> {
    /// Adds the products of the weights and of `b`, which begins with the first of the steps.
    #[inline(always)]
    fn add<I: Isa, B: Panels, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(
        mut self,
        isa: I,
        b: B,
    ) {
        let steps = self.steps.len();
        if !self.packed {
            return self.tiles::<I, B, MR, NP, N4, N1>(isa, b);
        }
        let sb = std::mem::take(&mut self.sb);
        pack(isa, b, (steps, self.columns.div_ceil(16)), sb);
        let b = Strided { data: &*sb, row: 16, panel: 16 * steps };
        self.tiles::<I, _, MR, NP, N4, N1>(isa, b);
    }

    #[inline(always)]
    fn tiles<I: Isa, B: Panels, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(
        self,
        isa: I,
        b: B,
    ) {
        let (s, width) = (&self.conv.spec, self.columns.next_multiple_of(16));
        let k = s.channels_in / s.groups * s.taps();
        for row in (0..self.channels.len()).step_by(TOGETHER) {
            let from = self.channels.start + row;
            let some = TOGETHER.min(self.channels.end - from);
            let a = match self.own {
                Some(w) => Left { data: &w[from * k + self.steps.start..], stride: k },
                None => {
                    let steps = (self.steps.start, self.steps.end);
                    self.conv.copy_weights(self.w, self.group, (from, from + some), steps, self.sa);
                    Left::copied(self.sa)
                }
            };
            let (shape, sums) = ((some, self.columns, self.steps.len()), &mut self.sums[row * width..]);
            tile::<I, B, MR, NP, N4, N1>(isa, shape, a, b, sums, width, self.steps.start == 0);
        }
    }
}

/// Packs some steps of all panels, one panel after the other.
#[inline(always)]
fn pack<I: Isa, B: Panels>(isa: I, b: B, (steps, panels): (usize, usize), to: &mut [f32]) {
    assert!(b.reaches(steps, panels));
    let to = &mut to.as_chunks_mut::<16>().0[..steps * panels];
    for (p, panel) in to.chunks_exact_mut(steps.max(1)).enumerate() {
        for (k, to) in panel.iter_mut().enumerate() {
            // SAFETY: in range by the assertion.
            isa.store(B::T::lanes(isa, unsafe { &*b.at(k, p) }), to);
        }
    }
}

impl Conv {
    /// Copies rows `o` and columns `k` of the weights of group `g` to working memory.
    #[inline(always)]
    fn copy_weights<T: PanelElem>(&self, w: &[T], g: usize, o: (usize, usize), k: (usize, usize), to: &mut [f32]) {
        let s = &self.spec;
        let (group_in, group_out) = (s.channels_in / s.groups, s.channels_out / s.groups);
        let taps = s.taps();
        if s.transposed.is_none() {
            let row = group_in * taps;
            return copy_tile(&w[g * group_out * row..][..group_out * row], o, k, (row, 1), to);
        }
        // The weights are [in, out / groups, kernel]; the taps are reversed.
        let w = &w[g * group_in * group_out * taps..];
        for i in o.0..o.1 {
            for kk in k.0..k.1 {
                let (c, tap) = (kk / taps, kk % taps);
                to[(i - o.0) * A_STRIDE + kk - k.0] = w[(c * group_out + i) * taps + taps - 1 - tap].wide();
            }
        }
    }
}
