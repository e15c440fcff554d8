//! Winograd's minimal filtering, F(4x4, 3x3): convolutions with three-by-three windows and strides
//! of one in single precision, with a quarter of the multiplications.
//!
//! The output is cut into tiles of four by four. The six-by-six input of a tile is transformed to
//! 36 numbers (`B' d B`), and so is a filter (`G g G'`). The products of these, summed over the
//! channels, are transformed to the tile (`A' m A`). The sums are 36 matrix products, filters by
//! tiles; each of the 36 is called a place. A vector holds sixteen tiles, so the three transforms
//! are plain vector arithmetic. Names call transformed data "changed".
//!
//! The points of the interpolation are 0, ±sqrt(1/2), ±sqrt(2) and infinity. The customary points,
//! 0, ±1, ±2, have errors of five times those of the plain sums; these have one and a half to twice
//! (in single precision against double, normal numbers, 64 channels). Barabasz, Anderson,
//! Soodhalter and Gregg, "Error analysis and improving the accuracy of Winograd convolution", 2020,
//! shows how the error depends on the points.
//!
//! A number that is far greater than those around it spoils the digits of all outputs of its tiles,
//! also of those that do not read it. A unit is left to the plain convolution if its greatest
//! number is not one of many of that size, or is 2^40 or more, or is NaN.
//!
//! A unit transforms its filters once and then moves down its rows, a few rows of tiles at a time.
//! Alternatively filters come transformed ([`filters`]).
use crate::conv::finish::{Runs, finish};
use crate::conv::planes::within;
use crate::conv::spec::ConvSpec;
use crate::gemm::Epilogue;
use crate::simd::isa::{Isa, Work};
use crate::simd::turn::turn;
use crate::view::Out;
use even::{are_even, is_small};
use filters::{PER_FILTER, changed_filters};

/// Whether numbers may share a tile.
mod even;
/// Filters transformed for the products.
pub mod filters;

/// Outputs on a side of a tile.
pub(crate) const STEP: usize = 4;
/// Inputs on a side of what a tile reads.
pub(crate) const SIDE: usize = 6;
/// Number of matrix products.
pub(crate) const PLACES: usize = SIDE * SIDE;
/// Output channels that are computed and finished at a time; they are adjacent in the transformed
/// filters.
pub(crate) const TOGETHER: usize = 16;
/// Most elements of the transformed input of a strip, so that they stay in the second-level cache.
const MOST_INPUT: usize = 160 * 1024;
/// Most elements of transformed filters that are kept from strip to strip.
const MOST_FILTERS: usize = 640 * 1024;
/// If the last vector has at most this many tiles, the lanes of its products are output channels.
const FEW: usize = 8;
/// Extra distance between the data of one place and that of the next, beyond a whole number of
/// rows. Without it they would map to few cache sets.
const APART: usize = 16;

/// Whether a convolution has the windows and strides that this module supports.
pub(crate) fn takes(s: &ConvSpec) -> bool {
    let flat = s.input[0] == 1 && s.pad_before[0] == 0 && s.pad_after[0] == 0;
    // Positions in a plane are computed as signed numbers.
    let near = s.pad_before.iter().chain(&s.input).all(|&v| v < 1 << 30);
    flat && near && s.kernel == [1, 3, 3] && s.stride == [1; 3] && s.dilation == [1; 3] && s.transposed.is_none()
}

/// How to compute a unit: some rows by a block of output channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tiles {
    /// Tiles per row, and rows of tiles that are computed at a time.
    across: usize,
    down: usize,
    /// Elements of a row of the transformed input; whole vectors.
    width: usize,
    /// Input channels of a group, and output channels of a unit.
    channels: [usize; 2],
    /// Whether filters come transformed.
    ahead: bool,
}

/// Rows of tiles that are computed at a time, at most `all`.
fn down(channels: usize, across: usize, all: usize) -> usize {
    let vectors = (MOST_INPUT / (PLACES * 16 * channels.max(1))).max(1);
    (vectors * 16 / across.max(1)).clamp(1, all.max(1))
}

impl Tiles {
    /// For units of `rows` output rows by `block` output channels; `out` is height and width of the
    /// output. `None` if the units are too large.
    pub(crate) fn new(s: &ConvSpec, out: [usize; 2], rows: usize, block: usize, ahead: bool) -> Option<Tiles> {
        let channels = [s.channels_in / s.groups, block.min(s.channels_out / s.groups)];
        let across = out[1].div_ceil(STEP);
        let down = down(channels[0], across, rows.min(out[0]).div_ceil(STEP));
        let width = across.checked_mul(down)?.next_multiple_of(16);
        let whole = PLACES.checked_mul(channels[0].checked_mul(width)?)?;
        (whole < 1 << 27).then_some(Tiles { across, down, width, channels, ahead })
    }

    pub(crate) fn is_ahead(&self) -> bool {
        self.ahead
    }

    /// Rows and channels of a unit, and the cost of the whole convolution: the approximate cycles
    /// of one thread plus twice those of the larger half, as for plain products.
    pub(crate) fn cheapest(s: &ConvSpec, out: [usize; 2], ahead: bool) -> (usize, usize, usize) {
        let [c, o] = [s.channels_in / s.groups, s.channels_out / s.groups];
        let (across, all) = (out[1].div_ceil(STEP).max(1), out[0].div_ceil(STEP).max(1));
        let images = s.batch.saturating_mul(s.groups).max(1);
        let vectors = |tiles: usize| across.saturating_mul(tiles).div_ceil(16);
        // Cycles of the products of one place for sixteen output channels.
        let products = |tiles: usize| match across.saturating_mul(tiles) % 16 {
            few @ 1..=FEW => (across * tiles - few + few.next_multiple_of(4)).saturating_mul(c) + 64,
            _ => vectors(tiles).saturating_mul(16).saturating_mul(c),
        };
        // Cost of a unit of `high` rows of tiles by `block` channels.
        let of = |high: usize, block: usize| {
            let step = down(c, across, high);
            let all =
                |of: &dyn Fn(usize) -> usize| (high / step).saturating_mul(of(step)).saturating_add(of(high % step));
            let (panels, products) = (all(&vectors), all(&products));
            let steps = high.div_ceil(step);
            let seen = (high * STEP + 2 * steps).div_ceil(at_once(across)).saturating_mul(across.div_ceil(16));
            let input = c.saturating_mul(panels.saturating_mul(380).saturating_add(seen.saturating_mul(80)));
            let whole = block.next_multiple_of(TOGETHER);
            let kept = PLACES * c * whole <= MOST_FILTERS;
            // Filters are transformed, or transformed filters are read from the caches or from
            // memory.
            let each = if ahead { 100 } else { 420 };
            let filters = (c * whole / TOGETHER).saturating_mul(each).saturating_mul(if kept { 1 } else { steps });
            let sums = products.saturating_mul(PLACES * whole / TOGETHER).saturating_add(panels * 480 * block);
            sums.saturating_add(input).saturating_add(filters)
        };
        let mut best = None;
        let highs = std::iter::successors(Some(all), |h| (*h > 1).then(|| h.div_ceil(2)));
        for high in highs {
            for block in [o, o.div_ceil(2), o.div_ceil(4)].map(|b| b.max(1).next_multiple_of(TOGETHER)) {
                let blocks = o.div_ceil(block).max(1);
                let one = of(high, block.min(o));
                let strips = (all / high).saturating_mul(one).saturating_add(of(all % high, block.min(o)));
                let cycles = images.saturating_mul(strips.saturating_mul(blocks));
                let units = images.saturating_mul(all.div_ceil(high)).saturating_mul(blocks);
                // The cost is higher if further threads would find no work.
                let half = one.saturating_mul(units.div_ceil(2)).min(cycles);
                let few = if units < (cycles / 100_000).clamp(1, 12) { cycles / 8 } else { 0 };
                let cost = cycles.saturating_add(half.saturating_mul(2)).saturating_add(few);
                let found = (cost, high * STEP, block);
                best = Some(best.map_or(found, |b| found.min(b)));
            }
        }
        best.map_or((STEP, TOGETHER, usize::MAX), |(cost, rows, block)| (rows, block, cost))
    }

    /// Offset of the transformed filters of output channel `o` of group `g`, where `o` is the first
    /// of a block of sixteen.
    pub(crate) fn changed_at(&self, g: usize, group_out: usize, o: usize) -> usize {
        (g * group_out.div_ceil(TOGETHER) + o / TOGETHER) * PLACES * self.filter_block()
    }

    fn input_pitch(&self) -> usize {
        self.channels[0] * self.width + APART
    }

    /// Elements of the transformed filters of one place and sixteen output channels.
    fn filter_block(&self) -> usize {
        self.channels[0] * TOGETHER
    }

    /// Blocks of sixteen output channels whose filters are transformed and kept at a time.
    fn filter_blocks(&self) -> usize {
        if self.ahead {
            return 0;
        }
        let all = self.channels[1].div_ceil(TOGETHER);
        if PLACES * self.filter_block() * all <= MOST_FILTERS { all } else { 1 }
    }

    fn filter_pitch(&self) -> usize {
        self.filter_blocks() * self.filter_block() + APART
    }

    /// Elements of one plane. A channel has one plane for each row modulo four and each of the six
    /// columns that a tile reads; a plane holds every fourth row and column of the input.
    fn plane(&self) -> usize {
        (self.down + 1) * self.across + 32
    }

    /// Elements of each part of the working memory: planes, transformed input, transformed filters,
    /// sums, tiles by rows, rows.
    fn parts(&self) -> [usize; 6] {
        [
            STEP * SIDE * self.plane(),
            PLACES * self.input_pitch(),
            PLACES * self.filter_pitch(),
            PLACES * TOGETHER * self.width,
            STEP * STEP * self.width + 16,
            STEP * STEP * self.down * self.across + 16,
        ]
        .map(|n| n.next_multiple_of(16))
    }

    /// Elements of all working memory.
    pub(crate) fn scratch(&self) -> usize {
        self.parts().iter().sum()
    }
}

/// One unit.
pub(crate) struct Unit<'p, 'a, 'o> {
    pub(crate) tiles: &'p Tiles,
    pub(crate) spec: &'p ConvSpec,
    /// Height and width of the output.
    pub(crate) out_size: [usize; 2],
    /// Output rows: the first one and the end.
    pub(crate) y: (usize, usize),
    /// The first output channel.
    pub(crate) channel: usize,
    /// The input channels of the group, and the filters of the output channels.
    pub(crate) x: &'a [f32],
    pub(crate) w: &'a [f32],
    /// The transformed filters, beginning with those of the first output channel; empty if filters
    /// do not come transformed.
    pub(crate) changed: &'a [f32],
    pub(crate) epilogue: &'p Epilogue<'a, f32>,
    /// Where the plane of the first output channel begins in `out`.
    pub(crate) at: usize,
    pub(crate) out: &'p mut Out<'o, f32>,
    pub(crate) scratch: &'p mut [f32],
}

impl Work for Unit<'_, '_, '_> {
    /// Whether the unit was computed. If not, its numbers are too large or too uneven, and nothing
    /// was written.
    type Out = bool;

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) -> bool {
        let (t, s) = (self.tiles, self.spec);
        let filter = t.channels[0] * PER_FILTER;
        let own = self.w.len() / filter.max(1);
        let source = Source { size: [s.input[1], s.input[2]], top: s.pad_before[1], left: s.pad_before[2] };
        if !t.ahead && !is_small(isa, self.w) || !are_even(isa, source.seen(self.x, self.y)) {
            return false;
        }
        let mut rest = self.scratch;
        let [planes, input, filters, sums, tiles, rows] = t.parts().map(|n| {
            let (part, behind) = std::mem::take(&mut rest).split_at_mut(n);
            rest = behind;
            part
        });
        let mut grid = [[isa.splat(0.0); SIDE]; SIDE];
        let (size_in, size_out) = (source.size[0] * source.size[1], self.out_size[0] * self.out_size[1]);
        let mut kept = 0..0;
        for y in (self.y.0..self.y.1).step_by(t.down * STEP) {
            let high = (t.down * STEP).min(self.y.1 - y);
            let down = high.div_ceil(STEP);
            let count = down * t.across;
            let panels = count.div_ceil(16);
            for (c, x) in self.x.chunks_exact(size_in.max(1)).enumerate() {
                source.planes(isa, t, x, (y, down), planes);
                changed_input(isa, t, planes, panels, &mut grid, &mut input[c * t.width..]);
            }
            for o in (0..own).step_by(TOGETHER) {
                let block = o / TOGETHER;
                if !t.ahead && !kept.contains(&block) {
                    kept = block..block + t.filter_blocks();
                    let w = self.w[o * filter..].chunks(TOGETHER * filter).take(t.filter_blocks());
                    for (w, at) in w.zip((0..).step_by(t.filter_block())) {
                        changed_filters(isa, w, t.channels[0], t.filter_pitch(), &mut grid, &mut filters[at..]);
                    }
                }
                for p in 0..PLACES {
                    let a = if t.ahead {
                        &self.changed[(block * PLACES + p) * t.filter_block()..][..t.filter_block()]
                    } else {
                        let from = p * t.filter_pitch() + (block - kept.start) * t.filter_block();
                        &filters[from..][..t.filter_block()]
                    };
                    let b = &input[p * t.input_pitch()..][..t.channels[0] * t.width];
                    let to = &mut sums[p * TOGETHER * t.width..][..TOGETHER * t.width];
                    if NP > 1 {
                        products::<I, 8, 3, 16>(isa, a, b, (t.width, count), to);
                    } else {
                        products::<I, 4, 1, 4>(isa, a, b, (t.width, count), to);
                    }
                }
                for i in 0..TOGETHER.min(own - o) {
                    changed_sums(isa, &sums[i * t.width..], (t.width, panels), &mut grid, tiles);
                    let len = in_order(isa, t, tiles, (high, self.out_size[1]), rows);
                    let to = self.at + (o + i) * size_out + y * self.out_size[1];
                    let runs = Runs { count: 1, len, pitch: len };
                    finish(self.epilogue, self.channel + o + i, runs, &mut rows[..len], self.out, to);
                }
            }
        }
        true
    }
}

/// The sums over the channels of one place: `to[o][tile] = sum_c a[c][o] b[c][tile]` for sixteen
/// output channels and `count` tiles. Rows of `b` and `to` have `width` elements. Computes `N`
/// vectors of tiles by `R` output channels at a time, or one vector by `R1`. If the last vector has
/// at most [`FEW`] tiles, its lanes are the output channels.
#[inline(always)]
fn products<I: Isa, const R: usize, const N: usize, const R1: usize>(
    isa: I,
    a: &[f32],
    b: &[f32],
    (width, count): (usize, usize),
    to: &mut [f32],
) {
    let few = if count % 16 <= FEW { count % 16 } else { 0 };
    let panels = (count - few).div_ceil(16);
    let mut p = 0;
    while p < panels {
        let n = panels - p;
        // Four are done as two and two, not as three and one.
        if n >= N && (N < 3 || n != N + 1) {
            rows::<I, R, N>(isa, a, b, (width, p), to);
            p += N;
        } else if n >= 2 && N >= 2 {
            rows::<I, R, 2>(isa, a, b, (width, p), to);
            p += 2;
        } else {
            rows::<I, R1, 1>(isa, a, b, (width, p), to);
            p += 1;
        }
    }
    if few > 0 {
        last_tiles(isa, a, b, (width, panels * 16, few), to);
    }
}

/// [`products`] of the `few` tiles from tile `at` on, four at a time. Lanes are output channels and
/// are transposed at the end. What is written after the tiles is arbitrary.
#[inline(always)]
fn last_tiles<I: Isa>(isa: I, a: &[f32], b: &[f32], (width, at, few): (usize, usize, usize), to: &mut [f32]) {
    let channels = a.len() / TOGETHER;
    assert!(few <= FEW && at + 16 <= width && b.len() >= channels * width && to.len() >= TOGETHER * width);
    let mut sums = [isa.splat(0.0); 16];
    for (sums, first) in sums.as_chunks_mut::<4>().0.iter_mut().zip((at..at + few).step_by(4)) {
        let mut acc = [isa.splat(0.0); 4];
        let mut x = b[first..].as_ptr();
        for a in a.as_chunks::<TOGETHER>().0 {
            let w = isa.load(a);
            for (i, acc) in acc.iter_mut().enumerate() {
                // SAFETY: the tiles are within the row of `b` by the assertion.
                *acc = isa.fma(isa.splat(unsafe { *x.wrapping_add(i) }), w, *acc);
            }
            x = x.wrapping_add(width);
        }
        *sums = acc;
    }
    turn(isa, &mut sums);
    for (o, v) in sums.iter().enumerate() {
        store(isa, *v, to, o * width + at);
    }
}

/// Computes `N` vectors beginning with vector `p`, `R` output channels at a time.
#[inline(always)]
fn rows<I: Isa, const R: usize, const N: usize>(
    isa: I,
    a: &[f32],
    b: &[f32],
    (width, p): (usize, usize),
    to: &mut [f32],
) {
    let channels = a.len() / TOGETHER;
    assert!((p + N) * 16 <= width && b.len() >= channels * width && to.len() >= TOGETHER * width);
    for r in (0..TOGETHER).step_by(R) {
        let mut acc = [[isa.splat(0.0); N]; R];
        let (mut x, mut y) = (a[r..].as_ptr(), b[p * 16..].as_ptr());
        for _ in 0..channels {
            let mut v = [isa.splat(0.0); N];
            for (j, v) in v.iter_mut().enumerate() {
                // SAFETY: row and vectors are within `b` by the assertion.
                *v = isa.load(unsafe { &*y.wrapping_add(j * 16).cast() });
            }
            for (i, acc) in acc.iter_mut().enumerate() {
                // SAFETY: `a` has sixteen elements per channel, of which these are `R` beginning at
                // `r`.
                let w = isa.splat(unsafe { *x.wrapping_add(i) });
                for (acc, v) in acc.iter_mut().zip(v) {
                    *acc = isa.fma(w, v, *acc);
                }
            }
            (x, y) = (x.wrapping_add(TOGETHER), y.wrapping_add(width));
        }
        for (i, acc) in acc.iter().enumerate() {
            for (j, v) in acc.iter().enumerate() {
                store(isa, *v, to, (r + i) * width + (p + j) * 16);
            }
        }
    }
}

/// Loads sixteen elements.
#[inline(always)]
fn load<I: Isa>(isa: I, from: &[f32], at: usize) -> I::V {
    let Some((v, _)) = from[at..].split_first_chunk() else { return isa.splat(0.0) };
    isa.load(v)
}

/// Stores sixteen elements.
#[inline(always)]
fn store<I: Isa>(isa: I, v: I::V, to: &mut [f32], at: usize) {
    if let Some((to, _)) = to[at..].split_first_chunk_mut() {
        isa.store(v, to);
    }
}

/// The columns `4 t + k` for each `k` from zero to five. `near` holds 64 columns, and `far` the 64
/// that begin four columns later.
#[inline(always)]
fn by_column<I: Isa>(isa: I, near: [I::V; 4], far: [I::V; 4]) -> [I::V; SIDE] {
    let [a, b, c, d] = near;
    let ((a, b), (c, d)) = (isa.even_odd(a, b), isa.even_odd(c, d));
    let ((zero, two), (one, three)) = (isa.even_odd(a, c), isa.even_odd(b, d));
    let [a, b, c, d] = far;
    let ((a, b), (c, d)) = (isa.even_odd(a, b), isa.even_odd(c, d));
    [zero, one, two, three, isa.even_odd(a, c).0, isa.even_odd(b, d).0]
}

/// Rows of tiles that are read from the input at a time: several if rows of `across` tiles fill a
/// vector together.
fn at_once(across: usize) -> usize {
    if matches!(across, 4 | 8) { 16 / across } else { 1 }
}

/// Height and width of the input, and the padding above and on the left.
struct Source {
    size: [usize; 2],
    top: usize,
    left: usize,
}

impl Source {
    /// The planes of what `down` rows of tiles, beginning at output row `first`, read of channel
    /// `x`. Plane `(r % 4, k)` has the columns `4 t + k` of the rows `r` for the tiles `t` of a
    /// row, one row after the other. What a vector writes beyond its row is overwritten by the next
    /// one.
    #[inline(always)]
    fn planes<I: Isa>(&self, isa: I, t: &Tiles, x: &[f32], (first, down): (usize, usize), planes: &mut [f32]) {
        let [height, width] = self.size;
        let plane = t.plane();
        match t.across {
            4 => return self.short_planes::<I, 4>(isa, plane, x, (first, down), planes),
            8 => return self.short_planes::<I, 8>(isa, plane, x, (first, down), planes),
            _ => {}
        }
        let edge = Columns::at(isa, -(self.left as isize), width);
        for r in 0..down * STEP + 2 {
            let at = r % STEP * SIDE * plane + r / STEP * t.across;
            let row = (first + r).wrapping_sub(self.top);
            if row >= height {
                for k in 0..SIDE {
                    planes[at + k * plane..][..t.across].fill(0.0);
                }
                continue;
            }
            let x = &x[row * width..][..width];
            for j in (0..t.across).step_by(16) {
                let column = (j * STEP) as isize - self.left as isize;
                let columns = if j == 0 { &edge } else { &Columns::at(isa, column, width) };
                // SAFETY: the selected columns are columns of the row.
                let (near, far) = unsafe { columns.load(isa, x, column) };
                for (k, v) in by_column(isa, near, far).iter().enumerate() {
                    store(isa, *v, planes, at + k * plane + j);
                }
            }
        }
    }

    /// [`Source::planes`] for rows of `A` tiles, four or eight. Handles as many rows of a plane at
    /// a time as fill a vector.
    #[inline(always)]
    fn short_planes<I: Isa, const A: usize>(
        &self,
        isa: I,
        plane: usize,
        x: &[f32],
        (first, down): (usize, usize),
        planes: &mut [f32],
    ) {
        let [height, width] = self.size;
        let (halves, edge) = (A / 4, -(self.left as isize));
        let mut masks = [[isa.lanes(0, 0); 2]; 2];
        for (i, m) in masks.iter_mut().enumerate() {
            let column = edge + 16 * i as isize;
            *m = [within(isa, column, width), within(isa, column + STEP as isize, width)];
        }
        for q in 0..STEP {
            let rows = if q < SIDE - STEP { down + 1 } else { down };
            for j in (0..rows).step_by(16 / A) {
                let (mut near, mut far) = ([isa.splat(0.0); 4], [isa.splat(0.0); 4]);
                for i in 0..4 {
                    let (down, half) = (j + i / halves, i % halves);
                    let row = (first + q + down * STEP).wrapping_sub(self.top);
                    if down < rows && row < height {
                        let x = &x[row * width..][..width];
                        let p = x.as_ptr().wrapping_offset(edge).wrapping_add(16 * half);
                        // SAFETY: the selected columns are columns of the row.
                        unsafe {
                            near[i] = isa.load_some(p, masks[half][0]);
                            far[i] = isa.load_some(p.wrapping_add(STEP), masks[half][1]);
                        }
                    }
                }
                for (k, v) in by_column(isa, near, far).iter().enumerate() {
                    store(isa, *v, planes, (q * SIDE + k) * plane + j * A);
                }
            }
        }
    }

    /// What output rows `y.0..y.1` read of each channel.
    fn seen<'x>(&self, x: &'x [f32], y: (usize, usize)) -> impl Iterator<Item = &'x [f32]> + Clone {
        let [height, width] = self.size;
        let (from, to) = (y.0.saturating_sub(self.top).min(height), (y.1 + 2).saturating_sub(self.top).min(height));
        x.chunks_exact((height * width).max(1)).map(move |x| &x[from * width..to * width])
    }
}

/// Masks of which of 64 columns are columns of a row, and the same for the 64 columns that begin
/// four columns later.
struct Columns<M>([[M; 4]; 2]);

impl<M: Copy> Columns<M> {
    #[inline(always)]
    fn at<I: Isa<M = M>>(isa: I, first: isize, width: usize) -> Columns<M> {
        let mut all = [[isa.lanes(0, 0); 4]; 2];
        for (i, all) in all.iter_mut().enumerate() {
            for (j, m) in all.iter_mut().enumerate() {
                *m = within(isa, first + (i * STEP + j * 16) as isize, width);
            }
        }
        Columns(all)
    }

    /// Loads the 64 columns beginning at `first`, and the 64 that begin four columns later; zero
    /// outside the row.
    ///
    /// # Safety
    /// The masks must be those of column `first` of a row as long as `x`.
    #[inline(always)]
    unsafe fn load<I: Isa<M = M>>(&self, isa: I, x: &[f32], first: isize) -> ([I::V; 4], [I::V; 4]) {
        let p = x.as_ptr().wrapping_offset(first);
        let q = p.wrapping_add(STEP);
        let [m, n] = self.0;
        // SAFETY: as the caller guarantees.
        unsafe {
            (
                [
                    isa.load_some(p, m[0]),
                    isa.load_some(p.wrapping_add(16), m[1]),
                    isa.load_some(p.wrapping_add(32), m[2]),
                    isa.load_some(p.wrapping_add(48), m[3]),
                ],
                [
                    isa.load_some(q, n[0]),
                    isa.load_some(q.wrapping_add(16), n[1]),
                    isa.load_some(q.wrapping_add(32), n[2]),
                    isa.load_some(q.wrapping_add(48), n[3]),
                ],
            )
        }
    }
}

/// `B' d` of six numbers, with the points 0, ±a, ±b and infinity, where a² = 1/2 and b² = 2.
#[inline(always)]
fn seen<I: Isa>(isa: I, d: [I::V; SIDE]) -> [I::V; SIDE] {
    let (half, two, more) = (isa.splat(-0.5), isa.splat(-2.0), isa.splat(-2.5));
    let (a, b) = (std::f32::consts::FRAC_1_SQRT_2, std::f32::consts::SQRT_2);
    let near = (isa.fma(two, d[2], d[4]), isa.fma(two, d[1], d[3]));
    let far = (isa.fma(half, d[2], d[4]), isa.fma(half, d[1], d[3]));
    [
        isa.fma(more, d[2], isa.add(d[0], d[4])),
        isa.fma(isa.splat(a), near.1, near.0),
        isa.fma(isa.splat(-a), near.1, near.0),
        isa.fma(isa.splat(b), far.1, far.0),
        isa.fma(isa.splat(-b), far.1, far.0),
        isa.fma(more, d[3], isa.add(d[1], d[5])),
    ]
}

/// The sum of two products.
#[inline(always)]
fn both<I: Isa>(isa: I, (p, x): (f32, I::V), (q, y): (f32, I::V)) -> I::V {
    isa.fma(isa.splat(p), x, isa.fma(isa.splat(q), y, isa.splat(-0.0)))
}

/// `A' m` of six numbers.
#[inline(always)]
fn results<I: Isa>(isa: I, m: [I::V; SIDE]) -> [I::V; STEP] {
    let (a, b) = (std::f32::consts::FRAC_1_SQRT_2, std::f32::consts::SQRT_2);
    let less = isa.splat(-1.0);
    let (near, far) = (isa.add(m[1], m[2]), isa.add(m[3], m[4]));
    let (odd, wide) = (isa.fma(less, m[2], m[1]), isa.fma(less, m[4], m[3]));
    [
        isa.add(m[0], isa.add(near, far)),
        both(isa, (a, odd), (b, wide)),
        both(isa, (0.5, near), (2.0, far)),
        isa.fma(isa.splat(0.5 * a), odd, isa.fma(isa.splat(2.0 * b), wide, m[5])),
    ]
}

/// A six-by-six grid of vectors for the intermediate result between the two halves of a transform.
type Grid<V> = [[V; SIDE]; SIDE];

/// Transforms each tile of a channel to 36 numbers, one vector of tiles at a time, and stores them
/// in the rows of the channel.
#[inline(always)]
fn changed_input<I: Isa>(isa: I, t: &Tiles, planes: &[f32], panels: usize, half: &mut Grid<I::V>, to: &mut [f32]) {
    let (plane, pitch) = (t.plane(), t.input_pitch());
    for p in 0..panels {
        for k in 0..SIDE {
            let mut d = [isa.splat(0.0); SIDE];
            for (r, d) in d.iter_mut().enumerate() {
                *d = load(isa, planes, (r % STEP * SIDE + k) * plane + r / STEP * t.across + p * 16);
            }
            let d = seen(isa, d);
            for (half, v) in half.iter_mut().zip(&d) {
                half[k] = *v;
            }
        }
        for (i, half) in half.iter().enumerate() {
            let v = seen(isa, *half);
            for (j, v) in v.iter().enumerate() {
                store(isa, *v, to, (i * SIDE + j) * pitch + p * 16);
            }
        }
    }
}

/// Transforms the sums of one output channel to tiles, for `panels` vectors. Row `r` of each row of
/// tiles goes to the `r`th quarter of `to`, one row of tiles after the other.
#[inline(always)]
fn changed_sums<I: Isa>(isa: I, sums: &[f32], (width, panels): (usize, usize), half: &mut Grid<I::V>, to: &mut [f32]) {
    for p in 0..panels {
        for k in 0..SIDE {
            let mut m = [isa.splat(0.0); SIDE];
            for (i, m) in m.iter_mut().enumerate() {
                *m = load(isa, sums, (i * SIDE + k) * TOGETHER * width + p * 16);
            }
            let m = results(isa, m);
            for (half, v) in half.iter_mut().zip(&m) {
                half[k] = *v;
            }
        }
        for (r, half) in half.iter().enumerate().take(STEP) {
            let [a, b, c, d] = results(isa, *half);
            let ((first, last), (other, rest)) = (isa.woven(a, c), isa.woven(b, d));
            let ((x, y), (z, w)) = (isa.woven(first, other), isa.woven(last, rest));
            let at = (r * width + p * 16) * STEP;
            store(isa, x, to, at);
            store(isa, y, to, at + 16);
            store(isa, z, to, at + 32);
            store(isa, w, to, at + 48);
        }
    }
}

/// Writes the output rows, one after the other, from the quarters of [`changed_sums`]. Returns the
/// number of elements.
#[inline(always)]
fn in_order<I: Isa>(isa: I, t: &Tiles, tiles: &[f32], (height, width): (usize, usize), rows: &mut [f32]) -> usize {
    for y in 0..height {
        let from = (y % STEP * t.width + y / STEP * t.across) * STEP;
        for x in (0..width).step_by(16) {
            // What is written beyond the row is overwritten by the next one.
            store(isa, load(isa, tiles, from + x), rows, y * width + x);
        }
    }
    height * width
}
