//! Convolutions with few positions in single precision. The positions of all images are the rows of
//! a matrix product and the output channels its columns, so that registers are full however small
//! the output images are. The filter comes packed ([`pack_row_filter`]), once and for every
//! instruction set. What the window reads at a position is copied to one row (`seen.rs`). A unit of
//! work is some images of one group by a block of its output channels. Sums are added in the order
//! of channels and taps, as in [`Conv`](crate::conv::Conv), so their bits are the same.
mod few;
mod seen;

use crate::conv::spec::{ConvError, ConvSpec};
use crate::gemm::micro::{Left, Strided, tile, uncrowded};
use crate::gemm::{Bias, Epilogue, KC, pack_columns, packed_len};
use crate::scratch::with_scratch;
use crate::shrink::shrink;
use crate::simd::isa::{Isa, PanelElem, Work, dispatch};
use crate::simd::singles::Singles;
use crate::view::Out;
use seen::Seen;
use std::ops::Range;

/// Columns of a panel of the packed filter.
pub(super) const PANEL: usize = 16;
/// Most positions of an output image.
const PLACES: usize = 128;
/// Most elements of the rows of an image.
const MOST_COPY: usize = 256 * 1024;
/// Approximate number of rows of a unit.
const ROWS: usize = 96;
/// Most elements of the rows of a unit, unless a single image has more. They stay in the
/// second-level cache while the filter is read.
const MOST_ROWS: usize = 64 * 1024;
/// Most output channels of a unit.
const BLOCK: usize = 512;
/// Fewest output channels of a unit, if there are more.
const LEAST: usize = 64;
/// Number of units that keeps the cores of a device busy, if there is enough work.
const WANTED: usize = 12;
/// Multiply-adds that a unit should have.
const GRAIN: usize = 384 * 1024;

/// A planned convolution whose output positions are rows of a matrix product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowConv {
    spec: ConvSpec,
    seen: Seen,
    /// Positions of an output image.
    places: usize,
    /// Images of a unit.
    images: usize,
    /// Output channels of a unit; whole panels.
    block: usize,
}

/// Whether a convolution can be computed with positions as rows: it has few positions, and its
/// groups are whole panels.
fn takes(s: &ConvSpec, places: usize) -> bool {
    let (group_in, group_out) = (s.channels_in / s.groups, s.channels_out / s.groups);
    let whole = s.groups == 1 || group_out.is_multiple_of(PANEL);
    let near = places <= PLACES && places.saturating_mul(group_in * s.taps()) <= MOST_COPY;
    s.transposed.is_none() && whole && near && group_in > 0 && group_out > 0 && places > 0
}

/// Elements of the packed filter; `None` if they are too many to count.
pub fn packed_row_filter_len(s: &ConvSpec) -> Option<usize> {
    let k = (s.channels_in / s.groups).checked_mul(s.taps())?;
    (s.channels_out / s.groups).div_ceil(PANEL).checked_mul(PANEL)?.checked_mul(s.groups)?.checked_mul(k)
}

/// Packs the filter `w[O, C / groups, ...]` into panels of sixteen output channels, one group after
/// the other: `[O / 16, C / groups * taps, 16]`. `None` if `w` is empty or does not have the length
/// of the filter.
pub fn pack_row_filter(s: &ConvSpec, w: &[f32]) -> Option<Vec<f32>> {
    let (k, own) = (s.channels_in / s.groups * s.taps(), s.channels_out / s.groups);
    let mut to = vec![0.0; packed_row_filter_len(s)?];
    if w.len() != own.checked_mul(k)?.checked_mul(s.groups)? || w.is_empty() {
        return None;
    }
    for (w, to) in w.chunks_exact(own * k).zip(to.chunks_exact_mut(packed_len(k, own))) {
        pack_columns(w, k, own, 1, k, to);
    }
    Some(to)
}

impl RowConv {
    /// Makes a plan. `None` if the convolution is not suitable, for example if images have many
    /// positions.
    ///
    /// # Errors
    /// Fails if the sizes are wrong ([`ConvSpec::check`]).
    pub fn new(spec: &ConvSpec) -> Result<Option<RowConv>, ConvError> {
        spec.check()?;
        let places = spec.output()?.iter().product();
        if !takes(spec, places) {
            return Ok(None);
        }
        let (k, own) = (spec.channels_in / spec.groups * spec.taps(), spec.channels_out / spec.groups);
        // As many images as the caches hold, whose rows together are whole register tiles.
        let whole = (1..=few::TILE).find(|i| (i * places).is_multiple_of(few::TILE)).unwrap_or(1);
        let most = (ROWS.min(MOST_ROWS / k) / places).max(1);
        let images = if most > whole { most / whole * whole } else { most }.min(spec.batch.max(1));
        let block = BLOCK.min(own.next_multiple_of(PANEL));
        let work = [spec.batch, spec.groups, places, own, k].into_iter().fold(1usize, usize::saturating_mul);
        let wanted = (work / GRAIN).clamp(1, WANTED);
        let enough = |(images, block): (usize, usize)| {
            let units = [spec.batch.div_ceil(images), spec.groups, own.div_ceil(block)];
            units.into_iter().fold(1usize, usize::saturating_mul) >= wanted
        };
        let (images, block) = shrink((images, block), enough, |(images, block)| {
            if images > whole {
                return Some(((images / 2).next_multiple_of(whole), block));
            }
            (block > LEAST).then(|| (images, (block / 2).next_multiple_of(PANEL)))
        });
        Ok(Some(RowConv { seen: Seen::new(spec)?, spec: spec.clone(), places, images, block }))
    }

    /// The same plan with units of `block` output channels.
    pub(super) fn with_block(self, block: usize) -> RowConv {
        RowConv { block: block.next_multiple_of(PANEL), ..self }
    }

    /// Approximate cycles, counted as in other plans: those of one thread plus twice those of the
    /// larger half. Sixteen results take one cycle per tap and channel.
    pub(crate) fn cost(&self) -> usize {
        self.cost_with(self.strips().saturating_mul(self.blocks()).div_ceil(2))
    }

    /// The same if a thread runs all its units at once, so that they share copies of images.
    pub(super) fn cost_of_shared_copies(&self) -> usize {
        self.cost_with(self.strips().div_ceil(2))
    }

    /// The same if the larger half of the units needs this many copies.
    fn cost_with(&self, copies: usize) -> usize {
        let s = &self.spec;
        let (k, own) = (self.depth(), s.channels_out / s.groups);
        let rows = self.images.min(s.batch.max(1)) * self.places;
        // Rows beyond whole tiles leave registers idle.
        let beyond = rows % few::TILE / 4 * 5 + rows % 4 * 2;
        let tiles = if few::takes(rows) { rows } else { rows / few::TILE * few::TILE + beyond };
        let panels = |channels: usize| channels.div_ceil(PANEL).saturating_mul(k);
        let of = |channels: usize| {
            let stored = rows.saturating_mul(channels).saturating_mul(2);
            tiles.max(6).saturating_mul(panels(channels)).saturating_add(stored)
        };
        let copied = rows.saturating_mul(self.seen.cost(s.channels_in / s.groups));
        let strips = self.strips();
        let all = strips.saturating_mul(of(own).saturating_add(copied));
        let half = strips.saturating_mul(self.blocks()).div_ceil(2).saturating_mul(of(own.min(self.block)));
        let half = half.saturating_add(copied.saturating_mul(copies)).min(all);
        all.saturating_add(half.saturating_mul(2))
    }

    pub(super) fn channels_out(&self) -> usize {
        self.spec.channels_out
    }

    /// Length of a sum: channels per group times taps.
    fn depth(&self) -> usize {
        self.spec.channels_in / self.spec.groups * self.spec.taps()
    }

    /// Distance between two rows of the copy.
    fn pitch(&self) -> usize {
        uncrowded(self.depth())
    }

    /// Groups of all strips of images.
    fn strips(&self) -> usize {
        self.spec.batch.div_ceil(self.images).saturating_mul(self.spec.groups)
    }

    /// Blocks of output channels of a group.
    fn blocks(&self) -> usize {
        (self.spec.channels_out / self.spec.groups).div_ceil(self.block)
    }

    /// Number of consecutive units that share the copy of the images.
    pub fn shared(&self) -> usize {
        self.blocks()
    }

    /// Number of units of work.
    pub fn units(&self) -> usize {
        self.strips() * self.blocks()
    }

    /// Multiply-adds of the whole convolution.
    pub fn work(&self) -> u64 {
        self.spec.work(self.places)
    }

    /// Elements read and written: input, filter and output.
    pub fn moved(&self) -> u64 {
        self.spec.moved(self.places)
    }

    /// Number of elements of the packed filter.
    pub(super) fn weights(&self) -> usize {
        packed_row_filter_len(&self.spec).unwrap_or(usize::MAX)
    }

    /// Checks the lengths of the operands and of the result, once before any run.
    ///
    /// # Errors
    /// Returns `Short` with the name of the operand.
    pub fn check<T>(&self, x: usize, w: usize, out: usize, epilogue: &Epilogue<'_, T>) -> Result<(), ConvError> {
        let filter = packed_row_filter_len(&self.spec).ok_or(ConvError::Overflow)?;
        self.spec.check_lengths((x, out), ("packed filter", w, filter), self.places, epilogue)
    }

    /// Computes the units. The bias of the epilogue has one number per channel, [`Bias::PerRow`].
    ///
    /// # Errors
    /// Fails as [`RowConv::check`] does. Returns `Singles` if the types are not single precision.
    pub fn run<T: PanelElem>(
        &self,
        units: Range<usize>,
        x: &[T],
        w: &[T],
        epilogue: &Epilogue<'_, T>,
        out: &mut Out<'_, T>,
    ) -> Result<(), ConvError> {
        self.check(x.len(), w.len(), out.len(), epilogue)?;
        let (Some(x), Some(w), Some(epilogue)) = (T::singles(x), T::singles(w), epilogue.singles()) else {
            return Err(ConvError::Singles);
        };
        let (len, mut parts) = (out.len(), Singles(out));
        let out = &mut Out::by_parts(len, &mut parts);
        let rows = self.images * self.places;
        let (copy, sums) = (rows * self.pitch(), rows * self.block);
        let (turned, room) = (self.places * self.block, self.seen.room(self.spec.channels_in / self.spec.groups));
        with_scratch(copy + sums + turned + room, |s| {
            let (copy, s) = s.split_at_mut(copy);
            let (sums, s) = s.split_at_mut(sums);
            let (turned, room) = s.split_at_mut(turned);
            if self.seen.has_border() {
                copy.fill(0.0);
            }
            let mut filled = None;
            for unit in units.start..units.end.min(self.units()) {
                let (strip, block) = (unit / self.blocks(), unit % self.blocks());
                let fresh = filled != Some(strip);
                filled = Some(strip);
                let (first, group) = (strip / self.spec.groups * self.images, strip % self.spec.groups);
                let images = first..(first + self.images).min(self.spec.batch);
                let at = At { images, group, block };
                dispatch(Unit { conv: self, at, fresh, x, w, epilogue: &epilogue, out, copy, sums, turned, room });
            }
        });
        Ok(())
    }
}

/// The position of a unit.
struct At {
    images: Range<usize>,
    group: usize,
    block: usize,
}

struct Unit<'p, 'a, 'o> {
    conv: &'p RowConv,
    at: At,
    /// Whether the rows of its images must still be copied.
    fresh: bool,
    x: &'a [f32],
    w: &'a [f32],
    epilogue: &'p Epilogue<'a, f32>,
    out: &'p mut Out<'o, f32>,
    copy: &'p mut [f32],
    sums: &'p mut [f32],
    turned: &'p mut [f32],
    /// Working memory for the copy of an image.
    room: &'p mut [f32],
}

impl Work for Unit<'_, '_, '_> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let (c, s) = (self.conv, &self.conv.spec);
        let (group_in, group_out) = (s.channels_in / s.groups, s.channels_out / s.groups);
        let size: usize = s.input.iter().product();
        let (k, pitch, places) = (c.depth(), c.pitch(), c.places);
        let rows = self.at.images.len() * places;
        if self.fresh {
            for (n, to) in self.at.images.clone().zip(self.copy.chunks_exact_mut(places * pitch)) {
                let x = &self.x[(n * s.channels_in + self.at.group * group_in) * size..][..group_in * size];
                c.seen.copy(x, size, self.room, pitch, to);
            }
        }
        let first = self.at.block * c.block;
        let own = c.block.min(group_out - first);
        let (panels, width) = (own.div_ceil(PANEL), own.next_multiple_of(PANEL));
        let w = &self.w[self.at.group * packed_len(k, group_out) + first * k..][..width * k];
        // With few rows the filter is read once, one panel after the other.
        let few = few::takes(rows) && MR == few::TILE;
        let step = if few { k } else { KC };
        for from in (0..k).step_by(step) {
            let steps = step.min(k - from);
            let a = Left { data: &self.copy[from..], stride: pitch };
            let b = Strided { data: &w[from * PANEL..], row: PANEL, panel: PANEL * k };
            if few {
                few::tile(isa, (rows, panels, steps), a, b, self.sums, width);
            } else {
                tile::<I, _, MR, NP, N4, N1>(isa, (rows, own, steps), a, b, self.sums, width, from == 0);
            }
        }
        let channel = self.at.group * group_out + first;
        let bias = match self.epilogue.bias {
            Bias::PerRow(b) => Some(&b[channel..channel + own]),
            _ => None,
        };
        let rest = Epilogue { alpha: 1.0, bias: Bias::None, ..*self.epilogue };
        for (n, sums) in self.at.images.zip(self.sums.chunks_exact(places * width)) {
            let turned = &mut self.turned[..own * places];
            turn(sums, width, self.epilogue.alpha, bias, turned);
            rest.finish(turned, 0, 0, self.out, (n * s.channels_out + channel) * places);
        }
    }
}

/// Transposes the sums of an image from rows of `width` channels to channels of positions. Scales
/// them and adds the bias of each channel.
#[inline(always)]
fn turn(sums: &[f32], width: usize, alpha: f32, bias: Option<&[f32]>, to: &mut [f32]) {
    let places = sums.len() / width;
    for (channel, cells) in to.chunks_exact_mut(places).enumerate() {
        // Adding -0.0 changes nothing, not even the sign of zero.
        let shift = bias.map_or(-0.0, |b| b[channel]);
        for (cell, row) in cells.iter_mut().zip(sums.chunks_exact(width)) {
            *cell = row[channel] * alpha + shift;
        }
    }
}

#[cfg(test)]
mod tests;
