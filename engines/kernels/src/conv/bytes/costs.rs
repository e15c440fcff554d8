//! Approximate costs of convolutions of bytes, and the choice of the way and the units.
use super::tile::{ROWS, together};
use super::{ByteConv, WIDE, gathered, joined};
use crate::cores::cores;

/// Most positions of a strip, unless a single row has more.
const STRIP: usize = 512;
/// Most sums of a unit with AMX tiles, so that they stay in the second-level cache.
const MOST_SUMS: usize = 64 * 1024;
/// Cost of a convolution by AMX tiles from which units are large.
const LONG: usize = 2 << 20;
/// Number of units that is enough to share, if the image is large enough.
pub(super) const WANTED: usize = 12;

/// Approximate costs of the parts of a convolution on one kind of machine, in fractions of a cycle.
pub(super) struct Costs {
    /// One step for one output channel: one, two or three vectors of sixteen positions by four
    /// channels of a tap.
    steps: [usize; 3],
    /// Copying four channels of sixteen positions.
    copy: usize,
    /// Finishing the sums of a strip of one output channel, apart from the cost per sum.
    run: usize,
    /// The products of sixteen tiles by a pair of channels, for one output channel.
    pub(super) pair: usize,
    /// The sums of sixteen tiles of one output channel, and their finishing.
    pub(super) sums: usize,
    /// Transforming the input of sixteen tiles of a pair of channels.
    pub(super) seen: usize,
    /// With AMX tiles: moving a line of a panel or of the filter, and the product of two tiles.
    gathered: Option<[usize; 2]>,
}

/// The cheapest way and units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Choice {
    /// Whether there are too few units to share.
    few: bool,
    /// Cost of the whole convolution.
    pub(super) cost: usize,
    /// Rows and channels of a unit.
    pub(super) rows: usize,
    pub(super) block: usize,
    /// Whether panels are gathered for AMX tiles.
    pub(super) gathered: bool,
}

impl Costs {
    /// With dot products of bytes and of 16-bit pairs, in registers of sixteen lanes.
    pub(super) const DOTS: Costs =
        Costs { steps: [16, 23, 30], copy: 350, run: 1500, pair: 400, sums: 2600, seen: 2200, gathered: None };
    /// With AMX tiles besides.
    pub(super) const TILES: Costs = Costs { gathered: Some([45, 400]), ..Costs::DOTS };
    /// With products of pairs of bytes in registers of eight lanes.
    pub(super) const PAIRS: Costs =
        Costs { steps: [28, 56, 84], copy: 100, run: 1500, pair: 600, sums: 4000, seen: 4000, gathered: None };

    /// Cost of a step of `vectors` vectors, in the tiles that the register tile divides them into.
    fn of_vectors(&self, vectors: usize) -> usize {
        // All but the last few are taken by threes, however many there are.
        let threes = vectors.saturating_sub(4) / 3;
        let (mut left, mut cost) = (vectors - 3 * threes, threes.saturating_mul(self.steps[2]));
        while left > 0 {
            let here = together(left);
            cost = cost.saturating_add(self.steps[here - 1]);
            left -= here;
        }
        cost
    }

    /// The costs on this machine.
    pub(super) fn here() -> &'static Costs {
        match crate::simd::level() {
            _ if crate::simd::level::amx() => &Costs::TILES,
            _ if crate::simd::level::vnni() => &Costs::DOTS,
            _ => &Costs::PAIRS,
        }
    }
}

impl ByteConv {
    /// The cheapest way and units. Chooses among those units that are numerous enough, or among all
    /// if none are. Whole vectors are computed, even if the last one is only partly used. The input
    /// rows of a strip are copied once.
    pub(super) fn cheapest(&self, costs: &Costs) -> Choice {
        let s = &self.spec;
        let own = (s.channels_out / s.groups).max(1);
        let [depth, height, width] = self.out.map(|v| v.max(1));
        let outer = s.batch.saturating_mul(s.groups).saturating_mul(depth);
        let halo = (s.kernel[1] - 1) * s.dilation[1];
        let pitch = self.image.pitch;
        let vectors = |rows: usize| {
            let joined = joined::takes(width, pitch);
            (if joined { rows * width } else { (rows - 1) * pitch + width }).div_ceil(16)
        };
        // The products of a strip of so many vectors, with all output channels in `blocks` blocks.
        let steps = gathered::steps(self.fours, s.taps());
        let products = |vectors: usize, blocks: usize, tiles: Option<[usize; 2]>| match tiles {
            Some([line, dot]) => {
                let gathered = line.saturating_mul(self.fours).saturating_mul(blocks).saturating_mul(s.taps());
                let dots = dot.saturating_mul(steps).saturating_mul(own.div_ceil(WIDE));
                vectors.saturating_mul(gathered.saturating_add(dots))
            }
            None => costs.of_vectors(vectors).saturating_mul(s.taps()).saturating_mul(own).saturating_mul(self.fours),
        };
        let blocks = std::iter::successors(Some(own), |b| (*b > 4 * ROWS).then(|| b.div_ceil(2)));
        let ways = std::iter::once(None).chain(costs.gathered.map(Some));
        let units = blocks.flat_map(|block| (1..=(STRIP / width).clamp(1, height)).map(move |rows| (block, rows)));
        let all =
            units.flat_map(|unit| ways.clone().map(move |way| (unit, way))).filter_map(|((block, rows), tiles)| {
                let block = block.next_multiple_of(if tiles.is_some() { WIDE } else { ROWS });
                if tiles.is_some() && rows > 1 && rows.saturating_mul(pitch).saturating_mul(block) > MOST_SUMS {
                    return None;
                }
                let (whole, rest) = (height / rows, height % rows);
                let strips = whole + usize::from(rest > 0);
                let blocks = own.div_ceil(block);
                let last = if rest > 0 { products(vectors(rest), blocks, tiles) } else { 0 };
                let units = outer.saturating_mul(strips).saturating_mul(blocks);
                let products = whole.saturating_mul(products(vectors(rows), blocks, tiles)).saturating_add(last);
                let seen = (rows * s.stride[1] + halo).saturating_mul(s.input[2]).div_ceil(16);
                // Blocks of one strip share its copy. It is made again where another thread begins.
                let copied = seen.saturating_mul(strips + usize::from(blocks > 1)).saturating_mul(costs.copy);
                let runs = strips.saturating_mul(own).saturating_mul(costs.run);
                // Each line of the filter is read and written.
                let lines = steps.saturating_mul(own.next_multiple_of(WIDE)).saturating_mul(2 * s.groups);
                let filter = tiles.map_or(0, |[line, _]| lines.saturating_mul(line));
                let cost = products.saturating_add(copied.saturating_mul(self.fours)).saturating_add(runs);
                let cost = cost.saturating_mul(outer).saturating_add(filter);
                // A strip costs more beside the fast products of tiles: fewer of them are wanted.
                let fewer = tiles.is_some() && cost > LONG;
                let wanted = if fewer { WANTED.min(2 * cores()) } else { WANTED };
                Some(Choice { few: units < wanted, cost, rows, block, gathered: tiles.is_some() })
            });
        let none = Choice { few: true, cost: usize::MAX, rows: 1, block: ROWS, gathered: false };
        all.min().unwrap_or(none)
    }
}
