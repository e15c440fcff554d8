//! Nearest places: a row is a list of elements of an input row. Rows that come of the same input row
//! as the one before them are copies of it.
use super::{Axis, Method, Resizing, Rounding, WIDE};
use crate::layout::copy_run;
use crate::view::{Elem, Out};
use std::ops::Range;

/// A place outside the input.
const OUTSIDE: u32 = u32::MAX;

/// Input places of each axis by output place.
pub(super) struct Table {
    /// Of the axes before the rows; empty where an axis stays as it is.
    lead: Vec<Vec<u32>>,
    along: Along,
}

/// What a row reads of an input row.
enum Along {
    /// All of it.
    Whole,
    /// Each element so many times in turn.
    Repeat(usize),
    /// These elements.
    Elements(Vec<u32>),
    /// These places of several elements.
    Places(Vec<u32>),
}

fn places(axis: &Axis, method: &Method, rounding: Rounding) -> Vec<u32> {
    let place = |o| axis.place(method, rounding, o).map_or(OUTSIDE, |p| p as u32);
    (0..axis.to).map(place).collect()
}

impl Table {
    pub(super) fn new(plan: &Resizing, rounding: Rounding) -> Table {
        let of = |axis: &Axis| places(axis, &plan.method, rounding);
        let lead = plan.lead.iter().map(|l| l.axis.as_ref().map_or_else(Vec::new, of)).collect();
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
        Table { lead, along }
    }

    /// Where the input rows of an entry of all axes but the rows' own begin; `None`: it lies outside.
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
            Along::Repeat(2) => repeat2(from, to),
            Along::Repeat(3) => repeat3(from, to),
            Along::Repeat(_) => repeat4(from, to),
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

/// Elements that a list names.
fn pick<T: Elem>(list: &[u32], from: &[T], beyond: T, to: &mut [T]) {
    for (to, p) in to.iter_mut().zip(list) {
        *to = from.get(*p as usize).copied().unwrap_or(beyond);
    }
}

macro_rules! repeat {
    ($name:ident, $k:literal) => {
        crate::multiversion! {
            /// Each element so many times.
            fn $name<T: Elem>(from: &[T], to: &mut [T]) {
                for (to, v) in to.as_chunks_mut::<$k>().0.iter_mut().zip(from) {
                    *to = [*v; $k];
                }
            }
        }
    };
}
repeat!(repeat2, 2);
repeat!(repeat3, 3);
repeat!(repeat4, 4);
