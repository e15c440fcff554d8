//! `DynamicBatchMemAssigner`: of the branches of a `Case` one runs at a time, so that the smaller
//! gears of a model, which are such branches, lie in the memory of the largest (facts 2.9). That a
//! node is labelled as a gear (`_batch_label`) says nothing here.
use crate::streams::branches::exclusive;
use ge_planners::memory::{Conflicts, StreamConflicts};

/// The order of the streams, and that different branches of one node never run together.
pub struct Gears<'a> {
    inner: &'a StreamConflicts<'a>,
    /// The branches in which all that touches each block stands.
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
