//! The k greatest or least elements of a line, best first. Equal elements are ordered by index, and
//! NaN is above all numbers.
//!
//! Each element is ranked by an integer, its order; less is better. The order and the index form a
//! word, so that sorting words gives the wanted order. The line is read once. Blocks whose elements
//! are no better than the worst of the k best so far are skipped by their orders alone. The words
//! of better elements are collected, and when at least twice k are there, the k best are kept. The
//! time is linear in the length of the line, whatever its order. If few elements of a long line are
//! wanted, the best elements of parts of the line first give a limit for the k best.
use crate::simd::isa::PanelElem;
use crate::view::Elem;
use half::{bf16, f16};

/// Elements that are tested together, and the size of the parts in which single ones are searched.
const BLOCK: usize = 64;
const PART: usize = 8;
/// Largest k that counts as few.
const FEW: usize = BLOCK / 4;

/// An element type whose best elements can be found.
pub trait Rank: Elem {
    /// The integer that ranks an element.
    type Order: Copy + Ord + Default + Send + Sync;
    /// An order combined with an index.
    type Word: Copy + Ord + Default + Send + Sync;
    /// The order of an element: lower is better.
    fn order(self, largest: bool) -> Self::Order;
    /// The word of an order and an index: for equal orders, a lower index gives a lower word.
    fn word(order: Self::Order, at: u32) -> Self::Word;
    /// The next worse order; `None` if there is none.
    fn worse(order: Self::Order) -> Option<Self::Order>;
    /// The order and the index of a word.
    fn parts(word: Self::Word) -> (Self::Order, usize);
}

macro_rules! ranks {
    ($($t:ty: $order:ty, $word:ty, |$v:ident| $rising:expr;)+) => {$(
        impl Rank for $t {
            type Order = $order;
            type Word = $word;
            #[inline(always)]
            fn order(self, largest: bool) -> $order {
                let $v = self;
                let rising: $order = $rising;
                if largest { !rising } else { rising }
            }
            #[inline(always)]
            fn word(order: $order, at: u32) -> $word {
                <$word>::from(order) << 32 | <$word>::from(at)
            }
            #[inline(always)]
            fn worse(order: $order) -> Option<$order> {
                order.checked_add(1)
            }
            #[inline(always)]
            fn parts(word: $word) -> ($order, usize) {
                ((word >> 32) as $order, word as u32 as usize)
            }
        }
    )+};
}
ranks! {
    f32: u32, u64, |v| ordered(v);
    f16: u32, u64, |v| ordered(v.wide());
    bf16: u32, u64, |v| ordered(v.wide());
    i32: u32, u64, |v| v as u32 ^ 1 << 31;
    i64: u64, u128, |v| v as u64 ^ 1 << 63;
}

/// The bits of a single as an integer that sorts like the number: both zeros are equal, and NaN is
/// above all.
#[inline(always)]
fn ordered(v: f32) -> u32 {
    let bits = (v + 0.0).to_bits();
    let order = bits ^ (((bits as i32) >> 31) as u32 | 1 << 31);
    if v.is_nan() { u32::MAX } else { order }
}

/// Finds the best elements of lines. It reuses its memory from line to line.
#[derive(Debug)]
pub struct Top<T: Rank> {
    k: usize,
    largest: bool,
    /// The best words so far, unsorted, followed by candidates.
    kept: Vec<T::Word>,
}

impl<T: Rank> Top<T> {
    /// Finds the `k` best elements of each line: the largest or the smallest.
    pub fn new(k: usize, largest: bool) -> Top<T> {
        Top { k, largest, kept: Vec::new() }
    }

    /// The indices of the best elements of a line, best first: `k`, or all of a shorter line.
    pub fn of(&mut self, line: &[T]) -> impl ExactSizeIterator<Item = usize> {
        let Top { k, largest, kept } = self;
        best(line, (*k).min(line.len()), *largest, kept).iter().map(|w| T::parts(*w).1)
    }
}

/// The words of the `k` best elements of a line, best first.
fn best<'k, T: Rank>(line: &[T], k: usize, largest: bool, kept: &'k mut Vec<T::Word>) -> &'k [T::Word] {
    if k == 0 {
        return &[];
    }
    // At least as many candidates as are kept are collected before the best are selected again.
    let full = (k + k.max(BLOCK)).min(line.len());
    kept.resize(full + BLOCK, T::Word::default());
    let few = k <= FEW && line.len() >= 4 * BLOCK;
    let (mut n, mut limit) = (0, if few { bound(line, k, largest) } else { None });
    for (b, block) in line.chunks(BLOCK).enumerate() {
        n += collect(block, (b * BLOCK) as u32, largest, limit, &mut kept[n..]);
        if n >= full || (limit.is_none() && n > k) {
            limit = Some(T::parts(*kept[..n].select_nth_unstable(k - 1).1).0);
            n = k;
        }
    }
    if n > k {
        kept[..n].select_nth_unstable(k - 1);
    }
    kept[..k].sort_unstable();
    &kept[..k]
}

/// A limit that the `k` best elements are below: `k` parts of the line have an element below it.
fn bound<T: Rank>(line: &[T], k: usize, largest: bool) -> Option<T::Order> {
    let mut best = best_of_parts(line, largest);
    T::worse(*best.select_nth_unstable(k - 1).1)
}

crate::multiversion! {
    /// The best order within each of [`BLOCK`] parts of the line.
    fn best_of_parts<T: Rank>(line: &[T], largest: bool) -> [T::Order; BLOCK] {
        let (blocks, _) = line.as_chunks::<BLOCK>();
        let mut best = [T::Order::default(); BLOCK];
        for (b, v) in best.iter_mut().zip(&blocks[0]) {
            *b = v.order(largest);
        }
        for block in &blocks[1..] {
            for (b, v) in best.iter_mut().zip(block) {
                let order = v.order(largest);
                *b = if order < *b { order } else { *b };
            }
        }
        best
    }
}

crate::multiversion! {
    /// Writes the words of the elements of a block whose order is below `limit` (or of all
    /// elements) to the start of `to`, and returns their number. An element that equals the limit
    /// has a higher index, so it is not needed.
    fn collect<T: Rank>(block: &[T], start: u32, largest: bool, limit: Option<T::Order>, to: &mut [T::Word]) -> usize {
        let Some(limit) = limit else {
            for (i, (to, v)) in to.iter_mut().zip(block).enumerate() {
                *to = T::word(v.order(largest), start + i as u32);
            }
            return block.len();
        };
        let mut orders = [limit; BLOCK];
        let mut any = false;
        for (o, v) in orders.iter_mut().zip(block) {
            *o = v.order(largest);
            any |= *o < limit;
        }
        if !any {
            return 0;
        }
        let (to, mut n) = (&mut to[..BLOCK], 0);
        for (p, part) in orders.as_chunks::<PART>().0.iter().enumerate() {
            let mut any = false;
            for o in part {
                any |= *o < limit;
            }
            if any {
                for (i, o) in part.iter().enumerate() {
                    to[n & (BLOCK - 1)] = T::word(*o, start + (p * PART + i) as u32);
                    n += usize::from(*o < limit);
                }
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

    /// By sorting everything, as the operator is defined.
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
                        let got: Vec<usize> = with_level(level, || Top::new(k, largest).of(x).collect());
                        assert_eq!(got, want, "{len} {k} {largest} {level:?}");
                    }
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
            let got: Vec<usize> = Top::new(7, largest).of(&x).collect();
            assert_eq!(got, plain(&x, 7, largest));
        }
        let ends = [i64::MIN, i64::MAX, -1, 0];
        assert_eq!(Top::new(4, true).of(&ends).collect::<Vec<_>>(), [1, 3, 2, 0]);
        assert_eq!(Top::new(2, false).of(&[i32::MIN, i32::MAX, -1]).collect::<Vec<_>>(), [0, 2]);
    }
}
