//! What of its arguments a block has been given, so that no byte is handed out for writing twice.
use std::collections::BTreeMap;

/// What is currently handed out of a block's arguments and scratch.
#[derive(Default)]
pub(super) struct Lent {
    /// Scratch bytes handed out.
    pub(super) scratch: u64,
    /// Arguments for which a writer exists.
    writers: Vec<usize>,
    /// Writable arguments that were handed out for reading.
    readers: Vec<usize>,
    /// Byte ranges handed out for writing: argument, start, end. Most kernels ask for one or two.
    few: [(usize, usize, usize); 4],
    n: usize,
    /// Ranges that do not fit in `few`: the end by argument and start.
    many: BTreeMap<(usize, usize), usize>,
}

impl Lent {
    pub(super) fn has_some(&self, arg: usize) -> bool {
        let many = || self.many.range((arg, 0)..=(arg, usize::MAX)).next().is_some();
        self.few[..self.n].iter().any(|s| s.0 == arg) || many()
    }
    pub(super) fn read(&mut self, arg: usize) -> bool {
        if self.writers.contains(&arg) || self.has_some(arg) {
            return false;
        }
        if !self.readers.contains(&arg) {
            self.readers.push(arg);
        }
        true
    }
    pub(super) fn whole(&mut self, arg: usize) -> bool {
        let free = !self.writers.contains(&arg) && !self.readers.contains(&arg) && !self.has_some(arg);
        if free {
            self.writers.push(arg);
        }
        free
    }
    pub(super) fn give_back(&mut self, arg: usize) {
        self.writers.retain(|a| *a != arg);
    }
    /// Records a range; returns false if a part of it is handed out already.
    pub(super) fn write(&mut self, arg: usize, start: usize, end: usize) -> bool {
        if self.writers.contains(&arg) || self.readers.contains(&arg) {
            return false;
        }
        let few = &mut self.few[..self.n];
        if few.iter().any(|s| s.0 == arg && start < s.2 && s.1 < end) {
            return false;
        }
        let before = self.many.range(..(arg, end)).next_back();
        if before.is_some_and(|((a, _), e)| *a == arg && *e > start) {
            return false;
        }
        // Adjacent ranges, as loops ask for them, become one.
        if let Some(s) = few.iter_mut().find(|s| s.0 == arg && (s.2 == start || s.1 == end)) {
            (s.1, s.2) = (s.1.min(start), s.2.max(end));
        } else if self.n < self.few.len() {
            self.few[self.n] = (arg, start, end);
            self.n += 1;
        } else {
            self.many.insert((arg, start), end);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn each_range_is_handed_out_once() {
        let mut l = Lent::default();
        assert!(l.write(0, 0, 8) && l.write(0, 8, 16) && !l.write(0, 12, 20) && l.write(1, 12, 20));
        assert!(!l.write(0, 0, 1) && !l.read(0) && !l.whole(0));
        // More ranges than fit in `few`.
        for k in (2..200).rev() {
            assert!(l.write(0, k * 100, k * 100 + 10), "{k}");
        }
        for k in 2..200 {
            assert!(!l.write(0, k * 100 + 5, k * 100 + 20) && !l.write(0, k * 100 - 5, k * 100 + 1), "{k}");
            assert!(l.write(0, k * 100 + 10, k * 100 + 20), "{k}");
        }
        assert!(!l.write(0, 50, 20_000));
        assert!(l.read(2) && l.read(2) && !l.write(2, 0, 1) && !l.whole(2));
        assert!(l.whole(3) && !l.whole(3) && !l.write(3, 0, 1) && !l.read(3));
        l.give_back(3);
        assert!(l.write(3, 0, 1));
    }
}
