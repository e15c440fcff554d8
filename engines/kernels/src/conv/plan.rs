//! `Conv`: the plan of a convolution, made once from its sizes.
mod run;
mod unit;

use crate::conv::image::Image;
use crate::conv::lanes::{self, Lanes};
use crate::conv::one_place::OnePlace;
use crate::conv::phases::{self, Form, Phases};
use crate::conv::planes;
use crate::conv::points;
use crate::conv::rows::PANEL;
use crate::conv::spec::{ConvError, ConvSpec};
use crate::conv::spread::Spread;
use crate::conv::winograd::filters::changed_filters_len;
use crate::conv::winograd::{self, Tiles};
use crate::gemm::Epilogue;
use crate::gemm::micro::crowded;
use crate::shrink::shrink;

/// Most output channels of a unit; a multiple of every register tile.
const BLOCK: usize = 192;
/// Most outputs of a unit: channels times positions.
const AREA: usize = 48 * 1024;
/// Positions of a depthwise strip. They stay in the first-level cache from the copy to the result.
const PLANE: usize = 3 * 1024;
/// Like `AREA`, for units where a single row already exceeds `AREA`.
const MOST_AREA: usize = 1 << 20;
/// Number of units that keeps the cores of a device busy, if there is enough work.
const WANTED: usize = 24;
/// Multiply-adds that a unit should have. The copying and finishing of a strip is small compared to
/// this.
const GRAIN: usize = 384 * 1024;
/// Output channels per group from which it pays to share one copy of the group's only input
/// channel.
const SHARED: usize = 12;

/// Most floats of the copy of a strip: 512 MiB.
const MOST_COPY: usize = 1 << 27;

/// A planned convolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conv {
    pub(crate) spec: ConvSpec,
    pub(crate) out: [usize; 3],
    image: Image,
    kind: Kind,
    /// Output channels of a unit.
    block: usize,
    /// Output rows of a unit; output positions for `Pointwise`.
    rows: usize,
    /// For `Pointwise`: offsets of the channels in the input, and in a copy of a strip of it.
    channels: [Vec<u32>; 2],
    /// Whether the copy of a strip has one plane for each column of the window.
    apart: bool,
    /// Offsets of a strip's vectors in the copy. Used if output rows are whole vectors but rows of
    /// the copy are longer; else empty.
    panels: Vec<u32>,
    /// Whether weights and images in single precision are read in place. A unit is then some
    /// channels at all positions, or at a strip of them.
    in_place: bool,
    /// The tiles of minimal filtering, for three-by-three windows if that costs less.
    tiles: Option<Tiles>,
    /// The plan with channels as lanes, for depthwise convolutions of small images in single
    /// precision if that costs less.
    lanes: Option<Lanes>,
    /// For transposed convolutions in single precision; a unit is some channels of a whole image.
    phases: Option<Phases>,
    /// For transposed convolutions of images of one position, in single precision.
    pub(crate) one_place: Option<OnePlace>,
    /// For transposed convolutions of groups with few output channels, in single precision.
    pub(super) spread: Option<Spread>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// One input channel and few output channels per group, not transposed.
    Depthwise,
    /// Kernel and stride of one, no padding: the input itself is the second operand.
    Pointwise,
    /// All other convolutions.
    Dense,
}

/// Distance between two channels in the copy of a strip of `rows` positions.
fn pitch(rows: usize) -> usize {
    rows.next_multiple_of(16) + 16
}

/// Whether output rows are whole vectors. These are then computed one after the other, whatever
/// lies between them in the copy.
fn whole_rows(spec: &ConvSpec, out: usize) -> bool {
    spec.transposed.is_none() && out.is_multiple_of(16)
}

/// Approximate cycles of all strips of `rows` rows of `images` images, for one input channel and
/// `own` output channels. The sum of the cycles of one thread and twice those of the larger half,
/// so that two threads get about the same work if that costs little. A vector of sixteen results
/// takes one cycle per tap and channel.
fn cost(rows: usize, own: usize, image: &Image, images: usize) -> usize {
    let [_, height, width] = image.out;
    let pitch = if whole_rows(&image.spec, width) { width } else { image.pitch };
    let of = |rows: usize| {
        if rows == 0 {
            return 0;
        }
        let vectors = (rows - 1).saturating_mul(pitch).saturating_add(width).div_ceil(16);
        vectors.saturating_mul(image.spec.taps()).saturating_mul(own).saturating_add(image.cost(rows))
    };
    let all = (height / rows).saturating_mul(of(rows)).saturating_add(of(height % rows)).saturating_mul(images);
    let half = height.div_ceil(rows).saturating_mul(images).div_ceil(2).saturating_mul(of(rows));
    all.saturating_add(half.min(all).saturating_mul(2))
}

/// Positions of a pointwise strip, from `least` up to twice that. Chosen so that two threads get
/// about the same work: whole strips of `images` images, or of a single one half of the `blocks` of
/// channels.
fn even_strip(positions: usize, least: usize, blocks: usize, images: usize) -> usize {
    let least = least.next_multiple_of(16);
    let cost = |width: usize| {
        let (strips, panels) = (positions.div_ceil(width), width / 16);
        let all = (positions / width * panels + (positions % width).div_ceil(16)).saturating_mul(images);
        let half = match strips.saturating_mul(images) {
            1 => panels * blocks.div_ceil(2) / blocks,
            strips => strips.div_ceil(2).saturating_mul(panels),
        };
        all.saturating_add(half.min(all).saturating_mul(2))
    };
    (least..=2 * least).step_by(16).min_by_key(|width| cost(*width)).unwrap_or(least)
}

impl Conv {
    /// Makes a plan.
    ///
    /// # Errors
    /// Fails if the sizes are wrong ([`ConvSpec::check`]) or the copy of a strip is too large
    /// (`Copy`).
    pub fn new(spec: &ConvSpec) -> Result<Conv, ConvError> {
        spec.check()?;
        let out = spec.output()?;
        let per_group = [spec.channels_in / spec.groups, spec.channels_out / spec.groups];
        let plain =
            spec.kernel == [1; 3] && spec.stride == [1; 3] && spec.pad_before == [0; 3] && spec.pad_after == [0; 3];
        let kind = match spec.transposed {
            None if plain && per_group[0] > 1 => Kind::Pointwise,
            // Many output channels share the copy of their input channel.
            None if per_group[0] == 1 && per_group[1] < SHARED => Kind::Depthwise,
            _ => Kind::Dense,
        };
        let positions: usize = out.iter().product();
        let (rows, block) = match kind {
            Kind::Depthwise => {
                (out[1].clamp(1, (PLANE / out[2].max(1)).max(1)), (8192 / positions.max(1)).clamp(1, 64))
            }
            _ => {
                let block = BLOCK.min(per_group[1].next_multiple_of(12)).max(12);
                let wide = if kind == Kind::Pointwise { 1 } else { out[2].max(1) };
                let total = if kind == Kind::Pointwise { positions } else { out[1] };
                let rows = (512.min(AREA / block) / wide).clamp(1, total.max(1));
                let depth = if kind == Kind::Pointwise { 1 } else { out[0] };
                let outer = spec.batch.saturating_mul(spec.groups).saturating_mul(depth);
                let work = [positions, spec.batch, spec.channels_out, per_group[0], spec.taps()];
                let wanted = (work.into_iter().fold(1usize, usize::saturating_mul) / GRAIN).clamp(1, WANTED);
                let large = |rows: usize, block: usize| rows.saturating_mul(wide).saturating_mul(block) > MOST_AREA;
                let enough = |(rows, block): (usize, usize)| {
                    let units = [outer, per_group[1].div_ceil(block), total.div_ceil(rows)];
                    units.into_iter().fold(1usize, usize::saturating_mul) >= wanted && !large(rows, block)
                };
                // A strip has at least one row, however wide that is. After that, the number of
                // channels is reduced. Pointwise strips are whole pairs of panels.
                let whole = |rows: usize| if kind == Kind::Pointwise { rows.next_multiple_of(32) } else { rows };
                shrink((whole(rows), block), enough, |(rows, block)| {
                    if rows > 1 && rows.saturating_mul(wide) > 96 {
                        return Some((whole(rows.div_ceil(2)), block));
                    }
                    let least = if large(rows, block) { 12 } else { 48 };
                    (block > least).then(|| (rows, (block / 2).next_multiple_of(12)))
                })
            }
        };
        // Use up to twice as many rows, and one plane per window column, if that costs less.
        let (image, own) = (Image::new(spec, 1)?, per_group[1]);
        let mut best = (rows, false);
        if kind == Kind::Dense {
            let apart = (spec.transposed.is_none() && spec.kernel[2] > 1 && !whole_rows(spec, out[2]))
                .then(|| Image::with(spec, 1, true))
                .transpose()?;
            let forms = [(Some(&image), false), (apart.as_ref(), true)];
            let all = (rows..=2 * rows).filter(|&r| r <= out[1].max(1));
            let images =
                [spec.batch, spec.groups, out[0], own.div_ceil(block)].into_iter().fold(1, usize::saturating_mul);
            best = all
                .flat_map(|r| {
                    forms.iter().filter_map(move |(i, apart)| Some((cost(r, own.min(block), (*i)?, images), r, *apart)))
                })
                .min()
                .map_or(best, |(_, rows, apart)| (rows, apart));
        }
        if kind == Kind::Pointwise && rows < positions {
            let images = spec.batch.saturating_mul(spec.groups).max(1);
            best.0 = even_strip(positions, rows, own.div_ceil(block).max(1), images);
        }
        let (rows, apart) = best;
        let (channels, panels) = ([vec![], vec![]], vec![]);
        Conv {
            image,
            spec: spec.clone(),
            out,
            kind,
            block,
            rows,
            channels,
            apart,
            panels,
            in_place: false,
            tiles: None,
            lanes: None,
            phases: None,
            one_place: None,
            spread: None,
        }
        .with_units(rows, block)
    }

    /// The plan for operands and results in single precision, which need no conversion and can be
    /// read in place.
    pub fn in_singles(mut self) -> Conv {
        let positions = self.out.iter().product();
        if self.kind == Kind::Pointwise
            && let Some(channels) = points::rows(&self.spec, positions)
        {
            self.in_place = true;
            (self.rows, self.block) = points::strip(&self.spec, positions).unwrap_or((positions.max(1), channels));
        }
        if self.kind == Kind::Depthwise {
            return self.by_lanes();
        }
        if let Some((block, one_place)) = OnePlace::plan(&self.spec, self.out) {
            return Conv { block, one_place: Some(one_place), ..self };
        }
        if let Some(spread) = Spread::plan(&self.spec, self.out) {
            return Conv { spread: Some(spread), ..self };
        }
        if phases::takes(&self.spec) {
            return self.clone().by_phases(Form::Given).unwrap_or(self);
        }
        if self.kind == Kind::Dense && winograd::takes(&self.spec) {
            return self.by_tiles(false).filter(|(_, less)| *less).map_or(self, |(plan, _)| plan);
        }
        self
    }

    /// The plan by phases. `None` if the convolution has no phases, if they need too much memory,
    /// or if a phase has no plan for this form of the filter.
    pub(crate) fn by_phases(self, form: Form) -> Option<Conv> {
        if !phases::takes(&self.spec) {
            return None;
        }
        // At least two threads get work.
        let own = self.spec.channels_out / self.spec.groups;
        let images = self.spec.batch.saturating_mul(self.spec.groups).max(1);
        let whole = if form == Form::Panels { PANEL } else { 4 };
        let half = own.div_ceil(2).next_multiple_of(whole);
        let block = if images > 1 { self.block } else { self.block.min(half) }.next_multiple_of(whole);
        let phases = Phases::new(&self.spec, block, form).ok().filter(Phases::is_whole)?;
        Some(Conv { phases: Some(phases), block, ..self })
    }

    /// The plan in single precision for a filter that is laid out by phases
    /// ([`filter_by_phases`](crate::conv::filter_by_phases)). `None` if the convolution has no such
    /// plan.
    pub fn with_filter_by_phases(self) -> Option<Conv> {
        self.by_phases(Form::Phases)
    }

    /// The plan in single precision for a filter laid out by phases in panels
    /// ([`filter_by_phase_panels`](crate::conv::filter_by_phase_panels)). `None` if there is no
    /// such plan, or if it costs no less than without panels.
    pub fn with_filter_by_phase_panels(self) -> Option<Conv> {
        self.by_phases(Form::Panels).filter(|plan| plan.phases.as_ref().is_some_and(Phases::rows_pay))
    }

    pub(crate) fn channels_out(&self) -> usize {
        self.spec.channels_out
    }

    /// The depthwise plan, with channels as lanes if that costs less.
    fn by_lanes(self) -> Conv {
        match Lanes::new(&self.spec, self.out) {
            Some(lanes) if lanes.cost() < lanes::LANES * self.channel() => self.with_lanes(lanes),
            _ => self,
        }
    }

    /// The depthwise plan with channels as lanes. A unit is some channels of a whole image.
    fn with_lanes(self, lanes: Lanes) -> Conv {
        let block = self.block.next_multiple_of(lanes::LANES);
        Conv { lanes: Some(lanes), rows: self.out[1].max(1), block, ..self }
    }

    /// The plan with channels as lanes, whatever it costs.
    #[cfg(test)]
    pub(crate) fn by_lanes_always(&self) -> Conv {
        let lanes = Lanes::new(&self.spec, self.out).expect("small images of sixteen channels");
        self.clone().with_lanes(lanes)
    }

    /// Approximate cycles of a depthwise plan per channel.
    fn channel(&self) -> usize {
        let [_, height, width] = self.out;
        if planes::takes(&self.spec) {
            return planes::cost(&self.spec, [height, width]);
        }
        let flat = (height * self.image.pitch).div_ceil(16);
        flat.saturating_mul(self.spec.taps() + 4).saturating_add(self.image.cost(height))
    }

    /// The plan in single precision whose weights are followed by the filters transformed for
    /// minimal filtering ([`change_filters`](crate::conv::change_filters)), and whether it costs
    /// less than plain products. `None` if minimal filtering does not apply. The result is the same
    /// whether the filters are transformed before or during the run.
    pub fn with_changed_filters(&self) -> Option<(Conv, bool)> {
        if self.kind != Kind::Dense || self.tiles.is_some() || !winograd::takes(&self.spec) {
            return None;
        }
        self.by_tiles(true)
    }

    /// The plan by minimal filtering, and whether it costs less than plain products.
    fn by_tiles(&self, ahead: bool) -> Option<(Conv, bool)> {
        let (rows, block, cost) = Tiles::cheapest(&self.spec, [self.out[1], self.out[2]], ahead);
        let plan = self.clone().tiled_by(rows, block, ahead).ok().filter(|c| c.tiles.is_some())?;
        Some((plan, cost.saturating_add(cost / 8) < self.cost()))
    }

    /// Approximate cycles of the whole plan with an untransformed filter, counted as in [`cost`].
    pub(crate) fn cycles(&self) -> usize {
        let s = &self.spec;
        let (channels, own) = (s.channels_in / s.groups, s.channels_out / s.groups);
        if let Some(tiles) = &self.tiles {
            return Tiles::cheapest(s, [self.out[1], self.out[2]], tiles.is_ahead()).2;
        }
        let images = s.batch.saturating_mul(s.groups);
        let k = channels.saturating_mul(s.taps());
        // Rows of weights that would evict each other from the cache are copied for each strip.
        let copied = if crowded(k) { images.saturating_mul(self.strips()).saturating_mul(k * own / 2) } else { 0 };
        let products = if self.kind == Kind::Pointwise {
            let positions = self.out.iter().product::<usize>();
            let sixteenths = if self.in_place { points::cycles(positions) } else { positions.next_multiple_of(16) };
            sixteenths.saturating_mul(k * own / 16).saturating_mul(images).saturating_mul(2)
        } else {
            self.cost()
        };
        products.saturating_add(copied.saturating_mul(2))
    }

    /// [`cost`] of the whole convolution.
    fn cost(&self) -> usize {
        let s = &self.spec;
        let (channels, own) = (s.channels_in / s.groups, s.channels_out / s.groups);
        let images = [s.batch, s.groups, self.out[0], own.div_ceil(self.block)].into_iter();
        let images = images.fold(1, usize::saturating_mul);
        cost(self.rows, own.min(self.block), &self.image, images).saturating_mul(channels)
    }

    /// The plan by minimal filtering with the given units. `ahead` tells whether the filters come
    /// transformed.
    pub(crate) fn tiled_by(self, rows: usize, block: usize, ahead: bool) -> Result<Conv, ConvError> {
        let tiles = Tiles::new(&self.spec, [self.out[1], self.out[2]], rows, block, ahead);
        Conv { tiles, ..self }.with_units(rows, block)
    }

    /// Rows of a strip and output channels of a unit (planes for a depthwise convolution). `None`
    /// if the plan reads its operands in place and divides the work in its own way.
    pub fn divided(&self) -> Option<[usize; 2]> {
        let transposed = self.phases.is_some() || self.one_place.is_some() || self.spread.is_some();
        let alone = self.in_place || self.lanes.is_some() || transposed;
        (!alone).then_some([self.rows, self.block])
    }

    /// The numbers of which the rows and channels of a unit are multiples.
    pub fn grain(&self) -> [usize; 2] {
        if self.tiles.is_some() { [winograd::STEP, winograd::TOGETHER] } else { [1, 1] }
    }

    /// Whether units of `rows` rows by `block` channels are within the sizes of the convolution and
    /// fill whole register tiles.
    pub fn takes_units(&self, rows: usize, block: usize) -> bool {
        let whole = match self.kind {
            Kind::Depthwise => self.spec.batch * self.spec.channels_out,
            _ => (self.spec.channels_out / self.spec.groups.max(1)).next_multiple_of(12),
        };
        let size: usize = self.out.iter().product();
        let most = if self.kind == Kind::Pointwise { size } else { self.out[1].max(1) };
        if self.tiles.is_some() {
            let channels = (self.spec.channels_out / self.spec.groups.max(1)).next_multiple_of(winograd::TOGETHER);
            let whole = rows.is_multiple_of(winograd::STEP) && block.is_multiple_of(winograd::TOGETHER);
            return whole && rows <= most.next_multiple_of(winograd::STEP) && block <= channels;
        }
        rows <= most && block <= whole && (self.kind == Kind::Depthwise || block.is_multiple_of(12))
    }

    /// The same plan with other units. The result does not depend on them.
    ///
    /// # Errors
    /// Returns `Copy` if the copy of a strip is too large, or `Overflow` if an offset does not fit
    /// 32 bits.
    pub fn with_units(mut self, rows: usize, block: usize) -> Result<Conv, ConvError> {
        self.rows = rows.max(1);
        let together = if self.tiles.is_some() { winograd::TOGETHER } else { 12 };
        self.block = if self.kind == Kind::Depthwise { block.max(1) } else { block.max(1).next_multiple_of(together) };
        if let Some(tiles) = &self.tiles {
            self.rows = self.rows.next_multiple_of(winograd::STEP);
            let (size, ahead) = ([self.out[1], self.out[2]], tiles.is_ahead());
            self.tiles = Tiles::new(&self.spec, size, self.rows, self.block, ahead);
        }
        if self.kind == Kind::Pointwise {
            let size = self.out.iter().product::<usize>();
            for (list, step) in self.channels.iter_mut().zip([size, pitch(self.rows)]) {
                let places = (0..self.spec.channels_in / self.spec.groups).map(|c| u32::try_from(c * step));
                *list = places.collect::<Result<_, _>>().map_err(|_| ConvError::Overflow)?;
            }
        }
        let image_rows = if self.kind == Kind::Pointwise { 1 } else { self.rows };
        self.image = Image::with(&self.spec, image_rows, self.apart)?;
        let wide = self.out[2];
        if self.kind == Kind::Dense && whole_rows(&self.spec, wide) && self.image.pitch != wide {
            let per = wide / 16;
            let places = (0..self.rows * per).map(|p| u32::try_from(p / per * self.image.pitch + p % per * 16));
            self.panels = places.collect::<Result<_, _>>().map_err(|_| ConvError::Overflow)?;
        }
        let channels = if self.kind == Kind::Depthwise { 1 } else { self.spec.channels_in / self.spec.groups };
        let sums = if self.kind == Kind::Pointwise { 0 } else { self.block.saturating_mul(self.image.pitch) };
        let copy = self.image.len(channels).max(sums);
        if self.kind != Kind::Pointwise && copy > MOST_COPY {
            return Err(ConvError::Copy { floats: copy, most: MOST_COPY });
        }
        Ok(self)
    }

    /// Spatial sizes of the output.
    pub fn output(&self) -> [usize; 3] {
        self.out
    }

    /// Multiply-adds of the whole convolution.
    pub fn work(&self) -> u64 {
        self.spec.work(self.out.iter().product())
    }

    /// Approximate vector operations of the whole convolution: multiply-adds divided by sixteen, or
    /// more for depthwise convolutions whose short rows leave lanes idle.
    pub fn effort(&self) -> u64 {
        let products = self.work() / 16;
        if self.kind != Kind::Depthwise {
            return products;
        }
        let each = match &self.lanes {
            Some(lanes) => lanes.cost() / lanes::LANES,
            None => self.channel(),
        };
        products.max((self.spec.batch * self.spec.channels_out) as u64 * each as u64)
    }

    /// Elements read and written: input, weights and output.
    pub fn moved(&self) -> u64 {
        self.spec.moved(self.out.iter().product())
    }

    /// Number of strips of one image and one block of channels.
    fn strips(&self) -> usize {
        match self.kind {
            _ if self.phases.is_some() || self.one_place.is_some() => 1,
            Kind::Pointwise => self.out.iter().product::<usize>().div_ceil(self.rows),
            _ => self.out[0] * self.out[1].div_ceil(self.rows),
        }
    }

    fn blocks(&self) -> usize {
        match self.kind {
            Kind::Depthwise => self.spec.channels_out.div_ceil(self.block),
            _ => self.spec.groups * self.group_blocks(),
        }
    }

    /// Number of blocks of output channels of a group.
    fn group_blocks(&self) -> usize {
        (self.spec.channels_out / self.spec.groups).div_ceil(self.block)
    }

    /// Number of consecutive units that share the copy of a strip of the input.
    pub fn shared(&self) -> usize {
        let by_rows = self.phases.as_ref().is_some_and(Phases::in_panels);
        let copies = self.divided().is_some() && self.tiles.is_none() && self.kind != Kind::Depthwise || by_rows;
        if copies { self.group_blocks() } else { 1 }
    }

    /// Number of units of work.
    pub fn units(&self) -> usize {
        if self.out.contains(&0) || self.spec.channels_out == 0 {
            return 0;
        }
        if let Some(spread) = &self.spread {
            return spread.units(&self.spec);
        }
        self.spec.batch * self.blocks() * self.strips()
    }

    /// Whether this is a transposed convolution by windows. In single precision it uses the plain
    /// filter.
    pub fn is_spread(&self) -> bool {
        self.spread.is_some() || Spread::plan(&self.spec, self.out).is_some()
    }

    /// Number of elements of the weights, including filters that come transformed.
    pub fn weights(&self) -> usize {
        let s = &self.spec;
        if self.phases.as_ref().is_some_and(Phases::in_panels) {
            return phases::panels_len(s).unwrap_or(usize::MAX);
        }
        let given = s.channels_in / s.groups * s.channels_out * s.taps();
        let ahead = self.tiles.as_ref().filter(|t| t.is_ahead());
        given.saturating_add(ahead.and_then(|_| changed_filters_len(s)).unwrap_or(0))
    }

    /// Checks the lengths of the operands and of the result, once before any run.
    ///
    /// # Errors
    /// Returns `Short` with the name of the operand.
    pub fn check<T>(&self, x: usize, w: usize, out: usize, epilogue: &Epilogue<'_, T>) -> Result<(), ConvError> {
        let places = self.out.iter().product();
        self.spec.check_lengths((x, out), ("weights", w, self.weights()), places, epilogue)
    }
}
