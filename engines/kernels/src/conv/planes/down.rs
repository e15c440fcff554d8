//! Windows of three rows and columns that move down a plane, sixteen columns of the result at a
//! time. A row of the input is read once, and multiplied by the taps of all result rows that it
//! contributes to; the taps stay in registers.
use super::window::{self, Edges, band, masks, taps};
use super::{Plane, Shape, Source};
use crate::simd::isa::{Isa, Work};

/// Height and width of a window.
const K: usize = 3;

/// Computes planes of narrow images without residual and factor. Instruction sets with registers
/// for all taps go along bands of rows instead.
pub(super) struct Narrow<'p, const S: usize, P> {
    pub(super) of: &'p Shape,
    pub(super) count: usize,
    pub(super) source: &'p mut P,
}

impl<const S: usize, P: Source> Work for Narrow<'_, S, P> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let edges = Edges::new::<S>(isa, self.of);
        for i in 0..self.count {
            let plane = self.source.plane(i);
            if NP == 1 {
                down::<I, S>(isa, self.of, &edges, plane);
            } else {
                band::<I, K, S>(isa, self.of, &edges, plane);
            }
        }
    }
}

/// Computes the rows of one plane.
#[inline(always)]
fn down<I: Isa, const S: usize>(isa: I, of: &Shape, edges: &Edges<I, K>, plane: Plane<'_>) {
    let Shape { size: (high, wide), pad, rows, width, .. } = *of;
    let Plane { x, w, shift, out, .. } = plane;
    assert!(x.len() == high * wide && out.len() == rows * width);
    let (taps, shift) = (taps::<I, K>(isa, w), isa.splat(shift));
    // Input columns that sixteen results read.
    let reach = if S == 1 { 15 + K } else { 31 + K };
    for j in (0..width).step_by(16) {
        let j = j.min(edges.last);
        let from = (j * S) as isize - pad.1;
        let column = Column { of, edges, taps: &taps, shift, x, from };
        let out = &mut out[j..];
        if from >= 0 && from as usize + reach <= wide && width >= 16 {
            column.run::<S, false>(isa, &edges.left, out);
        } else if j == 0 {
            column.run::<S, true>(isa, &edges.left, out);
        } else if j == edges.last {
            column.run::<S, true>(isa, &edges.right, out);
        } else {
            column.run::<S, true>(isa, &masks::<I, K>(isa, from, wide), out);
        }
    }
}

/// Sixteen columns of the result.
struct Column<'p, I: Isa> {
    of: &'p Shape,
    edges: &'p Edges<I, K>,
    taps: &'p [[I::V; K]; K],
    shift: I::V,
    x: &'p [f32],
    /// The first input column, which may be outside the input.
    from: isize,
}

impl<I: Isa> Column<'_, I> {
    /// Computes all rows. `out` begins with the first of these columns.
    #[inline(always)]
    fn run<const S: usize, const MASKED: bool>(&self, isa: I, masks: &[[I::M; 2]; K], out: &mut [f32]) {
        let Shape { pad, first, rows, width, limits, .. } = *self.of;
        let (low, high) = (isa.splat(limits.0), isa.splat(limits.1));
        let top = (first * S) as isize - pad.0;
        let zero = isa.splat(0.0);
        // The sums of the next two result rows, without the last `S` rows of the first one.
        let seen = self.row::<S, MASKED>(isa, top, masks);
        let mut begun = [zero, sum(isa, &self.taps[0], &seen, zero)];
        if S == 1 {
            let seen = self.row::<S, MASKED>(isa, top + 1, masks);
            begun = [sum(isa, &self.taps[1], &seen, begun[1]), sum(isa, &self.taps[0], &seen, zero)];
        }
        for y in 0..rows {
            let next = top + (y * S + K - S) as isize;
            let seen = self.row::<S, MASKED>(isa, next, masks);
            let done = if S == 1 {
                let done = sum(isa, &self.taps[2], &seen, begun[0]);
                begun = [sum(isa, &self.taps[1], &seen, begun[1]), sum(isa, &self.taps[0], &seen, zero)];
                done
            } else {
                let half = sum(isa, &self.taps[1], &seen, begun[1]);
                let seen = self.row::<S, MASKED>(isa, next + 1, masks);
                begun[1] = sum(isa, &self.taps[0], &seen, zero);
                sum(isa, &self.taps[2], &seen, half)
            };
            let v = isa.at_most(isa.at_least(isa.add(done, self.shift), low), high);
            let to = &mut out[y * width..];
            match to.first_chunk_mut().filter(|_| width >= 16) {
                Some(to) => isa.store(v, to),
                // SAFETY: the mask selects columns of the row.
                None => unsafe { isa.store_some(v, to[..width].as_mut_ptr(), self.edges.stored) },
            }
        }
    }

    /// What the taps of a window row are multiplied by; zeros if the row is outside the input.
    #[inline(always)]
    fn row<const S: usize, const MASKED: bool>(&self, isa: I, row: isize, masks: &[[I::M; 2]; K]) -> [I::V; K] {
        let (high, wide) = self.of.size;
        if !(0..high as isize).contains(&row) {
            return [isa.splat(0.0); K];
        }
        let p = self.x.as_ptr().wrapping_offset(row * wide as isize + self.from);
        // SAFETY: a row of the input, of which all columns exist, or the masks select existing ones.
        unsafe { window::row::<I, K, S, MASKED>(isa, p, masks) }
    }
}

/// Adds the products of a window row.
#[inline(always)]
fn sum<I: Isa>(isa: I, taps: &[I::V; K], seen: &[I::V; K], mut sum: I::V) -> I::V {
    for (tap, seen) in taps.iter().zip(seen) {
        sum = isa.fma(*tap, *seen, sum);
    }
    sum
}
