//! A point of the search for streams, and the numbers that move it.
use super::list::Setting;

/// A point of the search: with these the list schedule gave this cost.
#[derive(Clone)]
pub(crate) struct Point {
    /// Settings of the schedule.
    pub setting: Setting,
    /// Priorities.
    pub tail: Vec<u64>,
    /// Streams that nodes would rather stand on.
    pub leans: Vec<u32>,
    /// What it cost.
    pub cost: u64,
    /// With an eye on memory: who holds the most, as the search keeps it.
    pub peak: Vec<u32>,
}

/// A small generator (xorshift).
pub(crate) struct Random(pub u64);

impl Random {
    /// A number below `k`.
    pub fn below(&mut self, k: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % k.max(1)
    }
}
