//! Updates of elements that indices refer to. Updates are applied in order: of several updates of
//! one element the last one wins, or all of them are joined with it.
use super::copy_run;
use super::places::{Beyond, Places};
use crate::view::{Elem, Out, lines};
use std::ops::Range;

/// Number of updates whose destinations are found before they are applied.
const BATCH: usize = 256;

/// How an update is combined with the old value.
pub trait Join<T>: Copy {
    /// Combines one element.
    fn one(self, old: T, new: T) -> T;
    /// Combines neighbouring elements.
    fn many(self, old: &mut [T], new: &[T]);
}

/// The update replaces the old value.
#[derive(Clone, Copy, Debug)]
pub struct Replace;

impl<T: Elem> Join<T> for Replace {
    #[inline(always)]
    fn one(self, _: T, new: T) -> T {
        new
    }
    fn many(self, old: &mut [T], new: &[T]) {
        copy_run(new, old);
    }
}

/// A function of the old value and the update.
#[derive(Clone, Copy, Debug)]
pub struct By<F>(pub F);

impl<T: Copy, F: Fn(T, T) -> T + Copy> Join<T> for By<F> {
    #[inline(always)]
    fn one(self, old: T, new: T) -> T {
        self.0(old, new)
    }
    fn many(self, old: &mut [T], new: &[T]) {
        lines::update(old, new, self.0);
    }
}

/// Computes the elements of `part` of a tensor after updates. It starts from `x` (`None`: the
/// contents of `out`) and combines each update with the element that its indices refer to, by
/// `join`.
///
/// # Errors
/// Returns the first index that is out of range among those that are read for this part.
pub fn scatter<T: Elem, I: Elem>(
    part: Range<usize>,
    (x, index, updates): (Option<&[T]>, &[I], &[T]),
    places: &impl Places,
    join: impl Join<T>,
    out: &mut Out<'_, T>,
) -> Result<(), Beyond> {
    let to = out.part(part.start, part.len());
    if let Some(x) = x {
        to.copy_from_slice(&x[part.clone()]);
    }
    let inner = places.inner();
    let Some(count) = updates.len().checked_div(inner) else { return Ok(()) };
    let near = places.near(&part, count);
    let mut found = [0; BATCH];
    for first in near.clone().step_by(BATCH) {
        let batch = first..(first + BATCH).min(near.end);
        let found = &mut found[..batch.len()];
        places.find(index, batch.clone(), found)?;
        apply(&part, found, &updates[batch.start * inner..batch.end * inner], join, to);
    }
    Ok(())
}

/// Applies one update per entry of `places` to the elements of `part`.
fn apply<T: Elem>(part: &Range<usize>, places: &[usize], updates: &[T], join: impl Join<T>, to: &mut [T]) {
    let inner = updates.len() / places.len();
    if inner == 1 {
        for (at, new) in places.iter().zip(updates) {
            if let Some(to) = to.get_mut(at.wrapping_sub(part.start)) {
                *to = join.one(*to, *new);
            }
        }
        return;
    }
    for (&at, update) in places.iter().zip(updates.chunks_exact(inner)) {
        let (from, end) = (at.max(part.start), (at + inner).min(part.end));
        if from < end {
            join.many(&mut to[from - part.start..end - part.start], &update[from - at..end - at]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::places::{Elements, Tuples};
    use super::*;

    /// Applies updates one by one, as the operator is defined.
    fn plain(x: &[i32], places: &[usize], updates: &[i32], join: fn(i32, i32) -> i32) -> Vec<i32> {
        let (mut y, inner) = (x.to_vec(), updates.len() / places.len().max(1));
        for (at, new) in places.iter().zip(updates.chunks(inner.max(1))) {
            for (y, v) in y[*at..].iter_mut().zip(new) {
                *y = join(*y, *v);
            }
        }
        y
    }

    fn agree(x: &[i32], index: &[i64], updates: &[i32], places: &impl Places) {
        let mut found = vec![0; updates.len() / places.inner()];
        places.find(index, 0..found.len(), &mut found).unwrap();
        let new = plain(x, &found, updates, |_, b| b);
        let added = plain(x, &found, updates, |a, b| a + b);
        for cut in 0..=x.len() {
            let (mut y, mut held, mut sums) = (vec![0; x.len()], x.to_vec(), vec![0; x.len()]);
            for part in [0..cut, cut..x.len()] {
                scatter(part.clone(), (Some(x), index, updates), places, Replace, &mut Out::new(&mut y)).unwrap();
                scatter(part.clone(), (None, index, updates), places, Replace, &mut Out::new(&mut held)).unwrap();
                let add = By(|a, b| a + b);
                scatter(part, (Some(x), index, updates), places, add, &mut Out::new(&mut sums)).unwrap();
            }
            assert_eq!((&y, &held, &sums), (&new, &new, &added), "cut at {cut}");
        }
    }

    #[test]
    fn each_part_takes_the_updates_that_meet_it_in_turn() {
        let x: Vec<i32> = (0..600).collect();
        let updates: Vec<i32> = (0..600).map(|i| 1000 * i).collect();
        let index: Vec<i64> = (0..600).map(|i| i * i % 40 - 20).collect();
        agree(&x[..63], &index[..10], &updates[..30], &Tuples::new(&[21, 3], 0, 1, 1));
        let pairs: Vec<i64> = index.iter().map(|i| i % 6).collect();
        agree(&x[..126], &pairs[..20], &updates[..30], &Tuples::new(&[6, 7, 3], 0, 2, 1));
        agree(&x[..80], &index[..20], &updates[..40], &Tuples::new(&[2, 20, 2], 1, 1, 10));
        agree(&x, &index, &updates, &Tuples::new(&[600], 0, 1, 1));
        for (axis, shape) in [(1, [10, 20]), (1, [7, 20]), (0, [20, 10]), (0, [20, 7])] {
            let data = if axis == 1 { [10, 50] } else { [50, 10] };
            let count = shape[0] * shape[1];
            agree(&x[..500], &index[..count], &updates[..count], &Elements::new(&shape, &data, axis));
        }
    }

    #[test]
    fn an_index_out_of_range_is_told_and_nothing_is_done_without_updates() {
        let (mut y, tuples) = ([0u8; 4], Tuples::new(&[2, 2], 0, 1, 1));
        let told = scatter(0..4, (Some(&[1, 2, 3, 4]), &[0i64, 2], &[5; 4]), &tuples, Replace, &mut Out::new(&mut y));
        assert_eq!(told, Err((2, 2)));
        let empty = Tuples::new(&[2, 0], 0, 1, 1);
        scatter::<u8, i64>(0..0, (None, &[7], &[]), &empty, Replace, &mut Out::new(&mut [])).unwrap();
        let none: &[i64] = &[];
        scatter(0..4, (Some(&[1, 2, 3, 4]), none, &[]), &tuples, Replace, &mut Out::new(&mut y)).unwrap();
        assert_eq!(y, [1, 2, 3, 4]);
    }
}
