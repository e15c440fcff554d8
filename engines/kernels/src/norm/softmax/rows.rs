//! Rows that stand one behind the other, up to sixteen at a time: maxima and sums of a group are
//! folded together, as lanes of one vector. The sum of a row runs in sixty-four lanes, in the order
//! of [`sum_by`](crate::simd::fold::sum_by).
use crate::simd::exp::exp_below;
use crate::simd::isa::{Isa, Work, dispatch};
use crate::simd::math;
use crate::simd::turn::fold_rows;

const WIDE: usize = 16;
/// Vectors that maxima and sums run in.
const SUMS: usize = 4;
/// Numbers of a group, unless a row has more: they stay in the nearest cache.
const GROUP: usize = 8192;

/// The softmax of rows of `len` numbers, or its logarithm: from `x`, or from where the results
/// go.
pub(super) fn run(x: Option<&[f32]>, y: &mut [f32], len: usize, log: bool) {
    let rows = (GROUP / len).clamp(1, WIDE);
    for (k, y) in y.chunks_mut(rows * len).enumerate() {
        let x = x.map(|x| &x[k * rows * len..][..y.len()]);
        dispatch(Group { x, y, len, log });
    }
}

struct Group<'a> {
    x: Option<&'a [f32]>,
    y: &'a mut [f32],
    len: usize,
    log: bool,
}

/// The numbers behind the last sixteen of a row, minus infinity in lanes that have none.
#[inline(always)]
fn last<I: Isa>(isa: I, rest: &[f32]) -> (I::V, I::M) {
    let m = isa.lanes(0, rest.len());
    // SAFETY: the lanes are as many as there are numbers.
    let v = unsafe { isa.load_some(rest.as_ptr(), m) };
    (isa.pick(m, v, isa.splat(f32::NEG_INFINITY)), m)
}

/// Sixteen maxima of a row. They may pass over what is not a number: its sum finds that.
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

/// `sum + e^(x + less)`, of `x` or of what stands in `y`; the power goes to `y`, if `keep`.
#[inline(always)]
fn term<I: Isa>(isa: I, x: Option<&[f32; WIDE]>, y: &mut [f32; WIDE], less: I::V, keep: bool, sum: I::V) -> I::V {
    let e = exp_below(isa, isa.add(isa.load(x.unwrap_or(y)), less));
    if keep {
        isa.store(e, y);
    }
    isa.add(sum, e)
}

/// The sum of `e^(x + less)` over a row, in sixteen lanes; the terms go to `y`, if `keep`.
#[inline(always)]
fn exps<I: Isa>(isa: I, x: Option<&[f32]>, y: &mut [f32], less: f32, keep: bool) -> I::V {
    let less = isa.splat(less);
    let mut sums = [isa.splat(0.0); SUMS];
    let from = x.map(|x| x.as_chunks::<WIDE>());
    let (whole, rest) = y.as_chunks_mut::<WIDE>();
    let count = whole.len();
    let (four, single) = whole.as_chunks_mut::<SUMS>();
    let x_of = |k: usize| from.map(|(x, _)| &x[k]);
    for (b, y) in four.iter_mut().enumerate() {
        for i in 0..SUMS {
            sums[i] = term(isa, x_of(b * SUMS + i), &mut y[i], less, keep, sums[i]);
        }
    }
    let first = count - single.len();
    for (i, y) in single.iter_mut().enumerate() {
        sums[i] = term(isa, x_of(first + i), y, less, keep, sums[i]);
    }
    if !rest.is_empty() {
        let (x, m) = last(isa, from.map_or(&*rest, |(_, x)| x));
        let e = exp_below(isa, isa.add(x, less));
        sums[count % SUMS] = isa.add(sums[count % SUMS], e);
        if keep {
            // SAFETY: the lanes are as many as there are numbers.
            unsafe { isa.store_some(e, rest.as_mut_ptr(), m) };
        }
    }
    isa.add(isa.add(sums[0], sums[2]), isa.add(sums[1], sums[3]))
}

/// The numbers of a row times `by`.
#[inline(always)]
fn scale<I: Isa>(isa: I, y: &mut [f32], by: f32) {
    let by = isa.splat(by);
    let (whole, rest) = y.as_chunks_mut::<WIDE>();
    for y in whole {
        isa.store(isa.mul(isa.load(y), by), y);
    }
    if !rest.is_empty() {
        let (v, m) = last(isa, rest);
        // SAFETY: the lanes are as many as there are numbers.
        unsafe { isa.store_some(isa.mul(v, by), rest.as_mut_ptr(), m) };
    }
}

impl Work for Group<'_> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let Group { x, y, len, log } = self;
        let mut lanes = [isa.splat(f32::NEG_INFINITY); WIDE];
        for (x, lanes) in x.unwrap_or(y).chunks_exact(len).zip(&mut lanes) {
            *lanes = most_of(isa, x);
        }
        let most = fold_rows(isa, lanes, |a, b| isa.at_least(a, b));

        let mut lanes = [isa.splat(0.0); WIDE];
        for (r, y) in y.chunks_exact_mut(len).enumerate() {
            lanes[r] = exps(isa, x.map(|x| &x[r * len..][..len]), y, -most[r], !log);
        }
        let sums = fold_rows(isa, lanes, |a, b| isa.add(a, b));

        for (r, y) in y.chunks_exact_mut(len).enumerate() {
            if !log {
                scale(isa, y, 1.0 / sums[r]);
                continue;
            }
            // Not `x - (max + ln)`: beside a large maximum the logarithm's digits would be lost.
            if let Some(x) = x {
                y.copy_from_slice(&x[r * len..][..len]);
            }
            let log = math::ln(sums[r]);
            y.iter_mut().for_each(|y| *y = (*y - most[r]) - log);
        }
    }
}
