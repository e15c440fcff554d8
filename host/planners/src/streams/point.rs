//! A point of the search for streams, and the random numbers that move it.
use super::list::Setting;

/// A point of the search: the inputs of the list schedule and the resulting cost.
#[derive(Clone)]
pub(crate) struct Point {
    /// Settings of the list schedule.
    pub setting: Setting,
    /// Priorities of the nodes.
    pub tail: Vec<u64>,
    /// Streams that the nodes prefer.
    pub leans: Vec<u32>,
    /// The cost of the resulting plan.
    pub cost: u64,
    /// If memory counts: the tensors that are live at the peak, in the form that the search keeps.
    pub peak: Vec<u32>,
}

/// A small pseudo-random generator (xorshift).
pub(crate) struct Random(pub u64);

impl Random {
    /// A number in 0..`k`.
    pub fn below(&mut self, k: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % k.max(1)
    }
}
