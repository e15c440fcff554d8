//! Events and notifies while a model runs: flags that a wait takes and resets, with the streams
//! that wait for them.

/// An event or notify.
#[derive(Clone, Debug, Default)]
pub struct Flag {
    /// Whether it is recorded and not yet taken.
    pub set: bool,
    /// Simulated time of the record.
    pub time: u64,
    /// Streams (of its rank) whose wait stands at their head, in the order in which they came.
    pub waiters: Vec<u32>,
}

impl Flag {
    /// As at launch.
    pub fn clear(&mut self) {
        self.set = false;
        self.time = 0;
        self.waiters.clear();
    }
    /// Records it: the stream to wake, if one waits.
    pub fn record(&mut self, time: u64) -> Option<u32> {
        self.set = true;
        self.time = time;
        if self.waiters.is_empty() { None } else { Some(self.waiters.remove(0)) }
    }
    /// A wait of a stream: takes the record and resets the flag, or queues the stream.
    pub fn wait(&mut self, stream: u32) -> bool {
        if std::mem::take(&mut self.set) {
            return true;
        }
        self.waiters.push(stream);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn a_record_serves_one_wait() {
        let mut f = Flag::default();
        assert!(!f.wait(3));
        assert_eq!(f.record(10), Some(3));
        assert!(f.wait(3));
        assert!(!f.wait(4));
        assert!(!f.wait(5));
        assert_eq!((f.record(11), f.time), (Some(4), 11));
    }
}
