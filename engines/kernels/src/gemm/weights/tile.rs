//! The sums of some rows and a panel, in registers.
use super::{Columns, PANEL};
use crate::simd::isa::{Isa, Work};

/// The sums of some rows and a panel.
pub(super) struct Tile<'a, S> {
    /// The rows, `k` numbers each; more than [`FEW`] are laid out by [`in_pieces`].
    pub x1: &'a [f32],
    pub k: usize,
    pub group: usize,
    pub panel: &'a [[u8; PANEL]],
    pub scale: Columns<'a>,
    pub offset: Option<Columns<'a>>,
    pub sums: &'a mut [[f32; PANEL]],
    pub stored: S,
}

/// How the rows of a panel are stored.
pub(super) trait Stored: Copy {
    /// Rows `k` and `k + 1`; `k` is even or weights are whole bytes.
    fn two<I: Isa>(self, isa: I, panel: &[[u8; PANEL]], k: usize) -> [I::V; 2];
    /// Row `k` alone.
    fn one<I: Isa>(self, isa: I, panel: &[[u8; PANEL]], k: usize) -> I::V;
}

/// A signed byte for each number.
#[derive(Clone, Copy)]
pub(super) struct Bytes;

impl Stored for Bytes {
    #[inline(always)]
    fn two<I: Isa>(self, isa: I, panel: &[[u8; PANEL]], k: usize) -> [I::V; 2] {
        [self.one(isa, panel, k), self.one(isa, panel, k + 1)]
    }
    #[inline(always)]
    fn one<I: Isa>(self, isa: I, panel: &[[u8; PANEL]], k: usize) -> I::V {
        isa.load(&panel[k].map(|v| f32::from(v as i8)))
    }
}

/// Four bits for each number, two rows in a line.
#[derive(Clone, Copy)]
pub(super) struct Halves;

/// Bits of 2^23: an integer below 16 in the last bits adds itself.
const LOW: u32 = 0x4B00_0000;
/// Bits of 2^19: here an integer below 16, four bits further up, adds itself.
const HIGH: u32 = 0x4900_0000;
/// What is to be taken off, with the eight that was added.
const LOW_ZERO: f32 = -(8_388_608.0 + 8.0);
const HIGH_ZERO: f32 = -(524_288.0 + 8.0);

impl Stored for Halves {
    #[inline(always)]
    fn two<I: Isa>(self, isa: I, panel: &[[u8; PANEL]], k: usize) -> [I::V; 2] {
        let high = panel[k / 2].map(|v| f32::from_bits(u32::from(v & 0xF0) | HIGH));
        [self.one(isa, panel, k), isa.add(isa.load(&high), isa.splat(HIGH_ZERO))]
    }
    #[inline(always)]
    fn one<I: Isa>(self, isa: I, panel: &[[u8; PANEL]], k: usize) -> I::V {
        let low = panel[k / 2].map(|v| f32::from_bits(u32::from(v & 15) | LOW));
        isa.add(isa.load(&low), isa.splat(LOW_ZERO))
    }
}

/// Most rows of `x1` that read weights straight from the panel. More rows read them widened.
pub(super) const FEW: usize = 4;
/// Number of rows of a panel that are widened at a time; even.
const AT_HAND: usize = 128;
/// Distance between rows of `x1` in a piece. It is no multiple of a page: rows whose distance is
/// one would take the same few places of the first-level cache.
const APART: usize = AT_HAND + 16;

/// Length of rows that are laid out in pieces.
pub(super) fn pieces_len(rows: usize, k: usize) -> usize {
    k.div_ceil(AT_HAND) * rows * APART
}

/// Lays out rows of `k` numbers in pieces of [`AT_HAND`] numbers of all rows.
pub(super) fn in_pieces(x1: &[f32], rows: usize, k: usize, to: &mut [f32]) {
    for (piece, from) in to.chunks_exact_mut(rows * APART).zip((0..k).step_by(AT_HAND)) {
        let len = AT_HAND.min(k - from);
        for (r, to) in piece.chunks_exact_mut(APART).enumerate() {
            to[..len].copy_from_slice(&x1[r * k + from..][..len]);
        }
    }
}

impl<S: Stored> Work for Tile<'_, S> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(mut self, isa: I) {
        // As many rows as registers hold: a sum takes one register or two.
        let (few, many) = if MR == 12 { (FEW, 16) } else { (2, 6) };
        if self.sums.len() > FEW {
            return self.widened(isa, many);
        }
        let mut first = 0;
        while first < self.sums.len() {
            first += match (self.sums.len() - first).min(few) {
                4.. => self.straight::<I, 4>(isa, first),
                2.. => self.straight::<I, 2>(isa, first),
                _ => self.straight::<I, 1>(isa, first),
            };
        }
    }
}

impl<S: Stored> Tile<'_, S> {
    /// The sums of `R` rows: those of a group grow in two parts, of even and of odd rows of weights,
    /// and are scaled once. It returns `R`.
    #[inline(always)]
    fn straight<I: Isa, const R: usize>(&mut self, isa: I, first: usize) -> usize {
        for (g, from) in (0..self.k).step_by(self.group).enumerate() {
            let part = from..(from + self.group).min(self.k);
            let lines: [&[f32]; R] = std::array::from_fn(|r| &self.x1[(first + r) * self.k..][part.clone()]);
            let own = match &self.offset {
                None => sums::<I, S, R, false>(isa, self.stored, self.panel, from, lines, isa.splat(0.0)),
                Some(o) => {
                    let less = isa.load(&o.of(g).map(|v| -v));
                    sums::<I, S, R, true>(isa, self.stored, self.panel, from, lines, less)
                }
            };
            let scale = isa.load(&self.scale.of(g));
            for (own, to) in own.into_iter().zip(&mut self.sums[first..]) {
                let all = isa.fma(own, scale, isa.load(to));
                isa.store(all, to);
            }
        }
        R
    }

    /// The sums of all rows, at most `most` at a time, over weights that are widened and scaled a
    /// piece of the panel at a time.
    #[inline(always)]
    fn widened<I: Isa>(&mut self, isa: I, most: usize) {
        let mut weights = [[0.0; PANEL]; AT_HAND];
        let pieces = self.x1.chunks_exact(self.sums.len() * APART);
        for (from, piece) in (0..self.k).step_by(AT_HAND).zip(pieces) {
            let weights = &mut weights[..AT_HAND.min(self.k - from)];
            self.widen(isa, from, weights);
            let mut first = 0;
            while first < self.sums.len() {
                let x1 = piece[first * APART..].as_chunks().0;
                let sums = &mut self.sums[first..];
                first += match sums.len().min(most) {
                    16.. => rows::<I, 16>(isa, x1, weights, sums),
                    8.. => rows::<I, 8>(isa, x1, weights, sums),
                    6.. => rows::<I, 6>(isa, x1, weights, sums),
                    4.. => rows::<I, 4>(isa, x1, weights, sums),
                    2.. => rows::<I, 2>(isa, x1, weights, sums),
                    _ => rows::<I, 1>(isa, x1, weights, sums),
                };
            }
        }
    }

    /// Rows of the panel as numbers, from row `from` on, which is even.
    #[inline(always)]
    fn widen<I: Isa>(&self, isa: I, from: usize, to: &mut [[f32; PANEL]]) {
        let end = from + to.len();
        let mut k = from;
        while k < end {
            let g = k / self.group;
            let scale = isa.load(&self.scale.of(g));
            let less = isa.load(&self.offset.map_or([0.0; PANEL], |o| o.of(g).map(|v| -v)));
            let part = &mut to[k - from..((g + 1) * self.group).min(end) - from];
            let (pairs, last) = part.as_chunks_mut::<2>();
            for (p, pair) in pairs.iter_mut().enumerate() {
                let [even, odd] = self.stored.two(isa, self.panel, k + 2 * p);
                isa.store(isa.mul(isa.add(even, less), scale), &mut pair[0]);
                isa.store(isa.mul(isa.add(odd, less), scale), &mut pair[1]);
            }
            if let [last] = last {
                let row = self.stored.one(isa, self.panel, k + 2 * pairs.len());
                isa.store(isa.mul(isa.add(row, less), scale), last);
            }
            k += part.len();
        }
    }
}

/// Adds the products of the first `R` rows of a piece and some weights. It returns `R`.
#[inline(always)]
fn rows<I: Isa, const R: usize>(
    isa: I,
    x1: &[[f32; APART]],
    weights: &[[f32; PANEL]],
    sums: &mut [[f32; PANEL]],
) -> usize {
    let (lines, sums) = (&x1[..R], &mut sums[..R]);
    // A loop: a closure that loads would be called for each row.
    let mut own = [isa.splat(0.0); R];
    for (own, sums) in own.iter_mut().zip(&*sums) {
        *own = isa.load(sums);
    }
    for (i, w) in weights.iter().enumerate().take(AT_HAND) {
        let w = isa.load(w);
        for (sum, line) in own.iter_mut().zip(lines) {
            *sum = isa.fma(isa.splat(line[i]), w, *sum);
        }
    }
    for (sum, to) in own.into_iter().zip(sums) {
        isa.store(sum, to);
    }
    R
}

/// The sums of a group of weights from row `from` on. If they are `SHIFTED`, `by` is added to each.
#[inline(always)]
fn sums<I: Isa, S: Stored, const R: usize, const SHIFTED: bool>(
    isa: I,
    stored: S,
    panel: &[[u8; PANEL]],
    from: usize,
    lines: [&[f32]; R],
    by: I::V,
) -> [I::V; R] {
    let mut own = [[isa.splat(0.0); 2]; R];
    let count = lines.first().map_or(0, |l| l.len());
    let pairs = lines.map(|l| &l[..count].as_chunks::<2>().0[..count / 2]);
    for p in 0..count / 2 {
        let [mut even, mut odd] = stored.two(isa, panel, from + 2 * p);
        if SHIFTED {
            (even, odd) = (isa.add(even, by), isa.add(odd, by));
        }
        for (sum, x) in own.iter_mut().zip(&pairs) {
            sum[0] = isa.fma(isa.splat(x[p][0]), even, sum[0]);
            sum[1] = isa.fma(isa.splat(x[p][1]), odd, sum[1]);
        }
    }
    if !count.is_multiple_of(2) {
        let mut last = stored.one(isa, panel, from + count - 1);
        if SHIFTED {
            last = isa.add(last, by);
        }
        for (sum, x) in own.iter_mut().zip(&lines) {
            sum[0] = isa.fma(isa.splat(x[count - 1]), last, sum[0]);
        }
    }
    own.map(|[even, odd]| isa.add(even, odd))
}
