//! Products of real numbers and weights of eight or four bits: `x1 · ((x2 - offset) · scale)`, where
//! each column has one scale and one offset for all rows or for each group of rows. Weights are
//! widened on the way into the register tile; if there are more than a few rows, some hundred of
//! them are widened at a time for all rows. Sums grow by fused multiply-adds in the same order on
//! every instruction set and for every division of the work.
mod pack;
mod tile;

pub use pack::{pack_bytes, pack_halves};

use super::epilogue::Epilogue;
use crate::scratch::with_scratch;
use crate::simd::isa::{PanelElem, dispatch};
use crate::view::Out;
use std::ops::Range;
use tile::{Bytes, FEW, Halves, Tile, in_pieces, pieces_len};

/// Columns of a panel.
pub const PANEL: usize = 16;
/// Rows of a unit; with enough units, weights are widened once for more of them.
const ROWS: usize = 16;
const MANY_ROWS: usize = 64;
/// Most panels of a unit, and the number of units that keeps several cores busy.
const PANELS: usize = 4;
const WANTED: usize = 32;

/// How weights are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bits {
    /// Signed bytes, in panels `[ceil(n / 16), k, 16]` ([`pack_bytes`]).
    Eight,
    /// Numbers from -8 to 7, in panels `[ceil(n / 16), ceil(k / 2), 16]` of bytes ([`pack_halves`]).
    Four,
}

impl Bits {
    /// Number of lines of sixteen bytes in a panel of `k` rows.
    pub fn lines(self, k: usize) -> usize {
        match self {
            Bits::Eight => k,
            Bits::Four => k.div_ceil(2),
        }
    }
}

/// The plan of a product of an `m` x `k` and a `k` x `n` matrix. A unit is some rows by some
/// panels.
#[derive(Clone, Copy, Debug)]
pub struct WeightProduct {
    m: usize,
    n: usize,
    k: usize,
    /// Rows of weights with the same scales; at least 1.
    group: usize,
    bits: Bits,
    /// Rows and panels of a unit.
    rows: usize,
    panels: usize,
}

/// The weights of a product.
#[derive(Clone, Copy, Debug)]
pub struct Weights<'a> {
    /// The panels.
    pub panels: &'a [u8],
    /// Scales `[groups, n]`.
    pub scale: &'a [f32],
    /// Offsets `[groups, n]`, if there are any.
    pub offset: Option<&'a [f32]>,
}

impl WeightProduct {
    /// Makes a plan for these sizes. Each `group` rows of weights have their own scales; 0 stands
    /// for all rows. `None` if the groups of weights of four bits begin within a byte.
    pub fn new([m, n, k]: [usize; 3], group: usize, bits: Bits) -> Option<WeightProduct> {
        let group = if group == 0 { k.max(1) } else { group };
        if bits == Bits::Four && group < k && !group.is_multiple_of(2) {
            return None;
        }
        let enough = m.div_ceil(MANY_ROWS) * n.div_ceil(PANEL) >= WANTED;
        let rows = if m >= MANY_ROWS && enough { MANY_ROWS } else { ROWS };
        let panels = (m.div_ceil(rows) * n.div_ceil(PANEL) / WANTED).clamp(1, PANELS);
        Some(WeightProduct { m, n, k, group, bits, rows, panels })
    }

    /// Number of groups of rows.
    pub fn groups(&self) -> usize {
        self.k.div_ceil(self.group)
    }

    fn blocks(&self) -> usize {
        self.n.div_ceil(PANEL * self.panels)
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        self.m.div_ceil(self.rows) * self.blocks()
    }

    /// Number of multiply-adds.
    pub fn work(&self) -> u64 {
        (self.m as u64).saturating_mul(self.n as u64).saturating_mul(self.k as u64)
    }

    /// Does the units `units`: multiplies `x1` with the weights and applies the epilogue.
    pub fn run<T: PanelElem>(
        &self,
        units: Range<usize>,
        x1: &[T],
        w: &Weights<'_>,
        follow: &Epilogue<'_, T>,
        out: &mut Out<'_, T>,
    ) {
        let single = T::singles(x1);
        let [wide, pieces] = [
            if single.is_some() { 0 } else { self.rows * self.k },
            if self.m > FEW { pieces_len(self.rows, self.k) } else { 0 },
        ];
        with_scratch(wide + pieces, |memory| {
            let (wide, pieces) = memory.split_at_mut(wide);
            let mut held = usize::MAX;
            for unit in units {
                let row = unit / self.blocks();
                let (first, rows) = (row * self.rows * self.k, self.rows.min(self.m - row * self.rows));
                if row != held {
                    held = row;
                    wide.iter_mut().zip(&x1[first..]).for_each(|(w, x)| *w = x.wide());
                    if rows > FEW {
                        let own = single.map_or(&*wide, |x1| &x1[first..]);
                        in_pieces(own, rows, self.k, pieces);
                    }
                }
                let own = if rows > FEW {
                    &pieces[..pieces_len(rows, self.k)]
                } else {
                    single.map_or(&*wide, |x1| &x1[first..])
                };
                self.unit(unit, own, w, follow, out);
            }
        });
    }

    /// Does one unit, whose rows begin at the front of `x1`; more than [`FEW`] rows are in pieces.
    fn unit<T: PanelElem>(
        &self,
        unit: usize,
        x1: &[f32],
        w: &Weights<'_>,
        follow: &Epilogue<'_, T>,
        out: &mut Out<'_, T>,
    ) {
        let (first, block) = (unit / self.blocks() * self.rows, unit % self.blocks());
        let rows = self.rows.min(self.m - first);
        let lines = self.bits.lines(self.k);
        let end = ((block + 1) * self.panels).min(self.n.div_ceil(PANEL));
        for p in block * self.panels..end {
            let mut sums = [[0.0; PANEL]; MANY_ROWS];
            let (from, end) = (p * PANEL, ((p + 1) * PANEL).min(self.n));
            let panel = w.panels[p * lines * PANEL..][..lines * PANEL].as_chunks::<PANEL>().0;
            let scale = Columns { values: w.scale, n: self.n, from };
            let offset = w.offset.map(|values| Columns { values, n: self.n, from });
            let (k, group, sums) = (self.k, self.group, &mut sums[..rows]);
            match self.bits {
                Bits::Eight => dispatch(Tile { x1, k, group, panel, scale, offset, sums, stored: Bytes }),
                Bits::Four => dispatch(Tile { x1, k, group, panel, scale, offset, sums, stored: Halves }),
            }
            for (r, row) in sums.iter_mut().enumerate() {
                let row = &mut row[..end - from];
                follow.finish(row, first + r, from, out, (first + r) * self.n + from);
            }
        }
    }
}

/// The numbers of a panel's columns in each row of a matrix with `n` columns.
#[derive(Clone, Copy, Debug)]
struct Columns<'a> {
    values: &'a [f32],
    n: usize,
    from: usize,
}

impl Columns<'_> {
    /// Those of row `i`; zeros for columns beyond the matrix.
    #[inline(always)]
    fn of(&self, i: usize) -> [f32; PANEL] {
        let row = &self.values[i * self.n..(i + 1) * self.n];
        let row = &row[self.from..];
        row.first_chunk::<PANEL>().copied().unwrap_or_else(|| {
            let mut some = [0.0; PANEL];
            some.iter_mut().zip(row).for_each(|(s, v)| *s = *v);
            some
        })
    }
}

#[cfg(test)]
mod tests;
