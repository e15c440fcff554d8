//! The last axis of a weighted sum, along a row of singles. If positions have few elements, a row
//! is a list of output elements, in blocks of sixteen. Where a block reads no more than 64
//! consecutive elements, registers hold these and are permuted.
use super::{Axis, Method, WIDE};
use std::ops::Range;

/// Output elements per block.
pub(super) const LANES: usize = 16;
/// Maximum number of input elements of a block that registers hold.
const WINDOW: usize = 64;

/// Input elements and weights of the output elements of a row.
pub(super) struct Along {
    /// Taps of each output element. If an element has fewer, the weight of its last tap is split
    /// over several, so that no unrelated element is read: it might be NaN.
    taps: usize,
    form: Form,
    /// Ranges of output elements outside the input.
    outside: Vec<Range<usize>>,
}

enum Form {
    Blocks(Blocks),
    /// Positions of several elements: for each tap of each position, an input position and its
    /// weight.
    Places {
        inner: usize,
        list: Vec<(usize, f32)>,
    },
}

/// Blocks of sixteen output elements.
pub(super) struct Blocks {
    /// The first input element that each block reads.
    starts: Vec<usize>,
    /// Input elements relative to the first one, for each tap of each block.
    places: Vec<[u32; LANES]>,
    weights: Vec<[f32; LANES]>,
    /// Largest number of input elements that a block spans.
    span: usize,
    /// For each block, the first element of each half of each tap, relative to that of the block,
    /// or [`FAR`]; none if too many are far.
    halves: Vec<Option<Vec<[u32; 2]>>>,
}

/// Half of a tap that reads more consecutive elements than a register of AVX2 holds.
pub(super) const FAR: u32 = u32::MAX;
/// Consecutive elements that a register of AVX2 holds.
const NEAR: u32 = 8;

/// Taps of an output element; `None` if it lies outside the input.
type Taps = Option<Vec<(usize, f64)>>;

/// Most taps of an element of a plane that is resized at once.
const FEW: usize = 4;
/// Most output elements of such a plane.
const SMALL: usize = 1 << 13;

/// Whether small planes can be resized at once, with the taps of both axes together: every block
/// of sixteen output elements reads what registers hold.
pub(super) fn suits_planes(above: &Axis, along: &Axis, method: &Method) -> bool {
    if along.from > WINDOW || above.to.checked_mul(along.to).is_none_or(|n| n > SMALL) {
        return false;
    }
    let found = of_planes(above, along, method);
    let reads = |block: &[Taps]| {
        let all = || block.iter().flatten().flatten().map(|t| t.0);
        all().max().unwrap_or(0) - all().min().unwrap_or(0) < WINDOW
    };
    found.iter().flatten().all(|taps| taps.len() <= FEW) && found.chunks(LANES).all(reads)
}

/// The taps of all elements of a plane.
fn of_planes(above: &Axis, along: &Axis, method: &Method) -> Vec<Taps> {
    let columns: Vec<Taps> = (0..along.to).map(|o| along.taps(method, o)).collect();
    let rows = (0..above.to).map(|o| above.taps(method, o));
    let both = |row: &Taps, column: &Taps| {
        let of = |r: &(usize, f64), c: &(usize, f64)| (r.0 * along.from + c.0, r.1 * c.1);
        Some(row.as_ref()?.iter().flat_map(|r| column.iter().flatten().map(move |c| of(r, c))).collect())
            .filter(|_| column.is_some())
    };
    rows.flat_map(|row| columns.iter().map(|column| both(&row, column)).collect::<Vec<_>>()).collect()
}

impl Along {
    pub(super) fn new(axis: &Axis, method: &Method, inner: usize) -> Along {
        Along::of((0..axis.to).map(|o| axis.taps(method, o)).collect(), inner)
    }

    /// For planes that are resized at once; a row is then a whole plane.
    pub(super) fn planes(above: &Axis, along: &Axis, method: &Method) -> Along {
        Along::of(of_planes(above, along, method), 1)
    }

    fn of(found: Vec<Taps>, inner: usize) -> Along {
        let taps = found.iter().flatten().map(Vec::len).max().unwrap_or(0).max(1);
        let outside = found.iter().enumerate().filter(|(_, t)| t.is_none());
        let outside = outside.map(|(o, _)| o * inner..(o + 1) * inner).collect();
        let found = found.into_iter().map(|t| filled(t.unwrap_or_default(), taps));
        let form = match inner >= WIDE {
            true => Form::Places { inner, list: found.flatten().collect() },
            false => Form::Blocks(Blocks::new(found.collect(), inner)),
        };
        Along { taps, form, outside }
    }

    /// Elements that an input row must provide, including zeros after its own.
    pub(super) fn room(width: usize) -> usize {
        width + WINDOW
    }

    /// Calls `f` with each range of elements that lies outside the input.
    pub(super) fn outside(&self, f: impl FnMut(Range<usize>)) {
        self.outside.iter().cloned().for_each(f);
    }

    /// Computes an output row from an input row that is padded to [`Along::room`].
    pub(super) fn run(&self, from: &[f32], to: &mut [f32]) {
        match &self.form {
            Form::Places { inner, list } => {
                for (to, taps) in to.chunks_exact_mut(*inner).zip(list.chunks_exact(self.taps)) {
                    add_places(taps, *inner, from, to);
                }
            }
            Form::Blocks(blocks) => {
                #[cfg(target_arch = "x86_64")]
                if super::permute::run(self.taps, blocks, from, to) {
                    return;
                }
                add_elements(self.taps, blocks, from, to);
            }
        }
    }
}

/// Extends the list to `taps` taps: the last one is repeatedly replaced by two of half its weight.
/// Sums of halves, quarters and so on of a number are the number itself.
fn filled(own: Vec<(usize, f64)>, taps: usize) -> Vec<(usize, f32)> {
    let mut list: Vec<(usize, f32)> = own.into_iter().map(|(p, w)| (p, w as f32)).collect();
    if list.is_empty() {
        list.push((0, 0.0));
    }
    while let (true, Some(last)) = (list.len() < taps, list.last_mut()) {
        last.1 /= 2.0;
        let half = *last;
        list.push(half);
    }
    list
}

/// The first element of each half of a tap, or [`FAR`].
fn first_of_halves(places: &[u32; LANES]) -> [u32; 2] {
    let mut first = [0; 2];
    for (half, first) in places.as_chunks::<{ LANES / 2 }>().0.iter().zip(&mut first) {
        let (least, most) = half.iter().fold((u32::MAX, 0), |(least, most), p| (least.min(*p), most.max(*p)));
        *first = if most - least < NEAR { least } else { FAR };
    }
    first
}

impl Blocks {
    fn new(found: Vec<Vec<(usize, f32)>>, inner: usize) -> Blocks {
        let taps = found.first().map_or(1, Vec::len);
        let count = (found.len() * inner).div_ceil(LANES);
        let mut blocks = Blocks {
            starts: Vec::with_capacity(count),
            places: Vec::new(),
            weights: Vec::new(),
            span: 0,
            halves: Vec::with_capacity(count),
        };
        for block in 0..count {
            let element = |i: usize| Some((found.get((block * LANES + i) / inner)?, (block * LANES + i) % inner));
            let own: Vec<_> = (0..LANES).map_while(element).collect();
            let reads = own.iter().flat_map(|(taps, c)| taps.iter().map(move |t| t.0 * inner + c));
            let (least, most) = reads.fold((usize::MAX, 0), |(least, most), at| (least.min(at), most.max(at)));
            blocks.starts.push(least);
            blocks.span = blocks.span.max(most - least + 1);
            for tap in 0..taps {
                let (mut places, mut weights) = ([0; LANES], [0.0; LANES]);
                for (i, (taps, c)) in own.iter().enumerate() {
                    places[i] = (taps[tap].0 * inner + c - least) as u32;
                    weights[i] = taps[tap].1;
                }
                blocks.places.push(places);
                blocks.weights.push(weights);
            }
            let halves: Vec<[u32; 2]> = blocks.places[block * taps..].iter().map(first_of_halves).collect();
            let far = halves.as_flattened().iter().filter(|first| **first == FAR).count();
            blocks.halves.push((4 * far <= taps).then_some(halves));
        }
        blocks
    }
}

impl Blocks {
    pub(super) fn span(&self) -> usize {
        self.span
    }

    /// For each block, the first elements of the halves of its taps, if most are near.
    pub(super) fn halves(&self) -> &[Option<Vec<[u32; 2]>>] {
        &self.halves
    }

    /// For each block: its first input element, and the positions and weights of each tap.
    pub(super) fn each(
        &self,
        taps: usize,
    ) -> impl Iterator<Item = (usize, impl Iterator<Item = (&[u32; LANES], &[f32; LANES])>)> {
        let lists = self.places.chunks_exact(taps).zip(self.weights.chunks_exact(taps));
        self.starts.iter().zip(lists).map(|(start, (places, weights))| (*start, places.iter().zip(weights)))
    }
}

crate::multiversion! {
    fn add_elements(taps: usize, blocks: &Blocks, from: &[f32], to: &mut [f32]) {
        let mut last = [0.0; LANES];
        let (whole, rest) = to.as_chunks_mut::<LANES>();
        for ((start, list), to) in blocks.each(taps).zip(whole.iter_mut().chain([&mut last])) {
            let from = &from[start..];
            for (tap, (places, weights)) in list.enumerate() {
                for ((to, p), w) in to.iter_mut().zip(places).zip(weights) {
                    let v = from[*p as usize];
                    *to = if tap == 0 { v * w } else { v.mul_add(*w, *to) };
                }
            }
        }
        rest.copy_from_slice(&last[..rest.len()]);
    }
}

crate::multiversion! {
    fn add_places(taps: &[(usize, f32)], inner: usize, from: &[f32], to: &mut [f32]) {
        let place = |t: &(usize, f32)| (&from[t.0 * inner..][..inner], t.1);
        match taps {
            [a, b] => {
                let ((a, wa), (b, wb)) = (place(a), place(b));
                for ((to, a), b) in to.iter_mut().zip(a).zip(b) {
                    *to = b.mul_add(wb, a * wa);
                }
            }
            [] => to.fill(0.0),
            [first, rest @ ..] => {
                let (a, wa) = place(first);
                for (to, a) in to.iter_mut().zip(a) {
                    *to = a * wa;
                }
                for next in rest {
                    let (a, wa) = place(next);
                    for (to, a) in to.iter_mut().zip(a) {
                        *to = a.mul_add(wa, *to);
                    }
                }
            }
        }
    }
}
