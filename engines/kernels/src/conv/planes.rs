//! Depthwise convolutions of single precision with small square windows, straight from the planes
//! of the input: no copy, borders by masked loads, several rows of the result at a time so that a
//! row of the input is read once for all of them.
use crate::conv::points::limits;
use crate::conv::spec::ConvSpec;
use crate::gemm::{Bias, Epilogue};
use crate::simd::isa::{Isa, Work};
use crate::view::Out;
use std::ops::Range;

/// Rows of the result that are computed together.
const ROWS: usize = 4;

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
    let window = kernel == width && (kernel == 3 || kernel == 5) && s.dilation[1..] == [1, 1];
    let steps = s.stride[1] == s.stride[2] && s.stride[1] <= 2;
    // Places in a plane are counted with signs.
    let near = s.pad_before.iter().chain(&s.input).all(|&v| v < 1 << 30);
    flat && window && steps && near && s.transposed.is_none()
}

/// Cycles, about, that a channel takes whose result is so high and wide.
pub(crate) fn cost(s: &ConvSpec, [height, width]: [usize; 2]) -> usize {
    let (kernel, step) = (s.kernel[1], s.stride[1]);
    // Rows of the input that a group of rows sees: those beyond the plane cost nothing.
    let seen = ((ROWS - 1) * step + kernel).min(s.input[1]);
    let cell = ROWS * kernel * kernel + seen * (kernel + 4) + 4 * ROWS;
    height.div_ceil(ROWS) * width.div_ceil(16) * cell + 60
}

impl Work for Planes<'_, '_, '_> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        match (self.spec.kernel[1], self.spec.stride[1]) {
            (3, 1) => self.channels::<I, 3, 1>(isa),
            (3, _) => self.channels::<I, 3, 2>(isa),
            (_, 1) => self.channels::<I, 5, 1>(isa),
            _ => self.channels::<I, 5, 2>(isa),
        }
    }
}

impl Planes<'_, '_, '_> {
    #[inline(always)]
    fn channels<I: Isa, const K: usize, const S: usize>(self, isa: I) {
        let s = self.spec;
        let [_, high, wide] = s.input;
        let (height, width) = self.size;
        let multiplier = s.channels_out / s.groups;
        let (limits, later) = limits(self.epilogue.act);
        let (rows, len) = (self.y.1 - self.y.0, (self.y.1 - self.y.0) * width);
        // Whole planes stand one behind the other.
        let whole = rows == height;
        let edge = masks::<I, K>(isa, -(s.pad_before[2] as isize), wide);
        for o in self.channels.clone() {
            let x = &self.x[(self.n * s.channels_in + o / multiplier) * high * wide..][..high * wide];
            let taps = taps(isa, &self.w[o * K * K..]);
            let shift = match self.epilogue.bias {
                Bias::PerRow(b) => b[o],
                // What adds nothing, to minus zero too.
                _ => -0.0,
            };
            let at = ((self.n * s.channels_out + o) * height + self.y.0) * width;
            let residual = self.epilogue.residual.map(|(r, factor)| (&r[at..at + len], factor));
            let out = self.out.part(at, len);
            let plane = Plane {
                x,
                size: (high, wide),
                pad: (s.pad_before[1] as isize, s.pad_before[2] as isize),
                taps,
                alpha: self.epilogue.alpha,
                shift,
                residual,
                limits,
                first: self.y.0,
                width,
            };
            for y in (0..rows).step_by(ROWS) {
                plane.rows::<I, S>(isa, y, &edge, out);
            }
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
pub(crate) struct Plane<'a, V, const K: usize> {
    pub(crate) x: &'a [f32],
    /// Height and width of `x`.
    pub(crate) size: (usize, usize),
    pub(crate) pad: (isize, isize),
    pub(crate) taps: [[V; K]; K],
    pub(crate) alpha: f32,
    pub(crate) shift: f32,
    /// Of the rows of this unit, as the result.
    pub(crate) residual: Option<(&'a [f32], f32)>,
    pub(crate) limits: (f32, f32),
    /// The first row of this unit in the plane, and the width of the result.
    pub(crate) first: usize,
    pub(crate) width: usize,
}

/// The taps of one window, each in all lanes; `w` begins with them.
#[inline(always)]
pub(crate) fn taps<I: Isa, const K: usize>(isa: I, w: &[f32]) -> [[I::V; K]; K] {
    let mut taps = [[isa.splat(0.0); K]; K];
    for (to, from) in taps.iter_mut().zip(w.as_chunks::<K>().0) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = isa.splat(*from);
        }
    }
    taps
}

impl<V: Copy, const K: usize> Plane<'_, V, K> {
    /// All rows of `out`, from the first of the unit on. `edge` is [`masks`] of the first columns.
    #[inline(always)]
    pub(crate) fn all<I: Isa<V = V>>(&self, isa: I, stride: usize, edge: &[[I::M; 2]; K], out: &mut [f32]) {
        for y in (0..out.len() / self.width.max(1)).step_by(ROWS) {
            if stride == 1 {
                self.rows::<I, 1>(isa, y, edge, out);
            } else {
                self.rows::<I, 2>(isa, y, edge, out);
            }
        }
    }

    /// The rows of the result from row `y` of the unit on, as many as there are together. `edge` is
    /// for the first columns.
    #[inline(always)]
    fn rows<I: Isa<V = V>, const S: usize>(&self, isa: I, y: usize, edge: &[[I::M; 2]; K], out: &mut [f32]) {
        assert!((y + 1) * self.width <= out.len() && self.x.len() == self.size.0 * self.size.1);
        // Columns that the loads of sixteen results touch, one behind the other.
        let reach = if S == 1 { 15 + K } else { 31 + K };
        for j in (0..self.width).step_by(16) {
            let from = (j * S) as isize - self.pad.1;
            let inside = from >= 0 && from as usize + reach <= self.size.1 && j + 16 <= self.width;
            if inside {
                self.cell::<I, S, true>(isa, (y, j), from, edge, out);
            } else if j == 0 {
                self.cell::<I, S, false>(isa, (y, j), from, edge, out);
            } else {
                self.cell::<I, S, false>(isa, (y, j), from, &masks::<I, K>(isa, from, self.size.1), out);
            }
        }
    }

    /// Sixteen columns of these rows, whose first column of the input is `from`.
    #[inline(always)]
    fn cell<I: Isa<V = V>, const S: usize, const INSIDE: bool>(
        &self,
        isa: I,
        (y, j): (usize, usize),
        from: isize,
        masks: &[[I::M; 2]; K],
        out: &mut [f32],
    ) {
        let (high, wide) = self.size;
        let mut acc = [isa.splat(0.0); ROWS];
        let top = ((self.first + y) * S) as isize - self.pad.0;
        for t in 0..(ROWS - 1) * S + K {
            let row = top + t as isize;
            if row < 0 || row >= high as isize {
                continue;
            }
            let p = self.x.as_ptr().wrapping_add(row as usize * wide).wrapping_offset(from);
            let mut v = [isa.splat(0.0); K];
            // SAFETY: `row` is a row of the input. Inside, all columns that are loaded are columns
            // of it; else those among the masks are.
            unsafe {
                if S == 1 {
                    for i in 0..K {
                        v[i] = load::<I, INSIDE>(isa, p.wrapping_add(i), masks[i][0]);
                    }
                } else {
                    for i in (0..K).step_by(2) {
                        let a = load::<I, INSIDE>(isa, p.wrapping_add(i), masks[i][0]);
                        let b = load::<I, INSIDE>(isa, p.wrapping_add(i + 16), masks[i][1]);
                        let (even, odd) = isa.even_odd(a, b);
                        v[i] = even;
                        if i + 1 < K {
                            v[i + 1] = odd;
                        }
                    }
                }
            }
            for (r, acc) in acc.iter_mut().enumerate() {
                if t >= r * S && t < r * S + K {
                    for (w, v) in self.taps[t - r * S].iter().zip(v) {
                        *acc = isa.fma(*w, v, *acc);
                    }
                }
            }
        }
        let end = isa.lanes(0, (self.width - j).min(16));
        let (low, most) = (isa.splat(self.limits.0), isa.splat(self.limits.1));
        for (r, acc) in acc.into_iter().enumerate() {
            let at = (y + r) * self.width + j;
            if at >= out.len() {
                break;
            }
            let mut v = if self.alpha == 1.0 { acc } else { isa.fma(acc, isa.splat(self.alpha), isa.splat(-0.0)) };
            v = isa.add(v, isa.splat(self.shift));
            if let Some((residual, factor)) = self.residual {
                // SAFETY: the residual has the columns of the result.
                let other = unsafe { isa.load_some(residual[at..].as_ptr(), end) };
                v = isa.fma(other, isa.splat(factor), v);
            }
            v = isa.at_most(isa.at_least(v, low), most);
            if INSIDE {
                if let Some((to, _)) = out[at..].split_first_chunk_mut::<16>() {
                    isa.store(v, to);
                }
            } else {
                // SAFETY: the columns up to the width are columns of the result.
                unsafe { isa.store_some(v, out[at..].as_mut_ptr(), end) };
            }
        }
    }
}

/// Which columns the loads for each tap touch, where the first column of the input is `from`.
#[inline(always)]
pub(crate) fn masks<I: Isa, const K: usize>(isa: I, from: isize, width: usize) -> [[I::M; 2]; K] {
    let mut masks = [[isa.lanes(0, 0); 2]; K];
    for (i, m) in masks.iter_mut().enumerate() {
        let column = from + i as isize;
        *m = [within(isa, column, width), within(isa, column + 16, width)];
    }
    masks
}

/// Which of the sixteen columns from `first` on are columns of a row of `width`.
#[inline(always)]
pub(crate) fn within<I: Isa>(isa: I, first: isize, width: usize) -> I::M {
    let from = (-first).clamp(0, 16) as usize;
    let to = (width as isize - first).clamp(from as isize, 16) as usize;
    isa.lanes(from, to)
}

/// Sixteen numbers: all of them, or those among the mask.
///
/// # Safety
/// They can be read.
#[inline(always)]
unsafe fn load<I: Isa, const ALL: bool>(isa: I, p: *const f32, mask: I::M) -> I::V {
    // SAFETY: by the caller's word.
    unsafe { if ALL { isa.load(&*p.cast()) } else { isa.load_some(p, mask) } }
}
