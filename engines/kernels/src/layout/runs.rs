//! Copies of runs of elements. Joins and splits have many short runs, which are copied without a
//! call.
use crate::view::{Elem, as_bytes, as_bytes_mut};
use std::ops::Range;

/// Copies a run to one of the same length.
#[inline(always)]
pub fn copy_run<T: Elem>(from: &[T], to: &mut [T]) {
    match size_of_val(from) {
        4..=7 => ends::<4>(as_bytes(from), as_bytes_mut(to)),
        8..=15 => ends::<8>(as_bytes(from), as_bytes_mut(to)),
        16..=31 => ends::<16>(as_bytes(from), as_bytes_mut(to)),
        // At these lengths the first and the last piece are the same.
        32 => whole::<32>(as_bytes(from), as_bytes_mut(to)),
        33..=63 => ends::<32>(as_bytes(from), as_bytes_mut(to)),
        64 => whole::<64>(as_bytes(from), as_bytes_mut(to)),
        65..=128 => ends::<64>(as_bytes(from), as_bytes_mut(to)),
        _ => to.copy_from_slice(from),
    }
}

/// Copies elements that are `step` apart, as many as `to` has. With step zero the first one is
/// repeated.
#[inline(always)]
pub fn take_run<T: Elem>(from: &[T], step: usize, to: &mut [T]) {
    match step {
        0 => to.fill(from[0]),
        1 => copy_run(&from[..to.len()], to),
        _ => take_apart(from, step, to),
    }
}

/// Copies elements that are `step` apart, at least one, as many as `to` has.
#[inline(always)]
pub fn take_apart<T: Copy>(from: &[T], step: usize, to: &mut [T]) {
    match step {
        2 if to.len() >= LONG => by_step2(from, to),
        3 if to.len() >= LONG => by_step3(from, to),
        4 if to.len() >= LONG => by_step4(from, to),
        _ => take_each(from, step, to),
    }
}

/// Minimum number of strided elements for which a loop specialised for the step is worth its call.
const LONG: usize = 16;

#[inline(always)]
fn take_each<T: Copy>(from: &[T], step: usize, to: &mut [T]) {
    for (to, v) in to.iter_mut().zip(from.iter().step_by(step)) {
        *to = *v;
    }
}

macro_rules! by_step {
    ($name:ident, $n:literal) => {
        crate::multiversion! {
            /// Copies elements that are `$n` apart.
            fn $name<T: Copy>(from: &[T], to: &mut [T]) {
                let (groups, _) = from.as_chunks::<$n>();
                let whole = groups.len().min(to.len());
                let (first, rest) = to.split_at_mut(whole);
                for (to, v) in first.iter_mut().zip(groups) {
                    *to = v[0];
                }
                // The last element may be at the very end, without the rest of its group.
                take_each(&from[whole * $n..], $n, rest);
            }
        }
    };
}
by_step!(by_step2, 2);
by_step!(by_step3, 3);
by_step!(by_step4, 4);

/// Copies a run of exactly `N` bytes.
#[inline(always)]
pub(super) fn whole<const N: usize>(from: &[u8], to: &mut [u8]) {
    if let (Some(from), Some(to)) = (from.first_chunk::<N>(), to.first_chunk_mut::<N>()) {
        *to = *from;
    }
}

/// Copies the first and the last `N` bytes of a run of `N` to `2 * N` bytes.
#[inline(always)]
fn ends<const N: usize>(from: &[u8], to: &mut [u8]) {
    assert!(from.len() == to.len() && (N..=2 * N).contains(&from.len()));
    if let (Some(from), Some(to)) = (from.first_chunk::<N>(), to.first_chunk_mut::<N>()) {
        *to = *from;
    }
    if let (Some(from), Some(to)) = (from.last_chunk::<N>(), to.last_chunk_mut::<N>()) {
        *to = *from;
    }
}

/// Copies the part of one concatenation input that belongs to the elements `range` of the output,
/// which are `out`. The output has rows of `pitch` elements, of which this input fills `width` from
/// `start` on.
pub fn place<T: Elem>(width: usize, start: usize, pitch: usize, range: Range<usize>, x: &[T], out: &mut [T]) {
    if width == 0 {
        return;
    }
    if width == 1 {
        // The rows whose element of this input is in the range.
        let first = range.start.saturating_sub(start).div_ceil(pitch);
        let to = out.iter_mut().skip(first * pitch + start - range.start).step_by(pitch);
        to.zip(&x[first..]).for_each(|(to, v)| *to = *v);
        return;
    }
    for row in range.start / pitch..range.end.div_ceil(pitch) {
        let own = row * pitch + start;
        let (from, to) = (own.max(range.start), (own + width).min(range.end));
        if from < to {
            let x = &x[row * width + (from - own)..][..to - from];
            copy_run(x, &mut out[from - range.start..to - range.start]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_every_length_are_copied_and_nothing_beside_them() {
        for n in 0..300 {
            let x: Vec<u8> = (0..n).map(|i| i as u8 | 1).collect();
            let mut y = vec![0; n + 2];
            copy_run(&x, &mut y[1..=n]);
            assert_eq!((y[0], &y[1..=n], y[n + 1]), (0, &x[..], 0));
        }
    }

    #[test]
    fn elements_that_stand_apart_are_taken_to_the_last() {
        for (step, n) in (0..7).flat_map(|s| [0, 1, 15, 16, 17, 40, 100].map(|n| (s, n))) {
            let x: Vec<u32> = (0..n * step + 1).map(|i| i as u32).collect();
            // The slice ends with the last element that is taken.
            let x = &x[..if n == 0 { 1 } else { (n - 1) * step + 1 }];
            let mut y = vec![u32::MAX; n];
            take_run(x, step, &mut y);
            assert!(y.iter().enumerate().all(|(i, v)| *v == (i * step) as u32), "{step} {n}");
        }
    }

    #[test]
    fn joins_are_the_same_by_any_ranges() {
        for (widths, rows) in
            [(vec![2, 3], 4), (vec![1, 1, 1], 5), (vec![0, 40, 1], 3), (vec![100], 2), (vec![1, 0, 0, 7], 9)]
        {
            let pitch: usize = widths.iter().sum();
            let inputs: Vec<Vec<u16>> = widths.iter().map(|w| (0..rows * w).map(|i| i as u16 + 1).collect()).collect();
            let row = |r: usize| widths.iter().zip(&inputs).flat_map(move |(w, x)| x[r * w..(r + 1) * w].to_vec());
            let want: Vec<u16> = (0..rows).flat_map(row).collect();
            for step in 1..=want.len() {
                let mut y = vec![0; want.len()];
                for at in (0..y.len()).step_by(step) {
                    let range = at..(at + step).min(want.len());
                    let mut start = 0;
                    for (w, x) in widths.iter().zip(&inputs) {
                        place(*w, start, pitch, range.clone(), x, &mut y[range.clone()]);
                        start += w;
                    }
                }
                assert_eq!(y, want, "{widths:?} {step}");
            }
        }
    }
}
