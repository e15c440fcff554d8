//! Events and notifies during a run: flags that a wait consumes and resets, with the streams that
//! wait for them.

/// State of an event or notify.
#[derive(Clone, Debug, Default)]
pub struct Flag {
    /// Whether it is recorded and not yet consumed.
    pub set: bool,
    /// Simulated time of the record, in nanoseconds.
    pub time: u64,
    /// Streams of its rank that wait for it, in order of arrival.
    pub waiters: Vec<u32>,
}

impl Flag {
    /// Resets it to its state at launch.
    pub fn clear(&mut self) {
        self.set = false;
        self.time = 0;
        self.waiters.clear();
    }
    /// Records it and returns the waiting stream to wake, if any.
    pub fn record(&mut self, time: u64) -> Option<u32> {
        self.set = true;
        self.time = time;
        if self.waiters.is_empty() { None } else { Some(self.waiters.remove(0)) }
    }
    /// Waits on behalf of a stream: consumes the record and returns true, or queues the stream and
    /// returns false.
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
