//! Plans of recent runs by input sizes. Most runs have recently seen sizes and then need no key.
use super::build::Round;
use ge_plugin_api::kernel::TensorView;
use ge_plugin_api::types::DType;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Number of first-seen sizes whose plans are kept for good, so that later runs find them without a
/// lock.
const FIRST: usize = 4;
/// Number of runs without a way after which runs are no longer recorded.
const MOST_IN_VAIN: usize = 16;

/// Types and sizes of the inputs of a run, and its first plan.
struct Entry {
    inputs: Vec<(DType, Vec<u64>)>,
    round: Arc<Round>,
}

impl Entry {
    fn fits(&self, given: &[TensorView<'_>]) -> bool {
        // There are few sizes: comparing them here is faster than a call to a memory comparison.
        let same = |a: &[u64], b: &[u64]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b);
        let mut pairs = self.inputs.iter().zip(given);
        self.inputs.len() == given.len() && pairs.all(|((dtype, dims), t)| *dtype == t.dtype && same(dims, t.dims))
    }
}

/// A plan that stays with the model, or one that the cache may drop meanwhile.
pub(crate) enum Found<'r> {
    Stays(&'r Round),
    Now(Arc<Round>),
}

impl Deref for Found<'_> {
    type Target = Round;
    fn deref(&self) -> &Round {
        match self {
            Found::Stays(round) => round,
            Found::Now(round) => round,
        }
    }
}

/// The plans of the first sizes, and the plan of the latest other sizes.
#[derive(Default)]
pub(crate) struct Recent {
    first: [OnceLock<Entry>; FIRST],
    last: Mutex<Option<Entry>>,
    in_vain: AtomicUsize,
}

impl Recent {
    /// The plan for inputs of these types and sizes, if it is kept here.
    pub(crate) fn of(&self, given: &[TensorView<'_>]) -> Option<Found<'_>> {
        let there = self.first.iter().map_while(OnceLock::get);
        let mut full = 0;
        for e in there {
            if e.fits(given) {
                return Some(Found::Stays(&e.round));
            }
            full += 1;
        }
        if full < FIRST {
            return None;
        }
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().filter(|e| e.fits(given)).map(|e| Found::Now(e.round.clone()))
    }

    /// Keeps a plan for inputs of these types and sizes. The plan must not depend on their values.
    pub(crate) fn is(&self, given: &[TensorView<'_>], round: &Arc<Round>) {
        let inputs = given.iter().map(|t| (t.dtype, t.dims.to_vec())).collect();
        let mut entry = Entry { inputs, round: round.clone() };
        for place in &self.first {
            match place.set(entry) {
                Ok(()) => return,
                Err(back) => entry = back,
            }
        }
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(entry);
    }

    /// Whether runs should still be recorded: earlier ones had a way, or there were few.
    pub(crate) fn may_tell(&self) -> bool {
        self.in_vain.load(Ordering::Relaxed) < MOST_IN_VAIN
    }
    /// Counts a run that had no way.
    pub(crate) fn tells_nothing(&self) {
        self.in_vain.fetch_add(1, Ordering::Relaxed);
    }
}
