//! Operators that move elements: any change of view, joins, gathers, pads. They do not interpret
//! elements: callers pass the unsigned integer of the same size.
pub mod blocked;
/// Padding and cropping.
pub mod pad;
/// Elements that indices refer to.
pub mod places;
/// Updates of elements that indices refer to.
pub mod scatter;
/// Transposition of matrices with few columns or rows.
pub mod few;
/// Copies of short runs of elements.
mod runs;
/// Transposition of matrices in squares.
pub(crate) mod squares;

pub use runs::{copy_run, place, take_apart, take_run};
pub use squares::transpose;

use crate::view::{Elem, Nest, Out};
use std::ops::Range;

/// Copies `out[i] = x[position i of the nest]` for the output elements of `range`: transpose,
/// slice, split, expand, tile.
pub fn copy<T: Elem>(nest: &Nest<1>, range: Range<usize>, x: &[T], out: &mut Out<'_, T>) {
    let mut rest = out.part(range.start, range.len());
    nest.each_run_in(range, |[p], len, [step]| {
        let (to, behind) = std::mem::take(&mut rest).split_at_mut(len);
        rest = behind;
        if step >= 0 {
            return take_run(&x[p as usize..], step as usize, to);
        }
        for (i, t) in to.iter_mut().enumerate() {
            *t = x[(p + i as isize * step) as usize];
        }
    });
}

/// Copies `out[o][i] = x[o][index[i]]` in slices of `inner` elements; `x` is `outer` x `size` x
/// `inner`. Units are pairs of an outer index and an entry of `index`, in that order. A negative
/// index counts from the end.
///
/// # Errors
/// Returns the first index that is out of range.
pub fn gather<T: Elem>(
    size: usize,
    inner: usize,
    units: Range<usize>,
    x: &[T],
    index: impl Fn(usize) -> i64,
    count: usize,
    out: &mut Out<'_, T>,
) -> Result<(), i64> {
    let place = |at: i64| {
        let wrapped = if at < 0 { at.saturating_add(size as i64) } else { at };
        usize::try_from(wrapped).ok().filter(|&k| k < size).ok_or(at)
    };
    let mut to = out.part(units.start * inner, units.len() * inner);
    if count == 1 && inner == 1 && !units.is_empty() {
        take_run(&x[units.start * size + place(index(0))?..], size, to);
        return Ok(());
    }
    let mut u = units.start;
    while u < units.end {
        // The indices for one outer position.
        let (o, first) = (u / count, u % count);
        let n = (count - first).min(units.end - u);
        let (now, more) = std::mem::take(&mut to).split_at_mut(n * inner);
        to = more;
        let from = &x[o * size * inner..(o + 1) * size * inner];
        if inner == 1 {
            for (i, to) in now.iter_mut().enumerate() {
                *to = from[place(index(first + i))?];
            }
        } else {
            for (i, to) in now.chunks_exact_mut(inner.max(1)).enumerate() {
                let k = place(index(first + i))?;
                copy_run(&from[k * inner..(k + 1) * inner], to);
            }
        }
        u += n;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{Layout, View, block_range};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
        #[test]
        fn turned_matrices_agree_with_views(rows in 1usize..40, cols in 1usize..40) {
            let x: Vec<u32> = (0..(rows * cols) as u32).collect();
            let want = View::contiguous(&x, &[rows, cols]).unwrap().map(|l| l.permute(&[1, 0])).unwrap().to_vec();
            let mut y = vec![0; rows * cols];
            for b in 0..3 {
                transpose(rows, cols, 0, block_range(cols, b, 3), &x, &mut Out::new(&mut y));
            }
            prop_assert_eq!(&y, &want);
            let l = Layout::contiguous(&[rows, cols]).unwrap().permute(&[1, 0]).unwrap();
            let nest = Nest::new(&[cols, rows], [&l]);
            let mut z = vec![0; rows * cols];
            for b in 0..3 {
                copy(&nest, block_range(rows * cols, b, 3), &x, &mut Out::new(&mut z));
            }
            prop_assert_eq!(&z, &want);
        }
    }

    #[test]
    fn gathers() {
        let mut g = [0u16; 4];
        gather(2, 1, 0..4, &[1, 2, 3, 4], |i| [1, -2][i], 2, &mut Out::new(&mut g)).unwrap();
        assert_eq!(g, [2, 1, 4, 3]);
        assert_eq!(gather(2, 1, 0..1, &[1u16, 2], |_| 2, 1, &mut Out::new(&mut g)), Err(2));
        gather(3, 1, 1..4, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], |_| -1, 1, &mut Out::new(&mut g)).unwrap();
        assert_eq!(g, [2, 6, 9, 12]);
        assert_eq!(gather(3, 1, 0..4, &[0u16; 12], |_| 3, 1, &mut Out::new(&mut g)), Err(3));
        let l = Layout::contiguous(&[4]).unwrap().slice(0, 3, -1, 4).unwrap();
        let mut r = [0u8; 4];
        copy(&Nest::new(&[4], [&l]), 0..4, &[1, 2, 3, 4], &mut Out::new(&mut r));
        assert_eq!(r, [4, 3, 2, 1]);
    }
}
