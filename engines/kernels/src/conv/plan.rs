//! `Conv`: the plan of a convolution, made once from its sizes, and its run over strips.
use crate::conv::depthwise;
use crate::conv::finish::{Runs, finish};
use crate::conv::image::Image;
use crate::conv::lanes::{self, Lanes};
use crate::conv::planes::{self, Planes};
use crate::conv::points::{self, Points};
use crate::conv::spec::{ConvError, ConvSpec};
use crate::conv::winograd::filters::changed_filters_len;
use crate::conv::winograd::{self, Tiles};
use crate::gemm::micro::{Left, Listed, Panels, Placed, crowded, tile};
use crate::gemm::pack::{A_STRIDE, KC, copy_tile};
use crate::gemm::{Bias, Epilogue};
use crate::scratch::with_scratch;
use crate::shrink::shrink;
use crate::simd::isa::{Isa, PanelElem, Work, dispatch};
use crate::simd::singles::Singles;
use crate::view::Out;
use std::ops::Range;

/// Output channels of a unit at most; a multiple of every register tile.
const BLOCK: usize = 192;
/// Outputs of a unit, channels by positions, at most.
const AREA: usize = 48 * 1024;
/// Places of a depthwise strip: they stay in the nearest cache from the copy to the result.
const PLANE: usize = 3 * 1024;
/// Steps of a sum that are taken together where the weights need no copy.
const OWN: usize = 640;
/// The same as `AREA` where one row alone is more than that.
const MOST_AREA: usize = 1 << 20;
/// Output channels that are computed and finished together; a multiple of every register tile.
const TOGETHER: usize = 24;
/// As many units as keep the cores of a device busy, if there is work for them.
const WANTED: usize = 24;
/// Multiply-adds that a unit should have: what a strip copies and finishes is small beside them.
const GRAIN: usize = 384 * 1024;
/// Output channels of a group for which a copy of its one input channel, seen by all, is worth while.
const SHARED: usize = 12;

/// Floats of the copy of a strip at most: 512 MiB.
const MOST_COPY: usize = 1 << 27;

/// A planned convolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conv {
    spec: ConvSpec,
    out: [usize; 3],
    image: Image,
    kind: Kind,
    /// Output channels of a unit.
    block: usize,
    /// Output rows of a unit; for `Pointwise`, positions.
    rows: usize,
    /// For `Pointwise`: where the channels stand in the input, and in a copy of a strip of it.
    channels: [Vec<u32>; 2],
    /// The copy of a strip has a plane for each column of the window.
    apart: bool,
    /// Where the vectors of a strip stand in the copy where its rows are whole vectors, and longer
    /// in the copy than in the output.
    panels: Vec<u32>,
    /// Whether weights and images of single precision are read where they stand: units are then
    /// channels at all positions.
    in_place: bool,
    /// For windows of three by three, where that costs less: the tiles of minimal filtering.
    tiles: Option<Tiles>,
    /// For depthwise ones of small images in single precision, where that costs less: channels as
    /// lanes.
    lanes: Option<Lanes>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// One input channel to a group and few that come of it, not transposed.
    Depthwise,
    /// Kernel and stride of one, no border: the input itself is the second operand.
    Pointwise,
    /// All others.
    Dense,
}

/// Distance of two channels in the copy of a strip of `rows` positions.
fn pitch(rows: usize) -> usize {
    rows.next_multiple_of(16) + 16
}

/// Whether rows of the output are whole vectors: they are then computed one behind the other,
/// whatever stands between them in the copy.
fn whole_rows(spec: &ConvSpec, out: usize) -> bool {
    spec.transposed.is_none() && out.is_multiple_of(16)
}

/// Cycles, about, that the strips of `rows` of `images` images take for one input channel and `own`
/// output channels: those of one thread and twice those of the longer half, so that two threads have
/// alike much to do where that costs little. A vector of sixteen results takes a cycle a tap and
/// channel.
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

impl Conv {
    /// A plan.
    ///
    /// # Errors
    /// What is wrong with the sizes ([`ConvSpec::check`]).
    pub fn new(spec: &ConvSpec) -> Result<Conv, ConvError> {
        spec.check()?;
        let out = spec.output()?;
        let per_group = [spec.channels_in / spec.groups, spec.channels_out / spec.groups];
        let plain =
            spec.kernel == [1; 3] && spec.stride == [1; 3] && spec.pad_before == [0; 3] && spec.pad_after == [0; 3];
        let kind = match spec.transposed {
            None if plain && per_group[0] > 1 => Kind::Pointwise,
            // Many output channels share the copy of one that comes in.
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
                // A row is the least of a strip, however wide it is; then the channels become
                // fewer. Whole pairs of panels.
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
        // Up to twice the rows, and planes for the columns of the window, where that costs less.
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
        }
        .with_units(rows, block)
    }

    /// The plan for operands and results of single precision, which need no conversion and are read
    /// where they stand.
    pub fn in_singles(mut self) -> Conv {
        let positions = self.out.iter().product();
        if self.kind == Kind::Pointwise
            && let Some(rows) = points::rows(&self.spec, positions)
        {
            (self.in_place, self.block) = (true, rows);
        }
        if self.kind == Kind::Depthwise {
            return self.by_lanes();
        }
        if self.kind == Kind::Dense && winograd::takes(&self.spec) {
            return self.by_tiles(false).filter(|(_, less)| *less).map_or(self, |(plan, _)| plan);
        }
        self
    }

    /// A depthwise plan with channels as lanes, where that costs less.
    fn by_lanes(self) -> Conv {
        match Lanes::new(&self.spec, self.out) {
            Some(lanes) if lanes.cost() < lanes::LANES * self.channel() => self.with_lanes(lanes),
            _ => self,
        }
    }

    /// A depthwise plan with channels as lanes: units are some of them, of whole images.
    fn with_lanes(self, lanes: Lanes) -> Conv {
        let block = self.block.next_multiple_of(lanes::LANES);
        Conv { lanes: Some(lanes), rows: self.out[1].max(1), block, ..self }
    }

    /// The same, whatever it costs.
    #[cfg(test)]
    pub(crate) fn by_lanes_always(&self) -> Conv {
        let lanes = Lanes::new(&self.spec, self.out).expect("small images of sixteen channels");
        self.clone().with_lanes(lanes)
    }

    /// Cycles, about, that a depthwise plan takes for a channel.
    fn channel(&self) -> usize {
        let [_, height, width] = self.out;
        if planes::takes(&self.spec) {
            return planes::cost(&self.spec, [height, width]);
        }
        let flat = (height * self.image.pitch).div_ceil(16);
        flat.saturating_mul(self.spec.taps() + 4).saturating_add(self.image.cost(height))
    }

    /// The plan of single precision whose weights are followed by their filters changed for minimal
    /// filtering ([`change_filters`](crate::conv::change_filters)), and whether that costs less than
    /// plain products; None where there is none. It does not matter for the numbers who changed the
    /// filters.
    pub fn with_changed_filters(&self) -> Option<(Conv, bool)> {
        if self.kind != Kind::Dense || self.tiles.is_some() || !winograd::takes(&self.spec) {
            return None;
        }
        self.by_tiles(true)
    }

    /// The plan by minimal filtering, and whether that costs less than plain products.
    fn by_tiles(&self, ahead: bool) -> Option<(Conv, bool)> {
        let (rows, block, cost) = Tiles::cheapest(&self.spec, [self.out[1], self.out[2]], ahead);
        let plan = self.clone().tiled_by(rows, block, ahead).ok().filter(|c| c.tiles.is_some())?;
        Some((plan, cost.saturating_add(cost / 8) < self.cost()))
    }

    /// Cycles, about, of the whole plan with a filter as it comes, as [`cost`] counts them.
    pub(crate) fn cycles(&self) -> usize {
        let s = &self.spec;
        let (channels, own) = (s.channels_in / s.groups, s.channels_out / s.groups);
        if let Some(tiles) = &self.tiles {
            return Tiles::cheapest(s, [self.out[1], self.out[2]], tiles.is_ahead()).2;
        }
        let images = s.batch.saturating_mul(s.groups);
        let k = channels.saturating_mul(s.taps());
        // Rows of weights that would drive each other out are copied for each strip.
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

    /// [`cost`] of all.
    fn cost(&self) -> usize {
        let s = &self.spec;
        let (channels, own) = (s.channels_in / s.groups, s.channels_out / s.groups);
        let images = [s.batch, s.groups, self.out[0], own.div_ceil(self.block)].into_iter();
        let images = images.fold(1, usize::saturating_mul);
        cost(self.rows, own.min(self.block), &self.image, images).saturating_mul(channels)
    }

    /// The plan by minimal filtering, with such units; of filters that come changed or not.
    pub(crate) fn tiled_by(self, rows: usize, block: usize, ahead: bool) -> Result<Conv, ConvError> {
        let tiles = Tiles::new(&self.spec, [self.out[1], self.out[2]], rows, block, ahead);
        Conv { tiles, ..self }.with_units(rows, block)
    }

    /// Rows of its strips and output channels of a unit (of a depthwise one, planes); None where it
    /// reads its operands where they stand, in units of its own.
    pub fn divided(&self) -> Option<[usize; 2]> {
        (!self.in_place && self.lanes.is_none()).then_some([self.rows, self.block])
    }

    /// Of which numbers rows and channels of a unit are multiples.
    pub fn grain(&self) -> [usize; 2] {
        if self.tiles.is_some() { [winograd::STEP, winograd::TOGETHER] } else { [1, 1] }
    }

    /// Whether there are as many rows and channels, and channels fill registers.
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
        let per_output = (self.spec.channels_in / self.spec.groups * self.spec.taps()) as u64;
        let outputs = self.out.iter().fold((self.spec.batch * self.spec.channels_out) as u64, |a, &b| a * b as u64);
        outputs.saturating_mul(per_output)
    }

    /// Vector operations of the whole convolution, about: products by sixteen, and what short rows of
    /// depthwise ones leave idle.
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

    /// Elements that are read and written: input, weights and output.
    pub fn moved(&self) -> u64 {
        let of = |n: usize, sizes: &[usize]| sizes.iter().fold(n as u64, |a, &b| a.saturating_mul(b as u64));
        let s = &self.spec;
        let weights = of(s.channels_out, &[s.channels_in / s.groups.max(1), s.taps()]);
        let input = of(s.batch, &[s.channels_in]).saturating_mul(of(1, &s.input));
        input.saturating_add(weights).saturating_add(of(s.batch, &[s.channels_out]).saturating_mul(of(1, &self.out)))
    }

    /// Strips, and how many there are of one image and channel block.
    fn strips(&self) -> usize {
        match self.kind {
            Kind::Pointwise if self.in_place => 1,
            Kind::Pointwise => self.out.iter().product::<usize>().div_ceil(self.rows),
            _ => self.out[0] * self.out[1].div_ceil(self.rows),
        }
    }

    fn blocks(&self) -> usize {
        match self.kind {
            Kind::Depthwise => self.spec.channels_out.div_ceil(self.block),
            _ => self.spec.groups * (self.spec.channels_out / self.spec.groups).div_ceil(self.block),
        }
    }

    /// Number of units of work.
    pub fn units(&self) -> usize {
        if self.out.contains(&0) || self.spec.channels_out == 0 {
            return 0;
        }
        self.spec.batch * self.blocks() * self.strips()
    }

    /// Numbers of the weights, those of filters that come changed among them.
    pub fn weights(&self) -> usize {
        let s = &self.spec;
        let given = s.channels_in / s.groups * s.channels_out * s.taps();
        let ahead = self.tiles.as_ref().filter(|t| t.is_ahead());
        given.saturating_add(ahead.and_then(|_| changed_filters_len(s)).unwrap_or(0))
    }

    /// Checks the lengths of the operands and of the result, once before any run.
    ///
    /// # Errors
    /// `Short`, naming the operand.
    pub fn check<T>(&self, x: usize, w: usize, out: usize, epilogue: &Epilogue<'_, T>) -> Result<(), ConvError> {
        let s = &self.spec;
        let need = |operand, has: usize, needs: usize| {
            if has < needs { Err(ConvError::Short { operand, has, needs }) } else { Ok(()) }
        };
        let total = s.batch * s.channels_out * self.out.iter().product::<usize>();
        need("input", x, s.batch * s.channels_in * s.input.iter().product::<usize>())?;
        need("weights", w, self.weights())?;
        need("output", out, total)?;
        if let Bias::PerRow(b) | Bias::PerColumn(b) = epilogue.bias {
            need("bias", b.len(), s.channels_out)?;
        }
        if let Some((r, _)) = epilogue.residual {
            need("residual", r.len(), total)?;
        }
        Ok(())
    }

    /// Does the units. The epilogue's bias is one number a channel, [`Bias::PerRow`]. What comes
    /// out may be of another type than what goes in: sums are in single precision.
    ///
    /// # Errors
    /// As [`Conv::check`].
    pub fn run<T: PanelElem, U: PanelElem>(
        &self,
        units: Range<usize>,
        x: &[T],
        w: &[T],
        epilogue: &Epilogue<'_, U>,
        out: &mut Out<'_, U>,
    ) -> Result<(), ConvError> {
        self.check(x.len(), w.len(), out.len(), epilogue)?;
        let end = units.end.min(self.units());
        if let Some(lanes) = &self.lanes {
            let (Some(x), Some(w), Some(e)) = (T::singles(x), T::singles(w), epilogue.singles()) else {
                return Err(ConvError::Singles);
            };
            let (len, mut parts) = (out.len(), Singles(out));
            self.by_channels(lanes, units.start..end, (x, w), &e, &mut Out::by_parts(len, &mut parts));
            return Ok(());
        }
        if self.kind == Kind::Depthwise {
            let wide = self.rows * self.image.pitch + 16;
            let planes = planes::takes(&self.spec);
            return with_scratch(self.image.len(1) + wide, |s| {
                for unit in units.start..end {
                    let (rest, strip) = (unit / self.strips(), unit % self.strips());
                    let (n, block) = (rest / self.blocks(), rest % self.blocks());
                    let channels = block * self.block..((block + 1) * self.block).min(self.spec.channels_out);
                    let per = self.out[1].div_ceil(self.rows);
                    let (z, y0) = (strip / per, strip % per * self.rows);
                    let y = (y0, (y0 + self.rows).min(self.out[1]));
                    if let (true, Some(x), Some(w), Some(e)) =
                        (planes, T::singles(x), T::singles(w), epilogue.singles())
                    {
                        let (spec, size) = (&self.spec, (self.out[1], self.out[2]));
                        let (len, mut parts) = (out.len(), Singles(out));
                        let out = &mut Out::by_parts(len, &mut parts);
                        dispatch(Planes { spec, size, n, channels, y, x, w, epilogue: &e, out });
                        continue;
                    }
                    let job = depthwise::Strip { image: &self.image, n, channels, z, y, x, w, epilogue };
                    job.run(out, s);
                }
                Ok(())
            });
        }
        if self.in_place {
            let (Some(x), Some(w), Some(e)) = (T::singles(x), T::singles(w), epilogue.singles()) else {
                return Err(ConvError::Singles);
            };
            let (len, mut parts) = (out.len(), Singles(out));
            self.points(units.start..end, x, w, &e, &mut Out::by_parts(len, &mut parts));
            return Ok(());
        }
        if let (Some(tiles), Some(x), Some(w), Some(e)) =
            (&self.tiles, T::singles(x), T::singles(w), epilogue.singles())
        {
            let (len, mut parts) = (out.len(), Singles(out));
            self.tiled(tiles, units.start..end, x, w, &e, &mut Out::by_parts(len, &mut parts));
            return Ok(());
        }
        self.plain(units.start..end, x, w, epilogue, out);
        Ok(())
    }
}

impl Conv {
    /// Units of a dense convolution or one of one point, as products of weights and a copy of the
    /// image or the image itself.
    fn plain<T: PanelElem, U: PanelElem>(
        &self,
        units: Range<usize>,
        x: &[T],
        w: &[T],
        epilogue: &Epilogue<'_, U>,
        out: &mut Out<'_, U>,
    ) {
        let group_in = self.spec.channels_in / self.spec.groups;
        let copy = match self.kind {
            Kind::Pointwise => group_in * pitch(self.rows) + 16,
            _ => self.image.len(group_in),
        };
        let flat = match self.kind {
            Kind::Pointwise => self.rows,
            _ => self.rows * self.image.pitch,
        };
        let together = self.block.min(TOGETHER);
        let sums = together * flat.next_multiple_of(16);
        with_scratch(together * A_STRIDE + copy + sums, |s| {
            let (sa, s) = s.split_at_mut(together * A_STRIDE);
            let (image, sums) = s.split_at_mut(copy);
            let mut filled = None;
            for unit in units {
                let at = self.place(unit);
                let strip = Some((at.n, at.g, at.strip));
                let fresh = filled != strip;
                filled = strip;
                dispatch(Unit { conv: self, at, fresh, x, w, epilogue, out, sa, image, sums });
            }
        });
    }

    /// Where a unit is. Channel blocks of one strip follow each other, so that they share its copy.
    fn place(&self, unit: usize) -> At {
        let blocks = (self.spec.channels_out / self.spec.groups).div_ceil(self.block);
        let (rest, block) = (unit / blocks, unit % blocks);
        let (rest, strip) = (rest / self.strips(), rest % self.strips());
        At { n: rest / self.spec.groups, g: rest % self.spec.groups, strip, block }
    }

    /// Units of a depthwise convolution with channels as lanes.
    fn by_channels(
        &self,
        plan: &Lanes,
        units: Range<usize>,
        (x, w): (&[f32], &[f32]),
        epilogue: &Epilogue<'_, f32>,
        out: &mut Out<'_, f32>,
    ) {
        let all = self.spec.channels_out;
        with_scratch(plan.scratch(), |scratch| {
            scratch.fill(0.0);
            for unit in units {
                let (n, block) = (unit / self.blocks(), unit % self.blocks());
                let channels = block * self.block..((block + 1) * self.block).min(all);
                dispatch(lanes::Unit { plan, n, channels, all, x, w, epilogue, out, scratch });
            }
        });
    }

    /// Units by minimal filtering; those with numbers too large for it by plain products.
    fn tiled(
        &self,
        tiles: &Tiles,
        units: Range<usize>,
        x: &[f32],
        w: &[f32],
        epilogue: &Epilogue<'_, f32>,
        out: &mut Out<'_, f32>,
    ) {
        let s = &self.spec;
        let (group_in, group_out) = (s.channels_in / s.groups, s.channels_out / s.groups);
        let size: usize = s.input.iter().product();
        let (filters, changed) = w.split_at(s.channels_out * group_in * 9);
        with_scratch(tiles.scratch(), |scratch| {
            for unit in units {
                let At { n, g, strip, block } = self.place(unit);
                let (y, o) = (strip * self.rows, block * self.block);
                let (first, own) = (g * group_out + o, self.block.min(group_out - o));
                let done = dispatch(winograd::Unit {
                    tiles,
                    spec: s,
                    out_size: [self.out[1], self.out[2]],
                    y: (y, (y + self.rows).min(self.out[1])),
                    channel: first,
                    x: &x[(n * s.channels_in + g * group_in) * size..][..group_in * size],
                    w: &filters[first * group_in * 9..][..own * group_in * 9],
                    changed: changed.get(tiles.changed_at(g, group_out, o)..).unwrap_or(&[]),
                    epilogue,
                    at: (n * s.channels_out + first) * self.out[1] * self.out[2],
                    out,
                    scratch,
                });
                if !done {
                    self.plain(unit..unit + 1, x, w, epilogue, out);
                }
            }
        });
    }
}

impl Conv {
    /// Units of a convolution of one point in single precision.
    fn points(&self, units: Range<usize>, x: &[f32], w: &[f32], epilogue: &Epilogue<'_, f32>, out: &mut Out<'_, f32>) {
        let s = &self.spec;
        let (k, group_out) = (s.channels_in / s.groups, s.channels_out / s.groups);
        let positions: usize = self.out.iter().product();
        let blocks = group_out.div_ceil(self.block);
        with_scratch(k, |column| {
            for unit in units {
                let (image, block) = (unit / blocks, unit % blocks);
                let (n, g) = (image / s.groups, image % s.groups);
                let first = g * group_out + block * self.block;
                let m = self.block.min(group_out - block * self.block);
                dispatch(Points {
                    shape: (k, positions),
                    channels: (first, m),
                    w: &w[first * k..][..m * k],
                    x: &x[(n * s.channels_in + g * k) * positions..][..k * positions],
                    epilogue,
                    at: (n * s.channels_out + first) * positions,
                    out,
                    column,
                });
            }
        });
    }
}

#[derive(Clone, Copy)]
struct At {
    n: usize,
    g: usize,
    strip: usize,
    block: usize,
}

struct Unit<'p, 'a, 'o, T, U> {
    conv: &'p Conv,
    at: At,
    fresh: bool,
    x: &'a [T],
    w: &'a [T],
    epilogue: &'p Epilogue<'a, U>,
    out: &'p mut Out<'o, U>,
    sa: &'p mut [f32],
    image: &'p mut [f32],
    sums: &'p mut [f32],
}

impl<T: PanelElem, U: PanelElem> Work for Unit<'_, '_, '_, T, U> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(mut self, isa: I) {
        let c = self.conv;
        let s = &c.spec;
        let (group_in, group_out) = (s.channels_in / s.groups, s.channels_out / s.groups);
        let k = group_in * s.taps();
        let o0 = self.at.block * c.block;
        let o1 = (o0 + c.block).min(group_out);
        let m = o1 - o0;
        let size_in: usize = s.input.iter().product();
        let size_out: usize = c.out.iter().product();
        let x = &self.x[(self.at.n * s.channels_in + self.at.g * group_in) * size_in..][..group_in * size_in];
        let channel = self.at.g * group_out + o0;
        // Outputs of the strip, and how they lie in the sums: runs of `run` at distance `pitch`.
        let (first, run, pitch, runs) = match c.kind {
            Kind::Pointwise => {
                let p0 = self.at.strip * c.rows;
                let n = (p0 + c.rows).min(size_out) - p0;
                (p0, n, n, 1)
            }
            _ => {
                let per = c.out[1].div_ceil(c.rows);
                let (z, y0) = (self.at.strip / per, self.at.strip % per * c.rows);
                let y1 = (y0 + c.rows).min(c.out[1]);
                if self.fresh {
                    c.image.fill(x, group_in, z, (y0, y1), self.image);
                }
                let (first, rows) = ((z * c.out[1] + y0) * c.out[2], y1 - y0);
                if c.image.pitch == c.out[2] || !c.panels.is_empty() {
                    let all = rows * c.out[2];
                    (first, all, all, 1)
                } else {
                    (first, c.out[2], c.image.pitch, rows)
                }
            }
        };
        let flat = (runs - 1) * pitch + run;
        let panels = flat.div_ceil(16);
        let width = panels * 16;
        // A channel stride that is a multiple of 1 KiB puts all channels on few cache sets: those
        // are copied.
        let in_place = Listed { data: x.get(first..).unwrap_or(&[]), rows: &c.channels[0], highest: 0 };
        let highest = (group_in.max(1) - 1) * size_in;
        let pitch_of_copy = self::pitch(c.rows);
        let direct = c.kind == Kind::Pointwise
            && !size_in.is_multiple_of(256)
            && Listed { highest, ..in_place }.reaches(group_in, panels);
        if c.kind == Kind::Pointwise && !direct && self.fresh {
            for ch in 0..group_in {
                let row = &mut self.image[ch * pitch_of_copy..ch * pitch_of_copy + width];
                let (head, tail) = row.split_at_mut(run);
                tail.fill(0.0);
                for (d, v) in head.iter_mut().zip(&x[ch * size_in + first..][..run]) {
                    *d = v.wide();
                }
            }
        }
        // Weights of single precision are read where they stand.
        let own = T::singles(self.w).filter(|_| s.transposed.is_none() && !crowded(k));
        let own = own.map(|w| &w[self.at.g * group_out * k..][..group_out * k]);
        // Some rows at a time: their sums are finished while they are in the nearest cache.
        for first_row in (0..m).step_by(TOGETHER) {
            let rows_here = TOGETHER.min(m - first_row);
            let from = o0 + first_row;
            if k == 0 {
                self.sums[..rows_here * width].fill(0.0);
            }
            let mut k0 = 0;
            while k0 < k {
                let k1 = (k0 + if own.is_some() { OWN } else { KC }).min(k);
                let shape = (rows_here, panels, k1 - k0);
                if own.is_none() {
                    self.weights((from, from + rows_here), (k0, k1));
                }
                let a = match own {
                    Some(w) => Left { data: &w[from * k + k0..], stride: k },
                    None => Left::copied(self.sa),
                };
                if direct {
                    let b = Listed { rows: &c.channels[0][k0..k1], highest, ..in_place };
                    tile::<I, _, MR, NP, N4, N1>(isa, shape, a, b, self.sums, width, k0 == 0);
                } else {
                    let (rows, highest) = match c.kind {
                        Kind::Pointwise => (&c.channels[1][k0..k1], (group_in - 1) * pitch_of_copy),
                        _ => (&c.image.places[k0..k1], c.image.highest),
                    };
                    let b = Listed { data: &*self.image, rows, highest };
                    if c.panels.is_empty() {
                        tile::<I, _, MR, NP, N4, N1>(isa, shape, a, b, self.sums, width, k0 == 0);
                    } else {
                        let b = Placed { rows: b, panels: &c.panels[..panels] };
                        tile::<I, _, MR, NP, N4, N1>(isa, shape, a, b, self.sums, width, k0 == 0);
                    }
                }
                k0 = k1;
            }
            for i in 0..rows_here {
                let row = &mut self.sums[i * width..(i + 1) * width];
                let own = channel + first_row + i;
                let to = (self.at.n * s.channels_out + own) * size_out + first;
                finish(self.epilogue, own, Runs { count: runs, len: run, pitch }, row, self.out, to);
            }
        }
    }
}

impl<T: PanelElem, U> Unit<'_, '_, '_, T, U> {
    /// Rows `o` of the weights of the group, columns `k`, to working memory.
    #[inline(always)]
    fn weights(&mut self, o: (usize, usize), k: (usize, usize)) {
        let s = &self.conv.spec;
        let (group_in, group_out) = (s.channels_in / s.groups, s.channels_out / s.groups);
        let taps = s.taps();
        if s.transposed.is_none() {
            let row = group_in * taps;
            let w = &self.w[self.at.g * group_out * row..][..group_out * row];
            copy_tile(w, o, k, (row, 1), self.sa);
            return;
        }
        // [in, out / groups, kernel], the kernel turned round.
        let w = &self.w[self.at.g * group_in * group_out * taps..];
        for i in o.0..o.1 {
            for kk in k.0..k.1 {
                let (c, tap) = (kk / taps, kk % taps);
                self.sa[(i - o.0) * A_STRIDE + kk - k.0] = w[(c * group_out + i) * taps + taps - 1 - tap].wide();
            }
        }
    }
}
