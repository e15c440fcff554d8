//! `check_races`: checks every access of every task against the happens-before relation of streams,
//! events, notifies and activations.
//!
//! All memory of a run is one map of address intervals. Each interval has its last write and the
//! reads since then, so that ranges that share bytes are compared whatever allocation named them.
use crate::memory::Memory;
use crate::order::{Order, Stamp};
use crate::plan::Plan;
use crate::schedule::RankState;
use crate::stream::Gid;
use ge_plugin_api::device::AllocationKind;
use ge_plugin_api::kernel::Access;
use ge_plugin_api::{Diagnostic, ErrorKind, Result};
use std::collections::BTreeMap;

/// An access made by a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Made {
    stamp: Stamp,
    rank: u32,
    task: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    /// Feature-map or output memory that nothing has written in this run.
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
    map: BTreeMap<u64, Segment>,
}

impl Races {
    /// Starts the check for a launch; the arguments of the ranks are bound.
    pub fn new(ranks: &[RankState], memory: &Memory) -> Races {
        let mut races = Races { map: BTreeMap::new() };
        let regions = |known: bool| {
            ranks.iter().enumerate().flat_map(move |(i, r)| {
                let bases = r.bound.bases(i);
                r.plan.allocations.iter().zip(bases).filter_map(move |(a, b)| {
                    let fresh = matches!(a.kind, AllocationKind::FEATURE_MAP | AllocationKind::OUTPUT);
                    (fresh != known && a.bytes > 0).then_some((b.address, b.address + a.bytes))
                })
            })
        };
        // Regions that the host has written come last: an output that lies in an input's memory
        // counts as written by the host.
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
    /// Splits segments so that none extends across `start` or `end`.
    fn split(&mut self, start: u64, end: u64) {
        for at in [start, end] {
            if let Some((_, seg)) = self.map.range_mut(..at).next_back()
                && seg.end > at
            {
                let right = seg.clone();
                seg.end = at;
                self.map.insert(at, right);
            }
        }
    }
    /// Records all accesses of a task by its declared ranges, reads first.
    pub fn access(&mut self, ranks: &[RankState], order: &mut Order, g: Gid, task: u32) -> Result<()> {
        let rank = &ranks[g.rank as usize];
        let made = Made { stamp: order.tick(g), rank: g.rank, task };
        let ranges = crate::careful::ranges(rank, &rank.plan, task as usize);
        for (k, r) in ranges.iter().enumerate() {
            if r.bytes > 0 && r.access != Access::WRITE {
                self.read(ranks, order, made, (r.address, r.address + r.bytes), Some(k))?;
            }
        }
        for r in ranges.iter().filter(|r| r.bytes > 0 && r.access != Access::READ) {
            self.write(ranks, order, made, (r.address, r.address + r.bytes))?;
        }
        Ok(())
    }
    /// Handles END_GRAPH: from now on the host may read outputs and variables.
    pub fn end(&mut self, ranks: &[RankState], order: &mut Order, g: Gid, task: u32) -> Result<()> {
        let made = Made { stamp: order.tick(g), rank: g.rank, task };
        let rank = &ranks[g.rank as usize];
        for (a, b) in rank.plan.allocations.iter().zip(rank.bound.bases(g.rank as usize)) {
            if matches!(a.kind, AllocationKind::OUTPUT | AllocationKind::VARIABLES) && a.bytes > 0 {
                self.read(ranks, order, made, (b.address, b.address + a.bytes), None)?;
            }
        }
        Ok(())
    }
    /// Checks a read of a range. If `argument` is `None`, the range need not have been written.
    fn read(
        &mut self,
        ranks: &[RankState],
        order: &Order,
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
                Content::Task(w) if !order.ordered(w.stamp, made.stamp) => {
                    return Err(race(ranks, (*w, "writes"), (made, "reads"), (*s, seg.end)));
                }
                _ => {}
            }
        }
        for (_, seg) in self.map.range_mut(start..end) {
            match seg.reads.iter_mut().find(|r| r.stamp.stream == made.stamp.stream) {
                Some(r) => *r = made,
                None => seg.reads.push(made),
            }
        }
        Ok(())
    }
    fn write(&mut self, ranks: &[RankState], order: &Order, made: Made, (start, end): (u64, u64)) -> Result<()> {
        self.split(start, end);
        for (s, seg) in self.map.range(start..end) {
            if let Content::Task(w) = &seg.content
                && !order.ordered(w.stamp, made.stamp)
            {
                return Err(race(ranks, (*w, "writes"), (made, "writes"), (*s, seg.end)));
            }
            if let Some(r) = seg.reads.iter().find(|r| !order.ordered(r.stamp, made.stamp)) {
                return Err(race(ranks, (*r, "reads"), (made, "writes"), (*s, seg.end)));
            }
        }
        self.set(start, end, Content::Task(made));
        Ok(())
    }
}

/// Describes bytes by the allocation that contains them.
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
