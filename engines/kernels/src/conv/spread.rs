//! Transposed convolutions of groups with few output channels, in single precision. Each position
//! of the input adds its window, the filter weighted by its channels, to the result. Windows are
//! rows of the filter, so wide ones (the upsampling of segmentation models) are whole vectors,
//! however few channels there are.
//!
//! With few input channels, each window is added at once. With many, a product first gives the
//! windows of all positions of a row of the input. Windows that do not overlap are then added one
//! after the other, before those between them.
//!
//! A unit is a band of rows of the output channels of a group. The order of a sum is that of the
//! rows of the input, the columns in that order, and the channels in a window, so its bits depend
//! on no unit.
use crate::conv::finish::{Runs, finish};
use crate::conv::spec::ConvSpec;
use crate::gemm::Epilogue;
use crate::gemm::micro::{Left, Strided, tile, uncrowded};
use crate::layout::squares::turned;
use crate::scratch::with_scratch;
use crate::simd::isa::{Isa, Work, dispatch};
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
/// Channels whose rows are turned together.
const TURNED: usize = 16;
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
        if !suits || cin == 0 || height * width == 0 || !pays(s, cin, own) {
            return None;
        }
        // Rows of a unit, whole steps. Rows of the input that two bands read are multiplied twice.
        let images = s.batch.saturating_mul(s.groups).max(1);
        let work = s.input[1].saturating_mul(s.input[2]).saturating_mul(s.taps()).saturating_mul(cin * own);
        let wanted = (work.saturating_mul(images) / GRAIN).clamp(1, WANTED).div_ceil(images);
        let most = height.div_ceil((4 * s.kernel[1]).max(1)).max(1);
        let rows = height.div_ceil(wanted.min(most)).next_multiple_of(s.stride[1]);
        let spread = Spread { out: [height, width], rows };
        let windows = s.input[2].max(own.checked_mul(cin)?).checked_mul(window_len(s))?;
        let room = spread.line(s).checked_mul(rows)?.checked_mul(own)?.max(windows);
        (room <= MOST).then_some(spread)
    }

    /// Bands of an image.
    fn bands(&self) -> usize {
        self.out[0].div_ceil(self.rows)
    }

    /// Number of units of work.
    pub(crate) fn units(&self, s: &ConvSpec) -> usize {
        s.batch * s.groups * self.bands()
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
        let (cin, own) = (s.channels_in / s.groups, s.channels_out / s.groups);
        let windows = s.input[2] * window_len(s);
        let (windows, columns, filter) =
            if cin <= AT_ONCE { (0, 0, 0) } else { (windows, s.input[2] * uncrowded(cin), own * cin * window_len(s)) };
        with_scratch(windows + columns + filter + own * self.rows * self.line(s), |scratch| {
            let (windows, scratch) = scratch.split_at_mut(windows);
            let (columns, scratch) = scratch.split_at_mut(columns);
            let (filter, band) = scratch.split_at_mut(filter);
            let mut copied = None;
            for unit in units {
                let group = Some(unit / self.bands() % s.groups);
                let fresh = std::mem::replace(&mut copied, group) != group;
                dispatch(Unit { spread: self, s, unit, x, w, epilogue, out, windows, columns, filter, fresh, band });
            }
        });
    }
}

/// Whether this costs less than plans whose vectors are positions. Products pay for wide windows, and
/// for others if the channels are many enough to turn them and to add windows of a few numbers.
fn pays(s: &ConvSpec, cin: usize, own: usize) -> bool {
    let ([_, high, wide], [_, down, step]) = (s.kernel, s.stride);
    if cin <= AT_ONCE {
        return wide >= WIDE;
    }
    let deep = match wide {
        0..3 => return false,
        3 => 32,
        _ if wide.is_multiple_of(4) => 8,
        _ => 16,
    };
    // Phases of three by three taps take fewer multiplications.
    let minimal = high == 3 * down && wide == 3 * step;
    wide >= 2 * WIDE || step > 1 && !minimal && cin >= deep * own
}

/// Distance between two windows of a product: whole vectors, with room for as many as begin at any
/// row of a window.
fn window_len(s: &ConvSpec) -> usize {
    s.taps().next_multiple_of(16) + 16
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
    /// The filter of the group by output and input channels. Zeros follow each window.
    filter: &'p mut [f32],
    /// Whether the filter must still be copied.
    fresh: bool,
    band: &'p mut [f32],
}

impl Work for Unit<'_, '_, '_> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let Unit { spread, s, unit, x, w, epilogue, out, windows, columns, filter, fresh, band } = self;
        let (cin, own, taps) = (s.channels_in / s.groups, s.channels_out / s.groups, s.taps());
        let ([_, height, width], [_, high, wide]) = (s.input, s.kernel);
        let ([_, step, _], size) = (s.stride, height * width);
        let (rest, at) = (unit / spread.bands(), unit % spread.bands());
        let (n, group) = (rest / s.groups, rest % s.groups);
        let x = &x[(n * s.channels_in + group * cin) * size..][..cin * size];
        let w = &w[group * cin * own * taps..][..cin * own * taps];
        // Rows of the result with the border in front.
        let first = at * spread.rows + s.pad_before[1];
        let last = (first + spread.rows).min(spread.out[0] + s.pad_before[1]);
        let (line, each) = (spread.line(s), window_len(s));
        let plane = (last - first) * line;
        let band = &mut band[..own * plane];
        band.fill(0.0);
        if fresh {
            for (o, to) in filter.chunks_exact_mut(cin * each).enumerate() {
                for (to, w) in to.chunks_exact_mut(each).zip(w.chunks_exact(own * taps)) {
                    to[..taps].copy_from_slice(&w[o * taps..][..taps]);
                    to[taps..].fill(0.0);
                }
            }
        }
        // Rows of the input whose windows reach the band.
        let from = (first + 1).saturating_sub(high).div_ceil(step);
        for y in from..last.div_ceil(step).min(height) {
            let top = y * step;
            let (low, end) = (first.saturating_sub(top).min(high), (last - top).min(high));
            let (pitch, wanted) = (uncrowded(cin), (end - low) * wide);
            if cin > AT_ONCE {
                // Some channels at a time, so that their rows are read one line after the other.
                for c in (0..cin).step_by(TURNED) {
                    let some = TURNED.min(cin - c);
                    turned(isa, &x[c * size + y * width..], size, (some, width), &mut columns[c..], pitch);
                }
            }
            for (o, band) in band.chunks_exact_mut(plane.max(1)).enumerate() {
                let band = &mut band[(top + low - first) * line..][..(end - low) * line];
                if cin <= AT_ONCE {
                    for (ky, to) in (low..end).zip(band.chunks_exact_mut(line)) {
                        for c in 0..cin {
                            let (x, w) = (&x[c * size + y * width..][..width], &w[(c * own + o) * taps + ky * wide..]);
                            add_at_once(isa, x, &w[..wide], s.stride[2], to);
                        }
                    }
                    continue;
                }
                let b = Strided { data: &filter[o * cin * each + low * wide..], row: each, panel: 16 };
                let a = Left { data: &*columns, stride: pitch };
                tile::<I, _, MR, NP, N4, N1>(isa, (width, wanted, cin), a, b, windows, each, true);
                for (r, to) in band.chunks_exact_mut(line).enumerate() {
                    let (windows, places) = (&windows[r * wide..], (each, width));
                    match wide {
                        // The compiler knows this width.
                        4 => add_rows(windows, places, 4, to, s.stride[2]),
                        _ => add_rows(windows, places, wide, to, s.stride[2]),
                    }
                }
            }
        }
        for (o, band) in band.chunks_exact_mut(plane.max(1)).enumerate() {
            let (count, len, channel) = (last - first, spread.out[1], group * own + o);
            let to = ((n * s.channels_out + channel) * spread.out[0] + at * spread.rows) * len;
            // The last row of the band ends with the band, so that all rows have the same distance.
            let sums = &mut band[s.pad_before[2]..];
            finish(epilogue, channel, Runs { count, len, pitch: line }, sums, out, to);
        }
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

/// Adds a row of `wide` numbers of each of `width` windows, which are `each` apart, to `to`, `step`
/// further for each window.
#[inline(always)]
fn add_rows(windows: &[f32], (each, width): (usize, usize), wide: usize, to: &mut [f32], step: usize) {
    // Neighbouring windows overlap. One that is added just after the other would wait for it.
    let turns = wide.div_ceil(step);
    for turn in 0..turns {
        for i in (turn..width).step_by(turns) {
            add(&windows[i * each..][..wide], &mut to[i * step..][..wide]);
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
