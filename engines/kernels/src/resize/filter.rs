//! Weighted sums: the input rows of an output row are added with their weights, and the sum is
//! resized along the row. Arithmetic is in single precision, by fused multiply-adds in one order.
use super::along::Along;
use super::{Axis, Resizing};
use crate::quant::quantise;
use crate::scratch::with_scratch;
use crate::view::{Elem, Kind, Out, seen_as_mut};
use std::ops::Range;

/// Positions and weights of each axis, by output position.
pub(super) struct Table {
    /// The axes before the rows; `None` for an axis that is not resized.
    lead: Vec<Option<Taps>>,
    along: Option<Along>,
}

/// Input positions and weights by output position; no entries for positions outside the input.
struct Taps {
    /// Where the taps of each output position end in `list`.
    ends: Vec<usize>,
    list: Vec<(usize, f32)>,
}

impl Taps {
    fn new(axis: &Axis, plan: &Resizing) -> Taps {
        let mut taps = Taps { ends: Vec::with_capacity(axis.to), list: Vec::new() };
        for o in 0..axis.to {
            let own = axis.taps(&plan.method, o).unwrap_or_default();
            taps.list.extend(own.into_iter().map(|(p, w)| (p, w as f32)));
            taps.ends.push(taps.list.len());
        }
        taps
    }

    fn of(&self, o: usize) -> &[(usize, f32)] {
        let start = o.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.list[start..self.ends[o]]
    }
}

impl Table {
    pub(super) fn new(plan: &Resizing) -> Table {
        let lead = plan.lead.iter().map(|l| l.axis.map(|a| Taps::new(&a, plan))).collect();
        let along = |a: Axis| match &plan.above {
            Some(above) => Along::planes(above, &a, &plan.method),
            None => Along::new(&a, &plan.method, plan.inner),
        };
        Table { lead, along: plan.along.map(along) }
    }

    /// Collects the input rows of an output row, by their first elements, with their weights. There
    /// are none if the row is outside the input.
    fn sources(&self, plan: &Resizing, row: usize, rows: &mut Vec<(usize, f32)>) {
        rows.clear();
        rows.push((0, 1.0));
        let (mut rest, mut step) = (row, plan.input_width());
        for (lead, taps) in plan.lead.iter().zip(&self.lead).rev() {
            let o = rest % lead.to;
            rest /= lead.to;
            match taps.as_ref().map(|t| t.of(o)) {
                None => rows.iter_mut().for_each(|r| r.0 += o * step),
                Some([(p, w)]) => rows.iter_mut().for_each(|r| *r = (r.0 + p * step, r.1 * w)),
                Some(own) => {
                    let before = rows.len();
                    for &(p, w) in own {
                        rows.extend_from_within(..before);
                        let new = rows.len() - before;
                        rows[new..].iter_mut().for_each(|r| *r = (r.0 + p * step, r.1 * w));
                    }
                    rows.drain(..before);
                }
            }
            step *= lead.from;
        }
    }

    pub(super) fn run<T: Elem>(&self, plan: &Resizing, units: Range<usize>, x: &[T], out: &mut Out<'_, T>) {
        let (width, input_width) = (plan.width(), plan.input_width());
        let sum_len = if self.along.is_some() { Along::room(input_width) } else { 0 };
        let mut beyond = [T::default()];
        narrow(&[plan.method.beyond], &mut beyond);
        let [beyond] = beyond;
        let mut rows = Vec::new();
        with_scratch(sum_len + width, |scratch| {
            let (sum, line) = scratch.split_at_mut(sum_len);
            for row in units {
                self.sources(plan, row, &mut rows);
                let to = out.part(row * width, width);
                if rows.is_empty() {
                    to.fill(beyond);
                    continue;
                }
                let Some(along) = &self.along else {
                    into(to, line, |to| add_rows(x, &rows, to));
                    continue;
                };
                add_rows(x, &rows, &mut sum[..input_width]);
                sum[input_width..].fill(0.0);
                into(to, line, |to| along.run(sum, to));
                along.outside(|places| to[places].fill(beyond));
            }
        });
    }
}

/// Lets `make` write a row of singles and converts it to the row's own type.
fn into<T: Elem>(to: &mut [T], line: &mut [f32], make: impl FnOnce(&mut [f32])) {
    if T::KIND == Kind::F32
        && let Ok(to) = seen_as_mut(to)
    {
        return make(to);
    }
    make(line);
    narrow(line, to);
}

/// Converts singles to another type. Integers are rounded, halves to even.
fn narrow<T: Elem>(from: &[f32], to: &mut [T]) {
    match T::KIND {
        Kind::U8 | Kind::I8 => quantise(from, 1.0, 0.0, to),
        _ => narrow_floats(from, to),
    }
}

crate::multiversion! {
    fn narrow_floats<T: Elem>(from: &[f32], to: &mut [T]) {
        for (to, v) in to.iter_mut().zip(from) {
            *to = T::from_f32(*v);
        }
    }
}

crate::multiversion! {
    /// Adds the rows of `x` that begin at these elements, each with its weight, in order.
    fn add_rows<T: Elem>(x: &[T], rows: &[(usize, f32)], to: &mut [f32]) {
        let n = to.len();
        let row = |r: &(usize, f32)| (&x[r.0..r.0 + n], r.1);
        match rows {
            [a] => {
                let (a, wa) = row(a);
                for (to, a) in to.iter_mut().zip(a) {
                    *to = a.to_f32() * wa;
                }
            }
            [a, b] => {
                let ((a, wa), (b, wb)) = (row(a), row(b));
                for ((to, a), b) in to.iter_mut().zip(a).zip(b) {
                    *to = b.to_f32().mul_add(wb, a.to_f32() * wa);
                }
            }
            [a, b, c, d] => {
                let ((a, wa), (b, wb), (c, wc), (d, wd)) = (row(a), row(b), row(c), row(d));
                for ((((to, a), b), c), d) in to.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                    let two = b.to_f32().mul_add(wb, a.to_f32() * wa);
                    *to = d.to_f32().mul_add(wd, c.to_f32().mul_add(wc, two));
                }
            }
            [] => to.fill(0.0),
            [first, rest @ ..] => {
                let (a, wa) = row(first);
                for (to, a) in to.iter_mut().zip(a) {
                    *to = a.to_f32() * wa;
                }
                for next in rest {
                    let (a, wa) = row(next);
                    for (to, a) in to.iter_mut().zip(a) {
                        *to = a.to_f32().mul_add(wa, *to);
                    }
                }
            }
        }
    }
}
