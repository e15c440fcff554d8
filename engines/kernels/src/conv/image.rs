//! The copy of a strip of the input, padded and split by the stride. In it every tap is one shifted
//! run.
//!
//! For a strip of output rows the copy has one plane of rows, `pitch` apart, for each input channel
//! (and each depth of the kernel) and each remainder modulo the stride that a tap uses. Output (y,
//! x) of the strip, at `y * pitch + x`, reads tap (ky, kx) at that offset plus the offset of the
//! tap. So the output, laid out with the same pitch, is a product with stride one.
use crate::conv::planes::within;
use crate::conv::spec::{ConvError, ConvSpec};
use crate::simd::isa::{Isa, PanelElem, Work, dispatch};

/// Floats after the copy that register tiles may read and ignore.
const SLACK: usize = 16 * 8 + 16;
/// Most vectors of a row of the copy for which rows are copied by vectors.
const SHORT: usize = 8;

/// The geometry of the copy, for strips of up to `rows` output rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) spec: ConvSpec,
    pub(crate) out: [usize; 3],
    /// Distance between two rows of the copy, and of the output laid out like it.
    pub(crate) pitch: usize,
    /// Remainders modulo the stride that taps use, on y and on x.
    phases: [Vec<usize>; 2],
    plane: usize,
    /// Offsets of the taps in the copy, by channel, kernel depth, kernel row and kernel column.
    pub(crate) places: Vec<u32>,
    pub(crate) highest: usize,
    /// `step` is the step of the output over the copy and `inflate` the zero-stuffing of the input:
    /// the stride and one, or one and the stride for a transposed convolution.
    step: [usize; 3],
    inflate: [usize; 3],
    before: [isize; 3],
}

impl Image {
    pub(crate) fn new(spec: &ConvSpec, rows: usize) -> Result<Image, ConvError> {
        Image::with(spec, rows, false)
    }

    /// Like `new`. If `apart`, there is one plane for each column of the window: rows of the copy
    /// are then as long as output rows, with nothing between them.
    pub(crate) fn with(spec: &ConvSpec, rows: usize, apart: bool) -> Result<Image, ConvError> {
        let out = spec.output()?;
        let (step, inflate) = match spec.transposed {
            None => (spec.stride, [1; 3]),
            Some(_) => ([1; 3], spec.stride),
        };
        let mut before = [0; 3];
        for (axis, b) in before.iter_mut().enumerate() {
            let pad = isize::try_from(spec.pad_before[axis]).map_err(|_| ConvError::Overflow)?;
            let reach =
                isize::try_from((spec.kernel[axis] - 1) * spec.dilation[axis]).map_err(|_| ConvError::Overflow)?;
            *b = if spec.transposed.is_some() { reach - pad } else { pad };
        }
        let used = |axis: usize| {
            let mut v: Vec<usize> = (0..spec.kernel[axis]).map(|k| k * spec.dilation[axis] % step[axis]).collect();
            v.sort_unstable();
            v.dedup();
            v
        };
        let columns = (0..spec.kernel[2]).map(|k| k * spec.dilation[2]);
        let phases = [used(1), if apart { columns.collect() } else { used(2) }];
        let last = |axis: usize| (spec.kernel[axis] - 1) * spec.dilation[axis] / step[axis];
        let pitch = out[2] + if apart { 0 } else { last(2) };
        let plane = (rows + last(1)) * pitch;
        let channels = spec.channels_in / spec.groups * spec.kernel[0];
        let mut places = Vec::new();
        places.try_reserve_exact(channels * spec.kernel[1] * spec.kernel[2]).map_err(|_| ConvError::Overflow)?;
        for c in 0..channels {
            for ky in 0..spec.kernel[1] {
                for kx in 0..spec.kernel[2] {
                    let (ry, rx) = (ky * spec.dilation[1], kx * spec.dilation[2]);
                    let of = |p: &[usize], r: usize| p.iter().position(|&v| v == r).unwrap_or(0);
                    let py = of(&phases[0], ry % step[1]);
                    let (px, shift) = if apart { (kx, 0) } else { (of(&phases[1], rx % step[2]), rx / step[2]) };
                    let place =
                        ((c * phases[0].len() + py) * phases[1].len() + px) * plane + ry / step[1] * pitch + shift;
                    places.push(u32::try_from(place).map_err(|_| ConvError::Overflow)?);
                }
            }
        }
        let highest = places.iter().copied().max().unwrap_or(0) as usize;
        Ok(Image { spec: spec.clone(), out, pitch, phases, plane, places, highest, step, inflate, before })
    }

    /// Floats of the copy for `channels` input channels.
    pub(crate) fn len(&self, channels: usize) -> usize {
        channels * self.channel_len() + SLACK
    }

    /// Copies what output rows `y.0..y.1` of depth `z` need from `channels` channels; `x` begins at
    /// the first of them.
    pub(crate) fn fill<T: PanelElem>(&self, x: &[T], channels: usize, z: usize, y: (usize, usize), copy: &mut [f32]) {
        let short = self.pitch <= SHORT * 16 && self.step[2] <= 2 && self.inflate == [1; 3];
        match T::singles(x) {
            Some(x) if self.is_beside() => self.planes_beside(x, channels, z, y, copy),
            Some(x) if short => dispatch(Short { image: self, x, channels, z, y, copy }),
            _ => fill(self, x, channels, z, y, copy),
        }
    }

    /// Whether rows of the copy follow each other as those of the input do.
    fn is_beside(&self) -> bool {
        self.step == [1; 3] && self.inflate == [1; 3] && self.pitch == self.spec.input[2]
    }

    /// The copy when its rows are as long as those of the input and follow each other in the same
    /// way. A plane is then the rows of the input shifted by some columns. Elements that the shift
    /// moves across the ends of a row are border.
    fn planes_beside(&self, x: &[f32], channels: usize, z: usize, y: (usize, usize), copy: &mut [f32]) {
        let [depth, height, width] = self.spec.input;
        let (size, rows) = (depth * height * width, self.rows_of(y));
        let planes = self.planes(z, y);
        for (c, x) in x.chunks_exact(size.max(1)).enumerate().take(channels) {
            for plane in &planes {
                let at = c * self.channel_len() + plane.at;
                let to = &mut copy[at..at + rows * width];
                let (above, rest) = to.split_at_mut(plane.first * width);
                let (own, below) = rest.split_at_mut((plane.last - plane.first) * width);
                above.fill(0.0);
                below.fill(0.0);
                if own.is_empty() {
                    continue;
                }
                let moved = plane.column.unsigned_abs().min(width);
                let from = plane.source(plane.first) * width;
                let len = own.len();
                if plane.column < 0 {
                    // The first elements may lie before the input.
                    let out = moved.saturating_sub(from);
                    own[out..].copy_from_slice(&x[from + out - moved..from + len - moved]);
                    own.chunks_exact_mut(width).for_each(|row| row[..moved].fill(0.0));
                } else {
                    let some = len.min(size - from - moved);
                    own[..some].copy_from_slice(&x[from + moved..from + moved + some]);
                    own.chunks_exact_mut(width).for_each(|row| row[width - moved..].fill(0.0));
                }
            }
        }
    }

    #[inline(always)]
    fn fill_inline<T: PanelElem>(&self, x: &[T], channels: usize, z: usize, y: (usize, usize), copy: &mut [f32]) {
        let plane: usize = self.spec.input.iter().product();
        for c in 0..channels {
            self.rows(c, z, y, copy, Widened { image: self, x: &x[c * plane..(c + 1) * plane] });
        }
    }

    /// Approximate cycles to copy one channel for a strip of `rows` output rows.
    pub(crate) fn cost(&self, rows: usize) -> usize {
        let seen = rows + (self.spec.kernel[1] - 1) * self.spec.dilation[1] / self.step[1];
        let lines = self.spec.kernel[0] * self.phases[0].len() * self.phases[1].len();
        if self.is_beside() {
            return lines.saturating_mul(60 + seen.saturating_mul(6 + self.pitch / 8));
        }
        seen.saturating_mul(lines).saturating_mul(20 + 4 * self.pitch.div_ceil(16))
    }

    /// Elements of one channel of the copy.
    pub(crate) fn channel_len(&self) -> usize {
        self.spec.kernel[0] * self.phases[0].len() * self.phases[1].len() * self.plane
    }

    /// Border columns before a row, and the step of the copy over a row; for a convolution that is
    /// not transposed.
    pub(crate) fn columns(&self) -> (isize, usize) {
        (self.before[2], self.step[2])
    }

    /// Rows of a plane of the copy for a strip of output rows `y.0..y.1`.
    pub(crate) fn rows_of(&self, y: (usize, usize)) -> usize {
        y.1 - y.0 + (self.spec.kernel[1] - 1) * self.spec.dilation[1] / self.step[1]
    }

    /// The planes of one channel of the copy for a strip of output rows `y.0..y.1` of depth `z`;
    /// for a convolution that is not transposed.
    pub(crate) fn planes(&self, z: usize, y: (usize, usize)) -> Vec<Plane> {
        let [depth, height, _] = self.spec.input;
        let (rows, step) = (self.rows_of(y), self.step[1]);
        let mut planes = Vec::with_capacity(self.spec.kernel[0] * self.phases[0].len() * self.phases[1].len());
        for kz in 0..self.spec.kernel[0] {
            let sz = source(z * self.step[0] + kz * self.spec.dilation[0], self.before[0], 1, depth);
            for &py in &self.phases[0] {
                let top = (y.0 * step + py) as isize - self.before[1];
                let first = ((-top).max(0) as usize).div_ceil(step).min(rows);
                let seen = (height as isize - top).max(0) as usize;
                let last = if sz.is_some() { seen.div_ceil(step).clamp(first, rows) } else { first };
                let line = (sz.unwrap_or(0) * height) as isize + top;
                for &px in &self.phases[1] {
                    let column = px as isize - self.before[2];
                    planes.push(Plane { at: planes.len() * self.plane, first, last, line, step, column });
                }
            }
        }
        planes
    }

    /// Fills the rows of one channel of the copy.
    #[inline(always)]
    pub(crate) fn rows<E>(
        &self,
        channel: usize,
        z: usize,
        y: (usize, usize),
        copy: &mut [E],
        mut source_rows: impl SourceRows<E>,
    ) {
        let [depth, height, width] = self.spec.input;
        let rows = self.rows_of(y);
        let mut at = channel * self.channel_len();
        for kz in 0..self.spec.kernel[0] {
            let sz = source(z * self.step[0] + kz * self.spec.dilation[0], self.before[0], self.inflate[0], depth);
            for &py in &self.phases[0] {
                for &px in &self.phases[1] {
                    for r in 0..rows {
                        let dst = &mut copy[at + r * self.pitch..at + (r + 1) * self.pitch];
                        let sy = source((y.0 + r) * self.step[1] + py, self.before[1], self.inflate[1], height);
                        source_rows.fill(sz.zip(sy).map(|(z, y)| (z * height + y) * width), px, dst);
                    }
                    at += self.plane;
                }
            }
        }
    }

    #[inline(always)]
    fn row<T: PanelElem>(&self, src: &[T], phase: usize, dst: &mut [f32]) {
        if self.step[2] == 1 && self.inflate[2] == 1 {
            shifted(src, phase as isize - self.before[2], dst);
        } else if self.inflate[2] == 1 {
            strided(src, phase as isize - self.before[2], self.step[2], dst);
        } else {
            for (i, d) in dst.iter_mut().enumerate() {
                let s = source(i * self.step[2] + phase, self.before[2], self.inflate[2], src.len());
                *d = s.map_or(0.0, |s| src[s].wide());
            }
        }
    }
}

/// A plane of the copy of one channel. Rows `first..last` are rows of the input; those before and
/// after are border.
pub(crate) struct Plane {
    /// Where it begins in the copy of the channel.
    pub(crate) at: usize,
    pub(crate) first: usize,
    pub(crate) last: usize,
    /// Input row of row 0, counted over all depths, and the step to the next row.
    line: isize,
    step: usize,
    /// Input column of column 0.
    pub(crate) column: isize,
}

impl Plane {
    /// Input row of row `r`, which is in `first..last`.
    #[inline(always)]
    pub(crate) fn source(&self, r: usize) -> usize {
        (self.line + (r * self.step) as isize) as usize
    }
}

/// The source from which rows of the copy are filled.
pub(crate) trait SourceRows<E> {
    /// Fills a row of the copy with the columns of one remainder (`phase`). The input row begins at
    /// `from` in the channel; `None` means that the row is border. Implementations are
    /// `#[inline(always)]`, so that they are compiled for the instruction set of the caller, which
    /// is not guaranteed for closures.
    fn fill(&mut self, from: Option<usize>, phase: usize, row: &mut [E]);
}

/// Source rows of one channel, widened to `f32`.
struct Widened<'p, T> {
    image: &'p Image,
    x: &'p [T],
}

impl<T: PanelElem> SourceRows<f32> for Widened<'_, T> {
    #[inline(always)]
    fn fill(&mut self, from: Option<usize>, phase: usize, row: &mut [f32]) {
        match from {
            Some(from) => self.image.row(&self.x[from..from + self.image.spec.input[2]], phase, row),
            None => row.fill(0.0),
        }
    }
}

/// The copy of short rows in single precision. Each vector of a row is one load of the columns that
/// exist and one store. What a store writes beyond its row is overwritten by later rows or never
/// read.
struct Short<'p, 'a> {
    image: &'p Image,
    x: &'a [f32],
    channels: usize,
    z: usize,
    y: (usize, usize),
    copy: &'p mut [f32],
}

impl Work for Short<'_, '_> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        match (self.image.step[2], self.image.pitch.div_ceil(16)) {
            (1, 1) => self.planes::<I, 1, 1>(isa),
            (1, 2) => self.planes::<I, 1, 2>(isa),
            (1, 3) => self.planes::<I, 1, 3>(isa),
            (1, 4) => self.planes::<I, 1, 4>(isa),
            (1, _) => self.planes::<I, 1, SHORT>(isa),
            (_, 1) => self.planes::<I, 2, 1>(isa),
            (_, 2) => self.planes::<I, 2, 2>(isa),
            _ => self.planes::<I, 2, SHORT>(isa),
        }
    }
}

impl Short<'_, '_> {
    /// Copies rows of `V` vectors, or of at most `SHORT` if `V` is that; reads every `S`th column
    /// of the input.
    #[inline(always)]
    fn planes<I: Isa, const S: usize, const V: usize>(self, isa: I) {
        let Short { image, x, channels, z, y, copy } = self;
        let [depth, height, width] = image.spec.input;
        let size = depth * height * width;
        let rows = image.rows_of(y);
        let vectors = if V == SHORT { image.pitch.div_ceil(16).min(SHORT) } else { V };
        let mut masks = [[isa.lanes(0, 0); 2]; V];
        let planes = image.planes(z, y);
        for c in 0..channels {
            let x = &x[c * size..(c + 1) * size];
            for plane in &planes {
                for (j, m) in masks[..vectors].iter_mut().enumerate() {
                    let column = plane.column + (j * 16 * S) as isize;
                    *m = [within(isa, column, width), within(isa, column + 16, width)];
                }
                let at = c * image.channel_len() + plane.at;
                let to = &mut copy[at..at + rows.saturating_sub(1) * image.pitch + vectors * 16];
                to[..plane.first * image.pitch].fill(0.0);
                for r in plane.first..plane.last {
                    let row = plane.source(r);
                    // This is a row of the input, and the mask selects only columns of it.
                    assert!((row + 1) * width <= size);
                    let p = x.as_ptr().wrapping_add(row * width).wrapping_offset(plane.column);
                    let to = &mut to[r * image.pitch..][..vectors * 16];
                    for ((to, m), j) in to.as_chunks_mut::<16>().0.iter_mut().zip(&masks).zip(0..) {
                        let p = p.wrapping_add(j * 16 * S);
                        // SAFETY: the selected columns are columns of the row.
                        let v = unsafe {
                            let v = isa.load_some(p, m[0]);
                            if S == 1 { v } else { isa.even_odd(v, isa.load_some(p.wrapping_add(16), m[1])).0 }
                        };
                        isa.store(v, to);
                    }
                }
                if plane.last < rows {
                    to[plane.last * image.pitch..].fill(0.0);
                }
            }
        }
    }
}

/// Index in the input of a position of the padded, zero-stuffed axis; `None` in the border and
/// between input elements.
#[inline(always)]
fn source(position: usize, before: isize, inflate: usize, size: usize) -> Option<usize> {
    let p = usize::try_from(position as isize - before).ok()?;
    if inflate == 1 {
        return (p < size).then_some(p);
    }
    (p.is_multiple_of(inflate) && p / inflate < size).then_some(p / inflate)
}

crate::multiversion! {
    fn fill<T: PanelElem>(image: &Image, x: &[T], channels: usize, z: usize, y: (usize, usize), copy: &mut [f32]) {
        image.fill_inline(x, channels, z, y, copy);
    }
}

/// `dst[i] = src[i + from]`, zero outside.
#[inline(always)]
fn shifted<T: PanelElem>(src: &[T], from: isize, dst: &mut [f32]) {
    let n = dst.len();
    let lead = ((-from).max(0) as usize).min(n);
    let start = (from.max(0) as usize).min(src.len());
    let len = (src.len() - start).min(n - lead);
    dst[..lead].fill(0.0);
    for (d, s) in dst[lead..lead + len].iter_mut().zip(&src[start..start + len]) {
        *d = s.wide();
    }
    dst[lead + len..].fill(0.0);
}

/// `dst[i] = src[i * step + from]`, zero outside.
#[inline(always)]
fn strided<T: PanelElem>(src: &[T], from: isize, step: usize, dst: &mut [f32]) {
    let n = dst.len();
    let lead = (((-from).max(0) as usize).div_ceil(step)).min(n);
    let start = (from + (lead * step) as isize).max(0) as usize;
    let len = src.len().saturating_sub(start).div_ceil(step).min(n - lead);
    dst[..lead].fill(0.0);
    dst[lead + len..].fill(0.0);
    let (dst, src) = (&mut dst[lead..lead + len], &src[start.min(src.len())..]);
    match step {
        2 => first_of_each::<2, T>(src, dst),
        4 => first_of_each::<4, T>(src, dst),
        _ => dst.iter_mut().zip(src.iter().step_by(step)).for_each(|(d, s)| *d = s.wide()),
    }
}

/// The first number of each `N`. Groups of a known size let the compiler recognize the pattern.
#[inline(always)]
fn first_of_each<const N: usize, T: PanelElem>(src: &[T], dst: &mut [f32]) {
    let (groups, rest) = src.as_chunks::<N>();
    for (d, s) in dst.iter_mut().zip(groups) {
        *d = s[0].wide();
    }
    if let (Some(d), Some(s)) = (dst.get_mut(groups.len()), rest.first()) {
        *d = s.wide();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, with_level};

    #[test]
    fn rows_copied_by_vectors_are_those_copied_one_by_one_on_every_level() {
        let sizes = [1, 2, 7, 8, 14, 15, 16, 17, 31, 32, 33, 56, 63, 64, 65, 112, 126, 128, 129];
        for (width, pad, (kernel, stride), apart) in
            sizes.iter().flat_map(|w| [0, 1, 3].map(|p| (*w, p))).flat_map(|(w, p)| {
                let windows = [(1, 1), (3, 1), (3, 2), (5, 2), (7, 3), (7, 1)];
                windows.into_iter().flat_map(move |k| [false, true].map(|apart| (w, p, k, apart)))
            })
        {
            let mut s = ConvSpec::square(1, [3, 4], 1, 1);
            s.input = [1, 6, width];
            s.kernel = [1, 3, kernel];
            s.stride = [1, stride, stride];
            s.pad_before = [0, 1, pad];
            s.pad_after = [0, 1, pad];
            if s.check().is_err() {
                continue;
            }
            let image = Image::with(&s, 3, apart).unwrap();
            // NaN is copied like any other number, and nothing is read beyond the rows.
            let x: Vec<f32> = (0..18 * width).map(|i| if i % 7 == 3 { f32::NAN } else { i as f32 }).collect();
            for y in (0..image.out[1]).map(|y| (y, (y + 3).min(image.out[1]))) {
                let mut want = vec![-1.0; image.len(3)];
                super::fill(&image, &x, 3, 0, y, &mut want);
                for level in Level::available() {
                    let mut copy = vec![-1.0; want.len()];
                    with_level(level, || image.fill(&x, 3, 0, y, &mut copy));
                    let rows = y.1 - y.0 + 2 / s.stride[1];
                    for (plane, at) in want.chunks(image.plane).zip((0..).step_by(image.plane)) {
                        let len = (rows * image.pitch).min(plane.len());
                        if at >= 3 * image.channel_len() {
                            break;
                        }
                        let bits = |v: &[f32]| v[at..at + len].iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                        assert_eq!(bits(&copy), bits(&want), "{level:?} {y:?} {s:?}");
                    }
                }
            }
        }
    }
}
