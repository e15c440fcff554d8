//! Convolutions of bytes with one input channel per group: every output channel is a weighted sum
//! of shifted runs of one plane.
use super::{ByteConv, ByteFilter, ByteImages, Runs, of_channel};
use crate::conv::image::{Image, SourceRows};
use crate::scratch::with_scratch;
use crate::view::{as_bytes_mut, seen_as_mut};
use std::ops::Range;

/// Positions whose sums stay in registers.
const LANES: usize = 64;

/// Rows and channels of a unit for planes of the given sizes: some tens of thousands of positions,
/// and enough units to share.
pub(super) fn units(out: [usize; 3], channels: usize, wanted: usize) -> (usize, usize) {
    let [depth, height, width] = out.map(|v| v.max(1));
    let rows = (32 * 1024 / width).clamp(1, height);
    let plane = depth * height * width;
    (rows, (16 * 1024 / plane).clamp(1, 64).min(channels.div_ceil(wanted).max(1)))
}

impl ByteConv {
    /// The variant of [`ByteConv::each`] for one input channel per group.
    pub(super) fn each_plane(
        &self,
        units: Range<usize>,
        x: ByteImages<'_>,
        w: ByteFilter<'_>,
        bias: &[i32],
        mut done: impl FnMut(&Runs, i32, &mut [i32], &mut [u8]),
    ) {
        let s = &self.spec;
        let (taps, multiplier) = (s.taps(), s.channels_out / s.groups);
        let [_, height, width] = self.out;
        let (size_in, size_out) = (s.input.iter().product::<usize>(), self.out.iter().product::<usize>());
        let pitch = self.image.pitch;
        let most = (self.rows * pitch).next_multiple_of(LANES);
        let copy_len = (self.image.len(1) + LANES).div_ceil(4);
        let mut weights = vec![0i32; taps];
        with_scratch(copy_len + most + most.div_ceil(4), |all| {
            let (copy, rest) = all.split_at_mut(copy_len);
            let (sums, bytes) = rest.split_at_mut(most);
            let (copy, bytes) = (as_bytes_mut(copy), as_bytes_mut(bytes));
            // The working memory is lent as floats; here it holds integers of the same size.
            let Ok(sums) = seen_as_mut::<i32, _>(sums) else { return };
            for unit in units.start..units.end.min(self.units()) {
                let (rest, strip) = (unit / self.strips(), unit % self.strips());
                let (n, block) = (rest / self.blocks(), rest % self.blocks());
                let per = height.div_ceil(self.rows);
                let (z, y0) = (strip / per, strip % per * self.rows);
                let y = (y0, (y0 + self.rows).min(height));
                let flat = (y.1 - y0 - 1) * pitch + width;
                let mut filled = None;
                for o in block * self.block..((block + 1) * self.block).min(s.channels_out) {
                    let c = o / multiplier;
                    if filled != Some(c) {
                        let plane = &x.x[(n * s.channels_in + c) * size_in..][..size_in];
                        fill(&self.image, plane, (z, y), (x.flip, x.zero), copy);
                        filled = Some(c);
                    }
                    let zero = of_channel(w.zeros, o);
                    for (to, v) in weights.iter_mut().zip(&w.packed[o * taps..]) {
                        *to = i32::from(*v) - zero;
                    }
                    let own = weights.iter().fold(0i32, |a, v| a.wrapping_add(*v));
                    let add = of_channel(bias, o).wrapping_sub(own.wrapping_mul(i32::from(x.zero)));
                    shifted_sums(&weights, &self.image.places, copy, &mut sums[..flat.next_multiple_of(LANES)]);
                    let to = (n * s.channels_out + o) * size_out + (z * height + y0) * width;
                    let runs = Runs { channel: o, to, run: width, pitch, runs: y.1 - y0 };
                    done(&runs, add, &mut sums[..flat], &mut bytes[..flat]);
                }
            }
        });
    }
}

/// Source rows of one channel; each byte passes through an exclusive or with `flip`.
struct Plane<'p> {
    x: &'p [u8],
    width: usize,
    flip: u8,
    zero: u8,
    before: isize,
    step: usize,
}

impl SourceRows<u8> for Plane<'_> {
    #[inline(always)]
    fn fill(&mut self, from: Option<usize>, phase: usize, row: &mut [u8]) {
        let Some(at) = from else { return row.fill(self.zero) };
        let source = &self.x[at..at + self.width];
        let (n, step, from) = (row.len(), self.step, phase as isize - self.before);
        let lead = ((-from).max(0) as usize).div_ceil(step).min(n);
        let start = ((from + (lead * step) as isize).max(0) as usize).min(self.width);
        let len = (self.width - start).div_ceil(step).min(n - lead);
        row[..lead].fill(self.zero);
        row[lead + len..].fill(self.zero);
        let (row, source) = (&mut row[lead..lead + len], &source[start..]);
        match step {
            1 => row.iter_mut().zip(source).for_each(|(r, s)| *r = s ^ self.flip),
            2 => {
                // Pairs let the compiler recognize the pattern.
                let (pairs, rest) = source.as_chunks::<2>();
                row.iter_mut().zip(pairs).for_each(|(r, s)| *r = s[0] ^ self.flip);
                if let (Some(r), Some(s)) = (row.get_mut(pairs.len()), rest.first()) {
                    *r = s ^ self.flip;
                }
            }
            _ => row.iter_mut().zip(source.iter().step_by(step)).for_each(|(r, s)| *r = s ^ self.flip),
        }
    }
}

crate::multiversion! {
    fn fill(image: &Image, x: &[u8], at: (usize, (usize, usize)), bytes: (u8, u8), copy: &mut [u8]) {
        let ((z, y), (flip, zero)) = (at, bytes);
        let (before, step) = image.columns();
        image.rows(0, z, y, copy, Plane { x, width: image.spec.input[2], flip, zero, before, step });
    }
}

crate::multiversion! {
    /// `sums[i] = sum_t w[t] * copy[places[t] + i]`.
    fn shifted_sums(w: &[i32], places: &[u32], copy: &[u8], sums: &mut [i32]) {
        for (b, sums) in sums.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
            let mut acc = [0i32; LANES];
            for (w, place) in w.iter().zip(places) {
                let Some(x) = copy[*place as usize + b * LANES..].first_chunk::<LANES>() else { continue };
                for i in 0..LANES {
                    acc[i] = acc[i].wrapping_add(w.wrapping_mul(i32::from(x[i])));
                }
            }
            *sums = acc;
        }
    }
}
