//! Blocked layouts (NC1HWC0, FRACTAL_Z, FRACTAL_NZ …): the axes of a row-major tensor are cut into
//! parts and reordered, and positions beyond an axis are filled with zeros.
use crate::view::{Elem, Out};
use std::ops::Range;

/// One axis of the blocked layout: `size` steps of `step` along an axis of the plain layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Axis of the plain layout.
    pub axis: usize,
    /// Positions along the plain axis per step.
    pub step: usize,
    /// Length of the blocked axis.
    pub size: usize,
}

/// A plain and a blocked layout of the same tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    plain: Vec<usize>,
    strides: Vec<usize>,
    parts: Vec<Part>,
    /// For each plain axis, the offset of each of its positions in the blocked layout.
    places: Vec<Vec<usize>>,
}

fn strides(sizes: impl DoubleEndedIterator<Item = usize>) -> Vec<usize> {
    let mut out: Vec<usize> = sizes.rev().scan(1, |at, n| Some(std::mem::replace(at, *at * n))).collect();
    out.reverse();
    out
}

impl Blocked {
    /// Makes a plan. `None` if the parts of an axis do not reach each of its positions exactly
    /// once, or if sizes overflow.
    pub fn new(plain: &[usize], parts: &[Part]) -> Option<Blocked> {
        plain.iter().map(|n| (*n).max(1)).try_fold(1usize, usize::checked_mul)?;
        parts.iter().map(|p| p.size.max(1)).try_fold(1usize, usize::checked_mul)?;
        if parts.is_empty() || parts.iter().any(|p| p.axis >= plain.len()) {
            return None;
        }
        let steps = strides(parts.iter().map(|p| p.size));
        let mut places = Vec::with_capacity(plain.len());
        for (axis, &size) in plain.iter().enumerate() {
            let mut own: Vec<(Part, usize)> =
                parts.iter().copied().zip(steps.iter().copied()).filter(|(p, _)| p.axis == axis).collect();
            own.sort_by_key(|(p, _)| (p.step, p.size));
            // Each part continues where the next finer one ends; together they reach the last
            // position.
            let mut reach = 1usize;
            for (p, _) in &own {
                if p.step != reach {
                    return None;
                }
                reach = reach.checked_mul(p.size)?;
            }
            if reach < size {
                return None;
            }
            let place = |i: usize| own.iter().map(|(p, stride)| i / p.step % p.size * stride).sum();
            places.push((0..size).map(place).collect());
        }
        Some(Blocked { plain: plain.to_vec(), strides: strides(plain.iter().copied()), parts: parts.to_vec(), places })
    }

    /// Number of elements of the blocked layout.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|p| p.size).product()
    }
    /// Whether the blocked layout has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Number of units of [`Blocked::pack`]: runs of the last blocked axis.
    pub fn packed_rows(&self) -> usize {
        self.parts.split_last().map_or(0, |(_, lead)| lead.iter().map(|p| p.size).product())
    }
    /// Number of units of [`Blocked::unpack`]: runs of the last plain axis.
    pub fn plain_rows(&self) -> usize {
        self.plain.split_last().map_or(1, |(_, lead)| lead.iter().product())
    }

    /// Converts from plain to blocked, for the runs `rows` of the last blocked axis. Positions
    /// beyond the plain axes become zero.
    pub fn pack<T: Elem>(&self, rows: Range<usize>, x: &[T], out: &mut Out<'_, T>) {
        let Some((last, lead)) = self.parts.split_last() else { return };
        let step = self.strides[last.axis] * last.step;
        // Runs that are neighbours in the blocked layout and whose first elements are neighbours in
        // the plain one are transposed together.
        let beside = lead.last().filter(|p| step != 1 && p.axis != last.axis && self.strides[p.axis] * p.step == 1);
        let mut at = Place::new(self, lead, rows.start);
        let mut r = rows.start;
        while r < rows.end {
            let have = if at.inside { (self.plain[last.axis] - at.at[last.axis]).div_ceil(last.step) } else { 0 };
            let have = have.min(last.size);
            let together = match beside {
                Some(p) if at.inside => {
                    (p.size - at.index[lead.len() - 1]).min(self.plain[p.axis] - at.at[p.axis]).min(rows.end - r)
                }
                _ => 1,
            };
            let to = out.part(r * last.size, together * last.size);
            match (have, step) {
                (0, _) => to.fill(T::default()),
                (_, 1) => {
                    to[..have].copy_from_slice(&x[at.from..at.from + have]);
                    to[have..].fill(T::default());
                }
                _ => turn(&x[at.from..], step, have, to, last.size),
            }
            at.forward(together);
            r += together;
        }
    }

    /// Converts from blocked to plain, for the runs `rows` of the last plain axis.
    pub fn unpack<T: Elem>(&self, rows: Range<usize>, x: &[T], out: &mut Out<'_, T>) {
        let Some((last, lead)) = self.places.split_last() else {
            // A scalar is its own block.
            rows.for_each(|_| out.part(0, 1).copy_from_slice(&x[..1]));
            return;
        };
        for r in rows {
            let (mut rest, mut from) = (r, 0);
            for places in lead.iter().rev() {
                from += places[rest % places.len()];
                rest /= places.len();
            }
            let to = out.part(r * last.len(), last.len());
            to.iter_mut().zip(last).for_each(|(t, p)| *t = x[from + p]);
        }
    }
}

/// The position of a run of the last blocked axis in the plain layout.
struct Place<'b> {
    plan: &'b Blocked,
    lead: &'b [Part],
    index: Vec<usize>,
    /// Position along each plain axis.
    at: Vec<usize>,
    from: usize,
    inside: bool,
}

impl<'b> Place<'b> {
    fn new(plan: &'b Blocked, lead: &'b [Part], row: usize) -> Place<'b> {
        let (at, index) = (vec![0; plan.plain.len()], vec![0; lead.len()]);
        let mut place = Place { plan, lead, index, at, from: 0, inside: true };
        place.forward(row);
        place
    }

    /// Moves on by this many runs.
    fn forward(&mut self, by: usize) {
        let mut carry = by;
        for (index, p) in self.index.iter_mut().zip(self.lead).rev() {
            if carry == 0 {
                break;
            }
            let next = *index + carry;
            carry = if next < p.size { 0 } else { next / p.size.max(1) };
            let next = next - carry * p.size;
            self.at[p.axis] = self.at[p.axis] + next * p.step - *index * p.step;
            *index = next;
        }
        self.inside = self.at.iter().zip(&self.plan.plain).all(|(i, n)| i < n);
        self.from = self.at.iter().zip(&self.plan.strides).map(|(i, s)| i * s).sum();
    }
}

crate::multiversion! {
    /// Writes runs of `size` elements. The first `have` elements of a run are `step` apart in `x`,
    /// the rest are zero; each run begins one element after the previous one.
    fn turn<T: Elem>(x: &[T], step: usize, have: usize, to: &mut [T], size: usize) {
        let runs = to.len() / size;
        if have < size {
            to.fill(T::default());
        }
        // Blocks of runs, so that both sides stay in the first-level cache.
        for first in (0..runs).step_by(64) {
            let behind = (first + 64).min(runs);
            for j in 0..have {
                let from = &x[j * step + first..j * step + behind];
                for (run, v) in to[first * size..behind * size].chunks_exact_mut(size).zip(from) {
                    run[j] = *v;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::block_range;
    use proptest::prelude::*;

    fn part(axis: usize, step: usize, size: usize) -> Part {
        Part { axis, step, size }
    }

    #[test]
    fn channels_in_groups_of_four() {
        // [1, 3, 2, 1] in groups of four channels: one group, the fourth channel zero.
        let parts = [part(0, 1, 1), part(1, 4, 1), part(2, 1, 2), part(3, 1, 1), part(1, 1, 4)];
        let b = Blocked::new(&[1, 3, 2, 1], &parts).unwrap();
        let mut y = [9u16; 8];
        b.pack(0..b.packed_rows(), &[1, 2, 3, 4, 5, 6], &mut Out::new(&mut y));
        assert_eq!(y, [1, 3, 5, 0, 2, 4, 6, 0]);
        let mut x = [0u16; 6];
        b.unpack(0..b.plain_rows(), &y, &mut Out::new(&mut x));
        assert_eq!(x, [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn parts_that_do_not_reach_every_place_once_are_refused() {
        assert_eq!(Blocked::new(&[5], &[part(0, 4, 1), part(0, 1, 4)]), None);
        assert_eq!(Blocked::new(&[5], &[part(0, 2, 3), part(0, 1, 4)]), None);
        assert_eq!(Blocked::new(&[5, 2], &[part(0, 1, 5)]), None);
        assert_eq!(Blocked::new(&[5], &[part(1, 1, 5)]), None);
        assert!(Blocked::new(&[5], &[part(0, 1, 4), part(0, 4, 2)]).is_some());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]
        #[test]
        fn every_place_holds_its_element_or_zero(
            dims in proptest::collection::vec(1usize..9, 2..4),
            blocks in proptest::collection::vec(1usize..5, 3),
            cuts in 1usize..5,
        ) {
            // Outer parts in order, then inner ones in reverse order.
            let outer = dims.iter().enumerate().map(|(a, n)| part(a, blocks[a], n.div_ceil(blocks[a])));
            let inner = (0..dims.len()).rev().map(|a| part(a, 1, blocks[a]));
            let parts: Vec<Part> = outer.chain(inner).collect();
            let b = Blocked::new(&dims, &parts).unwrap();
            let x: Vec<u32> = (1..=dims.iter().product::<usize>() as u32).collect();
            let mut y = vec![7u32; b.len()];
            for c in 0..cuts {
                b.pack(block_range(b.packed_rows(), c, cuts), &x, &mut Out::new(&mut y));
            }
            // Compared with the definition, position by position.
            for (i, v) in y.iter().enumerate() {
                let (mut rest, mut at) = (i, vec![0; dims.len()]);
                for p in parts.iter().rev() {
                    at[p.axis] += rest % p.size * p.step;
                    rest /= p.size;
                }
                let inside = at.iter().zip(&dims).all(|(i, n)| i < n);
                let from = at.iter().zip(&dims).fold(0, |f, (i, n)| f * n + i);
                prop_assert_eq!(*v, if inside { x[from] } else { 0 });
            }
            let mut z = vec![0u32; x.len()];
            for c in 0..cuts {
                b.unpack(block_range(b.plain_rows(), c, cuts), &y, &mut Out::new(&mut z));
            }
            prop_assert_eq!(z, x);
        }
    }
}
