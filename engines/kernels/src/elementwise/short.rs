//! Functions of two tensors whose inner runs are short, for example with the channels last.
//! Operands are first copied into lines, so that loops are long enough. A repeating operand is
//! copied only once.
use crate::view::{Elem, Nest};
use std::ops::Range;

/// Inner runs of at least this many elements are used directly.
const SHORT: usize = 32;
/// Maximum number of elements of a line.
const LINE: usize = 512;

/// Whether a nest has many runs that are short.
pub(super) fn takes(nest: &Nest<2>) -> bool {
    nest.run() < SHORT && nest.runs() > 1
}

/// Calls `f(elements, a, b)` for lines of the elements of `range`, with the operands for these
/// elements.
pub(super) fn lines<T: Elem>(
    nest: &Nest<2>,
    range: Range<usize>,
    a: &[T],
    b: &[T],
    mut f: impl FnMut(Range<usize>, &[T], &[T]),
) {
    // Lines hold whole runs, so that an operand that repeats with the runs is the same in every
    // line.
    let each = LINE / nest.run() * nest.run();
    let (mut a, mut b) = (Operand::<T, 0>::new(a), Operand::<T, 1>::new(b));
    for start in range.clone().step_by(each) {
        let part = start..(start + each).min(range.end);
        f(part.clone(), a.line(nest, part.clone()), b.line(nest, part));
    }
}

/// Operand `I` of a nest.
struct Operand<'a, T, const I: usize> {
    x: &'a [T],
    room: [T; LINE],
    /// Number of elements in `room` that hold a line of a repeating operand.
    filled: usize,
}

impl<'a, T: Elem, const I: usize> Operand<'a, T, I> {
    fn new(x: &'a [T]) -> Self {
        Operand { x, room: [T::default(); LINE], filled: 0 }
    }

    /// The operand for the elements of `part`.
    fn line(&mut self, nest: &Nest<2>, part: Range<usize>) -> &[T] {
        if let Some(base) = nest.in_order(I) {
            return &self.x[base + part.start..base + part.end];
        }
        let n = part.len();
        if self.filled < n {
            let (x, room, mut at) = (self.x, &mut self.room, 0);
            nest.each_run_in(part, |from, len, step| {
                for (k, to) in (0..).zip(&mut room[at..at + len]) {
                    *to = x[(from[I] + k * step[I]) as usize];
                }
                at += len;
            });
            self.filled = if nest.repeats(I) { n } else { 0 };
        }
        &self.room[..n]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{Layout, block_range, broadcast_shapes};

    #[test]
    fn lines_have_what_runs_have() {
        let shapes: [[&[usize]; 2]; 8] = [
            [&[50, 7, 3], &[3]],
            [&[3], &[50, 7, 3]],
            [&[300, 3], &[300, 1]],
            [&[1, 3], &[300, 1]],
            [&[40, 5, 4], &[40, 1, 4]],
            [&[2, 600, 1, 2], &[2, 1, 5, 2]],
            [&[9, 31], &[31]],
            [&[2, 1], &[1, 2]],
        ];
        for [sa, sb] in shapes {
            let shape = broadcast_shapes(sa, sb).unwrap();
            let of = |s: &[usize]| Layout::contiguous(s).unwrap().broadcast_to(&shape).unwrap();
            let nest = Nest::new(&shape, [&of(sa), &of(sb)]);
            assert!(takes(&nest), "{sa:?} {sb:?}");
            let a: Vec<u32> = (0..sa.iter().product::<usize>() as u32).collect();
            let b: Vec<u32> = (0..sb.iter().product::<usize>() as u32).map(|i| i + 10_000).collect();
            let mut want = Vec::new();
            nest.each_run(|[pa, pb], n, [ta, tb]| {
                want.extend((0..n as isize).map(|k| (a[(pa + k * ta) as usize], b[(pb + k * tb) as usize])));
            });
            for blocks in [1, 3] {
                let mut got = Vec::new();
                for k in 0..blocks {
                    lines(&nest, block_range(want.len(), k, blocks), &a, &b, |part, a, b| {
                        assert_eq!((part.start, part.len(), a.len()), (got.len(), a.len(), b.len()));
                        got.extend(a.iter().copied().zip(b.iter().copied()));
                    });
                }
                assert_eq!(got, want, "{sa:?} {sb:?}");
            }
        }
    }
}
