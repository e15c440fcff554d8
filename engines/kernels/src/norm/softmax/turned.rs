//! Short rows, sixteen at a time: they are turned, so that lanes are rows and registers are full
//! however short a row is, and turned back.
use crate::scratch::with_scratch;
use crate::simd::exp::exp_below;
use crate::simd::isa::{Isa, Work, dispatch};
use crate::simd::math;
use crate::simd::turn::{load, turn};

const WIDE: usize = 16;
/// Vectors that a sum runs in.
const SUMS: usize = 4;
/// Numbers of a row at most: turning costs less than what rows that fill no vectors leave idle.
const SHORT: usize = 96;

/// Whether rows of `len` numbers are such.
pub(super) fn takes(len: usize) -> bool {
    len <= SHORT
}

/// The softmax of rows of `len` numbers, or its logarithm: from `x`, or from where the results go.
pub(super) fn run(x: Option<&[f32]>, y: &mut [f32], len: usize, log: bool) {
    with_scratch(len.next_multiple_of(WIDE) * WIDE, |lines| {
        let lines = lines.as_chunks_mut().0;
        for (k, y) in y.chunks_mut(WIDE * len).enumerate() {
            let x = x.map(|x| &x[k * WIDE * len..][..y.len()]);
            dispatch(Turned { x, y, len, log, lines });
        }
    });
}

struct Turned<'a> {
    x: Option<&'a [f32]>,
    y: &'a mut [f32],
    len: usize,
    log: bool,
    /// A line of the rows' numbers for each of a row, up to whole squares.
    lines: &'a mut [[f32; WIDE]],
}

impl Work for Turned<'_> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let Turned { x, y, len, log, lines } = self;
        let rows = y.len() / len;
        let from = x.unwrap_or(y);
        for (at, square) in (0..).step_by(WIDE).zip(lines.as_chunks_mut::<WIDE>().0) {
            let mut v = [isa.splat(0.0); WIDE];
            for (r, v) in v.iter_mut().enumerate().take(rows) {
                // What stands behind a row is not looked at.
                *v = load(isa, from, r * len + at);
            }
            turn(isa, &mut v);
            for (v, line) in v.into_iter().zip(square) {
                isa.store(v, line);
            }
        }
        let own = &mut lines[..len];
        // Maxima may pass over what is not a number: its sum finds that.
        let mut most = isa.splat(f32::NEG_INFINITY);
        for line in own.iter() {
            most = isa.at_least(most, isa.load(line));
        }
        let less = isa.mul(most, isa.splat(-1.0));
        let mut sums = [isa.splat(0.0); SUMS];
        for (i, line) in own.iter_mut().enumerate() {
            let e = exp_below(isa, isa.add(isa.load(line), less));
            sums[i % SUMS] = isa.add(sums[i % SUMS], e);
            if !log {
                isa.store(e, line);
            }
        }
        let [a, b, c, d] = sums;
        let mut sum = [0.0; WIDE];
        isa.store(isa.add(isa.add(a, c), isa.add(b, d)), &mut sum);
        // A loop: what a closure computes is not compiled for the instruction set.
        for sum in &mut sum {
            *sum = if log { -math::ln(*sum) } else { 1.0 / *sum };
        }
        let ends = isa.load(&sum);

        // The last square first: what its vectors write behind their rows is written again.
        for (k, square) in lines.as_chunks::<WIDE>().0.iter().enumerate().rev() {
            let mut v = [isa.splat(0.0); WIDE];
            for (v, line) in v.iter_mut().zip(square) {
                let line = isa.load(line);
                // Not `x - (max + ln)`: beside a large maximum the logarithm's digits would be lost.
                *v = if log { isa.add(isa.add(line, less), ends) } else { isa.mul(line, ends) };
            }
            turn(isa, &mut v);
            for (r, v) in v.into_iter().enumerate().take(rows) {
                let to = &mut y[r * len + k * WIDE..];
                match to.first_chunk_mut() {
                    Some(to) => isa.store(v, to),
                    // SAFETY: the lanes are as many as there is room for.
                    None => unsafe { isa.store_some(v, to.as_mut_ptr(), isa.lanes(0, to.len())) },
                }
            }
        }
    }
}
