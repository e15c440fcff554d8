//! Contiguous rows, up to sixteen at a time. The maxima and sums of a group are folded together as
//! lanes of one vector. The sum of a row uses sixty-four lanes, in the order of
//! [`sum_by`](crate::simd::fold::sum_by).
use super::lines::{WIDE, last};
use super::{ragged, turned};
use crate::reduce::sum_lanes;
use crate::simd::exp::exp_below;
use crate::simd::isa::{Isa, Work, dispatch};
use crate::simd::math;
use crate::simd::turn::fold_rows;

/// Number of vectors that accumulate maxima and sums.
const SUMS: usize = 4;
/// Maximum count of numbers in a group, unless a single row has more: they stay in the first-level
/// cache.
const GROUP: usize = 8192;

/// The softmax of rows of `len` numbers, or its logarithm. The numbers are in `x`, or else in `y`,
/// where the results go.
pub(super) fn run(x: Option<&[f32]>, y: &mut [f32], len: usize, log: bool) {
    if turned::takes(len) {
        return turned::run(x, y, len, log);
    }
    let rows = (GROUP / len).clamp(1, WIDE);
    for (k, y) in y.chunks_mut(rows * len).enumerate() {
        let x = x.map(|x| &x[k * rows * len..][..y.len()]);
        match x {
            Some(x) if log => dispatch(Logarithms { x, y, len }),
            _ if !log && ragged::takes(len) => dispatch(ragged::Ragged { x, y, len }),
            _ => dispatch(Group { x, y, len, log }),
        }
    }
}

struct Group<'a> {
    x: Option<&'a [f32]>,
    y: &'a mut [f32],
    len: usize,
    log: bool,
}

/// Logarithms of softmax from `x`: the powers need not be kept, and `y` need not be initialised.
struct Logarithms<'a> {
    x: &'a [f32],
    y: &'a mut [f32],
    len: usize,
}

/// Sixteen partial maxima of a row. They may skip NaN; the sum of the row finds it.
#[inline(always)]
fn most_of<I: Isa>(isa: I, x: &[f32]) -> I::V {
    let mut most = [isa.splat(f32::NEG_INFINITY); SUMS];
    let (whole, rest) = x.as_chunks::<WIDE>();
    let (four, whole) = whole.as_chunks::<SUMS>();
    for x in four {
        for (most, x) in most.iter_mut().zip(x) {
            *most = isa.at_least(*most, isa.load(x));
        }
    }
    for (most, x) in most.iter_mut().zip(whole) {
        *most = isa.at_least(*most, isa.load(x));
    }
    if !rest.is_empty() {
        most[0] = isa.at_least(most[0], last(isa, rest).0);
    }
    isa.at_least(isa.at_least(most[0], most[1]), isa.at_least(most[2], most[3]))
}

/// The sum of `e^(x + less)` over a row, in sixteen lanes.
#[inline(always)]
fn sum_of_powers<I: Isa>(isa: I, x: &[f32], less: f32) -> I::V {
    let less = isa.splat(less);
    let mut sums = [isa.splat(0.0); SUMS];
    let (whole, rest) = x.as_chunks::<WIDE>();
    let (four, single) = whole.as_chunks::<SUMS>();
    for x in four {
        for (sum, x) in sums.iter_mut().zip(x) {
            *sum = isa.add(*sum, exp_below(isa, isa.add(isa.load(x), less)));
        }
    }
    for (sum, x) in sums.iter_mut().zip(single) {
        *sum = isa.add(*sum, exp_below(isa, isa.add(isa.load(x), less)));
    }
    if !rest.is_empty() {
        let sum = &mut sums[single.len()];
        *sum = isa.add(*sum, exp_below(isa, isa.add(last(isa, rest).0, less)));
    }
    total(isa, sums)
}

/// What four vectors have summed, as one.
#[inline(always)]
fn total<I: Isa>(isa: I, [a, b, c, d]: [I::V; SUMS]) -> I::V {
    isa.add(isa.add(a, c), isa.add(b, d))
}

/// Returns `sum + e^(x + less)`, reading `x` or else `y`. The power is written to `y`.
#[inline(always)]
fn term<I: Isa>(isa: I, x: Option<&[f32; WIDE]>, y: &mut [f32; WIDE], less: I::V, sum: I::V) -> I::V {
    let e = exp_below(isa, isa.add(isa.load(x.unwrap_or(y)), less));
    isa.store(e, y);
    isa.add(sum, e)
}

/// The same sum as [`sum_of_powers`], reading `x` or else `y`. The powers are written to `y`.
#[inline(always)]
fn powers<I: Isa>(isa: I, x: Option<&[f32]>, y: &mut [f32], less: f32) -> I::V {
    let less = isa.splat(less);
    let mut sums = [isa.splat(0.0); SUMS];
    let from = x.map(|x| x.as_chunks::<WIDE>());
    let (whole, rest) = y.as_chunks_mut::<WIDE>();
    let count = whole.len();
    let (four, single) = whole.as_chunks_mut::<SUMS>();
    let x_of = |k: usize| from.map(|(x, _)| &x[k]);
    for (b, y) in four.iter_mut().enumerate() {
        for i in 0..SUMS {
            sums[i] = term(isa, x_of(b * SUMS + i), &mut y[i], less, sums[i]);
        }
    }
    let first = count - single.len();
    for (i, y) in single.iter_mut().enumerate() {
        sums[i] = term(isa, x_of(first + i), y, less, sums[i]);
    }
    if !rest.is_empty() {
        let (x, m) = last(isa, from.map_or(&*rest, |(_, x)| x));
        let e = exp_below(isa, isa.add(x, less));
        sums[count % SUMS] = isa.add(sums[count % SUMS], e);
        // SAFETY: only as many lanes are written as there are numbers.
        unsafe { isa.store_some(e, rest.as_mut_ptr(), m) };
    }
    total(isa, sums)
}

/// Writes the powers of [`powers`] and no sum: with the few registers of AVX2, the polynomial and
/// four sums at a time would be kept in memory.
#[inline(always)]
fn powers_alone<I: Isa>(isa: I, x: Option<&[f32]>, y: &mut [f32], less: f32) {
    let less = isa.splat(less);
    let from = x.map(|x| x.as_chunks::<WIDE>());
    let (whole, rest) = y.as_chunks_mut::<WIDE>();
    match from {
        Some((x, _)) => {
            for (x, y) in x.iter().zip(whole) {
                isa.store(exp_below(isa, isa.add(isa.load(x), less)), y);
            }
        }
        None => {
            for y in whole {
                isa.store(exp_below(isa, isa.add(isa.load(y), less)), y);
            }
        }
    }
    if !rest.is_empty() {
        let (x, m) = last(isa, from.map_or(&*rest, |(_, x)| x));
        // SAFETY: only as many lanes are written as there are numbers.
        unsafe { isa.store_some(exp_below(isa, isa.add(x, less)), rest.as_mut_ptr(), m) };
    }
}

/// Multiplies the numbers of a row by `by`.
#[inline(always)]
fn scale<I: Isa>(isa: I, y: &mut [f32], by: f32) {
    let by = isa.splat(by);
    let (whole, rest) = y.as_chunks_mut::<WIDE>();
    for y in whole {
        isa.store(isa.mul(isa.load(y), by), y);
    }
    if !rest.is_empty() {
        let (v, m) = last(isa, rest);
        // SAFETY: only as many lanes are written as there are numbers.
        unsafe { isa.store_some(isa.mul(v, by), rest.as_mut_ptr(), m) };
    }
}

/// The maxima of up to sixteen rows.
#[inline(always)]
pub(super) fn most_of_rows<I: Isa>(isa: I, x: &[f32], len: usize) -> [f32; WIDE] {
    let mut lanes = [isa.splat(f32::NEG_INFINITY); WIDE];
    for (x, lanes) in x.chunks_exact(len).zip(&mut lanes) {
        *lanes = most_of(isa, x);
    }
    fold_rows(isa, lanes, |a, b| isa.at_least(a, b))
}

impl Work for Group<'_> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let Group { x, y, len, log } = self;
        let most = most_of_rows(isa, x.unwrap_or(y), len);
        let mut lanes = [isa.splat(0.0); WIDE];
        for (r, y) in y.chunks_exact_mut(len).enumerate() {
            let x = x.map(|x| &x[r * len..][..len]);
            lanes[r] = match log {
                true => sum_of_powers(isa, y, -most[r]),
                false if NP == 1 => {
                    powers_alone(isa, x, y, -most[r]);
                    sum_lanes(isa, y)
                }
                false => powers(isa, x, y, -most[r]),
            };
        }
        let sums = fold_rows(isa, lanes, |a, b| isa.add(a, b));

        for (r, y) in y.chunks_exact_mut(len).enumerate() {
            if !log {
                scale(isa, y, 1.0 / sums[r]);
                continue;
            }
            // Not `x - (max + ln)`: next to a large maximum the digits of the logarithm would be
            // lost.
            let log = math::ln(sums[r]);
            for y in y {
                *y = (*y - most[r]) - log;
            }
        }
    }
}

impl Work for Logarithms<'_> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let Logarithms { x, y, len } = self;
        let most = most_of_rows(isa, x, len);
        let mut lanes = [isa.splat(0.0); WIDE];
        let rows = x.chunks_exact(len).zip(y.chunks_exact_mut(len));
        for (((x, y), lanes), most) in rows.zip(&mut lanes).zip(most) {
            // The results replace the powers.
            *lanes = if NP == 1 {
                powers_alone(isa, Some(x), y, -most);
                sum_lanes(isa, y)
            } else {
                sum_of_powers(isa, x, -most)
            };
        }
        let mut logs = fold_rows(isa, lanes, |a, b| isa.add(a, b));
        // A loop, because code in a closure is not compiled for the instruction set.
        for log in &mut logs {
            *log = math::ln(*log);
        }
        for (r, (x, y)) in x.chunks_exact(len).zip(y.chunks_exact_mut(len)).enumerate() {
            // Not `x - (max + ln)`: next to a large maximum the digits of the logarithm would be
            // lost.
            for (y, x) in y.iter_mut().zip(x) {
                *y = (*x - most[r]) - logs[r];
            }
        }
    }
}
