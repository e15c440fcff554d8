//! Elements that indices refer to: tuples of indices over the leading axes of a tensor, or one
//! index along an axis for each element. A negative index counts from the end.
use crate::view::Elem;
use std::ops::Range;

/// An index that is out of range, and the size of its axis.
pub type Beyond = (i64, usize);

/// The position of an index on an axis of `n`.
#[inline(always)]
fn within(index: i64, n: usize) -> Result<usize, Beyond> {
    let at = if index < 0 { index.wrapping_add(n as i64) } else { index };
    if (at as u64) < n as u64 { Ok(at as usize) } else { Err((index, n)) }
}

/// The destinations of updates: blocks of elements that indices refer to.
pub trait Places {
    /// Number of elements of one update.
    fn inner(&self) -> usize;

    /// A range within the `count` updates that contains every update of elements of `part`.
    fn near(&self, part: &Range<usize>, count: usize) -> Range<usize>;

    /// Writes to `to`, for each update of `range` in order, the first element that it refers to.
    ///
    /// # Errors
    /// Returns the first index that is out of range.
    fn find<I: Elem>(&self, index: &[I], range: Range<usize>, to: &mut [usize]) -> Result<(), Beyond>;
}

/// Tuples of indices over the leading axes of a tensor.
#[derive(Clone, Debug)]
pub struct Tuples {
    /// Sizes of the axes that a tuple indexes.
    dims: Vec<usize>,
    /// Number of elements that a tuple refers to.
    inner: usize,
    /// Number of tuples, and of elements, per entry of the leading axes that both tensors share.
    per: usize,
    whole: usize,
    shared: bool,
}

impl Tuples {
    /// Tuples for a tensor of this shape. Its first `shared` axes are also the leading axes of the
    /// tuples, with `per` tuples for each of their entries. A tuple indexes `len` axes.
    pub fn new(shape: &[usize], shared: usize, len: usize, per: usize) -> Tuples {
        Tuples {
            dims: shape[shared..shared + len].to_vec(),
            inner: shape[shared + len..].iter().product(),
            per: per.max(1),
            whole: shape[shared..].iter().product(),
            shared: shared > 0,
        }
    }

    /// Calls `f` with the number of each tuple of `range` and the first element that it refers to.
    ///
    /// # Errors
    /// Returns the first index that is out of range.
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

    /// [`Tuples::each`] for tuples of `N` indices.
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

impl Places for Tuples {
    fn inner(&self) -> usize {
        self.inner
    }

    fn near(&self, part: &Range<usize>, count: usize) -> Range<usize> {
        if self.shared { entries(part, self.whole, self.per, count) } else { 0..count }
    }

    #[inline(always)]
    fn find<I: Elem>(&self, index: &[I], range: Range<usize>, to: &mut [usize]) -> Result<(), Beyond> {
        let first = range.start;
        self.each(index, range, |t, at| to[t - first] = at)
    }
}

/// One index along an axis for each element of a tensor of indices. The other axes of that tensor
/// are no longer than those of the data.
#[derive(Clone, Debug)]
pub struct Elements {
    /// Axes of the indices; neighbouring axes that can be walked as one are merged.
    shape: Vec<usize>,
    /// Distance in elements between two positions along each axis of the data; zero for the indexed
    /// axis.
    strides: Vec<usize>,
    /// The same distance for the indexed axis, and its size.
    stride: usize,
    size: usize,
    /// Number of indices, and of elements of the data, per entry of the axes before the indexed
    /// one, if both walk these entries alike. Otherwise everything is one entry.
    per: usize,
    whole: usize,
}

impl Elements {
    /// Indices of shape `shape` along axis `axis` of data of shape `data`.
    pub fn new(shape: &[usize], data: &[usize], axis: usize) -> Elements {
        let stride_of = |d: usize| data[d + 1..].iter().product();
        let mut own = Elements {
            shape: Vec::new(),
            strides: Vec::new(),
            stride: stride_of(axis),
            size: data[axis],
            per: shape.iter().product(),
            whole: data.iter().product(),
        };
        for (d, &n) in shape.iter().enumerate() {
            let step = if d == axis { 0 } else { stride_of(d) };
            let before = own.shape.last_mut().zip(own.strides.last_mut());
            match before.filter(|(_, stride)| d != axis && **stride == n * step) {
                // The indices cover the axis of the data fully: the end of one position is followed
                // by the next position of the axis before.
                Some((last, stride)) => (*last, *stride) = (*last * n, step),
                None if d != axis && n == 1 => {}
                None => {
                    own.shape.push(n);
                    own.strides.push(step);
                }
            }
        }
        // The first axis may be shorter than that of the data: only its last positions are missing.
        let alike = (1..axis).take_while(|&d| shape[d] == data[d]).count() + usize::from(axis > 0);
        for d in 0..alike {
            own.per = own.per.checked_div(shape[d]).unwrap_or(0);
            own.whole = own.whole.checked_div(data[d]).unwrap_or(0);
        }
        own
    }

    /// Number of indices.
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// Number of elements of a row (the last axis).
    fn width(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// The pieces of rows that make up the indices of `range`: the length of each, and the element
    /// of the data that index 0 of its first element refers to.
    fn rows(&self, range: Range<usize>) -> impl Iterator<Item = (usize, usize)> + '_ {
        let (width, step) = (self.width().max(1), self.step());
        let mut at = range.start;
        std::iter::from_fn(move || {
            let (row, column) = (at / width, at % width);
            let n = (width - column).min(range.end - at);
            at += n;
            (n > 0).then(|| (n, self.base(row) + column * step))
        })
    }

    /// Copies the elements that the indices of `range` refer to, in order.
    ///
    /// # Errors
    /// Returns the first index that is out of range.
    #[inline(always)]
    pub fn gather<T: Elem, I: Elem>(
        &self,
        x: &[T],
        index: &[I],
        range: Range<usize>,
        to: &mut [T],
    ) -> Result<(), Beyond> {
        let (mut index, mut to) = (&index[range.clone()], to);
        let step = self.step();
        for (n, base) in self.rows(range) {
            let (now, more) = std::mem::take(&mut to).split_at_mut(n);
            to = more;
            let line = &x[base..];
            if (self.stride, step) == (1, 0) {
                let line = &line[..self.size];
                for (to, i) in now.iter_mut().zip(index) {
                    *to = line[within(i.to_i64(), line.len())?];
                }
            } else {
                for ((j, to), i) in now.iter_mut().enumerate().zip(index) {
                    *to = line[j * step + within(i.to_i64(), self.size)? * self.stride];
                }
            }
            index = &index[n..];
        }
        Ok(())
    }

    /// The element of the data that index 0 of the first element of a row refers to.
    fn base(&self, row: usize) -> usize {
        let (mut rest, mut base) = (row, 0);
        let before = self.shape.len().saturating_sub(1);
        for (d, (n, stride)) in self.shape.iter().zip(&self.strides).take(before).enumerate().rev() {
            // What is left is the position on the first axis.
            let place = if d == 0 { rest } else { rest % n };
            base += place * stride;
            rest = if d == 0 { 0 } else { rest / n };
        }
        base
    }

    /// Distance in elements of the data between neighbouring elements of a row.
    fn step(&self) -> usize {
        self.strides.last().copied().unwrap_or(0)
    }
}

impl Places for Elements {
    fn inner(&self) -> usize {
        1
    }

    fn near(&self, part: &Range<usize>, count: usize) -> Range<usize> {
        entries(part, self.whole, self.per, count)
    }

    #[inline(always)]
    fn find<I: Elem>(&self, index: &[I], range: Range<usize>, to: &mut [usize]) -> Result<(), Beyond> {
        let (mut index, mut to) = (&index[range.clone()], to);
        let step = self.step();
        for (n, base) in self.rows(range) {
            let (now, more) = std::mem::take(&mut to).split_at_mut(n);
            to = more;
            for ((j, to), i) in now.iter_mut().enumerate().zip(index) {
                *to = base + j * step + within(i.to_i64(), self.size)? * self.stride;
            }
            index = &index[n..];
        }
        Ok(())
    }
}

/// Of `count` updates, `per` for each `whole` elements, the range for the entries that overlap
/// `part`.
fn entries(part: &Range<usize>, whole: usize, per: usize, count: usize) -> Range<usize> {
    let whole = whole.max(1);
    let (first, end) = (part.start / whole * per, part.end.div_ceil(whole) * per);
    first.min(count)..end.min(count)
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
            let mut seen = [0; 4];
            e.find(&index, 0..4, &mut seen).unwrap();
            assert_eq!(seen, want, "axis {axis}");
            let (x, mut y) = (std::array::from_fn::<i64, 9, _>(|i| i as i64), [0; 4]);
            e.gather(&x, &index, 1..4, &mut y[1..]).unwrap();
            e.gather(&x, &index, 0..1, &mut y[..1]).unwrap();
            assert_eq!(y.map(|v| v as usize), seen, "axis {axis}");
            assert_eq!(e.gather(&x, &[0i64, 0, -4, 0], 0..4, &mut y), Err((-4, 3)));
            assert_eq!(e.find(&[3i64, 0, 0, 0], 0..4, &mut seen), Err((3, 3)));
        }
    }

    /// Every index refers to the element given by its own coordinates, and `near` includes it.
    #[test]
    fn axes_that_are_joined_name_the_same_elements() {
        let data = [3usize, 4, 2, 5];
        let shapes = [[3, 4, 2, 5], [2, 4, 2, 5], [3, 2, 2, 5], [3, 4, 1, 5], [3, 4, 2, 3], [2, 3, 1, 2], [3, 0, 2, 5]];
        for (axis, shape) in (0..4).flat_map(|a| shapes.map(|s| (a, s))) {
            let count: usize = shape.iter().product();
            let index: Vec<i64> =
                (0..count).map(|i| (i * 7 % data[axis]) as i64 - (i % 2 * data[axis]) as i64).collect();
            let want: Vec<usize> = (0..count)
                .map(|i| {
                    let (mut rest, mut at, mut step) = (i, 0, 1);
                    for d in (0..4).rev() {
                        let place =
                            if d == axis { index[i].rem_euclid(data[d] as i64) as usize } else { rest % shape[d] };
                        at += place * step;
                        (rest, step) = (rest / shape[d], step * data[d]);
                    }
                    at
                })
                .collect();
            let e = Elements::new(&shape, &data, axis);
            assert_eq!(e.count(), count);
            for cut in [0, 1, count / 3, count] {
                let mut seen = vec![0; count];
                let (a, b) = seen.split_at_mut(cut.min(count));
                e.find(&index, 0..a.len(), a).unwrap();
                e.find(&index, a.len()..count, b).unwrap();
                assert_eq!(seen, want, "{shape:?} along {axis}");
            }
            for (u, at) in want.into_iter().enumerate() {
                assert!(e.near(&(at..at + 1), count).contains(&u), "{shape:?} along {axis}");
            }
            if axis > 0 && shape == data {
                assert_eq!(e.near(&(0..1), count).len(), data[axis..].iter().product(), "along {axis}");
            }
        }
    }
}
