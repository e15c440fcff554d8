//! `Nest`: joint iteration over several layouts of one shape. Neighbouring axes are merged where
//! all layouts allow it.
use crate::view::layout::Layout;
use std::ops::Range;

/// A loop nest over `N` operands of one (broadcast) shape. Axes of size one are dropped, and
/// neighbouring axes are merged when every operand's strides allow it, so that the inner run is as
/// long as possible. It is made once and can be walked any number of times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nest<const N: usize> {
    dims: Vec<usize>,
    strides: Vec<[isize; N]>,
    base: [isize; N],
    run: usize,
    run_strides: [isize; N],
    len: usize,
}

impl<const N: usize> Nest<N> {
    /// Makes a nest over layouts that all have the shape `shape` (see [`Layout::broadcast_to`]). A
    /// layout with fewer axes gets stride zero for the missing ones.
    pub fn new(shape: &[usize], layouts: [&Layout; N]) -> Nest<N> {
        let len = if shape.contains(&0) { 0 } else { shape.iter().product() };
        let mut dims: Vec<usize> = Vec::with_capacity(shape.len());
        let mut strides: Vec<[isize; N]> = Vec::with_capacity(shape.len());
        for (d, &size) in shape.iter().enumerate() {
            if size == 1 {
                continue;
            }
            let step = layouts.map(|l| l.strides().get(d).copied().unwrap_or(0));
            if let (Some(last), Some(above)) = (dims.last_mut(), strides.last_mut())
                && (0..N).all(|i| above[i] == step[i].saturating_mul(isize::try_from(size).unwrap_or(isize::MAX)))
            {
                *last = last.saturating_mul(size);
                *above = step;
                continue;
            }
            dims.push(size);
            strides.push(step);
        }
        let (run, run_strides) = match (dims.pop(), strides.pop()) {
            (Some(d), Some(s)) => (d, s),
            _ => (1, [1; N]),
        };
        let base = layouts.map(|l| isize::try_from(l.offset()).unwrap_or(0));
        Nest { dims, strides, base, run, run_strides, len }
    }

    /// Total number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of elements of one inner run.
    pub fn run(&self) -> usize {
        self.run
    }

    /// Stride of each operand in the inner run.
    pub fn run_strides(&self) -> [isize; N] {
        self.run_strides
    }

    /// Number of inner runs.
    pub fn runs(&self) -> usize {
        if self.len == 0 { 0 } else { self.len / self.run }
    }

    /// Position of the first element of operand `i` if its elements are contiguous in the order of
    /// the walk.
    pub fn in_order(&self, i: usize) -> Option<usize> {
        let mut step = self.run as isize;
        let outer = self.dims.iter().zip(&self.strides).rev().all(|(n, strides)| {
            let is = strides[i] == step;
            step *= *n as isize;
            is
        });
        (outer && (self.run_strides[i] == 1 || self.run == 1)).then_some(self.base[i] as usize)
    }

    /// Whether every inner run of operand `i` reads the same elements.
    pub fn repeats(&self, i: usize) -> bool {
        self.strides.iter().all(|strides| strides[i] == 0)
    }

    /// Calls `f(positions, len, strides)` for each inner run.
    pub fn each_run(&self, f: impl FnMut([isize; N], usize, [isize; N])) {
        self.each_run_in(0..self.len, f);
    }

    /// Calls `f(positions, len, strides)` for each inner run, or part of one, that covers the
    /// elements `range` in row-major order.
    pub fn each_run_in(&self, range: Range<usize>, mut f: impl FnMut([isize; N], usize, [isize; N])) {
        let end = range.end.min(self.len);
        let mut at = range.start;
        if at >= end {
            return;
        }
        // Indices and positions of the run that contains element `at`.
        let mut rest = at / self.run;
        let mut skip = at % self.run;
        let mut index = vec![0usize; self.dims.len()];
        let mut pos = self.base;
        for d in (0..self.dims.len()).rev() {
            index[d] = rest % self.dims[d];
            rest /= self.dims[d];
            for (i, p) in pos.iter_mut().enumerate() {
                *p += index[d] as isize * self.strides[d][i];
            }
        }
        loop {
            let len = (self.run - skip).min(end - at);
            let mut start = pos;
            for (i, p) in start.iter_mut().enumerate() {
                *p += skip as isize * self.run_strides[i];
            }
            f(start, len, self.run_strides);
            at += len;
            skip = 0;
            if at >= end {
                return;
            }
            for d in (0..self.dims.len()).rev() {
                index[d] += 1;
                for (i, p) in pos.iter_mut().enumerate() {
                    *p += self.strides[d][i];
                }
                if index[d] < self.dims[d] {
                    break;
                }
                for (i, p) in pos.iter_mut().enumerate() {
                    *p -= self.dims[d] as isize * self.strides[d][i];
                }
                index[d] = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn contiguous_operands_make_one_run() {
        let l = Layout::contiguous(&[2, 1, 3, 5]).unwrap();
        let n = Nest::new(&[2, 1, 3, 5], [&l, &l]);
        assert_eq!((n.runs(), n.run(), n.run_strides()), (1, 30, [1, 1]));
        assert_eq!((n.in_order(0), n.repeats(0)), (Some(0), true));
        let b = Layout::contiguous(&[5]).unwrap().broadcast_to(&[2, 1, 3, 5]).unwrap();
        let n = Nest::new(&[2, 1, 3, 5], [&l, &b]);
        assert_eq!((n.runs(), n.run()), (6, 5));
        assert_eq!([n.in_order(0), n.in_order(1)], [Some(0), None]);
        assert_eq!([n.repeats(0), n.repeats(1)], [false, true]);
    }

    #[test]
    fn scalars_and_empty_shapes() {
        let l = Layout::contiguous(&[]).unwrap();
        let mut seen = vec![];
        Nest::new(&[], [&l]).each_run(|p, n, _| seen.push((p, n)));
        assert_eq!(seen, [([0], 1)]);
        let l = Layout::contiguous(&[3, 0]).unwrap();
        Nest::new(&[3, 0], [&l]).each_run(|_, _, _| panic!("no element"));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
        /// However the elements are cut into ranges, the walks together visit the positions of the
        /// whole in order.
        #[test]
        fn ranges_join_to_the_whole(dims in prop::collection::vec(1usize..5, 0..5), axes in any::<u64>(), cuts in any::<[u16; 2]>()) {
            let base = Layout::contiguous(&dims).unwrap();
            let mut perm: Vec<usize> = (0..dims.len()).collect();
            for i in (1..perm.len()).rev() {
                perm.swap(i, (axes >> (i * 8)) as usize % (i + 1));
            }
            let l = base.permute(&perm).unwrap();
            let shape = l.shape().to_vec();
            let nest = Nest::new(&shape, [&l]);
            let total = nest.len();
            let mut want = vec![];
            for e in 0..total {
                let mut rest = e;
                let mut at = vec![0; shape.len()];
                for d in (0..shape.len()).rev() {
                    at[d] = rest % shape[d];
                    rest /= shape[d];
                }
                want.push(l.index(&at) as isize);
            }
            let (a, b) = (cuts[0] as usize % (total + 1), cuts[1] as usize % (total + 1));
            let mut got = vec![];
            for r in [0..a.min(b), a.min(b)..a.max(b), a.max(b)..total] {
                nest.each_run_in(r, |[p], n, [s]| got.extend((0..n as isize).map(|i| p + i * s)));
            }
            prop_assert_eq!(got, want);
        }
    }
}
