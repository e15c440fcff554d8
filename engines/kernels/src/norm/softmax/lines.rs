//! Lines of sixteen lanes, each of which is a row or a column of its own, and vectors of a row.
use crate::simd::exp::exp_below;
use crate::simd::isa::Isa;
use crate::simd::math;

/// Lanes of a line.
pub(super) const WIDE: usize = 16;
/// Vectors that a sum runs in.
const SUMS: usize = 4;

/// What makes results of lines: the maxima negated, and one by the sums of powers, or their logarithms
/// negated.
pub(super) struct Ends<V> {
    less: V,
    by: V,
    log: bool,
}

/// The sums of the powers of lines with these maxima, which may pass over what is not a number: a sum
/// finds that. Powers stand in the lines then, unless the logarithm is wanted.
#[inline(always)]
pub(super) fn ends<I: Isa>(isa: I, lines: &mut [[f32; WIDE]], most: I::V, log: bool) -> Ends<I::V> {
    let less = isa.mul(most, isa.splat(-1.0));
    let mut sums = [isa.splat(0.0); SUMS];
    for (i, line) in lines.iter_mut().enumerate() {
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
    Ends { less, by: isa.load(&sum), log }
}

/// The results of a line.
#[inline(always)]
pub(super) fn end<I: Isa>(isa: I, line: &[f32; WIDE], ends: &Ends<I::V>) -> I::V {
    let v = isa.load(line);
    // Not `x - (max + ln)`: beside a large maximum the logarithm's digits would be lost.
    if ends.log { isa.add(isa.add(v, ends.less), ends.by) } else { isa.mul(v, ends.by) }
}

/// The numbers behind the last sixteen of a row, minus infinity in lanes that have none.
#[inline(always)]
pub(super) fn last<I: Isa>(isa: I, rest: &[f32]) -> (I::V, I::M) {
    let m = isa.lanes(0, rest.len());
    // SAFETY: the lanes are as many as there are numbers.
    let v = unsafe { isa.load_some(rest.as_ptr(), m) };
    (isa.pick(m, v, isa.splat(f32::NEG_INFINITY)), m)
}
