//! Reductions of many rows, or of columns that stand side by side, in single precision: sixteen
//! results are the lanes of a vector. The additions of each are those of
//! [`sum_by`](crate::simd::fold::sum_by), in the same order.
use super::{Reduce, Reduction, fold};
use crate::simd::fold::larger;
use crate::simd::isa::{Isa, PanelElem, dispatch};
use crate::simd::lines::round_to;
use crate::simd::math;
use crate::view::Out;
use std::marker::PhantomData;
use std::ops::Range;

/// Lanes are columns.
mod columns;
/// Rows of a few numbers.
mod few;
/// Logarithms of sums of powers.
mod log_sum_exp;
/// Lanes are rows.
mod rows;

pub(crate) use rows::sum_lanes;

/// Lanes of a vector.
const WIDE: usize = 16;
/// Numbers of a row whose powers are kept at most.
const LONG: usize = 1024;
/// Results of half types that are rounded at a time.
const ROUNDED: usize = 512;
/// Elements of a column whose places are listed at most, where they are not equally far apart.
const LISTED: usize = 1 << 16;

/// Does something for the type that joins what a reduction joins.
macro_rules! by_join {
    ($op:expr, $join:ident => $e:expr) => {
        match $op {
            Reduce::SumSquare | Reduce::L2 => by_join!(@ $join = Squares, $e),
            Reduce::L1 => by_join!(@ $join = Magnitudes, $e),
            Reduce::Max => by_join!(@ $join = Largest, $e),
            Reduce::Min => by_join!(@ $join = Smallest, $e),
            Reduce::Prod => by_join!(@ $join = Product, $e),
            _ => by_join!(@ $join = Sum, $e),
        }
    };
    (@ $join:ident = $t:ty, $e:expr) => {{
        type $join = $t;
        $e
    }};
}

impl Reduce {
    /// Elements are joined one behind the other, not in the lanes of a sum.
    fn in_line(self) -> bool {
        matches!(self, Reduce::Max | Reduce::Min | Reduce::Prod)
    }

    /// The reductions of rows of `count` numbers that stand one behind the other, as many as there
    /// are results; each as [`fold`] does it.
    pub fn rows(self, count: usize, x: &[f32], to: &mut [f32]) {
        if !self.run_rows(count, x, to) {
            for (r, to) in to.iter_mut().enumerate() {
                *to = fold(self, &x[r * count..(r + 1) * count]);
            }
        }
    }

    /// Does many rows at a time; whether these are such.
    fn run_rows(self, count: usize, x: &[f32], to: &mut [f32]) -> bool {
        if count == 0 {
            return false;
        }
        if self == Reduce::LogSumExp {
            // The powers of a long row would leave the cache before they are added.
            if count <= LONG {
                log_sum_exp::rows(count, x, to);
            }
            return count <= LONG;
        }
        if few::takes(count) && self != Reduce::Prod {
            by_join!(self, J => dispatch(few::Few { how: PhantomData::<J>, x, count, to: &mut *to }));
        } else if self == Reduce::Prod {
            dispatch(rows::Products { x, count, to: &mut *to });
        } else {
            by_join!(self, J => dispatch(rows::Rows { how: PhantomData::<J>, x, count, to: &mut *to }));
        }
        self.end(count, to);
        true
    }
}

impl Reduction {
    /// Does the units where they are of rows of single precision or of columns; whether they are.
    pub(super) fn run_many<T: PanelElem>(&self, units: Range<usize>, x: &[T], out: &mut Out<'_, T>) -> bool {
        let count = self.count;
        if units.is_empty() || count == 0 {
            return false;
        }
        if self.rows {
            let x = T::singles(&x[units.start * count..units.end * count]);
            let to = T::singles_mut(out.part(units.start, units.len()));
            return x.zip(to).map(|(x, to)| self.op.rows(count, x, to)).is_some();
        }
        if self.op == Reduce::LogSumExp {
            return false;
        }
        by_join!(self.op, J => self.run_columns::<J, T>(units, x, out))
    }

    fn run_columns<J: Join, T: PanelElem>(&self, units: Range<usize>, x: &[T], out: &mut Out<'_, T>) -> bool {
        let (count, in_line) = (self.count, self.op.in_line());
        let Some(places) = self.columns.then(|| self.places()).flatten() else { return false };
        let mut at = units.start;
        self.kept.each_run_in(units, |[from], len, _| {
            let (x, to) = (&x[from as usize..], out.part(at, len));
            let fold = |x: &[T], to: &mut [f32]| {
                let how = PhantomData::<J>;
                dispatch(columns::Columns { how, in_line, x, places: &places, count, to: &mut *to });
                self.op.end(count, to);
            };
            match T::singles_mut(to) {
                Some(to) => fold(x, to),
                None => {
                    let mut results = [0.0; ROUNDED];
                    for (k, to) in to.chunks_mut(ROUNDED).enumerate() {
                        let results = &mut results[..to.len()];
                        fold(&x[k * ROUNDED..], results);
                        round_to(results, to);
                    }
                }
            }
            at += len;
        });
        true
    }

    /// Where the elements of a column stand; none where they would be too many to list.
    fn places(&self) -> Option<columns::Places> {
        let mut runs = 0;
        let mut step = 0;
        self.reduced.each_run(|_, _, [s]| {
            runs += 1;
            step = s as usize;
        });
        if runs == 1 {
            return Some(columns::Places::Even(step));
        }
        if self.count > LISTED {
            return None;
        }
        let mut list = Vec::with_capacity(self.count);
        self.reduced.each_run(|[from], len, [s]| list.extend((0..len as isize).map(|k| (from + k * s) as usize)));
        Some(columns::Places::Listed(list))
    }
}

/// How elements are joined; loops are compiled for each.
pub(crate) trait Join: Copy {
    /// What a result begins with.
    const NONE: f32;
    /// As [`Join::term`], of one number.
    #[inline(always)]
    fn one(v: f32) -> f32 {
        v
    }
    /// As [`Join::join`], of two numbers.
    #[inline(always)]
    fn two(a: f32, b: f32) -> f32 {
        a + b
    }
    /// What is joined for an element.
    #[inline(always)]
    fn term<I: Isa>(isa: I, v: I::V) -> I::V {
        let _ = isa;
        v
    }
    /// Two terms joined.
    #[inline(always)]
    fn join<I: Isa>(isa: I, a: I::V, b: I::V) -> I::V {
        isa.add(a, b)
    }
}

/// Of the numbers.
#[derive(Clone, Copy)]
pub(crate) struct Sum;
/// Of their squares.
#[derive(Clone, Copy)]
struct Squares;
/// Of their magnitudes.
#[derive(Clone, Copy)]
struct Magnitudes;
/// The largest.
#[derive(Clone, Copy)]
pub(crate) struct Largest;
/// The largest of the negated, which is the smallest negated.
#[derive(Clone, Copy)]
struct Smallest;
/// Their product.
#[derive(Clone, Copy)]
struct Product;

impl Join for Sum {
    const NONE: f32 = 0.0;
}
impl Join for Squares {
    const NONE: f32 = 0.0;
    #[inline(always)]
    fn term<I: Isa>(isa: I, v: I::V) -> I::V {
        isa.mul(v, v)
    }
    #[inline(always)]
    fn one(v: f32) -> f32 {
        v * v
    }
}
impl Join for Magnitudes {
    const NONE: f32 = 0.0;
    #[inline(always)]
    fn term<I: Isa>(isa: I, v: I::V) -> I::V {
        isa.larger(v, isa.mul(v, isa.splat(-1.0)))
    }
    #[inline(always)]
    fn one(v: f32) -> f32 {
        v.abs()
    }
}
impl Join for Largest {
    const NONE: f32 = f32::NEG_INFINITY;
    #[inline(always)]
    fn join<I: Isa>(isa: I, a: I::V, b: I::V) -> I::V {
        isa.larger(a, b)
    }
    #[inline(always)]
    fn two(a: f32, b: f32) -> f32 {
        larger(a, b)
    }
}
impl Join for Smallest {
    const NONE: f32 = f32::NEG_INFINITY;
    #[inline(always)]
    fn term<I: Isa>(isa: I, v: I::V) -> I::V {
        isa.mul(v, isa.splat(-1.0))
    }
    #[inline(always)]
    fn join<I: Isa>(isa: I, a: I::V, b: I::V) -> I::V {
        isa.larger(a, b)
    }
    #[inline(always)]
    fn one(v: f32) -> f32 {
        -v
    }
    #[inline(always)]
    fn two(a: f32, b: f32) -> f32 {
        larger(a, b)
    }
}
impl Join for Product {
    const NONE: f32 = 1.0;
    #[inline(always)]
    fn join<I: Isa>(isa: I, a: I::V, b: I::V) -> I::V {
        isa.mul(a, b)
    }
    #[inline(always)]
    fn two(a: f32, b: f32) -> f32 {
        a * b
    }
}

impl Reduce {
    /// Results of what was joined, of `count` elements each.
    fn end(self, count: usize, v: &mut [f32]) {
        match self {
            Reduce::Mean => v.iter_mut().for_each(|v| *v /= count as f32),
            Reduce::L2 => v.iter_mut().for_each(|v| *v = v.sqrt()),
            Reduce::LogSum => logarithms(v),
            Reduce::Min => v.iter_mut().for_each(|v| *v = -*v),
            _ => {}
        }
    }
}

crate::multiversion! {
    fn logarithms(v: &mut [f32]) {
        for v in v {
            *v = math::ln(*v);
        }
    }
}
