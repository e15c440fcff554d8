//! Sums of many short rows, and of columns that stand side by side, sixteen results at a time, in
//! single precision: the additions of each are those of [`sum_by`](crate::simd::fold::sum_by), in
//! the same order.
use super::{Reduce, Reduction};
use crate::simd::fold::LANES;
use crate::simd::isa::{Isa, Work, dispatch};
use crate::simd::turn::{fold, load, turn};
use crate::view::Out;
use std::ops::Range;

/// Lanes of a vector.
const WIDE: usize = 16;
/// Vectors that a sum runs in.
const SUMS: usize = LANES / WIDE;
/// Numbers of a row from which it has vectors enough by itself.
const LONG: usize = 1024;

impl Reduction {
    /// Does the units where they are sums of short rows or of columns; whether they are.
    pub(super) fn run_many(&self, units: Range<usize>, x: &[f32], out: &mut Out<'_, f32>) -> bool {
        if !matches!(self.op, Reduce::Sum | Reduce::Mean | Reduce::SumSquare | Reduce::L2) || units.is_empty() {
            return false;
        }
        if self.rows && self.count <= LONG {
            let to = out.part(units.start, units.len());
            dispatch(Rows { of: self, x: &x[units.start * self.count..units.end * self.count], to });
            return true;
        }
        if !self.columns {
            return false;
        }
        let mut at = units.start;
        self.kept.each_run_in(units, |[from], len, _| {
            let to = out.part(at, len);
            dispatch(Columns { of: self, x: &x[from as usize..], to });
            at += len;
        });
        true
    }

    /// What is added for an element.
    #[inline(always)]
    fn term<I: Isa>(&self, isa: I, v: I::V) -> I::V {
        if matches!(self.op, Reduce::SumSquare | Reduce::L2) { isa.fma(v, v, isa.splat(-0.0)) } else { v }
    }

    /// The first sixteen lanes of the sum of a row, to which the others are added.
    #[inline(always)]
    fn first_lanes<I: Isa>(&self, isa: I, row: &[f32]) -> I::V {
        let mut sums = [isa.splat(0.0); SUMS];
        let (whole, rest) = row.as_chunks::<WIDE>();
        for (k, x) in whole.iter().enumerate() {
            sums[k % SUMS] = isa.add(sums[k % SUMS], self.term(isa, isa.load(x)));
        }
        if !rest.is_empty() {
            let last = self.term(isa, load(isa, rest, 0));
            sums[whole.len() % SUMS] = isa.add(sums[whole.len() % SUMS], last);
        }
        isa.add(isa.add(sums[0], sums[2]), isa.add(sums[1], sums[3]))
    }

    /// Results from the sixteen lanes of their sums.
    #[inline(always)]
    fn end<I: Isa>(&self, isa: I, lanes: [I::V; WIDE], to: &mut [f32]) {
        let mut sums = [0.0; WIDE];
        isa.store(fold(lanes, |a, b| isa.add(a, b)), &mut sums);
        match self.op {
            Reduce::Mean => sums.iter_mut().for_each(|v| *v /= self.count as f32),
            Reduce::L2 => sums.iter_mut().for_each(|v| *v = v.sqrt()),
            _ => {}
        }
        to.copy_from_slice(&sums[..to.len()]);
    }
}

/// Rows one behind the other.
struct Rows<'a> {
    of: &'a Reduction,
    x: &'a [f32],
    to: &'a mut [f32],
}

impl Work for Rows<'_> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let count = self.of.count;
        for (group, to) in self.to.chunks_mut(WIDE).enumerate() {
            let mut v = [isa.splat(0.0); WIDE];
            for (row, v) in v.iter_mut().enumerate().take(to.len()) {
                let at = (group * WIDE + row) * count;
                // Of a row of a vector at most what stands behind it is left out below.
                *v = if count <= WIDE {
                    self.of.term(isa, load(isa, self.x, at))
                } else {
                    self.of.first_lanes(isa, &self.x[at..at + count])
                };
            }
            turn(isa, &mut v);
            v.iter_mut().skip(count).for_each(|v| *v = isa.splat(0.0));
            // A sum that begins with zero is never minus zero.
            v[0] = isa.add(v[0], isa.splat(0.0));
            self.of.end(isa, v, to);
        }
    }
}

/// Columns side by side: `x` begins with the first number of the first.
struct Columns<'a> {
    of: &'a Reduction,
    x: &'a [f32],
    to: &'a mut [f32],
}

impl Work for Columns<'_> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        for (group, to) in self.to.chunks_mut(WIDE).enumerate() {
            let mut lanes = [[0.0; WIDE]; LANES];
            let mut at = 0;
            self.of.reduced.each_run(|[from], len, [step]| {
                for k in 0..len as isize {
                    let v = self.of.term(isa, load(isa, self.x, (from + k * step) as usize + group * WIDE));
                    let sum = &mut lanes[at % LANES];
                    isa.store(isa.add(isa.load(sum), v), sum);
                    at += 1;
                }
            });
            let mut n = LANES / 2;
            while n >= WIDE {
                for i in 0..n {
                    let sum = isa.add(isa.load(&lanes[i]), isa.load(&lanes[i + n]));
                    isa.store(sum, &mut lanes[i]);
                }
                n /= 2;
            }
            let mut v = [isa.splat(0.0); WIDE];
            for (v, lane) in v.iter_mut().zip(&lanes) {
                *v = isa.load(lane);
            }
            self.of.end(isa, v, to);
        }
    }
}
