//! Packings with almost no waste, assembled from below. Memory and time form a rectangle that is
//! cut into smaller ones again and again. The rectangles cut last can be recognised by their
//! instants and sizes alone, wherever they are, and become one piece. Pieces are combined in the
//! same way until few are left. What cannot be decided in one place does not disturb other places.
//! The few remaining pieces are packed by an order of bands, which implies the order of all blocks.
//!
//! First, memory that buffers leave idle is reconstructed (`idle`), so that most pieces fit
//! exactly. Then pieces are combined (`pieces`, `rules`), those with the least waste first. Finally
//! some are taken apart and combined differently (`retry`), many times. An attempt is kept if it
//! leaves fewer pieces, or pieces that together need less memory above the bound (`load`).

mod idle;
mod latest;
mod load;
mod piece;
mod pieces;
mod retry;
mod rules;

use rayon::prelude::*;

use super::band_choice::PRICES;
use super::band_order::{Way, band_order};
use super::block::{Block, Watch};
use super::problem::{Problem, narrow};
use super::skyline::stacked_in_order;
use idle::with_idle;
use pieces::Pieces;
use retry::{Prices, Retry};
use rules::{Union, unions};

/// Idle parts per million that a union may have, tried one limit after another, and whether the
/// remaining pieces are packed at that limit.
const LIMITS: [(u64, bool); 9] = [
    (100, true),
    (10_000, false),
    (30_000, true),
    (60_000, true),
    (100_000, true),
    (150_000, false),
    (200_000, true),
    (300_000, false),
    (400_000, true),
];
/// From this limit on, the least waste decides between chains of causes of equal length.
const ANY_FROM: u64 = 60_000;

/// Prices of the attempts that run in parallel. If little is idle, load above the limit shows what
/// is wrong; if much is idle, a small number of pieces is the better sign.
const LANES: [Prices; 2] =
    [Prices { piece: 200, idle: 25, above: 20, heat: 100 }, Prices { piece: 300, idle: 50, above: 8, heat: 100 }];
/// Number of pieces beginning or ending at an instant that are examined again when something
/// changes there.
const MOST_TOUCHED: usize = 16;
/// Divisor of the number of blocks: if more pieces than this part are left, there is little to
/// combine.
const LEFT_OF_A_PACKING: usize = 2;
/// How many times the remaining pieces of the attempts are packed.
const STAGES: u64 = 4;

/// Step limits for finding idle memory and for packing the remaining pieces.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    /// Nothing is done for more blocks than this.
    pub(super) most_blocks: usize,
    /// Number of steps of all searches for idle memory.
    pub(super) idle_steps: u64,
    /// Number of steps of each of [`LANES`], which take pieces apart and combine them differently.
    pub(super) retry_steps: u64,
    /// Beam widths for orders of bands, in the order of their use, each with the number of price
    /// sets to run.
    pub(super) bands: &'static [(usize, usize)],
    /// Number of steps of each order of bands.
    pub(super) band_steps: u64,
}

/// The pieces that are not part of another, as a problem of their own.
struct Rest<'a> {
    pieces: &'a Pieces,
    whole: Vec<u32>,
    problem: Problem,
}

/// A plan with its arena, if any.
type Found = Option<(u64, Vec<u64>)>;

fn better(one: Found, other: Found) -> Found {
    one.into_iter().chain(other).min_by_key(|(arena, _)| *arena)
}

/// The best plan and its arena; `None` if there are more blocks than `effort` allows.
pub(super) fn tiled(problem: &Problem, target: u64, effort: Effort, watch: &Watch<'_>) -> Found {
    if problem.len() > effort.most_blocks {
        return None;
    }
    let mut pieces = Pieces::new(problem);
    let mut idle_steps = effort.idle_steps;
    let mut lefts: Vec<Vec<u32>> = Vec::new();
    // Wrong unions can be corrected only if pieces are taken apart again.
    let doubt = if effort.retry_steps > 0 { Doubt::Priced } else { Doubt::Refused };
    for (limit, is_packed) in LIMITS {
        let whole = pieces.whole();
        let (places, taken) = with_idle(&pieces.places(&whole), &pieces.times, limit >= ANY_FROM, idle_steps);
        idle_steps = idle_steps.saturating_sub(taken);
        pieces.grow(&whole, &places);
        let everywhere = (0..narrow(pieces.times.len())).collect();
        unite(&mut pieces, limit, everywhere, doubt, None);
        if is_packed && lefts.last().is_none_or(|left| left.len() > pieces.whole_count()) {
            lefts.push(pieces.whole());
        }
    }
    let &narrow_beam = effort.bands.first()?;
    let rests: Vec<Rest<'_>> = lefts.into_iter().filter_map(|whole| Rest::new(&pieces, whole)).collect();
    let mut best = banded(problem, &rests, narrow_beam, effort.band_steps);
    let is_over = |best: &Found| (watch.cancel)() || best.as_ref().is_some_and(|(arena, _)| *arena <= target);
    let mut lanes: Vec<Retry> = Vec::new();
    let is_packing = pieces.whole_count() <= problem.len() / LEFT_OF_A_PACKING;
    if effort.retry_steps > 0 && is_packing && !is_over(&best) {
        let lane = |(&prices, seed)| Retry::new(pieces.clone(), problem, prices, effort.retry_steps, seed);
        lanes = LANES.iter().zip(1..).map(lane).collect();
    }
    for left in (0..STAGES).rev() {
        if lanes.is_empty() || is_over(&best) {
            break;
        }
        lanes.par_iter_mut().for_each(|lane| lane.run(left, STAGES, watch));
        best = better(best, banded(problem, &lefts_of(&lanes), narrow_beam, effort.band_steps));
    }
    let rests = if lanes.is_empty() { rests } else { lefts_of(&lanes) };
    for &beam in effort.bands.iter().skip(1) {
        if is_over(&best) {
            break;
        }
        best = better(best, banded(problem, &rests, beam, effort.band_steps));
    }
    best
}

/// The pieces that the lanes have left.
fn lefts_of(lanes: &[Retry]) -> Vec<Rest<'_>> {
    lanes.iter().filter_map(|lane| Rest::new(lane.pieces(), lane.pieces().whole())).collect()
}

/// The best plan from orders of bands of the remaining pieces, with the given beam width and number
/// of price sets.
fn banded(problem: &Problem, rests: &[Rest<'_>], (width, sets): (usize, usize), most_steps: u64) -> Found {
    let runs: Vec<(&Rest<'_>, usize)> = rests.iter().flat_map(|rest| (0..sets).map(move |set| (rest, set))).collect();
    let run = |&(rest, set): &(&Rest<'_>, usize)| {
        let units = band_order(&rest.problem, &PRICES[set], Way { width, backwards: false, most_steps }).0?;
        let bottoms: Vec<u64> = units.into_iter().map(|unit| unit * rest.problem.unit).collect();
        let nominal = rest.pieces.unfold(&rest.whole, &bottoms, problem.len());
        let offsets = stacked_in_order(problem, &nominal);
        Some((problem.arena(&offsets), offsets))
    };
    let found: Vec<Found> = runs.par_iter().map(run).collect();
    found.into_iter().flatten().min_by_key(|(arena, _)| *arena)
}

impl<'a> Rest<'a> {
    fn new(pieces: &'a Pieces, whole: Vec<u32>) -> Option<Self> {
        let block = |&piece: &u32| {
            let piece = pieces.of(piece);
            let [lower, upper] = [piece.lower, piece.upper].map(|instant| pieces.times[instant as usize]);
            Block { id: 0, lower, upper, size: piece.size, align: 1, stream: 0, reuse: true, fixed: None }
        };
        let blocks: Vec<Block> = whole.iter().map(block).collect();
        let problem = Problem::new(&blocks, true).ok()?;
        Some(Self { pieces, whole, problem })
    }
}

/// How to treat unions of which a part is certainly wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doubt {
    /// They are not made.
    Refused,
    /// They count as if they wasted more.
    Priced,
}

/// What one of many ways to combine pieces does differently.
#[derive(Debug)]
struct Variation {
    /// Decides which pieces are not made, and the order among those that waste equally much.
    salt: u64,
    /// Fingerprints of pieces that must not be made again.
    unwanted: Vec<u64>,
}

impl Variation {
    /// Whether a piece with this fingerprint may be made; also varies its waste a little.
    fn admits(&self, fingerprint: u64, idle: &mut u64) -> bool {
        let chance = (fingerprint ^ self.salt).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
        *idle = *idle * (50 + chance / 16 % 150) / 100;
        !chance.is_multiple_of(16) && !self.unwanted.contains(&fingerprint)
    }
}

/// Combines pieces that meet at the given instants, those with the least waste first, as long as
/// any union wastes at most `limit`. A variation leaves some out and changes the order of those
/// that waste nearly the same. Returns the steps taken: instants and unions examined.
fn unite(pieces: &mut Pieces, limit: u64, mut instants: Vec<u32>, doubt: Doubt, variation: Option<&Variation>) -> u64 {
    let mut steps = 0;
    while !instants.is_empty() {
        let mut found: Vec<Union> = Vec::new();
        for &instant in &instants {
            unions(pieces, instant, &mut found);
        }
        steps += (instants.len() + found.len()) as u64;
        found.retain(|union| union.idle <= limit && (doubt == Doubt::Priced || !union.is_too_tall));
        if let Some(variation) = variation {
            found.retain_mut(|union| variation.admits(pieces.fingerprint(union.made), &mut union.idle));
        }
        found.sort_unstable();
        instants.clear();
        for Union { made, lower, upper, size, .. } in found {
            let parts = made.parts();
            if parts.iter().any(|&part| pieces.of(part).taken) {
                continue;
            }
            for &part in parts.iter() {
                instants.extend([pieces.of(part).lower, pieces.of(part).upper]);
            }
            pieces.add(lower, upper, size, made);
        }
        // A wheel is detected where its middle begins, and changes elsewhere may complete it.
        for at in 0..instants.len() {
            let instant = instants[at] as usize;
            for &piece in pieces.begins[instant].iter().chain(&pieces.ends[instant]).take(MOST_TOUCHED) {
                instants.extend([pieces.of(piece).lower, pieces.of(piece).upper]);
            }
        }
        instants.sort_unstable();
        instants.dedup();
    }
    steps
}

#[cfg(test)]
pub(super) mod planted;

#[cfg(test)]
mod tests {
    use super::planted::{HEIGHT, planted};
    use super::{Effort, tiled};
    use crate::memory::check_offsets::check_offsets;
    use crate::memory::problem::Problem;
    use crate::memory::{Block, Buffer, Watch};
    use proptest::prelude::*;

    const EFFORT: Effort = Effort {
        most_blocks: 10_000,
        idle_steps: 10_000_000,
        retry_steps: 50_000,
        bands: &[(1, 1)],
        band_steps: 10_000_000,
    };

    /// Verifies the plan and returns its arena in thousandths of `height`.
    fn share(blocks: &[Block], height: u64) -> u64 {
        let problem = Problem::new(blocks, true).expect("a problem");
        let (arena, units) = tiled(&problem, problem.bound, EFFORT, &Watch::none()).expect("a plan");
        let offsets: Vec<u64> = units.iter().map(|unit| unit * problem.unit).collect();
        assert_eq!(problem.arena(&units), arena);
        assert_eq!(check_offsets(blocks, &offsets, arena * problem.unit, None), Ok(()));
        arena * problem.unit * 1000 / height
    }

    #[test]
    fn a_packing_without_waste_is_found_whole() {
        for seed in 1..=10 {
            assert_eq!(share(&planted(1500, 0, seed), HEIGHT), 1000, "seed {seed}");
        }
    }

    #[test]
    fn a_packing_with_a_little_waste_is_found_nearly_whole() {
        let mut shares: Vec<u64> = (1..=9).map(|seed| share(&planted(1500, 74, seed), HEIGHT)).collect();
        shares.sort_unstable();
        assert!(shares[4] <= 1020, "{shares:?}");
    }

    #[test]
    fn five_pieces_around_one_are_one_and_what_is_idle_beside_and_behind_a_buffer_costs_nothing() {
        // Around (3, 5): early above low, then high above low, then high above late. The buffer
        // late is 2 units smaller than its place, and high ends before another buffer takes over
        // its place at 9.
        let lives = [(0, 3, 70), (0, 5, 30), (3, 5, 20), (3, 7, 50), (5, 8, 48), (8, 9, 100)];
        let block = |(id, &(lower, upper, size)): (usize, &(u64, u64, u64))| {
            Block::from(&Buffer { id: id as u64, lower, upper, size, align: 1 })
        };
        let blocks: Vec<Block> = lives.iter().enumerate().map(block).collect();
        assert_eq!(share(&blocks, 100), 1000);
    }

    proptest! {
        #[test]
        fn any_buffers_are_placed_apart(lives in prop::collection::vec((0_u64..20, 1_u64..8, 1_u64..30), 1..60)) {
            let block = |(id, &(at, long, size)): (usize, &(u64, u64, u64))| {
                Block::from(&Buffer { id: id as u64, lower: at, upper: at + long, size, align: 1 })
            };
            let blocks: Vec<Block> = lives.iter().enumerate().map(block).collect();
            share(&blocks, 1);
        }
    }
}
