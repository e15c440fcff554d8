//! Which blocks live together: by interval, or by the order that several streams give.

use super::block::Block;

/// The relation "live together". It must be symmetric, and its complement must be an order: if
/// `a` is over before `b` and `b` before `c`, then `a` is over before `c`. Two blocks whose
/// intervals in the linear order meet always live together.
pub trait Conflicts: Sync {
    /// How many blocks the relation speaks of.
    fn blocks(&self) -> usize;
    /// Whether the two may not share a byte.
    fn live_together(&self, a: usize, b: usize) -> bool;
    /// Calls `visit` once for each pair that lives together, in an order that is always the same.
    /// `visit` says whether to go on.
    fn each_pair(&self, visit: &mut dyn FnMut(usize, usize) -> bool);
}

/// Blocks live together where their half-open intervals meet.
#[derive(Debug, Clone)]
pub struct IntervalConflicts {
    lives: Vec<(u64, u64)>,
}

impl IntervalConflicts {
    /// From the intervals of `blocks`; a block without reuse lives for ever.
    #[must_use]
    pub fn new(blocks: &[Block]) -> Self {
        let life = |block: &Block| {
            if block.reuse { (block.lower, block.upper) } else { (0, u64::MAX) }
        };
        Self { lives: blocks.iter().map(life).collect() }
    }
}

impl Conflicts for IntervalConflicts {
    fn blocks(&self) -> usize {
        self.lives.len()
    }

    fn live_together(&self, a: usize, b: usize) -> bool {
        let ((a_lower, a_upper), (b_lower, b_upper)) = (self.lives[a], self.lives[b]);
        a_lower < b_upper && b_lower < a_upper
    }

    fn each_pair(&self, visit: &mut dyn FnMut(usize, usize) -> bool) {
        let mut order: Vec<usize> = (0..self.lives.len()).collect();
        order.sort_by_key(|&at| (self.lives[at].0, at));
        let mut live: Vec<usize> = Vec::new();
        for at in order {
            let (lower, upper) = self.lives[at];
            if upper <= lower {
                continue;
            }
            live.retain(|&other| self.lives[other].1 > lower);
            for &other in &live {
                if !visit(other, at) {
                    return;
                }
            }
            live.push(at);
        }
    }
}

/// The order in which a plan of several streams runs its nodes.
pub trait NodeOrder: Sync {
    /// Whether node `a` is over before node `b` starts, by stream order, edges and activation.
    fn ordered(&self, a: u32, b: u32) -> bool;
}

impl<F: Fn(u32, u32) -> bool + Sync> NodeOrder for F {
    fn ordered(&self, a: u32, b: u32) -> bool {
        self(a, b)
    }
}

/// Who writes a block first and who touches it at all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamUse {
    /// Nodes of which one is the first to touch the block; all must come after the block's
    /// predecessor in its memory is over. Mostly the one producer; empty: before everything.
    pub first: Vec<u32>,
    /// Nodes after which the block is over (the producer, if nobody reads it); empty: never over.
    pub last: Vec<u32>,
}

/// Blocks live together unless every use of the one is over before the first of the other
/// (facts 2.6 h, the rule of the original's reuse checker).
pub struct StreamConflicts<'a> {
    uses: Vec<StreamUse>,
    order: &'a dyn NodeOrder,
    by_lower: Vec<usize>,
}

impl<'a> StreamConflicts<'a> {
    /// `uses[k]` belongs to `blocks[k]`, whose interval is one in a linear order of the nodes
    /// that `order` allows.
    #[must_use]
    pub fn new(blocks: &[Block], uses: Vec<StreamUse>, order: &'a dyn NodeOrder) -> Self {
        let mut by_lower: Vec<usize> = (0..uses.len()).collect();
        by_lower.sort_by_key(|&at| (blocks.get(at).map(|block| block.lower), at));
        Self { uses, order, by_lower }
    }

    fn over_before(&self, a: usize, b: usize) -> bool {
        let (a, b) = (&self.uses[a], &self.uses[b]);
        !a.last.is_empty()
            && !b.first.is_empty()
            && a.last.iter().all(|&last| b.first.iter().all(|&first| self.order.ordered(last, first)))
    }
}

impl Conflicts for StreamConflicts<'_> {
    fn blocks(&self) -> usize {
        self.uses.len()
    }

    fn live_together(&self, a: usize, b: usize) -> bool {
        !self.over_before(a, b) && !self.over_before(b, a)
    }

    /// Pairs are asked in the linear order: a block can be over before those after it only. Work
    /// is quadratic in the blocks, two or three calls of the order a pair.
    fn each_pair(&self, visit: &mut dyn FnMut(usize, usize) -> bool) {
        for (position, &b) in self.by_lower.iter().enumerate() {
            for &a in &self.by_lower[..position] {
                if self.live_together(a, b) && !visit(a, b) {
                    return;
                }
            }
        }
    }
}

impl std::fmt::Debug for StreamConflicts<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamConflicts").field("uses", &self.uses).finish_non_exhaustive()
    }
}
