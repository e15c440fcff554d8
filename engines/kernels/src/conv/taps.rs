//! Convolutions in single precision tap by tap, without the taps that only read the border. A far
//! dilated window reads the border at most positions: three by three taps that are 24 apart have
//! one to four taps inside an image of 33 by 33.
//!
//! The output is cut where a tap begins or ends to read the image. All positions of a piece have
//! the same taps inside, and only their products are computed. A unit is some rows of the output by
//! a block of channels. For some input channels at a time, what a tap reads is packed for a few
//! positions, which stay in the first-level cache while they are multiplied by the filter of the
//! tap. The filter comes laid out by taps ([`pack_tap_filter`]), so that every product reads it in
//! place.
//!
//! A sum has the order of channel blocks, taps and channels. Its bits depend neither on the units
//! nor on the instruction set.
use crate::conv::finish::{Runs, finish};
use crate::conv::spec::{ConvError, ConvSpec};
use crate::gemm::Epilogue;
use crate::gemm::micro::{Left, Strided, tile, uncrowded};
use crate::scratch::with_scratch;
use crate::simd::isa::{Isa, Work, dispatch};
use crate::view::Out;
use std::ops::Range;

#[cfg(test)]
mod tests;

/// Fewest input and output channels of a group for which products pay.
const DEEP: usize = 16;
/// Most positions of a unit, unless one row has more.
const PLACES: usize = 512;
/// Most positions of an output row.
const MOST_WIDE: usize = 1024;
/// Output channels of a unit, at most. Each block of them packs the image anew.
const BLOCK: usize = 192;
/// Output channels of a unit, at least, if there are more.
const LEAST: usize = 96;
/// Rows of the largest register tile.
const TILE: usize = 12;
/// Input channels of a product; a part of the order of sums.
const STEPS: usize = 128;
/// Positions that are packed at a time.
const FEW: usize = 32;
/// The largest unit has at most one of this many parts of the work, if there is enough work.
const WANTED: usize = 5;
/// Multiply-adds that a unit should have.
const GRAIN: usize = 384 * 1024;
/// Most taps of a window.
const MOST_TAPS: usize = 4096;

/// A planned convolution of two axes, tap by tap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapConv {
    spec: ConvSpec,
    /// Height and width of the output.
    out: [usize; 2],
    strips: Vec<Strip>,
    /// Pieces along a row.
    across: Vec<Piece>,
    /// Output channels of a unit.
    block: usize,
}

/// Positions along an axis, and the taps that one of them finds inside the image.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    places: Range<usize>,
    taps: Range<usize>,
}

/// Output rows of a unit.
type Strip = Piece;

/// Elements of the filter laid out by taps; `None` if they are too many to count.
pub fn tap_filter_len(s: &ConvSpec) -> Option<usize> {
    uncrowded(s.channels_in / s.groups.max(1)).checked_mul(s.channels_out)?.checked_mul(s.taps())
}

/// The filter `w[O, C / groups, ...]` laid out by taps: `[groups, taps, O / groups, C / groups]`,
/// with rows of channels a whole number of vectors apart. `None` if `w` does not have the
/// length of the filter.
pub fn pack_tap_filter(s: &ConvSpec, w: &[f32]) -> Option<Vec<f32>> {
    let (channels, own, taps) = (s.channels_in / s.groups.max(1), s.channels_out / s.groups.max(1), s.taps());
    if w.len() != channels.checked_mul(taps)?.checked_mul(s.channels_out)? || w.is_empty() {
        return None;
    }
    let (pitch, mut to) = (uncrowded(channels), vec![0.0; tap_filter_len(s)?]);
    for (row, w) in w.chunks_exact(channels * taps).enumerate() {
        for tap in 0..taps {
            let at = ((row / own * taps + tap) * own + row % own) * pitch;
            for (to, w) in to[at..at + channels].iter_mut().zip(w[tap..].iter().step_by(taps)) {
                *to = *w;
            }
        }
    }
    Some(to)
}

/// Positions of the output along axis `a` at which tap `k` is inside the image.
fn inside(s: &ConvSpec, a: usize, out: usize, k: usize) -> Range<usize> {
    let (at, pad, stride) = (k * s.dilation[a], s.pad_before[a], s.stride[a]);
    let first = pad.saturating_sub(at).div_ceil(stride);
    let end = (s.input[a] + pad).saturating_sub(at).div_ceil(stride);
    first.min(out)..end.clamp(first.min(out), out)
}

/// The output along axis `a`, in pieces with the same taps inside, or whole.
fn pieces(s: &ConvSpec, a: usize, out: usize, cut: bool) -> Vec<Piece> {
    let taps: Vec<Range<usize>> = (0..s.kernel[a]).map(|k| inside(s, a, out, k)).collect();
    let mut ends = vec![0, out];
    if cut {
        ends.extend(taps.iter().flat_map(|t| [t.start, t.end]));
    }
    ends.sort_unstable();
    ends.dedup();
    let mut list: Vec<Piece> = Vec::new();
    for (first, end) in ends.iter().zip(&ends[1..]) {
        let seen = |t: &&Range<usize>| !t.is_empty() && t.start < *end && t.end > *first;
        let low = taps.iter().position(|t| seen(&t)).unwrap_or(0);
        let high = taps.iter().rposition(|t| seen(&t)).map_or(low, |k| k + 1);
        match list.last_mut() {
            Some(last) if last.taps == (low..high) => last.places.end = *end,
            _ => list.push(Piece { places: *first..*end, taps: low..high }),
        }
    }
    list
}

/// Pieces of rows, each divided evenly into strips of at most `most` rows.
fn strips(rows: &[Piece], most: usize) -> Vec<Strip> {
    let mut list = Vec::new();
    for Piece { places, taps } in rows {
        let count = places.len().div_ceil(most.max(1)).max(1);
        let end = |i: usize| places.start + places.len() * i / count;
        list.extend((0..count).map(|i| Piece { places: end(i)..end(i + 1), taps: taps.clone() }));
    }
    list
}

impl TapConv {
    /// Makes a plan. `None` if the convolution is not suitable: few channels, wide rows, a single
    /// tap, three axes.
    ///
    /// # Errors
    /// Fails if the sizes are wrong ([`ConvSpec::check`]).
    pub fn new(s: &ConvSpec) -> Result<Option<TapConv>, ConvError> {
        s.check()?;
        let [depth, height, width] = s.output()?;
        let (channels, own) = (s.channels_in / s.groups, s.channels_out / s.groups);
        let flat = s.input[0] == 1 && depth == 1 && s.kernel[0] == 1 && s.pad_before[0] == 0;
        let deep = channels >= DEEP && own >= DEEP && tap_filter_len(s).is_some();
        let small = (1..=MOST_WIDE).contains(&width) && height > 0 && (2..=MOST_TAPS).contains(&s.taps());
        let small = small && !s.input.contains(&0);
        if !flat || !deep || !small || s.transposed.is_some() {
            return Ok(None);
        }
        let cuts = [(true, true), (true, false), (false, true), (false, false)];
        let plans = cuts.map(|(down, along)| {
            let (rows, across) = (pieces(s, 1, height, down), pieces(s, 2, width, along));
            let strips = strips(&rows, (PLACES / width).max(1));
            TapConv { spec: s.clone(), out: [height, width], strips, across, block: BLOCK.min(own) }
        });
        Ok(plans.into_iter().min_by_key(TapConv::cost).map(TapConv::with_enough_units))
    }

    /// The plan with output channels in even blocks, and in more of them while the largest unit has
    /// too much of the work.
    fn with_enough_units(self) -> TapConv {
        let s = &self.spec;
        let work = usize::try_from(self.work()).unwrap_or(usize::MAX);
        let wanted = (work / GRAIN).clamp(1, WANTED);
        let (own, cells) = (s.channels_out / s.groups, self.strips.iter().map(|p| p.places.len() * p.taps.len()));
        let (most, all) = (cells.clone().max().unwrap_or(0), cells.sum::<usize>() * s.batch * s.groups);
        let even = (wanted * most).div_ceil(all.max(1)).min(own.div_ceil(LEAST));
        let blocks = own.div_ceil(BLOCK).max(even);
        TapConv { block: own.div_ceil(blocks).next_multiple_of(TILE).min(own), ..self }
    }

    /// Approximate cycles, counted as in other plans: those of one thread plus twice those of the
    /// larger half. Sixteen results take one cycle per tap and channel.
    pub(crate) fn cost(&self) -> usize {
        let s = &self.spec;
        let (channels, own) = (s.channels_in / s.groups, s.channels_out / s.groups);
        let blocks = own.div_ceil(self.block);
        let of = |down: &Strip, along: &Piece| {
            let taps = down.taps.len() * along.taps.len();
            let rows = down.places.len();
            let panels = (rows * along.places.len()).div_ceil(16);
            // Sums are loaded and stored once for each product, and finished.
            let sums = own.saturating_mul(panels).saturating_mul(channels.div_ceil(STEPS) * taps * 2 + 8);
            let packed = (rows * (2 + 2 * along.places.len().div_ceil(16))).saturating_mul(taps * channels * blocks);
            (panels * taps).saturating_mul(own).saturating_mul(channels).saturating_add(sums).saturating_add(packed)
        };
        let all = self.strips.iter().flat_map(|down| self.across.iter().map(move |along| of(down, along)));
        let all = all.fold(0, usize::saturating_add).saturating_mul(s.batch).saturating_mul(s.groups);
        all.saturating_mul(2)
    }

    /// Output channels of a group in blocks.
    fn blocks(&self) -> usize {
        (self.spec.channels_out / self.spec.groups).div_ceil(self.block)
    }

    /// Number of units of work.
    pub fn units(&self) -> usize {
        self.spec.batch * self.spec.groups * self.strips.len() * self.blocks()
    }

    /// Multiply-adds of the whole convolution.
    pub fn work(&self) -> u64 {
        self.spec.work(self.out[0] * self.out[1])
    }

    /// Number of elements of the filter laid out by taps.
    pub fn weights(&self) -> usize {
        tap_filter_len(&self.spec).unwrap_or(usize::MAX)
    }

    /// Multiply-adds that are computed.
    pub fn effort(&self) -> u64 {
        let of = |list: &[Piece]| list.iter().map(|p| (p.places.len() * p.taps.len()) as u64).sum::<u64>();
        let depth = (self.spec.channels_in / self.spec.groups * self.spec.channels_out) as u64;
        let outputs = (self.spec.batch as u64).saturating_mul(depth);
        outputs.saturating_mul(of(&self.strips)).saturating_mul(of(&self.across))
    }

    /// Elements read and written: input, filter and output.
    pub fn moved(&self) -> u64 {
        self.spec.moved(self.out[0] * self.out[1])
    }

    /// Checks the lengths of the operands and of the result, once before any run.
    ///
    /// # Errors
    /// Returns `Short` with the name of the operand.
    pub fn check(&self, x: usize, w: usize, out: usize, epilogue: &Epilogue<'_, f32>) -> Result<(), ConvError> {
        let filter = ("filter by taps", w, self.weights());
        self.spec.check_lengths((x, out), filter, self.out[0] * self.out[1], epilogue)
    }

    /// Computes the units. The bias of the epilogue has one number per channel,
    /// [`Bias::PerRow`](crate::gemm::Bias::PerRow).
    ///
    /// # Errors
    /// Fails as [`TapConv::check`] does.
    pub fn run(
        &self,
        units: Range<usize>,
        x: &[f32],
        w: &[f32],
        epilogue: &Epilogue<'_, f32>,
        out: &mut Out<'_, f32>,
    ) -> Result<(), ConvError> {
        self.check(x.len(), w.len(), out.len(), epilogue)?;
        let high = self.strips.iter().map(|s| s.places.len()).max().unwrap_or(0);
        let sums = self.block * self.across.iter().map(|p| uncrowded(high * p.places.len())).sum::<usize>();
        let line = high * self.out[1] + 16;
        with_scratch(STEPS * FEW + 16 + line.next_multiple_of(16) + sums + 16, |s| {
            let (packed, s) = s.split_at_mut(STEPS * FEW + 16);
            let (line, sums) = s.split_at_mut(line.next_multiple_of(16));
            for unit in units.start..units.end.min(self.units()) {
                dispatch(Unit { conv: self, unit, x, w, epilogue, out, packed, line, sums });
            }
        });
        Ok(())
    }
}

struct Unit<'p, 'a, 'o> {
    conv: &'p TapConv,
    unit: usize,
    x: &'a [f32],
    w: &'a [f32],
    epilogue: &'p Epilogue<'a, f32>,
    out: &'p mut Out<'o, f32>,
    packed: &'p mut [f32],
    line: &'p mut [f32],
    sums: &'p mut [f32],
}

impl Work for Unit<'_, '_, '_> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let Unit { conv: c, unit, x, w, epilogue, out, packed, line, sums } = self;
        let s = &c.spec;
        let (channels, own) = (s.channels_in / s.groups, s.channels_out / s.groups);
        let (rest, block) = (unit / c.blocks(), unit % c.blocks());
        let (rest, strip) = (rest / c.strips.len(), rest % c.strips.len());
        let (n, group) = (rest / s.groups, rest % s.groups);
        let first = block * c.block;
        let m = c.block.min(own - first);
        let size = s.input[1] * s.input[2];
        let x = &x[(n * s.channels_in + group * channels) * size..][..channels * size];
        let pitch = uncrowded(channels);
        let w = &w[group * s.taps() * own * pitch..][..s.taps() * own * pitch];
        let down = &c.strips[strip];
        let rows = down.places.len();
        let mut at = 0;
        for along in &c.across {
            let (count, width) = (rows * along.places.len(), uncrowded(rows * along.places.len()));
            let sums = &mut sums[at..at + m * width];
            at += m * width;
            let mut fresh = true;
            for from in (0..channels).step_by(STEPS) {
                let steps = STEPS.min(channels - from);
                let x = &x[from * size..(from + steps) * size];
                for (ky, kx) in down.taps.clone().flat_map(|ky| along.taps.clone().map(move |kx| (ky, kx))) {
                    let row = (ky * s.kernel[2] + kx) * own + first;
                    let a = Left { data: &w[row * pitch + from..], stride: pitch };
                    for first in (0..count).step_by(FEW) {
                        let places = first..(first + FEW).min(count);
                        let len = places.len();
                        Parts::of(s, (down.places.start, &along.places), places, [ky, kx]).pack(isa, x, size, packed);
                        let b = Strided { data: &*packed, row: FEW, panel: 16 };
                        let sums = &mut sums[first..];
                        tile::<I, _, MR, NP, N4, N1>(isa, (m, len, steps), a, b, sums, width, fresh);
                    }
                    fresh = false;
                }
            }
            if fresh {
                sums.fill(0.0);
            }
        }
        let count = rows * c.out[1];
        for o in 0..m {
            // Rows one after the other: a copy may write beyond its piece.
            for row in 0..rows {
                let mut at = 0;
                for along in &c.across {
                    let (len, width) = (along.places.len(), uncrowded(rows * along.places.len()));
                    let from = &sums[at + o * width..][..width];
                    at += m * width;
                    copy(&from[row * len..], len, &mut line[row * c.out[1] + along.places.start..]);
                }
            }
            let channel = group * own + first + o;
            let to = ((n * s.channels_out + channel) * c.out[0] + down.places.start) * c.out[1];
            finish(epilogue, channel, Runs { count: 1, len: count, pitch: count }, &mut line[..count], out, to);
        }
    }
}

/// What a tap reads at some positions of a piece, the same for every channel: runs of a plane.
struct Parts {
    list: [Part; FEW],
    count: usize,
    step: usize,
}

/// Up to sixteen elements of a plane, or of the border, and their place among the positions.
#[derive(Clone, Copy, Default)]
struct Part {
    /// `None` for border.
    from: Option<usize>,
    to: usize,
    len: usize,
}

impl Parts {
    /// What tap `k` reads at the positions `places` of a piece, counted along its rows, which begin
    /// with row `top` of the output and have the given columns.
    #[inline(always)]
    fn of(s: &ConvSpec, (top, columns): (usize, &Range<usize>), places: Range<usize>, k: [usize; 2]) -> Parts {
        let [_, height, wide] = s.input;
        let at = |axis: usize, place: usize, k: usize| {
            (place * s.stride[axis] + k * s.dilation[axis]) as isize - s.pad_before[axis] as isize
        };
        let (left, step, len) = (at(2, columns.start, k[1]), s.stride[2], columns.len());
        // Columns inside the image.
        let low = left.min(0).unsigned_abs().div_ceil(step).min(len);
        let high = ((wide as isize - left).max(0) as usize).div_ceil(step).clamp(low, len);
        let mut parts = Parts { list: [Part::default(); FEW], count: 0, step };
        let mut place = places.start;
        while place < places.end {
            let (row, column) = (place / len, place % len);
            let end = len.min(column + (places.end - place).min(16));
            let y = at(1, top + row, k[0]);
            let inside = if (0..height as isize).contains(&y) { low..high } else { 0..0 };
            let end = [inside.start, inside.end, end].into_iter().filter(|e| *e > column).min().unwrap_or(end).min(end);
            let from = inside
                .contains(&column)
                .then(|| (y as usize * wide).wrapping_add_signed(left + (column * step) as isize));
            parts.list[parts.count] = Part { from, to: place - places.start, len: end - column };
            parts.count += 1;
            place += end - column;
        }
        parts
    }

    /// Packs these elements of all planes of `size` elements: a row of [`FEW`] for each plane. What
    /// is behind them in a row is not defined.
    #[inline(always)]
    fn pack<I: Isa>(&self, isa: I, x: &[f32], size: usize, to: &mut [f32]) {
        let (list, planes) = (&self.list[..self.count], x.len() / size);
        // Planes of which whole vectors can be read.
        let furthest = list.iter().filter_map(|p| p.from).max().unwrap_or(0) + 16;
        let whole = if self.step == 1 { (x.len() + size).saturating_sub(furthest) / size } else { 0 };
        let whole = whole.min(planes);
        assert!(to.len() >= planes * FEW + 16 && list.iter().all(|p| p.to < FEW));
        for c in 0..whole {
            for part in list {
                let v = match part.from {
                    // SAFETY: `c` is below the number of planes of which sixteen elements can be
                    // read from the furthest part on.
                    Some(from) => isa.load(unsafe { &*x.as_ptr().add(c * size + from).cast() }),
                    None => isa.splat(0.0),
                };
                // SAFETY: a part begins within its row, and sixteen elements follow the last row.
                isa.store(v, unsafe { &mut *to.as_mut_ptr().add(c * FEW + part.to).cast() });
            }
        }
        for c in whole..planes {
            let x = &x[c * size..][..size];
            for part in list {
                let to = &mut to[c * FEW + part.to..][..part.len];
                match part.from {
                    Some(from) => to.iter_mut().zip(x[from..].iter().step_by(self.step)).for_each(|(t, v)| *t = *v),
                    None => to.fill(0.0),
                }
            }
        }
    }
}

/// Copies `len` elements by whole vectors where both sides have them. What is written beyond `len`
/// is overwritten later or never read.
#[inline(always)]
fn copy(from: &[f32], len: usize, to: &mut [f32]) {
    let mut at = 0;
    while at < len {
        match (from[at..].first_chunk::<16>(), to[at..].first_chunk_mut::<16>()) {
            (Some(from), Some(to)) => *to = *from,
            _ => to[at..len].copy_from_slice(&from[at..len]),
        }
        at += 16;
    }
}
