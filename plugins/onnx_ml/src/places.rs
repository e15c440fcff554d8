//! Look-up of numbers in a list of keys, by their bits.

/// Maps each key to its index in the list (the first of equal keys), and all other numbers to the
/// length of the list.
pub struct Places {
    /// For integers in a narrow range: the smallest key, and the index for each number from there
    /// on.
    least: u64,
    close: Vec<u32>,
    /// For other keys: a hash table of keys and indices with linear probing.
    slots: Vec<(u64, u32)>,
    missing: u32,
}

impl Places {
    /// Builds the look-up for a list of keys.
    pub fn of(keys: &[u64]) -> Places {
        let missing = keys.len() as u32;
        let least = keys.iter().map(|k| *k as i64).min().unwrap_or(0) as u64;
        let span = keys.iter().map(|k| k.wrapping_sub(least)).max().unwrap_or(0);
        let mut p = Places { least, close: Vec::new(), slots: Vec::new(), missing };
        let room = 4 * keys.len() as u64 + 64;
        if span < room {
            p.close = vec![missing; span as usize + 1];
            for (i, k) in keys.iter().enumerate().rev() {
                p.close[k.wrapping_sub(least) as usize] = i as u32;
            }
            return p;
        }
        p.slots = vec![(0, missing); (2 * keys.len()).next_power_of_two()];
        for (i, k) in keys.iter().enumerate() {
            let slot = p.slot(*k);
            if p.slots[slot].1 == missing {
                p.slots[slot] = (*k, i as u32);
            }
        }
        p
    }
    /// The slot that a key has, or would have.
    fn slot(&self, key: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        // At least half of the slots are free, so the loop ends.
        while self.slots[at].1 != self.missing && self.slots[at].0 != key {
            at = (at + 1) & mask;
        }
        at
    }
    /// The index of a key, or the number of keys if it is not in the list.
    pub fn get(&self, key: u64) -> usize {
        let place = match self.slots.is_empty() {
            true => usize::try_from(key.wrapping_sub(self.least)).ok().and_then(|at| self.close.get(at).copied()),
            false => Some(self.slots[self.slot(key)].1),
        };
        place.unwrap_or(self.missing) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::Places;

    #[test]
    fn keys_are_found_where_they_come_first() {
        let close: Vec<u64> = [5i64, -3, 7, 5, 100].iter().map(|k| *k as u64).collect();
        let wide: Vec<u64> = (0..300u64).map(|i| (i % 200).wrapping_mul(0x1234_5678_9abc_def1)).collect();
        for keys in [&close, &wide, &vec![]] {
            let places = Places::of(keys);
            for k in keys.iter().copied().chain([1, 2, u64::MAX, 1 << 63]) {
                let want = keys.iter().position(|x| *x == k).unwrap_or(keys.len());
                assert_eq!(places.get(k), want, "{k}");
            }
        }
    }
}
