//! What the window of a convolution reads at each output position: runs of elements of a channel
//! that are adjacent both in the input and in the window.
use crate::conv::spec::{ConvError, ConvSpec};
use crate::layout::transpose;
use crate::view::Out;
use std::ops::Range;

/// Average length of runs from which they are copied as runs.
const LONG: usize = 8;
/// The image is transposed first only if it has at most this many elements per channel for each
/// element that is read of a channel.
const SPARSE: usize = 4;

/// `len` elements of a channel, from `from` in the input to tap `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    from: u32,
    to: u32,
    len: u32,
}

/// What is read of one channel at all positions of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    taps: usize,
    /// The runs of all positions.
    runs: Vec<Run>,
    /// The range of runs of each position.
    of: Vec<Range<usize>>,
    /// Whether runs are long enough to be copied as such. Else each run has one element.
    long: bool,
    /// Elements of a channel if the image is transposed first, so that all channels of a position
    /// are adjacent. Zero if it is not.
    turned: usize,
}

impl Seen {
    /// # Errors
    /// Returns `Zero`, `Kernel` or `Overflow`.
    pub(super) fn new(s: &ConvSpec) -> Result<Seen, ConvError> {
        let out = s.output()?;
        let (mut runs, mut of) = (Vec::new(), Vec::new());
        for place in 0..out.iter().product() {
            let at = [place / (out[1] * out[2]), place / out[2] % out[1], place % out[2]];
            let first = runs.len();
            runs_at(s, at, first, &mut runs).ok_or(ConvError::Overflow)?;
            of.push(first..runs.len());
        }
        let numbers: usize = runs.iter().map(|r| r.len as usize).sum();
        let long = numbers >= LONG * runs.len();
        if !long {
            let singles = |r: &Run| (0..r.len).map(|i| (r.from + i, r.to + i)).collect::<Vec<_>>();
            let (mut all, mut places) = (Vec::with_capacity(numbers), Vec::with_capacity(of.len()));
            for range in of {
                let first = all.len();
                let singles = runs[range].iter().flat_map(singles);
                all.extend(singles.map(|(from, to)| Run { from, to, len: 1 }));
                places.push(first..all.len());
            }
            (runs, of) = (all, places);
        }
        let size = s.input.iter().product();
        let turned = if !long && size <= numbers.saturating_mul(SPARSE) { size } else { 0 };
        Ok(Seen { taps: s.taps(), runs, of, long, turned })
    }

    /// Whether a window reads some of the border, which is zero.
    pub(super) fn has_border(&self) -> bool {
        let seen: usize = self.runs.iter().map(|r| r.len as usize).sum();
        seen < self.of.len() * self.taps
    }

    /// Approximate cycles to copy a row.
    pub(super) fn cost(&self, channels: usize) -> usize {
        let each = if self.long { 6 } else { 2 };
        let moved = if self.long { self.taps / 8 } else { 0 };
        channels.saturating_mul(self.runs.len() / self.of.len().max(1) * each + moved)
    }

    /// Elements of working memory that [`Seen::copy`] needs.
    pub(super) fn room(&self, channels: usize) -> usize {
        channels * self.turned
    }

    /// Copies what is read of an image to rows `pitch` apart, one for each position. Channels of
    /// the image have `size` elements. Border elements of the rows are left as they are.
    #[inline(always)]
    pub(super) fn copy(&self, x: &[f32], size: usize, room: &mut [f32], pitch: usize, to: &mut [f32]) {
        if self.turned > 0 {
            return self.copy_turned(x, size, room, pitch, to);
        }
        for (runs, row) in self.of.iter().zip(to.chunks_exact_mut(pitch)) {
            let runs = &self.runs[runs.clone()];
            for (row, x) in row.chunks_exact_mut(self.taps).zip(x.chunks_exact(size)) {
                if self.long {
                    for r in runs {
                        let (from, to, len) = (r.from as usize, r.to as usize, r.len as usize);
                        row[to..to + len].copy_from_slice(&x[from..from + len]);
                    }
                } else {
                    for r in runs {
                        row[r.to as usize] = x[r.from as usize];
                    }
                }
            }
        }
    }

    /// Like [`Seen::copy`], but first transposes the image so that the channels of each position
    /// are adjacent.
    #[inline(always)]
    fn copy_turned(&self, x: &[f32], size: usize, room: &mut [f32], pitch: usize, to: &mut [f32]) {
        let channels = x.len() / size;
        transpose(channels, size, 0, 0..size, x, &mut Out::new(room));
        for (runs, row) in self.of.iter().zip(to.chunks_exact_mut(pitch)) {
            for r in &self.runs[runs.clone()] {
                let from = &room[r.from as usize * channels..][..channels];
                match self.taps {
                    1 => row[..channels].copy_from_slice(from),
                    taps => {
                        let cells = row[r.to as usize..].iter_mut().step_by(taps);
                        cells.zip(from).for_each(|(cell, v)| *cell = *v);
                    }
                }
            }
        }
    }
}

/// Adds the runs that the window reads at position `at`. `None` if a size overflows.
fn runs_at(s: &ConvSpec, at: [usize; 3], first: usize, runs: &mut Vec<Run>) -> Option<()> {
    let [_, high, wide] = s.kernel;
    for tap in 0..s.taps() {
        let window = [tap / (high * wide), tap / wide % high, tap % wide];
        let mut place = Some(0);
        for axis in 0..3 {
            let beyond =
                at[axis].checked_mul(s.stride[axis])?.checked_add(window[axis].checked_mul(s.dilation[axis])?)?;
            let inside = beyond.checked_sub(s.pad_before[axis]).filter(|v| *v < s.input[axis]);
            place = place.zip(inside).map(|(p, v): (usize, usize)| p * s.input[axis] + v);
        }
        let Some(from) = place else { continue };
        let (from, to) = (u32::try_from(from).ok()?, u32::try_from(tap).ok()?);
        match runs[first..].last_mut() {
            Some(r) if r.from + r.len == from && r.to + r.len == to => r.len += 1,
            _ => runs.push(Run { from, to, len: 1 }),
        }
    }
    Some(())
}
