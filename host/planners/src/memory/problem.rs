//! The problem as the assigners see it: sizes in units of the common alignment, times as indices of
//! the instants that occur, and for each block the blocks that are live together with it.

use super::block::{AssignError, Block};
use super::conflicts::Conflicts;
use super::lower_bound::{lower_bound, rounded_size};

/// Greatest number of pairs of blocks live together that the planner can hold (8 bytes each).
const MOST_PAIRS: usize = 400_000_000;

/// Sizes, lifetimes and pins of the blocks of non-zero size, in the order of the input.
#[derive(Debug)]
pub(super) struct Problem {
    /// Index of each block in the caller's list.
    pub(super) origin: Vec<usize>,
    /// First instant of each lifetime, as an index of the instants that occur.
    pub(super) lower: Vec<u32>,
    /// First instant after each lifetime.
    pub(super) upper: Vec<u32>,
    /// Size in units.
    pub(super) size: Vec<u64>,
    /// Stream of each block.
    pub(super) stream: Vec<u32>,
    /// Whether others may use the memory of each block.
    pub(super) reuse: Vec<bool>,
    /// Pinned offset of each block in units, if any.
    pub(super) fixed: Vec<Option<u64>>,
    /// Length of the time between two consecutive instants, in the caller's time.
    pub(super) stretch: Vec<u64>,
    /// Bytes per unit.
    pub(super) unit: u64,
    /// Greatest live sum in units.
    pub(super) bound: u64,
    /// Whether the intervals alone determine which blocks are live together.
    pub(super) by_interval: bool,
}

/// For each block, the blocks that are live together with it, ascending.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    start: Vec<usize>,
    others: Vec<u32>,
}

/// Converts an index of a list that [`Problem::new`] has checked to have fewer than 2^32 elements.
#[inline]
pub(super) fn narrow(index: usize) -> u32 {
    u32::try_from(index).expect("a problem holds fewer than 2^32 blocks")
}

impl Neighbours {
    /// The blocks that are live together with block `of`.
    #[inline]
    pub(super) fn of(&self, of: usize) -> &[u32] {
        &self.others[self.start[of]..self.start[of + 1]]
    }

    /// The start of the list of block `of` in the concatenation of all lists.
    #[inline]
    pub(super) fn start(&self, of: usize) -> usize {
        self.start[of]
    }

    /// Sum of the lengths of all lists.
    pub(super) fn len(&self) -> usize {
        self.others.len()
    }
}

impl Problem {
    /// Makes the problem; blocks of size 0 are left out because they need no memory.
    pub(super) fn new(blocks: &[Block], by_interval: bool) -> Result<Self, AssignError> {
        if u32::try_from(blocks.len().saturating_mul(4)).is_err() {
            return Err(AssignError::TooMany { what: "blocks", count: blocks.len() });
        }
        let bound = lower_bound(blocks)?;
        let mut unit = 1_u64;
        for block in blocks {
            if block.upper <= block.lower {
                let Block { id, lower, upper, .. } = *block;
                return Err(AssignError::EmptyLife { id, lower, upper });
            }
            unit = least_common_multiple(unit, block.align).ok_or(AssignError::TooLarge { id: block.id })?;
            if let Some(offset) = block.fixed.filter(|offset| offset % block.align != 0) {
                return Err(AssignError::PinnedUnaligned { id: block.id, offset, align: block.align });
            }
        }
        // If nothing is pinned, all offsets are sums of sizes, so a unit can be their greatest
        // common divisor.
        if blocks.iter().all(|block| block.fixed.is_none()) {
            let mut common = 0;
            for block in blocks {
                common = greatest_common_divisor(common, rounded_size(block)?.div_ceil(unit));
            }
            unit = unit.checked_mul(common.max(1)).unwrap_or(unit);
        }
        let mut instants: Vec<u64> = blocks.iter().flat_map(|block| [block.lower, block.upper]).collect();
        instants.sort_unstable();
        instants.dedup();
        let place = |instant: u64| narrow(instants.partition_point(|&other| other < instant));
        let mut problem = Self {
            origin: Vec::new(),
            lower: Vec::new(),
            upper: Vec::new(),
            size: Vec::new(),
            stream: Vec::new(),
            reuse: Vec::new(),
            fixed: Vec::new(),
            stretch: instants.windows(2).map(|pair| pair[1] - pair[0]).collect(),
            unit,
            bound: bound.div_ceil(unit),
            by_interval,
        };
        let last = narrow(instants.len().saturating_sub(1));
        let mut sum = 0_u64;
        for (origin, block) in blocks.iter().enumerate().filter(|(_, block)| block.size > 0) {
            let pinned = block.fixed.map(|offset| offset / unit);
            // A pinned offset between two units also occupies the unit below.
            let lead = block.fixed.map_or(0, |offset| offset % unit);
            let size =
                rounded_size(block)?.checked_add(lead).ok_or(AssignError::TooLarge { id: block.id })?.div_ceil(unit);
            sum = sum
                .checked_add(size)
                .and_then(|sum| sum.checked_add(pinned.unwrap_or(0)))
                .filter(|sum| sum.checked_mul(unit).is_some_and(|bytes| i64::try_from(bytes).is_ok()))
                .ok_or(AssignError::TooLarge { id: block.id })?;
            problem.origin.push(origin);
            let (lower, upper) =
                if block.reuse || !by_interval { (place(block.lower), place(block.upper)) } else { (0, last) };
            problem.lower.push(lower);
            problem.upper.push(upper);
            problem.size.push(size);
            problem.stream.push(block.stream);
            problem.reuse.push(block.reuse);
            problem.fixed.push(pinned);
        }
        Ok(problem)
    }

    /// Number of blocks with non-zero size.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.size.len()
    }

    /// Number of stretches between instants: one less than the number of instants.
    pub(super) fn stretches(&self) -> usize {
        self.stretch.len()
    }

    /// The caller's time of each instant, counted from the first.
    pub(super) fn times(&self) -> Vec<u64> {
        let mut times = Vec::with_capacity(self.stretch.len() + 1);
        times.push(0);
        times.extend(self.stretch.iter().scan(0_u64, |time, stretch| {
            *time = time.saturating_add(*stretch);
            Some(*time)
        }));
        times
    }

    /// Whether any block is pinned.
    pub(super) fn pinned(&self) -> bool {
        self.fixed.iter().any(Option::is_some)
    }

    /// Highest end of a pinned block; no arena can be smaller.
    pub(super) fn pinned_top(&self) -> u64 {
        let tops = self.fixed.iter().zip(&self.size);
        tops.filter_map(|(fixed, size)| Some((*fixed)? + size)).max().unwrap_or(0)
    }

    /// Whether the intervals of two blocks intersect.
    #[inline]
    pub(super) fn meet(&self, a: usize, b: usize) -> bool {
        self.lower[a] < self.upper[b] && self.lower[b] < self.upper[a]
    }

    /// Highest end of any block.
    pub(super) fn arena(&self, offsets: &[u64]) -> u64 {
        offsets.iter().zip(&self.size).map(|(offset, size)| offset + size).max().unwrap_or(0)
    }

    /// Number of pairs whose intervals intersect, computed in time `n log n`.
    pub(super) fn pairs_by_interval(&self) -> usize {
        let mut lowers = self.lower.clone();
        let mut uppers = self.upper.clone();
        lowers.sort_unstable();
        uppers.sort_unstable();
        let mut ended = 0;
        let mut pairs = 0_usize;
        for (begun, &lower) in lowers.iter().enumerate() {
            while ended < uppers.len() && uppers[ended] <= lower {
                ended += 1;
            }
            pairs = pairs.saturating_add(begun - ended);
        }
        pairs
    }

    /// The lists of blocks that are live together, from the relation if there is one.
    pub(super) fn neighbours(
        &self,
        blocks: &[Block],
        conflicts: Option<&dyn Conflicts>,
    ) -> Result<Neighbours, AssignError> {
        let Some(relation) = conflicts else {
            let pairs = self.pairs_by_interval();
            if pairs > MOST_PAIRS {
                return Err(AssignError::TooMany { what: "pairs that live together", count: pairs });
            }
            return Ok(Neighbours::by_interval(self));
        };
        if relation.blocks() != blocks.len() {
            return Err(AssignError::RelationSize { relation: relation.blocks(), blocks: blocks.len() });
        }
        let mut place = vec![u32::MAX; blocks.len()];
        for (at, &origin) in self.origin.iter().enumerate() {
            place[origin] = narrow(at);
        }
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        let mut too_many = false;
        let mut visit = |a: usize, b: usize| {
            let (a, b) = (place[a], place[b]);
            if a != u32::MAX && b != u32::MAX {
                if pairs.len() == MOST_PAIRS || pairs.try_reserve(1).is_err() {
                    too_many = true;
                    return false;
                }
                pairs.push((a, b));
            }
            true
        };
        relation.each_pair(&mut |a, b| {
            // Blocks without reuse are added below, with all others.
            if blocks[a].reuse && blocks[b].reuse { visit(a, b) } else { true }
        });
        for (a, _) in blocks.iter().enumerate().filter(|(_, block)| !block.reuse) {
            for (b, other) in blocks.iter().enumerate() {
                if (other.reuse || b > a) && b != a && !visit(a, b) {
                    break;
                }
            }
        }
        if too_many {
            return Err(AssignError::TooMany { what: "pairs that live together", count: pairs.len() });
        }
        Ok(Neighbours::from_pairs(self.len(), &pairs))
    }
}

impl Neighbours {
    /// The work is proportional to the length of the lists; they are written without sorting and
    /// without storing pairs.
    fn by_interval(problem: &Problem) -> Self {
        let count = problem.len();
        let mut order: Vec<u32> = (0..narrow(count)).collect();
        order.sort_by_key(|&at| (problem.lower[at as usize], at));
        // The number of blocks that begin before each instant, and the number that have ended by
        // then.
        let (mut begun, mut ended) = (vec![0_usize; problem.stretches() + 2], vec![0_usize; problem.stretches() + 1]);
        for at in 0..count {
            begun[problem.lower[at] as usize + 1] += 1;
            ended[problem.upper[at] as usize] += 1;
        }
        for instant in 1..=problem.stretches() {
            begun[instant] += begun[instant - 1];
            ended[instant] += ended[instant - 1];
        }
        let mut start = vec![0_usize; count + 1];
        for at in 0..count {
            let together = begun[problem.upper[at] as usize] - ended[problem.lower[at] as usize] - 1;
            start[at + 1] = start[at] + together;
        }
        // In the order in which lifetimes begin: first the earlier blocks that are still live, then
        // all that begin during the lifetime, which are adjacent in the order.
        let mut others = vec![0_u32; start[count]];
        let mut live: Vec<u32> = Vec::new();
        for (rank, &at) in order.iter().enumerate() {
            let block = at as usize;
            live.retain(|&other| problem.upper[other as usize] > problem.lower[block]);
            let (before, behind) = others[start[block]..start[block + 1]].split_at_mut(live.len());
            before.copy_from_slice(&live);
            behind.copy_from_slice(&order[rank + 1..begun[problem.upper[block] as usize]]);
            live.push(at);
        }
        let lists = Self { start, others };
        if order.is_sorted() { lists } else { lists.ascending() }
    }

    /// The same lists, each sorted ascending: each block in turn is appended to the lists of all
    /// its neighbours.
    fn ascending(self) -> Self {
        let mut next = self.start.clone();
        let mut others = vec![0_u32; self.others.len()];
        for at in 0..self.start.len() - 1 {
            for &other in self.of(at) {
                others[next[other as usize]] = narrow(at);
                next[other as usize] += 1;
            }
        }
        Self { start: self.start, others }
    }

    fn from_pairs(blocks: usize, pairs: &[(u32, u32)]) -> Self {
        let mut start = vec![0_usize; blocks + 1];
        for &(a, b) in pairs {
            start[a as usize + 1] += 1;
            start[b as usize + 1] += 1;
        }
        for at in 0..blocks {
            start[at + 1] += start[at];
        }
        let mut next = start.clone();
        let mut others = vec![0_u32; pairs.len() * 2];
        for &(a, b) in pairs {
            others[next[a as usize]] = b;
            next[a as usize] += 1;
            others[next[b as usize]] = a;
            next[b as usize] += 1;
        }
        Self { start, others }.ascending()
    }
}

fn least_common_multiple(a: u64, b: u64) -> Option<u64> {
    if b == 0 {
        return None;
    }
    (a / greatest_common_divisor(a, b)).checked_mul(b)
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::Problem;
    use crate::memory::{Block, Buffer, IntervalConflicts};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lists_are_ascending_with_all_that_live_together_and_no_other(
            lives in prop::collection::vec((0_u64..30, 1_u64..12, 0_u64..3, prop::bool::weighted(0.9)), 1..50),
            in_order in prop::bool::ANY,
        ) {
            let mut lives = lives;
            if in_order {
                lives.sort_unstable();
            }
            let block = |(id, &(lower, long, size, reuse)): (usize, &(u64, u64, u64, bool))| {
                Block { reuse, ..Block::from(&Buffer { id: id as u64, lower, upper: lower + long, size, align: 1 }) }
            };
            let blocks: Vec<Block> = lives.iter().enumerate().map(block).collect();
            let problem = Problem::new(&blocks, true).expect("a problem");
            let relation = IntervalConflicts::new(&blocks);
            let lists = problem.neighbours(&blocks, None).expect("lists");
            let from_pairs = problem.neighbours(&blocks, Some(&relation)).expect("lists");
            for at in 0..problem.len() {
                let meets = |other: &usize| *other != at && problem.meet(at, *other);
                let expected: Vec<u32> = (0..problem.len()).filter(meets).map(super::narrow).collect();
                prop_assert_eq!(lists.of(at), &expected);
                prop_assert_eq!(from_pairs.of(at), &expected);
            }
        }
    }
}
