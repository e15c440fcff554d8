//! Nearest positions: an output row is a list of elements of an input row. A row that reads the
//! same input row as the one before is a copy of that one.
use super::{Axis, Lead, Method, Resizing, Rounding, WIDE};
use crate::layout::copy_run;
use crate::simd::isa::{Isa, Work, dispatch};
use crate::simd::turn::{put, vector};
use crate::view::{Elem, Out, seen_as, seen_as_mut};
use std::ops::Range;

/// Marks a position outside the input.
const OUTSIDE: u32 = u32::MAX;

/// Input positions of each axis, by output position.
pub(super) struct Table {
    /// The axes before the rows; empty for an axis that is not resized.
    lead: Vec<Vec<u32>>,
    along: Along,
    /// How many consecutive output rows each input row gives, if that is the same for all.
    times: Option<usize>,
}

/// What an output row reads of an input row.
enum Along {
    /// The whole row.
    Whole,
    /// Each element, repeated this many times.
    Repeat(usize),
    /// These elements.
    Elements(Vec<u32>),
    /// These positions of several elements each.
    Places(Vec<u32>),
}

fn places(axis: &Axis, method: &Method, rounding: Rounding) -> Vec<u32> {
    let place = |o| axis.place(method, rounding, o).map_or(OUTSIDE, |p| p as u32);
    (0..axis.to).map(place).collect()
}

/// How many consecutive output rows each input row gives, if that is the same for all.
fn times(axis: &Lead, places: &[u32]) -> Option<usize> {
    let times = axis.to.checked_div(axis.from).filter(|t| *t > 0 && axis.from * t == axis.to)?;
    let alike = places.is_empty() || places.iter().enumerate().all(|(o, p)| *p as usize == o / times);
    alike.then_some(times)
}

impl Table {
    pub(super) fn new(plan: &Resizing, rounding: Rounding) -> Table {
        let of = |axis: &Axis| places(axis, &plan.method, rounding);
        let lead: Vec<_> = plan.lead.iter().map(|l| l.axis.as_ref().map_or_else(Vec::new, of)).collect();
        let along = match plan.along.as_ref().map(of) {
            None => Along::Whole,
            Some(list) if plan.inner >= WIDE => Along::Places(list),
            Some(list) => {
                let n = plan.inner as u32;
                let each = |p: u32| (0..n).map(move |i| if p == OUTSIDE { OUTSIDE } else { p * n + i });
                let list: Vec<u32> = list.into_iter().flat_map(each).collect();
                let repeats = |k: &usize| list.iter().enumerate().all(|(o, p)| *p as usize == o / k);
                match [2, 3, 4].into_iter().find(repeats) {
                    Some(k) if list.len() == plan.input_width() * k => Along::Repeat(k),
                    _ => Along::Elements(list),
                }
            }
        };
        let times = plan.lead.last().zip(lead.last()).and_then(|(axis, places)| times(axis, places));
        Table { lead, along, times }
    }

    /// Where the input rows begin for an entry of all axes except the row axis; `None` if it is
    /// outside the input.
    fn outer(&self, plan: &Resizing, entry: usize) -> Option<usize> {
        let Some((last, lead)) = plan.lead.split_last() else { return Some(0) };
        let (mut rest, mut at, mut step) = (entry, 0, plan.input_width() * last.from);
        for (lead, places) in lead.iter().zip(&self.lead).rev() {
            let o = rest % lead.to;
            rest /= lead.to;
            let place = places.get(o).map_or(o, |p| *p as usize);
            if place == OUTSIDE as usize {
                return None;
            }
            at += place * step;
            step *= lead.from;
        }
        Some(at)
    }

    pub(super) fn run<T: Elem>(&self, plan: &Resizing, units: Range<usize>, x: &[T], beyond: T, out: &mut Out<'_, T>) {
        let (width, input_width) = (plan.width(), plan.input_width());
        let rows = plan.lead.last().map_or(1, |l| l.to);
        let places = self.lead.last().map_or(&[][..], Vec::as_slice);
        let (mut before, mut next) = (None, units.start);
        let all = out.part(units.start * width, units.len() * width);
        while next < units.end {
            let (entry, first) = (next / rows, next % rows);
            let base = self.outer(plan, entry);
            let end = units.end.min((entry + 1) * rows);
            if let (Along::Repeat(k), Some(base), Some(times)) = (&self.along, base, self.times)
                && first.is_multiple_of(times)
                && (end - next).is_multiple_of(times)
            {
                let (at, count) = (base + first / times * input_width, (end - next) / times);
                let to = &mut all[(next - units.start) * width..(end - units.start) * width];
                repeat_rows(*k, (input_width, times), &x[at..at + count * input_width], to);
                (before, next) = (None, end);
                continue;
            }
            for (row, o) in (next..end).zip(first..) {
                let place = places.get(o).map_or(o, |p| *p as usize);
                let source = base.filter(|_| place != OUTSIDE as usize).map(|base| base + place * input_width);
                let at = (row - units.start) * width;
                if before == Some(source) {
                    let (made, to) = all[at - width..at + width].split_at_mut(width);
                    copy_run(made, to);
                    continue;
                }
                before = Some(source);
                let to = &mut all[at..at + width];
                match source {
                    None => to.fill(beyond),
                    Some(at) => self.along.run(plan.inner, &x[at..at + input_width], beyond, to),
                }
            }
            next = end;
        }
    }
}

impl Along {
    fn run<T: Elem>(&self, inner: usize, from: &[T], beyond: T, to: &mut [T]) {
        match self {
            Along::Whole => copy_run(from, to),
            Along::Repeat(k) => repeat_rows(*k, (from.len(), 1), from, to),
            Along::Elements(list) => pick(list, from, beyond, to),
            Along::Places(list) => {
                for (to, p) in to.chunks_exact_mut(inner).zip(list) {
                    match *p {
                        OUTSIDE => to.fill(beyond),
                        p => copy_run(&from[p as usize * inner..][..inner], to),
                    }
                }
            }
        }
    }
}

/// Copies the elements that the list names.
fn pick<T: Elem>(list: &[u32], from: &[T], beyond: T, to: &mut [T]) {
    for (to, p) in to.iter_mut().zip(list) {
        *to = from.get(*p as usize).copied().unwrap_or(beyond);
    }
}

/// Repeats rows of `width` elements: each element `k` times and each row `times` times.
fn repeat_rows<T: Elem>(k: usize, (width, times): (usize, usize), from: &[T], to: &mut [T]) {
    if width == 0 {
        return;
    }
    if k == 2
        && size_of::<T>() == size_of::<f32>()
        && let (Ok(from), Ok(to)) = (seen_as(from), seen_as_mut(to))
    {
        return dispatch(Twice { width, times, from, to });
    }
    match k {
        2 => repeat2(width, times, from, to),
        3 => repeat3(width, times, from, to),
        _ => repeat4(width, times, from, to),
    }
}

/// Repeats elements of four bytes twice, and rows of `width` elements `times` times.
struct Twice<'a> {
    width: usize,
    times: usize,
    from: &'a [f32],
    to: &'a mut [f32],
}

impl Work for Twice<'_> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let Twice { width, times, from, to } = self;
        let count = (from.len() / width).min(to.len() / (2 * width * times));
        for row in 0..count {
            for again in 0..times {
                let at = (row * times + again) * 2 * width;
                for c in (0..width).step_by(16) {
                    let v = vector(isa, &from[row * width + c..]);
                    let (low, high) = isa.woven(v, v);
                    // What is written beyond the end of a row is overwritten by the next row.
                    let to = &mut to[at + 2 * c..];
                    put(isa, low, to);
                    if c + 8 < width {
                        put(isa, high, &mut to[16..]);
                    }
                }
            }
        }
    }
}

macro_rules! repeat {
    ($name:ident, $k:literal) => {
        crate::multiversion! {
            /// Repeats each element `$k` times and each row `times` times.
            fn $name<T: Elem>(width: usize, times: usize, from: &[T], to: &mut [T]) {
                let wide = width * $k;
                for (from, to) in from.chunks_exact(width).zip(to.chunks_exact_mut(wide * times)) {
                    let (first, more) = to.split_at_mut(wide);
                    for (to, v) in first.as_chunks_mut::<$k>().0.iter_mut().zip(from) {
                        *to = [*v; $k];
                    }
                    for to in more.chunks_exact_mut(wide) {
                        copy_run(first, to);
                    }
                }
            }
        }
    };
}
repeat!(repeat2, 2);
repeat!(repeat3, 3);
repeat!(repeat4, 4);
