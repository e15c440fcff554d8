//! Runs a planned convolution, unit by unit.
use super::unit::{At, MANY, TOGETHER, Unit};
use super::{AREA, BLOCK, Conv, Kind, pitch};
use crate::conv::depthwise;
use crate::conv::lanes::{self, Lanes};
use crate::conv::phases;
use crate::conv::planes::{self, Planes};
use crate::conv::points::Points;
use crate::conv::spec::ConvError;
use crate::conv::winograd::{self, Tiles};
use crate::gemm::Epilogue;
use crate::gemm::pack::{A_STRIDE, KC};
use crate::scratch::with_scratch;
use crate::simd::isa::{PanelElem, dispatch};
use crate::simd::singles::Singles;
use crate::view::Out;
use std::ops::Range;

/// Elements of the image, steps times positions, that stay in the second-level cache while the
/// output channels of a unit are computed. If there are more, some steps at a time are packed for
/// all of these channels, because what one step reads lies far from what the next one reads.
const NEAR: usize = 32 * 1024;
/// Fewest steps at a time for which packing pays.
const LEAST_STEPS: usize = 64;

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
            let most = if phases.in_panels() { self.group_blocks() } else { 1 };
            for some in self.of_one_strip(units, most) {
                let At { n, g: group, channels, .. } = self.place(some);
                phases.run(&phases::Unit { spec, n, group, channels, x, w, epilogue }, out)?;
            }
        } else if let Some(one) = &self.one_place {
            for unit in units {
                let At { n, g, channels, .. } = self.place(unit..unit + 1);
                one.run(spec, (n, g, channels), (x, w), epilogue, out)?;
            }
        } else if let Some(spread) = &self.spread {
            spread.run(spec, units, (x, w), epilogue, out);
        } else {
            self.points(units, x, w, epilogue, out);
        }
        Ok(())
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
            for some in self.of_one_strip(units, joined) {
                let at = self.place(some);
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

    /// These units in order, at most `most` at a time, and each time of one strip.
    fn of_one_strip(&self, units: Range<usize>, most: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let blocks = self.group_blocks().max(1);
        let mut next = units.start;
        std::iter::from_fn(move || {
            let end = (next / blocks + 1) * blocks;
            let some = next..(next + most).min(end).min(units.end);
            next = some.end;
            (!some.is_empty()).then_some(some)
        })
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
