//! Caches plans by what they depend on. Their number is limited; the least recently used are
//! dropped first (facts 8.11). A graph that runs in a loop may have more, as long as they are
//! small, and keeps those that it has until they fall out of use.
use super::build::{Last, Round};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of plans of one graph.
pub(crate) const CAPACITY: usize = 120;
/// Number of plans dropped at once when there are too many.
pub(crate) const EVICTED: usize = 8;

/// Total weight up to which a graph in a loop may have more plans: about a hundred megabytes.
pub(crate) const TURNED_NODES: usize = 16_384;
/// A graph in a loop drops only plans that were not used in the last look-ups, this many times as
/// many as there are plans. Until then new plans are not kept.
const UNUSED: u64 = 4;
/// Weight of a plan in addition to its nodes.
const OWN_NODES: usize = 8;

/// The cached rounds of one graph.
#[derive(Default)]
pub(crate) struct Cache {
    rounds: HashMap<Vec<u8>, (Arc<Round>, u64)>,
    clock: u64,
    next: u64,
    /// Whether the graph runs in a loop. Its iterations recur in the same order, so with more plans
    /// than the limit the least recently used would be dropped just before it is needed again.
    /// Therefore more are kept while they are small, and what is kept stays while it is used.
    turned: bool,
    /// Total weight of all plans.
    nodes: usize,
    /// A time before which no plan was used last.
    oldest: u64,
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
    /// Drops plans for one more. Returns `false` if all are in use.
    fn make_room(&mut self, more: &Round) -> bool {
        let unused = UNUSED * self.rounds.len() as u64;
        if self.turned && self.clock < self.oldest.saturating_add(unused) {
            return false;
        }
        let mut used: Vec<u64> = self.rounds.values().map(|r| r.1).collect();
        used.sort_unstable();
        let limit = match self.turned {
            true => self.clock.saturating_sub(unused),
            false => used.get(EVICTED - 1).copied().unwrap_or(0),
        };
        self.oldest = used.into_iter().find(|used| *used > limit).unwrap_or(self.clock);
        self.rounds.retain(|_, r| r.1 > limit);
        self.nodes = self.rounds.values().map(|r| nodes_of(&r.0)).sum();
        !self.turned || !self.is_full(more)
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
    /// Keeps a plan, unless a loop has its plans in use, and returns it. If another thread has kept
    /// one for the same key meanwhile, that one stays and is returned, unless it is an amended plan
    /// and the new one is not.
    pub(crate) fn put(&mut self, key: Vec<u8>, round: Arc<Round>) -> Arc<Round> {
        if let Some(known) = self.get(&key).filter(|known| round.amended || !known.amended) {
            return known;
        }
        if self.is_full(&round) && !self.make_room(&round) {
            return round;
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
    }

    #[test]
    fn plans_that_were_just_used_stay() {
        let mut cache = filled(false, 2_000, CAPACITY as u64);
        assert!(cache.get(&0u64.to_le_bytes()).is_some());
        cache.put(vec![1], Arc::new(Round::default()));
        assert!(cache.get(&0u64.to_le_bytes()).is_some() && cache.get(&1u64.to_le_bytes()).is_none());
        assert!(cache.get(&[1]).is_some());
    }

    /// A loop with more turns than plans finds as many as are kept, each time that it runs; what it
    /// no longer uses makes room for what it does.
    #[test]
    fn the_plans_of_a_long_loop_stay_until_they_fall_out_of_use() {
        let mut cache = Cache::new(true);
        let mut run = |turns: std::ops::Range<u64>| {
            let mut found = |k: u64| {
                let hit = cache.get(&k.to_le_bytes()).is_some();
                if !hit {
                    cache.put(k.to_le_bytes().to_vec(), Arc::new(Round { launches: 2_000, ..Round::default() }));
                }
                hit
            };
            let hits = turns.filter(|k| found(*k)).count();
            assert!(cache.len() <= CAPACITY);
            hits
        };
        assert_eq!(run(0..200), 0);
        assert_eq!([run(0..200), run(0..200)], [CAPACITY, CAPACITY]);
        let other: Vec<usize> = (0..8).map(|_| run(1_000..1_200)).collect();
        assert_eq!((other[0], other[7]), (0, CAPACITY));
    }
}
