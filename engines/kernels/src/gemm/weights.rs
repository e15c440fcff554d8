//! Products of singles and weights of signed bytes with one scale per column: `x1 · x2 · scale`.
//! Bytes are widened on the way into the register tile. Sums grow by fused multiply-adds in the
//! order of k, on every instruction set and for every division of the work, and are scaled once.
use super::epilogue::Epilogue;
use crate::simd::isa::{Isa, Work, dispatch};
use crate::view::Out;
use std::ops::Range;

/// Columns of a panel.
pub const PANEL: usize = 16;
/// Rows of a unit.
const ROWS: usize = 16;

/// The plan of a product of an `m` x `k` and a `k` x `n` matrix. A unit is sixteen rows by a panel.
#[derive(Clone, Copy, Debug)]
pub struct WeightProduct {
    m: usize,
    n: usize,
    k: usize,
}

/// Packs a row-major matrix `[k, n]` of bytes into panels `[ceil(n / 16), k, 16]`; columns beyond
/// `n` are zero.
pub fn pack_weights(x2: &[i8], k: usize, n: usize) -> Vec<i8> {
    let mut panels = vec![0; n.div_ceil(PANEL) * k * PANEL];
    for (p, panel) in panels.chunks_exact_mut((k * PANEL).max(1)).enumerate() {
        let columns = p * PANEL..((p + 1) * PANEL).min(n);
        for (row, to) in panel.as_chunks_mut::<PANEL>().0.iter_mut().enumerate() {
            to[..columns.len()].copy_from_slice(&x2[row * n + columns.start..row * n + columns.end]);
        }
    }
    panels
}

impl WeightProduct {
    /// Makes a plan for these sizes.
    pub fn new(m: usize, n: usize, k: usize) -> WeightProduct {
        WeightProduct { m, n, k }
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        self.m.div_ceil(ROWS) * self.n.div_ceil(PANEL)
    }

    /// Number of multiply-adds.
    pub fn work(&self) -> u64 {
        (self.m as u64).saturating_mul(self.n as u64).saturating_mul(self.k as u64)
    }

    /// Does the units `units`: multiplies `x1` with the panels, scales each column, and applies the
    /// epilogue.
    pub fn run(
        &self,
        units: Range<usize>,
        (x1, panels, scale): (&[f32], &[i8], &[f32]),
        follow: &Epilogue<'_, f32>,
        out: &mut Out<'_, f32>,
    ) {
        let (k, each) = (self.k, self.n.div_ceil(PANEL));
        for unit in units {
            let (first, p) = (unit / each * ROWS, unit % each);
            let rows = ROWS.min(self.m - first);
            let mut sums = [[0.0; PANEL]; ROWS];
            let panel = panels[p * k * PANEL..][..k * PANEL].as_chunks::<PANEL>().0;
            dispatch(Tile { x1: &x1[first * k..(first + rows) * k], panel, sums: &mut sums[..rows] });
            let (from, end) = (p * PANEL, ((p + 1) * PANEL).min(self.n));
            for (r, row) in sums[..rows].iter_mut().enumerate() {
                let row = &mut row[..end - from];
                row.iter_mut().zip(&scale[from..end]).for_each(|(v, s)| *v *= s);
                follow.finish(row, first + r, from, out, (first + r) * self.n + from);
            }
        }
    }
}

/// The sums of some rows and a panel.
struct Tile<'a> {
    x1: &'a [f32],
    panel: &'a [[i8; PANEL]],
    sums: &'a mut [[f32; PANEL]],
}

impl Work for Tile<'_> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        // As many rows as registers hold: sixteen if a row takes one register, otherwise six.
        let most = if MR == 12 { ROWS } else { 6 };
        let (k, mut first) = (self.panel.len(), 0);
        while first < self.sums.len() {
            let left = (self.sums.len() - first).min(most);
            let x1 = &self.x1[first * k..];
            let sums = &mut self.sums[first..];
            first += match left {
                16.. => rows::<I, 16>(isa, x1, self.panel, sums),
                8.. => rows::<I, 8>(isa, x1, self.panel, sums),
                6.. => rows::<I, 6>(isa, x1, self.panel, sums),
                4.. => rows::<I, 4>(isa, x1, self.panel, sums),
                2.. => rows::<I, 2>(isa, x1, self.panel, sums),
                _ => rows::<I, 1>(isa, x1, self.panel, sums),
            };
        }
    }
}

/// The sums of `R` rows. It returns `R`.
#[inline(always)]
fn rows<I: Isa, const R: usize>(isa: I, x1: &[f32], panel: &[[i8; PANEL]], sums: &mut [[f32; PANEL]]) -> usize {
    let k = panel.len();
    let lines: [&[f32]; R] = std::array::from_fn(|r| &x1[r * k..(r + 1) * k]);
    let mut own = [isa.splat(0.0); R];
    for (i, weights) in panel.iter().enumerate() {
        let w = isa.load(&weights.map(f32::from));
        for (sum, line) in own.iter_mut().zip(&lines) {
            *sum = isa.fma(isa.splat(line[i]), w, *sum);
        }
    }
    for (sum, to) in own.into_iter().zip(sums) {
        isa.store(sum, to);
    }
    R
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::Bias;
    use crate::simd::{Act, Level, with_level};
    use crate::view::block_range;

    #[test]
    fn products_of_every_size_agree_with_sums_in_double_precision() {
        for (m, n, k) in [(1, 1, 1), (1, 40, 7), (3, 16, 64), (5, 17, 33), (16, 48, 384), (23, 31, 5), (40, 20, 0)] {
            let x1: Vec<f32> = (0..m * k).map(|i| ((i * 37 + 11) % 101) as f32 / 50.0 - 1.0).collect();
            let x2: Vec<i8> = (0..k * n).map(|i| (i * 29 % 255) as u8 as i8).collect();
            let scale: Vec<f32> = (0..n).map(|j| 0.01 + j as f32 / 1000.0).collect();
            let bias: Vec<f32> = (0..n).map(|j| j as f32).collect();
            let residual: Vec<f32> = (0..m * n).map(|i| (i % 7) as f32).collect();
            let follow = Epilogue {
                alpha: 1.0,
                bias: Bias::PerColumn(&bias),
                residual: Some((&residual[..], 1.0)),
                act: Act::Relu,
            };
            let panels = pack_weights(&x2, k, n);
            let plan = WeightProduct::new(m, n, k);
            let made = |blocks: usize| {
                let mut y = vec![f32::NAN; m * n];
                for b in 0..blocks {
                    let units = block_range(plan.units(), b, blocks);
                    plan.run(units, (&x1, &panels, &scale), &follow, &mut Out::new(&mut y));
                }
                y
            };
            let got = made(1);
            for (at, g) in got.iter().enumerate() {
                let (i, j) = (at / n, at % n);
                let sum: f64 = (0..k).map(|l| f64::from(x1[i * k + l]) * f64::from(x2[l * n + j])).sum();
                let want = (sum * f64::from(scale[j]) + f64::from(bias[j]) + f64::from(residual[at])).max(0.0);
                assert!((f64::from(*g) - want).abs() <= 1e-4 * want.abs().max(1.0), "{m} {n} {k} {at}: {g} for {want}");
            }
            assert_eq!(made(3), got);
            for level in Level::available() {
                assert_eq!(with_level(level, || made(2)), got, "{level:?} {m} {n} {k}");
            }
        }
    }

    #[test]
    fn what_is_no_number_stays_in_its_row() {
        let mut x1 = vec![1.0f32; 3 * 4];
        x1[5] = f32::NAN;
        let panels = pack_weights(&[1; 4 * 2], 4, 2);
        let mut y = [0.0; 6];
        WeightProduct::new(3, 2, 4).run(0..1, (&x1, &panels, &[1.0; 2]), &Epilogue::default(), &mut Out::new(&mut y));
        assert!(y[0] == 4.0 && y[2].is_nan() && y[3].is_nan() && y[5] == 4.0);
    }
}
