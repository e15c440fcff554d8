//! The hyperbolic tangent of many numbers. Each number takes a long row of steps that wait for each
//! other, so several vectors go through them side by side.
use crate::simd::isa::{Isa, Work, dispatch};
use crate::simd::math::{EXP, LN2_HI, LN2_LO, ROUND};

/// Vectors side by side.
const BESIDE: usize = 2;
/// Numbers in these vectors.
const TOGETHER: usize = BESIDE * 16;

/// `dst[i] = tanh(src[i])` up to the shorter length of the two, with the bits of
/// [`math::tanh`](crate::simd::math::tanh).
pub(crate) fn tanh_to(src: &[f32], dst: &mut [f32]) {
    let n = dst.len().min(src.len());
    dispatch(Tanh { src: Some(&src[..n]), dst: &mut dst[..n] });
}

/// `data[i] = tanh(data[i])`, with the same bits.
pub(crate) fn tanh_in_place(data: &mut [f32]) {
    dispatch(Tanh { src: None, dst: data });
}

struct Tanh<'a> {
    /// The numbers, or `None` if they are where the results go.
    src: Option<&'a [f32]>,
    dst: &'a mut [f32],
}

impl Work for Tanh<'_> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let whole = self.dst.len() / TOGETHER * TOGETHER;
        let (blocks, rest) = self.dst.split_at_mut(whole);
        let blocks = blocks.as_chunks_mut::<TOGETHER>().0;
        match self.src {
            Some(src) => {
                for (from, to) in src.as_chunks::<TOGETHER>().0.iter().zip(blocks) {
                    block(isa, Some(from), to);
                }
            }
            None => {
                for to in blocks {
                    block(isa, None, to);
                }
            }
        }
        if !rest.is_empty() {
            let mut last = [0.0; TOGETHER];
            last[..rest.len()].copy_from_slice(self.src.map_or(&*rest, |src| &src[whole..]));
            block(isa, None, &mut last);
            rest.copy_from_slice(&last[..rest.len()]);
        }
    }
}

/// The steps of `math::tanh` for the numbers of `x`, or else of `y`, where the results go: each for
/// all vectors before the next.
#[inline(always)]
fn block<I: Isa>(isa: I, x: Option<&[f32; TOGETHER]>, y: &mut [f32; TOGETHER]) {
    let [first, second] = x.unwrap_or(y).as_chunks::<16>().0 else { unreachable!("two vectors") };
    let (u, v) = (isa.load(first), isa.load(second));
    let zero = isa.splat(0.0);
    let both = |v: I::V| isa.at_most(isa.add(v, v), isa.splat(40.0));
    let (a, b) = (both(isa.with_sign(u, zero)), both(isa.with_sign(v, zero)));
    let (log, round) = (isa.splat(std::f32::consts::LOG2_E), isa.splat(ROUND));
    let (s, t) = (isa.fma(a, log, round), isa.fma(b, log, round));
    let (m, n) = (isa.add(s, isa.splat(-ROUND)), isa.add(t, isa.splat(-ROUND)));
    let high = isa.splat(-LN2_HI);
    let (a, b) = (isa.fma(m, high, a), isa.fma(n, high, b));
    let low = isa.splat(-LN2_LO);
    let (a, b) = (isa.fma(m, low, a), isa.fma(n, low, b));
    let (mut p, mut q) = (isa.splat(EXP[EXP.len() - 1]), isa.splat(EXP[EXP.len() - 1]));
    for &c in EXP[..EXP.len() - 1].iter().rev() {
        let c = isa.splat(c);
        (p, q) = (isa.fma(p, a, c), isa.fma(q, b, c));
    }
    let (p, q) = (isa.fma(isa.mul(a, a), p, a), isa.fma(isa.mul(b, b), q, b));
    let (s, t) = (isa.power(s), isa.power(t));
    let less = isa.splat(-1.0);
    let (p, q) = (isa.fma(s, p, isa.add(s, less)), isa.fma(t, q, isa.add(t, less)));
    let two = isa.splat(2.0);
    let (p, q) = (isa.div(p, isa.add(p, two)), isa.div(q, isa.add(q, two)));
    let [first, second] = y.as_chunks_mut::<16>().0 else { unreachable!("two vectors") };
    isa.store(isa.with_sign(p, u), first);
    isa.store(isa.with_sign(q, v), second);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, math, with_level};

    #[test]
    fn the_bits_are_those_of_single_numbers_at_every_length_on_every_level() {
        let ends = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, 1e-45, -1e-30, 3e38, -20.0, 20.5, f32::NAN, -f32::NAN];
        let x: Vec<f32> = (-3000..3000).map(|i| i as f32 * 0.007).chain(ends).collect();
        let bits = |v: &[f32]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        for level in Level::available() {
            with_level(level, || {
                for n in (0..100).chain([x.len()]) {
                    let x = &x[x.len() - n..];
                    let want: Vec<f32> = x.iter().map(|v| math::tanh(*v)).collect();
                    let (mut y, mut own) = (vec![7.0; n + 3], x.to_vec());
                    tanh_to(x, &mut y);
                    tanh_in_place(&mut own);
                    assert_eq!(bits(&y[..n]), bits(&want), "{level:?} {n}");
                    assert_eq!((bits(&own), &y[n..]), (bits(&want), &[7.0; 3][..]), "{level:?} {n}");
                }
            });
        }
    }
}
