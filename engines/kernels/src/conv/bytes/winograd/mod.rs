//! Winograd's minimal filtering, F(4x4, 3x3), in integers: convolutions of bytes with
//! three-by-three windows and strides of one, with a quarter of the multiplications and exactly the
//! same sums.
//!
//! The points of the interpolation are 0, ±1, ±2 and infinity. The input `d` becomes `B' d B`,
//! which fits 16 bits for any bytes. A filter `g` becomes `S G g G' S`, which fits 16 bits too; the
//! diagonal `S` (4, 6, 6, 24, 24 and 1) makes all numbers of `G` integers. Pairs of channels are
//! multiplied and summed in 32 bits, which wrap around. `A'` with the rest of `S` gives 576 times
//! the sum, modulo 2^32. As 576 is 9 times 64, and 9 has an inverse modulo 2^32, this gives 64
//! times the sum, and so the sum itself if it is within 2^25. Filters whose sums could leave that
//! range for some bytes are not transformed at all (`filters`).
//!
//! A vector holds sixteen tiles, with the rows of tiles one after the other, so that all vectors
//! but the last are full. A unit is some such vectors of one image and group by a block of output
//! channels. Names call transformed data "changed"; each of the 36 elements of a transformed tile
//! is a place.
use super::{ByteImages, Costs, of_channel};
use crate::conv::spec::ConvSpec;
use crate::conv::winograd::{self, PLACES, SIDE, STEP};
use crate::layout::copy_run;
use crate::scratch::with_scratch;
use crate::view::{Elem, Out, as_bytes_mut, seen_as_mut};
use filters::Changed;
use std::ops::Range;

/// Filters transformed for the products.
pub mod filters;
/// Transforms the input bytes.
mod input;
/// Transforms the products to sums.
mod output;
/// The products.
mod product;
/// Wrapping integer arithmetic over one lane or many.
mod ring;

/// Tiles of a vector.
const LANES: usize = 16;
/// Output channels of a register tile.
const ROWS: usize = 8;
/// Outputs in one row of a vector of tiles.
const ROW: usize = STEP * LANES;
/// Sums of a vector of tiles, in the order rows, columns, tiles.
const SUMS: usize = STEP * ROW;
/// Most bytes of the transformed input of a unit. A second-level cache of a megabyte holds them and
/// the filters that are read with them.
const MOST_INPUT: usize = 540 * 1024;
/// Like `MOST_INPUT`, for filters that do not fit that cache: each read of them then serves more
/// tiles.
const MOST_ALONE: usize = 640 * 1024;
/// Most bytes of transformed filters that stay in the second-level cache.
const KEPT: usize = 400 * 1024;
/// Number of units that is enough to share.
const WANTED: usize = 12;
/// Extra distance between the data of one place and that of the next, beyond whole vectors. Without
/// it they would map to few cache sets.
const APART: usize = 16;

/// How many register tiles of output channels are multiplied with the input of a place while it is
/// in the first-level cache. Processors without AVX-512 have second-level caches that hold only a
/// part of the input of a unit.
fn together() -> usize {
    if crate::simd::level() >= crate::simd::Level::Avx512 { 1 } else { 4 }
}

/// Whether a convolution has the windows and strides that this module supports. Positions in a
/// plane are computed as signed numbers, so sizes must be below 2^28.
fn takes(s: &ConvSpec) -> bool {
    winograd::takes(s) && s.pad_before.iter().chain(&s.input).all(|&v| v < 1 << 28)
}

/// How a convolution is computed by tiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tiles {
    spec: ConvSpec,
    /// Height and width of the output.
    out: [usize; 2],
    /// Tiles per row, and rows of tiles.
    across: usize,
    down: usize,
    /// Most vectors of a unit.
    vectors: usize,
    /// Output channels of a unit.
    block: usize,
    /// Register tiles of output channels that are multiplied with the input of a place together.
    together: usize,
}

/// Where the sums of one output channel go, for the tiles of one unit.
pub(super) struct Place<'t> {
    tiles: &'t Tiles,
    /// The output channel, counted over all groups.
    pub(super) channel: usize,
    /// Where its plane begins in the output.
    plane: usize,
    /// The first tile, and the end.
    first: usize,
    end: usize,
}

impl Place<'_> {
    /// Writes the four rows of the tiles to the output; `rows` has them one after the other.
    pub(super) fn put<T: Elem>(&self, rows: &[T], out: &mut Out<'_, T>) {
        let (t, wide) = (self.tiles, rows.len() / STEP);
        let [height, width] = t.out;
        let mut at = self.first;
        while at < self.end {
            let (row, column) = (at / t.across, at % t.across);
            let (first, from) = (row * STEP, (at - self.first) * STEP);
            let to = self.plane + first * width + column * STEP;
            let whole = if column == 0 { (self.end - at) / t.across } else { 0 };
            if whole > 0 {
                // Whole rows of tiles are one contiguous range of the output.
                let high = (whole * STEP).min(height - first);
                for (y, to) in out.part(to, high * width).chunks_exact_mut(width).enumerate() {
                    let from = y % STEP * wide + from + y / STEP * t.across * STEP;
                    copy_run(&rows[from..][..width], to);
                }
                at += whole * t.across;
                continue;
            }
            let here = (t.across - column).min(self.end - at);
            let len = (here * STEP).min(width - column * STEP);
            for i in 0..STEP.min(height - first) {
                copy_run(&rows[i * wide + from..][..len], out.part(to + i * width, len));
            }
            at += here;
        }
    }
}

impl Tiles {
    /// Plans a convolution with output `out`. `None` if minimal filtering does not apply, or if the
    /// units would be too large.
    pub(super) fn new(spec: &ConvSpec, out: [usize; 3]) -> Option<Tiles> {
        if !takes(spec) || spec.groups == 0 || [out, spec.input].concat().contains(&0) || spec.channels_in == 0 {
            return None;
        }
        let (across, down) = (out[2].div_ceil(STEP), out[1].div_ceil(STEP));
        let (out, together) = ([out[1], out[2]], together());
        let tiles = Tiles { spec: spec.clone(), out, across, down, vectors: 1, block: ROWS, together };
        let pairs = tiles.pairs();
        let filters = filters::changed_filters_len(spec)? / spec.groups;
        let most = if filters <= KEPT { MOST_INPUT } else { MOST_ALONE };
        let vectors = (most / (PLACES * LANES * 4 * pairs.max(1))).clamp(1, tiles.all());
        // Each unit gets about the same number of vectors.
        let vectors = tiles.all().div_ceil(tiles.all().div_ceil(vectors));
        let strips = tiles.all().div_ceil(vectors).saturating_mul(spec.batch).saturating_mul(spec.groups).max(1);
        let blocks = WANTED.div_ceil(strips).min(tiles.own().div_ceil(4 * ROWS).max(1));
        let block = tiles.own().div_ceil(blocks).next_multiple_of(ROWS);
        // There are too few channels to share, so the tiles are shared.
        let vectors = if blocks == 1 && strips < WANTED { tiles.all().div_ceil(WANTED) } else { vectors };
        tiles.with_units(vectors, block)
    }

    /// The same plan with other units; `None` if they are too large.
    pub(super) fn with_units(mut self, vectors: usize, block: usize) -> Option<Tiles> {
        self.vectors = vectors.clamp(1, self.all());
        self.block = block.max(1).next_multiple_of(ROWS);
        let whole = PLACES.checked_mul(self.pairs().checked_mul(self.vectors * LANES)?)?;
        (whole < 1 << 27).then_some(self)
    }

    /// The same plan with another number of register tiles together.
    #[cfg(test)]
    pub(super) fn with_together(self, together: usize) -> Tiles {
        Tiles { together, ..self }
    }

    /// Cost on one thread.
    pub(super) fn cost(&self, costs: &Costs) -> usize {
        let all = self.all().saturating_mul(self.spec.batch).saturating_mul(self.spec.groups);
        let own = self.own().next_multiple_of(ROWS);
        let sums = own.saturating_mul(costs.pair * self.pairs() + costs.sums);
        let filters = filters::changed_filters_len(&self.spec).unwrap_or(usize::MAX);
        let strips = self.all().div_ceil(self.vectors).saturating_mul(self.spec.batch);
        // About ten bytes per cycle come from beyond the second-level cache.
        let read = if filters <= KEPT { 0 } else { filters.saturating_mul(strips) };
        all.saturating_mul(sums.saturating_add(costs.seen * self.pairs())).saturating_add(read)
    }

    /// Vectors of tiles of an image.
    fn all(&self) -> usize {
        (self.across * self.down).div_ceil(LANES).max(1)
    }

    /// Pairs of input channels of a group; the last may have only one channel.
    fn pairs(&self) -> usize {
        (self.spec.channels_in / self.spec.groups).div_ceil(2)
    }

    /// Output channels of a group.
    fn own(&self) -> usize {
        self.spec.channels_out / self.spec.groups
    }

    fn strips(&self) -> usize {
        self.all().div_ceil(self.vectors)
    }

    /// The vectors of a strip. Strips have about the same number of them. The last vector, which may
    /// be partly used, is in one of the longer strips.
    fn strip(&self, strip: usize) -> Range<usize> {
        let (all, strips) = (self.all(), self.strips());
        strip * all / strips..(strip + 1) * all / strips
    }

    /// Number of blocks of output channels of a group.
    pub(super) fn blocks(&self) -> usize {
        self.own().div_ceil(self.block)
    }

    pub(super) fn units(&self) -> usize {
        self.spec.batch * self.spec.groups * self.strips() * self.blocks()
    }

    fn pitch(&self) -> usize {
        self.pairs() * self.vectors * LANES + APART
    }

    /// Computes the units. Calls `done` for each output channel of each unit with the number to be
    /// added to its sums, the sums ([`output::sums`]), and working memory of one byte per sum.
    pub(super) fn each(
        &self,
        units: Range<usize>,
        x: ByteImages<'_>,
        changed: Changed<'_>,
        bias: &[i32],
        mut done: impl FnMut(&Place<'_>, i32, &mut [i32], &mut [u8]),
    ) {
        let s = &self.spec;
        let (deep, own, pairs) = (s.channels_in / s.groups, self.own(), self.pairs());
        let (size_in, size_out) = (s.input.iter().product::<usize>(), self.out.iter().product::<usize>());
        let wide = self.vectors * LANES;
        let room = self.vectors * SUMS;
        let parts = [PLACES * self.pitch(), self.together * ROWS * PLACES * wide, room];
        with_scratch(parts.iter().sum::<usize>() + room / 4, |all| {
            let (seen, rest) = all.split_at_mut(parts[0]);
            let (products, rest) = rest.split_at_mut(parts[1]);
            let (sums, bytes) = rest.split_at_mut(parts[2]);
            // The working memory is lent as floats; here it holds integers of the same size.
            let (Ok(seen), Ok(products), Ok(sums)) =
                (seen_as_mut::<u32, _>(seen), seen_as_mut::<i32, _>(products), seen_as_mut::<i32, _>(sums))
            else {
                return;
            };
            let bytes = as_bytes_mut(bytes);
            let mut filled = None;
            for unit in units.start..units.end.min(self.units()) {
                // Channel blocks of one strip are consecutive, so that they share its input.
                let (rest, block) = (unit / self.blocks(), unit % self.blocks());
                let (rest, strip) = (rest / self.strips(), rest % self.strips());
                let (n, g) = (rest / s.groups, rest % s.groups);
                let of_strip = self.strip(strip);
                let (first, vectors) = (of_strip.start, of_strip.len());
                let (from, end) = (first * LANES, ((first + vectors) * LANES).min(self.across * self.down));
                if filled.replace((n, g, strip)) != Some((n, g, strip)) {
                    let planes = &x.x[(n * s.channels_in + g * deep) * size_in..][..deep * size_in];
                    input::change(self, planes, (x.flip, x.zero), first, vectors, seen);
                }
                let each = ROWS * PLACES * vectors * LANES;
                let sums = &mut sums[..vectors * SUMS];
                let last = ((block + 1) * self.block).min(own);
                for o in (block * self.block..last).step_by(self.together * ROWS) {
                    // The input of a place is read for several register tiles of output channels
                    // while it is in the first-level cache.
                    let firsts = (o..last).step_by(ROWS).take(self.together);
                    for place in 0..PLACES {
                        let seen = &seen[place * self.pitch()..][..pairs * wide];
                        for (o, products) in firsts.clone().zip(products.chunks_exact_mut(each)) {
                            let filter = &changed.rows(g, o)[place * pairs * ROWS..][..pairs * ROWS];
                            product::rows(filter, seen, [wide, end - from], place, products);
                        }
                    }
                    let rows = products.chunks_exact(each / ROWS).enumerate();
                    for (r, products) in rows.take((last - o).min(self.together * ROWS)) {
                        let channel = g * own + o + r;
                        let less = changed.sums[channel].wrapping_mul(i32::from(x.zero));
                        let add = of_channel(bias, channel).wrapping_sub(less);
                        let plane = (n * s.channels_out + channel) * size_out;
                        output::sums(products, sums);
                        done(
                            &Place { tiles: self, channel, plane, first: from, end },
                            add,
                            sums,
                            &mut bytes[..vectors * SUMS],
                        );
                    }
                }
            }
        });
    }
}

/// Reorders sums from vectors, rows, columns and tiles so that those of an output row are adjacent.
/// `rows` has row 0 of the tiles of all vectors, then row 1, and so on. Adds `add` to each sum.
pub(super) fn weave(sums: &[i32], add: i32, rows: &mut [i32]) {
    let wide = sums.len() / STEP;
    for (at, row) in sums.as_chunks::<ROW>().0.iter().enumerate() {
        let to = rows[at % STEP * wide + at / STEP * ROW..][..ROW].as_chunks_mut::<STEP>().0;
        for (lane, to) in to.iter_mut().enumerate() {
            *to = std::array::from_fn(|j| row[j * LANES + lane].wrapping_add(add));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_of_a_tile_come_side_by_side() {
        use crate::requantise::{Requantise, requantise_tiles};
        // Two vectors; the value of each sum is its target position.
        let wide = 2 * ROW;
        let place = |at: usize| {
            let (vector, row, column, tile) = (at / SUMS, at / ROW % STEP, at / LANES % STEP, at % LANES);
            row * wide + vector * ROW + tile * STEP + column
        };
        let sums: Vec<i32> = (0..2 * SUMS).map(|at| place(at) as i32 - 7).collect();
        let mut rows = vec![0; sums.len()];
        weave(&sums, 7, &mut rows);
        assert!(rows.iter().enumerate().all(|(i, v)| *v == i as i32));
        for level in crate::simd::Level::available() {
            // Halves lie near the middle between two bytes and are computed again. With a large
            // scale, all sums are.
            for (scale, bytes) in [(0.25, 4), (0.5, 2), (1e35, 0)] {
                let to = Requantise { scale: &[scale], zero: 3, range: [0, 255] };
                let mut y = vec![0; sums.len()];
                crate::simd::with_level(level, || requantise_tiles(&sums, 7, &to, 0, STEP, &mut y));
                let want = |i: usize| match bytes {
                    0 if i == 0 => 3,
                    0 => 255,
                    n => ((i as f64 / f64::from(n)).round_ties_even() as i32 + 3).min(255) as u8,
                };
                assert!((0..y.len()).all(|i| y[i] == want(i)), "{level:?} {scale}");
            }
        }
    }
}
