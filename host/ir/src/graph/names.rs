//! The names of a model's nodes, as a patch asks for them: whether one is taken.
use super::Graph;
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};

/// Hashes of the names that are taken. Two names of one hash count as one: the second gets a number
/// at its end.
#[derive(Default)]
pub(super) struct Names(HashSet<u64, BuildHasherDefault<AsItIs>>);

impl Names {
    /// The names of all nodes.
    pub(super) fn of(graphs: &[Graph]) -> Names {
        let mut out = Names::default();
        out.0.reserve(graphs.iter().map(|g| g.live).sum());
        for n in graphs.iter().flat_map(|g| g.nodes.iter().flatten()) {
            out.insert(&n.name);
        }
        out
    }
    /// Takes a name; false if it is taken.
    pub(super) fn insert(&mut self, name: &str) -> bool {
        self.0.insert(hash(name))
    }
    /// Sets a name free.
    pub(super) fn remove(&mut self, name: &str) {
        self.0.remove(&hash(name));
    }
}

/// The same on every machine and in every run: names that it decides stand in files.
fn hash(name: &str) -> u64 {
    let mut h = DefaultHasher::new();
    name.hash(&mut h);
    h.finish()
}

/// A hash is its own hash.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*b);
        }
    }
    fn write_u64(&mut self, v: u64) {
        self.0 = v;
    }
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
}
