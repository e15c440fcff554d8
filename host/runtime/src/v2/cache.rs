//! Caches plans by what they depend on. Their number is limited; the least recently used are
//! dropped first (facts 8.11). A graph that runs in a loop may have more, as long as they are
//! small.
use super::build::{Last, Round};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of plans of one graph.
pub(crate) const CAPACITY: usize = 120;
/// Number of plans dropped at once when there are too many.
pub(crate) const EVICTED: usize = 8;

/// Total weight up to which a graph in a loop may have more plans: some tens of megabytes.
pub(crate) const TURNED_NODES: usize = 16_384;
/// Weight of a plan in addition to its nodes.
const OWN_NODES: usize = 8;

/// The cached rounds of one graph.
#[derive(Default)]
pub(crate) struct Cache {
    rounds: HashMap<Vec<u8>, (Arc<Round>, u64)>,
    clock: u64,
    next: u64,
    /// Whether the graph runs in a loop. Its iterations recur in the same order, so with more plans
    /// than the limit each would be dropped just before it is needed again. Therefore more are kept
    /// while they are small.
    turned: bool,
    /// Total weight of all plans.
    nodes: usize,
}

/// Weight of a plan.
fn nodes_of(round: &Round) -> usize {
    OWN_NODES + round.launches + round.host.len()
}

impl Cache {
    /// An empty cache; `turned` says whether the graph runs in a loop.
    pub(crate) fn new(turned: bool) -> Cache {
        Cache { turned, ..Cache::default() }
    }
    /// Whether plans must be dropped before one more is kept.
    fn is_full(&self, more: &Round) -> bool {
        let small = self.turned && self.nodes + nodes_of(more) <= TURNED_NODES;
        self.rounds.len() >= CAPACITY && !small
    }
    /// The plan with this key.
    pub(crate) fn get(&mut self, key: &[u8]) -> Option<Arc<Round>> {
        self.clock += 1;
        let (round, used) = self.rounds.get_mut(key)?;
        *used = self.clock;
        Some(round.clone())
    }
    /// An id for a new plan.
    pub(crate) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
    /// Keeps a plan and returns it. If another thread has kept one for the same key meanwhile, that
    /// one stays and is returned, unless it is an amended plan and the new one is not.
    pub(crate) fn put(&mut self, key: Vec<u8>, round: Arc<Round>) -> Arc<Round> {
        if let Some(known) = self.get(&key).filter(|known| round.amended || !known.amended) {
            return known;
        }
        if self.is_full(&round) {
            let mut used: Vec<u64> = self.rounds.values().map(|r| r.1).collect();
            used.sort_unstable();
            let limit = used.get(EVICTED - 1).copied().unwrap_or(0);
            self.rounds.retain(|_, r| r.1 > limit);
            self.nodes = self.rounds.values().map(|r| nodes_of(&r.0)).sum();
        }
        self.nodes += nodes_of(&round);
        if let Some(other) = self.rounds.insert(key, (round.clone(), self.clock)) {
            self.nodes -= nodes_of(&other.0);
        }
        round
    }
    /// Number of plans.
    pub(crate) fn len(&self) -> usize {
        self.rounds.len()
    }
    /// Number of plans that have a way to the outputs of the model.
    pub(crate) fn ways(&self) -> usize {
        self.rounds.values().filter(|r| r.0.way.get().is_some()).count()
    }
}

/// Number of rounds, from the first of a run, whose latest plans are kept.
const ROUNDS: usize = 8;

/// What the latest plans of one graph were made from, by round and by the nodes done before it.
#[derive(Default)]
pub(crate) struct Lasts {
    kept: Mutex<HashMap<usize, (Vec<bool>, Last)>>,
    used: AtomicU64,
}

impl Lasts {
    fn kept(&self) -> MutexGuard<'_, HashMap<usize, (Vec<bool>, Last)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Takes the entry of a round, to make a plan from it.
    pub(crate) fn take(&self, round: usize, done: &[bool]) -> Option<Last> {
        let (before, last) = self.kept().remove(&round)?;
        (before == done).then_some(last)
    }
    /// Keeps the entry of a round.
    pub(crate) fn put(&self, round: usize, done: Vec<bool>, last: Last) {
        self.used.fetch_add(u64::from(last.round.amended), Ordering::Relaxed);
        if round < ROUNDS {
            self.kept().insert(round, (done, last));
        }
    }
    /// Number of plans that were made from other plans.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(turned: bool, nodes: usize, plans: u64) -> Cache {
        let mut cache = Cache::new(turned);
        for k in 0..plans {
            let round = Round { launches: nodes, ..Round::default() };
            cache.put(k.to_le_bytes().to_vec(), Arc::new(round));
        }
        assert_eq!(cache.nodes, cache.rounds.values().map(|r| nodes_of(&r.0)).sum::<usize>());
        cache
    }

    #[test]
    fn a_graph_that_a_loop_turns_keeps_more_plans_while_they_are_small() {
        assert_eq!(filled(true, 20, 250).len(), 250);
        assert!(filled(false, 20, 250).len() <= CAPACITY);
        // Large plans are limited as in any graph; smaller ones by their total weight.
        assert!(filled(true, 2_000, 250).len() <= CAPACITY);
        let some = filled(true, 40, 1_000);
        assert!(some.len() > CAPACITY && some.nodes <= TURNED_NODES);
        // A plan that was just used stays.
        let mut cache = filled(true, 2_000, CAPACITY as u64);
        assert!(cache.get(&0u64.to_le_bytes()).is_some());
        cache.put(vec![1], Arc::new(Round::default()));
        assert!(cache.get(&0u64.to_le_bytes()).is_some() && cache.get(&1u64.to_le_bytes()).is_none());
    }
}
