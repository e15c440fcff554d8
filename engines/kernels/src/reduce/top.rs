//! The k greatest or least elements of a line, the best first, equal ones by lower index, NaN above
//! all.
//!
//! An element and its index become one whole number (`Rank`), the less the better, so that an order
//! of numbers is the order wanted. The line is read once: what is worse than the worst of the k best
//! so far is passed over a block at a time, the rest is collected, and when a few times k are there
//! the k best of them are kept. The time is linear in the line, whatever its order.
use crate::simd::isa::PanelElem;
use crate::view::Elem;
use half::{bf16, f16};

/// Elements that are looked at together.
const BLOCK: usize = 64;

/// A type of which the best elements can be found.
pub trait Rank: Elem {
    /// An element and its index.
    type Word: Copy + Ord + Default + Send + Sync;
    /// What no element of a line comes after.
    const LAST: Self::Word;
    /// The word of an element: less for a better one, and for a lower index of equal ones.
    fn rank(self, largest: bool, at: u32) -> Self::Word;
    /// The index in a word.
    fn index(word: Self::Word) -> usize;
}

/// A word of an order of 32 bits.
#[inline(always)]
fn word(order: u32, largest: bool, at: u32) -> u64 {
    let better = if largest { !order } else { order };
    u64::from(better) << 32 | u64::from(at)
}

macro_rules! ranks {
    ($($t:ty: |$v:ident| $order:expr;)+) => {$(
        impl Rank for $t {
            type Word = u64;
            const LAST: u64 = u64::MAX;
            #[inline(always)]
            fn rank(self, largest: bool, at: u32) -> u64 {
                let $v = self;
                word($order, largest, at)
            }
            #[inline(always)]
            fn index(word: u64) -> usize {
                word as u32 as usize
            }
        }
    )+};
}
ranks! {
    f32: |v| ordered(v);
    f16: |v| ordered(v.wide());
    bf16: |v| ordered(v.wide());
    i32: |v| v as u32 ^ 1 << 31;
}

/// Bits in the order of the numbers: both zeros one, all that is not a number one above all.
#[inline(always)]
fn ordered(v: f32) -> u32 {
    let bits = (v + 0.0).to_bits();
    let order = bits ^ (((bits as i32) >> 31) as u32 | 1 << 31);
    if v.is_nan() { u32::MAX } else { order }
}

impl Rank for i64 {
    type Word = u128;
    const LAST: u128 = u128::MAX;
    #[inline(always)]
    fn rank(self, largest: bool, at: u32) -> u128 {
        let order = self as u64 ^ 1 << 63;
        u128::from(if largest { !order } else { order }) << 32 | u128::from(at)
    }
    #[inline(always)]
    fn index(word: u128) -> usize {
        word as u32 as usize
    }
}

/// Finds the best of lines; keeps its memory from one to the next.
#[derive(Debug)]
pub struct Top<T: Rank> {
    k: usize,
    largest: bool,
    /// The best so far, in no order, and behind them what may be among them.
    kept: Vec<T::Word>,
    /// A line whose elements are apart.
    line: Vec<T>,
}

impl<T: Rank> Top<T> {
    /// Of each line the `k` best.
    pub fn new(k: usize, largest: bool) -> Top<T> {
        Top { k, largest, kept: Vec::new(), line: Vec::new() }
    }

    /// The indices of the best of the `len` elements of `x` that are `step` apart, the best first:
    /// `k`, or all of a shorter line.
    pub fn of(&mut self, x: &[T], len: usize, step: usize) -> impl ExactSizeIterator<Item = usize> {
        let Top { k, largest, kept, line } = self;
        let line = if step == 1 {
            &x[..len]
        } else {
            line.clear();
            line.extend(x.iter().step_by(step).take(len));
            line
        };
        best(line, (*k).min(len), *largest, kept).iter().map(|w| T::index(*w))
    }
}

/// The words of the `k` best of a line, the best first.
fn best<'k, T: Rank>(line: &[T], k: usize, largest: bool, kept: &'k mut Vec<T::Word>) -> &'k [T::Word] {
    if k == 0 {
        return &[];
    }
    // At least as many as are kept are collected until those that stay are chosen again.
    let full = (k + k.max(4 * BLOCK)).min(line.len());
    kept.resize(full + BLOCK, T::Word::default());
    let (mut n, mut limit) = (0, T::LAST);
    for (b, block) in line.chunks(BLOCK).enumerate() {
        n += collect(block, b * BLOCK, largest, limit, &mut kept[n..]);
        if n >= full {
            limit = *kept[..n].select_nth_unstable(k - 1).1;
            n = k;
        }
    }
    if n > k {
        kept[..n].select_nth_unstable(k - 1);
    }
    kept[..k].sort_unstable();
    &kept[..k]
}

crate::multiversion! {
    /// Writes the words below `limit` of a block to the start of `to`, and says how many.
    fn collect<T: Rank>(block: &[T], start: usize, largest: bool, limit: T::Word, to: &mut [T::Word]) -> usize {
        let mut words = [T::LAST; BLOCK];
        let mut any = false;
        for (i, (w, v)) in words.iter_mut().zip(block).enumerate() {
            *w = v.rank(largest, (start + i) as u32);
            any |= *w < limit;
        }
        let mut n = 0;
        if any {
            let to = &mut to[..BLOCK];
            for w in &words[..block.len()] {
                to[n & (BLOCK - 1)] = *w;
                n += usize::from(*w < limit);
            }
        }
        n
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, with_level};
    use std::cmp::Ordering;

    /// By a sort of all, as the operator is defined.
    fn plain<T: Rank>(x: &[T], k: usize, largest: bool) -> Vec<usize> {
        let nan = |v: &T| v.partial_cmp(v).is_none();
        let order = |a: &T, b: &T| a.partial_cmp(b).unwrap_or_else(|| nan(a).cmp(&nan(b)));
        let mut all: Vec<usize> = (0..x.len()).collect();
        all.sort_by(|p, q| match order(&x[*p], &x[*q]) {
            Ordering::Equal => p.cmp(q),
            o if largest => o.reverse(),
            o => o,
        });
        all.truncate(k);
        all
    }

    fn agree<T: Rank>(make: impl Fn(f64) -> T) {
        let mut seed = 7u64;
        let mut draw = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 40) as f64 / 1000.0
        };
        for (len, k) in
            [(0, 0), (1, 1), (5, 0), (63, 5), (64, 64), (65, 9), (1000, 1), (3000, 40), (3000, 2000), (300, 300)]
        {
            let random: Vec<T> = (0..len).map(|_| make(draw() - 8000.0)).collect();
            let rising: Vec<T> = (0..len).map(|i| make(i as f64)).collect();
            let falling: Vec<T> = (0..len).map(|i| make(-(i as f64))).collect();
            let few: Vec<T> = (0..len).map(|_| make((draw() as u64 % 3) as f64 - 1.0)).collect();
            for x in [&random, &rising, &falling, &few] {
                for largest in [true, false] {
                    let want = plain(x, k, largest);
                    for level in Level::available() {
                        let got: Vec<usize> = with_level(level, || Top::new(k, largest).of(x, len, 1).collect());
                        assert_eq!(got, want, "{len} {k} {largest} {level:?}");
                    }
                    let apart: Vec<T> = x.iter().flat_map(|v| [*v, T::default(), T::default()]).collect();
                    assert_eq!(Top::new(k, largest).of(&apart, len, 3).collect::<Vec<_>>(), want);
                }
            }
        }
    }

    #[test]
    fn the_best_are_those_of_a_sort() {
        agree(|v| v as f32);
        agree(f16::from_f64);
        agree(bf16::from_f64);
        agree(|v| v as i32);
        agree(|v| v as i64);
    }

    #[test]
    fn zeros_are_equal_and_what_is_no_number_is_above_all() {
        let x = [0.0, -0.0, f32::NAN, f32::INFINITY, -f32::NAN, f32::NEG_INFINITY, 1.0];
        for largest in [true, false] {
            let got: Vec<usize> = Top::new(7, largest).of(&x, 7, 1).collect();
            assert_eq!(got, plain(&x, 7, largest));
        }
        let ends = [i64::MIN, i64::MAX, -1, 0];
        assert_eq!(Top::new(4, true).of(&ends, 4, 1).collect::<Vec<_>>(), [1, 3, 2, 0]);
        assert_eq!(Top::new(2, false).of(&[i32::MIN, i32::MAX, -1], 3, 1).collect::<Vec<_>>(), [0, 2]);
    }
}
