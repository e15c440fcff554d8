//! Short rows, sixteen at a time: they are turned, so that lanes are rows and registers are full
//! however short a row is, and turned back.
use super::lines::{WIDE, end, ends};
use crate::scratch::with_scratch;
use crate::simd::isa::{Isa, Work, dispatch};
use crate::simd::turn::{load, turn};

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
        let mut most = isa.splat(f32::NEG_INFINITY);
        for line in own.iter() {
            most = isa.at_least(most, isa.load(line));
        }
        let ends = ends(isa, own, most, log);

        // The last square first: what its vectors write behind their rows is written again.
        for (k, square) in lines.as_chunks::<WIDE>().0.iter().enumerate().rev() {
            let mut v = [isa.splat(0.0); WIDE];
            for (v, line) in v.iter_mut().zip(square) {
                *v = end(isa, line, &ends);
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
