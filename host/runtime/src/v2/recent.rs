//! Plans by the sizes of runs before: most runs have sizes that were there lately, and need no key then.
use super::build::Round;
use ge_plugin_api::kernel::TensorView;
use ge_plugin_api::types::DType;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Sizes whose plan stays from the first run on, so that later ones find it without a lock.
const FIRST: usize = 4;
/// Runs in vain after which none is asked for its way any more.
const MOST_IN_VAIN: usize = 16;

/// Types and sizes of the inputs of a run, and its first plan.
struct Entry {
    inputs: Vec<(DType, Vec<u64>)>,
    round: Arc<Round>,
}

impl Entry {
    fn fits(&self, given: &[TensorView<'_>]) -> bool {
        // Sizes are few: comparing them here takes less than a call that compares memory.
        let same = |a: &[u64], b: &[u64]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b);
        let mut pairs = self.inputs.iter().zip(given);
        self.inputs.len() == given.len() && pairs.all(|((dtype, dims), t)| *dtype == t.dtype && same(dims, t.dims))
    }
}

/// A plan that stays with the model, or one that others may put away meanwhile.
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

/// The plans of the first sizes, and that of the last.
#[derive(Default)]
pub(crate) struct Recent {
    first: [OnceLock<Entry>; FIRST],
    last: Mutex<Option<Entry>>,
    in_vain: AtomicUsize,
}

impl Recent {
    /// The plan of inputs of such types and sizes, if it is one of these.
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

    /// Keeps the plan of inputs, which hangs on none of their values.
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

    /// Whether runs are asked for their way: those before had one, or there were few.
    pub(crate) fn may_tell(&self) -> bool {
        self.in_vain.load(Ordering::Relaxed) < MOST_IN_VAIN
    }
    /// A run had no way.
    pub(crate) fn tells_nothing(&self) {
        self.in_vain.fetch_add(1, Ordering::Relaxed);
    }
}
