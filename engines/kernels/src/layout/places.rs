//! Elements that indices name: tuples of indices over the leading axes of a tensor, or one index of
//! an axis for each element. An index below zero counts from the end.
use crate::view::{Elem, Out};
use std::ops::Range;

/// An index that is out of range, and the size of its axis.
pub type Beyond = (i64, usize);

/// The place of an index on an axis of `n`.
#[inline(always)]
fn within(index: i64, n: usize) -> Result<usize, Beyond> {
    let at = if index < 0 { index.wrapping_add(n as i64) } else { index };
    if (at as u64) < n as u64 { Ok(at as usize) } else { Err((index, n)) }
}

/// Tuples of indices.
#[derive(Clone, Debug)]
pub struct Tuples {
    /// Sizes of the axes that a tuple names.
    dims: Vec<usize>,
    /// Elements that a tuple names.
    inner: usize,
    /// Tuples, and elements, of each entry of the leading axes that both tensors share.
    per: usize,
    whole: usize,
    shared: bool,
}

impl Tuples {
    /// Over a tensor of this shape, of which the first `shared` axes are those of the tuples too, `per`
    /// tuples for each of their entries; a tuple names places of `len` axes.
    pub fn new(shape: &[usize], shared: usize, len: usize, per: usize) -> Tuples {
        Tuples {
            dims: shape[shared..shared + len].to_vec(),
            inner: shape[shared + len..].iter().product(),
            per: per.max(1),
            whole: shape[shared..].iter().product(),
            shared: shared > 0,
        }
    }

    /// Elements that a tuple names.
    pub fn inner(&self) -> usize {
        self.inner
    }

    /// Calls `f` with the number of each tuple of `range` and the first element that it names.
    ///
    /// # Errors
    /// The first index that is out of range.
    #[inline(always)]
    pub fn each<I: Elem>(&self, index: &[I], range: Range<usize>, f: impl FnMut(usize, usize)) -> Result<(), Beyond> {
        match self.dims.as_slice() {
            [a] => self.fixed([*a], index, range, f),
            [a, b] => self.fixed([*a, *b], index, range, f),
            [a, b, c] => self.fixed([*a, *b, *c], index, range, f),
            [a, b, c, d] => self.fixed([*a, *b, *c, *d], index, range, f),
            dims => {
                let (len, mut f) = (dims.len(), f);
                for t in range {
                    let mut at = 0;
                    for (i, n) in index[t * len..(t + 1) * len].iter().zip(dims) {
                        at = at * n + within(i.to_i64(), *n)?;
                    }
                    f(t, t / self.per * self.whole + at * self.inner);
                }
                Ok(())
            }
        }
    }

    /// [`Tuples::each`] of tuples of `N` indices.
    #[inline(always)]
    fn fixed<I: Elem, const N: usize>(
        &self,
        dims: [usize; N],
        index: &[I],
        range: Range<usize>,
        mut f: impl FnMut(usize, usize),
    ) -> Result<(), Beyond> {
        let tuples = &index.as_chunks::<N>().0[range.clone()];
        for (t, tuple) in range.zip(tuples) {
            let mut at = 0;
            for (i, n) in tuple.iter().zip(dims) {
                at = at * n + within(i.to_i64(), n)?;
            }
            let base = if self.shared { t / self.per * self.whole } else { 0 };
            f(t, base + at * self.inner);
        }
        Ok(())
    }
}

/// One index along an axis for each element of a tensor of indices, whose other axes are no longer
/// than those of the data.
#[derive(Clone, Debug)]
pub struct Elements {
    shape: Vec<usize>,
    /// Elements between two places of each axis of the data; that of the indexed axis is zero.
    strides: Vec<usize>,
    /// The same of the indexed axis, and its size.
    stride: usize,
    size: usize,
}

impl Elements {
    /// Indices of this shape along an axis of data of that shape.
    pub fn new(shape: &[usize], data: &[usize], axis: usize) -> Elements {
        let mut strides: Vec<usize> = (0..data.len()).map(|d| data[d + 1..].iter().product()).collect();
        let stride = std::mem::take(&mut strides[axis]);
        Elements { shape: shape.to_vec(), strides, stride, size: data[axis] }
    }

    /// Rows of the indices.
    pub fn rows(&self) -> usize {
        self.shape.iter().rev().skip(1).product()
    }

    /// Elements of a row.
    pub fn width(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// Calls `f` with the number of each element of the rows of `range` and the element of the data
    /// that it names.
    ///
    /// # Errors
    /// The first index that is out of range.
    #[inline(always)]
    pub fn each<I: Elem>(
        &self,
        index: &[I],
        range: Range<usize>,
        mut f: impl FnMut(usize, usize),
    ) -> Result<(), Beyond> {
        let (width, step) = (self.width(), self.step());
        for row in range {
            let base = self.base(row);
            for (j, i) in index[row * width..(row + 1) * width].iter().enumerate() {
                f(row * width + j, base + j * step + within(i.to_i64(), self.size)? * self.stride);
            }
        }
        Ok(())
    }

    /// The elements that the rows of `range` name, in turn.
    ///
    /// # Errors
    /// The first index that is out of range.
    #[inline(always)]
    pub fn gather<T: Elem, I: Elem>(
        &self,
        x: &[T],
        index: &[I],
        range: Range<usize>,
        to: &mut [T],
    ) -> Result<(), Beyond> {
        let (width, step) = (self.width(), self.step());
        if width == 0 {
            return Ok(());
        }
        let index = &index[range.start * width..range.end * width];
        for ((row, index), to) in range.zip(index.chunks_exact(width)).zip(to.chunks_exact_mut(width)) {
            let line = &x[self.base(row)..];
            if (self.stride, step) == (1, 0) {
                let line = &line[..self.size];
                for (to, i) in to.iter_mut().zip(index) {
                    *to = line[within(i.to_i64(), line.len())?];
                }
            } else {
                for ((j, to), i) in to.iter_mut().enumerate().zip(index) {
                    *to = line[j * step + within(i.to_i64(), self.size)? * self.stride];
                }
            }
        }
        Ok(())
    }

    /// The element of the data that index 0 of the first element of a row names.
    fn base(&self, row: usize) -> usize {
        let (mut rest, mut base) = (row, 0);
        for (n, stride) in self.shape.iter().zip(&self.strides).rev().skip(1) {
            base += rest % n * stride;
            rest /= n;
        }
        base
    }

    /// Elements of the data between the elements of a row.
    fn step(&self) -> usize {
        self.strides.last().copied().unwrap_or(0)
    }
}

/// Some elements of a tensor after updates of `inner` elements: `x` (None: what `out` holds), and
/// in the places that `each` names to its function, by number of the update and first element,
/// what `join` makes of what is there and the update, in turn.
///
/// # Errors
/// As `each`.
pub fn scatter<T: Elem>(
    (part, inner): (Range<usize>, usize),
    (x, updates): (Option<&[T]>, &[T]),
    each: impl FnOnce(&mut dyn FnMut(usize, usize)) -> Result<(), Beyond>,
    join: Option<&dyn Fn(T, T) -> T>,
    out: &mut Out<'_, T>,
) -> Result<(), Beyond> {
    let to = out.part(part.start, part.len());
    if let Some(x) = x {
        to.copy_from_slice(&x[part.clone()]);
    }
    each(&mut |update, at| {
        let (from, end) = (at.max(part.start), (at + inner).min(part.end));
        if from >= end {
            return;
        }
        let new = &updates[update * inner + (from - at)..update * inner + (end - at)];
        let to = &mut to[from - part.start..end - part.start];
        match join {
            None if inner == 1 => to[0] = new[0],
            None => to.copy_from_slice(new),
            Some(join) => to.iter_mut().zip(new).for_each(|(to, v)| *to = join(*to, *v)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuples_name_blocks_from_both_ends() {
        let t = Tuples::new(&[2, 3, 4], 0, 2, 3);
        let mut seen = vec![];
        t.each(&[0i64, 0, -1, 2, 1, -3], 0..3, |t, at| seen.push((t, at))).unwrap();
        assert_eq!((t.inner(), seen), (4, vec![(0, 0), (1, 20), (2, 12)]));
        assert_eq!(t.each(&[2i32, 0], 0..1, |_, _| ()), Err((2, 2)));
        assert_eq!(t.each(&[i64::MIN, 0], 0..1, |_, _| ()), Err((i64::MIN, 2)));
        let batched = Tuples::new(&[2, 3], 1, 1, 2);
        let mut seen = vec![];
        batched.each(&[2i32, 0, 1, -1], 1..4, |_, at| seen.push(at)).unwrap();
        assert_eq!(seen, [0, 4, 5]);
    }

    #[test]
    fn elements_keep_their_other_axes() {
        for (axis, want) in [(0, [0, 4, 2, 3]), (1, [0, 1, 5, 3])] {
            let e = Elements::new(&[2, 2], &[3, 3], axis);
            let index = if axis == 0 { [0i64, 1, 0, 1] } else { [0, 1, 2, 0] };
            let want = if axis == 0 { [0, 4, 0, 4] } else { want };
            let mut seen = vec![];
            e.each(&index, 0..e.rows(), |_, at| seen.push(at)).unwrap();
            assert_eq!(seen, want, "axis {axis}");
            let (x, mut y) = (std::array::from_fn::<i64, 9, _>(|i| i as i64), [0; 4]);
            e.gather(&x, &index, 1..2, &mut y[2..]).unwrap();
            e.gather(&x, &index, 0..1, &mut y[..2]).unwrap();
            assert_eq!(y.map(|v| v as usize)[..], seen, "axis {axis}");
            assert_eq!(e.gather(&x, &[0i64, 0, -4, 0], 0..2, &mut y), Err((-4, 3)));
            assert_eq!(e.each(&[3i64, 0, 0, 0], 0..2, |_, _| ()), Err((3, 3)));
        }
    }

    #[test]
    fn each_part_takes_the_updates_that_meet_it_in_turn() {
        let x: Vec<i32> = (0..10).collect();
        let updates = [100, 101, 102, 200, 201, 202];
        for cut in 0..=10 {
            let mut y = vec![0; 10];
            for part in [0..cut, cut..10] {
                let each = |f: &mut dyn FnMut(usize, usize)| {
                    f(0, 2);
                    f(1, 4);
                    Ok(())
                };
                scatter((part.clone(), 3), (Some(&x), &updates), each, None, &mut Out::new(&mut y)).unwrap();
            }
            assert_eq!(y, [0, 1, 100, 101, 200, 201, 202, 7, 8, 9]);
            let mut held = x.clone();
            for part in [0..cut, cut..10] {
                let each = |f: &mut dyn FnMut(usize, usize)| {
                    f(0, 2);
                    f(1, 4);
                    Ok(())
                };
                scatter((part, 3), (None, &updates), each, None, &mut Out::new(&mut held)).unwrap();
            }
            assert_eq!(held, y);
            let mut z = vec![0; 10];
            for part in [0..cut, cut..10] {
                let each = |f: &mut dyn FnMut(usize, usize)| {
                    f(0, 2);
                    f(1, 4);
                    Ok(())
                };
                let add = |a: i32, b: i32| a + b;
                scatter((part, 3), (Some(&x), &updates), each, Some(&add), &mut Out::new(&mut z)).unwrap();
            }
            assert_eq!(z, [0, 1, 102, 104, 306, 206, 208, 7, 8, 9]);
        }
    }
}
