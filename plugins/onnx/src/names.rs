//! Names that are taken, by their hashes: names themselves are not kept.
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};

/// A set of names. Two names of one hash count as one: the second is taken, though nobody has it.
#[derive(Default)]
pub struct NameSet(HashSet<u64, BuildHasherDefault<AsItIs>>);

impl NameSet {
    /// An empty set with room for so many names.
    pub fn with_capacity(names: usize) -> NameSet {
        NameSet(HashSet::with_capacity_and_hasher(names, BuildHasherDefault::default()))
    }
    /// Takes a name; false if it is taken.
    pub fn insert(&mut self, name: &str) -> bool {
        // The same in every run: names that it decides stand in files.
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        self.0.insert(hasher.finish())
    }
}

/// A hash is its own hash.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.0 = self.0.rotate_left(8) ^ u64::from(*b));
    }
    fn write_u64(&mut self, v: u64) {
        self.0 = v;
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
