//! Reductions of many rows, or of columns that stand side by side, in single precision: sixteen
//! results are the lanes of a vector. The additions of each are those of
//! [`sum_by`](crate::simd::fold::sum_by), in the same order.
use super::{Reduce, Reduction};
use crate::simd::isa::{Isa, dispatch};
use crate::simd::math;
use crate::view::Out;
use std::marker::PhantomData;
use std::ops::Range;

/// Lanes are columns.
mod columns;
/// Lanes are rows.
mod rows;

pub(crate) use rows::sum_lanes;

/// Lanes of a vector.
const WIDE: usize = 16;
/// Numbers of a row from which its sum has vectors enough by itself.
const LONG: usize = 1024;
/// Elements of a column whose places are listed at most, where they are not equally far apart.
const LISTED: usize = 1 << 16;

impl Reduction {
    /// Does the units where they are of rows or of columns; whether they are.
    pub(super) fn run_many(&self, units: Range<usize>, x: &[f32], out: &mut Out<'_, f32>) -> bool {
        if self.op == Reduce::LogSumExp || units.is_empty() || self.count == 0 {
            return false;
        }
        match self.op {
            Reduce::SumSquare | Reduce::L2 => self.many::<Squares>(units, x, out),
            Reduce::L1 => self.many::<Magnitudes>(units, x, out),
            Reduce::Max => self.many::<Largest>(units, x, out),
            Reduce::Min => self.many::<Smallest>(units, x, out),
            Reduce::Prod => self.many::<Product>(units, x, out),
            _ => self.many::<Sum>(units, x, out),
        }
    }

    fn many<J: Join>(&self, units: Range<usize>, x: &[f32], out: &mut Out<'_, f32>) -> bool {
        let in_line = matches!(self.op, Reduce::Max | Reduce::Min | Reduce::Prod);
        let count = self.count;
        if self.rows && (count <= LONG || in_line) {
            let to = out.part(units.start, units.len());
            let x = &x[units.start * count..units.end * count];
            if self.op == Reduce::Prod {
                dispatch(rows::Products { x, count, to: &mut *to });
            } else {
                dispatch(rows::Rows { how: PhantomData::<J>, x, count, to: &mut *to });
            }
            self.op.end(count, to);
            return true;
        }
        let Some(places) = self.columns.then(|| self.places()).flatten() else { return false };
        let mut at = units.start;
        self.kept.each_run_in(units, |[from], len, _| {
            let to = out.part(at, len);
            let x = &x[from as usize..];
            dispatch(columns::Columns { how: PhantomData::<J>, in_line, x, places: &places, count, to: &mut *to });
            self.op.end(count, to);
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
trait Join: Copy {
    /// What a result begins with.
    const NONE: f32;
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
struct Sum;
/// Of their squares.
#[derive(Clone, Copy)]
struct Squares;
/// Of their magnitudes.
#[derive(Clone, Copy)]
struct Magnitudes;
/// The largest.
#[derive(Clone, Copy)]
struct Largest;
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
}
impl Join for Magnitudes {
    const NONE: f32 = 0.0;
    #[inline(always)]
    fn term<I: Isa>(isa: I, v: I::V) -> I::V {
        isa.larger(v, isa.mul(v, isa.splat(-1.0)))
    }
}
impl Join for Largest {
    const NONE: f32 = f32::NEG_INFINITY;
    #[inline(always)]
    fn join<I: Isa>(isa: I, a: I::V, b: I::V) -> I::V {
        isa.larger(a, b)
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
}
impl Join for Product {
    const NONE: f32 = 1.0;
    #[inline(always)]
    fn join<I: Isa>(isa: I, a: I::V, b: I::V) -> I::V {
        isa.mul(a, b)
    }
}

impl Reduce {
    /// Results of what was joined, of `count` elements each.
    fn end(self, count: usize, v: &mut [f32]) {
        match self {
            Reduce::Mean => v.iter_mut().for_each(|v| *v /= count as f32),
            Reduce::L2 => v.iter_mut().for_each(|v| *v = v.sqrt()),
            Reduce::LogSum => v.iter_mut().for_each(|v| *v = math::ln(*v)),
            Reduce::Min => v.iter_mut().for_each(|v| *v = -*v),
            _ => {}
        }
    }
}
