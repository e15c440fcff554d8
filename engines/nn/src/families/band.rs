//! The keys that a query sees by its place (`sparse_mode` of `PromptFlashAttention`).
use crate::sig::{Answer, Sig};
use std::ops::Range;

/// `pre_tokens` where it is left out, as the prototype has it.
const ANY: i64 = 214_748_647;

/// A band over the matrix of scores: query `s` sees the keys from `s - behind` to `s + ahead`.
#[derive(Clone, Copy, Debug)]
pub struct Band {
    queries: usize,
    keys: usize,
    /// How far the first key and the last one lie from the query's own place.
    from: i64,
    to: i64,
    /// They are counted from the last key.
    from_last: bool,
}

impl Band {
    /// By the attributes: 0, all keys; 2, those up to the query's number; 3, as 2 with the last query
    /// and the last key in one place; 4, from `pre_tokens` before that place to `next_tokens` behind.
    ///
    /// # Errors
    /// Another mode.
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

    /// The band of a sequence that has as many of the keys, the first ones.
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

    /// The keys from the first to the last one that any of some queries sees.
    pub fn keys_of_all(&self, queries: Range<usize>) -> Range<usize> {
        let (first, last) = (self.keys_of(queries.start), self.keys_of(queries.end.max(1) - 1));
        first.start..last.end.max(first.start)
    }

    /// Scores of one head.
    pub fn scores(&self) -> u64 {
        let (first, last) = (self.keys_of(0).len(), self.keys_of(self.queries.max(1) - 1).len());
        // The band is as wide at its ends as anywhere, or rises or falls between them.
        (first as u64 + last as u64).div_ceil(2) * self.queries as u64
    }
}
