//! Plans by what they depend on, at most so many: the least recently used go first (facts 8.11).
use super::build::Round;
use std::collections::HashMap;
use std::sync::Arc;

/// Plans that are kept for a graph.
pub(crate) const CAPACITY: usize = 120;
/// Plans that go at once when there are too many.
pub(crate) const EVICTED: usize = 8;

/// The rounds of one graph.
#[derive(Default)]
pub(crate) struct Cache {
    rounds: HashMap<Vec<u8>, (Arc<Round>, u64)>,
    clock: u64,
    next: u64,
}

impl Cache {
    /// A plan by its key.
    pub(crate) fn get(&mut self, key: &[u8]) -> Option<Arc<Round>> {
        self.clock += 1;
        let (round, used) = self.rounds.get_mut(key)?;
        *used = self.clock;
        Some(round.clone())
    }
    /// A number for a new plan.
    pub(crate) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
    /// Keeps a plan; one that another thread has kept meanwhile stays, and is given.
    pub(crate) fn put(&mut self, key: Vec<u8>, round: Round) -> Arc<Round> {
        if let Some(known) = self.get(&key) {
            return known;
        }
        if self.rounds.len() >= CAPACITY {
            let mut used: Vec<u64> = self.rounds.values().map(|r| r.1).collect();
            used.sort_unstable();
            let limit = used.get(EVICTED - 1).copied().unwrap_or(0);
            self.rounds.retain(|_, r| r.1 > limit);
        }
        let round = Arc::new(round);
        self.rounds.insert(key, (round.clone(), self.clock));
        round
    }
    /// How many plans are kept.
    pub(crate) fn len(&self) -> usize {
        self.rounds.len()
    }
}
