//! Names in use, stored only as hashes.
use ge_plugin_api::types::NumberSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A set of names. If two names have the same hash, the second counts as taken.
#[derive(Default)]
pub struct NameSet(NumberSet<u64>);

impl NameSet {
    /// An empty set with room for `names` names.
    pub fn with_capacity(names: usize) -> NameSet {
        NameSet(NumberSet::with_capacity_and_hasher(names, Default::default()))
    }
    /// Adds a name; returns false if it is taken.
    pub fn insert(&mut self, name: &str) -> bool {
        // The hash must be the same in every run, because generated names are written to files.
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        self.0.insert(hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_once() {
        let mut names = NameSet::with_capacity(2);
        assert!(names.insert("a") && names.insert("b") && names.insert(""));
        assert!(!names.insert("a") && !names.insert("") && names.insert("ab"));
    }
}
