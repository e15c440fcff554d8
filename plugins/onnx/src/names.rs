//! Names that are taken, by their hashes: names themselves are not kept.
use ge_plugin_api::types::NumberSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A set of names. Two names of one hash count as one: the second is taken, though nobody has it.
#[derive(Default)]
pub struct NameSet(NumberSet<u64>);

impl NameSet {
    /// An empty set with room for so many names.
    pub fn with_capacity(names: usize) -> NameSet {
        NameSet(NumberSet::with_capacity_and_hasher(names, Default::default()))
    }
    /// Takes a name; false if it is taken.
    pub fn insert(&mut self, name: &str) -> bool {
        // The same in every run: names that it decides stand in files.
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
