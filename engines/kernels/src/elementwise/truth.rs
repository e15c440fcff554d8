//! Logic on pairs of truth values, and the choice between two tensors by a third. Neither branches
//! on the data.
use super::binary::runs;
use crate::layout::take_run;
use crate::view::{Bool, Elem, Nest, Out, seen_as, seen_as_mut};
use std::ops::{BitAnd, BitOr, Not, Range};

/// A logical operation on two truth values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// Whether both are true.
    And,
    /// Whether at least one is true.
    Or,
    /// Whether exactly one is true.
    Xor,
}

crate::multiversion! {
    fn run_join(op: Join, a: &[Bool], sa: usize, b: &[Bool], sb: usize, out: &mut [Bool]) {
        match op {
            Join::And => runs!(|x: Bool, y: Bool| Bool::from(x.get() & y.get()), a, b, sa, sb, out),
            Join::Or => runs!(|x: Bool, y: Bool| Bool::from(x.get() | y.get()), a, b, sa, sb, out),
            Join::Xor => runs!(|x: Bool, y: Bool| Bool::from(x.get() ^ y.get()), a, b, sa, sb, out),
        }
    }
}

/// `out = op(a, b)` for the elements of `range`. The nest walks `a` and `b` in the shape of the
/// output; its strides must not be negative.
pub fn join(op: Join, nest: &Nest<2>, range: Range<usize>, a: &[Bool], b: &[Bool], out: &mut Out<'_, Bool>) {
    let mut at = range.start;
    nest.each_run_in(range, |[pa, pb], len, [sa, sb]| {
        run_join(op, &a[pa as usize..], sa as usize, &b[pb as usize..], sb as usize, out.part(at, len));
        at += len;
    });
}

/// The bits of an element as an unsigned integer of its size.
trait Word: Elem + BitAnd<Output = Self> + BitOr<Output = Self> + Not<Output = Self> {
    /// All bits set, or none.
    fn all(truth: bool) -> Self;
}

macro_rules! words {
    ($($t:ty),*) => {$(
        impl Word for $t {
            #[inline(always)]
            fn all(truth: bool) -> $t {
                <$t>::from(truth).wrapping_neg()
            }
        }
    )*};
}

words!(u8, u16, u32, u64);

/// The bits of `a` or `b`, chosen without a branch, because truth values are often unpredictable.
#[inline(always)]
fn either<W: Word>(c: Bool, a: W, b: W) -> W {
    let mask = W::all(c.get());
    (a & mask) | (b & !mask)
}

crate::multiversion! {
    fn run_choose<W: Word>(c: &[Bool], a: &[W], sa: usize, b: &[W], sb: usize, out: &mut [W]) {
        match (sa, sb) {
            (1, 1) => {
                for (((o, c), a), b) in out.iter_mut().zip(c).zip(a).zip(b) {
                    *o = either(*c, *a, *b);
                }
            }
            (1, 0) => {
                let b = b[0];
                for ((o, c), a) in out.iter_mut().zip(c).zip(a) {
                    *o = either(*c, *a, b);
                }
            }
            (0, 1) => {
                let a = a[0];
                for ((o, c), b) in out.iter_mut().zip(c).zip(b) {
                    *o = either(*c, a, *b);
                }
            }
            _ => {
                for (i, (o, c)) in out.iter_mut().zip(c).enumerate() {
                    *o = either(*c, a[i * sa], b[i * sb]);
                }
            }
        }
    }
}

/// The same for elements of any type, seen as words of their size.
fn choose<T: Elem>(c: &[Bool], a: &[T], sa: usize, b: &[T], sb: usize, out: &mut [T]) {
    fn of<W: Word, T: Elem>(c: &[Bool], (a, sa): (&[T], usize), (b, sb): (&[T], usize), out: &mut [T]) {
        if let (Ok(a), Ok(b), Ok(out)) = (seen_as::<W, _>(a), seen_as(b), seen_as_mut(out)) {
            run_choose(c, a, sa, b, sb, out);
        }
    }
    match T::KIND.size() {
        1 => of::<u8, T>(c, (a, sa), (b, sb), out),
        2 => of::<u16, T>(c, (a, sa), (b, sb), out),
        4 => of::<u32, T>(c, (a, sa), (b, sb), out),
        _ => of::<u64, T>(c, (a, sa), (b, sb), out),
    }
}

/// `out = c ? a : b` for the elements of `range`; strides must not be negative. Elements are copied
/// bit by bit.
pub fn select<T: Elem>(nest: &Nest<3>, range: Range<usize>, c: &[Bool], a: &[T], b: &[T], out: &mut Out<'_, T>) {
    let mut at = range.start;
    nest.each_run_in(range, |[pc, pa, pb], len, steps| {
        let [sc, sa, sb] = steps.map(|s| s as usize);
        let (c, a, b) = (&c[pc as usize..], &a[pa as usize..], &b[pb as usize..]);
        let out = out.part(at, len);
        match (sc, c[0].get()) {
            (1, _) => choose(c, a, sa, b, sb, out),
            (0, true) => take_run(a, sa, out),
            (0, false) => take_run(b, sb, out),
            _ => {
                for (i, o) in out.iter_mut().enumerate() {
                    *o = if c[i * sc].get() { a[i * sa] } else { b[i * sb] };
                }
            }
        }
        at += len;
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, with_level};
    use crate::view::{Layout, broadcast_shapes};
    use proptest::prelude::*;

    /// A nest over contiguous tensors of these shapes, broadcast to their common shape.
    fn nest<const N: usize>(shapes: [&[usize]; N]) -> Nest<N> {
        let shape = shapes.iter().fold(vec![], |all, s| broadcast_shapes(&all, s).unwrap());
        let layouts = shapes.map(|s| Layout::contiguous(s).unwrap().broadcast_to(&shape).unwrap());
        Nest::new(&shape, std::array::from_fn(|i| &layouts[i]))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
        #[test]
        fn choices_and_joins_agree_with_indexing(
            dims in prop::collection::vec((1usize..40, any::<[bool; 3]>()), 0..4), cut in any::<u16>(), bits in any::<u64>(),
        ) {
            let shapes: [Vec<usize>; 3] = std::array::from_fn(|k| dims.iter().map(|d| if d.1[k] { 1 } else { d.0 }).collect());
            let count = |k: usize| shapes[k].iter().product::<usize>();
            // Every byte except zero is true.
            let truth = |k: usize, by: usize| -> Vec<Bool> { (0..count(k)).map(|i| Bool((bits >> (i * by % 61) & 2) as u8 * 3)).collect() };
            let (c, ta, tb) = (truth(0, 7), truth(0, 5), truth(1, 11));
            let (a, b): (Vec<i64>, Vec<i64>) = ((0..count(1) as i64).collect(), (0..count(2) as i64).map(|v| -1 - v).collect());
            let three = nest([&shapes[0], &shapes[1], &shapes[2]]);
            let two = nest([&shapes[0], &shapes[1]]);
            let at = |shape: &[usize], all: &[usize], mut i: usize| {
                let (mut place, mut step) = (0, 1);
                for (s, all) in shape.iter().zip(all).rev() {
                    (place, step, i) = (place + if *s == 1 { 0 } else { i % all * step }, step * s, i / all);
                }
                place
            };
            let full = |shapes: &[Vec<usize>]| shapes.iter().fold(vec![1; dims.len()], |all, s| broadcast_shapes(&all, s).unwrap());
            for level in Level::available() {
                let all = full(&shapes);
                let mut y = vec![0; three.len()];
                let cut = cut as usize % (y.len() + 1);
                with_level(level, || for r in [cut..three.len(), 0..cut] {
                    select(&three, r, &c, &a, &b, &mut Out::new(&mut y));
                });
                for (i, y) in y.iter().enumerate() {
                    let [pc, pa, pb] = std::array::from_fn(|k| at(&shapes[k], &all, i));
                    prop_assert_eq!(*y, if c[pc].get() { a[pa] } else { b[pb] });
                }
                let all = full(&shapes[..2]);
                for op in [Join::And, Join::Or, Join::Xor] {
                    let mut y = vec![Bool(9); two.len()];
                    with_level(level, || join(op, &two, 0..two.len(), &ta, &tb, &mut Out::new(&mut y)));
                    for (i, y) in y.iter().enumerate() {
                        let (x, z) = (ta[at(&shapes[0], &all, i)].get(), tb[at(&shapes[1], &all, i)].get());
                        prop_assert_eq!(y.0, u8::from(match op { Join::And => x && z, Join::Or => x || z, Join::Xor => x != z }));
                    }
                }
            }
        }
    }
}
