//! Reductions of many rows, or of neighbouring columns, in single precision: sixteen results are
//! the lanes of a vector. The additions for each result are those of
//! [`sum_by`](crate::simd::fold::sum_by), in the same order.
use super::{Reduce, Reduction, fold};
use crate::simd::fold::larger;
use crate::simd::isa::{Isa, PanelElem, dispatch};
use crate::simd::lines::round_to;
use crate::simd::math;
use crate::view::Out;
use std::marker::PhantomData;
use std::ops::Range;

/// Reductions of columns: lanes are columns.
mod columns;
/// Reductions of rows of two to four numbers.
mod few;
/// Logarithms of sums of powers.
mod log_sum_exp;
/// Sums of groups of few columns.
mod narrow;
/// Reductions of lines that are several pieces of memory.
mod pieces;
/// Reductions of rows: lanes are rows.
mod rows;

pub(super) use narrow::Narrow;
pub(crate) use rows::sum_lanes;

/// Lanes of a vector.
const WIDE: usize = 16;
/// Longest row whose powers are stored.
const LONG: usize = 1024;
/// Number of results of half types that are rounded at a time.
const ROUNDED: usize = 512;
/// Maximum length of a column whose positions are listed, if they are not evenly spaced.
const LISTED: usize = 1 << 16;

/// Evaluates an expression for the join type of a reduction.
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
    /// Whether elements are joined one after the other, instead of in the lanes of a sum.
    fn in_line(self) -> bool {
        matches!(self, Reduce::Max | Reduce::Min | Reduce::Prod)
    }

    /// Reduces contiguous rows of `count` numbers, one for each element of `to`. Each row is
    /// reduced as by [`fold`].
    pub fn rows(self, count: usize, x: &[f32], to: &mut [f32]) {
        if !self.run_rows(count, x, to) {
            for (r, to) in to.iter_mut().enumerate() {
                *to = fold(self, &x[r * count..(r + 1) * count]);
            }
        }
    }

    /// Reduces many rows at a time. Returns false, without a result, if these rows are not suited
    /// to that.
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
    /// Does the units if they reduce rows of single precision, or columns. Returns false if they do
    /// not.
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
        if let Some(x) = T::singles(x).filter(|_| self.in_pieces()) {
            by_join!(self.op, J => self.run_pieces::<J, T>(units, x, out));
            return true;
        }
        let singles = T::singles(x).zip(self.narrow);
        by_join!(self.op, J => match singles {
            Some((x, narrow)) => {
                narrow.run::<J>(units, x, count, |at, write| {
                    let Some(to) = T::singles_mut(out.part(at.start, at.len())) else { return };
                    write(to);
                    self.op.end(count, to);
                });
                true
            }
            None => self.run_columns::<J, T>(units, x, out),
        })
    }

    /// Whether each result is a line of long pieces whose elements can be joined in lanes.
    fn in_pieces(&self) -> bool {
        let long = self.reduced.run_strides() == [1] && self.reduced.run() >= pieces::LONG;
        long && !matches!(self.op, Reduce::Prod | Reduce::LogSumExp)
    }

    fn run_pieces<J: Join, T: PanelElem>(&self, units: Range<usize>, x: &[f32], out: &mut Out<'_, T>) {
        let Some(to) = T::singles_mut(out.part(units.start, units.len())) else { return };
        let mut results = to.iter_mut();
        self.each_line(units, |base| {
            let mut line = pieces::Line::<J>::new();
            self.reduced.each_run(|[q], len, _| line.take(&x[(base + q) as usize..][..len]));
            if let Some(to) = results.next() {
                *to = line.joined();
            }
        });
        self.op.end(self.count, to);
    }

    fn run_columns<J: Join, T: PanelElem>(&self, units: Range<usize>, x: &[T], out: &mut Out<'_, T>) -> bool {
        let (count, in_line) = (self.count, self.op.in_line());
        let Some(places) = self.columns.then(|| self.places()).flatten() else { return false };
        let mut at = units.start;
        self.kept.each_run_in(units, |[from], len, _| {
            let (x, to) = (&x[from as usize..], out.part(at, len));
            let fold = |x: &[T], to: &mut [f32]| {
                let how = PhantomData::<J>;
                crate::scratch::with_scratch(columns::ROOM, |room| {
                    dispatch(columns::Columns { how, in_line, x, places: &places, count, to: &mut *to, room });
                });
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

    /// Positions of the elements of a column; `None` if they would be too many to list.
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

/// How elements are joined; loops are compiled for each implementation.
pub(crate) trait Join: Copy {
    /// Neutral element: the initial value of a result.
    const NONE: f32;
    /// Like [`Join::term`], for a single number.
    #[inline(always)]
    fn one(v: f32) -> f32 {
        v
    }
    /// Like [`Join::join`], for two single numbers.
    #[inline(always)]
    fn two(a: f32, b: f32) -> f32 {
        a + b
    }
    /// The term that an element contributes.
    #[inline(always)]
    fn term<I: Isa>(isa: I, v: I::V) -> I::V {
        let _ = isa;
        v
    }
    /// Joins two terms.
    #[inline(always)]
    fn join<I: Isa>(isa: I, a: I::V, b: I::V) -> I::V {
        isa.add(a, b)
    }
}

/// Sum of the numbers.
#[derive(Clone, Copy)]
pub(crate) struct Sum;
/// Sum of the squares.
#[derive(Clone, Copy)]
struct Squares;
/// Sum of the magnitudes.
#[derive(Clone, Copy)]
struct Magnitudes;
/// The largest number.
#[derive(Clone, Copy)]
pub(crate) struct Largest;
/// The largest of the negated numbers, which is the negated smallest number.
#[derive(Clone, Copy)]
struct Smallest;
/// Product of the numbers.
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
    /// Turns joined terms, of `count` elements each, into results.
    fn end(self, count: usize, v: &mut [f32]) {
        match self {
            Reduce::Mean => v.iter_mut().for_each(|v| *v /= count.max(1) as f32),
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
