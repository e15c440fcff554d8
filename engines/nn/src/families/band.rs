//! The keys that a query sees depending on its position (`sparse_mode` of `PromptFlashAttention`).
use crate::sig::{Answer, Sig};
use std::ops::Range;

/// Default of `pre_tokens`, as in the prototype.
const ANY: i64 = 214_748_647;

/// A band in the matrix of scores: query `s` sees the keys from `s + from` to `s + to`.
#[derive(Clone, Copy, Debug)]
pub struct Band {
    queries: usize,
    keys: usize,
    /// Distance of the first and the last key from the query's own position.
    from: i64,
    to: i64,
    /// Whether the positions are aligned at the last key instead of the first.
    from_last: bool,
}

impl Band {
    /// The band that the attributes select. Mode 0: all keys; 2: keys up to the query's own
    /// position; 3: like 2, with the last query aligned to the last key; 4: aligned like 3, from
    /// `pre_tokens` before the query's position to `next_tokens` after it.
    ///
    /// # Errors
    /// Fails if the mode is another one.
    pub fn of(sig: &Sig, queries: usize, keys: usize) -> Answer<Band> {
        let (far, shift) = (i64::MAX / 4, keys as i64 - queries as i64);
        let near = |key: &str, or: i64| sig.int(key, or).clamp(-far, far);
        let mode = sig.int("sparse_mode", 0);
        let (from, to) = match mode {
            0 => (-far, far),
            2 => (-far, 0),
            3 => (-far, shift),
            4 => (shift - near("pre_tokens", ANY), shift + near("next_tokens", 0)),
            other => return Err(format!("sparse_mode {other}, it takes 0, 2, 3 and 4")),
        };
        Ok(Band { queries, keys, from, to, from_last: mode > 2 })
    }

    /// Whether every query sees all keys.
    pub fn is_whole(&self) -> bool {
        let all = 0..self.keys;
        self.keys_of(0) == all && self.keys_of(self.queries.max(1) - 1) == all
    }

    /// The band of a sequence that has only the first `keys` keys.
    pub fn of_keys(&self, keys: usize) -> Band {
        let keys = keys.min(self.keys);
        let nearer = if self.from_last { (self.keys - keys) as i64 } else { 0 };
        Band { keys, from: self.from - nearer, to: self.to - nearer, ..*self }
    }

    /// The keys that query `s` sees.
    pub fn keys_of(&self, s: usize) -> Range<usize> {
        let within = |at: i64| at.clamp(0, self.keys as i64) as usize;
        let (from, to) = (within(s as i64 + self.from), within((s as i64 + self.to).saturating_add(1)));
        from..to.max(from)
    }

    /// The keys from the first to the last that any of the queries sees.
    pub fn keys_of_all(&self, queries: Range<usize>) -> Range<usize> {
        let (first, last) = (self.keys_of(queries.start), self.keys_of(queries.end.max(1) - 1));
        first.start..last.end.max(first.start)
    }

    /// Number of scores of one head.
    pub fn scores(&self) -> u64 {
        let (first, last) = (self.keys_of(0).len(), self.keys_of(self.queries.max(1) - 1).len());
        // The width of the band is constant, or rises or falls steadily from one end to the other.
        (first as u64 + last as u64).div_ceil(2) * self.queries as u64
    }
}
