//! `ln(sum e^x)` of contiguous rows, computed relative to their maxima: first the powers of a few
//! rows, then their sums. The bits are those of each row alone ([`fold`](super::fold)).
use super::Reduce;
use crate::scratch::with_scratch;
use crate::simd::math;

/// Maximum count of numbers in the rows that are processed at a time, unless a single row has more.
const GROUP: usize = 4096;

/// Reduces rows of `count` numbers, one for each result.
pub(super) fn rows(count: usize, x: &[f32], to: &mut [f32]) {
    let group = (GROUP / count).max(1);
    with_scratch(group * (count + 1), |s| {
        let (powers, most) = s.split_at_mut(group * count);
        for (x, to) in x.chunks(group * count).zip(to.chunks_mut(group)) {
            let (powers, most) = (&mut powers[..x.len()], &mut most[..to.len()]);
            Reduce::Max.rows(count, x, most);
            for ((powers, x), most) in powers.chunks_exact_mut(count).zip(x.chunks_exact(count)).zip(&*most) {
                raise(x, *most, powers);
            }
            Reduce::Sum.rows(count, powers, to);
            logarithms(most, to);
        }
    });
}

crate::multiversion! {
    fn raise(x: &[f32], most: f32, powers: &mut [f32]) {
        for (p, x) in powers.iter_mut().zip(x) {
            *p = math::exp(*x - most);
        }
    }
}

crate::multiversion! {
    /// Turns sums into results; a row with an infinite maximum gives that maximum.
    fn logarithms(most: &[f32], to: &mut [f32]) {
        for (to, most) in to.iter_mut().zip(most) {
            let sum = *most + math::ln(*to);
            *to = if most.is_infinite() { *most } else { sum };
        }
    }
}
