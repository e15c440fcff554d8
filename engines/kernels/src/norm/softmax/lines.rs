//! Lines of sixteen lanes, where each lane is a separate row or column, and partial vectors of a
//! row.
use crate::simd::exp::exp_below;
use crate::simd::isa::Isa;
use crate::simd::math;

/// Lanes of a line.
pub(super) const WIDE: usize = 16;
/// Number of vectors that accumulate a sum.
const SUMS: usize = 4;

/// The factors that turn lines into results: the negated maxima, and the reciprocals of the sums of
/// powers or their negated logarithms.
pub(super) struct Ends<V> {
    less: V,
    by: V,
    log: bool,
}

/// Computes the sums of powers of lines with these maxima. The maxima may have skipped NaN; the
/// sums do not. Unless the logarithm is wanted, the lines then hold the powers.
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
    // A loop, because code in a closure is not compiled for the instruction set.
    for sum in &mut sum {
        *sum = if log { -math::ln(*sum) } else { 1.0 / *sum };
    }
    Ends { less, by: isa.load(&sum), log }
}

/// The results of a line.
#[inline(always)]
pub(super) fn end<I: Isa>(isa: I, line: &[f32; WIDE], ends: &Ends<I::V>) -> I::V {
    let v = isa.load(line);
    // Not `x - (max + ln)`: next to a large maximum the digits of the logarithm would be lost.
    if ends.log { isa.add(isa.add(v, ends.less), ends.by) } else { isa.mul(v, ends.by) }
}

/// The numbers after the last sixteen of a row, with minus infinity in unused lanes, and the mask
/// of the used lanes.
#[inline(always)]
pub(super) fn last<I: Isa>(isa: I, rest: &[f32]) -> (I::V, I::M) {
    let m = isa.lanes(0, rest.len());
    // SAFETY: only as many lanes are read as there are numbers.
    let v = unsafe { isa.load_some(rest.as_ptr(), m) };
    (isa.pick(m, v, isa.splat(f32::NEG_INFINITY)), m)
}
