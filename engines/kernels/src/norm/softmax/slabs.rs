//! Softmax along an axis followed by few others, where columns would leave lanes of a vector
//! unused. The numbers of an outer index (a slab) are processed in memory order. Maxima and sums
//! are accumulated in as many vectors as hold whole rows of the slab, so that each lane always sees
//! the same column.
use super::Softmax;
use super::lines::{WIDE, last};
use crate::scratch::with_scratch;
use crate::simd::exp::exp_below;
use crate::simd::isa::{Isa, PanelElem, Work, dispatch};
use crate::simd::lines::{round_to, widen};
use crate::simd::math;
use crate::view::Out;
use std::ops::Range;

/// Maximum count of numbers in a slab.
const LONG: usize = 1 << 20;
/// Approximate number of vectors that accumulate maxima and sums: a single one would wait for
/// itself.
const SUMS: usize = 8;

/// Whether slabs are processed as a whole: if columns would leave at least a ninth of the lanes
/// unused.
pub(super) fn takes(s: &Softmax) -> bool {
    s.inner > 1 && 8 * s.inner.next_multiple_of(WIDE) >= 9 * s.inner && s.len.saturating_mul(s.inner) <= LONG
}

/// Does the slabs `units`.
pub(super) fn run<T: PanelElem>(s: &Softmax, units: Range<usize>, x: &[T], out: &mut Out<'_, T>) {
    let size = s.len * s.inner;
    // As many rows of the slab as fill whole vectors, doubled a few times if the slab has enough
    // rows.
    let times = (SUMS / s.inner).min(s.len / (4 * WIDE)).max(1);
    let period = (WIDE * s.inner) << times.ilog2();
    let ends = s.inner + WIDE;
    with_scratch(period + 2 * ends + size, |room| {
        let (lanes, room) = room.split_at_mut(period);
        let (less, room) = room.split_at_mut(ends);
        let (by, wide) = room.split_at_mut(ends);
        let Softmax { inner, log, .. } = *s;
        for unit in units {
            let x = &x[unit * size..][..size];
            let y = out.part(unit * size, size);
            let room = Room { lanes: &mut *lanes, less: &mut *less, by: &mut *by };
            match (T::singles(x), T::singles_mut(y)) {
                (Some(x), Some(y)) => dispatch(Slab { x: Some(x), y, inner, log, room }),
                _ => {
                    widen(x, wide);
                    dispatch(Slab { x: None, y: &mut *wide, inner, log, room });
                    round_to(wide, y);
                }
            }
        }
    });
}

/// Working memory of a slab.
struct Room<'a> {
    /// Accumulated maxima or sums.
    lanes: &'a mut [f32],
    /// The negated maxima of the columns, and the reciprocals of their sums or the negated
    /// logarithms of these. At the end they repeat from the first column on, for the length of a
    /// vector.
    less: &'a mut [f32],
    by: &'a mut [f32],
}

/// A slab, read from `x` or else from `y`.
struct Slab<'a> {
    x: Option<&'a [f32]>,
    y: &'a mut [f32],
    inner: usize,
    log: bool,
    room: Room<'a>,
}

/// The column at which each successive vector of a slab begins.
struct Phase {
    at: usize,
    inner: usize,
    step: usize,
}

impl Phase {
    #[inline(always)]
    fn new(inner: usize) -> Phase {
        Phase { at: 0, inner, step: WIDE % inner }
    }

    /// The values of the columns that the next vector covers.
    #[inline(always)]
    fn next<I: Isa>(&mut self, isa: I, columns: &[f32]) -> I::V {
        let v = columns[self.at..].first_chunk().map_or(isa.splat(0.0), |c| isa.load(c));
        self.at += self.step;
        if self.at >= self.inner {
            self.at -= self.inner;
        }
        v
    }
}

/// Joins the rows of the lanes, whose number is a power of two, into the first row.
#[inline(always)]
fn join_rows(lanes: &mut [f32], inner: usize, join: impl Fn(f32, f32) -> f32) {
    let mut half = lanes.len() / 2;
    while half >= inner {
        let (first, second) = lanes[..2 * half].split_at_mut(half);
        for (a, b) in first.iter_mut().zip(second) {
            *a = join(*a, *b);
        }
        half /= 2;
    }
}

/// Repeats the first `inner` numbers in the rest of `columns`.
#[inline(always)]
fn again(columns: &mut [f32], inner: usize) {
    for i in inner..columns.len() {
        columns[i] = columns[i - inner];
    }
}

/// The results for one vector.
#[inline(always)]
fn end<I: Isa>(isa: I, v: I::V, phases: &mut [Phase; 2], [less, by]: [&[f32]; 2], log: bool) -> I::V {
    let by = phases[0].next(isa, by);
    // Not `x - (max + ln)`: next to a large maximum the digits of the logarithm would be lost.
    if log { isa.add(isa.add(v, phases[1].next(isa, less)), by) } else { isa.mul(v, by) }
}

impl Work for Slab<'_> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let Slab { x, y, inner, log, room: Room { lanes, less, by } } = self;
        lanes.fill(f32::NEG_INFINITY);
        for block in x.unwrap_or(y).chunks(lanes.len()) {
            let (whole, rest) = block.as_chunks::<WIDE>();
            let lanes = lanes.as_chunks_mut::<WIDE>().0;
            for (x, most) in whole.iter().zip(lanes.iter_mut()) {
                isa.store(isa.at_least(isa.load(most), isa.load(x)), most);
            }
            if !rest.is_empty() {
                let most = &mut lanes[whole.len()];
                isa.store(isa.at_least(isa.load(most), last(isa, rest).0), most);
            }
        }
        // Maxima may skip NaN; the sum finds it.
        join_rows(lanes, inner, |a, b| if b > a { b } else { a });
        for (less, most) in less.iter_mut().zip(&lanes[..inner]) {
            *less = -most;
        }
        again(less, inner);

        lanes.fill(0.0);
        let (period, mut phase) = (lanes.len(), Phase::new(inner));
        for (k, y) in y.chunks_mut(period).enumerate() {
            let lanes = lanes.as_chunks_mut::<WIDE>().0;
            let x = x.map(|x| &x[k * period..][..y.len()]);
            let from = x.map(|x| x.as_chunks::<WIDE>());
            let (whole, rest) = y.as_chunks_mut::<WIDE>();
            let count = whole.len();
            for (i, (y, sum)) in whole.iter_mut().zip(lanes.iter_mut()).enumerate() {
                let x = isa.load(from.map_or(&*y, |(x, _)| &x[i]));
                let e = exp_below(isa, isa.add(x, phase.next(isa, less)));
                isa.store(isa.add(isa.load(sum), e), sum);
                if !log {
                    isa.store(e, y);
                }
            }
            if !rest.is_empty() {
                let (x, m) = last(isa, from.map_or(&*rest, |(_, x)| x));
                let e = exp_below(isa, isa.add(x, phase.next(isa, less)));
                isa.store(isa.add(isa.load(&lanes[count]), e), &mut lanes[count]);
                if !log {
                    // SAFETY: only as many lanes are written as there are numbers.
                    unsafe { isa.store_some(e, rest.as_mut_ptr(), m) };
                }
            }
        }
        join_rows(lanes, inner, |a, b| a + b);
        for (by, sum) in by.iter_mut().zip(&lanes[..inner]) {
            *by = if log { -math::ln(*sum) } else { 1.0 / *sum };
        }
        again(by, inner);

        let mut phases = [Phase::new(inner), Phase::new(inner)];
        let from = x.filter(|_| log).map(|x| x.as_chunks::<WIDE>());
        let (whole, rest) = y.as_chunks_mut::<WIDE>();
        for (i, y) in whole.iter_mut().enumerate() {
            let v = isa.load(from.map_or(&*y, |(x, _)| &x[i]));
            isa.store(end(isa, v, &mut phases, [less, by], log), y);
        }
        if !rest.is_empty() {
            let (v, m) = last(isa, from.map_or(&*rest, |(_, x)| x));
            // SAFETY: only as many lanes are written as there are numbers.
            unsafe { isa.store_some(end(isa, v, &mut phases, [less, by], log), rest.as_mut_ptr(), m) };
        }
    }
}
