//! Runs a planned convolution, unit by unit.
use super::{AREA, BLOCK, Conv, Kind, pitch};
use crate::conv::depthwise;
use crate::conv::finish::{Runs, finish};
use crate::conv::lanes::{self, Lanes};
use crate::conv::phases;
use crate::conv::planes::{self, Planes};
use crate::conv::points::Points;
use crate::conv::spec::ConvError;
use crate::conv::winograd::{self, Tiles};
use crate::gemm::Epilogue;
use crate::gemm::micro::{Left, Listed, Panels, Placed, Strided, crowded, tile};
use crate::gemm::pack::{A_STRIDE, KC, copy_tile};
use crate::scratch::with_scratch;
use crate::simd::isa::{Isa, PanelElem, Work, dispatch};
use crate::simd::singles::Singles;
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
/// Elements of the image, steps times positions, that stay in the second-level cache while the
/// output channels of a unit are computed. If there are more, some steps at a time are packed for
/// all of these channels, because what one step reads lies far from what the next one reads.
const NEAR: usize = 32 * 1024;
/// Fewest steps at a time for which packing pays.
const LEAST_STEPS: usize = 64;
/// Most rows of weights at a time that do not evict each other, whatever their distance.
const CROWD: usize = 8;
/// Fewest output channels for which packing pays.
const MANY: usize = 96;
/// Output channels that are computed and finished at a time; a multiple of every register tile.
const TOGETHER: usize = 24;

impl Conv {
    /// Computes the units. The bias of the epilogue has one number per channel,
    /// [`Bias::PerRow`](crate::gemm::Bias::PerRow). The output may have another type than the
    /// input, because sums are in single precision.
    ///
    /// # Errors
    /// Fails as [`Conv::check`] does. Returns `Singles` if the plan is for single precision and the
    /// types are not.
    pub fn run<T: PanelElem, U: PanelElem>(
        &self,
        units: Range<usize>,
        x: &[T],
        w: &[T],
        epilogue: &Epilogue<'_, U>,
        out: &mut Out<'_, U>,
    ) -> Result<(), ConvError> {
        self.check(x.len(), w.len(), out.len(), epilogue)?;
        let end = units.end.min(self.units());
        if self.divided().is_none() {
            let (Some(x), Some(w), Some(e)) = (T::singles(x), T::singles(w), epilogue.singles()) else {
                return Err(ConvError::Singles);
            };
            let (len, mut parts) = (out.len(), Singles(out));
            return self.run_singles(units.start..end, (x, w), &e, &mut Out::by_parts(len, &mut parts));
        }
        if self.kind == Kind::Depthwise {
            let wide = self.rows * self.image.pitch + 16;
            let planes = planes::takes(&self.spec);
            return with_scratch(self.image.len(1) + wide, |s| {
                for unit in units.start..end {
                    let (rest, strip) = (unit / self.strips(), unit % self.strips());
                    let (n, block) = (rest / self.blocks(), rest % self.blocks());
                    let channels = block * self.block..((block + 1) * self.block).min(self.spec.channels_out);
                    let per = self.out[1].div_ceil(self.rows);
                    let (z, y0) = (strip / per, strip % per * self.rows);
                    let y = (y0, (y0 + self.rows).min(self.out[1]));
                    if let (true, Some(x), Some(w), Some(e)) =
                        (planes, T::singles(x), T::singles(w), epilogue.singles())
                    {
                        let (spec, size) = (&self.spec, (self.out[1], self.out[2]));
                        let (len, mut parts) = (out.len(), Singles(out));
                        let out = &mut Out::by_parts(len, &mut parts);
                        Planes { spec, size, n, channels, y, x, w, epilogue: &e, out }.run();
                        continue;
                    }
                    let job = depthwise::Strip { image: &self.image, n, channels, z, y, x, w, epilogue };
                    job.run(out, s);
                }
                Ok(())
            });
        }
        if let (Some(tiles), Some(x), Some(w), Some(e)) =
            (&self.tiles, T::singles(x), T::singles(w), epilogue.singles())
        {
            let (len, mut parts) = (out.len(), Singles(out));
            self.tiled(tiles, units.start..end, x, w, &e, &mut Out::by_parts(len, &mut parts));
            return Ok(());
        }
        self.plain(units.start..end, x, w, epilogue, out);
        Ok(())
    }
}

impl Conv {
    /// Computes units of a plan that reads its operands in place and divides the work in its own
    /// way.
    fn run_singles(
        &self,
        units: Range<usize>,
        (x, w): (&[f32], &[f32]),
        epilogue: &Epilogue<'_, f32>,
        out: &mut Out<'_, f32>,
    ) -> Result<(), ConvError> {
        let spec = &self.spec;
        if let Some(lanes) = &self.lanes {
            self.by_channels(lanes, units, (x, w), epilogue, out);
        } else if let Some(phases) = &self.phases {
            // With a filter in panels, the blocks of a group and image are computed together.
            let together = if phases.in_panels() { self.group_blocks() } else { 1 };
            let mut unit = units.start;
            while unit < units.end {
                let end = (unit / together * together + together).min(units.end);
                let (n, group, first) = self.channels_of(unit);
                let channels = first.start..self.channels_of(end - 1).2.end;
                unit = end;
                phases.run(&phases::Unit { spec, n, group, channels, x, w, epilogue }, out)?;
            }
        } else if let Some(one) = &self.one_place {
            for unit in units {
                one.run(spec, self.channels_of(unit), (x, w), epilogue, out)?;
            }
        } else if let Some(spread) = &self.spread {
            spread.run(spec, units, (x, w), epilogue, out);
        } else {
            self.points(units, x, w, epilogue, out);
        }
        Ok(())
    }

    /// For a unit that is a block of channels of a whole image: the image, the group, and the
    /// output channels, counted within the group.
    fn channels_of(&self, unit: usize) -> (usize, usize, Range<usize>) {
        let (n, at) = (unit / self.blocks(), unit % self.blocks());
        let (group, block) = (at / self.group_blocks(), at % self.group_blocks());
        let own = self.spec.channels_out / self.spec.groups;
        (n, group, block * self.block..((block + 1) * self.block).min(own))
    }

    /// Computes units of a dense or pointwise convolution, as products of the weights and a copy of
    /// the image or the image itself.
    fn plain<T: PanelElem, U: PanelElem>(
        &self,
        units: Range<usize>,
        x: &[T],
        w: &[T],
        epilogue: &Epilogue<'_, U>,
        out: &mut Out<'_, U>,
    ) {
        let group_in = self.spec.channels_in / self.spec.groups;
        let copy = match self.kind {
            Kind::Pointwise => group_in * pitch(self.rows) + 16,
            _ => self.image.len(group_in),
        };
        let flat = match self.kind {
            Kind::Pointwise => self.rows,
            _ => self.rows * self.image.pitch,
        };
        let width = flat.next_multiple_of(16);
        let joined = self.joined(width);
        let channels = joined * self.block;
        let together = channels.min(TOGETHER);
        let steps = self.packed_steps(channels, width);
        let (kept, packed) = match steps {
            Some(_) => (channels, NEAR),
            None => (together, 0),
        };
        with_scratch(together * A_STRIDE + packed + copy + kept * width, |s| {
            let (sa, s) = s.split_at_mut(together * A_STRIDE);
            let (sb, s) = s.split_at_mut(packed);
            let (image, sums) = s.split_at_mut(copy);
            let mut filled = None;
            let mut unit = units.start;
            while unit < units.end {
                let strip_end = (unit / self.group_blocks() + 1) * self.group_blocks();
                let end = (unit + joined).min(strip_end).min(units.end);
                let at = self.place(unit..end);
                unit = end;
                let strip = Some((at.n, at.g, at.strip));
                let fresh = filled != strip;
                filled = strip;
                dispatch(Unit { conv: self, at, fresh, steps, x, w, epilogue, out, sa, sb, image, sums });
            }
        });
    }

    /// The most units of one strip that are computed together, for sums over `width` positions.
    /// What is packed is then packed once for all of them.
    fn joined(&self, width: usize) -> usize {
        (BLOCK.min(AREA / width.max(1)) / self.block).clamp(1, self.group_blocks().max(1))
    }

    /// How many steps of the sums of `channels` channels over `width` positions are packed at a
    /// time. `None` if all are read in place.
    fn packed_steps(&self, channels: usize, width: usize) -> Option<usize> {
        let steps = self.spec.channels_in / self.spec.groups * self.spec.taps();
        let near = width.saturating_mul(LEAST_STEPS) <= NEAR && steps.saturating_mul(width) > NEAR;
        let many = near && channels >= MANY;
        many.then(|| (NEAR / width).min(KC))
    }

    /// The position of units of one strip. Channel blocks of a strip are consecutive, so that they
    /// share its copy.
    fn place(&self, units: Range<usize>) -> At {
        let blocks = self.group_blocks();
        let (rest, block) = (units.start / blocks, units.start % blocks);
        let (rest, strip) = (rest / self.strips(), rest % self.strips());
        let own = self.spec.channels_out / self.spec.groups;
        let channels = block * self.block..((block + units.len()) * self.block).min(own);
        At { n: rest / self.spec.groups, g: rest % self.spec.groups, strip, channels }
    }

    /// Computes units of a depthwise convolution with channels as lanes.
    fn by_channels(
        &self,
        plan: &Lanes,
        units: Range<usize>,
        (x, w): (&[f32], &[f32]),
        epilogue: &Epilogue<'_, f32>,
        out: &mut Out<'_, f32>,
    ) {
        let all = self.spec.channels_out;
        with_scratch(plan.scratch(), |scratch| {
            plan.clear_border(scratch);
            for unit in units {
                let (n, block) = (unit / self.blocks(), unit % self.blocks());
                let channels = block * self.block..((block + 1) * self.block).min(all);
                dispatch(lanes::Unit { plan, n, channels, all, x, w, epilogue, out, scratch });
            }
        });
    }

    /// Computes units by minimal filtering, or by plain products if their numbers are too large for
    /// it.
    fn tiled(
        &self,
        tiles: &Tiles,
        units: Range<usize>,
        x: &[f32],
        w: &[f32],
        epilogue: &Epilogue<'_, f32>,
        out: &mut Out<'_, f32>,
    ) {
        let s = &self.spec;
        let (group_in, group_out) = (s.channels_in / s.groups, s.channels_out / s.groups);
        let size: usize = s.input.iter().product();
        let (filters, changed) = w.split_at(s.channels_out * group_in * 9);
        with_scratch(tiles.scratch(), |scratch| {
            for unit in units {
                let At { n, g, strip, channels } = self.place(unit..unit + 1);
                let (y, o) = (strip * self.rows, channels.start);
                let (first, own) = (g * group_out + o, channels.len());
                let done = dispatch(winograd::Unit {
                    tiles,
                    spec: s,
                    out_size: [self.out[1], self.out[2]],
                    y: (y, (y + self.rows).min(self.out[1])),
                    channel: first,
                    x: &x[(n * s.channels_in + g * group_in) * size..][..group_in * size],
                    w: &filters[first * group_in * 9..][..own * group_in * 9],
                    changed: changed.get(tiles.changed_at(g, group_out, o)..).unwrap_or(&[]),
                    epilogue,
                    at: (n * s.channels_out + first) * self.out[1] * self.out[2],
                    out,
                    scratch,
                });
                if !done {
                    self.plain(unit..unit + 1, x, w, epilogue, out);
                }
            }
        });
    }
}

impl Conv {
    /// Computes units of a pointwise convolution in single precision.
    fn points(&self, units: Range<usize>, x: &[f32], w: &[f32], epilogue: &Epilogue<'_, f32>, out: &mut Out<'_, f32>) {
        let s = &self.spec;
        let (k, group_out) = (s.channels_in / s.groups, s.channels_out / s.groups);
        let positions: usize = self.out.iter().product();
        let mut rows = Vec::with_capacity(self.block);
        with_scratch(k, |column| {
            for unit in units {
                let At { n, g, strip, channels } = self.place(unit..unit + 1);
                let (first, m) = (g * group_out + channels.start, channels.len());
                let from = strip * self.rows;
                dispatch(Points {
                    shape: (k, positions),
                    channels: (first, m),
                    strip: (from, self.rows.min(positions - from)),
                    w: &w[first * k..][..m * k],
                    x: &x[(n * s.channels_in + g * k) * positions..][..k * positions][from..],
                    epilogue,
                    at: (n * s.channels_out + first) * positions,
                    out,
                    column,
                    rows: &mut rows,
                });
            }
        });
    }
}

/// The position of one or more units: image, group, strip, and output channels within the group.
struct At {
    n: usize,
    g: usize,
    strip: usize,
    channels: Range<usize>,
}

struct Unit<'p, 'a, 'o, T, U> {
    conv: &'p Conv,
    at: At,
    fresh: bool,
    /// How many steps of the sums are packed at a time, if any: working memory is made for the
    /// largest strip, and smaller ones do the same.
    steps: Option<usize>,
    x: &'a [T],
    w: &'a [T],
    epilogue: &'p Epilogue<'a, U>,
    out: &'p mut Out<'o, U>,
    sa: &'p mut [f32],
    sb: &'p mut [f32],
    image: &'p mut [f32],
    sums: &'p mut [f32],
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
        // Weights in single precision are read in place, unless so many rows are read at a time that
        // they evict each other from the cache.
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
