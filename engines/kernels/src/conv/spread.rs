//! Transposed convolutions of groups with few output channels, in single precision. Each position
//! of the input adds its window, the filter weighted by its channels, to the result. Windows are
//! rows of the filter, so wide ones (the upsampling of segmentation models) are whole vectors,
//! however few channels there are.
//!
//! With few input channels, each window is added at once. With many, a product first gives the
//! windows of all positions of a row of the input.
//!
//! A unit is a band of rows of one output channel. The order of a sum is that of the rows of the
//! input, the columns, and the channels in a window, so its bits depend on no unit.
use crate::conv::finish::{Runs, finish};
use crate::conv::spec::ConvSpec;
use crate::gemm::Epilogue;
use crate::gemm::micro::{Left, Strided, tile, uncrowded};
use crate::scratch::with_scratch;
use crate::simd::isa::{Isa, Work, dispatch};
use crate::simd::turn::{load, turn};
use crate::view::Out;
use std::ops::Range;

#[cfg(test)]
mod tests;

/// Most output channels of a group: with more, the registers of other plans are full.
const FEW: usize = 4;
/// Most input channels of a group whose windows are added at once.
const AT_ONCE: usize = 6;
/// Fewest columns of a window that is added at once.
const WIDE: usize = 8;
/// Multiply-adds that a unit should have.
const GRAIN: usize = 384 * 1024;
/// Number of units that keeps the cores of a device busy, if there is enough work.
const WANTED: usize = 24;
/// Most elements of a band, and of the windows of a row of the input.
const MOST: usize = 1 << 22;

/// A planned transposed convolution by windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spread {
    /// Height and width of the result.
    out: [usize; 2],
    /// Output rows of a unit.
    rows: usize,
}

impl Spread {
    /// The plan; `None` if the convolution does not suit.
    pub(crate) fn plan(s: &ConvSpec, [depth, height, width]: [usize; 3]) -> Option<Spread> {
        let flat = s.input[0] == 1 && s.kernel[0] == 1 && depth == 1 && s.stride[0] == 1;
        let (cin, own) = (s.channels_in / s.groups, s.channels_out / s.groups);
        let close = s.dilation[1] == 1 && s.dilation[2] == 1;
        let suits = flat && close && s.transposed.is_some() && (1..=FEW).contains(&own) && !s.input.contains(&0);
        // Narrow windows are left to plans whose vectors are positions.
        let wide = s.kernel[2] >= if cin <= AT_ONCE { WIDE } else { 2 * WIDE };
        if !suits || !wide || cin == 0 || height * width == 0 {
            return None;
        }
        // Rows of a unit, whole steps. Rows of the input that two bands read are multiplied twice.
        let images = s.batch.saturating_mul(s.channels_out).max(1);
        let work = s.input[1].saturating_mul(s.input[2]).saturating_mul(s.taps()).saturating_mul(cin);
        let wanted = (work.saturating_mul(images) / GRAIN).clamp(1, WANTED).div_ceil(images);
        let most = height.div_ceil((4 * s.kernel[1]).max(1)).max(1);
        let rows = height.div_ceil(wanted.min(most)).next_multiple_of(s.stride[1]);
        let spread = Spread { out: [height, width], rows };
        let room = spread.line(s).checked_mul(rows)?.max(s.input[2].checked_mul(s.taps())?);
        (room <= MOST).then_some(spread)
    }

    /// Bands of an output channel.
    fn bands(&self) -> usize {
        self.out[0].div_ceil(self.rows)
    }

    /// Number of units of work.
    pub(crate) fn units(&self, s: &ConvSpec) -> usize {
        s.batch * s.channels_out * self.bands()
    }

    /// Elements of a row of a band with its border: all columns that windows reach.
    fn line(&self, s: &ConvSpec) -> usize {
        let reached = (s.input[2] - 1) * s.stride[2] + s.kernel[2];
        reached.max(s.pad_before[2] + self.out[1]).next_multiple_of(16)
    }

    /// Computes the units.
    pub(crate) fn run(
        &self,
        s: &ConvSpec,
        units: Range<usize>,
        (x, w): (&[f32], &[f32]),
        epilogue: &Epilogue<'_, f32>,
        out: &mut Out<'_, f32>,
    ) {
        let cin = s.channels_in / s.groups;
        let windows = (s.input[2] * s.taps().next_multiple_of(16)).next_multiple_of(16);
        let (windows, columns) = if cin <= AT_ONCE { (0, 0) } else { (windows, s.input[2] * uncrowded(cin)) };
        with_scratch(windows + columns + self.rows * self.line(s), |scratch| {
            let (windows, scratch) = scratch.split_at_mut(windows);
            let (columns, band) = scratch.split_at_mut(columns);
            for unit in units {
                dispatch(Unit { spread: self, s, unit, x, w, epilogue, out, windows, columns, band });
            }
        });
    }
}

struct Unit<'p, 'a, 'o> {
    spread: &'p Spread,
    s: &'p ConvSpec,
    unit: usize,
    x: &'a [f32],
    w: &'a [f32],
    epilogue: &'p Epilogue<'a, f32>,
    out: &'p mut Out<'o, f32>,
    windows: &'p mut [f32],
    columns: &'p mut [f32],
    band: &'p mut [f32],
}

impl Work for Unit<'_, '_, '_> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let Unit { spread, s, unit, x, w, epilogue, out, windows, columns, band } = self;
        let (cin, own, taps) = (s.channels_in / s.groups, s.channels_out / s.groups, s.taps());
        let ([_, height, width], [_, high, wide]) = (s.input, s.kernel);
        let ([_, step, _], size) = (s.stride, height * width);
        let (rest, at) = (unit / spread.bands(), unit % spread.bands());
        let (n, channel) = (rest / s.channels_out, rest % s.channels_out);
        let (group, o) = (channel / own, channel % own);
        let x = &x[(n * s.channels_in + group * cin) * size..][..cin * size];
        let w = &w[group * cin * own * taps + o * taps..];
        // Rows of the result with the border in front.
        let first = at * spread.rows + s.pad_before[1];
        let last = (first + spread.rows).min(spread.out[0] + s.pad_before[1]);
        let line = spread.line(s);
        let band = &mut band[..(last - first) * line];
        band.fill(0.0);
        // Rows of the input whose windows reach the band.
        let from = (first + 1).saturating_sub(high).div_ceil(step);
        for y in from..last.div_ceil(step).min(height) {
            let top = y * step;
            let (low, end) = (first.saturating_sub(top).min(high), (last - top).min(high));
            if cin <= AT_ONCE {
                for ky in low..end {
                    let to = &mut band[(top + ky - first) * line..][..line];
                    for c in 0..cin {
                        let x = &x[c * size + y * width..][..width];
                        add_at_once(isa, x, &w[c * own * taps + ky * wide..][..wide], s.stride[2], to);
                    }
                }
                continue;
            }
            let (pitch, wanted) = (uncrowded(cin), (end - low) * wide);
            channels_innermost(isa, &x[y * width..], (cin, size, width), pitch, columns);
            // The last vectors of the filter may end behind its rows: these read what follows.
            let panels = wanted / 16;
            let each = taps.next_multiple_of(16);
            let b = Strided { data: &w[low * wide..], row: own * taps, panel: 16 };
            let a = Left { data: &*columns, stride: pitch };
            tile::<I, _, MR, NP, N4, N1>(isa, (width, panels, cin), a, b, windows, each, true);
            for k in panels * 16..wanted {
                single(&w[low * wide + k..], own * taps, &*columns, (pitch, cin), &mut windows[k..], each);
            }
            for (i, windows) in windows.chunks_exact(each).take(width).enumerate() {
                for (r, window) in windows[..wanted].chunks_exact(wide).enumerate() {
                    let to = &mut band[(top + low + r - first) * line + i * s.stride[2]..][..wide];
                    add(window, to);
                }
            }
        }
        let (count, len) = (last - first, spread.out[1]);
        let to = ((n * s.channels_out + channel) * spread.out[0] + at * spread.rows) * len;
        // The last row of the band ends with the band, so that all rows have the same distance.
        let sums = &mut band[s.pad_before[2]..];
        finish(epilogue, channel, Runs { count, len, pitch: line }, sums, out, to);
    }
}

/// Adds the window `w`, weighted by each number of `x`, to `to`, `step` further for each.
#[inline(always)]
fn add_at_once<I: Isa>(isa: I, x: &[f32], w: &[f32], step: usize, to: &mut [f32]) {
    let (whole, rest) = w.as_chunks::<16>();
    for (i, v) in x.iter().enumerate() {
        let to = &mut to[i * step..][..w.len()];
        let (to, last) = to.split_at_mut(whole.len() * 16);
        let weight = isa.splat(*v);
        for (to, w) in to.as_chunks_mut::<16>().0.iter_mut().zip(whole) {
            isa.store(isa.fma(weight, isa.load(w), isa.load(to)), to);
        }
        for (to, w) in last.iter_mut().zip(rest) {
            *to = v.mul_add(*w, *to);
        }
    }
}

/// Adds a window of a product.
#[inline(always)]
fn add(window: &[f32], to: &mut [f32]) {
    #[inline(always)]
    fn vectors<const N: usize>(window: &[f32], to: &mut [f32]) {
        let ((a, rest), (b, last)) = (window.as_chunks::<N>(), to.as_chunks_mut::<N>());
        for (b, a) in b.iter_mut().zip(a) {
            *b = std::array::from_fn(|i| b[i] + a[i]);
        }
        last.iter_mut().zip(rest).for_each(|(b, a)| *b += a);
    }
    if window.len() >= 16 { vectors::<16>(window, to) } else { vectors::<4>(window, to) }
}

/// Turns a row of `width` positions of `cin` channels, which are `size` apart: positions are
/// `pitch` apart, and their channels lie side by side.
#[inline(always)]
fn channels_innermost<I: Isa>(
    isa: I,
    x: &[f32],
    (cin, size, width): (usize, usize, usize),
    pitch: usize,
    to: &mut [f32],
) {
    for c in (0..cin).step_by(16) {
        for i in (0..width).step_by(16) {
            let mut v = [isa.splat(0.0); 16];
            for (k, v) in v.iter_mut().enumerate().take(cin - c) {
                *v = load(isa, &x[(c + k) * size..][..width], i);
            }
            turn(isa, &mut v);
            for (k, v) in v.iter().enumerate().take(width - i) {
                if let Some(to) = to[(i + k) * pitch + c..].first_chunk_mut() {
                    isa.store(*v, to);
                }
            }
        }
    }
}

/// One column of the products, for windows that are not whole vectors.
#[inline(always)]
fn single(w: &[f32], row: usize, columns: &[f32], (pitch, cin): (usize, usize), to: &mut [f32], each: usize) {
    for (to, x) in to.iter_mut().step_by(each).zip(columns.chunks_exact(pitch)) {
        *to = x[..cin].iter().zip(w.iter().step_by(row)).fold(0.0, |s: f32, (x, w)| x.mul_add(*w, s));
    }
}
