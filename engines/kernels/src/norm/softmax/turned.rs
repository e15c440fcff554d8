//! Short rows, sixteen at a time. They are transposed, so that lanes are rows and registers are
//! full however short a row is, and transposed back.
use super::lines::{WIDE, end, ends};
use crate::scratch::with_scratch;
use crate::simd::isa::{Isa, Work, dispatch};
use crate::simd::turn::{load, turn};

/// Longest rows for which transposing costs less than the lanes that partial vectors leave unused.
const SHORT: usize = 24;

/// Whether rows of `len` numbers are short enough.
pub(super) fn takes(len: usize) -> bool {
    len <= SHORT
}

/// The softmax of rows of `len` numbers, or its logarithm. The numbers are in `x`, or else in `y`,
/// where the results go.
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
    /// The transposed rows: one line for each position of a row, rounded up to whole squares.
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
                // Numbers beyond the end of the row are loaded, but not used.
                *v = load(isa, from, r * len + at);
            }
            turn(isa, &mut v);
            for (v, line) in v.iter().zip(square) {
                isa.store(*v, line);
            }
        }
        let own = &mut lines[..len];
        let mut most = isa.splat(f32::NEG_INFINITY);
        for line in own.iter() {
            most = isa.at_least(most, isa.load(line));
        }
        let ends = ends(isa, own, most, log);

        // The last square comes first: what its vectors write beyond their rows is overwritten
        // later.
        for (k, square) in lines.as_chunks::<WIDE>().0.iter().enumerate().rev() {
            let mut v = [isa.splat(0.0); WIDE];
            for (v, line) in v.iter_mut().zip(square) {
                *v = end(isa, line, &ends);
            }
            turn(isa, &mut v);
            for (r, v) in v.iter().enumerate().take(rows) {
                let to = &mut y[r * len + k * WIDE..];
                match to.first_chunk_mut() {
                    Some(to) => isa.store(*v, to),
                    // SAFETY: only as many lanes are written as there is room for.
                    None => unsafe { isa.store_some(*v, to.as_mut_ptr(), isa.lanes(0, to.len())) },
                }
            }
        }
    }
}
