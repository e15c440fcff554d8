//! Requantisation of sums of products of bytes, with one scale for a run of sums: the step after a
//! convolution.
use crate::simd::bytes::{Bytes, Ends, ONE, Source, byte_of_double, bytes, each, sixteen, woven};

/// Parameters that turn sums into bytes: `y = saturate(round_half_even(sum * scale) + zero)`, with
/// the product in double precision.
#[derive(Clone, Copy, Debug)]
pub struct Requantise<'a> {
    /// One scale, or one per channel.
    pub scale: &'a [f32],
    /// Zero point of the bytes.
    pub zero: i32,
    /// The smallest and the greatest byte.
    pub range: [i32; 2],
}

/// Adds `add` to each sum of one channel and turns the sums into bytes, signed or unsigned.
pub fn requantise_row(sums: &[i32], add: i32, to: &Requantise<'_>, channel: usize, y: &mut [u8]) {
    let (from, ends) = Sums::of(sums, add, to, channel);
    let n = y.len().min(sums.len());
    bytes(from, ends, &mut y[..n]);
}

/// Like [`requantise_row`], for sums in groups of 64. The columns of a tile become contiguous in
/// `y`, which has `rows` rows of equal length ([`woven`]).
pub(crate) fn requantise_tiles(sums: &[i32], add: i32, to: &Requantise<'_>, channel: usize, rows: usize, y: &mut [u8]) {
    let (from, ends) = Sums::of(sums, add, to, channel);
    woven(from, ends, [rows, sums.len() / rows], y);
}

/// Sums that are all multiplied by one scale.
#[derive(Clone, Copy)]
struct Sums<'a> {
    sums: &'a [i32],
    add: i32,
    scale: f32,
    zero: i32,
    range: [i32; 2],
}

impl<'a> Sums<'a> {
    /// The sums of a channel, and the bounds of their bytes if single precision can find the bytes.
    fn of(sums: &'a [i32], add: i32, to: &Requantise<'_>, channel: usize) -> (Sums<'a>, Option<Ends>) {
        let scale = to.scale.get(if to.scale.len() == 1 { 0 } else { channel }).copied().unwrap_or(1.0);
        // Such a scale times 2^14 is still far from the limits of single precision.
        let ends = Ends::new(to.zero, to.range).filter(|_| scale.abs() < 1e30);
        (Sums { sums, add, scale, zero: to.zero, range: to.range }, ends)
    }
}

impl Source for Sums<'_> {
    const NAN: bool = false;

    #[inline(always)]
    fn sixteen<I: Bytes>(&self, isa: I, at: usize) -> I::V {
        isa.mul(isa.of_words(sixteen(self.sums, at), self.add), isa.splat(self.scale * ONE))
    }

    #[inline(always)]
    fn exact(&self, at: usize) -> u8 {
        self.byte(self.sums[at])
    }
    #[inline(always)]
    fn exact_sixteen(&self, at: usize) -> [u8; 16] {
        let sums = sixteen(self.sums, at);
        each(|i| self.byte(sums[i]))
    }
}

impl Sums<'_> {
    #[inline(always)]
    fn byte(&self, sum: i32) -> u8 {
        byte_of(sum.wrapping_add(self.add), self.scale, f64::from(self.zero), self.range.map(f64::from))
    }
}

/// The byte of a sum, with the product in double precision; NaN becomes zero.
#[inline(always)]
pub(crate) fn byte_of(sum: i32, scale: f32, zero: f64, [low, high]: [f64; 2]) -> u8 {
    let v = (f64::from(sum) * f64::from(scale)).round_ties_even() + zero;
    let v = if v < low { low } else { v };
    let v = if v > high { high } else { v };
    byte_of_double(if v.is_nan() { 0.0 } else { v })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, with_level};

    #[test]
    fn sums_near_the_middle_of_two_bytes_are_rounded_as_in_double_precision() {
        // Around every half there are sums whose product is just below, on, and just above it.
        for scale in [1.0f32 / 3.0, 0.000_976_562_5, 0.000_976_562_6, 0.003_921_568_6, 0.000_061_035_2, 7.3e-6] {
            let middle = (-300..300).map(|k| (f64::from(k) + 0.5) / f64::from(scale));
            let sums: Vec<i32> = middle.flat_map(|m| (-3..4).map(move |d| m as i32 + d)).collect();
            let want: Vec<u8> = sums
                .iter()
                .map(|s| ((f64::from(*s) * f64::from(scale)).round_ties_even() + 11.0).clamp(0.0, 255.0) as u8)
                .collect();
            for level in Level::available() {
                let mut y = vec![9u8; sums.len()];
                let to = Requantise { scale: &[scale], zero: 11, range: [0, 255] };
                with_level(level, || requantise_row(&sums, 0, &to, 0, &mut y));
                assert_eq!(y, want, "{level:?} {scale}");
            }
        }
    }

    #[test]
    fn sums_become_bytes_by_the_definition_on_every_level() {
        let ends = [i32::MIN, i32::MIN + 1, i32::MAX, i32::MAX - 1, 0, 1, -1];
        let sums: Vec<i32> = (-300..300).chain(ends).chain((0..60).map(|i| i * 71_582_788 - i32::MAX)).collect();
        let scales = [
            0.5f32,
            0.25,
            0.5 + f32::EPSILON,
            0.125 - f32::EPSILON,
            1.5e-8,
            1e-45,
            1.0 / 8_388_609.0,
            1.0 / 3.0,
            1e-9,
            3e30,
            -0.5,
            0.0,
            f32::INFINITY,
            f32::NAN,
            f32::NEG_INFINITY,
        ];
        for (scale, range, add) in scales.iter().flat_map(|s| [[0, 255], [-128, 127]].map(|r| (*s, r, 3))) {
            for zero in [range[0], 7, range[1]] {
                let want: Vec<u8> = sums
                    .iter()
                    .map(|s| (f64::from(s.wrapping_add(add)) * f64::from(scale)).round_ties_even() + f64::from(zero))
                    .map(|v| v.clamp(f64::from(range[0]), f64::from(range[1])) as i32 as u8)
                    .collect();
                for level in Level::available() {
                    let mut y = vec![9u8; sums.len()];
                    let to = Requantise { scale: &[5.0, scale], zero, range };
                    with_level(level, || requantise_row(&sums, add, &to, 1, &mut y));
                    assert_eq!(y, want, "{level:?} {scale} {zero}");
                }
            }
        }
    }
}
