//! Convolutions of few places in single precision: the places of all images are the rows of a matrix
//! product and the output channels its columns, so that registers are full however small the images
//! of the output are. The filter comes packed ([`pack_row_filter`]), once and for every instruction
//! set; what the window sees at a place is copied to one row (`seen.rs`). A unit of work is some
//! images of one group and a block of its output channels. Sums grow in the order of channels and
//! taps as those of [`Conv`](crate::conv::Conv) do, so their bits are the same.
mod few;
mod seen;

use crate::conv::spec::{ConvError, ConvSpec};
use crate::gemm::micro::{Left, Strided, tile};
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
/// Places of an image at most.
const PLACES: usize = 128;
/// Numbers of the rows of an image at most.
const MOST_COPY: usize = 256 * 1024;
/// Rows of a unit, about.
const ROWS: usize = 96;
/// Numbers of the rows of a unit at most, where one image has no more: they stay in the second
/// cache while the filter goes by.
const MOST_ROWS: usize = 64 * 1024;
/// Output channels of a unit at most.
const BLOCK: usize = 512;
/// Output channels of a unit at least, where there are more.
const LEAST: usize = 64;
/// Units that keep the cores of a device busy, if there is work for them.
const WANTED: usize = 12;
/// Multiply-adds that a unit should have.
const GRAIN: usize = 384 * 1024;

/// A planned convolution whose places are rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowConv {
    spec: ConvSpec,
    seen: Seen,
    /// Places of an image of the output.
    places: usize,
    /// Images of a unit.
    images: usize,
    /// Output channels of a unit; whole panels.
    block: usize,
}

/// Whether a convolution may be one whose places are rows: of few places, and with groups of whole
/// panels.
fn takes(s: &ConvSpec, places: usize) -> bool {
    let (group_in, group_out) = (s.channels_in / s.groups, s.channels_out / s.groups);
    let whole = s.groups == 1 || group_out.is_multiple_of(PANEL);
    let near = places <= PLACES && places.saturating_mul(group_in * s.taps()) <= MOST_COPY;
    s.transposed.is_none() && whole && near && group_in > 0 && group_out > 0 && places > 0
}

/// Numbers of the packed filter; none where there are too many to count.
pub fn packed_row_filter_len(s: &ConvSpec) -> Option<usize> {
    let k = (s.channels_in / s.groups).checked_mul(s.taps())?;
    (s.channels_out / s.groups).div_ceil(PANEL).checked_mul(PANEL)?.checked_mul(s.groups)?.checked_mul(k)
}

/// The filter `w[O, C / groups, ...]` in panels of sixteen output channels, one group behind the
/// other: `[O / 16, C / groups * taps, 16]`. None where `w` is not as long as the filter is.
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
    /// A plan; None where there is none, as for images of many places.
    ///
    /// # Errors
    /// What is wrong with the sizes ([`ConvSpec::check`]).
    pub fn new(spec: &ConvSpec) -> Result<Option<RowConv>, ConvError> {
        spec.check()?;
        let places = spec.output()?.iter().product();
        if !takes(spec, places) {
            return Ok(None);
        }
        let (k, own) = (spec.channels_in / spec.groups * spec.taps(), spec.channels_out / spec.groups);
        // Images whose rows are whole register tiles together, as many as the caches take.
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

    /// Cycles, about, as plans of other kinds count them: those of one thread and twice those of the
    /// longer half. Sixteen results take a cycle a tap and channel.
    pub(crate) fn cost(&self) -> usize {
        let s = &self.spec;
        let (k, own) = (self.depth(), s.channels_out / s.groups);
        let rows = self.images.min(s.batch.max(1)) * self.places;
        // Rows beyond whole tiles leave registers idle.
        let beyond = rows % few::TILE / 4 * 5 + rows % 4 * 2;
        let tiles = if few::takes(rows) { rows } else { rows / few::TILE * few::TILE + beyond };
        let panels = |channels: usize| channels.div_ceil(PANEL).saturating_mul(k);
        let one = tiles.max(6).saturating_mul(panels(own.min(self.block)));
        let copied = rows.saturating_mul(self.seen.cost(s.channels_in / s.groups));
        let stored = rows.saturating_mul(own.min(self.block)).saturating_mul(2);
        let strips = s.batch.div_ceil(self.images).saturating_mul(s.groups);
        let blocks = own.div_ceil(self.block);
        let unit = one.saturating_add(stored);
        let all = strips.saturating_mul(unit.saturating_mul(blocks).saturating_add(copied));
        let half = strips.saturating_mul(blocks).div_ceil(2).saturating_mul(unit.saturating_add(copied)).min(all);
        all.saturating_add(half.saturating_mul(2))
    }

    /// Output channels.
    pub(super) fn channels_out(&self) -> usize {
        self.spec.channels_out
    }

    /// Length of a sum.
    fn depth(&self) -> usize {
        self.spec.channels_in / self.spec.groups * self.spec.taps()
    }

    /// Distance of two rows of the copy: an odd number of vectors, so that rows do not fall on few
    /// sets of the caches.
    fn pitch(&self) -> usize {
        (self.depth().div_ceil(16) | 1) * 16
    }

    /// Blocks of output channels of a group.
    fn blocks(&self) -> usize {
        (self.spec.channels_out / self.spec.groups).div_ceil(self.block)
    }

    /// Units one behind the other that share the copy of the images.
    pub fn shared(&self) -> usize {
        self.blocks()
    }

    /// Number of units of work.
    pub fn units(&self) -> usize {
        self.spec.batch.div_ceil(self.images) * self.spec.groups * self.blocks()
    }

    /// Multiply-adds of the whole convolution.
    pub fn work(&self) -> u64 {
        self.spec.work(self.places)
    }

    /// Elements that are read and written: input, filter and output.
    pub fn moved(&self) -> u64 {
        self.spec.moved(self.places)
    }

    /// Checks the lengths of the operands and of the result, once before any run.
    ///
    /// # Errors
    /// `Short`, naming the operand.
    pub fn check<T>(&self, x: usize, w: usize, out: usize, epilogue: &Epilogue<'_, T>) -> Result<(), ConvError> {
        let filter = packed_row_filter_len(&self.spec).ok_or(ConvError::Overflow)?;
        self.spec.check_lengths((x, out), ("packed filter", w, filter), self.places, epilogue)
    }

    /// Does the units. The epilogue's bias is one number a channel, [`Bias::PerRow`].
    ///
    /// # Errors
    /// As [`RowConv::check`]; `Singles` for other types.
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

/// Where a unit is.
struct At {
    images: Range<usize>,
    group: usize,
    block: usize,
}

struct Unit<'p, 'a, 'o> {
    conv: &'p RowConv,
    at: At,
    /// Whether the rows of its images are still to be copied.
    fresh: bool,
    x: &'a [f32],
    w: &'a [f32],
    epilogue: &'p Epilogue<'a, f32>,
    out: &'p mut Out<'o, f32>,
    copy: &'p mut [f32],
    sums: &'p mut [f32],
    turned: &'p mut [f32],
    /// For the copy of an image.
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
        // Of a few rows the filter is read once, one panel behind the other.
        let few = few::takes(rows) && MR == few::TILE;
        let step = if few { k } else { KC };
        for from in (0..k).step_by(step) {
            let steps = step.min(k - from);
            let a = Left { data: &self.copy[from..], stride: pitch };
            let b = Strided { data: &w[from * PANEL..], row: PANEL, panel: PANEL * k };
            if few {
                few::tile(isa, (rows, panels, steps), a, b, self.sums, width);
            } else {
                tile::<I, _, MR, NP, N4, N1>(isa, (rows, panels, steps), a, b, self.sums, width, from == 0);
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

/// The sums of the places of an image, rows of `width` channels, as channels of places; scaled, and
/// with the bias of each channel added.
#[inline(always)]
fn turn(sums: &[f32], width: usize, alpha: f32, bias: Option<&[f32]>, to: &mut [f32]) {
    let places = sums.len() / width;
    for (channel, cells) in to.chunks_exact_mut(places).enumerate() {
        // What adds nothing, to minus zero too.
        let shift = bias.map_or(-0.0, |b| b[channel]);
        for (cell, row) in cells.iter_mut().zip(sums.chunks_exact(width)) {
            *cell = row[channel] * alpha + shift;
        }
    }
}

#[cfg(test)]
mod tests;
