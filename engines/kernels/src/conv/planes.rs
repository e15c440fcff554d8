//! Depthwise convolutions in single precision with square windows, plane by plane. A row of the
//! input is read once for several rows of the result. Small windows read the planes in place, with
//! masked loads at the borders.
use crate::conv::points::limits;
use crate::conv::spec::ConvSpec;
use crate::gemm::{Bias, Epilogue};
use crate::simd::isa::dispatch;
use crate::view::Out;
use std::ops::Range;
use window::ROWS;

/// Windows of three rows and columns in narrow planes.
mod down;
/// Large windows with strides of one.
mod stream;
/// Small windows, and windows with strides of two.
mod window;

pub(crate) use window::within;

/// Most columns of an input whose windows move down. The rows of wider ones are far apart: it is
/// faster to go along a few of them.
const NARROW: usize = 64;

/// Some output channels and some rows of one image.
pub(crate) struct Planes<'p, 'a, 'o> {
    pub(crate) spec: &'p ConvSpec,
    /// Height and width of the output.
    pub(crate) size: (usize, usize),
    pub(crate) n: usize,
    pub(crate) channels: Range<usize>,
    pub(crate) y: (usize, usize),
    pub(crate) x: &'a [f32],
    pub(crate) w: &'a [f32],
    pub(crate) epilogue: &'p Epilogue<'a, f32>,
    pub(crate) out: &'p mut Out<'o, f32>,
}

/// Whether a convolution with one input channel per group has a window and stride that are
/// supported here.
pub(crate) fn takes(s: &ConvSpec) -> bool {
    let [depth, kernel, width] = s.kernel;
    let flat = depth == 1 && s.input[0] == 1 && s.pad_before[0] == 0 && s.pad_after[0] == 0;
    let window = kernel == width && s.dilation[1..] == [1, 1] && s.stride[1] == s.stride[2];
    let steps = matches!((kernel, s.stride[1]), (3 | 5, 1 | 2) | (7, 1));
    // Positions in a plane are computed as signed numbers.
    let near = s.pad_before.iter().chain(&s.input).all(|&v| v < 1 << 30);
    flat && window && steps && near && s.transposed.is_none()
}

/// Approximate cycles of one channel whose result has the given height and width.
pub(crate) fn cost(s: &ConvSpec, [height, width]: [usize; 2]) -> usize {
    let (kernel, step) = (s.kernel[1], s.stride[1]);
    let columns = width.div_ceil(16);
    if kernel > 3 && step == 1 {
        // Two adjacent vectors use each tap twice. The sums of a single vector wait for each other.
        let row = if columns > 1 { kernel * kernel * 5 / 8 + 8 } else { kernel * kernel * 3 / 2 + 12 };
        return columns * (height * row + 40) + 60;
    }
    if height < ROWS {
        return height * columns * kernel * kernel * 3 + 60;
    }
    // Reading every second column costs shuffles.
    let shuffles = if step == 2 { ((ROWS - 1) * step + kernel) * 6 } else { 0 };
    let cell = ROWS * kernel * kernel + 8 + shuffles;
    columns * (height.div_ceil(ROWS) * cell + 40) + 60
}

impl Planes<'_, '_, '_> {
    /// Computes these channels and rows.
    pub(crate) fn run(mut self) {
        let s = self.spec;
        let (height, width) = self.size;
        let (limits, later) = limits(self.epilogue.act);
        let rows = self.y.1 - self.y.0;
        let shape = Shape {
            size: (s.input[1], s.input[2]),
            pad: (s.pad_before[1] as isize, s.pad_before[2] as isize),
            window: (s.kernel[1], s.stride[1]),
            alpha: self.epilogue.alpha,
            limits,
            first: self.y.0,
            rows,
            width,
        };
        shape.run(self.channels.len(), self.epilogue.residual.is_some(), &mut self);
        let Some(act) = later else { return };
        if rows == height {
            // Whole planes follow each other.
            let len = height * width;
            let at = (self.n * s.channels_out + self.channels.start) * len;
            act.apply(self.out.part(at, self.channels.len() * len));
        } else {
            for o in self.channels.clone() {
                act.apply(self.out.part(self.place(o), rows * width));
            }
        }
    }

    /// Where the rows of output channel `o` begin in the result.
    fn place(&self, o: usize) -> usize {
        let (height, width) = self.size;
        ((self.n * self.spec.channels_out + o) * height + self.y.0) * width
    }
}

impl Source for Planes<'_, '_, '_> {
    #[inline]
    fn plane(&mut self, i: usize) -> Plane<'_> {
        let (s, o) = (self.spec, self.channels.start + i);
        let (multiplier, size) = (s.channels_out / s.groups, s.input[1] * s.input[2]);
        let (at, len) = (self.place(o), (self.y.1 - self.y.0) * self.size.1);
        Plane {
            x: &self.x[(self.n * s.channels_in + o / multiplier) * size..][..size],
            w: &self.w[o * s.taps()..][..s.taps()],
            shift: match self.epilogue.bias {
                Bias::PerRow(b) => b[o],
                // Adding -0.0 changes nothing, not even the sign of zero.
                _ => -0.0,
            },
            residual: self.epilogue.residual.map(|(r, factor)| (&r[at..at + len], factor)),
            out: self.out.part(at, len),
        }
    }
}

/// What the planes of a unit have in common.
pub(crate) struct Shape {
    /// Height and width of the input.
    pub(crate) size: (usize, usize),
    pub(crate) pad: (isize, isize),
    /// Height of the square window, and its stride.
    pub(crate) window: (usize, usize),
    pub(crate) alpha: f32,
    pub(crate) limits: (f32, f32),
    /// The first result row that is computed, and the number of rows.
    pub(crate) first: usize,
    pub(crate) rows: usize,
    /// Width of the result.
    pub(crate) width: usize,
}

/// One plane of the input, and the result rows made from it.
pub(crate) struct Plane<'a> {
    pub(crate) x: &'a [f32],
    /// The taps of its window.
    pub(crate) w: &'a [f32],
    pub(crate) shift: f32,
    /// The residual, as long as the result, and its factor.
    pub(crate) residual: Option<(&'a [f32], f32)>,
    pub(crate) out: &'a mut [f32],
}

/// Provides planes by index.
pub(crate) trait Source {
    /// Plane `i`.
    fn plane(&mut self, i: usize) -> Plane<'_>;
}

impl Shape {
    /// Computes the rows of the first `count` planes of a source. `residual` tells whether the
    /// planes have a residual.
    pub(crate) fn run(&self, count: usize, residual: bool, source: &mut impl Source) {
        let is_narrow = self.size.1 <= NARROW && self.is_plain(residual);
        match self.window {
            (3, 1) if is_narrow => dispatch(down::Narrow::<1, _> { of: self, count, source }),
            (3, 2) if is_narrow => dispatch(down::Narrow::<2, _> { of: self, count, source }),
            (3, 1) => self.windows::<3, 1>(count, residual, source),
            (3, _) => self.windows::<3, 2>(count, residual, source),
            (5, 1) => (0..count).for_each(|i| self.stream::<5>(source.plane(i))),
            (_, 1) => (0..count).for_each(|i| self.stream::<7>(source.plane(i))),
            _ => self.windows::<5, 2>(count, residual, source),
        }
    }

    /// Whether the rows are at least those of a band, without residual and factor.
    fn is_plain(&self, residual: bool) -> bool {
        self.rows >= ROWS && self.alpha == 1.0 && !residual
    }

    fn windows<const K: usize, const S: usize>(&self, count: usize, residual: bool, source: &mut impl Source) {
        // These are compiled separately; together they would not have enough registers.
        if self.is_plain(residual) {
            dispatch(window::Bands::<K, S, _> { of: self, count, source });
        } else {
            dispatch(window::Rows::<K, S, _> { of: self, count, source });
        }
    }
}
