//! Padding and cropping. A tensor is surrounded by a constant, its border, its mirror image or its
//! opposite end.
use super::copy_run;
use crate::view::{Elem, Out};
use std::ops::Range;

/// What is beyond the ends of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Border {
    /// A constant.
    Constant,
    /// The first or the last position, repeated.
    Edge,
    /// The positions before the end in reverse order, and back again.
    Reflect,
    /// The positions from the opposite end on, without the cropped ones.
    Wrap,
}

impl Border {
    /// The position of the axis that is read at `i`, which may be beyond its ends; `None` for the
    /// constant.
    fn place(self, i: isize, axis: &Axis) -> Option<usize> {
        let n = axis.from as isize;
        if (0..n).contains(&i) {
            return Some(i as usize);
        }
        let period = (2 * (n - 1)).max(1);
        let at = match self {
            Border::Constant => return None,
            Border::Edge => i.clamp(0, n - 1),
            Border::Wrap => match axis.kept() {
                (_, 0) => i.rem_euclid(n),
                (first, kept) => first + (i - first).rem_euclid(kept),
            },
            Border::Reflect => match i.rem_euclid(period) {
                at if at < n => at,
                at => period - at,
            },
        };
        Some(at as usize)
    }
}

/// An axis: its size, the number of positions added before it (negative if it is cropped), and the
/// size of the output.
#[derive(Clone, Copy, Debug)]
struct Axis {
    from: usize,
    before: isize,
    to: usize,
}

impl Axis {
    fn is_whole(&self) -> bool {
        self.before == 0 && self.from == self.to
    }

    /// The first position that is not cropped, and the number of such positions.
    fn kept(&self) -> (isize, isize) {
        let (first, end) = ((-self.before).max(0), (self.to as isize - self.before).min(self.from as isize));
        (first, (end - first).max(0))
    }
}

/// The plan of a padding. A unit of work is a row: the last padded axis and all axes after it.
#[derive(Clone, Debug)]
pub struct Padding {
    border: Border,
    lead: Vec<Axis>,
    last: Axis,
    /// Elements of each position of the last padded axis.
    inner: usize,
}

impl Padding {
    /// Makes a plan from the axes, each with its size, the number of positions before it (negative
    /// to crop), and the size of the output.
    pub fn new(border: Border, axes: &[(usize, isize, usize)]) -> Padding {
        let axes: Vec<Axis> = axes.iter().map(|&(from, before, to)| Axis { from, before, to }).collect();
        let last = axes.iter().rposition(|a| !a.is_whole()).unwrap_or(0);
        let inner = axes.iter().skip(last + 1).map(|a| a.to).product();
        let mut lead: Vec<Axis> = Vec::new();
        for axis in &axes[..last.min(axes.len())] {
            match lead.last_mut() {
                Some(own) if own.is_whole() && axis.is_whole() => {
                    own.from *= axis.from;
                    own.to = own.from;
                }
                _ => lead.push(*axis),
            }
        }
        let last = axes.get(last).copied().unwrap_or(Axis { from: 1, before: 0, to: 1 });
        Padding { border, lead, last, inner }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.lead.iter().map(|a| a.to).product()
    }

    /// Elements of an output row.
    pub fn width(&self) -> usize {
        self.last.to * self.inner
    }

    /// The first input row for an entry of the axes before the row axis; `None` if the entry is
    /// filled with the constant.
    fn outer(&self, entry: usize) -> Option<usize> {
        let (last, lead) = self.lead.split_last()?;
        let (mut rest, mut at, mut step) = (entry, 0, last.from);
        for axis in lead.iter().rev() {
            let place = self.border.place((rest % axis.to) as isize - axis.before, axis)?;
            rest /= axis.to;
            at += place * step;
            step *= axis.from;
        }
        Some(at)
    }

    /// Does the rows `units`. `fill` is the constant of [`Border::Constant`].
    pub fn run<T: Elem>(&self, units: Range<usize>, x: &[T], fill: T, out: &mut Out<'_, T>) {
        let (width, one) = (self.width(), Axis { from: 1, before: 0, to: 1 });
        if width == 0 {
            return;
        }
        let lead = self.lead.last().unwrap_or(&one);
        let row = Row::new(self);
        let mut rest = out.part(units.start * width, units.len() * width);
        let mut next = units.start;
        while next < units.end {
            let (entry, first) = (next / lead.to, next % lead.to);
            let count = (lead.to - first).min(units.end - next);
            let outer = if self.lead.is_empty() { Some(0) } else { self.outer(entry) };
            let (now, more) = std::mem::take(&mut rest).split_at_mut(count * width);
            rest = more;
            for (o, out) in (first..).zip(now.chunks_exact_mut(width)) {
                let place = outer.zip(self.border.place(o as isize - lead.before, lead));
                match place {
                    None => out.fill(fill),
                    Some((outer, place)) => row.run(&x[(outer + place) * row.from..][..row.from], fill, out),
                }
            }
            next += count;
        }
    }
}

/// How a row of the output is made from a row of the input.
struct Row {
    /// Elements of the input row, and of one position.
    from: usize,
    inner: usize,
    /// The output elements that are copied from inside the input row, and the first input element
    /// that is copied.
    own: Range<usize>,
    start: usize,
    /// All other output positions, each with the input position that it reads; `None` for the
    /// constant.
    beyond: Vec<(usize, Option<usize>)>,
}

impl Row {
    fn new(plan: &Padding) -> Row {
        let (inner, Axis { from, before, to }) = (plan.inner, plan.last);
        let first = before.max(0).min(to as isize) as usize;
        let end = (before + from as isize).clamp(first as isize, to as isize) as usize;
        let place = |o: usize| plan.border.place(o as isize - before, &plan.last);
        Row {
            from: from * inner,
            inner,
            own: first * inner..end * inner,
            start: if first < end { (first as isize - before) as usize * inner } else { 0 },
            beyond: (0..first).chain(end..to).map(|o| (o, place(o))).collect(),
        }
    }

    fn run<T: Elem>(&self, line: &[T], fill: T, out: &mut [T]) {
        let inner = self.inner;
        if inner == 1 {
            for &(o, place) in &self.beyond {
                out[o] = place.map_or(fill, |p| line[p]);
            }
        } else {
            for &(o, place) in &self.beyond {
                let out = &mut out[o * inner..(o + 1) * inner];
                match place {
                    None => out.fill(fill),
                    Some(p) => copy_run(&line[p * inner..(p + 1) * inner], out),
                }
            }
        }
        let own = &mut out[self.own.clone()];
        copy_run(&line[self.start..][..own.len()], own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::block_range;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
        #[test]
        fn every_element_is_the_one_of_its_place(
            axes in prop::collection::vec((1usize..6, -3isize..9, -3isize..9), 0..5),
            border in prop::sample::select(&[Border::Constant, Border::Edge, Border::Reflect, Border::Wrap][..]),
        ) {
            let axes: Vec<(usize, isize, usize)> =
                axes.into_iter().map(|(n, b, e)| (n, b, (n as isize + b + e).max(0) as usize)).collect();
            let x: Vec<u16> = (1..=axes.iter().map(|a| a.0).product::<usize>() as u16).collect();
            let plan = Padding::new(border, &axes);
            let count: usize = axes.iter().map(|a| a.2).product();
            let want: Vec<u16> = (0..count).map(|i| {
                let (mut rest, mut at, mut step) = (i, Some(0), 1);
                for &(n, before, to) in axes.iter().rev() {
                    let place = border.place((rest % to) as isize - before, &Axis { from: n, before, to });
                    rest /= to;
                    at = at.zip(place).map(|(at, p)| at + p * step);
                    step *= n;
                }
                at.map_or(9999, |at| x[at])
            }).collect();
            let mut y = vec![0; count];
            for b in 0..3 {
                plan.run(block_range(plan.rows(), b, 3), &x, 9999, &mut Out::new(&mut y));
            }
            prop_assert_eq!(y, want);
        }
    }

    #[test]
    fn places_beyond_the_ends() {
        let whole = |from| Axis { from, before: 0, to: from };
        let at = |border: Border| (-4..8).map(|i| border.place(i, &whole(3)).unwrap_or(9)).collect::<Vec<_>>();
        assert_eq!(at(Border::Constant), [9, 9, 9, 9, 0, 1, 2, 9, 9, 9, 9, 9]);
        assert_eq!(at(Border::Edge), [0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2]);
        assert_eq!(at(Border::Reflect), [0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1]);
        assert_eq!(at(Border::Wrap), [2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1]);
        assert_eq!((-2..3).map(|i| Border::Reflect.place(i, &whole(1))).collect::<Vec<_>>(), [Some(0); 5]);
    }

    /// Results of onnxruntime for six positions, some of which are cropped at one end.
    #[test]
    fn what_is_cropped_does_not_come_back_at_the_other_end() {
        let padded = |before: isize, after: isize| {
            let to = (6 + before + after) as usize;
            let (mut y, plan) = (vec![9; to], Padding::new(Border::Wrap, &[(6, before, to)]));
            plan.run(0..plan.rows(), &[0u8, 1, 2, 3, 4, 5], 9, &mut Out::new(&mut y));
            y
        };
        assert_eq!(padded(-1, 2), [1, 2, 3, 4, 5, 1, 2]);
        assert_eq!(padded(2, -1), [3, 4, 0, 1, 2, 3, 4]);
        assert_eq!(padded(-1, 9), [1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2, 3, 4]);
        assert_eq!(padded(-1, -1), [1, 2, 3, 4]);
    }
}
