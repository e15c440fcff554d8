//! `DynamicBatchMemAssigner`: of the gears of a model (`_batch_num`, nodes labelled `_batch_label`) one runs at a time, so that the
//! smaller gears lie in the memory of the largest (facts 2.9).
use super::assign::{Conflicts, StreamConflicts};

/// The order of the streams, and of gears the one before the other in the line: they never run together.
pub struct Gears<'a> {
    inner: &'a StreamConflicts<'a>,
    /// Gear of each block.
    labels: Vec<Option<&'a str>>,
}

impl<'a> Gears<'a> {
    /// `labels[k]` belongs to block `k` of `inner`.
    pub fn new(inner: &'a StreamConflicts<'a>, labels: Vec<Option<&'a str>>) -> Gears<'a> {
        Gears { inner, labels }
    }
    fn apart(&self, a: usize, b: usize) -> bool {
        matches!((self.labels[a], self.labels[b]), (Some(x), Some(y)) if x != y)
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
