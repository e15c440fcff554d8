//! Finds a vertical order from hand-overs that need not match exactly. In a packing with almost no
//! waste, memory forms bands that whole groups of buffers pass on: the buffers that begin at an
//! instant take the place of a group that has ended. A PQ-tree over the buffers alone, without free
//! memory, keeps all vertical orders in which every such group is contiguous; sizes only help to
//! decide who belongs to a group (`band_choice`). The offsets follow from the order: each buffer
//! lies on top of the highest buffer below it. If all groups are right, memory that a buffer leaves
//! idle in its place costs nothing, in every order that the tree still allows. A beam of trees
//! follows the likeliest groups. If no group can be contiguous any more, the most similar one is
//! taken, so a sweep always completes.

use super::band_choice::{Arrival, Idle, Prices, Register, Tenant};
use super::pq_tree::{Leaf, Log, Tree};
use super::problem::{Problem, narrow};
use super::skyline::stacked_in_order;

/// Number of groups that one tree follows at one instant.
const MOST_BRANCHES: usize = 4;
/// Two groups at one instant are distinguished only if at most this many blocks begin or end there.
const MOST_SPLIT: usize = 8;
/// Number of pairs of groups tried at one instant.
const MOST_PAIRS: usize = 20;
/// Prices of two groups at one instant: if both match exactly, and if only one does.
const TWO_GROUPS: (u64, u64) = (15, 30);
/// Number of steps counted for a block whose offset is derived from the order.
const STACKED: u64 = 12;
/// Price of a group that cannot be contiguous.
const BROKEN: u64 = 200;

/// One tree of the beam and the price of its groups.
#[derive(Clone)]
struct State {
    tree: Tree,
    price: u64,
}

/// Direction and limits of a sweep.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    /// Number of trees in the beam.
    pub(super) width: usize,
    /// Whether it runs from the last instant to the first.
    pub(super) backwards: bool,
    /// Number of leaves and groups that it may examine.
    pub(super) most_steps: u64,
}

/// The blocks that begin and end at an instant, in the direction of the sweep.
struct Instant<'a> {
    now: u64,
    begun: &'a [u32],
    ended: &'a [u32],
}

struct Sweep<'a> {
    problem: &'a Problem,
    prices: &'a Prices,
    log: Log,
    register: Register,
    /// Units of nominal band height for each unit of size. Heights are shares of bands and are
    /// rounded, so they need a finer scale.
    scale: u64,
    /// For each block its end in the direction of the sweep and the length of its lifetime, in the
    /// caller's time.
    lives: Vec<(u64, u64)>,
    steps: u64,
}

/// Computes offsets by one sweep; also returns the steps taken. The offsets are `None` if the steps
/// exceed `way.most_steps`.
pub(super) fn band_order(problem: &Problem, prices: &Prices, way: Way) -> (Option<Vec<u64>>, u64) {
    let instants = problem.stretches() + 1;
    let (mut begins, mut ends) = (vec![Vec::new(); instants], vec![Vec::new(); instants]);
    for at in 0..problem.len() {
        begins[problem.lower[at] as usize].push(narrow(at));
        ends[problem.upper[at] as usize].push(narrow(at));
    }
    let mut times = problem.times();
    let last = times[instants - 1];
    let life = |at: usize| {
        let (lower, upper) = (times[problem.lower[at] as usize], times[problem.upper[at] as usize]);
        (if way.backwards { last - lower } else { upper }, upper - lower)
    };
    let lives = (0..problem.len()).map(life).collect();
    if way.backwards {
        std::mem::swap(&mut begins, &mut ends);
        begins.reverse();
        ends.reverse();
        times = times.iter().rev().map(|time| last - time).collect();
    }
    let mut sweep = Sweep::new(problem, prices, lives);
    let mut beam = vec![State { tree: Tree::leaf(0, None, problem.bound * sweep.scale), price: 0 }];
    for ((begun, ended), now) in begins.iter().zip(&ends).zip(times) {
        let instant = Instant { now, begun, ended };
        let mut next: Vec<State> = Vec::new();
        for state in beam {
            sweep.instant(state, &instant, if way.width == 1 { 1 } else { MOST_BRANCHES }, &mut next);
        }
        if next.len() > way.width {
            let print = |state: State| (state.price, state.tree.fingerprint(), state);
            let mut ranked: Vec<(u64, u64, State)> = next.into_iter().map(print).collect();
            ranked.sort_by_key(|&(price, print, _)| (price, print));
            ranked.dedup_by_key(|&mut (_, print, _)| print);
            ranked.truncate(way.width);
            next = ranked.into_iter().map(|(_, _, state)| state).collect();
        }
        beam = next;
        if sweep.steps > way.most_steps {
            return (None, sweep.steps);
        }
    }
    let mut best: Option<(u64, Vec<u64>)> = None;
    for state in beam {
        let mut nominal = vec![0; problem.len()];
        state.tree.unfold(&mut sweep.log, &mut nominal);
        let offsets = stacked_in_order(problem, &nominal);
        sweep.steps += STACKED * problem.len() as u64;
        let arena = problem.arena(&offsets);
        if best.as_ref().is_none_or(|(least, _)| arena < *least) {
            best = Some((arena, offsets));
        }
    }
    (best.map(|(_, offsets)| offsets), sweep.steps)
}

impl<'a> Sweep<'a> {
    fn new(problem: &'a Problem, prices: &'a Prices, lives: Vec<(u64, u64)>) -> Self {
        let sum = problem.size.iter().sum::<u64>().max(problem.bound);
        let scale = 1_u64 << sum.leading_zeros().saturating_sub(3).min(24);
        // The leaf with key 0 is all memory before anything lives.
        let all = Tenant { block: u32::MAX, size: problem.bound, end: 0, life: 0, group: 0 };
        let register = Register { tenants: vec![all], idle: vec![Idle::default()] };
        Self { problem, prices, log: Log::default(), register, scale, lives, steps: 0 }
    }

    fn size(&self, blocks: &[u32]) -> u64 {
        blocks.iter().map(|&block| self.problem.size[block as usize]).sum()
    }

    /// Keys of the leaves that the blocks occupy or occupied, ascending.
    fn keys(&self, leaves: &[Leaf], blocks: &[u32]) -> Vec<u32> {
        let is_theirs = |leaf: &&Leaf| blocks.contains(&self.register.tenant(leaf.key).block);
        let mut keys: Vec<u32> = leaves.iter().filter(is_theirs).map(|leaf| leaf.key).collect();
        keys.sort_unstable();
        keys
    }

    /// Registers new blocks as one group and returns the key of the first.
    fn enter(&mut self, blocks: &[u32], idle: Idle) -> u32 {
        let (first, group) = (narrow(self.register.tenants.len()), narrow(self.register.idle.len()));
        self.register.idle.push(idle);
        for &block in blocks {
            let (end, life) = self.lives[block as usize];
            let size = self.problem.size[block as usize];
            self.register.tenants.push(Tenant { block, size, end, life, group });
        }
        first
    }

    /// Adds all trees that one tree may become at an instant; at least one.
    fn instant(&mut self, state: State, instant: &Instant<'_>, branches: usize, next: &mut Vec<State>) {
        let State { mut tree, price } = state;
        let &Instant { now, begun, ended } = instant;
        tree.end(ended, &mut self.log);
        if begun.is_empty() {
            next.push(State { tree, price });
            return;
        }
        let mut leaves = Vec::new();
        tree.leaves(&mut leaves);
        self.steps += 2 * leaves.len() as u64;
        let fresh = self.keys(&leaves, ended);
        let largest = begun.iter().map(|&block| self.problem.size[block as usize]).max().unwrap_or(0);
        let arrival = Arrival { need: self.size(begun), count: begun.len(), largest, now };
        let (choices, looked) = self.register.choices(self.prices, &tree, &leaves, &fresh, arrival);
        self.steps += looked;
        let before = next.len();
        for choice in choices {
            if let Some(tree) = self.placed(&tree, &choice.keys, begun) {
                next.push(State { tree, price: price + choice.price });
                if next.len() - before >= branches {
                    break;
                }
            }
        }
        if next.len() == before || branches > 1 {
            self.two_groups(&tree, price, &leaves, instant, next);
        }
        if next.len() == before {
            let state = self.broken(tree, price, &leaves, instant);
            next.push(state);
        }
    }

    /// The tree with `blocks` in place of the leaves `keys`; `None` if these leaves cannot be
    /// contiguous.
    fn placed(&mut self, tree: &Tree, keys: &[u32], blocks: &[u32]) -> Option<Tree> {
        let need = self.size(blocks);
        let first = narrow(self.register.tenants.len());
        let sizes: Vec<u64> = blocks.iter().map(|&block| self.problem.size[block as usize]).collect();
        // The band is divided in proportion to the sizes.
        let make = |past, height: u64| {
            let (mut below, mut from, mut key) = (0_u64, 0_u64, first);
            let mut leaves = Vec::with_capacity(blocks.len());
            for (&block, &size) in blocks.iter().zip(&sizes) {
                below += size;
                let to = u128::from(height) * u128::from(below) / u128::from(need);
                let to = u64::try_from(to).unwrap_or(height);
                leaves.push(Tree::leaf(key, Some(block), to - from));
                (from, key) = (to, key + 1);
            }
            Tree::over(leaves, past)
        };
        self.steps += tree.mark(keys)?;
        let tree = tree.clone().replace(&mut self.log, &make)?;
        let have: u64 = keys.iter().map(|&key| self.register.tenant(key).size).sum();
        let (returned, _) = self.register.may_return(keys);
        let idle = Idle { known: have.saturating_sub(need), most: (have + returned).saturating_sub(need) };
        self.enter(blocks, idle);
        Some(tree)
    }

    /// Tries two groups at one instant: parts of equal size on both sides, and the rest of both.
    fn two_groups(&mut self, tree: &Tree, price: u64, leaves: &[Leaf], instant: &Instant<'_>, next: &mut Vec<State>) {
        let &Instant { begun, ended, .. } = instant;
        if begun.len() < 2 || ended.len() < 2 || begun.len().max(ended.len()) > MOST_SPLIT {
            return;
        }
        let pick = |from: &[u32], mask: u32| -> (Vec<u32>, Vec<u32>) {
            let (mut inside, mut outside) = (Vec::new(), Vec::new());
            for (at, &block) in from.iter().enumerate() {
                if mask >> at & 1 == 1 { inside.push(block) } else { outside.push(block) }
            }
            (inside, outside)
        };
        let mut tried = 0;
        // The first block that ends is always in the first group, so that each split is seen once.
        for mask in (1..(1_u32 << ended.len()) - 1).step_by(2) {
            let (one, two) = pick(ended, mask);
            for taken in 1..(1_u32 << begun.len()) - 1 {
                let (first, second) = pick(begun, taken);
                let matches = (self.size(&one) == self.size(&first), self.size(&two) == self.size(&second));
                self.steps += 1;
                if matches == (false, false) || tried > MOST_PAIRS {
                    continue;
                }
                tried += 1;
                let (one, two) = (self.keys(leaves, &one), self.keys(leaves, &two));
                if let Some(half) = self.placed(tree, &one, &first)
                    && let Some(tree) = self.placed(&half, &two, &second)
                {
                    let more = if matches == (true, true) { TWO_GROUPS.0 } else { TWO_GROUPS.1 };
                    next.push(State { tree, price: price + more });
                }
            }
        }
    }

    /// Handles an instant at which no group fits. As many of the ended blocks as can be contiguous
    /// give up their place, largest first; if nothing ended, the new blocks go on top.
    fn broken(&mut self, tree: Tree, price: u64, leaves: &[Leaf], instant: &Instant<'_>) -> State {
        let &Instant { begun, ended, .. } = instant;
        let mut blocks: Vec<u32> = ended.to_vec();
        blocks.sort_by_key(|&block| (std::cmp::Reverse(self.problem.size[block as usize]), block));
        let (mut kept, mut best) = (Vec::new(), None);
        for block in blocks {
            kept.push(block);
            let keys = self.keys(leaves, &kept);
            match self.placed(&tree, &keys, begun) {
                Some(tree) => best = Some(tree),
                None => {
                    kept.pop();
                }
            }
        }
        let share = |lost: u64| {
            u64::try_from(u128::from(lost) * 2000 / u128::from(self.problem.bound.max(1))).unwrap_or(u64::MAX >> 16)
        };
        if let Some(tree) = best {
            let lost = self.size(ended) - self.size(&kept);
            return State { tree, price: price + BROKEN + share(lost) };
        }
        let price = price + BROKEN + share(self.size(begun));
        let first = self.enter(begun, Idle::default());
        let top =
            |(key, &block): (u32, &u32)| Tree::leaf(key, Some(block), self.problem.size[block as usize] * self.scale);
        let tops: Vec<Tree> = (first..).zip(begun).map(top).collect();
        State { tree: tree.beside(Tree::over(tops, None)), price }
    }
}

#[cfg(test)]
mod tests {
    use super::{Way, band_order};
    use crate::memory::band_choice::PRICES;
    use crate::memory::check_offsets::check_offsets;
    use crate::memory::problem::Problem;
    use crate::memory::{Block, Buffer};
    use proptest::prelude::*;

    fn planned(lives: &[(u64, u64, u64)], width: usize, backwards: bool) -> (Problem, Vec<u64>) {
        let block = |(id, &(lower, upper, size)): (usize, &(u64, u64, u64))| {
            Block::from(&Buffer { id: id as u64, lower, upper, size, align: 1 })
        };
        let blocks: Vec<Block> = lives.iter().enumerate().map(block).collect();
        let problem = Problem::new(&blocks, true).expect("a problem");
        let way = Way { width, backwards, most_steps: u64::MAX };
        let (units, steps) = band_order(&problem, &PRICES[0], way);
        assert!(steps > 0);
        let units = units.expect("a sweep always ends");
        let offsets: Vec<u64> = units.iter().map(|unit| unit * problem.unit).collect();
        let arena = problem.arena(&units) * problem.unit;
        assert_eq!(check_offsets(&blocks, &offsets, arena, None), Ok(()));
        (problem, units)
    }

    proptest! {
        #[test]
        fn any_buffers_are_placed_apart(
            lives in prop::collection::vec((0_u64..20, 1_u64..8, 1_u64..30), 1..50),
            width in prop::sample::select(vec![1_usize, 4]),
        ) {
            let lives: Vec<(u64, u64, u64)> = lives.into_iter().map(|(at, long, size)| (at, at + long, size)).collect();
            planned(&lives, width, false);
            planned(&lives, width, true);
        }
    }

    #[test]
    fn a_place_that_was_left_empty_or_partly_idle_is_found_again() {
        // Three places of 40, 30 and 30. The second is left at 4 and empty until 6; from the first,
        // a buffer of 25 takes over 25 of the 40 units until 8; at 8 one buffer of 70 takes both.
        let lives = [(0, 2, 40), (0, 4, 30), (0, 9, 30), (2, 8, 25), (6, 8, 30), (8, 9, 70)];
        for backwards in [false, true] {
            let (problem, units) = planned(&lives, 4, backwards);
            assert_eq!(problem.arena(&units), problem.bound);
        }
    }
}
