//! Sums of groups of few neighbouring columns whose rows follow each other in memory. All
//! columns of a group are folded as one line: the lanes of a column are as far apart as its rows,
//! so that whole vectors are joined even if a row has only two numbers. Each column has the bits
//! of [`fold`](crate::reduce::fold).
use super::{Join, WIDE};
use crate::simd::fold::LANES;
use std::marker::PhantomData;
use std::ops::Range;

/// Numbers that are joined at a time.
const STEP: usize = 8;

/// Groups of `count` rows of `columns` numbers; the groups follow each other.
#[derive(Clone, Copy, Debug)]
pub(in crate::reduce) struct Narrow {
    columns: usize,
}

impl Narrow {
    /// Groups with rows of `columns` numbers; `None` if such rows fill vectors by themselves.
    pub(in crate::reduce) fn new(columns: usize) -> Option<Narrow> {
        (1..WIDE).contains(&columns).then_some(Narrow { columns })
    }

    /// Reduces the columns `units`, counted over all groups of `x`, which have `count` rows each.
    /// `to` gets the results of a range of columns.
    pub(super) fn run<J: Join>(
        self,
        units: Range<usize>,
        x: &[f32],
        count: usize,
        mut to: impl FnMut(Range<usize>, &mut dyn FnMut(&mut [f32])),
    ) {
        let (columns, size) = (self.columns, count * self.columns);
        let lanes = count.min(LANES).next_power_of_two() * columns;
        crate::scratch::with_scratch(lanes + columns, |s| {
            let (lanes, whole) = s.split_at_mut(lanes);
            let how = PhantomData::<J>;
            let mut at = units.start;
            while at < units.end {
                let (group, from) = (at / columns, at % columns);
                let groups = (units.end - at) / columns;
                if from == 0 && groups > 0 {
                    let end = at + groups * columns;
                    let x = &x[group * size..][..groups * size];
                    to(at..end, &mut |to| fold_groups(how, x, columns, lanes, to));
                    at = end;
                } else {
                    // Only some columns of a group are asked for. They have the bits that they have
                    // in the whole group.
                    let end = units.end.min((group + 1) * columns);
                    fold_groups(how, &x[group * size..][..size], columns, lanes, whole);
                    to(at..end, &mut |to| to.copy_from_slice(&whole[from..from + to.len()]));
                    at = end;
                }
            }
        });
    }
}

/// Joins each number of `with` to the number of `to` at its place.
#[inline(always)]
fn join_all<J: Join>(to: &mut [f32], with: &[f32], one: impl Fn(f32) -> f32) {
    let len = to.len().min(with.len());
    let ((to, to_rest), (with, with_rest)) = (to[..len].as_chunks_mut::<STEP>(), with[..len].as_chunks::<STEP>());
    for (to, with) in to.iter_mut().zip(with) {
        for (to, with) in to.iter_mut().zip(with) {
            *to = J::two(*to, one(*with));
        }
    }
    for (to, with) in to_rest.iter_mut().zip(with_rest) {
        *to = J::two(*to, one(*with));
    }
}

crate::multiversion! {
    /// Folds one group of rows after the other, with `columns` results each. `lanes` is scratch
    /// memory for the lanes of all columns: lane `l` takes every sixty-fourth row from `l` on, and
    /// lanes that are half their number apart are joined first.
    fn fold_groups<J: Join>(how: PhantomData<J>, x: &[f32], columns: usize, lanes: &mut [f32], to: &mut [f32]) {
        let _ = how;
        let size = x.len() / (to.len() / columns).max(1);
        for (rows, to) in x.chunks_exact(size.max(1)).zip(to.chunks_exact_mut(columns)) {
            lanes.fill(J::NONE);
            for rows in rows.chunks(lanes.len()) {
                join_all::<J>(lanes, rows, J::one);
            }
            let mut half = lanes.len() / 2;
            while half >= columns {
                let (low, high) = lanes.split_at_mut(half);
                join_all::<J>(low, high, |v| v);
                half /= 2;
            }
            to.copy_from_slice(&lanes[..columns]);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::reduce::{Reduce, Reduction, fold};
    use crate::simd::{Level, with_level};
    use crate::view::{Out, block_range};

    /// Columns of every width, short and long, with all kinds of numbers, have the bits of a plain
    /// fold, however the columns are divided among blocks.
    #[test]
    fn columns_have_the_bits_of_a_line_of_their_own() {
        use Reduce::*;
        let special = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-40, f32::MAX];
        for (groups, count, columns) in [
            (1, 1, 2),
            (5, 4, 3),
            (3, 16, 4),
            (4, 33, 8),
            (2, 64, 1),
            (2, 65, 15),
            (1, 131, 2),
            (3, 200, 7),
            (2, 9, 16),
        ] {
            let n = groups * count * columns;
            for odd in [0, 3, 40] {
                let number = |i: usize| match odd > 0 && i * 7 % odd == 1 {
                    true => special[i * 5 % special.len()],
                    false => (i as f32 * 0.9).sin() * 1e3,
                };
                let x: Vec<f32> = (0..n).map(number).collect();
                for op in [Sum, Mean, L1, L2, SumSquare, LogSum] {
                    let r = Reduction::new(op, &[groups, count, columns], &[1]).unwrap();
                    assert_eq!(r.narrow.is_some(), (2..16).contains(&columns));
                    let alone = |u: usize| {
                        let at = u / columns * count * columns + u % columns;
                        fold(op, &x[at..].iter().step_by(columns).take(count).copied().collect::<Vec<_>>())
                    };
                    let want: Vec<f32> = (0..r.units()).map(alone).collect();
                    for level in Level::available() {
                        for blocks in [1, 2, 5] {
                            let mut y = vec![9.0f32; r.units()];
                            with_level(level, || {
                                (0..blocks).for_each(|b| {
                                    r.run(block_range(r.units(), b, blocks), &x, &mut Out::new(&mut y));
                                });
                            });
                            for (y, want) in y.iter().zip(&want) {
                                let same = y.to_bits() == want.to_bits() || y.is_nan() && want.is_nan();
                                assert!(same, "{level:?} {op:?} {groups}x{count}x{columns}: {y} for {want}");
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn columns_behind_other_axes_are_not_taken_for_groups() {
        let narrow =
            |shape: &[usize], axes: &[usize]| Reduction::new(Reduce::Sum, shape, axes).unwrap().narrow.is_some();
        assert!(narrow(&[2, 3, 4, 5], &[1, 2]) && narrow(&[6, 1, 4], &[0]) && narrow(&[2, 9, 1, 3, 1], &[1, 2]));
        assert!(!narrow(&[2, 3, 4, 5], &[0, 2]) && !narrow(&[2, 3], &[1]) && !narrow(&[2, 3, 40], &[1]));
        for op in [Reduce::Prod, Reduce::Max, Reduce::Min] {
            assert!(Reduction::new(op, &[2, 3, 4], &[1]).unwrap().narrow.is_none());
        }
    }
}
