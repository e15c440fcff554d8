//! The index of the largest or smallest element along an axis.
use crate::view::{Elem, Out};
use std::ops::Range;

/// A tensor seen as `outer` x `len` x `inner`, searched along `len`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arg {
    /// Product of the sizes before the axis.
    pub outer: usize,
    /// Size of the axis.
    pub len: usize,
    /// Product of the sizes after the axis.
    pub inner: usize,
    /// The smallest is wanted, not the largest.
    pub smallest: bool,
    /// Of equal elements the last is taken, not the first.
    pub last: bool,
}

impl Arg {
    /// Units of work: output elements.
    pub fn units(&self) -> usize {
        self.outer * self.inner
    }

    /// Does the output elements of `units`; `index` makes an element of an index. The first NaN
    /// wins over any number.
    pub fn run<T: Elem, I: Elem>(
        &self,
        units: Range<usize>,
        x: &[T],
        index: impl Fn(usize) -> I,
        out: &mut Out<'_, I>,
    ) {
        for u in units.start..units.end.min(self.units()) {
            let base = u / self.inner * self.len * self.inner + u % self.inner;
            let mut best = 0;
            for i in 1..self.len {
                let (v, b) = (x[base + i * self.inner], x[base + best * self.inner]);
                let better = if self.smallest { v < b } else { v > b };
                #[allow(clippy::eq_op)]
                let nan = v != v && b == b;
                if better || nan || (self.last && v == b) {
                    best = i;
                }
            }
            out.part(u, 1)[0] = index(best);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_and_not_a_number() {
        let of = |smallest, last, x: &[f32]| {
            let mut y = [0i64];
            let a = Arg { outer: 1, len: x.len(), inner: 1, smallest, last };
            a.run(0..1, x, |i| i as i64, &mut Out::new(&mut y));
            y[0]
        };
        assert_eq!(of(false, false, &[1.0, 3.0, 3.0]), 1);
        assert_eq!(of(false, true, &[1.0, 3.0, 3.0]), 2);
        assert_eq!(of(true, false, &[2.0, 1.0, 1.0]), 1);
        assert_eq!(of(false, false, &[1.0, f32::NAN, 3.0]), 1);
    }

    #[test]
    fn an_axis_in_the_middle() {
        let mut y = [0i32; 4];
        let a = Arg { outer: 2, len: 2, inner: 2, smallest: false, last: false };
        a.run(0..4, &[1, 4, 3, 2, 8, 5, 7, 6], |i| i as i32, &mut Out::new(&mut y));
        assert_eq!(y, [1, 0, 0, 1]);
    }
}
