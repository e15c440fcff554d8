//! Depthwise convolutions of small images in single precision. Sixteen channels are the lanes of a
//! vector, so that registers are full however short the result rows are. Sixteen planes of the
//! input are transposed into one plane of vectors with a border of zeros, and the result is
//! transposed back.
use crate::conv::points::limits;
use crate::conv::spec::ConvSpec;
use crate::gemm::{Bias, Epilogue};
use crate::simd::isa::{Isa, Work};
use crate::simd::turn::{load, put, turn};
use crate::view::Out;
use std::ops::Range;

/// Lanes of a vector.
pub(crate) const LANES: usize = 16;
/// Most positions of the padded plane, so that its vectors stay in the second-level cache.
const PLACES: usize = 1024;
/// Positions of a result row that are computed at a time; half as many where that is enough. Their
/// sums and the weights of a tap fill the registers of AVX-512.
const TOGETHER: usize = 8;
/// The same where a vector takes two registers of sixteen.
const FEWER: usize = 4;
/// Most positions beyond whole vectors that are copied one by one.
const ALONE: usize = 2;
/// Approximate cycles to transpose sixteen vectors: read, interleave, write.
const TURN: usize = 115;

/// The plan of such a convolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lanes {
    /// Height and width: of the input, of the padded input, and of the result.
    input: [usize; 2],
    bordered: [usize; 2],
    out: [usize; 2],
    stride: [usize; 2],
    /// Offset of each tap from the first of its window, in positions of the padded plane.
    taps: Vec<u32>,
    /// The taps that are not in the border for all positions of a result row, for each row.
    inside: Vec<Range<u32>>,
    /// Position of each input element in the padded plane.
    spots: Vec<u32>,
}

impl Lanes {
    /// The plan. `None` unless there are at least sixteen groups of one input and one output
    /// channel, and images are small and two-dimensional.
    pub(crate) fn new(s: &ConvSpec, out: [usize; 3]) -> Option<Lanes> {
        let flat = s.input[0] == 1 && s.kernel[0] == 1 && s.pad_before[0] == 0 && s.pad_after[0] == 0;
        let own = s.channels_in == s.groups && s.channels_out == s.groups;
        let bordered = [1, 2].map(|a| s.input[a].saturating_add(s.pad_before[a]).saturating_add(s.pad_after[a]));
        let few = bordered[0].saturating_mul(bordered[1]) <= PLACES;
        if !flat || !own || !few || s.transposed.is_some() || s.groups < LANES {
            return None;
        }
        let tap = |t: usize| {
            let (y, x) = (t / s.kernel[2], t % s.kernel[2]);
            (y * s.dilation[1] * bordered[1] + x * s.dilation[2]) as u32
        };
        let [above, left] = [s.pad_before[1], s.pad_before[2]];
        let inside = |y: usize| {
            let row_of = |k: usize| y * s.stride[1] + k * s.dilation[1];
            let first = (0..s.kernel[1]).take_while(|k| row_of(*k) < above).count();
            let end = (0..s.kernel[1]).take_while(|k| row_of(*k) < above + s.input[1]).count();
            (first * s.kernel[2]) as u32..(end.max(first) * s.kernel[2]) as u32
        };
        let spots = (0..s.input[1]).flat_map(|y| (0..s.input[2]).map(move |x| (y, x)));
        Some(Lanes {
            input: [s.input[1], s.input[2]],
            bordered,
            out: [out[1], out[2]],
            stride: [s.stride[1], s.stride[2]],
            taps: (0..s.taps()).map(tap).collect(),
            inside: (0..out[1]).map(inside).collect(),
            spots: spots.map(|(y, x)| ((y + above) * bordered[1] + x + left) as u32).collect(),
        })
    }

    /// Approximate cycles for sixteen channels of an image.
    pub(crate) fn cost(&self) -> usize {
        let row = self.out[1].next_multiple_of(TOGETHER / 2);
        let sums: usize = self.inside.iter().map(|taps| taps.len() * 5 / 4 + 4).sum();
        let turns = self.places(self.input).div_ceil(LANES)
            + self.places(self.out).div_ceil(LANES)
            + self.taps.len().div_ceil(LANES);
        row * sums + turns * TURN + 150
    }

    /// Vectors of the padded plane, and of what is read after it.
    fn plane(&self) -> usize {
        self.places(self.bordered) + TOGETHER * self.stride[1]
    }

    fn places(&self, size: [usize; 2]) -> usize {
        size[0] * size[1]
    }

    /// Clears what units read of working memory and never write.
    pub(crate) fn clear_border(&self, scratch: &mut [f32]) {
        scratch[..self.plane() * LANES].fill(0.0);
    }

    /// Elements of working memory.
    pub(crate) fn scratch(&self) -> usize {
        let taps = self.taps.len().next_multiple_of(LANES);
        (self.plane() + taps + self.places(self.out) + LANES) * LANES
    }
}

/// Some channels of one image, beginning at a multiple of sixteen.
pub(crate) struct Unit<'p, 'a, 'o> {
    pub(crate) plan: &'p Lanes,
    pub(crate) n: usize,
    pub(crate) channels: Range<usize>,
    /// Number of channels of the convolution.
    pub(crate) all: usize,
    pub(crate) x: &'a [f32],
    pub(crate) w: &'a [f32],
    pub(crate) epilogue: &'p Epilogue<'a, f32>,
    pub(crate) out: &'p mut Out<'o, f32>,
    /// [`Lanes::scratch`] elements, after [`Lanes::clear_border`]. The padded plane comes first.
    pub(crate) scratch: &'p mut [f32],
}

impl Work for Unit<'_, '_, '_> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let p = self.plan;
        let (size_in, size_out) = (p.places(p.input), p.places(p.out));
        let (plane, rest) = self.scratch.split_at_mut(p.plane() * LANES);
        let (taps, sums) = rest.split_at_mut(p.taps.len().next_multiple_of(LANES) * LANES);
        let ((low, high), later) = limits(self.epilogue.act);
        let (low, high) = (isa.splat(low), isa.splat(high));
        // It is only ever borrowed: sixteen vectors of AVX2 are more than the registers, and giving
        // them on would copy them.
        let mut v = [isa.splat(0.0); LANES];
        for first in self.channels.clone().step_by(LANES) {
            let own = LANES.min(self.channels.end - first);
            let x = &self.x[(self.n * self.all + first) * size_in..];
            let whole = if size_in % LANES <= ALONE { size_in / LANES * LANES } else { size_in };
            for from in (0..whole).step_by(LANES) {
                rows(isa, x, (own, size_in), from, &mut v);
                turn(isa, &mut v);
                // Sixteen of them stay in registers.
                if let Some(spots) = p.spots[from..].first_chunk::<LANES>() {
                    for (v, spot) in v.iter().zip(spots) {
                        store(isa, *v, plane, *spot as usize);
                    }
                    continue;
                }
                for (v, spot) in v.iter().zip(&p.spots[from..]) {
                    store(isa, *v, plane, *spot as usize);
                }
            }
            for at in whole..size_in {
                let to = &mut plane[p.spots[at] as usize * LANES..][..LANES];
                for (to, from) in to.iter_mut().zip(x[at..].iter().step_by(size_in)).take(own) {
                    *to = *from;
                }
            }
            let count = p.taps.len();
            for from in (0..count).step_by(LANES) {
                rows(isa, &self.w[first * count..], (own, count), from, &mut v);
                turn(isa, &mut v);
                for (v, tap) in v.iter().zip(from..) {
                    store(isa, *v, taps, tap);
                }
            }
            let places = Places { plan: p, plane, taps };
            match p.stride[1] {
                1 => places.rows::<I, MR, 1>(isa, sums),
                2 => places.rows::<I, MR, 2>(isa, sums),
                _ => places.rows::<I, MR, 0>(isa, sums),
            }
            let mut shift = [-0.0; LANES];
            if let Bias::PerRow(b) = self.epilogue.bias {
                shift[..own].copy_from_slice(&b[first..first + own]);
            }
            let at = (self.n * self.all + first) * size_out;
            let residual = self.epilogue.residual.map(|(r, factor)| (&r[at..at + own * size_out], isa.splat(factor)));
            let out = self.out.part(at, own * size_out);
            let finish = Finish { shift: isa.load(&shift), alpha: isa.splat(self.epilogue.alpha), low, high };
            for from in (0..size_out).step_by(LANES) {
                // The last positions again rather than fewer than sixteen.
                let from = if size_out >= LANES { from.min(size_out - LANES) } else { from };
                finish.turned(isa, sums, from, &mut v);
                let here = LANES.min(size_out - from);
                if own == LANES && here == LANES && residual.is_none() {
                    let mut rest = &mut out[from..];
                    for v in &v {
                        if let Some(to) = rest.first_chunk_mut() {
                            isa.store(finish.limited(isa, *v), to);
                        }
                        rest = rest.get_mut(size_out..).unwrap_or_default();
                    }
                    continue;
                }
                for (c, v) in v.iter().enumerate().take(own) {
                    let (mut v, to) = (*v, c * size_out + from);
                    if let Some((r, factor)) = residual {
                        v = isa.fma(load(isa, r, to), factor, v);
                    }
                    put(isa, finish.limited(isa, v), &mut out[to..to + here]);
                }
            }
            if let Some(act) = later {
                act.apply(out);
            }
        }
    }
}

/// What follows the sums of sixteen channels.
struct Finish<I: Isa> {
    shift: I::V,
    alpha: I::V,
    low: I::V,
    high: I::V,
}

impl<I: Isa> Finish<I> {
    /// Sixteen positions from `from` on, shifted: a vector for each channel.
    #[inline(always)]
    fn turned(&self, isa: I, sums: &[f32], from: usize, v: &mut [I::V; LANES]) {
        for (v, sum) in v.iter_mut().zip(&sums.as_chunks::<LANES>().0[from..]) {
            // Adding -0.0 changes nothing, not even the sign of zero.
            *v = isa.add(isa.fma(isa.load(sum), self.alpha, isa.splat(-0.0)), self.shift);
        }
        turn(isa, v);
    }

    #[inline(always)]
    fn limited(&self, isa: I, v: I::V) -> I::V {
        isa.at_most(isa.at_least(v, self.low), self.high)
    }
}

/// The sums of sixteen channels of an image.
struct Places<'a> {
    plan: &'a Lanes,
    plane: &'a [f32],
    taps: &'a [f32],
}

/// Some taps of the windows: offsets and weights.
#[derive(Clone, Copy)]
struct Taps<'a> {
    at: &'a [u32],
    w: &'a [[f32; LANES]],
}

impl Places<'_> {
    /// Computes all positions with an instruction set whose register tile has `MR` rows. `S` is the
    /// distance of columns; if it is zero, the plan tells the distance.
    #[inline(always)]
    fn rows<I: Isa, const MR: usize, const S: usize>(&self, isa: I, sums: &mut [f32]) {
        if MR >= TOGETHER {
            self.all::<I, TOGETHER, { TOGETHER / 2 }, S>(isa, sums);
        } else {
            self.all::<I, FEWER, { FEWER / 2 }, S>(isa, sums);
        }
    }

    /// Computes all positions, `N` at a time, or `HALF`. What is computed beyond a row is
    /// overwritten by the next one.
    #[inline(always)]
    fn all<I: Isa, const N: usize, const HALF: usize, const S: usize>(&self, isa: I, sums: &mut [f32]) {
        let p = self.plan;
        for (y, inside) in p.inside.iter().enumerate() {
            let inside = inside.start as usize..inside.end as usize;
            let taps = Taps { at: &p.taps[inside.clone()], w: &self.taps.as_chunks().0[inside] };
            let mut x = 0;
            while x < p.out[1] {
                let at = (y * p.stride[0] * p.bordered[1] + x * p.stride[1], y * p.out[1] + x);
                if p.out[1] - x > HALF {
                    self.some::<I, N, S>(isa, at, taps, sums);
                    x += N;
                } else {
                    self.some::<I, HALF, S>(isa, at, taps, sums);
                    x += HALF;
                }
            }
        }
    }

    /// Computes `N` adjacent positions of a row. The first is at `at.0` in the padded plane and at
    /// `at.1` in the result.
    #[inline(always)]
    fn some<I: Isa, const N: usize, const S: usize>(
        &self,
        isa: I,
        at: (usize, usize),
        taps: Taps<'_>,
        sums: &mut [f32],
    ) {
        let step = if S == 0 { self.plan.stride[1] } else { S };
        let seen = &self.plane.as_chunks::<LANES>().0[at.0..];
        let mut acc = [isa.splat(0.0); N];
        for (tap, w) in taps.at.iter().zip(taps.w) {
            let w = isa.load(w);
            let seen = &seen[*tap as usize..][..(N - 1) * step + 1];
            for (i, acc) in acc.iter_mut().enumerate() {
                *acc = isa.fma(w, isa.load(&seen[i * step]), *acc);
            }
        }
        for (v, to) in acc.into_iter().zip(&mut sums.as_chunks_mut::<LANES>().0[at.1..]) {
            isa.store(v, to);
        }
    }
}

/// Sixteen elements beginning at `from` of each of `own` rows, `pitch` apart. A row that has fewer
/// elements is filled up with elements of other rows or zeros; missing rows are zero.
#[inline(always)]
fn rows<I: Isa>(isa: I, x: &[f32], (own, pitch): (usize, usize), from: usize, v: &mut [I::V; LANES]) {
    if own == LANES && x.len() >= (LANES - 1) * pitch + from + LANES {
        // Sixteen of them stay in registers.
        let mut rest = &x[from..];
        for v in v {
            if let Some(here) = rest.first_chunk() {
                *v = isa.load(here);
            }
            rest = rest.get(pitch..).unwrap_or_default();
        }
        return;
    }
    for (row, v) in v.iter_mut().enumerate() {
        *v = if row < own { load(isa, x, row * pitch + from) } else { isa.splat(0.0) };
    }
}

#[inline(always)]
fn store<I: Isa>(isa: I, v: I::V, to: &mut [f32], vector: usize) {
    if let Some(to) = to[vector * LANES..].first_chunk_mut() {
        isa.store(v, to);
    }
}
