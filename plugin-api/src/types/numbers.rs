//! Maps and sets keyed by keys, nodes and values. The program assigns these numbers itself, so
//! nobody can choose them to collide, and a multiplication is enough of a hash.
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// A map keyed by numbers that the program assigns: [`Key`](super::Key), [`NodeId`](super::NodeId),
/// [`ValueRef`](super::ValueRef).
pub type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;
/// A set of numbers that the program assigns.
pub type NumberSet<K> = HashSet<K, BuildHasherDefault<NumberHasher>>;

/// Hasher for one or several small numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(u64::from(*b)));
    }
    fn write_u8(&mut self, n: u8) {
        self.write_u64(u64::from(n));
    }
    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }
    fn write_u64(&mut self, n: u64) {
        // 2^64 divided by the golden ratio: it spreads neighbouring numbers far apart.
        self.0 = (self.0.rotate_left(26) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{NodeId, ValueRef};
    use super::*;
    use std::hash::{BuildHasher, Hash};

    fn hash(v: impl Hash) -> u64 {
        BuildHasherDefault::<NumberHasher>::default().hash_one(v)
    }

    #[test]
    fn values_of_a_graph_lie_apart() {
        // 2^16 hashes into as many slots: random hashes fill 63 % of them, a bad hash fills few.
        for shift in [0, 48] {
            let of = |v: u64| (v >> shift) as u16;
            let nodes: HashSet<u16> = (0..1 << 16).map(|n| of(hash(NodeId(n)))).collect();
            let values: HashSet<u16> = (0..1 << 16).map(|n| of(hash(ValueRef::new(NodeId(n / 4), n % 4)))).collect();
            let pairs: HashSet<u16> = (0..1usize << 16).map(|n| of(hash((n % 8, NodeId((n / 8) as u32))))).collect();
            for places in [nodes.len(), values.len(), pairs.len()] {
                assert!(places > 30_000, "{places} of 65536 places, bits from {shift}");
            }
        }
    }

    #[test]
    fn a_map_finds_what_it_was_given() {
        let map: NumberMap<ValueRef, u32> = (0..5000).map(|n| (ValueRef::new(NodeId(n / 3), n % 3), n)).collect();
        assert!((0..5000).all(|n| map.get(&ValueRef::new(NodeId(n / 3), n % 3)) == Some(&n)));
        assert!(!map.contains_key(&ValueRef::new(NodeId(9), 3)));
    }
}
