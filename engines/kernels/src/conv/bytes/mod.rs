//! Convolutions of bytes: `sum_{c, k} (x[n, c, ...] - x_zero) (w[o, c, k] - w_zero[o])` in 32 bits,
//! and the requantisation of the sums.
//!
//! As in single precision, a strip of the input is copied once with its borders, and every tap is a
//! shifted run of the copy. Here an element of the copy is four channels of one position, side by
//! side, which is what the byte dot products of processors take. Lanes are positions, so the
//! channels of the result come out as rows, and nothing is transposed on either side.
//!
//! **The packed filter** is FRACTAL_Z of bytes, which is also the form that an AI core takes:
//! `[ceil(C / 32)][tap][ceil(O / 16) * 16][32]`, channels innermost. A filter with one input
//! channel per group stays `[O][tap]`. A register tile reads eight rows of one step of it at fixed
//! distances, whatever the instruction set. Elements beyond O and C may have any value. The filter
//! transformed for minimal filtering (`winograd`) may follow it.

/// Approximate costs, and the choice of units.
mod costs;
/// Depthwise convolutions: one input channel per group.
mod depthwise;
/// The padded copy of a strip of the input.
mod fill;
/// Products of panels that are gathered for the tile registers of the machine.
#[cfg_attr(not(all(target_arch = "x86_64", target_os = "linux")), allow(dead_code))]
mod gathered;
/// The register tile over output positions alone, without the border between rows.
mod joined;
/// The register tile that adds pairs of products in 16 bits.
#[cfg(target_arch = "x86_64")]
mod paired;
/// The register tile.
mod tile;
/// The ways to compute sums.
mod way;
/// The register tile that multiplies pairs of 16-bit numbers.
#[cfg(target_arch = "x86_64")]
mod widened;
/// Convolutions with three-by-three windows, with fewer multiplications.
pub mod winograd;

use crate::conv::image::Image;
use crate::conv::spec::{ConvError, ConvSpec};
use crate::conv::winograd::STEP;
use crate::requantise::{Requantise, requantise_row, requantise_tiles};
use crate::scratch::with_scratch;
use crate::view::{Out, as_bytes, as_bytes_mut, seen_as_mut};
use costs::{Choice, Costs, WANTED};
use std::ops::Range;
use tile::{DEEP, Kept, ROWS, Step};
use way::{FilterRows, Way};
use winograd::filters::{Changed, changed_filters_len};
use winograd::{Tiles, weave};

/// Output channels are padded to a multiple of this.
const WIDE: usize = 16;
/// Most elements of the copy of a strip: 512 MiB.
const MOST_COPY: usize = 1 << 27;

/// Bytes of the packed filters of all groups.
pub fn packed_filter_len(spec: &ConvSpec) -> usize {
    if is_depthwise(spec) { spec.channels_out * spec.taps() } else { spec.groups * group_len(spec) }
}

/// Whether there is one input channel per group and more than one group.
fn is_depthwise(spec: &ConvSpec) -> bool {
    spec.groups == spec.channels_in && spec.groups > 1
}

fn group_len(s: &ConvSpec) -> usize {
    (s.channels_in / s.groups).div_ceil(DEEP) * s.taps() * (s.channels_out / s.groups).next_multiple_of(WIDE) * DEEP
}

/// Packs a filter `[O, C / groups, taps]`, one group after the other. `out` must have
/// [`packed_filter_len`] bytes.
pub fn pack_filter(spec: &ConvSpec, w: &[i8], out: &mut [i8]) {
    let (taps, deep) = (spec.taps(), spec.channels_in / spec.groups);
    let own = spec.channels_out / spec.groups;
    if is_depthwise(spec) {
        out[..w.len()].copy_from_slice(w);
        return;
    }
    let step = own.next_multiple_of(WIDE) * DEEP;
    let size = group_len(spec).max(1);
    for (g, out) in out[..packed_filter_len(spec)].chunks_exact_mut(size).enumerate() {
        out.fill(0);
        for o in 0..own {
            let filter = &w[(g * own + o) * deep * taps..][..deep * taps];
            for (c, line) in filter.chunks_exact(taps.max(1)).enumerate() {
                for (t, v) in line.iter().enumerate() {
                    out[(c / DEEP * taps + t) * step + o * DEEP + c % DEEP] = *v;
                }
            }
        }
    }
}

/// The filter that [`pack_filter`] packed; `None` if `packed` is too short.
pub fn unpack_filter(spec: &ConvSpec, packed: &[i8]) -> Option<Vec<i8>> {
    let (taps, deep, own) = (spec.taps(), spec.channels_in / spec.groups, spec.channels_out / spec.groups);
    let all = packed.get(..packed_filter_len(spec))?;
    if is_depthwise(spec) {
        return Some(all.to_vec());
    }
    let step = own.next_multiple_of(WIDE) * DEEP;
    let of = |o: usize, c: usize, t: usize| {
        let group = &all[o / own * group_len(spec)..];
        group[(c / DEEP * taps + t) * step + o % own * DEEP + c % DEEP]
    };
    let lines = (0..spec.channels_out).flat_map(|o| (0..deep).map(move |c| (o, c)));
    Some(lines.flat_map(|(o, c)| (0..taps).map(move |t| of(o, c, t))).collect())
}

/// The second operand: a packed filter with its zero points. In filters that come transformed, the
/// zero points are already subtracted.
#[derive(Clone, Copy, Debug)]
pub struct ByteFilter<'a> {
    /// The packed filter, followed by its transform if the plan uses one.
    pub packed: &'a [i8],
    /// Zero points: one, or one per output channel. Empty means zero.
    pub zeros: &'a [i32],
}

/// The first operand: bytes. An exclusive or with `flip` makes them unsigned; `zero` is the zero
/// point after that.
#[derive(Clone, Copy, Debug)]
pub struct ByteImages<'a> {
    /// The bytes, laid out as `[N, C, ...]`.
    pub x: &'a [u8],
    /// 0 for unsigned bytes, 128 for signed ones.
    pub flip: u8,
    /// Zero point of the unsigned bytes.
    pub zero: u8,
}

/// The number of an output channel in a list that has one for all channels, one for each, or none,
/// which means zero.
fn of_channel(list: &[i32], channel: usize) -> i32 {
    list.get(if list.len() == 1 { 0 } else { channel }).copied().unwrap_or(0)
}

/// A planned convolution of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByteConv {
    spec: ConvSpec,
    out: [usize; 3],
    /// The copy; each of its channels stands for four input channels.
    image: Image,
    /// Number of blocks of four input channels in a group.
    fours: usize,
    /// Whether there is one input channel per group.
    depthwise: bool,
    /// The tiles of minimal filtering, if filters come transformed.
    tiles: Option<Tiles>,
    /// Bytes of the transformed filters that follow the packed ones.
    behind: usize,
    /// Output rows of a unit.
    rows: usize,
    /// Output channels of a unit.
    block: usize,
    /// Whether panels are gathered for AMX tiles, on machines that have them.
    gathered: bool,
}

/// Where the sums of one output channel go: `runs` runs of `run` positions, `pitch` apart in the
/// sums, are written one after the other beginning at `to`.
struct Runs {
    channel: usize,
    to: usize,
    run: usize,
    pitch: usize,
    runs: usize,
}

impl ByteConv {
    /// Makes a plan.
    ///
    /// # Errors
    /// Fails if the sizes are wrong ([`ConvSpec::check`]) or the copy of a strip is too large
    /// (`Copy`). Returns `Transposed` for a transposed convolution.
    pub fn new(spec: &ConvSpec) -> Result<ByteConv, ConvError> {
        spec.check()?;
        if spec.transposed.is_some() {
            return Err(ConvError::Transposed);
        }
        let out = spec.output()?;
        let fours = (spec.channels_in / spec.groups).div_ceil(4);
        let image = Image::new(&ConvSpec { channels_in: fours * spec.groups, ..spec.clone() }, 1)?;
        let depthwise = is_depthwise(spec);
        let (spec, rows, block) = (spec.clone(), 1, ROWS);
        let plan =
            ByteConv { spec, out, image, fours, depthwise, tiles: None, behind: 0, rows, block, gathered: false };
        if depthwise {
            let (rows, block) = depthwise::units(out, plan.spec.channels_out, WANTED);
            return plan.with_units(rows, block);
        }
        let Choice { rows, block, gathered, .. } = plan.cheapest(Costs::here());
        ByteConv { gathered, ..plan }.with_units(rows, block)
    }

    /// The same plan by minimal filtering, for filters followed by the output of
    /// [`change_byte_filters`]. `None` if minimal filtering does not apply.
    ///
    /// [`change_byte_filters`]: crate::conv::change_byte_filters
    pub fn with_changed_filters(&self) -> Option<ByteConv> {
        if self.depthwise {
            return None;
        }
        let (tiles, behind) = (Tiles::new(&self.spec, self.out)?, changed_filters_len(&self.spec)?);
        Some(ByteConv { tiles: Some(tiles), behind, ..self.clone() })
    }

    /// Whether transformed filters save time on any kind of machine, because a file with packed
    /// filters is for all of them.
    pub fn changed_filters_pay(&self) -> bool {
        [&Costs::DOTS, &Costs::PAIRS].into_iter().any(|costs| self.by_tiles(costs))
    }

    /// The same plan, without minimal filtering if that is slower on this machine. The filters stay
    /// the same.
    pub fn cheaper_here(self) -> ByteConv {
        let tiles = if self.by_tiles(Costs::here()) { self.tiles } else { None };
        ByteConv { tiles, ..self }
    }

    /// Whether minimal filtering costs less.
    fn by_tiles(&self, costs: &Costs) -> bool {
        self.tiles.as_ref().is_some_and(|t| t.cost(costs) < self.cheapest(costs).cost)
    }

    /// Bytes of the packed filter followed by its transform, whatever the image sizes. `None` if
    /// minimal filtering does not apply.
    pub fn changed_filter_len(&self) -> Option<usize> {
        if self.depthwise { None } else { packed_filter_len(&self.spec).checked_add(changed_filters_len(&self.spec)?) }
    }

    /// Bytes of the packed filter and of what follows it.
    pub fn filter_len(&self) -> usize {
        packed_filter_len(&self.spec) + self.behind
    }

    /// The same plan with other units. For tests: the result does not depend on them.
    ///
    /// # Errors
    /// Returns `Copy` if the copy of a strip would be too large.
    pub fn with_units(mut self, rows: usize, block: usize) -> Result<ByteConv, ConvError> {
        self.rows = rows.max(1);
        self.block = if self.depthwise { block.max(1) } else { block.max(1).next_multiple_of(ROWS) };
        self.tiles = self.tiles.and_then(|t| t.with_units(rows, block));
        self.image = Image::new(&self.image.spec, self.rows)?;
        let floats = self.image.len(self.fours);
        if floats > MOST_COPY {
            return Err(ConvError::Copy { floats, most: MOST_COPY });
        }
        Ok(self)
    }

    /// Multiply-adds of the whole convolution.
    pub fn work(&self) -> u64 {
        let per_output = (self.spec.channels_in / self.spec.groups * self.spec.taps()) as u64;
        let outputs = self.out.iter().fold((self.spec.batch * self.spec.channels_out) as u64, |a, &b| a * b as u64);
        outputs.saturating_mul(per_output)
    }

    fn strips(&self) -> usize {
        self.out[0] * self.out[1].div_ceil(self.rows)
    }

    fn blocks(&self) -> usize {
        let groups = if self.depthwise { 1 } else { self.spec.groups };
        (self.spec.channels_out / groups).div_ceil(self.block)
    }

    /// Number of consecutive units that share what is made of a strip of the input.
    pub fn shared(&self) -> usize {
        match &self.tiles {
            Some(tiles) => tiles.blocks(),
            None if self.depthwise => 1,
            None => self.blocks(),
        }
    }

    /// Number of units of work.
    pub fn units(&self) -> usize {
        if self.out.contains(&0) || self.spec.channels_out == 0 {
            return 0;
        }
        if let Some(tiles) = &self.tiles {
            return tiles.units();
        }
        let groups = if self.depthwise { 1 } else { self.spec.groups };
        self.spec.batch * groups * self.strips() * self.blocks()
    }

    fn check(
        &self,
        x: &ByteImages<'_>,
        w: &ByteFilter<'_>,
        out: usize,
        lists: &[(&'static str, usize)],
    ) -> Result<(), ConvError> {
        let s = &self.spec;
        let need = |operand, has: usize, needs: usize| {
            if has < needs { Err(ConvError::Short { operand, has, needs }) } else { Ok(()) }
        };
        need("input", x.x.len(), s.batch * s.channels_in * s.input.iter().product::<usize>())?;
        need("weights", w.packed.len(), self.filter_len())?;
        need("output", out, s.batch * s.channels_out * self.out.iter().product::<usize>())?;
        for (what, has) in lists.iter().copied().chain([("zero points", w.zeros.len())]) {
            if has > 1 {
                need(what, has, s.channels_out)?;
            }
        }
        Ok(())
    }

    /// Computes the units: `y = saturate(round_half_even((sum + bias) * scale) + zero)`, with the
    /// product in double precision. Signed and unsigned results are both written as bytes.
    ///
    /// # Errors
    /// Returns `Short` with the name of the operand, or `Misplaced` if transformed filters are not
    /// aligned.
    pub fn run(
        &self,
        units: Range<usize>,
        x: ByteImages<'_>,
        w: ByteFilter<'_>,
        bias: &[i32],
        to: &Requantise<'_>,
        out: &mut Out<'_, u8>,
    ) -> Result<(), ConvError> {
        self.check(&x, &w, out.len(), &[("bias", bias.len()), ("scales", to.scale.len())])?;
        if let Some(tiles) = &self.tiles {
            tiles.each(units, x, self.changed(&w)?, bias, |at, add, sums, rows| {
                requantise_tiles(sums, add, to, at.channel, STEP, rows);
                at.put(rows, out);
            });
            return Ok(());
        }
        self.each(units, x, w, bias, |at, add, sums, bytes| {
            if at.runs == 1 {
                return requantise_row(&sums[..at.run], add, to, at.channel, out.part(at.to, at.run));
            }
            requantise_row(sums, add, to, at.channel, bytes);
            let to = out.part(at.to, at.run * at.runs);
            for (to, from) in to.chunks_exact_mut(at.run).zip(bytes.chunks(at.pitch)) {
                to.copy_from_slice(&from[..at.run]);
            }
        });
        Ok(())
    }

    /// Computes the units; the result is the sums themselves.
    ///
    /// # Errors
    /// Returns `Short` with the name of the operand, or `Misplaced` if transformed filters are not
    /// aligned.
    pub fn run_sums(
        &self,
        units: Range<usize>,
        x: ByteImages<'_>,
        w: ByteFilter<'_>,
        out: &mut Out<'_, i32>,
    ) -> Result<(), ConvError> {
        self.check(&x, &w, out.len(), &[])?;
        if let Some(tiles) = &self.tiles {
            let mut rows = Vec::new();
            tiles.each(units, x, self.changed(&w)?, &[], |at, add, sums, _| {
                rows.resize(sums.len(), 0);
                weave(sums, add, &mut rows);
                at.put(&rows, out);
            });
            return Ok(());
        }
        self.each(units, x, w, &[], |at, add, sums, _| {
            let to = out.part(at.to, at.run * at.runs);
            for (to, sums) in to.chunks_exact_mut(at.run).zip(sums.chunks(at.pitch)) {
                for (t, s) in to.iter_mut().zip(sums) {
                    *t = s.wrapping_add(add);
                }
            }
        });
        Ok(())
    }

    /// The transformed filters that follow the packed ones.
    fn changed<'a>(&self, w: &ByteFilter<'a>) -> Result<Changed<'a>, ConvError> {
        let behind = &as_bytes(w.packed)[packed_filter_len(&self.spec)..];
        Changed::of(&self.spec, behind).ok_or(ConvError::Misplaced { operand: "weights" })
    }

    /// Calls `done` for each output channel of each unit, with the raw sums, the number still to be
    /// added to each of them, and memory for as many bytes.
    fn each(
        &self,
        units: Range<usize>,
        x: ByteImages<'_>,
        w: ByteFilter<'_>,
        bias: &[i32],
        mut done: impl FnMut(&Runs, i32, &mut [i32], &mut [u8]),
    ) {
        if self.depthwise {
            return self.each_plane(units, x, w, bias, done);
        }
        let s = &self.spec;
        let (deep, own, taps) = (s.channels_in / s.groups, s.channels_out / s.groups, s.taps());
        let [_, height, width] = self.out;
        let (size_in, size_out) = (s.input.iter().product::<usize>(), self.out.iter().product::<usize>());
        let pitch = self.image.pitch;
        let most = (self.rows * pitch).next_multiple_of(16);
        // Whole cache lines, so that what follows begins at one.
        let copy_len = self.image.len(self.fours).next_multiple_of(16);
        let gathered = self.gathered && crate::simd::level::amx();
        // Sums of so many channels are in memory at a time.
        let most_rows = if gathered { self.block.min(own).next_multiple_of(WIDE) } else { ROWS };
        let has_zeros = w.zeros.iter().any(|z| *z != 0);
        let blank = vec![x.flip; s.input[2]];
        let stride = if gathered { gathered::stride(gathered::steps(self.fours, taps)) } else { 0 };
        let filter_len = stride / 4 * most_rows * self.blocks();
        with_scratch(filter_len + copy_len + (most_rows + 1) * most + most.div_ceil(4), |all| {
            let (filter, rest) = all.split_at_mut(filter_len);
            let (copy, rest) = rest.split_at_mut(copy_len);
            let (sums, rest) = rest.split_at_mut(most_rows * most);
            let (places, bytes) = rest.split_at_mut(most);
            // The working memory is lent as floats; here it holds integers.
            let (Ok(copy), Ok(sums), Ok(places), Ok(filter)) = (
                seen_as_mut::<u32, _>(copy),
                seen_as_mut::<i32, _>(sums),
                seen_as_mut::<i32, _>(places),
                seen_as_mut::<i8, _>(filter),
            ) else {
                return;
            };
            let mut filter = FilterRows::new(filter, [self.blocks(), most_rows, stride], [deep, taps]);
            let bytes = as_bytes_mut(bytes);
            let (mut filled, mut kept) = (None, Kept::default());
            // Sums of the filters of group `summed`, computed when needed.
            let (mut filter_sums, mut summed) = (vec![None; own], None);
            for unit in units.start..units.end.min(self.units()) {
                // Channel blocks of one strip are consecutive, so that they share its copy.
                let (rest, block) = (unit / self.blocks(), unit % self.blocks());
                let (rest, strip) = (rest / self.strips(), rest % self.strips());
                let (n, g) = (rest / s.groups, rest % s.groups);
                let per = height.div_ceil(self.rows);
                let (z, y0) = (strip / per, strip % per * self.rows);
                let y = (y0, (y0 + self.rows).min(height));
                let runs = y.1 - y.0;
                let way = Way::of(gathered, width, pitch, runs);
                let flat = way.vectors() * 16;
                let packed = &w.packed[g * group_len(s)..][..group_len(s)];
                let fresh = filled != Some((n, g, strip));
                if fresh {
                    let planes = &x.x[(n * s.channels_in + g * deep) * size_in..][..deep * size_in];
                    fill::fill(&self.image, planes, (deep, z, y), (x.flip, x.zero), &blank, copy);
                    filled = Some((n, g, strip));
                }
                let step = Step {
                    filter: packed,
                    stride: own.next_multiple_of(WIDE) * DEEP,
                    places: &self.image.places[..if self.fours == 0 { 0 } else { taps }],
                    fours: self.fours,
                    four: self.image.channel_len(),
                    copy,
                };
                if fresh && has_zeros {
                    way.totals(&step, sums, places);
                }
                let first = block * self.block;
                let end = (first + self.block).min(own);
                if summed.replace(g) != Some(g) {
                    filter_sums.fill(None);
                    filter.forget();
                    kept.forget();
                }
                let mut next = first;
                while next < end {
                    let (o, rows) = (next, if gathered { most_rows } else { ROWS });
                    next += rows;
                    let sums = &mut sums[..rows * flat];
                    way.sums(&step, o, filter.of(&step, block, first), &mut kept, sums);
                    for (i, sums) in sums.chunks_exact_mut(flat).enumerate().take(end - o) {
                        let channel = g * own + o + i;
                        let zero = of_channel(w.zeros, channel);
                        let mut add = of_channel(bias, channel);
                        if x.zero != 0 {
                            let plain = || filter_sum(packed, step.stride, (o + i) * DEEP, deep, taps);
                            let sum = || filter.sum(block, i).unwrap_or_else(plain);
                            let sum = *filter_sums[o + i].get_or_insert_with(sum);
                            let k = (deep * taps) as i32;
                            let centred = sum.wrapping_sub(zero.wrapping_mul(k));
                            add = add.wrapping_sub(centred.wrapping_mul(i32::from(x.zero)));
                        }
                        if zero != 0 {
                            less(sums, &places[..flat], zero);
                        }
                        let to = (n * s.channels_out + channel) * size_out + (z * height + y0) * width;
                        // Sums of output positions alone are one run.
                        let whole = way.is_joined() || pitch == width;
                        let (run, pitch, runs) = if whole { (runs * width, flat, 1) } else { (width, pitch, runs) };
                        done(&Runs { channel, to, run, pitch, runs }, add, sums, &mut bytes[..flat]);
                    }
                }
            }
        });
    }
}

crate::multiversion! {
    /// The sum of the filter of one output channel.
    fn filter_sum(packed: &[i8], stride: usize, at: usize, deep: usize, taps: usize) -> i32 {
        let mut lanes = [0i32; DEEP];
        for (i, step) in packed.chunks_exact(stride.max(1)).enumerate() {
            let line = &step[at..at + DEEP];
            let have = deep - i / taps.max(1) * DEEP;
            if have >= DEEP {
                for (l, v) in lanes.iter_mut().zip(line) {
                    *l += i32::from(*v);
                }
            } else {
                for (l, v) in lanes[..have].iter_mut().zip(line) {
                    *l += i32::from(*v);
                }
            }
        }
        lanes.iter().sum()
    }
}

crate::multiversion! {
    /// `sums[i] -= by * places[i]`.
    fn less(sums: &mut [i32], places: &[i32], by: i32) {
        for (s, p) in sums.iter_mut().zip(places) {
            *s = s.wrapping_sub(by.wrapping_mul(*p));
        }
    }
}

#[cfg(test)]
mod tests;
