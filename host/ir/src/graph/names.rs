//! The set of names of a model's nodes, used to check whether a new name is free.
use super::Graph;
use ge_plugin_api::types::NumberMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

/// Names of a model's nodes, cached from one patch to the next; they stay valid until something
/// else changes a name. They belong to one model: a clone starts without them.
#[derive(Default)]
pub(super) struct Kept {
    names: Names,
    /// Marks of the graphs from which the names were gathered, in order.
    of: Vec<u64>,
}

impl Clone for Kept {
    fn clone(&self) -> Kept {
        Kept::default()
    }
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").field("of", &self.of).finish()
    }
}

impl Kept {
    /// Returns the names and empties the cache; `None` if they no longer match the graphs.
    pub(super) fn take(&mut self, graphs: &[Graph]) -> Option<Names> {
        let Kept { names, of } = std::mem::take(self);
        let good = !of.is_empty() && graphs.iter().map(|g| g.names).eq(of.iter().copied());
        good.then_some(names)
    }
    /// Stores the names of the graphs. Each graph gets a unique mark, which it loses when a name of
    /// its nodes changes.
    pub(super) fn put(&mut self, names: Names, graphs: &mut [Graph]) {
        static MARK: AtomicU64 = AtomicU64::new(1);
        graphs.iter_mut().for_each(|g| g.names = MARK.fetch_add(1, Ordering::Relaxed));
        *self = Kept { names, of: graphs.iter().map(|g| g.names).collect() };
    }
}

/// Hashes of the names in use, each with the number of nodes that have it, since several nodes may
/// share a name. Two names with the same hash count as one; the second gets a number appended.
#[derive(Default)]
pub(super) struct Names(NumberMap<u64, u32>);

impl Names {
    /// Gathers the names of all nodes.
    pub(super) fn of(graphs: &[Graph]) -> Names {
        let mut out = Names::default();
        out.0.reserve(graphs.iter().map(|g| g.live).sum());
        for n in graphs.iter().flat_map(|g| g.nodes.iter().flatten()) {
            out.add(&n.name);
        }
        out
    }
    /// Adds a name if it is free; returns false if it is taken.
    pub(super) fn insert(&mut self, name: &str) -> bool {
        let free = !self.0.contains_key(&hash(name));
        if free {
            self.add(name);
        }
        free
    }
    /// Counts one more node with this name.
    pub(super) fn add(&mut self, name: &str) {
        *self.0.entry(hash(name)).or_default() += 1;
    }
    /// Counts one node fewer with this name; the name is free when no node has it.
    pub(super) fn remove(&mut self, name: &str) {
        if let Entry::Occupied(mut e) = self.0.entry(hash(name)) {
            *e.get_mut() -= 1;
            if *e.get() == 0 {
                e.remove();
            }
        }
    }
}

/// The hash is the same on every machine and in every run, because files contain the names that it
/// decides.
fn hash(name: &str) -> u64 {
    let mut h = DefaultHasher::new();
    name.hash(&mut h);
    h.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_once_and_can_be_set_free() {
        let mut names = Names::default();
        assert!(names.insert("a") && names.insert("b") && !names.insert("a"));
        names.remove("a");
        assert!(names.insert("a") && !names.insert("b"));
    }

    #[test]
    fn names_are_kept_until_somebody_else_changes_them() {
        let mut kept = Kept::default();
        let mut graphs = [Graph::new("a"), Graph::new("b")];
        assert!(kept.take(&graphs).is_none());
        let put = |kept: &mut Kept, graphs: &mut [Graph]| {
            let mut names = Names::default();
            names.add("x");
            kept.put(names, graphs);
        };
        put(&mut kept, &mut graphs);
        assert!(kept.clone().take(&graphs).is_none());
        assert!(kept.take(&graphs).is_some_and(|mut names| !names.insert("x")));
        // The names have been taken out of the cache.
        assert!(kept.take(&graphs).is_none());
        put(&mut kept, &mut graphs);
        graphs[1].names = 0;
        assert!(kept.take(&graphs).is_none());
        put(&mut kept, &mut graphs);
        assert!(kept.take(&graphs[..1]).is_none());
        put(&mut kept, &mut graphs);
        graphs.swap(0, 1);
        assert!(kept.take(&graphs).is_none());
    }

    #[test]
    fn a_name_of_two_nodes_is_taken_until_both_are_gone() {
        let mut names = Names::default();
        names.add("a");
        names.add("a");
        names.remove("a");
        assert!(!names.insert("a"));
        names.remove("a");
        assert!(names.insert("a"));
    }
}
