//! Steps of clusters beyond single-precision arithmetic: comparisons, choices, integers and
//! conversions. A lane has four bytes: a single, the bits of an `i32`, or a truth value as one or
//! zero.
use super::binary::{Arith, Binary, Compare};
use crate::view::Elem;
use half::{bf16, f16};

/// A conversion between lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Convert {
    /// The lane unchanged.
    Copy,
    /// Rounded to half precision, stored as a single.
    F16,
    /// Rounded to bf16, stored as a single.
    Bf16,
    /// Single precision, or a truth value, to an integer, by the rules of [`crate::view::cast()`].
    Whole,
    /// An integer to single precision.
    Single,
    /// Whether a single is not zero.
    Truth,
    /// Whether an integer is not zero.
    WholeTruth,
}

/// An operand for a row of lanes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lane<'v> {
    /// One lane for each element.
    Row(&'v [f32]),
    /// The same lane for all elements.
    One(f32),
}

/// Generates the loops over two operands.
macro_rules! over {
    ($a:ident, $b:ident, $out:ident, |$x:ident, $y:ident| $e:expr) => {
        match ($a, $b) {
            (Lane::Row(a), Lane::Row(b)) => {
                for ((o, x), y) in $out.iter_mut().zip(a).zip(b) {
                    let ($x, $y) = (*x, *y);
                    *o = $e;
                }
            }
            (Lane::Row(a), Lane::One($y)) => {
                for (o, x) in $out.iter_mut().zip(a) {
                    let $x = *x;
                    *o = $e;
                }
            }
            (Lane::One($x), Lane::Row(b)) => {
                for (o, y) in $out.iter_mut().zip(b) {
                    let $y = *y;
                    *o = $e;
                }
            }
            (Lane::One($x), Lane::One($y)) => {
                let one = $e;
                $out.fill(one);
            }
        }
    };
}

/// A truth value as a lane.
#[inline(always)]
fn truth(v: bool) -> f32 {
    f32::from(u8::from(v))
}

#[inline(always)]
fn whole(v: f32) -> i32 {
    v.to_bits() as i32
}

#[inline(always)]
fn bits(v: i32) -> f32 {
    f32::from_bits(v as u32)
}

crate::multiversion! {
    pub(super) fn compare_lanes(op: Compare, a: Lane<'_>, b: Lane<'_>, out: &mut [f32]) {
        match op {
            Compare::Equal => over!(a, b, out, |x, y| truth(x == y)),
            Compare::NotEqual => over!(a, b, out, |x, y| truth(x != y)),
            Compare::Less => over!(a, b, out, |x, y| truth(x < y)),
            Compare::LessEqual => over!(a, b, out, |x, y| truth(x <= y)),
            Compare::Greater => over!(a, b, out, |x, y| truth(x > y)),
            Compare::GreaterEqual => over!(a, b, out, |x, y| truth(x >= y)),
        }
    }
}

crate::multiversion! {
    pub(super) fn compare_whole(op: Compare, a: Lane<'_>, b: Lane<'_>, out: &mut [f32]) {
        match op {
            Compare::Equal => over!(a, b, out, |x, y| truth(whole(x) == whole(y))),
            Compare::NotEqual => over!(a, b, out, |x, y| truth(whole(x) != whole(y))),
            Compare::Less => over!(a, b, out, |x, y| truth(whole(x) < whole(y))),
            Compare::LessEqual => over!(a, b, out, |x, y| truth(whole(x) <= whole(y))),
            Compare::Greater => over!(a, b, out, |x, y| truth(whole(x) > whole(y))),
            Compare::GreaterEqual => over!(a, b, out, |x, y| truth(whole(x) >= whole(y))),
        }
    }
}

crate::multiversion! {
    pub(super) fn map_whole(op: Binary, a: Lane<'_>, b: Lane<'_>, out: &mut [f32]) {
        macro_rules! each {
            ($op:ident) => {
                over!(a, b, out, |x, y| bits(i32::map(Binary::$op, whole(x), whole(y))))
            };
        }
        match op {
            Binary::Add => each!(Add),
            Binary::Sub => each!(Sub),
            Binary::Mul => each!(Mul),
            Binary::Div => each!(Div),
            Binary::Max => each!(Max),
            Binary::Min => each!(Min),
            Binary::Pow => each!(Pow),
            Binary::SquaredDifference => each!(SquaredDifference),
            Binary::PRelu => each!(PRelu),
        }
    }
}

crate::multiversion! {
    /// `out = c ? a : b` for lanes of any kind.
    pub(super) fn choose(c: &[f32], a: Lane<'_>, b: Lane<'_>, out: &mut [f32]) {
        match (a, b) {
            (Lane::Row(a), Lane::Row(b)) => {
                for (((o, c), a), b) in out.iter_mut().zip(c).zip(a).zip(b) {
                    *o = if *c != 0.0 { *a } else { *b };
                }
            }
            (Lane::Row(a), Lane::One(b)) => {
                for ((o, c), a) in out.iter_mut().zip(c).zip(a) {
                    *o = if *c != 0.0 { *a } else { b };
                }
            }
            (Lane::One(a), Lane::Row(b)) => {
                for ((o, c), b) in out.iter_mut().zip(c).zip(b) {
                    *o = if *c != 0.0 { a } else { *b };
                }
            }
            (Lane::One(a), Lane::One(b)) => {
                for (o, c) in out.iter_mut().zip(c) {
                    *o = if *c != 0.0 { a } else { b };
                }
            }
        }
    }
}

/// Truncates a single to an integer. Values that do not fit give the smallest integer, as the
/// machine's conversion does.
#[inline(always)]
fn truncated(v: f32) -> i32 {
    if (-2_147_483_648.0..2_147_483_648.0).contains(&v) { v as i32 } else { i32::MIN }
}

crate::multiversion! {
    fn rounded<T: Elem>(x: &[f32], narrow: &mut [T], out: &mut [f32]) {
        for (out, x) in out.chunks_mut(narrow.len()).zip(x.chunks(narrow.len())) {
            for (n, x) in narrow.iter_mut().zip(x) {
                *n = T::from_f32(*x);
            }
            for (o, n) in out.iter_mut().zip(narrow.iter()) {
                *o = n.to_f32();
            }
        }
    }
}

crate::multiversion! {
    pub(super) fn convert(to: Convert, x: &[f32], out: &mut [f32]) {
        match to {
            Convert::Copy => out.copy_from_slice(x),
            Convert::F16 => rounded(x, &mut [f16::ZERO; 256], out),
            Convert::Bf16 => rounded(x, &mut [bf16::ZERO; 256], out),
            Convert::Whole => out.iter_mut().zip(x).for_each(|(o, x)| *o = bits(truncated(*x))),
            Convert::Single => out.iter_mut().zip(x).for_each(|(o, x)| *o = whole(*x) as f32),
            Convert::Truth => out.iter_mut().zip(x).for_each(|(o, x)| *o = truth(*x != 0.0)),
            Convert::WholeTruth => out.iter_mut().zip(x).for_each(|(o, x)| *o = truth(whole(*x) != 0)),
        }
    }
}

crate::multiversion! {
    /// Casts elements of a tensor to `i32` and stores their bits as lanes.
    pub fn load_whole<T: Elem>(x: &[T], out: &mut [f32]) {
        for (o, x) in out.iter_mut().zip(x) {
            *o = bits(crate::view::cast::<T, i32>(*x));
        }
    }
}

crate::multiversion! {
    /// Casts lanes of `i32` to elements of a tensor.
    pub fn store_whole<T: Elem>(x: &[f32], out: &mut [T]) {
        for (o, x) in out.iter_mut().zip(x) {
            *o = crate::view::cast::<i32, T>(whole(*x));
        }
    }
}

crate::multiversion! {
    /// Casts lanes of singles or truth values to elements of a tensor.
    pub fn store_cast<T: Elem>(x: &[f32], out: &mut [T]) {
        for (o, x) in out.iter_mut().zip(x) {
            *o = crate::view::cast::<f32, T>(*x);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, with_level};
    use crate::view::cast;

    fn on_all(f: impl Fn() -> Vec<f32>) -> Vec<f32> {
        let want = with_level(Level::Scalar, &f);
        for level in Level::available() {
            let got = with_level(level, &f);
            assert!(want.iter().zip(&got).all(|(a, b)| a.to_bits() == b.to_bits()), "{level:?}");
        }
        want
    }

    /// Conversions of lanes agree with those of single numbers.
    #[test]
    fn lanes_are_changed_as_numbers_are() {
        let special = [f32::NAN, f32::INFINITY, -0.0, 3e9, -3e9, 2_147_483_648.0, -2_147_483_648.0, 65_519.0, 1e-40];
        let x: Vec<f32> = (0..600).map(|i| (i as f32 - 300.0) * 1.37).chain(special).collect();
        let of = |to: Convert, x: &[f32]| {
            on_all(|| {
                let mut y = vec![9.0; x.len()];
                convert(to, x, &mut y);
                y
            })
        };
        let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
        for (i, y) in of(Convert::Whole, &x).iter().enumerate() {
            assert_eq!(whole(*y), cast::<f32, i32>(x[i]), "{}", x[i]);
        }
        let halves = of(Convert::F16, &x);
        assert!(halves.iter().zip(&x).all(|(y, x)| same(*y, cast::<f16, f32>(cast::<f32, f16>(*x)))));
        let halves = of(Convert::Bf16, &x);
        assert!(halves.iter().zip(&x).all(|(y, x)| same(*y, cast::<bf16, f32>(cast::<f32, bf16>(*x)))));
        assert!(of(Convert::Truth, &x).iter().zip(&x).all(|(y, x)| (*y == 1.0) == (*x != 0.0)));
        // Integers whose bits are a NaN or a subnormal single are preserved.
        let i = [0, -1, i32::MIN, i32::MAX, 0x7fa0_0001, 5, 16_777_217];
        let lanes = i.map(bits);
        assert!(of(Convert::Copy, &lanes).iter().zip(i).all(|(y, i)| whole(*y) == i));
        assert!(of(Convert::Single, &lanes).iter().zip(i).all(|(y, i)| *y == i as f32));
        assert_eq!(of(Convert::WholeTruth, &lanes), [0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
        let (mut back, mut wide) = ([0i64; 7], [0.0; 7]);
        load_whole(&i.map(i64::from), &mut wide);
        store_whole(&wide, &mut back);
        assert_eq!(back, i.map(i64::from));
    }

    /// Comparisons, choices and arithmetic of integers, with a single number on either side.
    #[test]
    fn pairs_of_lanes_are_pairs_of_numbers() {
        let a = [7, -3, i32::MAX, 0, 0x7fa0_0001];
        let b = [7, 2, 1, 0, 3];
        let (wa, wb) = (a.map(bits), b.map(bits));
        let ints = |op: Binary, a: Lane<'_>, b: Lane<'_>| {
            on_all(|| {
                let mut y = vec![0.0; 5];
                map_whole(op, a, b, &mut y);
                y
            })
            .into_iter()
            .map(whole)
            .collect::<Vec<_>>()
        };
        for op in [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div, Binary::Max, Binary::Min] {
            let want: Vec<i32> = a.iter().zip(&b).map(|(a, b)| i32::map(op, *a, *b)).collect();
            assert_eq!(ints(op, Lane::Row(&wa), Lane::Row(&wb)), want, "{op:?}");
            let want: Vec<i32> = a.iter().map(|a| i32::map(op, *a, 3)).collect();
            assert_eq!(ints(op, Lane::Row(&wa), Lane::One(bits(3))), want);
            let want: Vec<i32> = a.iter().map(|a| i32::map(op, 3, *a)).collect();
            assert_eq!(ints(op, Lane::One(bits(3)), Lane::Row(&wa)), want);
        }
        let mut y = [0.0; 5];
        compare_whole(Compare::Less, Lane::Row(&wa), Lane::Row(&wb), &mut y);
        assert_eq!(y, [0.0, 1.0, 0.0, 0.0, 0.0]);
        let (x, z) = ([1.0, f32::NAN, -0.0, 3.0, 2.0], [1.0, f32::NAN, 0.0, 2.0, 3.0]);
        compare_lanes(Compare::NotEqual, Lane::Row(&x), Lane::Row(&z), &mut y);
        assert_eq!(y, [0.0, 1.0, 0.0, 1.0, 1.0]);
        compare_lanes(Compare::GreaterEqual, Lane::One(2.0), Lane::Row(&z), &mut y);
        assert_eq!(y, [1.0, 0.0, 1.0, 1.0, 0.0]);
        let mut chosen = [0.0; 5];
        choose(&y, Lane::Row(&wa), Lane::One(bits(-1)), &mut chosen);
        assert_eq!(chosen.map(whole), [7, -1, i32::MAX, 0, -1]);
    }
}
