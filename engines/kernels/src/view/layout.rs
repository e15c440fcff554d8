//! `Layout`: shape, strides and offset of a tensor inside a slice, and the changes of view that
//! move no data.
use crate::view::elem::{Elem, Kind};
use thiserror::Error;

/// Errors of shapes, views and the memory under them.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ViewError {
    /// The number of elements does not fit the address space.
    #[error("shape {shape:?} has more elements than can be addressed")]
    TooLarge {
        /// The refused shape.
        shape: Vec<usize>,
    },
    /// The view reaches outside its data.
    #[error("shape {shape:?} needs {needs} elements, the data has {has}")]
    OutOfBounds {
        /// The shape of the view.
        shape: Vec<usize>,
        /// Elements that the view spans, from the start of the data.
        needs: usize,
        /// Elements in the data.
        has: usize,
    },
    /// Two shapes cannot be broadcast together.
    #[error("shapes {left:?} and {right:?} do not broadcast: axis {axis} from the right is {l} and {r}")]
    Broadcast {
        /// The left shape.
        left: Vec<usize>,
        /// The right shape.
        right: Vec<usize>,
        /// The axis that does not fit, counted from the right: 0 is the last one.
        axis: usize,
        /// Size of that axis in `left`.
        l: usize,
        /// Size of that axis in `right`.
        r: usize,
    },
    /// The axis number is outside the rank.
    #[error("axis {axis} is out of range for rank {rank}")]
    Axis {
        /// The axis as the caller gave it.
        axis: i64,
        /// The rank of the tensor.
        rank: usize,
    },
    /// A list of axes is not a permutation.
    #[error("{axes:?} is no permutation of {rank} axes")]
    Permutation {
        /// The list as the caller gave it.
        axes: Vec<usize>,
        /// The number of axes to permute.
        rank: usize,
    },
    /// A slice reaches outside its axis.
    #[error("slice of {len} from {start} by {step} leaves axis {axis} of size {size}")]
    Slice {
        /// The sliced axis.
        axis: usize,
        /// Size of the axis.
        size: usize,
        /// First index.
        start: usize,
        /// Difference between neighbouring indices.
        step: isize,
        /// Number of indices.
        len: usize,
    },
    /// The address of the memory is not aligned for the element type.
    #[error("memory of {} is not aligned to {align} bytes", kind.name())]
    Misaligned {
        /// The requested element type.
        kind: Kind,
        /// Required alignment in bytes.
        align: usize,
    },
    /// The number of bytes is not a multiple of the element size.
    #[error("{bytes} bytes are no whole number of {} elements", kind.name())]
    OddLength {
        /// The requested element type.
        kind: Kind,
        /// The number of bytes.
        bytes: usize,
    },
}

/// Number of elements of a shape.
///
/// # Errors
/// Returns `TooLarge` if the product of the non-zero sizes exceeds `isize::MAX`, even when another
/// size is zero.
pub fn element_count(shape: &[usize]) -> Result<usize, ViewError> {
    let big = || ViewError::TooLarge { shape: shape.to_vec() };
    let mut n = 1usize;
    for &d in shape.iter().filter(|&&d| d != 0) {
        n = n.checked_mul(d).filter(|&n| isize::try_from(n).is_ok()).ok_or_else(big)?;
    }
    Ok(if shape.contains(&0) { 0 } else { n })
}

/// The shape that two shapes broadcast to by numpy's rule: they are aligned at the last axis, and
/// an axis of size one is stretched.
///
/// # Errors
/// Returns `Broadcast` if two sizes differ and neither is one.
pub fn broadcast_shapes(left: &[usize], right: &[usize]) -> Result<Vec<usize>, ViewError> {
    let rank = left.len().max(right.len());
    let mut shape = vec![1; rank];
    for axis in 0..rank {
        let at = |s: &[usize]| if axis < s.len() { s[s.len() - 1 - axis] } else { 1 };
        let (l, r) = (at(left), at(right));
        shape[rank - 1 - axis] = match (l, r) {
            (l, r) if l == r => l,
            (1, r) => r,
            (l, 1) => l,
            _ => return Err(ViewError::Broadcast { left: left.to_vec(), right: right.to_vec(), axis, l, r }),
        };
    }
    Ok(shape)
}

/// Where the elements of a tensor are: element `i` is at `offset + sum(i[d] * strides[d])`, in
/// elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    shape: Vec<usize>,
    strides: Vec<isize>,
    offset: usize,
}

impl Layout {
    /// A row-major layout without gaps, from offset zero.
    ///
    /// # Errors
    /// Returns `TooLarge` if the shape has more elements than can be addressed.
    pub fn contiguous(shape: &[usize]) -> Result<Layout, ViewError> {
        element_count(shape)?;
        let mut strides = vec![0isize; shape.len()];
        let mut step = 1isize;
        for (s, &d) in strides.iter_mut().zip(shape).rev() {
            *s = step;
            step = step.saturating_mul(isize::try_from(d.max(1)).unwrap_or(isize::MAX));
        }
        Ok(Layout { shape: shape.to_vec(), strides, offset: 0 })
    }

    /// Sizes of the axes.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Distance in elements between two neighbours along each axis; zero where the axis is
    /// broadcast.
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// Position of the first element in the data.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        if self.shape.contains(&0) { 0 } else { self.shape.iter().product() }
    }

    /// True when there are no elements.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// True when the elements are in row-major order without gaps.
    pub fn is_contiguous(&self) -> bool {
        let mut step = 1isize;
        for (&d, &s) in self.shape.iter().zip(&self.strides).rev() {
            if d != 1 && s != step {
                return self.is_empty();
            }
            step = step.saturating_mul(isize::try_from(d.max(1)).unwrap_or(isize::MAX));
        }
        true
    }

    /// Converts an axis given as in ONNX (negative values count from the end) to an index.
    ///
    /// # Errors
    /// Returns `Axis` if it is out of range.
    pub fn axis(&self, axis: i64) -> Result<usize, ViewError> {
        resolve_axis(axis, self.rank())
    }

    /// Permutes the axes: axis `d` of the result is axis `axes[d]` of this layout.
    ///
    /// # Errors
    /// Returns `Permutation` if `axes` is not a permutation of the axes.
    pub fn permute(&self, axes: &[usize]) -> Result<Layout, ViewError> {
        let mut seen = vec![false; self.rank()];
        let fits =
            axes.len() == self.rank() && axes.iter().all(|&a| a < seen.len() && !std::mem::replace(&mut seen[a], true));
        if !fits {
            return Err(ViewError::Permutation { axes: axes.to_vec(), rank: self.rank() });
        }
        Ok(Layout {
            shape: axes.iter().map(|&a| self.shape[a]).collect(),
            strides: axes.iter().map(|&a| self.strides[a]).collect(),
            offset: self.offset,
        })
    }

    /// Takes `len` indices of one axis, from `start` in steps of `step` (which may be negative).
    ///
    /// # Errors
    /// Returns `Axis` if the axis does not exist, `Slice` if an index is outside the axis.
    pub fn slice(&self, axis: usize, start: usize, step: isize, len: usize) -> Result<Layout, ViewError> {
        let Some(&size) = self.shape.get(axis) else {
            return Err(ViewError::Axis { axis: i64::try_from(axis).unwrap_or(i64::MAX), rank: self.rank() });
        };
        let bad = || ViewError::Slice { axis, size, start, step, len };
        let mut out = self.clone();
        out.shape[axis] = len;
        if len > 0 {
            let last = isize::try_from(len - 1)
                .ok()
                .and_then(|n| n.checked_mul(step))
                .and_then(|d| start.checked_add_signed(d))
                .ok_or_else(bad)?;
            if start >= size || last >= size {
                return Err(bad());
            }
            let shift = isize::try_from(start).map_err(|_| bad())? * self.strides[axis];
            out.offset = self.offset.checked_add_signed(shift).ok_or_else(bad)?;
        }
        out.strides[axis] = self.strides[axis].saturating_mul(step);
        Ok(out)
    }

    /// Stretches the layout to `shape` by the broadcast rule: new axes on the left and axes of size
    /// one get stride zero.
    ///
    /// # Errors
    /// Returns `Broadcast` if the shapes do not fit.
    pub fn broadcast_to(&self, shape: &[usize]) -> Result<Layout, ViewError> {
        // Compared element by element: a memory comparison of empty slices (no axes) is slow on
        // some machines.
        if self.shape.iter().eq(shape) {
            return Ok(self.clone());
        }
        let all = broadcast_shapes(&self.shape, shape)?;
        if all != shape {
            // The shapes fit each other, but an axis of `shape` would be stretched.
            let at = |s: &[usize], axis: usize| s.iter().rev().nth(axis).copied().unwrap_or(1);
            let axis = (0..all.len()).find(|a| at(&all, *a) != at(shape, *a)).unwrap_or(shape.len());
            let (l, r) = (at(&self.shape, axis), at(shape, axis));
            return Err(ViewError::Broadcast { left: self.shape.clone(), right: shape.to_vec(), axis, l, r });
        }
        let lead = shape.len() - self.rank();
        let strides = (0..shape.len())
            .map(|d| if d < lead || (self.shape[d - lead] == 1 && shape[d] != 1) { 0 } else { self.strides[d - lead] })
            .collect();
        Ok(Layout { shape: shape.to_vec(), strides, offset: self.offset })
    }

    /// Gives the same elements another shape. The layout must be contiguous.
    ///
    /// # Errors
    /// Returns `OutOfBounds` if the layout has gaps or the number of elements differs.
    pub fn reshape(&self, shape: &[usize]) -> Result<Layout, ViewError> {
        let n = element_count(shape)?;
        if !self.is_contiguous() || n != self.len() {
            return Err(ViewError::OutOfBounds { shape: shape.to_vec(), needs: n, has: self.len() });
        }
        Ok(Layout { offset: self.offset, ..Layout::contiguous(shape)? })
    }

    /// Joins the last axes to elements of two, four or eight neighbours, at most `most`, if these
    /// stay together: the layout of the joined elements and their number of neighbours. Without
    /// such axes the layout stays as it is, and the number is one. The data has `has` elements.
    pub fn joined(self, most: usize, has: usize) -> (Layout, usize) {
        let (mut axes, mut run) = (self.rank(), 1usize);
        while let Some(d) = axes.checked_sub(1)
            && self.shape[d] > 0
            && (self.shape[d] == 1 || self.strides[d] == run as isize)
            && run.saturating_mul(self.shape[d]) <= most
        {
            (axes, run) = (d, run * self.shape[d]);
        }
        let whole = |n: isize| n % run as isize == 0;
        let fits = run > 1
            && run.is_power_of_two()
            && has.is_multiple_of(run)
            && self.offset.is_multiple_of(run)
            && self.strides[..axes].iter().all(|&s| whole(s));
        if !fits {
            return (self, 1);
        }
        let strides = self.strides[..axes].iter().map(|s| s / run as isize).collect();
        (Layout { shape: self.shape[..axes].to_vec(), strides, offset: self.offset / run }, run)
    }

    /// Position of the element with these indices. The indices are not checked.
    pub fn index(&self, at: &[usize]) -> usize {
        let mut p = self.offset as isize;
        for (&i, &s) in at.iter().zip(&self.strides) {
            p += i as isize * s;
        }
        p as usize
    }

    /// Checks that every element lies in data of `has` elements.
    ///
    /// # Errors
    /// Returns `OutOfBounds` if one does not.
    pub fn check(&self, has: usize) -> Result<(), ViewError> {
        if self.is_empty() {
            return Ok(());
        }
        let bad = |needs| ViewError::OutOfBounds { shape: self.shape.clone(), needs, has };
        let (mut low, mut high) = (self.offset as i128, self.offset as i128);
        for (&d, &s) in self.shape.iter().zip(&self.strides) {
            let reach = (d as i128 - 1) * s as i128;
            if reach < 0 { low += reach } else { high += reach }
        }
        if low < 0 || high >= has as i128 {
            return Err(bad(usize::try_from(high + 1).unwrap_or(usize::MAX)));
        }
        Ok(())
    }
}

/// Converts an axis given as in ONNX, in `-rank..rank`, to an index.
///
/// # Errors
/// Returns `Axis` if it is out of range.
pub fn resolve_axis(axis: i64, rank: usize) -> Result<usize, ViewError> {
    let bad = || ViewError::Axis { axis, rank };
    let r = i64::try_from(rank).map_err(|_| bad())?;
    let a = if axis < 0 { axis.checked_add(r).ok_or_else(bad)? } else { axis };
    usize::try_from(a).ok().filter(|&a| a < rank).ok_or_else(bad)
}

/// A read-only tensor: the data and the layout of its elements.
#[derive(Clone, Debug)]
pub struct View<'a, T> {
    data: &'a [T],
    layout: Layout,
}

impl<'a, T: Elem> View<'a, T> {
    /// A view of data through a layout.
    ///
    /// # Errors
    /// Returns `OutOfBounds` if the layout reaches outside the data.
    pub fn new(data: &'a [T], layout: Layout) -> Result<View<'a, T>, ViewError> {
        layout.check(data.len())?;
        Ok(View { data, layout })
    }

    /// A view of row-major data without gaps.
    ///
    /// # Errors
    /// Returns `TooLarge` if the shape cannot be addressed, and the errors of [`View::new`].
    pub fn contiguous(data: &'a [T], shape: &[usize]) -> Result<View<'a, T>, ViewError> {
        View::new(data, Layout::contiguous(shape)?)
    }

    /// The layout of the elements in the data.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Sizes of the axes.
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// The data under the view, from its beginning.
    pub fn data(&self) -> &'a [T] {
        self.data
    }

    /// The element with these indices. It panics if they lead outside the data.
    pub fn get(&self, at: &[usize]) -> T {
        self.data[self.layout.index(at)]
    }

    /// The elements as one slice; `None` unless they are in row-major order without gaps.
    pub fn as_slice(&self) -> Option<&'a [T]> {
        let (o, n) = (self.layout.offset(), self.layout.len());
        if n == 0 { Some(&[]) } else { self.layout.is_contiguous().then(|| &self.data[o..o + n]) }
    }

    /// Views the same data through a changed layout.
    ///
    /// # Errors
    /// Returns the errors of `change` and of [`View::new`].
    pub fn map(&self, change: impl FnOnce(&Layout) -> Result<Layout, ViewError>) -> Result<View<'a, T>, ViewError> {
        View::new(self.data, change(&self.layout)?)
    }

    /// Copies all elements in row-major order of the view.
    pub fn to_vec(&self) -> Vec<T> {
        let nest = crate::view::Nest::new(self.shape(), [&self.layout]);
        let mut v = Vec::with_capacity(self.layout.len());
        nest.each_run(|[at], len, [step]| v.extend((0..len).map(|i| self.data[(at + i as isize * step) as usize])));
        v
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Nest;

    #[test]
    fn neighbours_that_stay_together_are_joined_and_keep_their_places() {
        let plain = |shape: &[usize]| Layout::contiguous(shape).unwrap();
        let cases = [
            (plain(&[5, 6, 2]).permute(&[1, 0, 2]).unwrap(), 8, 60, 2),
            (plain(&[5, 6, 2, 1, 2]).permute(&[1, 0, 2, 3, 4]).unwrap(), 8, 120, 4),
            (plain(&[5, 6, 4]).permute(&[1, 0, 2]).unwrap(), 2, 120, 1),
            (plain(&[5, 6, 3]).permute(&[1, 0, 2]).unwrap(), 8, 90, 1),
            (plain(&[5, 6, 2]).permute(&[2, 1, 0]).unwrap(), 8, 60, 1),
            // Rows of seven do not begin at whole elements, nor does a part from the third on.
            (plain(&[4, 7]).slice(1, 0, 1, 4).unwrap(), 8, 28, 1),
            (plain(&[4, 8]).slice(1, 3, 1, 4).unwrap(), 8, 32, 1),
            (plain(&[4, 8]).slice(1, 4, 1, 4).unwrap(), 8, 32, 4),
            (plain(&[7]).slice(0, 0, 1, 4).unwrap(), 8, 7, 1),
            (plain(&[4, 2]).slice(0, 3, -1, 4).unwrap(), 8, 8, 2),
            (plain(&[2]).broadcast_to(&[3, 2]).unwrap(), 4, 2, 2),
            (plain(&[0, 2]), 8, 0, 2),
            (plain(&[2, 0]), 8, 0, 1),
        ];
        for (layout, most, has, want) in cases {
            let (wide, run) = layout.clone().joined(most, has);
            assert_eq!(run, want, "{layout:?}");
            let places = |l: &Layout| {
                let mut all = Vec::new();
                Nest::new(l.shape(), [l]).each_run(|[p], n, [s]| all.extend((0..n as isize).map(|i| p + i * s)));
                all
            };
            let near = |p: &isize| (0..run as isize).map(|i| p * run as isize + i).collect::<Vec<_>>();
            assert_eq!(places(&wide).iter().flat_map(near).collect::<Vec<_>>(), places(&layout), "{layout:?}");
        }
    }

    #[test]
    fn broadcasting_follows_numpy() {
        assert_eq!(broadcast_shapes(&[2, 1, 3], &[5, 1]).unwrap(), [2, 5, 3]);
        assert_eq!(broadcast_shapes(&[], &[2, 3]).unwrap(), [2, 3]);
        assert_eq!(broadcast_shapes(&[1], &[0]).unwrap(), [0]);
        let e = broadcast_shapes(&[2, 3], &[4, 3]).unwrap_err();
        assert_eq!(e.to_string(), "shapes [2, 3] and [4, 3] do not broadcast: axis 1 from the right is 2 and 4");
    }

    #[test]
    fn huge_shapes_are_refused_not_wrapped() {
        assert!(element_count(&[usize::MAX, 2]).is_err());
        assert!(element_count(&[usize::MAX, 2, 0]).is_err());
        assert_eq!(element_count(&[3, 0, 5]), Ok(0));
        assert_eq!(element_count(&[]), Ok(1));
        assert!(Layout::contiguous(&[1 << 40, 1 << 40]).is_err());
    }

    #[test]
    fn views_compose() {
        let d: Vec<i32> = (0..24).collect();
        let v = View::contiguous(&d, &[2, 3, 4]).unwrap();
        let t = v.map(|l| l.permute(&[2, 0, 1])).unwrap();
        assert_eq!((t.shape(), t.get(&[3, 1, 2])), (&[4, 2, 3][..], 23));
        let s = t.map(|l| l.slice(0, 3, -2, 2)).unwrap();
        assert_eq!(s.to_vec(), [3, 7, 11, 15, 19, 23, 1, 5, 9, 13, 17, 21]);
        let b = View::contiguous(&d[..3], &[3, 1]).unwrap().map(|l| l.broadcast_to(&[2, 3, 2])).unwrap();
        assert_eq!(b.to_vec(), [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2]);
        assert!(b.as_slice().is_none() && v.as_slice().is_some());
    }

    #[test]
    fn bad_views_say_what_is_wrong() {
        let l = Layout::contiguous(&[2, 3]).unwrap();
        assert!(matches!(l.permute(&[0, 0]), Err(ViewError::Permutation { .. })));
        assert!(matches!(l.slice(1, 2, 1, 2), Err(ViewError::Slice { .. })));
        assert!(matches!(l.slice(1, 0, -1, 2), Err(ViewError::Slice { .. })));
        assert!(matches!(l.slice(2, 0, 1, 1), Err(ViewError::Axis { .. })));
        assert!(matches!(l.check(5), Err(ViewError::OutOfBounds { needs: 6, has: 5, .. })));
        let stretched = |to: &[usize]| l.broadcast_to(to).map_err(|e| e.to_string());
        let text = |right: &str, end: &str| Err(format!("shapes [2, 3] and {right} do not broadcast: axis {end}"));
        assert_eq!(stretched(&[3]), text("[3]", "1 from the right is 2 and 1"));
        assert_eq!(stretched(&[1, 3]), text("[1, 3]", "1 from the right is 2 and 1"));
        assert_eq!(stretched(&[2, 1]), text("[2, 1]", "0 from the right is 3 and 1"));
        assert_eq!(stretched(&[4, 3]), text("[4, 3]", "1 from the right is 2 and 4"));
        assert_eq!(l.axis(-1), Ok(1));
        assert!(l.axis(2).is_err() && l.axis(-3).is_err());
        assert!(l.permute(&[1, 0]).unwrap().reshape(&[6]).is_err());
    }
}
