//! Plans by what they depend on, at most so many: the least recently used go first (facts 8.11).
//! A graph that a loop turns keeps more, while they are small.
use super::build::{Last, Round};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Plans that are kept for a graph.
pub(crate) const CAPACITY: usize = 120;
/// Plans that go at once when there are too many.
pub(crate) const EVICTED: usize = 8;

/// Nodes that the plans of a graph that a loop turns may launch together before there are too many:
/// some tens of megabytes.
pub(crate) const TURNED_NODES: usize = 16_384;
/// What a plan counts besides its nodes.
const OWN_NODES: usize = 8;

/// The rounds of one graph.
#[derive(Default)]
pub(crate) struct Cache {
    rounds: HashMap<Vec<u8>, (Arc<Round>, u64)>,
    clock: u64,
    next: u64,
    /// A loop turns the graph: its turns come again in their order, so that of plans for more turns
    /// than are kept none would be there when its turn comes. More are kept, while they are small.
    turned: bool,
    /// The nodes that all plans launch.
    nodes: usize,
}

/// What a plan counts.
fn nodes_of(round: &Round) -> usize {
    OWN_NODES + round.launches + round.host.len()
}

impl Cache {
    /// Of a graph, which a loop turns or not.
    pub(crate) fn new(turned: bool) -> Cache {
        Cache { turned, ..Cache::default() }
    }
    /// Whether some plans have to go before one more is kept.
    fn is_full(&self, more: &Round) -> bool {
        let small = self.turned && self.nodes + nodes_of(more) <= TURNED_NODES;
        self.rounds.len() >= CAPACITY && !small
    }
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
        // Of large ones as many as of any graph, of all but the largest as many as have room.
        assert!(filled(true, 2_000, 250).len() <= CAPACITY);
        let some = filled(true, 40, 1_000);
        assert!(some.len() > CAPACITY && some.nodes <= TURNED_NODES);
        // The one that was used last stays.
        let mut cache = filled(true, 2_000, CAPACITY as u64);
        assert!(cache.get(&0u64.to_le_bytes()).is_some());
        cache.put(vec![1], Arc::new(Round::default()));
        assert!(cache.get(&0u64.to_le_bytes()).is_some() && cache.get(&1u64.to_le_bytes()).is_none());
    }
}
