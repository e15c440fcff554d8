//! Functions of two tensors with broadcasting, and comparisons.
use super::{divide, halves, short};
use crate::simd::isa::PanelElem;
use crate::simd::power::pow;
use crate::view::{Bool, Elem, Kind, Nest, Out, seen_as, seen_as_mut};
use half::{bf16, f16};
use std::ops::Range;

/// A function of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// `a + b`.
    Add,
    /// `a - b`.
    Sub,
    /// `a * b`.
    Mul,
    /// `a / b`. For integers it is truncated, and zero if `b` is zero.
    Div,
    /// The larger number; NaN if either is NaN.
    Max,
    /// The smaller number; NaN if either is NaN.
    Min,
    /// `a` to the power `b`.
    Pow,
    /// `(a - b)^2`.
    SquaredDifference,
    /// `a` if it is above zero, otherwise `a * b`.
    PRelu,
}

/// A comparison of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// `a == b`.
    Equal,
    /// `a != b`.
    NotEqual,
    /// `a < b`.
    Less,
    /// `a <= b`.
    LessEqual,
    /// `a > b`.
    Greater,
    /// `a >= b`.
    GreaterEqual,
}

/// Arithmetic on an element type.
pub trait Arith: Elem {
    /// The result of an operation on two elements.
    fn map(op: Binary, a: Self, b: Self) -> Self;
}

/// The result of an operation in single precision.
#[inline(always)]
pub fn float_map(op: Binary, a: f32, b: f32) -> f32 {
    match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a / b,
        Binary::Max => {
            if a > b || a.is_nan() {
                a
            } else {
                b
            }
        }
        Binary::Min => {
            if a < b || a.is_nan() {
                a
            } else {
                b
            }
        }
        Binary::Pow => power(a, b),
        Binary::SquaredDifference => (a - b) * (a - b),
        Binary::PRelu => {
            // Zero stays zero for slopes that are infinite or no number.
            if a < 0.0 { a * b } else { a }
        }
    }
}

/// Powers 2 and 3 are products and power 0.5 is a root. All others use [`pow`], which is always
/// evaluated, so that loops have no branch.
#[inline(always)]
pub(super) fn power(a: f32, b: f32) -> f32 {
    let r = pow(a, b);
    let r = if b == 0.5 { root(a) } else { r };
    let r = if b == 3.0 { cube(a) } else { r };
    if b == 2.0 { a * a } else { r }
}

/// `a^3`, rounded once.
#[inline(always)]
pub(super) fn cube(a: f32) -> f32 {
    (f64::from(a) * f64::from(a) * f64::from(a)) as f32
}

/// `a^0.5`: a zero result is never negative, and minus infinity gives infinity.
#[inline(always)]
pub(super) fn root(a: f32) -> f32 {
    let r = (a + 0.0).sqrt();
    if a == f32::NEG_INFINITY { f32::INFINITY } else { r }
}

macro_rules! float_arith {
    ($($t:ty: $wide:expr, $narrow:expr;)*) => {$(
        impl Arith for $t {
            #[inline(always)]
            fn map(op: Binary, a: $t, b: $t) -> $t {
                ($narrow)(float_map(op, ($wide)(a), ($wide)(b)))
            }
        }
    )*};
}
float_arith! {
    f32: |v: f32| v, |v: f32| v;
    f16: |v: f16| v.wide(), f16::narrow;
    bf16: |v: bf16| v.wide(), bf16::narrow;
}

/// Division of integers.
trait Quotient {
    /// The quotient truncated to an integer; zero if `by` is zero.
    fn quotient(self, by: Self) -> Self;
}

impl Quotient for i32 {
    /// Divides in double precision. The rounded quotient has the same integer part as the exact
    /// one: a fraction is at least 2^-31 away from the next integer, and the error is at most 2^-22
    /// of that.
    #[inline(always)]
    fn quotient(self, by: i32) -> i32 {
        // The one quotient that does not fit is that of the least number by minus one.
        let quotient = f64::from(self) / f64::from(if by == 0 || by == -1 { 1 } else { by });
        // SAFETY: the quotient is a number from -2^31 to 2^31 - 1.
        let whole = unsafe { quotient.to_int_unchecked::<i32>() };
        match by {
            0 => 0,
            -1 => self.wrapping_neg(),
            _ => whole,
        }
    }
}

impl Quotient for i64 {
    #[inline(always)]
    fn quotient(self, by: i64) -> i64 {
        if by == 0 { 0 } else { self.wrapping_div(by) }
    }
}

macro_rules! int_arith {
    ($($t:ty),*) => {$(
        impl Arith for $t {
            #[inline(always)]
            fn map(op: Binary, a: $t, b: $t) -> $t {
                match op {
                    Binary::Add => a.wrapping_add(b),
                    Binary::Sub => a.wrapping_sub(b),
                    Binary::Mul => a.wrapping_mul(b),
                    Binary::Div => a.quotient(b),
                    Binary::Max => a.max(b),
                    Binary::Min => a.min(b),
                    Binary::Pow => (a as f64).powf(b as f64) as $t,
                    Binary::SquaredDifference => a.wrapping_sub(b).wrapping_mul(a.wrapping_sub(b)),
                    Binary::PRelu => if a > 0 { a } else { a.wrapping_mul(b) },
                }
            }
        }
    )*};
}
int_arith!(i32, i64);

/// Applies a function to two runs with strides `$sa` and `$sb`.
macro_rules! runs {
    ($f:expr, $a:ident, $b:ident, $sa:ident, $sb:ident, $out:ident) => {{
        let f = $f;
        match ($sa, $sb) {
            (1, 1) => {
                let (a, b) = (&$a[..$out.len()], &$b[..$out.len()]);
                for i in 0..$out.len() {
                    $out[i] = f(a[i], b[i]);
                }
            }
            (1, 0) => {
                let b = $b[0];
                for (o, a) in $out.iter_mut().zip($a) {
                    *o = f(*a, b);
                }
            }
            (0, 1) => {
                let a = $a[0];
                for (o, b) in $out.iter_mut().zip($b) {
                    *o = f(a, *b);
                }
            }
            _ => {
                for (i, o) in $out.iter_mut().enumerate() {
                    *o = f($a[i * $sa], $b[i * $sb]);
                }
            }
        }
    }};
}

/// Like [`run`]; half types are processed in blocks.
fn line<T: Arith>(op: Binary, a: &[T], sa: usize, b: &[T], sb: usize, out: &mut [T]) {
    if (op, sa, sb, T::KIND) == (Binary::Div, 1, 0, Kind::I32)
        && let (Ok(a), Ok(&[by, ..]), Ok(out)) =
            (seen_as::<i32, T>(a), seen_as::<i32, T>(b), seen_as_mut::<i32, T>(out))
    {
        return divide::by_one(a, by, out);
    }
    if !halves::map(op, (a, sa), (b, sb), out) {
        run(op, a, sa, b, sb, out);
    }
}

crate::multiversion! {
    /// Applies the operation to two runs with strides `sa` and `sb`.
    pub(super) fn run<T: Arith>(op: Binary, a: &[T], sa: usize, b: &[T], sb: usize, out: &mut [T]) {
        match op {
            Binary::Add => runs!(|x, y| T::map(Binary::Add, x, y), a, b, sa, sb, out),
            Binary::Sub => runs!(|x, y| T::map(Binary::Sub, x, y), a, b, sa, sb, out),
            Binary::Mul => runs!(|x, y| T::map(Binary::Mul, x, y), a, b, sa, sb, out),
            Binary::Div => runs!(|x, y| T::map(Binary::Div, x, y), a, b, sa, sb, out),
            Binary::Max => runs!(|x, y| T::map(Binary::Max, x, y), a, b, sa, sb, out),
            Binary::Min => runs!(|x, y| T::map(Binary::Min, x, y), a, b, sa, sb, out),
            Binary::Pow => runs!(|x, y| T::map(Binary::Pow, x, y), a, b, sa, sb, out),
            Binary::SquaredDifference => runs!(|x, y| T::map(Binary::SquaredDifference, x, y), a, b, sa, sb, out),
            Binary::PRelu => runs!(|x, y| T::map(Binary::PRelu, x, y), a, b, sa, sb, out),
        }
    }
}

crate::multiversion! {
    fn run_compare<T: Elem>(op: Compare, a: &[T], sa: usize, b: &[T], sb: usize, out: &mut [Bool]) {
        match op {
            Compare::Equal => runs!(|x: T, y: T| Bool::from(x == y), a, b, sa, sb, out),
            Compare::NotEqual => runs!(|x: T, y: T| Bool::from(x != y), a, b, sa, sb, out),
            Compare::Less => runs!(|x: T, y: T| Bool::from(x < y), a, b, sa, sb, out),
            Compare::LessEqual => runs!(|x: T, y: T| Bool::from(x <= y), a, b, sa, sb, out),
            Compare::Greater => runs!(|x: T, y: T| Bool::from(x > y), a, b, sa, sb, out),
            Compare::GreaterEqual => runs!(|x: T, y: T| Bool::from(x >= y), a, b, sa, sb, out),
        }
    }
}

pub(super) use runs;

/// Raises elements to one common power, which selects the method once. Returns false, without
/// writing, unless the type is single precision.
fn raise<T: Elem>(a: &[T], b: &T, out: &mut [T]) -> bool {
    let (a, b) = (seen_as(a), seen_as(std::slice::from_ref(b)));
    match (T::KIND, a, b, seen_as_mut(out)) {
        (Kind::F32, Ok(a), Ok([b]), Ok(out)) => {
            super::chain::with_number(Binary::Pow, a, *b, out);
            true
        }
        _ => false,
    }
}

/// `out = op(a, b)` for the elements of `range`. The nest walks `a` and `b` in the shape of the
/// output; its strides must not be negative.
pub fn binary<T: Arith>(op: Binary, nest: &Nest<2>, range: Range<usize>, a: &[T], b: &[T], out: &mut Out<'_, T>) {
    if short::takes(nest) {
        return short::lines(nest, range, a, b, |part, a, b| line(op, a, 1, b, 1, out.part(part.start, part.len())));
    }
    let mut at = range.start;
    nest.each_run_in(range, |[pa, pb], len, [sa, sb]| {
        if (op, sa, sb) == (Binary::Pow, 1, 0) && raise(&a[pa as usize..][..len], &b[pb as usize], out.part(at, len)) {
            at += len;
            return;
        }
        line(op, &a[pa as usize..], sa as usize, &b[pb as usize..], sb as usize, out.part(at, len));
        at += len;
    });
}

/// `out = a op b` as truth values; otherwise like [`binary`].
pub fn compare<T: Elem>(op: Compare, nest: &Nest<2>, range: Range<usize>, a: &[T], b: &[T], out: &mut Out<'_, Bool>) {
    if short::takes(nest) {
        return short::lines(nest, range, a, b, |part, a, b| {
            run_compare(op, a, 1, b, 1, out.part(part.start, part.len()));
        });
    }
    let mut at = range.start;
    nest.each_run_in(range, |[pa, pb], len, [sa, sb]| {
        run_compare(op, &a[pa as usize..], sa as usize, &b[pb as usize..], sb as usize, out.part(at, len));
        at += len;
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{Layout, broadcast_shapes};
    use proptest::prelude::*;

    fn layouts(sa: &[usize], sb: &[usize]) -> (Vec<usize>, Layout, Layout) {
        let shape = broadcast_shapes(sa, sb).unwrap();
        let l = |s: &[usize]| Layout::contiguous(s).unwrap().broadcast_to(&shape).unwrap();
        (shape.clone(), l(sa), l(sb))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]
        #[test]
        fn broadcasting_agrees_with_indexing(dims in prop::collection::vec((1usize..5, any::<bool>(), any::<bool>()), 0..4), cut in any::<u16>()) {
            let sa: Vec<usize> = dims.iter().map(|d| if d.1 { 1 } else { d.0 }).collect();
            let sb: Vec<usize> = dims.iter().map(|d| if d.2 { 1 } else { d.0 }).collect();
            let (shape, la, lb) = layouts(&sa, &sb);
            let n: usize = shape.iter().product();
            let a: Vec<f32> = (0..sa.iter().product()).map(|i| i as f32 - 3.5).collect();
            let b: Vec<f32> = (0..sb.iter().product()).map(|i| i as f32 * 0.75 + 0.5).collect();
            let nest = Nest::new(&shape, [&la, &lb]);
            let cut = cut as usize % (n + 1);
            for op in [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div, Binary::Max, Binary::Min, Binary::Pow, Binary::SquaredDifference] {
                let mut y = vec![0.0; n];
                for r in [cut..n, 0..cut] {
                    binary(op, &nest, r, &a, &b, &mut Out::new(&mut y));
                }
                let mut i = 0;
                nest.each_run(|[pa, pb], len, [ta, tb]| {
                    for k in 0..len as isize {
                        let want = f32::map(op, a[(pa + k * ta) as usize], b[(pb + k * tb) as usize]);
                        assert!(y[i] == want || (y[i].is_nan() && want.is_nan()));
                        i += 1;
                    }
                });
            }
        }
    }

    #[test]
    fn integers_wrap_and_never_trap() {
        let nest = Nest::new(&[4], [&Layout::contiguous(&[4]).unwrap(); 2]);
        let (a, b) = ([i32::MIN, 7, -7, 5], [-1, 2, 2, 0]);
        let of = |op| {
            let mut y = [0; 4];
            binary(op, &nest, 0..4, &a, &b, &mut Out::new(&mut y));
            y
        };
        assert_eq!(of(Binary::Div), [i32::MIN, 3, -3, 0]);
        assert_eq!(of(Binary::Sub), [i32::MIN.wrapping_add(1), 5, -9, 5]);
        assert_eq!(of(Binary::Max), [-1, 7, 2, 5]);
        let ends = [i32::MIN, i32::MIN + 1, -7, -2, -1, 0, 1, 2, 3, 46_341, i32::MAX - 1, i32::MAX];
        for (a, b) in ends.into_iter().flat_map(|a| ends.map(|b| (a, b))) {
            let want = if b == 0 { 0 } else { a.wrapping_div(b) };
            assert_eq!(i32::map(Binary::Div, a, b), want, "{a} by {b}");
        }
    }

    #[test]
    fn comparisons() {
        let nest = Nest::new(&[3], [&Layout::contiguous(&[3]).unwrap(); 2]);
        let mut y = [Bool(0); 3];
        compare(Compare::GreaterEqual, &nest, 0..3, &[1.0, 2.0, f32::NAN], &[2.0, 2.0, 0.0], &mut Out::new(&mut y));
        assert_eq!(y, [Bool(0), Bool(1), Bool(0)]);
    }

    #[test]
    fn powers() {
        assert_eq!(f32::map(Binary::Pow, -3.0, 2.0), 9.0);
        assert_eq!(f32::map(Binary::Pow, -2.0, 3.0), -8.0);
        assert!(f32::map(Binary::Pow, -2.0, 0.5).is_nan());
        assert_eq!(f32::map(Binary::Pow, f32::NEG_INFINITY, 0.5), f32::INFINITY);
        // A chain gives the same results.
        let x = [-3.0, -0.0, 0.1, 1e30, 7.7e-30, f32::NEG_INFINITY, f32::NAN];
        for y in [2.0, 3.0, 0.5, 1.7, -1.0] {
            let mut out = [0.0; 7];
            super::super::chain::with_number(Binary::Pow, &x, y, &mut out);
            let bits = |v: [f32; 7]| v.map(|v| if v.is_nan() { 0 } else { v.to_bits() });
            assert_eq!(bits(out), bits(x.map(|x| f32::map(Binary::Pow, x, y))));
        }
        assert!(f32::map(Binary::Max, f32::NAN, 1.0).is_nan() && f32::map(Binary::Max, 1.0, f32::NAN).is_nan());
    }

    #[test]
    fn zero_stays_zero_for_every_slope() {
        let x = [0.0, -0.0, 0.0, -1.0, 2.0, f32::NAN, -2.0];
        let slopes = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::INFINITY, f32::NAN, 1.0, 0.5];
        let want = [0.0, -0.0, 0.0, f32::NEG_INFINITY, 2.0, f32::NAN, -1.0];
        let bits = |v: [f32; 7]| v.map(|v| if v.is_nan() { 0 } else { v.to_bits() });
        let one_by_one = std::array::from_fn(|i| f32::map(Binary::PRelu, x[i], slopes[i]));
        let mut out = [0.0; 7];
        super::super::chain::pairs(Binary::PRelu, &x, &slopes, &mut out);
        assert_eq!((bits(one_by_one), bits(out)), (bits(want), bits(want)));
        super::super::chain::with_number(Binary::PRelu, &x, f32::INFINITY, &mut out);
        assert_eq!(out[..3], [0.0; 3]);
    }
}
