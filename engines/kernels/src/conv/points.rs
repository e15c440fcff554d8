//! Pointwise (1x1) convolutions in single precision. Weights and images are read in place; the
//! whole sum stays in registers and is finished there. A unit is some output channels of one group
//! at all positions, or at some of them if the image is large ([`strip`]).
use crate::conv::spec::ConvSpec;
use crate::gemm::dots::{Each, dots};
use crate::gemm::micro::in_tiles;
use crate::gemm::{Bias, Epilogue};
use crate::simd::Act;
use crate::simd::act::{at_least, at_most};
use crate::simd::isa::{Isa, Work};
use crate::simd::rows::{Rows, STEPS};
use crate::view::Out;

/// Fewest output channels for which this pays; fewer leave most of a register tile idle.
const LEAST: usize = 8;
/// Fewest input channels with which it does not pay: what a tile reads of the image then exceeds
/// the nearest cache, and copies of a part of it are faster, unless output channels are few.
const DEEP: usize = 384;
/// Most output channels that are few. Two threads then divide channels better than positions.
const FEW: usize = 96;
/// Most positions with which it pays for any number of channels.
const SMALL: usize = 64;
/// Approximate number of units of a convolution, so that several cores have work.
const UNITS: usize = 6;
/// Most elements of the weights of a unit. They stay in the second-level cache while the positions
/// are processed.
const WEIGHTS: usize = 48 * 1024;
/// Most columns beyond whole vectors that are computed one by one.
const SINGLE: usize = 2;
/// Columns computed at a time if an activation is applied to the stored result.
const STORED: usize = 256;
/// Vectors of a single row that are computed at a time if registers hold one vector of each row of
/// a tile. Their sums do not wait for each other.
const SINGLES: usize = 4;
/// Terms of a sum that are added at a time if registers hold one vector of each row of a tile and
/// the columns are few. What is read of the input then stays in the nearest cache for all rows of a
/// unit. With more columns it would not (14x14: up to a tenth slower).
const TERMS: usize = 96;
/// Bytes of the input, terms times the columns of a cell, that stay in the nearest cache for all
/// rows of a unit.
const NEAR: usize = 32 * 1024;
/// With more positions than this, units are strips of them. Rows with fewer positions are so close
/// together (within 2 KiB) that processors predict the next one, and several share a page.
const LARGE: usize = 512;
/// With more positions than this, it does not matter that strips share cache lines when rows are
/// not whole lines.
const MANY: usize = 4096;

/// Output channels of a unit; `None` if the convolution is not suitable for this kernel.
pub(crate) fn rows(s: &ConvSpec, positions: usize) -> Option<usize> {
    let (k, m) = (s.channels_in / s.groups, s.channels_out / s.groups);
    // Rows at such a distance map to few cache sets and would evict each other.
    let crowded = |distance: usize, count: usize, bytes: usize| (distance * 4).is_multiple_of(bytes) && count > 8;
    let deep = k >= DEEP && m > FEW && positions > SMALL;
    if k == 0 || m < LEAST || deep || crowded(k, m.min(12), 2048) || (crowded(positions, k, 4096) && k > 64) {
        return None;
    }
    let most = (WEIGHTS / k).max(1);
    let together = if (33..=48 + SINGLE).contains(&positions) { 8 } else { 12 };
    let usual = m.div_ceil(UNITS).min(most).next_multiple_of(together);
    let all = s.batch.saturating_mul(s.groups);
    let near = (4..=2 * usual).step_by(4).filter(|r| *r <= most.max(usual) && *r >= usual / 2);
    near.map(|r| (cost(m, r, together, all), r)).min().map(|(_, r)| r).or(Some(usual))
}

/// Positions and output channels of a unit if an image is large. What a unit reads of the image is
/// then read once for all channels, and by the core that made the same positions of the layer
/// before. With units of channels alone, each unit would read the whole image from the second-level
/// cache, line by line from as many pages as there are channels. `None` if the image is small, or
/// if the weights are too many to be read again for each strip.
pub(crate) fn strip(s: &ConvSpec, positions: usize) -> Option<(usize, usize)> {
    let (k, m) = (s.channels_in / s.groups, s.channels_out / s.groups);
    let apart = positions.is_multiple_of(16) && positions > LARGE || positions > MANY;
    if !apart || k.saturating_mul(m) > 2 * WEIGHTS {
        return None;
    }
    let least = positions.div_ceil(UNITS).next_multiple_of(32);
    // The work of the slower of two threads that begin at either end. On a tie, fewer units are
    // better.
    let later = |width: usize| {
        let (whole, rest) = (positions / width, cycles(positions % width));
        (whole.div_ceil(2) * width).max(whole / 2 * width + rest)
    };
    let step = (least / 64).next_multiple_of(32).max(32);
    let width = (least..=2 * least).step_by(step).min_by_key(|w| (later(*w), usize::MAX - w))?;
    let strips = positions.div_ceil(width).saturating_mul(s.batch).saturating_mul(s.groups);
    Some((width, m.div_ceil(UNITS.div_ceil(strips.max(1))).next_multiple_of(12)))
}

/// Approximate time that `positions` positions of an input channel take for one output channel, in
/// sixteenths of a cycle.
pub(crate) fn cycles(positions: usize) -> usize {
    match positions % 16 {
        few @ 1..=SINGLE => positions - few + 4 * few,
        _ => positions.next_multiple_of(16),
    }
}

/// Cost of units of `rows` of `m` output channels, for `all` images and groups, in quarters of a
/// row of all positions: the time of one thread, plus twice that of the slower of two threads that
/// begin at either end.
fn cost(m: usize, rows: usize, together: usize, all: usize) -> usize {
    let one = |rows: usize| {
        let (tiles, rest) = (rows / together, rows % together);
        // Fewer rows than a tile has leave registers idle, and each unit reads the image once.
        tiles * together * 4 + rest / 4 * 19 + rest % 4 * 8 + 6
    };
    let (whole, last) = (m / rows, m % rows);
    let (count, of) = (m.div_ceil(rows), [one(rows), if last > 0 { one(last) } else { 0 }]);
    let total = (whole * of[0] + of[1]).saturating_mul(all);
    // A thread begins a unit when it has finished the one before.
    let unit = |i: usize| if i == whole { of[1] } else { of[0] };
    let (mut front, mut back) = (0, 0);
    if all == 1 {
        let (mut first, mut behind) = (0, count);
        while first < behind {
            if front <= back {
                front += unit(first);
                first += 1;
            } else {
                behind -= 1;
                back += unit(behind);
            }
        }
    } else {
        front = total.div_ceil(2);
    }
    let few = if count.saturating_mul(all) < UNITS { total / 16 } else { 0 };
    total.saturating_add(front.max(back).saturating_mul(2)).saturating_add(few)
}

/// Computes some output channels of one image.
pub(crate) struct Points<'p, 'a, 'o> {
    /// Numbers of input channels and positions.
    pub(crate) shape: (usize, usize),
    /// First output channel, and their number.
    pub(crate) channels: (usize, usize),
    /// First position, and their number.
    pub(crate) strip: (usize, usize),
    /// The weights of these output channels.
    pub(crate) w: &'a [f32],
    /// The input channels, from the first position on.
    pub(crate) x: &'a [f32],
    pub(crate) epilogue: &'p Epilogue<'a, f32>,
    /// Where the first of these output channels begins in the result, at position 0.
    pub(crate) at: usize,
    pub(crate) out: &'p mut Out<'o, f32>,
    /// Memory for a column of the input.
    pub(crate) column: &'p mut [f32],
    /// Memory for the pointers to the rows of the result.
    pub(crate) rows: &'p mut Vec<*mut f32>,
}

/// Rows that are computed at a time if `left` rows are left: a tile, four, or one.
#[inline(always)]
fn group(left: usize, tile: usize) -> usize {
    match left {
        _ if in_tiles(left, tile) > 0 => tile,
        4.. => 4,
        _ => 1,
    }
}

/// What all cells of a unit share.
pub(crate) struct Tile<'a> {
    pub(crate) k: usize,
    /// Number of columns that are computed, and the distance between rows of the input.
    pub(crate) n: usize,
    pub(crate) x_step: usize,
    /// Whether the columns are only some of those of the image, and rows are many.
    pub(crate) is_strip: bool,
    pub(crate) m: usize,
    pub(crate) w: &'a [f32],
    pub(crate) x: &'a [f32],
    pub(crate) alpha: f32,
    pub(crate) bias: Option<&'a [f32]>,
    /// The residual, the distance between its rows, and its factor.
    pub(crate) residual: Option<(&'a [f32], usize, f32)>,
    pub(crate) limits: (f32, f32),
    /// Activation that is applied to the stored result, if it cannot be expressed as limits.
    pub(crate) later: Option<Act>,
}

/// An activation as limits; or no limits, and the activation to apply to the stored result.
pub(crate) fn limits(act: Act) -> ((f32, f32), Option<Act>) {
    match act {
        Act::None => ((f32::NEG_INFINITY, f32::INFINITY), None),
        Act::Relu => ((0.0, f32::INFINITY), None),
        Act::Clip(low, high) => ((low, high), None),
        _ => ((f32::NEG_INFINITY, f32::INFINITY), Some(act)),
    }
}

impl Work for Points<'_, '_, '_> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let ((k, positions), (first, m), (from, n)) = (self.shape, self.channels, self.strip);
        let (limits, later) = limits(self.epilogue.act);
        let tile = Tile {
            k,
            n,
            x_step: positions,
            is_strip: n < positions,
            m,
            w: self.w,
            x: self.x,
            alpha: self.epilogue.alpha,
            bias: match self.epilogue.bias {
                Bias::PerRow(b) => Some(&b[first..first + m]),
                _ => None,
            },
            residual: self.epilogue.residual.map(|(r, factor)| (&r[self.at + from..], positions, factor)),
            limits,
            later,
        };
        self.rows.clear();
        if n == positions {
            // The rows are one contiguous range.
            let base = self.out.part(self.at, m * n).as_mut_ptr();
            self.rows.extend((0..m).map(|i| base.wrapping_add(i * n)));
        } else {
            let at = self.at + from;
            self.rows.extend((0..m).map(|i| self.out.part(at + i * positions, n).as_mut_ptr()));
        }
        let rows = &self.rows[..];
        // One or two columns beyond whole vectors are each a product of the weights and one vector.
        let whole = if n % 16 <= SINGLE { n / 16 * 16 } else { n };
        for j in whole..n {
            let column = &mut self.column[..k];
            for (to, from) in column.iter_mut().zip(self.x[j..].iter().step_by(positions)) {
                *to = *from;
            }
            dots(isa, self.w, k, m, column, Column { tile: &tile, j, rows });
        }
        if let Some(act) = later {
            for row in rows {
                // SAFETY: rows have `n` elements, of which those from `whole` on were written.
                act.apply(unsafe { std::slice::from_raw_parts_mut(row.wrapping_add(whole), n - whole) });
            }
        }
        // SAFETY: the result has `m` rows of `n` elements.
        unsafe { tile.run::<I, MR, NP>(isa, whole, |i| rows[i]) };
    }
}

/// One column of the result.
struct Column<'t, 'a> {
    tile: &'t Tile<'a>,
    j: usize,
    /// Pointers to the rows of the result, each with as many elements as the tile has columns.
    rows: &'t [*mut f32],
}

impl Each for Column<'_, '_> {
    #[inline(always)]
    fn take(&mut self, i: usize, sum: f32) {
        let t = self.tile;
        let mut v = sum * t.alpha + t.bias.map_or(-0.0, |b| b[i]);
        if let Some((other, step, factor)) = t.residual {
            v = other[i * step + self.j].mul_add(factor, v);
        }
        // SAFETY: a column of a row of the result.
        unsafe { *self.rows[i].wrapping_add(self.j) = at_most(at_least(v, t.limits.0), t.limits.1) };
    }
}

impl Tile<'_> {
    /// Computes the first `whole` columns of all rows. Row `i` of the result begins at `to(i)`.
    ///
    /// # Safety
    /// Each row of the result must have `whole` elements that can be read and written.
    #[inline(always)]
    pub(crate) unsafe fn run<I: Isa, const MR: usize, const NP: usize>(
        &self,
        isa: I,
        whole: usize,
        mut to: impl FnMut(usize) -> *mut f32,
    ) {
        let (k, n, m) = (self.k, self.n, self.m);
        assert!(whole <= n && self.w.len() >= m * k);
        assert!(k == 0 || self.x.len() >= (k - 1) * self.x_step + n);
        assert!(self.bias.is_none_or(|b| b.len() >= m));
        assert!(self.residual.is_none_or(|(r, step, _)| m == 0 || r.len() >= (m - 1) * step + n));
        // SAFETY: by the assertions and the guarantee of the caller, rows and columns are those of
        // the operands.
        unsafe {
            // Three vectors are fastest at once, with eight rows.
            if NP == 2 && whole.div_ceil(16) == 3 && self.later.is_none() {
                let mut i = 0;
                while i + 8 <= m {
                    self.columns::<I, 8, 3>(isa, i, (0, whole), (0, k), &mut to);
                    i += 8;
                }
                while i + 4 <= m {
                    self.columns::<I, 4, 3>(isa, i, (0, whole), (0, k), &mut to);
                    i += 4;
                }
                while i < m {
                    self.columns::<I, 1, 3>(isa, i, (0, whole), (0, k), &mut to);
                    i += 1;
                }
                return;
            }
            // If registers hold one vector of each row, several are computed one after the other,
            // so that reads and writes are runs of more than a cache line.
            let wide = if NP == 1 { SINGLES } else { NP };
            let step = if self.later.is_some() { STORED } else { wide * 16 };
            let few = NP == 1 && whole <= SINGLES * 16;
            let near = if few { TERMS } else { NEAR / 4 / (wide * 16) };
            let alike = |most: usize| k.div_ceil(k.div_ceil(most).max(1)).max(1);
            let depth = if few || self.is_strip && m >= 4 * MR { alike(near) } else { k.max(1) };
            for j in (0..whole).step_by(step) {
                let end = (j + step).min(whole);
                for from in (0..k.max(1)).step_by(depth) {
                    let terms = (from, (from + depth).min(k));
                    let mut i = 0;
                    while i < m {
                        i += match group(m - i, MR) {
                            1 if NP == 1 => self.columns::<I, 1, SINGLES>(isa, i, (j, end), terms, &mut to),
                            1 => self.columns::<I, 1, NP>(isa, i, (j, end), terms, &mut to),
                            4 => self.columns::<I, 4, NP>(isa, i, (j, end), terms, &mut to),
                            _ => self.columns::<I, MR, NP>(isa, i, (j, end), terms, &mut to),
                        };
                    }
                }
            }
        }
    }

    /// Computes `R` rows beginning at `i`, for some columns and some terms of their sums. The sums
    /// of earlier terms are in the result. Returns `R`.
    ///
    /// # Safety
    /// Rows and columns must be those of the operands and of the result.
    #[inline(always)]
    unsafe fn columns<I: Isa, const R: usize, const NP: usize>(
        &self,
        isa: I,
        i: usize,
        j: (usize, usize),
        terms: (usize, usize),
        to: &mut impl FnMut(usize) -> *mut f32,
    ) -> usize {
        let rows: [*mut f32; R] = std::array::from_fn(|r| to(i + r));
        if terms.1 - terms.0 < self.k {
            // A cell fetches what follows its weights in memory, which is not what the next rows
            // read of some terms alone.
            for row in i + R..(i + 2 * R).min(self.m) {
                for term in (terms.0..terms.1).step_by(16) {
                    isa.fetch(self.w.as_ptr().wrapping_add(row * self.k + term));
                }
            }
        }
        let mut at = j.0;
        while at < j.1 {
            let left = j.1 - at;
            // SAFETY: as the caller guarantees; a cell accesses only the given number of columns.
            unsafe {
                if left >= NP * 16 {
                    self.cell::<I, R, NP, true>(isa, (i, at), NP * 16, terms, &rows);
                } else if left > 16 && left > (NP - 1) * 16 {
                    self.cell::<I, R, NP, false>(isa, (i, at), left, terms, &rows);
                } else {
                    self.cell::<I, R, 1, false>(isa, (i, at), left.min(16), terms, &rows);
                }
            }
            at += if left > (NP - 1) * 16 { NP * 16 } else { 16 };
        }
        if let Some(act) = self.later.filter(|_| terms.1 == self.k) {
            for row in rows {
                // SAFETY: these columns of the row were written.
                act.apply(unsafe { std::slice::from_raw_parts_mut(row.wrapping_add(j.0), j.1 - j.0) });
            }
        }
        R
    }

    /// Computes `R` rows beginning at `i` and `width` columns beginning at `j`, in `N` vectors. The
    /// last vector may be partial unless `FULL`.
    ///
    /// # Safety
    /// Rows and columns must be those of the operands.
    #[inline(always)]
    unsafe fn cell<I: Isa, const R: usize, const N: usize, const FULL: bool>(
        &self,
        isa: I,
        (i, j): (usize, usize),
        width: usize,
        (from, to): (usize, usize),
        rows: &[*mut f32; R],
    ) {
        let last = isa.lanes(0, width - (N - 1) * 16);
        let mut acc = [[isa.splat(0.0); N]; R];
        if from > 0 {
            for (row, sums) in rows.iter().zip(&mut acc) {
                for (p, v) in sums.iter_mut().enumerate() {
                    let at = row.wrapping_add(j + p * 16);
                    // SAFETY: columns of a row of the result, where the earlier terms have left
                    // their sums.
                    *v = unsafe { load(isa, at, FULL || p + 1 < N, last) };
                }
            }
        }
        let mut b = self.x.as_ptr().wrapping_add(from * self.x_step + j);
        let mut weights = Rows::<f32, R>::of(self.w.as_ptr().wrapping_add(i * self.k + from), self.k);
        // The weights of the next rows are fetched, a little with each step.
        let mut ahead = self.w.as_ptr().wrapping_add((i + R) * self.k + R * from);
        for _ in 0..(to - from) / STEPS {
            weights.hide();
            for step in 0..STEPS {
                // SAFETY: these columns are in the input, and these terms in the weights.
                unsafe { add_step::<I, R, N, FULL>(isa, b, last, &weights, step, &mut acc) };
                b = b.wrapping_add(self.x_step);
                isa.fetch(ahead.wrapping_add(step * R));
            }
            weights.advance(STEPS);
            ahead = ahead.wrapping_add(STEPS * R);
        }
        for step in 0..(to - from) % STEPS {
            // SAFETY: as above.
            unsafe { add_step::<I, R, N, FULL>(isa, b, last, &weights, step, &mut acc) };
            b = b.wrapping_add(self.x_step);
        }
        if to < self.k {
            for (row, sums) in rows.iter().zip(acc) {
                for (p, v) in sums.into_iter().enumerate() {
                    let at = row.wrapping_add(j + p * 16);
                    // SAFETY: as above.
                    unsafe { store(isa, v, at, FULL || p + 1 < N, last) };
                }
            }
            return;
        }
        let (low, high) = (isa.splat(self.limits.0), isa.splat(self.limits.1));
        for (r, row) in acc.into_iter().enumerate() {
            // Adding -0.0 changes nothing, not even the sign of zero.
            let shift = isa.splat(self.bias.map_or(-0.0, |b| b[i + r]));
            for (p, v) in row.into_iter().enumerate() {
                let at = j + p * 16;
                let all = FULL || p + 1 < N;
                let v = if self.alpha == 1.0 { v } else { isa.fma(v, isa.splat(self.alpha), isa.splat(-0.0)) };
                let mut v = isa.add(v, shift);
                // SAFETY: columns of row `i + r` of the residual and of the result, which has as
                // many rows.
                unsafe {
                    if let Some((other, step, factor)) = self.residual {
                        let from = other.as_ptr().wrapping_add((i + r) * step + at);
                        let other = load(isa, from, all, last);
                        v = isa.fma(other, isa.splat(factor), v);
                    }
                    v = isa.at_most(isa.at_least(v, low), high);
                    store(isa, v, rows[r].wrapping_add(at), all, last);
                }
            }
        }
    }
}

/// Adds the products of one term, `step` terms after the addresses of `weights`, to `acc`. `b` is
/// where its columns begin.
///
/// # Safety
/// The columns must be those of a row of the input, and the weights those of `R` rows.
#[inline(always)]
unsafe fn add_step<I: Isa, const R: usize, const N: usize, const FULL: bool>(
    isa: I,
    b: *const f32,
    last: I::M,
    weights: &Rows<f32, R>,
    step: usize,
    acc: &mut [[I::V; N]; R],
) {
    let mut col = [isa.splat(0.0); N];
    for (p, v) in col.iter_mut().enumerate() {
        // SAFETY: as the caller guarantees.
        *v = unsafe { load(isa, b.wrapping_add(p * 16), FULL || p + 1 < N, last) };
    }
    // SAFETY: as the caller guarantees.
    unsafe { weights.add_products(isa, step, col, acc) };
}

/// Loads sixteen columns, or only those in `some` unless `all`.
///
/// # Safety
/// These columns must be readable.
#[inline(always)]
unsafe fn load<I: Isa>(isa: I, from: *const f32, all: bool, some: I::M) -> I::V {
    // SAFETY: as the caller guarantees.
    unsafe { if all { isa.load(&*from.cast()) } else { isa.load_some(from, some) } }
}

/// Stores sixteen columns, or only those in `some` unless `all`.
///
/// # Safety
/// These columns must be writable.
#[inline(always)]
unsafe fn store<I: Isa>(isa: I, v: I::V, to: *mut f32, all: bool, some: I::M) {
    // SAFETY: as the caller guarantees.
    unsafe { if all { isa.store(v, &mut *to.cast()) } else { isa.store_some(v, to, some) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(k: usize, m: usize) -> ConvSpec {
        ConvSpec::square(1, [k, m], 1, 1)
    }

    #[test]
    fn strips_divide_the_positions_alike() {
        for side in (24..=320).step_by(4) {
            let positions = side * side;
            let (width, channels) = strip(&spec(64, 96), positions).expect("a large image");
            assert!(width.is_multiple_of(32) && channels.is_multiple_of(12), "{positions}: {width}, {channels}");
            let strips = positions.div_ceil(width);
            assert!(strips * 96usize.div_ceil(channels) >= UNITS / 2, "{positions}: {strips} of {channels}");
            // Two threads begin at either end.
            let (front, back) = (strips / 2 * width, positions - strips / 2 * width);
            let other = (strips.div_ceil(2) * width, positions - (strips.div_ceil(2) * width).min(positions));
            let longer = front.max(back).min(other.0.max(other.1));
            assert!(longer * 100 <= positions * 57, "{positions}: strips of {width}, {longer}");
        }
        let wide = strip(&spec(64, 96), 1 << 40).expect("a large image");
        assert!(wide.0.is_multiple_of(32) && wide.0 <= 1 << 38);
        assert_eq!(strip(&ConvSpec { batch: 0, ..spec(64, 96) }, 1024), Some((256, 24)));
        let none = |k, m, positions| strip(&spec(k, m), positions).is_none();
        assert!(none(64, 96, 196) && none(64, 96, 33 * 33) && none(512, 1024, 64 * 64));
    }

    #[test]
    fn units_divide_the_channels_alike() {
        for m in (8..=1280).step_by(4) {
            let r = rows(&spec(48, m), 196).expect("channels enough");
            assert!((4..=m.next_multiple_of(12)).contains(&r), "{m}: {r}");
            // Two threads begin at either end.
            let mut units: std::collections::VecDeque<usize> = (0..m).step_by(r).map(|at| r.min(m - at)).collect();
            let mut ends = [0, 0];
            while let Some(unit) = if ends[0] <= ends[1] { units.pop_front() } else { units.pop_back() } {
                ends[usize::from(ends[0] > ends[1])] += unit;
            }
            let longer = ends[0].max(ends[1]);
            assert!(m < 64 || longer * 100 <= m * 56, "{m}: units of {r}, {ends:?}");
        }
    }
}
