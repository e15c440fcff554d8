//! Streams during a run: each is a queue of tasks with a current position, asleep until it is
//! launched or activated.

/// What a stream is currently doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has not been activated yet.
    Asleep,
    /// Its next task can start.
    Ready,
    /// Its next task waits for an event.
    Event(u32),
    /// Its next task waits for a notify.
    Notify(u32),
    /// Its current task runs on other threads.
    Running,
    /// It has passed its last task.
    Done,
}

/// State of a stream during a run.
#[derive(Clone, Copy, Debug)]
pub struct StreamState {
    /// What the stream is currently doing.
    pub state: State,
    /// Position of its next task.
    pub at: u32,
    /// Whether the task at `at` has started (for a wait: reached the head), so that its prefetching
    /// is done.
    pub started: bool,
    /// Number of events that the task at `at` has already waited for by their addresses.
    pub waited: u32,
    /// Whether it was activated again while it ran; it restarts when it is done.
    pub again: bool,
    /// Its simulated clock, in nanoseconds.
    pub time: u64,
}

impl StreamState {
    /// The state at launch.
    pub const ASLEEP: StreamState =
        StreamState { state: State::Asleep, at: 0, started: false, waited: 0, again: false, time: 0 };
}

/// Effect of an activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// The stream starts from its first task.
    Starts,
    /// The stream is running and will restart when it is done.
    Later,
    /// The stream is running and already due to restart.
    Twice,
}

impl StreamState {
    /// Activates the stream at simulated time `time`.
    pub fn activate(&mut self, time: u64) -> Activation {
        match self.state {
            State::Asleep | State::Done => {
                *self = StreamState { state: State::Ready, time: self.time.max(time), ..StreamState::ASLEEP };
                Activation::Starts
            }
            _ if self.again => Activation::Twice,
            _ => {
                self.again = true;
                Activation::Later
            }
        }
    }
}

/// Ready streams by priority (0 first), then in the order in which they became ready.
#[derive(Default)]
pub struct Ready {
    queues: [std::collections::VecDeque<Gid>; 8],
    full: u8,
    len: usize,
}

/// Identifies a stream of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gid {
    /// Index of the rank.
    pub rank: u32,
    /// Id of the stream in its rank.
    pub stream: u32,
}

impl Ready {
    /// Removes all streams.
    pub fn clear(&mut self) {
        self.queues.iter_mut().for_each(|q| q.clear());
        self.full = 0;
        self.len = 0;
    }
    /// Number of ready streams.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether no stream is ready.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Adds a stream after all others of its priority.
    pub fn push(&mut self, g: Gid, priority: u8) {
        self.queues[priority as usize].push_back(g);
        self.full |= 1 << priority;
        self.len += 1;
    }
    /// Takes the first stream.
    pub fn pop(&mut self) -> Option<Gid> {
        if self.len == 0 {
            return None;
        }
        let p = self.full.trailing_zeros() as usize;
        let g = self.queues[p].pop_front();
        self.len -= usize::from(g.is_some());
        if self.queues[p].is_empty() {
            self.full &= !(1 << p);
        }
        g
    }
    /// Takes the `k`-th stream, counted over all priorities.
    pub fn take(&mut self, mut k: usize) -> Option<Gid> {
        for (p, q) in self.queues.iter_mut().enumerate() {
            if k < q.len() {
                let g = q.remove(k);
                self.len -= usize::from(g.is_some());
                if q.is_empty() {
                    self.full &= !(1 << p);
                }
                return g;
            }
            k -= q.len();
        }
        None
    }
    /// All streams, in the order in which `take` counts them.
    pub fn iter(&self) -> impl Iterator<Item = Gid> + '_ {
        self.queues.iter().flat_map(|q| q.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn priorities_go_first_and_equals_in_turn() {
        let g = |stream| Gid { rank: 0, stream };
        let mut r = Ready::default();
        r.push(g(1), 3);
        r.push(g(2), 0);
        r.push(g(3), 3);
        r.push(g(4), 3);
        assert_eq!(r.iter().map(|g| g.stream).collect::<Vec<_>>(), [2, 1, 3, 4]);
        assert_eq!(r.take(1), Some(g(1)));
        assert_eq!([r.pop(), r.pop(), r.pop(), r.pop()], [Some(g(2)), Some(g(3)), Some(g(4)), None]);
    }
    #[test]
    fn an_activation_of_a_running_stream_is_kept_once() {
        let mut s = StreamState::ASLEEP;
        assert_eq!(s.activate(5), Activation::Starts);
        assert_eq!((s.state, s.time), (State::Ready, 5));
        assert_eq!(s.activate(9), Activation::Later);
        assert_eq!(s.activate(9), Activation::Twice);
    }
}
