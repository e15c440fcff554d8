//! Plans by what they depend on, at most so many: the least recently used go first (facts 8.11).
use super::build::{Last, Round};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    /// Keeps a plan; one that another thread has kept meanwhile stays, and is given, unless it was
    /// made of another one and this one was not.
    pub(crate) fn put(&mut self, key: Vec<u8>, round: Arc<Round>) -> Arc<Round> {
        if let Some(known) = self.get(&key).filter(|known| round.amended || !known.amended) {
            return known;
        }
        if self.rounds.len() >= CAPACITY {
            let mut used: Vec<u64> = self.rounds.values().map(|r| r.1).collect();
            used.sort_unstable();
            let limit = used.get(EVICTED - 1).copied().unwrap_or(0);
            self.rounds.retain(|_, r| r.1 > limit);
        }
        self.rounds.insert(key, (round.clone(), self.clock));
        round
    }
    /// How many plans are kept.
    pub(crate) fn len(&self) -> usize {
        self.rounds.len()
    }
    /// How many of them have a way from there to the outputs of the model.
    pub(crate) fn ways(&self) -> usize {
        self.rounds.values().filter(|r| r.0.way.get().is_some()).count()
    }
}

/// Rounds of a graph, counted from the first of a run, whose last plans are kept.
const ROUNDS: usize = 8;

/// What the last plans of one graph were made of, by round and by the nodes that were done before.
#[derive(Default)]
pub(crate) struct Lasts {
    kept: Mutex<HashMap<usize, (Vec<bool>, Last)>>,
    used: AtomicU64,
}

impl Lasts {
    fn kept(&self) -> MutexGuard<'_, HashMap<usize, (Vec<bool>, Last)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Takes that of a round, for a plan that is made of it.
    pub(crate) fn take(&self, round: usize, done: &[bool]) -> Option<Last> {
        let (before, last) = self.kept().remove(&round)?;
        (before == done).then_some(last)
    }
    /// Keeps that of a round.
    pub(crate) fn put(&self, round: usize, done: Vec<bool>, last: Last) {
        self.used.fetch_add(u64::from(last.round.amended), Ordering::Relaxed);
        if round < ROUNDS {
            self.kept().insert(round, (done, last));
        }
    }
    /// How many plans were made of others.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}
