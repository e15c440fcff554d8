//! Which blocks are live together: by interval, or by the order of several streams.

use super::block::Block;

/// The relation "live together". It must be symmetric, and its complement must be an order: if `a`
/// is over before `b` and `b` before `c`, then `a` is over before `c`. Two blocks whose intervals
/// in the linear order intersect are always live together.
pub trait Conflicts: Sync {
    /// Number of blocks in the relation.
    fn blocks(&self) -> usize;
    /// Whether two blocks must not share a byte.
    fn live_together(&self, a: usize, b: usize) -> bool;
    /// Calls `visit` once for each pair that is live together, always in the same order. `visit`
    /// returns whether to continue.
    fn each_pair(&self, visit: &mut dyn FnMut(usize, usize) -> bool);
}

/// Blocks are live together if their half-open intervals intersect.
#[derive(Debug, Clone)]
pub struct IntervalConflicts {
    lives: Vec<(u64, u64)>,
}

impl IntervalConflicts {
    /// Takes the intervals of `blocks`; a block without reuse is live for the whole time.
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

/// The order in which a plan with several streams runs its nodes.
pub trait NodeOrder: Sync {
    /// Whether node `a` is over before node `b` starts, because of stream order, edges or
    /// activation.
    fn ordered(&self, a: u32, b: u32) -> bool;
}

impl<F: Fn(u32, u32) -> bool + Sync> NodeOrder for F {
    fn ordered(&self, a: u32, b: u32) -> bool {
        self(a, b)
    }
}

/// The first and last uses of a block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamUse {
    /// Nodes of which one is the first to use the block, usually its only producer. All of them
    /// must come after the previous block in the same memory is over. If empty, the block is used
    /// before everything.
    pub first: Vec<u32>,
    /// Nodes after which the block is over (the producer, if nothing reads the block). If empty, it
    /// is never over.
    pub last: Vec<u32>,
}

/// Two blocks are live together unless every use of one is over before the first use of the other
/// (facts 2.6 h, the rule of the original's reuse checker).
pub struct StreamConflicts<'a> {
    uses: Vec<StreamUse>,
    order: &'a dyn NodeOrder,
    by_lower: Vec<usize>,
}

impl<'a> StreamConflicts<'a> {
    /// `uses[k]` belongs to `blocks[k]`, whose interval refers to a linear order of the nodes that
    /// `order` allows.
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

    /// Pairs are queried in the linear order, because a block can be over only before later blocks.
    /// The work is quadratic in the blocks, with two or three queries of the order for each pair.
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
