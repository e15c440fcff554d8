//! `DynamicBatchMemAssigner`: only one branch of a `Case` runs at a time. The gears of a model are
//! such branches, so the smaller gears lie in the memory of the largest (facts 2.9). The gear label
//! of a node (`_batch_label`) is not used here.
use crate::streams::branches::exclusive;
use ge_planners::memory::{Conflicts, StreamConflicts};

/// Conflicts by the order of the streams, except that different branches of one node never run
/// together.
pub struct Gears<'a> {
    inner: &'a StreamConflicts<'a>,
    /// For each block, the branches that contain every node that touches it.
    branches: Vec<&'a [(u32, u32)]>,
}

impl<'a> Gears<'a> {
    /// `branches[k]` belongs to block `k` of `inner`.
    pub fn new(inner: &'a StreamConflicts<'a>, branches: Vec<&'a [(u32, u32)]>) -> Gears<'a> {
        Gears { inner, branches }
    }
    fn apart(&self, a: usize, b: usize) -> bool {
        exclusive(self.branches[a], self.branches[b])
    }
}

impl Conflicts for Gears<'_> {
    fn blocks(&self) -> usize {
        self.inner.blocks()
    }
    fn live_together(&self, a: usize, b: usize) -> bool {
        !self.apart(a, b) && self.inner.live_together(a, b)
    }
    fn each_pair(&self, visit: &mut dyn FnMut(usize, usize) -> bool) {
        self.inner.each_pair(&mut |a, b| if self.apart(a, b) { true } else { visit(a, b) });
    }
}
