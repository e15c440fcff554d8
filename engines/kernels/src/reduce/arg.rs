//! The index of the largest or smallest element along an axis.
use crate::view::{Elem, Out};
use std::ops::Range;

/// A tensor viewed as `outer` x `len` x `inner`, searched along `len`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arg {
    /// Product of the sizes before the axis.
    pub outer: usize,
    /// Size of the axis.
    pub len: usize,
    /// Product of the sizes after the axis.
    pub inner: usize,
    /// Whether the smallest element is searched, instead of the largest.
    pub smallest: bool,
    /// Whether the last of equal elements is taken, instead of the first.
    pub last: bool,
}

impl Arg {
    /// Number of units of work: output elements.
    pub fn units(&self) -> usize {
        self.outer * self.inner
    }

    /// Computes the output elements `units`; `index` converts an index to an output element. The
    /// first NaN wins over any number.
    pub fn run<T: Elem, I: Elem>(
        &self,
        units: Range<usize>,
        x: &[T],
        index: impl Fn(usize) -> I,
        out: &mut Out<'_, I>,
    ) {
        match (self.smallest, self.last) {
            (false, false) => self.search(By::<false, false>, units, x, index, out),
            (false, true) => self.search(By::<false, true>, units, x, index, out),
            (true, false) => self.search(By::<true, false>, units, x, index, out),
            (true, true) => self.search(By::<true, true>, units, x, index, out),
        }
    }

    fn search<T: Elem, I: Elem, W: Wins>(
        &self,
        by: W,
        units: Range<usize>,
        x: &[T],
        index: impl Fn(usize) -> I,
        out: &mut Out<'_, I>,
    ) {
        let (len, inner) = (self.len, self.inner);
        let (mut u, end) = (units.start, units.end.min(self.units()));
        let mut found = [0u32; WIDE];
        while u < end {
            if inner == 1 && len < LANES {
                // Short rows: neighbouring rows are lanes.
                let n = WIDE.min(end - u);
                rows(by, len, &x[u * len..(u + n) * len], &mut found[..n]);
                for (to, i) in out.part(u, n).iter_mut().zip(&found) {
                    *to = index(*i as usize);
                }
                u += n;
                continue;
            }
            if inner == 1 {
                out.part(u, 1)[0] = index(row(by, &x[u * len..(u + 1) * len]));
                u += 1;
                continue;
            }
            let (o, first) = (u / inner, u % inner);
            let n = WIDE.min(inner - first).min(end - u);
            let x = &x[o * len * inner + first..];
            if n == WIDE {
                columns(by, len, inner, x, &mut found);
            } else {
                few(by, len, inner, x, &mut found[..n]);
            }
            for (to, i) in out.part(u, n).iter_mut().zip(&found) {
                *to = index(*i as usize);
            }
            u += n;
        }
    }
}

/// Number of columns that are searched at a time.
const WIDE: usize = 64;

/// The rule that decides which of two elements is wanted.
trait Wins: Copy {
    /// Whether the last of equal elements is taken.
    const LAST: bool;
    /// Whether `v`, which comes after `best`, replaces it.
    fn wins<T: Elem>(self, v: T, best: T) -> bool;
}

/// Compares values; equal elements are decided by position.
#[derive(Clone, Copy)]
struct By<const SMALLEST: bool, const LAST: bool>;

impl<const SMALLEST: bool, const LAST: bool> Wins for By<SMALLEST, LAST> {
    const LAST: bool = LAST;

    #[inline(always)]
    #[allow(clippy::eq_op)]
    fn wins<T: Elem>(self, v: T, best: T) -> bool {
        let better = if SMALLEST { v < best } else { v > best };
        better | ((v != v) & (best == best)) | (LAST & (v == best))
    }
}

crate::multiversion! {
    /// Finds the positions in [`WIDE`] columns of `len` rows, `pitch` apart.
    fn columns<T: Elem, W: Wins>(by: W, len: usize, pitch: usize, x: &[T], found: &mut [u32; WIDE]) {
        look(by, len, pitch, x, &mut [T::default(); WIDE], found);
    }
}

crate::multiversion! {
    /// Like [`columns`], for fewer columns.
    fn few<T: Elem, W: Wins>(by: W, len: usize, pitch: usize, x: &[T], found: &mut [u32]) {
        look(by, len, pitch, x, &mut [T::default(); WIDE][..found.len()], found);
    }
}

crate::multiversion! {
    /// Finds the positions in neighbouring rows of `len` elements.
    fn rows<T: Elem, W: Wins>(by: W, len: usize, x: &[T], found: &mut [u32]) {
        match len {
            2 => rows_of::<2, T, W>(by, x, found),
            3 => rows_of::<3, T, W>(by, x, found),
            4 => rows_of::<4, T, W>(by, x, found),
            _ => {
                for (x, found) in x.chunks_exact(len).zip(found) {
                    *found = in_row(by, x);
                }
            }
        }
    }
}

/// The same for rows of a known length.
#[inline(always)]
fn rows_of<const N: usize, T: Elem, W: Wins>(by: W, x: &[T], found: &mut [u32]) {
    for (x, found) in x.as_chunks::<N>().0.iter().zip(found) {
        *found = in_row(by, x);
    }
}

/// The position in a short row.
#[inline(always)]
fn in_row<T: Elem, W: Wins>(by: W, x: &[T]) -> u32 {
    let (mut best, mut at) = (x[0], 0);
    for (i, v) in x.iter().enumerate().skip(1) {
        let wins = by.wins(*v, best);
        best = if wins { *v } else { best };
        at = if wins { i as u32 } else { at };
    }
    at
}

/// The loop of [`columns`] and [`few`]. It is inlined, so that it is compiled for their numbers of columns.
#[inline(always)]
fn look<T: Elem, W: Wins>(by: W, len: usize, pitch: usize, x: &[T], best: &mut [T], found: &mut [u32]) {
    best.copy_from_slice(&x[..best.len()]);
    found.fill(0);
    for i in 1..len {
        let row = &x[i * pitch..][..best.len()];
        for ((v, best), at) in row.iter().zip(best.iter_mut()).zip(found.iter_mut()) {
            let wins = by.wins(*v, *best);
            *best = if wins { *v } else { *best };
            *at = if wins { i as u32 } else { *at };
        }
    }
}

/// Number of lanes for a row.
const LANES: usize = 32;

crate::multiversion! {
    /// Finds the position in a row: first the winning value, in lanes, then its position.
    #[allow(clippy::eq_op)]
    fn row<T: Elem, W: Wins>(by: W, x: &[T]) -> usize {
        let Some((first, rest)) = x.split_first_chunk::<LANES>() else { return in_row(by, x) as usize };
        let mut lanes = *first;
        let (whole, tail) = rest.as_chunks::<LANES>();
        for row in whole {
            for (best, v) in lanes.iter_mut().zip(row) {
                *best = if by.wins(*v, *best) { *v } else { *best };
            }
        }
        for (best, v) in lanes.iter_mut().zip(tail) {
            *best = if by.wins(*v, *best) { *v } else { *best };
        }
        let mut n = LANES / 2;
        while n > 0 {
            for i in 0..n {
                let v = lanes[i + n];
                lanes[i] = if by.wins(v, lanes[i]) { v } else { lanes[i] };
            }
            n /= 2;
        }
        let best = lanes[0];
        // NaN is not equal to itself; the first one is taken.
        let nan = best != best;
        let is = |v: T| (v == best) | (nan & (v != v));
        let any = |part: &[T; LANES]| part.iter().fold(false, |any, v| any | is(*v));
        let (all, tail) = x.as_chunks::<LANES>();
        let behind = all.len() * LANES;
        if W::LAST && !nan {
            return match tail.iter().rposition(|v| is(*v)) {
                Some(i) => behind + i,
                None => {
                    let c = all.iter().rposition(any).unwrap_or(0);
                    c * LANES + all[c].iter().rposition(|v| is(*v)).unwrap_or(0)
                }
            };
        }
        match all.iter().position(any) {
            Some(c) => c * LANES + all[c].iter().position(|v| is(*v)).unwrap_or(0),
            None => behind + tail.iter().position(|v| is(*v)).unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, with_level};
    use crate::view::block_range;

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

    /// Various sizes, with repeated numbers and with NaN.
    #[test]
    fn every_way_finds_what_one_look_after_the_other_finds() {
        for (len, inner) in [1, 2, 31, 32, 33, 80, 130].into_iter().flat_map(|len| [1, 3, 64, 70].map(|n| (len, n))) {
            for (case, smallest, last) in (0..12).map(|i| (i / 4, i % 2 == 0, i / 2 % 2 == 0)) {
                let value = |i: usize| match (i * 7919 + case * 13) % 97 {
                    0 if case == 1 => f32::NAN,
                    n => (n % 23) as f32 - 11.0,
                };
                let x: Vec<f32> = (0..2 * len * inner).map(value).collect();
                let a = Arg { outer: 2, len, inner, smallest, last };
                let want: Vec<i32> = (0..a.units())
                    .map(|u| {
                        let at = |i: usize| x[u / inner * len * inner + i * inner + u % inner];
                        let mut best = 0;
                        for i in 1..len {
                            let (v, b) = (at(i), at(best));
                            let better = if smallest { v < b } else { v > b };
                            if better || (v.is_nan() && !b.is_nan()) || (last && v == b) {
                                best = i;
                            }
                        }
                        best as i32
                    })
                    .collect();
                for level in Level::available() {
                    let mut y = vec![-1; a.units()];
                    for b in 0..3 {
                        let units = block_range(a.units(), b, 3);
                        with_level(level, || a.run(units, &x, |i| i as i32, &mut Out::new(&mut y)));
                    }
                    assert_eq!(y, want, "{a:?} {level:?}");
                }
            }
        }
    }

    #[test]
    fn an_axis_in_the_middle() {
        let mut y = [0i32; 4];
        let a = Arg { outer: 2, len: 2, inner: 2, smallest: false, last: false };
        a.run(0..4, &[1, 4, 3, 2, 8, 5, 7, 6], |i| i as i32, &mut Out::new(&mut y));
        assert_eq!(y, [1, 0, 0, 1]);
    }
}
