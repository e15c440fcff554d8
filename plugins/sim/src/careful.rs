//! The careful mode of a run, which executes one task at a time. Random schedules, the simulated
//! clock, injected faults and the race check use it.
use crate::clock;
use crate::faults::Fault;
use crate::launch::bound::Addresses;
use crate::launch::full;
use crate::launch::guarded::{Guarded, Range};
use crate::memory::Memory;
use crate::options::{Options, Schedule, Time};
use crate::order::Order;
use crate::plan::{Op, Plan};
use crate::races::Races;
use crate::schedule::RankState;
use crate::stream::{Gid, Ready};
use ge_plugin_api::device::TaskProfile;
use ge_plugin_api::kernel::Access;
use ge_plugin_api::task::TaskType;
use ge_plugin_api::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// State that a device keeps across its runs in careful mode.
#[derive(Default)]
pub struct Shared {
    /// Number of tasks started since the device was opened; faults refer to it.
    pub tasks: AtomicU64,
    /// Whether the device has been lost.
    pub lost: AtomicBool,
}

/// The decision whether a task may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The task may start.
    Go,
    /// Another stream must go first.
    Later,
}

/// The state of one careful run.
pub struct Careful {
    options: Options,
    shared: Arc<Shared>,
    random: u64,
    races: Option<Races>,
    begin: Instant,
    /// Number of the running task, and its start in simulated time.
    task: u64,
    start: u64,
    real_start: u64,
    /// A task that was already put off, if any.
    put_off: Option<(Gid, u32)>,
}

/// The next number of a pseudo-random sequence determined by its seed (splitmix64).
pub fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Careful {
    /// Starts a run over these ranks, whose arguments are bound.
    pub fn new(options: &Options, shared: &Arc<Shared>, ranks: &[RankState], memory: &Memory) -> Careful {
        let random = if let Schedule::Random(seed) = options.schedule { seed } else { 0 };
        let races = options.check_races.then(|| Races::new(ranks, memory));
        Careful {
            options: options.clone(),
            shared: shared.clone(),
            random,
            races,
            begin: Instant::now(),
            task: 0,
            start: 0,
            real_start: 0,
            put_off: None,
        }
    }
    /// Chooses which of the ready streams goes next, as an index into `ready`.
    pub fn choose(&mut self, ready: &Ready, ranks: &[RankState]) -> usize {
        match (self.options.schedule, self.options.time) {
            (Schedule::Random(_), _) => (next_random(&mut self.random) % ready.len().max(1) as u64) as usize,
            (_, Time::Model) => {
                let put_off = self.put_off.map(|p| p.0);
                let time = |g: Gid| {
                    if Some(g) == put_off { u64::MAX } else { ranks[g.rank as usize].streams[g.stream as usize].time }
                };
                ready.iter().enumerate().min_by_key(|(k, g)| (time(*g), *k)).map_or(0, |(k, _)| k)
            }
            _ => 0,
        }
    }
    /// Applies the faults that act at the start of a task. `alone` means that no other stream is
    /// ready.
    pub fn before(&mut self, ranks: &[RankState], g: Gid, id: u32, alone: bool) -> Result<Verdict> {
        let next = self.shared.tasks.load(Ordering::Relaxed);
        let rank = &ranks[g.rank as usize];
        if self.put_off == Some((g, id)) {
            if !alone {
                return Ok(Verdict::Later);
            }
            self.put_off = None;
        }
        let device = |m: String| Err(rank.plan.blame(id, Error::new(ErrorKind::DEVICE, m)));
        for f in &self.options.faults {
            match *f {
                Fault::Delay(n) if n == next && !alone && self.put_off.is_none() => {
                    self.put_off = Some((g, id));
                    return Ok(Verdict::Later);
                }
                Fault::Lose(n) if n == next => {
                    self.shared.lost.store(true, Ordering::Relaxed);
                    return device(format!("the device was lost at its task {n} (injected)"));
                }
                Fault::Fail(n) if n == next => {
                    self.shared.tasks.fetch_add(1, Ordering::Relaxed);
                    return device(format!("task {n} of the device failed (injected)"));
                }
                _ => {}
            }
        }
        self.task = next;
        self.start = rank.streams[g.stream as usize].time;
        self.real_start = self.begin.elapsed().as_nanos() as u64;
        Ok(Verdict::Go)
    }
    /// Updates clock and profile after a task, and applies bit flips.
    pub fn after(&mut self, ranks: &mut [RankState], order: Option<&mut Order>, g: Gid, id: u32) -> Result<()> {
        self.shared.tasks.fetch_add(1, Ordering::Relaxed);
        let rank = &mut ranks[g.rank as usize];
        let plan = rank.plan.clone();
        let task = &plan.tasks[id as usize];
        let s = &mut rank.streams[g.stream as usize];
        // A wait starts when its record is present; `time` has already moved to that moment.
        let start = if matches!(task.op, Op::Wait(_) | Op::NotifyWait(_)) { s.time } else { self.start };
        s.time = s.time.max(start).saturating_add(clock::cost(&plan.soc, task));
        let (start_ns, end_ns) = match self.options.time {
            Time::Model => (start, s.time),
            Time::Real => (self.real_start, self.begin.elapsed().as_nanos() as u64),
        };
        if matches!(task.op, Op::End | Op::Exit) {
            rank.end_time = s.time;
        }
        if let Some(p) = &mut rank.profile {
            p.push(TaskProfile { task: id, start_ns, end_ns });
        }
        for f in &self.options.faults {
            if let Fault::Flip(n, bit) = *f
                && n == self.task
            {
                flip(rank, &plan, id, bit);
            }
        }
        if let (Some(races), Some(order), Op::End) = (&mut self.races, order, task.op) {
            races.end(ranks, order, g, id)?;
        }
        Ok(())
    }
    /// Whether records of an event are lost or the event is dropped.
    pub fn loses(&self, event: u32) -> bool {
        self.options.faults.contains(&Fault::LoseRecord(event)) || self.drops(event)
    }
    /// Whether waits for an event pass immediately.
    pub fn drops(&self, event: u32) -> bool {
        self.options.faults.contains(&Fault::DropEvent(event))
    }
    /// Whether memory accesses are checked.
    pub fn checks(&self) -> bool {
        self.races.is_some()
    }
    /// Checks the values that a task itself reads (switches, updates).
    pub fn reads(&mut self, ranks: &[RankState], order: Option<&mut Order>, g: Gid, id: u32) -> Result<()> {
        match (&mut self.races, order) {
            (Some(r), Some(order)) => r.access(ranks, order, g, id),
            _ => Ok(()),
        }
    }
    /// Launches a kernel.
    pub fn kernel(
        &mut self,
        ranks: &[RankState],
        order: Option<&mut Order>,
        g: Gid,
        id: u32,
        dim: u32,
        key: u64,
    ) -> Result<()> {
        let rank = &ranks[g.rank as usize];
        let (plan, t) = (&rank.plan, id as usize);
        let kernel = &plan.kernels[plan.tasks[t].kernel as usize];
        self.reads(ranks, order, g, id)?;
        let mut order: Vec<u32> = (0..dim).collect();
        if let Schedule::Random(_) = self.options.schedule {
            for k in (1..order.len()).rev() {
                order.swap(k, (next_random(&mut self.random) % (k as u64 + 1)) as usize);
            }
        }
        let blame = |e| plan.blame(id, e);
        if self.races.is_none() {
            let call = rank.bound.call(t);
            return order.into_iter().try_for_each(|b| kernel.run(call, b, dim, key)).map_err(blame);
        }
        let ranges = ranges(rank, plan, t);
        // A tiling function reads and writes the context that the host has filled, so it must not
        // be overwritten by a pattern.
        if self.options.check_full && plan.tasks[t].kind != TaskType::PREPROCESS_KERNEL {
            let outputs: Vec<bool> = plan.tasks[t].args.clone().map(|a| plan.args[a as usize].output).collect();
            full::probe(kernel, rank.bound.call(t), &ranges, &outputs, dim, key).map_err(blame)?;
        }
        let guarded = Guarded::new(&ranges).map_err(blame)?;
        let addresses: Addresses = guarded.addresses();
        let (call, _live) = rank.bound.call_at(t, &addresses);
        order.into_iter().try_for_each(|b| kernel.run(&call, b, dim, key)).map_err(blame)?;
        guarded.finish().map_err(blame)
    }
    /// Runs a copy or reduction and returns the number of bytes moved.
    pub fn copy(&mut self, ranks: &[RankState], order: Option<&mut Order>, g: Gid, id: u32) -> Result<u64> {
        let rank = &ranks[g.rank as usize];
        self.reads(ranks, order, g, id)?;
        Ok(rank.bound.copy(&rank.plan, id as usize))
    }
    /// Finishes the run after the last task.
    pub fn end(&mut self, ranks: &mut [RankState]) -> Result<()> {
        for r in ranks.iter_mut() {
            if !r.plan.has_end {
                r.end_time = r.streams.iter().map(|s| s.time).max().unwrap_or(0);
            }
        }
        Ok(())
    }
    /// Whether the report uses simulated time.
    pub fn models_time(&self) -> bool {
        self.options.time == Time::Model
    }
}

/// Address ranges of a task's arguments in this run.
pub fn ranges(rank: &RankState, plan: &Plan, task: usize) -> Vec<Range> {
    let args = plan.tasks[task].args.clone();
    args.map(|a| {
        let arg = &plan.args[a as usize];
        Range { address: rank.bound.address(a), bytes: arg.bytes, access: arg.access }
    })
    .collect()
}

fn flip(rank: &RankState, plan: &Plan, id: u32, bit: u64) {
    let target = ranges(rank, plan, id as usize).into_iter().find(|r| r.access != Access::READ && r.bytes > 0);
    let Some(r) = target else { return };
    let bit = bit % (r.bytes * 8);
    rank.bound.flip(r.address + bit / 8, (bit % 8) as u32);
}
