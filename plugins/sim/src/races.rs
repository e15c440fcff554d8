//! `check_races`: every access of every task against happens-before of streams, events, notifies and activations.
//!
//! Each stream has a vector clock; a record keeps the clock of its stream, a wait and an activation join it. All memory of a
//! run is one map of intervals by address, each with its last write and the reads since, so that ranges that share bytes
//! meet whatever allocation they were named by.
use crate::memory::Memory;
use crate::plan::Plan;
use crate::schedule::RankState;
use crate::stream::Gid;
use ge_plugin_api::device::AllocationKind;
use ge_plugin_api::kernel::Access;
use ge_plugin_api::{Diagnostic, ErrorKind, Result};
use std::collections::BTreeMap;

type Clock = Vec<u32>;

/// An access that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Made {
    stream: u32,
    at: u32,
    rank: u32,
    task: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    /// Feature memory that nothing has written in this run.
    Nothing,
    /// Written by the host before the launch.
    Host,
    /// Written by a task.
    Task(Made),
}

#[derive(Clone, Debug)]
struct Segment {
    end: u64,
    content: Content,
    reads: Vec<Made>,
}

/// The state of the check for one run.
pub struct Races {
    /// First stream of each rank in the clocks.
    first: Vec<usize>,
    clocks: Vec<Clock>,
    /// Clocks that a stream joins when it starts anew.
    pending: Vec<Option<Clock>>,
    events: Vec<Vec<Option<Clock>>>,
    notifies: Vec<Vec<Option<Clock>>>,
    map: BTreeMap<u64, Segment>,
}

fn join(a: &mut Clock, b: &Clock) {
    for (x, y) in a.iter_mut().zip(b) {
        *x = (*x).max(*y);
    }
}

impl Races {
    /// For a launch of ranks whose arguments are bound.
    pub fn new(ranks: &[RankState], memory: &Memory) -> Races {
        let mut first = Vec::new();
        let mut n = 0;
        for r in ranks {
            first.push(n);
            n += r.streams.len();
        }
        let mut races = Races {
            first,
            clocks: vec![vec![0; n]; n],
            pending: vec![None; n],
            events: ranks.iter().map(|r| vec![None; r.events.len()]).collect(),
            notifies: ranks.iter().map(|r| vec![None; r.notifies.len()]).collect(),
            map: BTreeMap::new(),
        };
        let regions = |known: bool| {
            ranks.iter().enumerate().flat_map(move |(i, r)| {
                let bases = r.bound.bases(i);
                r.plan.allocations.iter().zip(bases).filter_map(move |(a, b)| {
                    let fresh = matches!(a.kind, AllocationKind::FEATURE_MAP | AllocationKind::OUTPUT);
                    (fresh != known && a.bytes > 0).then_some((b.address, b.address + a.bytes))
                })
            })
        };
        // Known ones last: where an output lies in an input's memory, its bytes were written by the host.
        for (start, end) in regions(false) {
            races.set(start, end, Content::Nothing);
            for (s, e) in memory.written_in(start, end) {
                races.set(s, e, Content::Host);
            }
        }
        for (start, end) in regions(true) {
            races.set(start, end, Content::Host);
        }
        races
    }
    fn set(&mut self, start: u64, end: u64, content: Content) {
        self.split(start, end);
        let old: Vec<u64> = self.map.range(start..end).map(|(s, _)| *s).collect();
        for s in old {
            self.map.remove(&s);
        }
        self.map.insert(start, Segment { end, content, reads: Vec::new() });
    }
    /// Makes segments begin at `start` and at `end` where one spans them.
    fn split(&mut self, start: u64, end: u64) {
        for at in [start, end] {
            if let Some((&s, seg)) = self.map.range_mut(..at).next_back() {
                if s < at && seg.end > at {
                    let right = seg.clone();
                    seg.end = at;
                    self.map.insert(at, right);
                }
            }
        }
    }
    fn stream(&self, g: Gid) -> usize {
        self.first[g.rank as usize] + g.stream as usize
    }

    /// A stream records an event, or a notify of a rank.
    pub fn record(&mut self, g: Gid, id: u32, notify_of: Option<u32>) {
        let s = self.stream(g);
        let clock = self.clocks[s].clone();
        let slot = match notify_of {
            None => self.events[g.rank as usize].get_mut(id as usize),
            Some(rank) => self.notifies[rank as usize].get_mut(id as usize),
        };
        if let Some(slot) = slot {
            *slot = Some(clock);
        }
    }
    /// A stream's wait takes the record of an event or of a notify of its rank.
    pub fn wait(&mut self, g: Gid, id: u32, notify: bool) {
        let s = self.stream(g);
        let of = if notify { &mut self.notifies } else { &mut self.events };
        if let Some(clock) = of[g.rank as usize][id as usize].take() {
            join(&mut self.clocks[s], &clock);
        }
    }
    /// A stream activates another, at once or when it is done.
    pub fn activate(&mut self, g: Gid, to: Gid, later: bool) {
        let (s, t) = (self.stream(g), self.stream(to));
        let clock = self.clocks[s].clone();
        if later {
            join(self.pending[t].get_or_insert_with(|| vec![0; clock.len()]), &clock);
        } else {
            join(&mut self.clocks[t], &clock);
        }
    }
    /// A stream starts anew by an activation kept from before.
    pub fn restarted(&mut self, g: Gid) {
        let s = self.stream(g);
        if let Some(clock) = self.pending[s].take() {
            join(&mut self.clocks[s], &clock);
        }
    }

    /// All accesses of a task by its declared ranges, reads first.
    pub fn access(&mut self, ranks: &[RankState], g: Gid, task: u32) -> Result<()> {
        let rank = &ranks[g.rank as usize];
        let made = self.make(g, task);
        let ranges = crate::careful::ranges(rank, &rank.plan, task as usize);
        for (k, r) in ranges.iter().enumerate() {
            if r.bytes > 0 && r.access != Access::WRITE {
                self.read(ranks, made, (r.address, r.address + r.bytes), Some(k))?;
            }
        }
        for r in ranges.iter().filter(|r| r.bytes > 0 && r.access != Access::READ) {
            self.write(ranks, made, (r.address, r.address + r.bytes))?;
        }
        Ok(())
    }
    /// END_GRAPH: the host may read outputs and variables from here on.
    pub fn end(&mut self, ranks: &[RankState], g: Gid, task: u32) -> Result<()> {
        let made = self.make(g, task);
        let rank = &ranks[g.rank as usize];
        for (a, b) in rank.plan.allocations.iter().zip(rank.bound.bases(g.rank as usize)) {
            if matches!(a.kind, AllocationKind::OUTPUT | AllocationKind::VARIABLES) && a.bytes > 0 {
                self.read(ranks, made, (b.address, b.address + a.bytes), None)?;
            }
        }
        Ok(())
    }
    fn make(&mut self, g: Gid, task: u32) -> Made {
        let s = self.stream(g);
        self.clocks[s][s] += 1;
        Made { stream: s as u32, at: self.clocks[s][s], rank: g.rank, task }
    }
    fn ordered(&self, before: &Made, after: &Made) -> bool {
        self.clocks[after.stream as usize][before.stream as usize] >= before.at
    }
    /// A read of a range; `argument` None: nothing need have been written there.
    fn read(
        &mut self,
        ranks: &[RankState],
        made: Made,
        (start, end): (u64, u64),
        argument: Option<usize>,
    ) -> Result<()> {
        self.split(start, end);
        for (s, seg) in self.map.range(start..end) {
            match &seg.content {
                Content::Nothing => {
                    if let Some(k) = argument {
                        return Err(unwritten(ranks, made, k, (*s, seg.end)));
                    }
                }
                Content::Task(w) if !self.ordered(w, &made) => {
                    return Err(race(ranks, (*w, "writes"), (made, "reads"), (*s, seg.end)));
                }
                _ => {}
            }
        }
        for (_, seg) in self.map.range_mut(start..end) {
            match seg.reads.iter_mut().find(|r| r.stream == made.stream) {
                Some(r) => *r = made,
                None => seg.reads.push(made),
            }
        }
        Ok(())
    }
    fn write(&mut self, ranks: &[RankState], made: Made, (start, end): (u64, u64)) -> Result<()> {
        self.split(start, end);
        for (s, seg) in self.map.range(start..end) {
            if let Content::Task(w) = &seg.content {
                if !self.ordered(w, &made) {
                    return Err(race(ranks, (*w, "writes"), (made, "writes"), (*s, seg.end)));
                }
            }
            if let Some(r) = seg.reads.iter().find(|r| !self.ordered(r, &made)) {
                return Err(race(ranks, (*r, "reads"), (made, "writes"), (*s, seg.end)));
            }
        }
        self.set(start, end, Content::Task(made));
        Ok(())
    }
}

/// Names bytes by the allocation that they lie in.
fn place(ranks: &[RankState], (start, end): (u64, u64)) -> String {
    for (i, r) in ranks.iter().enumerate() {
        for (a, b) in r.plan.allocations.iter().zip(r.bound.bases(i)) {
            if start >= b.address && end <= b.address + a.bytes {
                let of = match a.kind {
                    AllocationKind::INPUT | AllocationKind::OUTPUT => format!("{} {}", a.kind, a.index),
                    _ => format!("{} ({})", a.kind, a.memory),
                };
                let rank = if ranks.len() > 1 { format!(" of rank {i}") } else { String::new() };
                return format!("bytes {} to {} of {of}{rank}", start - b.address, end - b.address);
            }
        }
    }
    "bytes of memory of the run".to_owned()
}

fn who(ranks: &[RankState], m: Made) -> String {
    let plan: &Plan = &ranks[m.rank as usize].plan;
    let t = &plan.tasks[m.task as usize];
    let rank = if ranks.len() > 1 { format!(", rank {}", m.rank) } else { String::new() };
    format!("node `{}` (task {}, {} on stream {}{rank})", t.node, m.task, t.kind, t.stream)
}

#[cold]
fn race(ranks: &[RankState], a: (Made, &str), b: (Made, &str), range: (u64, u64)) -> ge_plugin_api::Error {
    let m =
        format!("{} {} and {} {} the same memory, and nothing orders them", who(ranks, a.0), a.1, who(ranks, b.0), b.1);
    let e = Diagnostic::error(m)
        .note(place(ranks, range))
        .help("a missing event, or memory reused too early")
        .of(ErrorKind::DEVICE);
    ranks[b.0.rank as usize].plan.blame(b.0.task, e)
}

#[cold]
fn unwritten(ranks: &[RankState], m: Made, argument: usize, range: (u64, u64)) -> ge_plugin_api::Error {
    let text = format!("{} reads memory as its argument {argument} that nothing has written", who(ranks, m));
    let e = Diagnostic::error(text).note(place(ranks, range)).of(ErrorKind::DEVICE);
    ranks[m.rank as usize].plan.blame(m.task, e)
}
