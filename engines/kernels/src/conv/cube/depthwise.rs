//! Convolutions with one filter per channel: each output is a weighted sum of the lanes of one
//! group, tap by tap.
use super::{Group, LANES, bias_of, finish};
use crate::conv::spec::{ConvError, ConvSpec};
use crate::gemm::{Bias, Epilogue};
use crate::scratch::with_scratch;
use crate::simd::isa::{Isa, PanelElem, Work, dispatch};
use crate::view::Out;
use std::ops::Range;

/// Approximate number of outputs of a unit.
const AREA: usize = 1024;
/// Positions whose sums are held in registers at a time.
const HELD: usize = 4;

/// A planned depthwise convolution: as many groups as channels, with one output channel each. Its
/// filter is `[C, 1, kh, kw]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CubeDepthwise {
    spec: ConvSpec,
    out: [usize; 3],
    /// Output rows of a unit.
    rows: usize,
    /// Outputs of a row whose windows are entirely inside the input.
    inside: Range<usize>,
}

impl CubeDepthwise {
    /// Makes a plan.
    ///
    /// # Errors
    /// Fails if the sizes are wrong ([`ConvSpec::check`]). Returns `Cube` for other groups, a third
    /// spatial axis or a transposed convolution.
    pub fn new(spec: &ConvSpec) -> Result<CubeDepthwise, ConvError> {
        spec.check()?;
        let one = spec.channels_in == spec.groups && spec.channels_out == spec.groups;
        if !one || spec.transposed.is_some() || spec.input[0] != 1 || spec.kernel[0] != 1 {
            return Err(ConvError::Cube);
        }
        let out = spec.output()?;
        let (stride, pad, reach) = (spec.stride[2], spec.pad_before[2], (spec.kernel[2] - 1) * spec.dilation[2]);
        let first = pad.div_ceil(stride).min(out[2]);
        let behind = (spec.input[2] + pad).checked_sub(reach + 1).map_or(0, |v| v / stride + 1);
        let rows = (AREA / out[2].max(1)).clamp(1, out[1].max(1));
        Ok(CubeDepthwise { spec: spec.clone(), out, rows, inside: first..behind.clamp(first, out[2]) })
    }

    /// Spatial sizes of the output.
    pub fn output(&self) -> [usize; 3] {
        self.out
    }

    fn groups(&self) -> usize {
        self.spec.channels_in.div_ceil(LANES)
    }

    /// Number of strips of rows, which are the units of work.
    pub fn units(&self) -> usize {
        if self.out.contains(&0) { 0 } else { self.spec.batch * self.groups() * self.out[1].div_ceil(self.rows) }
    }

    /// Multiply-adds, including those of lanes beyond the channels.
    pub fn work(&self) -> u64 {
        let all = [self.spec.batch, self.groups() * LANES, self.out[1], self.out[2], self.spec.taps()];
        all.into_iter().fold(1u64, |a, b| a.saturating_mul(b as u64))
    }

    /// Computes the strips `units`. The bias of the epilogue has one number per channel,
    /// [`Bias::PerRow`]; the residual has the layout of the output.
    ///
    /// # Errors
    /// Returns `Short` with the name of the operand.
    pub fn run<T: PanelElem>(
        &self,
        units: Range<usize>,
        x: &[T],
        w: &[T],
        epilogue: &Epilogue<'_, T>,
        out: &mut Out<'_, T>,
    ) -> Result<(), ConvError> {
        let s = &self.spec;
        let need = |operand, has: usize, needs: usize| {
            if has < needs { Err(ConvError::Short { operand, has, needs }) } else { Ok(()) }
        };
        let [_, high, wide] = s.input;
        let (plane, total) = (high * wide * LANES, self.out[1] * self.out[2] * LANES);
        need("input", x.len(), s.batch * self.groups() * plane)?;
        need("weights", w.len(), s.channels_in * s.taps())?;
        need("output", out.len(), s.batch * self.groups() * total)?;
        if let Bias::PerRow(b) | Bias::PerColumn(b) = epilogue.bias {
            need("bias", b.len(), s.channels_in)?;
        }
        if let Some((r, _)) = epilogue.residual {
            need("residual", r.len(), s.batch * self.groups() * total)?;
        }
        let strips = self.out[1].div_ceil(self.rows);
        let (taps, line) = (s.taps() * LANES, self.out[2] * LANES);
        with_scratch(taps + line, |scratch| {
            let (weights, line) = scratch.split_at_mut(taps);
            let mut held = None;
            for unit in units.start..units.end.min(self.units()) {
                let (at, strip) = (unit / strips, unit % strips);
                let group = Group::new(at % self.groups(), s.channels_in);
                if held != Some(group.first) {
                    held = Some(group.first);
                    weights.fill(0.0);
                    for (lane, own) in w[group.first * s.taps()..].chunks(s.taps()).take(group.used).enumerate() {
                        own.iter().enumerate().for_each(|(tap, v)| weights[tap * LANES + lane] = v.wide());
                    }
                }
                let (image, bias) = (&x[at * plane..(at + 1) * plane], bias_of(group, epilogue));
                for y in strip * self.rows..((strip + 1) * self.rows).min(self.out[1]) {
                    dispatch(Row { plan: self, y, image, weights: &*weights, bias: &bias, line: &mut *line });
                    finish(line, group, epilogue, out, at * total + y * self.out[2] * LANES);
                }
            }
        });
        Ok(())
    }
}

/// One row of outputs of one group.
struct Row<'p, T> {
    plan: &'p CubeDepthwise,
    y: usize,
    image: &'p [T],
    weights: &'p [f32],
    bias: &'p [f32; LANES],
    line: &'p mut [f32],
}

impl<T: PanelElem> Work for Row<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let (plan, s) = (self.plan, &self.plan.spec);
        let inside = plan.inside.clone();
        let mut o = 0;
        while o < plan.out[2] {
            let held = o >= inside.start && o + HELD <= inside.end;
            let to = &mut self.line[o * LANES..];
            if held {
                group::<I, T, HELD>(isa, s, (self.y, o), (self.image, self.weights, self.bias), to);
                o += HELD;
            } else {
                group::<I, T, 1>(isa, s, (self.y, o), (self.image, self.weights, self.bias), to);
                o += 1;
            }
        }
    }
}

/// Computes the sums of `N` adjacent outputs.
#[inline(always)]
fn group<I: Isa, T: PanelElem, const N: usize>(
    isa: I,
    s: &ConvSpec,
    at: (usize, usize),
    (image, weights, bias): (&[T], &[f32], &[f32; LANES]),
    to: &mut [f32],
) {
    let [_, high, wide] = s.input;
    let lanes = image.as_chunks::<LANES>().0;
    let weights = weights.as_chunks::<LANES>().0;
    let mut acc = [isa.load(bias); N];
    for ky in 0..s.kernel[1] {
        let y = (at.0 * s.stride[1] + ky * s.dilation[1]).wrapping_sub(s.pad_before[1]);
        if y >= high {
            continue;
        }
        for kx in 0..s.kernel[2] {
            let x = (at.1 * s.stride[2] + kx * s.dilation[2]).wrapping_sub(s.pad_before[2]);
            // With several outputs all windows are inside the input.
            if x >= wide {
                continue;
            }
            let w = isa.load(&weights[ky * s.kernel[2] + kx]);
            for (i, a) in acc.iter_mut().enumerate() {
                *a = isa.fma(T::lanes(isa, &lanes[y * wide + x + i * s.stride[2]]), w, *a);
            }
        }
    }
    for (a, to) in acc.iter().zip(to.as_chunks_mut::<LANES>().0) {
        isa.store(*a, to);
    }
}
