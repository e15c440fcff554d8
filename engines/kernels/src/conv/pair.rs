//! Two convolutions in single precision of which the second reads the first: a pointwise one and a
//! depthwise one with a small square window, in either order. The intermediate result is made some
//! rows at a time and never leaves the caches.
//!
//! Depthwise first: a unit is some rows of the result, or an image if it is small. It makes these
//! rows of all planes, which are then the second operand of the product. Pointwise first: a unit is
//! some channels of a band of the image (see `bands.rs`). It moves down the rows and keeps those
//! that the window reads again.
use crate::conv::bands;
use crate::conv::plan::Conv;
use crate::conv::planes::{self, Plane, Shape, Source};
use crate::conv::points::{Tile, limits};
use crate::conv::spec::{ConvError, ConvSpec};
use crate::gemm::{Bias, Epilogue};
use crate::scratch::with_scratch;
use crate::simd::Act;
use crate::simd::isa::{Isa, Work, dispatch};
use crate::view::Out;
use std::ops::Range;

/// Most intermediate elements that a unit holds, so that they stay in the second-level cache.
const MOST_BETWEEN: usize = 96 * 1024;
/// Most weights of the product if each unit reads all of them.
const MOST_WEIGHTS: usize = 128 * 1024;
/// Rows of a depthwise result that are made at a time.
const TOGETHER: usize = 4;
/// Approximate number of columns of a strip.
const COLUMNS: usize = 512;
/// Fewest channels of a unit. Each unit reads all input channels.
const LEAST_BLOCK: usize = 24;
/// Number of units that keeps several cores busy.
const WANTED: usize = 8;
/// Fewest channels of a unit if a unit of more would not stay in the second-level cache.
const TILE: usize = 12;
/// Most positions of a depthwise result whose strips would be narrower than the tiles of the
/// product. The two are then run one after the other for each image.
const SMALL: usize = 64;

/// Two planned convolutions, of which the second reads the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvPair {
    first: ConvSpec,
    second: ConvSpec,
    /// Whether the first is the depthwise one.
    depthwise_first: bool,
    /// Height and width of the intermediate result, and of the result.
    between: [usize; 2],
    out: [usize; 2],
    /// Depthwise rows that are made at a time.
    rows: usize,
    /// Channels of a unit if the product comes first; else all channels.
    block: usize,
    /// Result rows of a unit if the product comes first.
    band: usize,
    /// The two alone, for one small image, which is then a unit.
    alone: Option<Box<[Conv; 2]>>,
}

/// Weights, bias and activation of one of the two convolutions.
#[derive(Clone, Copy, Debug)]
pub struct Half<'a> {
    /// Weights, laid out as `[O, C / groups, ...]`.
    pub w: &'a [f32],
    /// Bias: one number per output channel.
    pub bias: Option<&'a [f32]>,
    /// Activation, applied last.
    pub act: Act,
}

impl<'a> Half<'a> {
    /// The weights of output channel `c`, `taps` of them, and its bias; without one, the number that
    /// adds nothing, to minus zero too.
    fn channel(&self, c: usize, taps: usize) -> (&'a [f32], f32) {
        (&self.w[c * taps..][..taps], self.bias.map_or(-0.0, |b| b[c]))
    }

    /// What finishes its sums.
    fn epilogue(&self, residual: Option<(&'a [f32], f32)>) -> Epilogue<'a, f32> {
        let bias = self.bias.map_or(Bias::None, Bias::PerRow);
        Epilogue { bias, residual, act: self.act, ..Epilogue::default() }
    }
}

/// Whether a convolution is pointwise, with one group and no padding.
fn is_point(s: &ConvSpec) -> bool {
    let plain = s.kernel == [1; 3] && s.stride == [1; 3] && s.pad_before == [0; 3] && s.pad_after == [0; 3];
    plain && s.groups == 1 && s.transposed.is_none() && s.input[0] == 1
}

/// Whether a convolution has one input and one output channel per group, and a small window.
fn is_plane(s: &ConvSpec) -> bool {
    planes::takes(s) && s.groups == s.channels_in && s.channels_out == s.channels_in
}

/// Whether `count` rows at such a distance map to few cache sets.
fn is_crowded(distance: usize, count: usize) -> bool {
    distance.is_multiple_of(512) && count > 8
}

/// Distance between planes of `len` elements so that they map to different cache sets.
fn apart(len: usize) -> usize {
    let len = len.next_multiple_of(16);
    if len.is_multiple_of(256) { len + 16 } else { len }
}

impl ConvPair {
    /// Makes a plan. `None` if the two are not such a pair, or if their weights would not stay in
    /// the caches. Whether there is one does not depend on the sizes of the images.
    ///
    /// # Errors
    /// Fails if the sizes of one of them are wrong ([`ConvSpec::check`]).
    pub fn new(first: &ConvSpec, second: &ConvSpec) -> Result<Option<ConvPair>, ConvError> {
        first.check()?;
        second.check()?;
        let ([_, high, wide], [_, height, width]) = (first.output()?, second.output()?);
        let joined = second.input == [1, high, wide]
            && second.channels_in == first.channels_out
            && second.batch == first.batch
            && [first.channels_in, first.channels_out, second.channels_out, height, width].iter().all(|n| *n > 0);
        let depthwise_first = is_plane(first) && is_point(second);
        if !joined || !(depthwise_first || is_point(first) && is_plane(second)) {
            return Ok(None);
        }
        let plan = ConvPair {
            first: first.clone(),
            second: second.clone(),
            depthwise_first,
            between: [high, wide],
            out: [height, width],
            rows: TOGETHER,
            block: second.channels_out,
            band: bands::rows(second.batch, [height, width]),
            alone: None,
        };
        if !plan.takes_weights() {
            return Ok(None);
        }
        if depthwise_first && height * width <= SMALL {
            let one = |s: &ConvSpec| Conv::new(&ConvSpec { batch: 1, ..s.clone() }).map(Conv::in_singles);
            return Ok(Some(ConvPair { alone: Some(Box::new([one(first)?, one(second)?])), ..plan }));
        }
        Ok(Some(plan.divided()))
    }

    /// The pointwise one of the two.
    fn point(&self) -> &ConvSpec {
        if self.depthwise_first { &self.second } else { &self.first }
    }

    /// Whether units can read the weights of the product again and again.
    fn takes_weights(&self) -> bool {
        let (k, m) = (self.point().channels_in, self.point().channels_out);
        !is_crowded(k, m) && (!self.depthwise_first || k.saturating_mul(m) <= MOST_WEIGHTS)
    }

    /// The plan with units that stay in the caches, if there are such.
    fn divided(mut self) -> ConvPair {
        let (channels, [height, width]) = (self.point().channels_out, self.out);
        if self.depthwise_first {
            // At least one row, if it does not stay there either.
            let most = (MOST_BETWEEN / self.row()).max(1);
            // Few rows, if they have enough columns nevertheless.
            let wanted = (COLUMNS / (TOGETHER * width)).max(1) * TOGETHER;
            // Few strips cannot be shared evenly.
            let wanted = if height.div_ceil(wanted) < 2 * WANTED { self.narrow_rows() } else { wanted };
            self.rows = if most < TOGETHER { most } else { wanted.min(most / TOGETHER * TOGETHER) };
            return self;
        }
        // More rows at a time, if there is still memory for the fewest channels that a unit should
        // have.
        let more = ConvPair { rows: 2 * TOGETHER, ..self.clone() };
        if more.room() >= LEAST_BLOCK {
            self = more;
        }
        let most = self.room().max(TILE);
        self.block = channels.div_ceil(WANTED).next_multiple_of(TILE).max(LEAST_BLOCK).min(most);
        self
    }

    /// Rows of a strip of a small image: four, or eight if that leaves fewer columns of vectors
    /// idle and two threads get no more work than before.
    fn narrow_rows(&self) -> usize {
        let [height, width] = self.out;
        let vectors = |rows: usize| (rows * width).div_ceil(16);
        let all = |rows: usize| height / rows * vectors(rows) + vectors(height % rows);
        let later = |rows: usize| (height.div_ceil(rows).div_ceil(2) * rows).min(height);
        let two = 2 * TOGETHER;
        if all(two) < all(TOGETHER) && later(two) <= later(TOGETHER) { two } else { TOGETHER }
    }

    /// Elements of a row of a depthwise intermediate result, in all its channels.
    fn row(&self) -> usize {
        self.first.channels_out.saturating_mul(self.out[1])
    }

    /// Most channels of a unit that stay in the second-level cache if the product comes first.
    fn room(&self) -> usize {
        let plane = self.seen_rows().saturating_mul(self.between[1]).min(MOST_BETWEEN);
        MOST_BETWEEN / apart(plane) / TILE * TILE
    }

    /// Whether the units stay in the caches, and several cores can share them. The plan of a pair
    /// that does not is right for its sizes all the same, but the two alone may be faster.
    pub fn stays(&self) -> bool {
        if self.depthwise_first {
            self.row().saturating_mul(TOGETHER) <= MOST_BETWEEN && self.units() >= 2
        } else {
            let size = self.between[0].saturating_mul(self.between[1]);
            self.room() >= TILE && !is_crowded(size, self.first.channels_in)
        }
    }

    /// Whether the depthwise one is the first.
    pub fn is_depthwise_first(&self) -> bool {
        self.depthwise_first
    }

    /// The same plan with other units. For tests: the result does not depend on them.
    pub fn with_units(mut self, rows: usize, block: usize) -> ConvPair {
        (self.rows, self.alone) = (rows.max(1), None);
        if !self.depthwise_first {
            self.block = block.max(1);
        }
        self
    }

    /// Intermediate rows that [`ConvPair::rows`] rows of a depthwise result read.
    fn seen_rows(&self) -> usize {
        (self.rows - 1) * self.second.stride[1] + self.second.kernel[1]
    }

    /// Number of strips of rows of an image, or of blocks of channels in all its bands.
    fn parts(&self) -> usize {
        if self.alone.is_some() {
            1
        } else if self.depthwise_first {
            self.out[0].div_ceil(self.rows)
        } else {
            self.out[0].div_ceil(self.band) * self.blocks()
        }
    }

    /// Number of blocks of the channels of an image.
    fn blocks(&self) -> usize {
        self.second.channels_out.div_ceil(self.block)
    }

    /// Number of units of work.
    pub fn units(&self) -> usize {
        self.first.batch * self.parts()
    }

    /// Number of elements of the intermediate result.
    pub fn between(&self) -> usize {
        let [high, wide] = self.between;
        self.first.batch * self.first.channels_out * high * wide
    }

    /// Multiply-adds of both convolutions.
    pub fn work(&self) -> u64 {
        let of = |s: &ConvSpec, [h, w]: [usize; 2]| {
            let each = (s.channels_in / s.groups * s.taps()) as u64;
            [s.channels_out, h, w].iter().fold(s.batch as u64 * each, |a, n| a.saturating_mul(*n as u64))
        };
        of(&self.first, self.between).saturating_add(of(&self.second, self.out))
    }

    /// Elements read and written: input, weights and output.
    pub fn moved(&self) -> u64 {
        let (a, b) = (&self.first, &self.second);
        let weights = [a, b].map(|s| s.channels_out * (s.channels_in / s.groups) * s.taps());
        let images = a.channels_in * a.input[1] * a.input[2] + b.channels_out * self.out[0] * self.out[1];
        (a.batch * images + weights[0] + weights[1]) as u64
    }

    fn check(&self, x: usize, halves: [&Half<'_>; 2], residual: Option<&[f32]>, out: usize) -> Result<(), ConvError> {
        let need = |operand, has: usize, needs: usize| {
            if has < needs { Err(ConvError::Short { operand, has, needs }) } else { Ok(()) }
        };
        let (a, b) = (&self.first, &self.second);
        let total = b.batch * b.channels_out * self.out[0] * self.out[1];
        need("input", x, a.batch * a.channels_in * a.input[1] * a.input[2])?;
        need("output", out, total)?;
        for (s, half) in [a, b].into_iter().zip(halves) {
            need("weights", half.w.len(), s.channels_out * (s.channels_in / s.groups) * s.taps())?;
            if let Some(bias) = half.bias {
                need("bias", bias.len(), s.channels_out)?;
            }
        }
        residual.map_or(Ok(()), |r| need("residual", r.len(), total))
    }

    /// Computes the units. `residual` is added before the last activation.
    ///
    /// # Errors
    /// Returns `Short` with the name of the operand.
    pub fn run(
        &self,
        units: Range<usize>,
        x: &[f32],
        [first, second]: [&Half<'_>; 2],
        residual: Option<&[f32]>,
        out: &mut Out<'_, f32>,
    ) -> Result<(), ConvError> {
        self.check(x.len(), [first, second], residual, out.len())?;
        let units = units.start..units.end.min(self.units());
        if let Some(convs) = &self.alone {
            return self.one_after_the_other(convs, units, x, [first, second], residual, out);
        }
        let (high, channels) = if self.depthwise_first {
            (self.rows * self.out[1], self.first.channels_out)
        } else {
            (self.seen_rows() * self.between[1], self.block)
        };
        let step = apart(high);
        with_scratch(channels * step, |between| {
            let rows = Vec::with_capacity(if self.depthwise_first { self.second.channels_out } else { 0 });
            dispatch(Units { plan: self, units, x, first, second, residual, between, step, out, rows });
        });
        Ok(())
    }

    /// Computes whole images.
    fn one_after_the_other(
        &self,
        [a, b]: &[Conv; 2],
        images: Range<usize>,
        x: &[f32],
        [first, second]: [&Half<'_>; 2],
        residual: Option<&[f32]>,
        out: &mut Out<'_, f32>,
    ) -> Result<(), ConvError> {
        let of = |channels: usize, [height, width]: [usize; 2]| channels * height * width;
        let [_, high, wide] = self.first.input;
        let (read, made) = (of(self.first.channels_in, [high, wide]), of(self.second.channels_out, self.out));
        with_scratch(of(self.first.channels_out, self.between), |between| {
            for n in images {
                let residual = residual.map(|r| (&r[n * made..][..made], 1.0));
                let x = &x[n * read..][..read];
                a.run(0..a.units(), x, first.w, &first.epilogue(None), &mut Out::new(between))?;
                let out = &mut Out::new(out.part(n * made, made));
                b.run(0..b.units(), between, second.w, &second.epilogue(residual), out)?;
            }
            Ok(())
        })
    }
}

struct Units<'p, 'a, 'o> {
    plan: &'p ConvPair,
    units: Range<usize>,
    x: &'a [f32],
    first: &'p Half<'a>,
    second: &'p Half<'a>,
    residual: Option<&'a [f32]>,
    between: &'p mut [f32],
    /// Distance between channels of `between`.
    step: usize,
    out: &'p mut Out<'o, f32>,
    /// Pointers to the rows of a strip in the output, by channel.
    rows: Vec<*mut f32>,
}

impl Work for Units<'_, '_, '_> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(mut self, isa: I) {
        for unit in self.units.clone() {
            let (n, part) = (unit / self.plan.parts(), unit % self.plan.parts());
            if self.plan.depthwise_first {
                self.strip::<I, MR, NP>(isa, n, part);
            } else {
                self.channels::<I, MR, NP>(isa, n, part);
            }
        }
    }
}

impl Units<'_, '_, '_> {
    /// Computes some result rows of image `n`; the depthwise convolution is the first.
    #[inline(always)]
    fn strip<I: Isa, const MR: usize, const NP: usize>(&mut self, isa: I, n: usize, part: usize) {
        let p = self.plan;
        let (s, [height, width]) = (&p.first, p.out);
        let [_, high, wide] = s.input;
        let (k, m, y) = (s.channels_out, p.second.channels_out, part * p.rows);
        let len = p.rows.min(height - y) * width;
        let (low, later) = limits(self.first.act);
        // The part of a plane that the rows read.
        let seen = [y, y + len / width - 1].map(|y| (y * s.stride[1]).saturating_sub(s.pad_before[1]));
        let seen = seen[0] * wide..((seen[1] + s.kernel[1]) * wide).min(high * wide);
        let shape = Shape {
            size: (high, wide),
            pad: (s.pad_before[1] as isize, s.pad_before[2] as isize),
            window: (s.kernel[1], s.stride[1]),
            alpha: 1.0,
            limits: low,
            first: y,
            rows: len / width,
            width,
        };
        let x = &self.x[n * k * high * wide..][..k * high * wide];
        let (half, between) = (self.first, &mut *self.between);
        let (size, taps, step) = (high * wide, s.taps(), self.step);
        shape.run(k, false, &mut Given { isa, x, size, seen, half, taps, between, step, len });
        if let Some(act) = later {
            for out in self.between.chunks_exact_mut(self.step).take(k) {
                act.apply(&mut out[..len]);
            }
        }
        let (limits, later) = limits(self.second.act);
        let at = n * m * height * width + y * width;
        let tile = Tile {
            k,
            n: len,
            x_step: self.step,
            // With registers for one vector of each row, what a cell reads does not stay in the
            // nearest cache otherwise.
            is_strip: NP == 1,
            m,
            w: self.second.w,
            x: self.between,
            alpha: 1.0,
            bias: self.second.bias,
            residual: self.residual.map(|r| (&r[at..], height * width, 1.0)),
            limits,
            later,
        };
        self.rows.clear();
        self.rows.extend((0..m).map(|o| self.out.part(at + o * height * width, len).as_mut_ptr()));
        // SAFETY: each part has `len` elements.
        unsafe { tile.run::<I, MR, NP>(isa, len, |i| self.rows[i]) };
    }

    /// Computes some channels of image `n`; the product is the first.
    #[inline(always)]
    fn channels<I: Isa, const MR: usize, const NP: usize>(&mut self, isa: I, n: usize, part: usize) {
        let p = self.plan;
        let (s, [height, width], [high, wide]) = (&p.second, p.out, p.between);
        let (k, size) = (p.first.channels_in, high * wide);
        let (band, block) = (part / p.blocks(), part % p.blocks());
        let o = block * p.block..((block + 1) * p.block).min(s.channels_out);
        let last = ((band + 1) * p.band).min(height);
        let x = &self.x[n * k * size..][..k * size];
        let (low, later) = limits(self.first.act);
        let (second_limits, second_later) = limits(self.second.act);
        // The intermediate rows that are present.
        let mut there = 0..0;
        for y in (band * p.band..last).step_by(p.rows) {
            let rows = p.rows.min(last - y);
            let top = (y * s.stride[1]).saturating_sub(s.pad_before[1]).min(high);
            let end = ((y + rows - 1) * s.stride[1] + s.kernel[1]).saturating_sub(s.pad_before[1]).clamp(top, high);
            let kept = top.max(there.start)..there.end.max(top).min(end);
            if !kept.is_empty() {
                let from = (kept.start - there.start) * wide..(kept.end - there.start) * wide;
                for plane in self.between.chunks_exact_mut(self.step).take(o.len()) {
                    plane.copy_within(from.clone(), (kept.start - top) * wide);
                }
            }
            let fresh = kept.end..end;
            if !fresh.is_empty() {
                let columns = fresh.len() * wide;
                let tile = Tile {
                    k,
                    n: columns,
                    x_step: size,
                    is_strip: false,
                    m: o.len(),
                    w: &self.first.w[o.start * k..],
                    x: &x[fresh.start * wide..],
                    alpha: 1.0,
                    bias: self.first.bias.map(|b| &b[o.clone()]),
                    residual: None,
                    limits: low,
                    later,
                };
                let at = (fresh.start - top) * wide;
                assert!(at + columns <= self.step && o.len() * self.step <= self.between.len());
                let base = self.between[at..].as_mut_ptr();
                // SAFETY: planes have `step` elements, of which these columns are some.
                unsafe { tile.run::<I, MR, NP>(isa, columns, |i| base.wrapping_add(i * self.step)) };
            }
            there = top..end;
            let shape = Shape {
                size: (there.len(), wide),
                pad: (s.pad_before[1] as isize + top as isize, s.pad_before[2] as isize),
                window: (s.kernel[1], s.stride[1]),
                alpha: 1.0,
                limits: second_limits,
                first: y,
                rows,
                width,
            };
            let mut made = Made {
                between: self.between,
                step: self.step,
                seen: there.len() * wide,
                first: o.start,
                half: self.second,
                taps: s.taps(),
                residual: self.residual,
                out: self.out,
                at: ((n * s.channels_out + o.start) * height + y) * width,
                size: height * width,
                len: rows * width,
            };
            shape.run(o.len(), self.residual.is_some(), &mut made);
            if let Some(act) = second_later {
                for i in 0..o.len() {
                    act.apply(made.plane(i).out);
                }
            }
        }
    }
}

/// Planes of the input, whose results are the intermediate ones.
struct Given<'p, I> {
    isa: I,
    /// The planes, one after the other, and the number of elements of each.
    x: &'p [f32],
    size: usize,
    /// The part of a plane that the rows read.
    seen: Range<usize>,
    half: &'p Half<'p>,
    taps: usize,
    between: &'p mut [f32],
    /// Distance between the results of two planes, and the number of elements of each result.
    step: usize,
    len: usize,
}

impl<I: Isa> Source for Given<'_, I> {
    #[inline(always)]
    fn plane(&mut self, i: usize) -> Plane<'_> {
        let size = self.size;
        let x = &self.x[i * size..][..size];
        // The next plane is too far away for the hardware to predict. A prefetch beyond the image
        // is harmless.
        for at in self.seen.clone().step_by(16) {
            self.isa.fetch(x.as_ptr().wrapping_add(size + at));
        }
        let (w, shift) = self.half.channel(i, self.taps);
        Plane { x, w, shift, residual: None, out: &mut self.between[i * self.step..][..self.len] }
    }
}

/// Planes of the intermediate result, whose results are those of the pair.
struct Made<'p, 'o> {
    between: &'p [f32],
    /// Distance between two planes, and the number of elements present in each.
    step: usize,
    seen: usize,
    /// The channel of the first plane.
    first: usize,
    half: &'p Half<'p>,
    taps: usize,
    residual: Option<&'p [f32]>,
    out: &'p mut Out<'o, f32>,
    /// Where the results of the first plane begin, the distance between two planes there, and the
    /// number of elements of each result.
    at: usize,
    size: usize,
    len: usize,
}

impl Source for Made<'_, '_> {
    #[inline]
    fn plane(&mut self, i: usize) -> Plane<'_> {
        let (c, at) = (self.first + i, self.at + i * self.size);
        let (w, shift) = self.half.channel(c, self.taps);
        Plane {
            x: &self.between[i * self.step..][..self.seen],
            w,
            shift,
            residual: self.residual.map(|r| (&r[at..at + self.len], 1.0)),
            out: self.out.part(at, self.len),
        }
    }
}

#[cfg(test)]
mod tests;
