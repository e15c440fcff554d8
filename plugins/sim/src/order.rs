//! The happens-before relation of a run: the order imposed by streams, events, notifies and
//! activations, whatever schedule was chosen.
//!
//! Each stream has a vector clock. A record stores the clock of its stream; a wait or an activation
//! joins it. The relation is kept for the race check and for models with UPDATE, because whether an
//! update came in time must not depend on luck.
use crate::schedule::RankState;
use crate::stream::Gid;

type Clock = Vec<u32>;

/// A moment on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Index of the stream, counted over all ranks.
    pub stream: u32,
    /// Value of the stream's clock.
    pub at: u32,
}

/// The vector clocks of a run.
pub struct Order {
    /// For each rank, the index of its first stream.
    first: Vec<usize>,
    clocks: Vec<Clock>,
    /// Clocks that a stream joins when it restarts.
    pending: Vec<Option<Clock>>,
    events: Vec<Vec<Option<Clock>>>,
    notifies: Vec<Vec<Option<Clock>>>,
}

fn join(a: &mut Clock, b: &Clock) {
    for (x, y) in a.iter_mut().zip(b) {
        *x = (*x).max(*y);
    }
}

impl Order {
    /// The state at launch: nothing has happened.
    pub fn new(ranks: &[RankState]) -> Order {
        let mut first = Vec::new();
        let mut n = 0;
        for r in ranks {
            first.push(n);
            n += r.streams.len();
        }
        Order {
            first,
            clocks: vec![vec![0; n]; n],
            pending: vec![None; n],
            events: ranks.iter().map(|r| vec![None; r.events.len()]).collect(),
            notifies: ranks.iter().map(|r| vec![None; r.notifies.len()]).collect(),
        }
    }
    fn stream(&self, g: Gid) -> usize {
        self.first[g.rank as usize] + g.stream as usize
    }
    /// Stream `g` records an event of its own rank, or a notify of rank `notify_of`.
    pub fn record(&mut self, g: Gid, id: u32, notify_of: Option<u32>) {
        let s = self.stream(g);
        let slot = match notify_of {
            None => self.events[g.rank as usize].get_mut(id as usize),
            Some(rank) => self.notifies[rank as usize].get_mut(id as usize),
        };
        if let Some(slot) = slot {
            slot.get_or_insert_default().clone_from(&self.clocks[s]);
        }
    }
    /// A wait of stream `g` consumes the record of an event or notify of its rank.
    pub fn wait(&mut self, g: Gid, id: u32, notify: bool) {
        let s = self.stream(g);
        let of = if notify { &mut self.notifies } else { &mut self.events };
        if let Some(clock) = &of[g.rank as usize][id as usize] {
            join(&mut self.clocks[s], clock);
        }
    }
    /// Stream `g` activates `to`: immediately, or (`later`) when `to` has finished.
    pub fn activate(&mut self, g: Gid, to: Gid, later: bool) {
        let (s, t) = (self.stream(g), self.stream(to));
        let clock = self.clocks[s].clone();
        if later {
            join(self.pending[t].get_or_insert_with(|| vec![0; clock.len()]), &clock);
        } else {
            join(&mut self.clocks[t], &clock);
        }
    }
    /// A stream restarts because of an activation that arrived while it ran.
    pub fn restarted(&mut self, g: Gid) {
        let s = self.stream(g);
        if let Some(clock) = self.pending[s].take() {
            join(&mut self.clocks[s], &clock);
        }
    }
    /// Advances a stream to its next moment.
    pub fn tick(&mut self, g: Gid) -> Stamp {
        let s = self.stream(g);
        self.clocks[s][s] += 1;
        Stamp { stream: s as u32, at: self.clocks[s][s] }
    }
    /// Whether `moment` happens before what stream `g` does now.
    pub fn before(&self, moment: Stamp, g: Gid) -> bool {
        self.clocks[self.stream(g)][moment.stream as usize] >= moment.at
    }
    /// Whether `moment` happens before `latest`, which is the latest moment of its stream.
    pub fn ordered(&self, moment: Stamp, latest: Stamp) -> bool {
        self.clocks[latest.stream as usize][moment.stream as usize] >= moment.at
    }
}
