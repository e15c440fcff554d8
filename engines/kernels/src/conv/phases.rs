//! Transposed convolutions in single precision as ordinary ones. A phase is the set of result
//! positions that have the same position within a stride step; with strides of one there is one
//! phase. Each phase is an ordinary convolution of the whole input with the taps that reach it. At
//! the end the results of the phases are interleaved.
//!
//! Positions of the result are counted with the border in front: `Y = y + pad`. Tap `k` of the
//! filter carries position `i` of the input to `Y = i * stride + k`. So the positions `Y = q *
//! stride + p` of phase `p` are reached by taps `p, p + stride, ...`, and tap `p + j * stride`
//! brings position `q - j` there. This is a convolution with those taps in reverse order.
//!
//! **The filter by phases** is `[groups][phase][O / groups][C / groups][taps of the phase]`, with
//! the phases in row-major order of their positions and the taps reversed. It has as many elements
//! as the filter.
use crate::conv::finish::{Runs, finish};
use crate::conv::plan::Conv;
use crate::conv::rows::{PANEL, RowConv};
use crate::conv::spec::{ConvError, ConvSpec};
use crate::gemm::{Epilogue, pack_columns, packed_len};
use crate::scratch::with_scratch;
use crate::view::Out;
use std::ops::Range;

/// Fewest input channels per group for which products pay.
const DEEP: usize = 4;
/// Fewer output channels than this leave most of a register tile idle.
const FEW: usize = 12;
/// Most elements that the results of a unit's phases may have.
const MOST: usize = 1 << 26;

/// Some output channels of one group and image.
pub(crate) struct Unit<'p, 'a> {
    pub(crate) spec: &'p ConvSpec,
    pub(crate) n: usize,
    pub(crate) group: usize,
    /// Output channels, counted within the group: whole blocks, or the last one. With a filter in
    /// panels there may be several blocks, which share copies of the image.
    pub(crate) channels: Range<usize>,
    pub(crate) x: &'a [f32],
    pub(crate) w: &'a [f32],
    pub(crate) epilogue: &'p Epilogue<'a, f32>,
}

/// The phases of a transposed convolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Phases {
    out: [usize; 3],
    stride: [usize; 3],
    /// In row-major order of their positions in a step.
    list: Vec<Phase>,
    /// All phases as one convolution, if a unit has all output channels, which are few, and every
    /// phase reads the same of the input. Its channels are those of the phases, one after the other.
    together: Option<Box<Conv>>,
    form: Form,
    /// Output channels of a block.
    block: usize,
}

/// Layout in which the filter of a transposed convolution is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Plain.
    Given,
    /// Laid out by phases.
    Phases,
    /// Laid out by phases, in panels.
    Panels,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Phase {
    axes: [Axis; 3],
    /// The convolution of a whole block of output channels, and that of the last block if it is
    /// smaller. Empty if no tap reaches the phase or none of its positions is in the result.
    convs: Vec<Conv>,
    /// The convolution of all output channels with positions as rows, for a filter in panels.
    rows: Option<RowConv>,
    /// Positions of the phase that the convolution computes.
    places: [usize; 3],
}

/// A phase along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    /// Number of taps that reach the phase.
    taps: usize,
    /// The first position of the phase in the result.
    first: usize,
    /// Number of positions in the result.
    count: usize,
    /// Positions that the convolution computes before the first one in the result.
    skip: usize,
    pads: [usize; 2],
}

/// Whether a transposed convolution can be computed by phases. This does not depend on the image
/// sizes.
pub(crate) fn takes(s: &ConvSpec) -> bool {
    let plain = (0..3).all(|a| s.dilation[a] == 1 || s.kernel[a] == 1);
    s.transposed.is_some() && plain && s.channels_in / s.groups.max(1) >= DEEP
}

/// Phase `p` along axis `a`, whose result has `out` positions.
fn axis(s: &ConvSpec, a: usize, p: usize, out: usize) -> Axis {
    let (stride, pad) = (s.stride[a], s.pad_before[a]);
    let taps = taps(s, a, p);
    let q = pad.saturating_sub(p).div_ceil(stride);
    let first = q * stride + p - pad;
    let count = out.saturating_sub(first).div_ceil(stride);
    // Position `q` receives from `taps` input positions, the last of which is `q` itself.
    let (before, skip) = ((taps.max(1) - 1).saturating_sub(q), q.saturating_sub(taps.max(1) - 1));
    let after = (count + taps.max(1) - 1 + skip).saturating_sub(s.input[a] + before);
    Axis { taps, first, count, skip, pads: [before, after] }
}

/// The positions of all phases within a step.
fn all(stride: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
    let [z, y, x] = stride;
    (0..z * y * x).map(move |p| [p / x / y, p / x % y, p % x])
}

/// The filter `[C, O / groups, ...]` of a transposed convolution, laid out by phases. It has the
/// same number of elements, whatever the image sizes. `None` if there is no such form, or if `w`
/// does not have the length of the filter.
pub fn filter_by_phases(s: &ConvSpec, w: &[f32]) -> Option<Vec<f32>> {
    if !takes(s) {
        return None;
    }
    let own = s.channels_out / s.groups.max(1);
    if w.len() != s.channels_in.checked_mul(own)?.checked_mul(s.taps())? {
        return None;
    }
    let mut to = Vec::with_capacity(w.len());
    for group in 0..s.groups {
        all(s.stride).for_each(|p| lay(s, w, (group, 0..own), p, &mut to));
    }
    Some(to)
}

/// Like [`filter_by_phases`], with the filter of each phase in panels.
pub fn filter_by_phase_panels(s: &ConvSpec, w: &[f32]) -> Option<Vec<f32>> {
    let (own, cin) = (s.channels_out / s.groups.max(1), s.channels_in / s.groups.max(1));
    let plain = filter_by_phases(s, w)?;
    let (mut to, mut rest) = (Vec::with_capacity(panels_len(s)?), &plain[..]);
    for _ in 0..s.groups {
        for p in all(s.stride) {
            let each = cin * (0..3).map(|a| taps(s, a, p[a])).product::<usize>();
            let (phase, behind) = rest.split_at(own * each);
            rest = behind;
            let at = to.len();
            to.resize(at + packed_len(each, own), 0.0);
            pack_columns(phase, each, own, 1, each, &mut to[at..]);
        }
    }
    Some(to)
}

/// Elements of the filter in panels; `None` if they are too many to count.
pub(crate) fn panels_len(s: &ConvSpec) -> Option<usize> {
    let own = (s.channels_out / s.groups.max(1)).checked_next_multiple_of(PANEL)?;
    s.channels_in.checked_mul(own)?.checked_mul(s.taps())
}

/// Number of taps along axis `a` that reach phase `p`.
fn taps(s: &ConvSpec, a: usize, p: usize) -> usize {
    s.kernel[a].saturating_sub(p).div_ceil(s.stride[a])
}

/// Appends the filter of one phase for some output channels of a group.
fn lay(s: &ConvSpec, w: &[f32], (group, channels): (usize, Range<usize>), p: [usize; 3], to: &mut Vec<f32>) {
    let (own, cin) = (s.channels_out / s.groups, s.channels_in / s.groups);
    let of = |a: usize| (p[a]..s.kernel[a]).step_by(s.stride[a]).rev();
    let taps: Vec<usize> = of(0)
        .flat_map(|z| of(1).map(move |y| z * s.kernel[1] + y))
        .flat_map(|zy| of(2).map(move |x| zy * s.kernel[2] + x))
        .collect();
    for o in channels {
        for c in 0..cin {
            let w = &w[((group * cin + c) * own + o) * s.taps()..][..s.taps()];
            to.extend(taps.iter().map(|t| w[*t]));
        }
    }
}

impl Phases {
    /// The phases, for units of `block` output channels.
    ///
    /// # Errors
    /// Returns `Copy` if a unit would need too much memory. Fails if a phase cannot be planned.
    pub(crate) fn new(s: &ConvSpec, block: usize, form: Form) -> Result<Phases, ConvError> {
        let out = s.output()?;
        let (own, cin) = (s.channels_out / s.groups, s.channels_in / s.groups);
        let rest = (own.max(1) - 1) % block + 1;
        let mut floats = out.iter().product::<usize>();
        let kept = if form == Form::Panels { own } else { block };
        let (mut list, mut specs) = (Vec::new(), Vec::new());
        for p in all(s.stride) {
            let axes: [Axis; 3] = std::array::from_fn(|a| axis(s, a, p[a], out[a]));
            if axes.iter().any(|a| a.taps == 0 || a.count == 0) {
                list.push(Phase { axes, convs: Vec::new(), rows: None, places: [0; 3] });
                continue;
            }
            let spec = |channels_out: usize| ConvSpec {
                batch: 1,
                groups: 1,
                channels_in: cin,
                channels_out,
                input: s.input,
                kernel: axes.map(|a| a.taps),
                stride: [1; 3],
                dilation: [1; 3],
                pad_before: axes.map(|a| a.pads[0]),
                pad_after: axes.map(|a| a.pads[1]),
                transposed: None,
            };
            specs.push(spec(own));
            let mut convs = Vec::new();
            for channels in [Some(block.min(own)), Some(rest).filter(|r| *r < block.min(own))].into_iter().flatten() {
                convs.push(Conv::new(&spec(channels))?.in_singles());
            }
            let rows = if form == Form::Panels { RowConv::new(&spec(own))? } else { None };
            let rows = rows.map(|r| r.with_block(block));
            let places = convs[0].output();
            floats = floats.saturating_add(places.iter().product::<usize>().saturating_mul(kept));
            list.push(Phase { axes, convs, rows, places });
        }
        let alike = specs.len() == list.len() && specs.len() > 1 && specs.iter().all(|s| *s == specs[0]);
        let together = match specs.pop() {
            Some(one) if alike && form != Form::Panels && own < FEW.min(block + 1) => {
                Some(Box::new(Conv::new(&ConvSpec { channels_out: own * list.len(), ..one })?.in_singles()))
            }
            _ => None,
        };
        match floats <= MOST {
            true => Ok(Phases { out, stride: s.stride, list, together, form, block }),
            false => Err(ConvError::Copy { floats, most: MOST }),
        }
    }

    pub(crate) fn in_panels(&self) -> bool {
        self.form == Form::Panels
    }

    /// Whether every phase has the plans that the form of the filter needs. A phase with many
    /// positions has no plan with positions as rows.
    pub(crate) fn is_whole(&self) -> bool {
        self.form != Form::Panels || self.list.iter().all(|p| p.rows.is_none() == p.convs.is_empty())
    }

    /// Whether plans with positions as rows cost less than the same convolutions of images.
    pub(crate) fn rows_pay(&self) -> bool {
        let (mut rows, mut plain) = (0usize, 0usize);
        for (phase, conv) in self.list.iter().filter_map(|p| Some((p, p.rows.as_ref()?))) {
            rows = rows.saturating_add(conv.cost_of_shared_copies());
            let times = [(conv.channels_out() / self.block).max(1), 1];
            for (plan, times) in phase.convs.iter().zip(times) {
                plain = plain.saturating_add(plan.cycles().saturating_mul(times));
            }
        }
        // Another layout must save a noticeable amount.
        rows.saturating_add(rows / 16) < plain
    }

    /// The channels whose results are kept, counted within the group: those of the unit, or all if
    /// one plan has all.
    fn kept(&self, unit: &Unit<'_, '_>) -> Range<usize> {
        if self.in_panels() { 0..unit.spec.channels_out / unit.spec.groups } else { unit.channels.clone() }
    }

    /// Computes a unit.
    ///
    /// # Errors
    /// Never fails for a planned convolution.
    pub(crate) fn run(&self, unit: &Unit<'_, '_>, out: &mut Out<'_, f32>) -> Result<(), ConvError> {
        let s = unit.spec;
        let cin = s.channels_in / s.groups;
        let size: usize = s.input.iter().product();
        let x = &unit.x[(unit.n * s.channels_in + unit.group * cin) * size..][..cin * size];
        let kept = self.kept(unit).len();
        let lengths = self.list.iter().map(|p| p.places.iter().product::<usize>() * kept);
        let (total, places) = (lengths.clone().sum::<usize>(), self.out.iter().product::<usize>());
        with_scratch(total + places, |scratch| {
            let (sums, plane) = scratch.split_at_mut(total);
            self.products(unit, x, lengths, sums)?;
            self.weave(unit, sums, plane, out);
            Ok(())
        })
    }

    /// Computes the results of the phases, one after the other, with the given lengths.
    fn products(
        &self,
        unit: &Unit<'_, '_>,
        x: &[f32],
        lengths: impl Iterator<Item = usize>,
        sums: &mut [f32],
    ) -> Result<(), ConvError> {
        let s = unit.spec;
        let (own, cin) = (s.channels_out / s.groups, s.channels_in / s.groups);
        let channels = unit.channels.len();
        let mut filter = Vec::new();
        if let Some(conv) = &self.together {
            let each = own * cin * s.taps();
            let w = if self.form == Form::Phases {
                &unit.w[unit.group * each..][..each]
            } else {
                all(self.stride).for_each(|p| lay(s, unit.w, (unit.group, 0..own), p, &mut filter));
                &filter[..]
            };
            return conv.run(0..conv.units(), x, w, &Epilogue::default(), &mut Out::new(sums));
        }
        let mut rest = sums;
        let each_group = if self.form == Form::Panels { own.next_multiple_of(PANEL) } else { own };
        let mut at = unit.group * each_group * cin * s.taps();
        for ((phase, len), p) in self.list.iter().zip(lengths).zip(all(self.stride)) {
            let (to, behind) = std::mem::take(&mut rest).split_at_mut(len);
            rest = behind;
            let each = cin * phase.axes.iter().map(|a| a.taps).product::<usize>();
            let whole = if self.in_panels() { packed_len(each, own) } else { own * each };
            let w = &unit.w[at..];
            at += whole;
            if let Some(rows) = &phase.rows {
                let blocks = unit.channels.start / self.block..unit.channels.end.div_ceil(self.block);
                rows.run(blocks, x, &w[..whole], &Epilogue::default(), &mut Out::new(to))?;
                continue;
            }
            let Some(conv) = phase.convs.iter().find(|c| c.channels_out() == channels) else { continue };
            let w = if self.form == Form::Phases {
                &w[unit.channels.start * each..][..channels * each]
            } else {
                filter.clear();
                lay(s, unit.w, (unit.group, unit.channels.clone()), p, &mut filter);
                &filter[..]
            };
            conv.run(0..conv.units(), x, w, &Epilogue::default(), &mut Out::new(to))?;
        }
        Ok(())
    }

    /// Moves the results of the phases to their positions in a plane of the result, and finishes
    /// the plane.
    fn weave(&self, unit: &Unit<'_, '_>, sums: &[f32], plane: &mut [f32], out: &mut Out<'_, f32>) {
        let ([depth, height, width], sx) = (self.out, self.stride[2]);
        let places = depth * height * width;
        let lines = self.lines(unit);
        let kept = self.kept(unit).start;
        for channel in unit.channels.clone() {
            let o = channel - kept;
            let rows = plane.chunks_exact_mut(width.max(1)).zip(lines.chunks_exact(sx.max(1)));
            for (to, lines) in rows {
                let line = |x: usize| &sums[lines[x].first + o * lines[x].step..][..lines[x].count];
                match sx {
                    1 if lines[0].count == 0 => to.fill(0.0),
                    1 => to.copy_from_slice(line(0)),
                    2 if width > 1 => weave(line(0), line(1), to),
                    _ => (0..sx.min(width)).for_each(|x| spread(line(x), sx, &mut to[x..])),
                }
            }
            let channel = unit.group * (unit.spec.channels_out / unit.spec.groups) + channel;
            let at = (unit.n * unit.spec.channels_out + channel) * places;
            let runs = Runs { count: depth * height, len: width, pitch: width };
            finish(unit.epilogue, channel, runs, plane, out, at);
        }
    }

    /// For each row of the result and each position within a step, the results of the phase there.
    fn lines(&self, unit: &Unit<'_, '_>) -> Vec<Line> {
        let ([depth, height, _], [sz, sy, sx], pad) = (self.out, self.stride, unit.spec.pad_before);
        let (mut first, mut starts, kept) = (0, Vec::with_capacity(self.list.len()), self.kept(unit).len());
        for phase in &self.list {
            starts.push(first);
            first += phase.places.iter().product::<usize>() * kept;
        }
        let mut lines = Vec::with_capacity(depth * height * sx);
        for (z, y) in (0..depth).flat_map(|z| (0..height).map(move |y| (z, y))) {
            // The phases that have the position of this row within a step.
            let list = ((z + pad[0]) % sz * sy + (y + pad[1]) % sy) * sx;
            lines.extend((0..sx).map(|x| {
                let p = list + (x + pad[2]) % sx;
                let Phase { axes: [az, ay, own], places, convs, .. } = &self.list[p];
                if convs.is_empty() {
                    return Line { first: 0, step: 0, count: 0 };
                }
                let (z, y) = (az.skip + (z - az.first) / sz, ay.skip + (y - ay.first) / sy);
                let first = starts[p] + (z * places[1] + y) * places[2] + own.skip;
                Line { first, step: places.iter().product(), count: own.count }
            }));
        }
        lines
    }
}

/// The results of a phase in a row: those of the first channel, and the distance between channels.
struct Line {
    first: usize,
    step: usize,
    count: usize,
}

crate::multiversion! {
    /// Writes `even` and `odd` to alternating positions; zero where their elements are used up.
    fn weave(even: &[f32], odd: &[f32], y: &mut [f32]) {
        let both = even.len().min(odd.len()).min(y.len() / 2);
        let (pairs, rest) = y.split_at_mut(2 * both);
        for ((y, a), b) in pairs.as_chunks_mut::<2>().0.iter_mut().zip(even).zip(odd) {
            *y = [*a, *b];
        }
        for (k, y) in rest.iter_mut().enumerate() {
            let from = if k.is_multiple_of(2) { even } else { odd };
            *y = from.get(both + k / 2).copied().unwrap_or(0.0);
        }
    }
}

/// Writes `x` to every `step`-th position; zero where its elements are used up.
fn spread(x: &[f32], step: usize, y: &mut [f32]) {
    let mut from = x.iter();
    for y in y.iter_mut().step_by(step) {
        *y = from.next().copied().unwrap_or(0.0);
    }
}
