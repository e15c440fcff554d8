//! Depthwise convolutions of single precision with square windows, plane by plane: a row of the
//! input is read once for several rows of the result. Small windows read the planes as they are,
//! borders by masked loads.
use crate::conv::points::limits;
use crate::conv::spec::ConvSpec;
use crate::gemm::{Bias, Epilogue};
use crate::simd::isa::dispatch;
use crate::view::Out;
use std::ops::Range;
use window::ROWS;

/// Large windows.
mod stream;
/// Small windows, and those of steps of two.
mod window;

pub(crate) use window::within;

/// Some output channels of one image, some rows.
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

/// Whether a convolution with one input channel to a group has such windows.
pub(crate) fn takes(s: &ConvSpec) -> bool {
    let [depth, kernel, width] = s.kernel;
    let flat = depth == 1 && s.input[0] == 1 && s.pad_before[0] == 0 && s.pad_after[0] == 0;
    let window = kernel == width && s.dilation[1..] == [1, 1] && s.stride[1] == s.stride[2];
    let steps = matches!((kernel, s.stride[1]), (3 | 5, 1 | 2) | (7, 1));
    // Places in a plane are counted with signs.
    let near = s.pad_before.iter().chain(&s.input).all(|&v| v < 1 << 30);
    flat && window && steps && near && s.transposed.is_none()
}

/// Cycles, about, that a channel takes whose result is so high and wide.
pub(crate) fn cost(s: &ConvSpec, [height, width]: [usize; 2]) -> usize {
    let (kernel, step) = (s.kernel[1], s.stride[1]);
    let columns = width.div_ceil(16);
    if kernel > 3 && step == 1 {
        // Two vectors side by side use each tap twice; sums of one alone wait for each other.
        let row = if columns > 1 { kernel * kernel * 5 / 8 + 8 } else { kernel * kernel * 3 / 2 + 12 };
        return columns * (height * row + 40) + 60;
    }
    if height < ROWS {
        return height * columns * kernel * kernel * 3 + 60;
    }
    // Every second column costs shuffles.
    let shuffles = if step == 2 { ((ROWS - 1) * step + kernel) * 6 } else { 0 };
    let cell = ROWS * kernel * kernel + 8 + shuffles;
    columns * (height.div_ceil(ROWS) * cell + 40) + 60
}

impl Planes<'_, '_, '_> {
    /// Computes them.
    pub(crate) fn run(self) {
        let s = self.spec;
        let [_, high, wide] = s.input;
        let (height, width) = self.size;
        let multiplier = s.channels_out / s.groups;
        let (limits, later) = limits(self.epilogue.act);
        let (rows, len) = (self.y.1 - self.y.0, (self.y.1 - self.y.0) * width);
        // Whole planes stand one behind the other.
        let whole = rows == height;
        for o in self.channels.clone() {
            let at = ((self.n * s.channels_out + o) * height + self.y.0) * width;
            let out = self.out.part(at, len);
            let plane = Plane {
                x: &self.x[(self.n * s.channels_in + o / multiplier) * high * wide..][..high * wide],
                size: (high, wide),
                pad: (s.pad_before[1] as isize, s.pad_before[2] as isize),
                w: &self.w[o * s.taps()..][..s.taps()],
                window: (s.kernel[1], s.stride[1]),
                alpha: self.epilogue.alpha,
                shift: match self.epilogue.bias {
                    Bias::PerRow(b) => b[o],
                    // What adds nothing, to minus zero too.
                    _ => -0.0,
                },
                residual: self.epilogue.residual.map(|(r, factor)| (&r[at..at + len], factor)),
                limits,
                first: self.y.0,
                width,
            };
            plane.run(out);
            if let (Some(act), false) = (later, whole) {
                act.apply(out);
            }
        }
        if let (Some(act), true) = (later, whole) {
            let at = (self.n * s.channels_out + self.channels.start) * len;
            act.apply(self.out.part(at, self.channels.len() * len));
        }
    }
}

/// One plane of the result.
pub(crate) struct Plane<'a> {
    pub(crate) x: &'a [f32],
    /// Height and width of `x`.
    pub(crate) size: (usize, usize),
    pub(crate) pad: (isize, isize),
    /// The taps of its window.
    pub(crate) w: &'a [f32],
    /// Height and width of the window, and the step from one to the next.
    pub(crate) window: (usize, usize),
    pub(crate) alpha: f32,
    pub(crate) shift: f32,
    /// Of the rows of this unit, as the result.
    pub(crate) residual: Option<(&'a [f32], f32)>,
    pub(crate) limits: (f32, f32),
    /// The first row of this unit in the plane, and the width of the result.
    pub(crate) first: usize,
    pub(crate) width: usize,
}

impl Plane<'_> {
    /// All rows of `out`, from the first of the unit on.
    pub(crate) fn run(&self, out: &mut [f32]) {
        match self.window {
            (3, 1) => self.windows::<3, 1>(out),
            (3, _) => self.windows::<3, 2>(out),
            (5, 1) => self.stream::<5>(out),
            (_, 1) => self.stream::<7>(out),
            _ => self.windows::<5, 2>(out),
        }
    }

    fn windows<const K: usize, const S: usize>(&self, out: &mut [f32]) {
        // Each is compiled by itself: together they would not have registers enough.
        if out.len() >= ROWS * self.width && self.alpha == 1.0 && self.residual.is_none() {
            dispatch(window::Bands::<K, S> { of: self, out });
        } else {
            dispatch(window::Rows::<K, S> { of: self, out });
        }
    }
}
