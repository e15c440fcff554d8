//! A product of positions by channels. Rows of the first operand are gathered from x sixteen
//! elements at a time, as img2col does on the way to the cube unit. Blocks of the filter are
//! transposed once per tile. A column panel of the result is one group of output channels.
use super::{Group, LANES, bias_of, finish};
use crate::conv::spec::{ConvError, ConvSpec};
use crate::gemm::micro::{Left, Strided, tile};
use crate::gemm::pack::{A_STRIDE, KC};
use crate::gemm::{Bias, Epilogue};
use crate::scratch::with_scratch;
use crate::shrink::shrink;
use crate::simd::isa::{Isa, PanelElem, Work, dispatch};
use crate::view::Out;
use std::ops::Range;

/// Most positions of a tile; a multiple of every register tile.
const ROWS: usize = 192;
/// Most groups of output channels of a tile.
const PANELS: usize = 16;
/// Number of tiles that keeps the cores of a device busy, if there is enough work.
const WANTED: usize = 24;
/// Steps of K that are computed at a time. A step is one tap of one group of input channels.
const STEPS: usize = KC / LANES;

/// A planned dense convolution with one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CubeConv {
    spec: ConvSpec,
    out: [usize; 3],
    /// Positions and groups of output channels of a tile.
    tile: [usize; 2],
}

impl CubeConv {
    /// Makes a plan.
    ///
    /// # Errors
    /// Fails if the sizes are wrong ([`ConvSpec::check`]). Returns `Cube` for more than one group,
    /// a third spatial axis or a transposed convolution.
    pub fn new(spec: &ConvSpec) -> Result<CubeConv, ConvError> {
        spec.check()?;
        if spec.groups != 1 || spec.transposed.is_some() || spec.input[0] != 1 || spec.kernel[0] != 1 {
            return Err(ConvError::Cube);
        }
        let mut plan = CubeConv { spec: spec.clone(), out: spec.output()?, tile: [ROWS, PANELS] };
        let (positions, groups) = (plan.positions(), plan.groups_out());
        let t = [ROWS.min(positions.next_multiple_of(12)).max(12), PANELS.min(groups).max(1)];
        let enough = |t: [usize; 2]| {
            let tiles = [spec.batch, positions.div_ceil(t[0]), groups.div_ceil(t[1])];
            tiles.into_iter().fold(1usize, usize::saturating_mul) >= WANTED
        };
        plan.tile = shrink(t, enough, |t| match t {
            [r, p] if p >= 8 => Some([r, p.div_ceil(2)]),
            [r, p] if r >= 96 => Some([(r / 2).next_multiple_of(12), p]),
            [r, p] if p >= 4 => Some([r, p.div_ceil(2)]),
            _ => None,
        });
        Ok(plan)
    }

    /// The same plan with other tiles. For tests: the result does not depend on them.
    pub fn with_tile(mut self, rows: usize, panels: usize) -> CubeConv {
        self.tile = [rows.clamp(1, ROWS), panels.max(1)];
        self
    }

    /// Spatial sizes of the output.
    pub fn output(&self) -> [usize; 3] {
        self.out
    }

    fn positions(&self) -> usize {
        self.out.iter().product()
    }

    fn groups_in(&self) -> usize {
        self.spec.channels_in.div_ceil(LANES)
    }

    fn groups_out(&self) -> usize {
        self.spec.channels_out.div_ceil(LANES)
    }

    /// Number of tiles, which are the units of work.
    pub fn units(&self) -> usize {
        self.spec.batch * self.positions().div_ceil(self.tile[0]) * self.groups_out().div_ceil(self.tile[1])
    }

    /// Multiply-adds, including those of lanes beyond the channels.
    pub fn work(&self) -> u64 {
        let (channels, outputs) = (self.groups_in() * LANES, self.groups_out() * LANES);
        let all = [self.spec.batch, self.positions(), channels, self.spec.taps(), outputs];
        all.into_iter().fold(1u64, |a, b| a.saturating_mul(b as u64))
    }

    /// Checks the lengths of the operands and of the result, once before any run.
    ///
    /// # Errors
    /// Returns `Short` with the name of the operand.
    pub fn check<T>(&self, x: usize, w: usize, out: usize, epilogue: &Epilogue<'_, T>) -> Result<(), ConvError> {
        let s = &self.spec;
        let need = |operand, has: usize, needs: usize| {
            if has < needs { Err(ConvError::Short { operand, has, needs }) } else { Ok(()) }
        };
        let total = s.batch * self.groups_out() * self.positions() * LANES;
        need("input", x, s.batch * self.groups_in() * s.input.iter().product::<usize>() * LANES)?;
        need("weights", w, self.groups_in() * s.taps() * self.groups_out() * LANES * LANES)?;
        need("output", out, total)?;
        if let Bias::PerRow(b) | Bias::PerColumn(b) = epilogue.bias {
            need("bias", b.len(), s.channels_out)?;
        }
        if let Some((r, _)) = epilogue.residual {
            need("residual", r.len(), total)?;
        }
        Ok(())
    }

    /// Computes the tiles `units`. The bias of the epilogue has one number per channel,
    /// [`Bias::PerRow`]; the residual has the layout of the output.
    ///
    /// # Errors
    /// Fails as [`CubeConv::check`] does.
    pub fn run<T: PanelElem>(
        &self,
        units: Range<usize>,
        x: &[T],
        w: &[T],
        epilogue: &Epilogue<'_, T>,
        out: &mut Out<'_, T>,
    ) -> Result<(), ConvError> {
        self.check(x.len(), w.len(), out.len(), epilogue)?;
        let [rows, panels] = self.tile;
        let (a, b) = (rows * A_STRIDE, panels * LANES * KC);
        with_scratch(a + b + rows * panels * LANES, |s| {
            let (sa, s) = s.split_at_mut(a);
            let (sb, sc) = s.split_at_mut(b);
            for unit in units.start..units.end.min(self.units()) {
                dispatch(Tile { plan: self, unit, x, w, epilogue, out, sa, sb, sc });
            }
        });
        Ok(())
    }
}

struct Tile<'p, 'a, 'o, T> {
    plan: &'p CubeConv,
    unit: usize,
    x: &'a [T],
    w: &'a [T],
    epilogue: &'p Epilogue<'a, T>,
    out: &'p mut Out<'o, T>,
    sa: &'p mut [f32],
    sb: &'p mut [f32],
    sc: &'p mut [f32],
}

impl<T: PanelElem> Work for Tile<'_, '_, '_, T> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let (c, s) = (self.plan, &self.plan.spec);
        let ([tm, tp], positions) = (c.tile, c.positions());
        let (groups_in, groups_out) = (c.groups_in(), c.groups_out());
        let blocks = groups_out.div_ceil(tp);
        let (rest, block) = (self.unit / blocks, self.unit % blocks);
        let strips = positions.div_ceil(tm);
        let (n, p0) = (rest / strips, rest % strips * tm);
        let m = (p0 + tm).min(positions) - p0;
        let (g0, g1) = (block * tp, (block * tp + tp).min(groups_out));
        let width = (g1 - g0) * LANES;
        // Where the window of each position begins. In a border this wraps around to values beyond
        // the input.
        let mut begins = [[0usize; 2]; ROWS];
        for (i, at) in begins[..m].iter_mut().enumerate() {
            let p = p0 + i;
            *at = [
                (p / c.out[2] * s.stride[1]).wrapping_sub(s.pad_before[1]),
                (p % c.out[2] * s.stride[2]).wrapping_sub(s.pad_before[2]),
            ];
        }
        let [_, high, wide] = s.input;
        let plane = high * wide * LANES;
        let x = &self.x[n * groups_in * plane..][..groups_in * plane];
        let [_, kh, kw] = s.kernel;
        let steps = groups_in * kh * kw;
        if steps == 0 {
            self.sc[..m * width].fill(0.0);
        }
        for k0 in (0..steps).step_by(STEPS) {
            let k1 = (k0 + STEPS).min(steps);
            let k = (k1 - k0) * LANES;
            for step in k0..k1 {
                let (c1, tap) = (step / (kh * kw), step % (kh * kw));
                let (dy, dx) = (tap / kw * s.dilation[1], tap % kw * s.dilation[2]);
                let image = &x[c1 * plane..][..plane];
                let lanes = image.as_chunks::<LANES>().0;
                let to = (step - k0) * LANES;
                for (at, row) in begins[..m].iter().zip(self.sa.chunks_exact_mut(A_STRIDE)) {
                    let (y, x) = (at[0].wrapping_add(dy), at[1].wrapping_add(dx));
                    let Some((to, _)) = row[to..].split_first_chunk_mut::<LANES>() else { continue };
                    let v = if y < high && x < wide { T::lanes(isa, &lanes[y * wide + x]) } else { isa.splat(0.0) };
                    isa.store(v, to);
                }
                for (p, g) in (g0..g1).enumerate() {
                    let from = &self.w[(step * groups_out + g) * LANES * LANES..][..LANES * LANES];
                    turn(isa, from, &mut self.sb[p * LANES * k + to * LANES..][..LANES * LANES]);
                }
            }
            let b = Strided { data: &*self.sb, row: LANES, panel: LANES * k };
            tile::<I, _, MR, NP, N4, N1>(isa, (m, width, k), Left::copied(self.sa), b, self.sc, width, k0 == 0);
        }
        let line = &mut self.sa[..m * LANES];
        for (p, g) in (g0..g1).enumerate() {
            let group = Group::new(g, s.channels_out);
            let bias = bias_of(group, self.epilogue);
            for (to, row) in line.as_chunks_mut::<LANES>().0.iter_mut().zip(self.sc.chunks_exact(width)) {
                let Some((row, _)) = row[p * LANES..].split_first_chunk::<LANES>() else { continue };
                isa.store(isa.add(isa.load(row), isa.load(&bias)), to);
            }
            let at = ((n * groups_out + g) * positions + p0) * LANES;
            finish(line, group, self.epilogue, self.out, at);
        }
    }
}

/// Transposes and widens a sixteen-by-sixteen block: four times, the rows of its two halves are
/// interleaved.
#[inline(always)]
fn turn<I: Isa, T: PanelElem>(isa: I, from: &[T], to: &mut [f32]) {
    let mut rows = [[0.0f32; LANES]; LANES];
    for (row, from) in rows.iter_mut().zip(from.as_chunks::<LANES>().0) {
        isa.store(T::lanes(isa, from), row);
    }
    for _ in 0..4 {
        let mut next = [[0.0f32; LANES]; LANES];
        for i in 0..LANES / 2 {
            let (a, b) = (rows[i], rows[i + LANES / 2]);
            for j in 0..LANES / 2 {
                (next[2 * i][2 * j], next[2 * i][2 * j + 1]) = (a[j], b[j]);
                (next[2 * i + 1][2 * j], next[2 * i + 1][2 * j + 1]) = (a[j + LANES / 2], b[j + LANES / 2]);
            }
        }
        rows = next;
    }
    for (to, row) in to.as_chunks_mut::<LANES>().0.iter_mut().zip(&rows) {
        *to = *row;
    }
}
