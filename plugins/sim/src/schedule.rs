//! The scheduler: runs the streams of a model, or of all ranks of a group, to their end.
//!
//! One thread at a time drives it. A wait never blocks that thread; the stream is set aside until
//! its event is recorded. In the normal mode each stream runs until it must wait. In careful mode
//! (random schedule, simulated clock, race check, faults) one task is chosen at a time.
use crate::careful::{Careful, Verdict};
use crate::counters::RunCounters;
use crate::event::Flag;
use crate::launch::bound::Bound;
use crate::launch::crew::Seat;
use crate::launch::spin::Spin;
use crate::launch::team::End;
use crate::order::Order;
use crate::plan::{MAX_BLOCKS, Op, Plan, Task};
use crate::prefetch::{Latch, Patch, within};
use crate::stream::{Activation, Gid, Ready, State, StreamState};

use ge_plugin_api::device::TaskProfile;
use ge_plugin_api::task::TaskType;
use ge_plugin_api::{Diagnostic, Error, ErrorKind, Result, services};
use std::sync::Arc;
use std::time::Instant;

/// Number of tasks between two checks whether the user wants to stop.
const CANCEL_EVERY: u64 = 256;
/// A multi-block kernel with less work than this (bytes of its arguments) is not worth waking other
/// threads.
const TEAM_WORK: u64 = 16 << 10;
/// The same limit for a kernel with one block, which another thread runs while this one continues
/// with another stream.
const SOLO_WORK: u64 = 64 << 10;

/// State of one rank of a run; kept between runs.
pub struct RankState {
    /// The model that it runs.
    pub plan: Arc<Plan>,
    /// Addresses of the model's arguments.
    pub bound: Bound,
    /// State of its streams.
    pub streams: Vec<StreamState>,
    /// State of its events.
    pub events: Vec<Flag>,
    /// State of its notifies.
    pub notifies: Vec<Flag>,
    /// State of its updatable kernels.
    pub latches: Vec<Latch>,
    /// Counters of this run.
    pub counters: RunCounters,
    /// Whether END_GRAPH was reached.
    pub ended: bool,
    /// Profile of the tasks, if wanted.
    pub profile: Option<Vec<TaskProfile>>,
    /// Simulated time at which the run ended, in nanoseconds.
    pub end_time: u64,
}

impl RankState {
    /// Makes the state for runs of a plan.
    pub fn new(plan: Arc<Plan>) -> RankState {
        RankState {
            bound: Bound::new(&plan),
            streams: vec![StreamState::ASLEEP; plan.streams.len()],
            events: vec![Flag::default(); plan.events as usize],
            notifies: vec![Flag::default(); plan.notifies as usize],
            latches: vec![Latch::NEW; plan.updatable as usize],
            counters: RunCounters::default(),
            ended: false,
            profile: None,
            end_time: 0,
            plan,
        }
    }
    /// Resets it to its state at launch.
    pub fn reset(&mut self, profile: bool) {
        self.streams.fill(StreamState::ASLEEP);
        self.events.iter_mut().for_each(Flag::clear);
        self.notifies.iter_mut().for_each(Flag::clear);
        self.latches.fill(Latch::NEW);
        self.counters = RunCounters { runs: 1, ..RunCounters::default() };
        self.ended = false;
        self.end_time = 0;
        self.profile = profile.then(|| Vec::with_capacity(self.plan.tasks.len()));
    }
}

enum Flow {
    /// The task is done.
    Next,
    /// The stream waits, its task runs on other threads, or it is done.
    Leave,
}

/// A run of one model, or of all ranks of a group.
pub struct Machine<'a> {
    /// States of the ranks; one if there is no group.
    pub ranks: &'a mut [RankState],
    ready: Ready,
    careful: Option<&'a mut Careful>,
    order: Option<Order>,
    begin: Instant,
    max_tasks: u64,
    /// Number of tasks that may still be tried before the next look.
    until_look: u64,
    exit: bool,
    flying: Vec<Flying>,
    /// Threads that may help, if any.
    seat: Option<&'a Seat<'a>>,
    /// Whether the helpers were woken because a launch was worth it.
    called: bool,
}

struct Flying {
    slot: usize,
    g: Gid,
    task: u32,
    start: u64,
}

impl<'a> Machine<'a> {
    /// Starts a run of ranks whose arguments are bound. `careful` is set if the device's options
    /// ask for the careful mode; `seat` has the threads that may help.
    pub fn new(
        ranks: &'a mut [RankState],
        careful: Option<&'a mut Careful>,
        max_tasks: u64,
        seat: Option<&'a Seat<'a>>,
    ) -> Machine<'a> {
        let ordered = careful.as_ref().is_some_and(|c| c.checks()) || ranks.iter().any(|r| r.plan.updatable > 0);
        Machine {
            order: ordered.then(|| Order::new(ranks)),
            ranks,
            ready: Ready::default(),
            careful,
            begin: Instant::now(),
            max_tasks,
            until_look: CANCEL_EVERY.min(max_tasks),
            exit: false,
            flying: Vec::new(),
            seat,
            called: false,
        }
    }
    /// Launches the models: starts their head streams.
    pub fn launch(&mut self) {
        for r in 0..self.ranks.len() {
            for s in 0..self.ranks[r].streams.len() {
                if self.ranks[r].plan.streams[s].head {
                    self.start(Gid { rank: r as u32, stream: s as u32 }, 0);
                }
            }
        }
    }
    fn priority(&self, g: Gid) -> u8 {
        self.ranks[g.rank as usize].plan.streams[g.stream as usize].priority
    }
    fn make_ready(&mut self, g: Gid) {
        self.ranks[g.rank as usize].streams[g.stream as usize].state = State::Ready;
        let p = self.priority(g);
        self.ready.push(g, p);
    }
    /// Starts a stream that is asleep or done.
    fn start(&mut self, g: Gid, time: u64) -> Activation {
        let a = self.ranks[g.rank as usize].streams[g.stream as usize].activate(time);
        if a == Activation::Starts {
            self.look_ahead(g, 0);
            let p = self.priority(g);
            self.ready.push(g, p);
        }
        a
    }
    /// Latches the kernels that the stream prefetches when it arrives at a position.
    fn look_ahead(&mut self, g: Gid, at: u32) {
        let rank = &mut self.ranks[g.rank as usize];
        if rank.latches.is_empty() {
            return;
        }
        let reach = u64::from(rank.plan.soc.prefetch_num);
        latch(rank, self.order.as_ref(), g, u64::from(at), u64::from(at) + reach);
    }

    /// Runs until all streams are done.
    pub fn drive(&mut self) -> Result<()> {
        loop {
            if self.careful.is_some() {
                self.drive_careful()?;
                break;
            }
            while let Some(g) = self.ready.pop() {
                self.run_stream(g)?;
            }
            if self.flying.is_empty() {
                break;
            }
            self.land()?;
        }
        self.finish()
    }
    fn drive_careful(&mut self) -> Result<()> {
        while !self.ready.is_empty() {
            let Some(c) = self.careful.as_deref_mut() else { return Ok(()) };
            let k = c.choose(&self.ready, self.ranks);
            let Some(g) = self.ready.take(k) else { return Ok(()) };
            if let Flow::Next = self.step(g)? {
                let p = self.priority(g);
                // Put the stream at the end of its queue; this does not matter if the clock or
                // chance decides.
                self.ready.push(g, p);
            }
        }
        Ok(())
    }
    fn run_stream(&mut self, g: Gid) -> Result<()> {
        loop {
            match self.step(g)? {
                Flow::Next => {}
                Flow::Leave => return Ok(()),
            }
        }
    }

    /// Runs the task at the head of a ready stream.
    #[inline]
    fn step(&mut self, g: Gid) -> Result<Flow> {
        let rank = &mut self.ranks[g.rank as usize];
        let s = &mut rank.streams[g.stream as usize];
        let stream = &rank.plan.streams[g.stream as usize];
        let Some(&id) = stream.tasks.get(s.at as usize) else {
            return Ok(self.stream_done(g));
        };
        if self.exit {
            s.state = State::Done;
            return Ok(Flow::Leave);
        }
        if self.until_look == 0 {
            self.look(g, id)?;
        }
        self.until_look -= 1;
        let rank = &mut self.ranks[g.rank as usize];
        let s = &mut rank.streams[g.stream as usize];
        if !s.started {
            s.started = true;
            if !rank.latches.is_empty() {
                let ahead = u64::from(s.at) + u64::from(rank.plan.soc.prefetch_num);
                latch(rank, self.order.as_ref(), g, ahead, ahead + 1);
            }
        }
        if let Some(c) = self.careful.as_deref_mut() {
            match c.before(self.ranks, g, id, self.ready.is_empty())? {
                Verdict::Go => {}
                Verdict::Later => return Ok(Flow::Next),
            }
        }
        self.perform(g, id)
    }

    /// Before another task starts: whether the user wants to stop, and whether the run may go on. A
    /// task that waits is tried several times, so the tasks that were done are counted, not the
    /// tries.
    #[cold]
    fn look(&mut self, g: Gid, id: u32) -> Result<()> {
        if services::cancelled() {
            return Err(Error::cancelled());
        }
        let done = self.ranks.iter().map(|r| r.counters.tasks).sum::<u64>() + self.flying.len() as u64;
        self.until_look = CANCEL_EVERY.min(self.max_tasks.saturating_sub(done));
        if self.until_look == 0 { Err(self.endless(g, id)) } else { Ok(()) }
    }

    fn perform(&mut self, g: Gid, id: u32) -> Result<Flow> {
        let t = id as usize;
        let (r, s) = (g.rank as usize, g.stream as usize);
        let rank = &mut self.ranks[r];
        let op = rank.plan.tasks[t].op;
        if let (Some(c), true) =
            (self.careful.as_deref_mut(), matches!(op, Op::Switch { .. } | Op::SwitchByIndex { .. } | Op::Update(_)))
        {
            c.reads(self.ranks, self.order.as_mut(), g, id)?;
        }
        let rank = &mut self.ranks[r];
        let task = &rank.plan.tasks[t];
        let mut next = rank.streams[s].at + 1;
        let start =
            if rank.profile.is_some() && self.careful.is_none() { self.begin.elapsed().as_nanos() as u64 } else { 0 };
        match op {
            Op::Kernel => {
                let (dim, key) = (task.block_dim, task.tiling_key);
                if !task.events.is_empty() && !self.wait_by_address(g, id) {
                    return Ok(Flow::Leave);
                }
                match self.kernel(g, id, dim, key, start)? {
                    Flow::Next => {}
                    other => return Ok(other),
                }
            }
            Op::Updatable(u) => {
                let Patch { block_dim, tiling_key } = rank.latches[u as usize].read;
                if !(1..=MAX_BLOCKS).contains(&block_dim) {
                    return Err(self.not_updated(g, id, u));
                }
                match self.kernel(g, id, block_dim, tiling_key, start)? {
                    Flow::Next => self.ranks[r].latches[u as usize] = Latch::NEW,
                    Flow::Leave => {
                        self.ranks[r].latches[u as usize] = Latch::NEW;
                        return Ok(Flow::Leave);
                    }
                }
            }
            Op::Record(e) => {
                rank.counters.records += 1;
                if !self.careful.as_deref().is_some_and(|c| c.loses(e)) {
                    if let Some(o) = &mut self.order {
                        o.record(g, e, None);
                    }
                    let rank = &mut self.ranks[r];
                    let time = rank.streams[s].time.saturating_add(rank.plan.soc.event_record_ns);
                    if let Some(w) = rank.events[e as usize].record(time) {
                        self.make_ready(Gid { rank: g.rank, stream: w });
                    }
                }
            }
            Op::NotifyRecord { notify, rank: to } => {
                rank.counters.notifies += 1;
                if let Some(o) = &mut self.order {
                    o.record(g, notify, Some(to));
                }
                let time = self.ranks[r].streams[s].time.saturating_add(self.ranks[r].plan.soc.event_record_ns);
                let Some(f) = self.ranks[to as usize].notifies.get_mut(notify as usize) else {
                    let e = Error::new(ErrorKind::DEVICE, format!("rank {to} has no notify {notify}"));
                    return Err(self.blame(g, id, e));
                };
                if let Some(w) = f.record(time) {
                    self.make_ready(Gid { rank: to, stream: w });
                }
            }
            Op::Wait(e) => {
                let dropped = self.careful.as_deref().is_some_and(|c| c.drops(e));
                if !dropped {
                    if !rank.events[e as usize].wait(g.stream) {
                        rank.streams[s].state = State::Event(e);
                        return Ok(Flow::Leave);
                    }
                    let time = rank.events[e as usize].time;
                    rank.streams[s].time = rank.streams[s].time.max(time);
                    if let Some(o) = &mut self.order {
                        o.wait(g, e, false);
                    }
                }
                self.ranks[r].counters.waits += 1;
            }
            Op::NotifyWait(n) => {
                if !rank.notifies[n as usize].wait(g.stream) {
                    rank.streams[s].state = State::Notify(n);
                    return Ok(Flow::Leave);
                }
                let time = rank.notifies[n as usize].time;
                rank.streams[s].time = rank.streams[s].time.max(time);
                if let Some(o) = &mut self.order {
                    o.wait(g, n, true);
                }
            }
            Op::Reset(e) => rank.events[e as usize].set = false,
            Op::Active(to) => self.activate(g, id, to)?,
            Op::Switch { compare, bytes, stream: to } => {
                let n = usize::from(bytes);
                let (a, b) = (rank.bound.read(&rank.plan, t, 0, n), rank.bound.read(&rank.plan, t, 1, n));
                if compare.holds(a, b) {
                    self.activate(g, id, to)?;
                }
            }
            Op::Goto(to) => {
                rank.counters.jumps += 1;
                next = to;
                self.look_ahead(g, to);
            }
            Op::SwitchByIndex { first, count } => {
                rank.counters.jumps += 1;
                let wide = if rank.plan.args[task.args.start as usize].bytes >= 8 { 8 } else { 4 };
                let index = rank.bound.read(&rank.plan, t, 0, wide);
                let last = count - 1;
                let k = u32::try_from(index).map_or(last, |k| k.min(last));
                next = rank.plan.targets[(first + k) as usize];
                self.look_ahead(g, next);
            }
            Op::Copy | Op::Reduce { .. } => {
                let bytes = match self.careful.as_deref_mut() {
                    Some(c) => c.copy(self.ranks, self.order.as_mut(), g, id)?,
                    None => rank.bound.copy(&rank.plan, t),
                };
                let rank = &mut self.ranks[r];
                rank.counters.copies += 1;
                rank.counters.copy_bytes += bytes;
            }
            Op::Update(target) => self.update(g, id, target)?,
            Op::Label | Op::Nop => {}
            Op::End | Op::Exit => {
                rank.ended = true;
                self.exit |= op == Op::Exit && self.ranks.len() == 1;
            }
        }
        self.finished(g, id, start, next);
        if let Some(c) = self.careful.as_deref_mut() {
            c.after(self.ranks, self.order.as_mut(), g, id)?;
        }
        self.record_by_address(g, id);
        Ok(Flow::Next)
    }
    /// Consumes the records of the events that a kernel waits for by their addresses. Returns false
    /// if one has not been recorded yet.
    fn wait_by_address(&mut self, g: Gid, id: u32) -> bool {
        let rank = &mut self.ranks[g.rank as usize];
        let s = g.stream as usize;
        while let Some(&e) = rank.plan.tasks[id as usize].waits().get(rank.streams[s].waited as usize) {
            if !rank.events[e as usize].wait(g.stream) {
                rank.streams[s].state = State::Event(e);
                return false;
            }
            rank.counters.waits += 1;
            rank.streams[s].waited += 1;
            rank.streams[s].time = rank.streams[s].time.max(rank.events[e as usize].time);
            if let Some(o) = &mut self.order {
                o.wait(g, e, false);
            }
        }
        true
    }
    /// Records the events whose addresses a kernel got, now that it has ended.
    fn record_by_address(&mut self, g: Gid, id: u32) {
        if self.ranks[g.rank as usize].plan.tasks[id as usize].events.is_empty() {
            return;
        }
        let plan = self.ranks[g.rank as usize].plan.clone();
        for &e in plan.tasks[id as usize].records() {
            if self.careful.as_deref().is_some_and(|c| c.loses(e)) {
                continue;
            }
            if let Some(o) = &mut self.order {
                o.record(g, e, None);
            }
            let rank = &mut self.ranks[g.rank as usize];
            rank.counters.records += 1;
            let time = rank.streams[g.stream as usize].time;
            if let Some(w) = rank.events[e as usize].record(time) {
                self.make_ready(Gid { rank: g.rank, stream: w });
            }
        }
    }
    /// Records that a task is done and moves its stream on.
    #[inline]
    fn finished(&mut self, g: Gid, id: u32, start: u64, next: u32) {
        let rank = &mut self.ranks[g.rank as usize];
        rank.counters.tasks += 1;
        let s = &mut rank.streams[g.stream as usize];
        s.at = next;
        s.started = false;
        s.waited = 0;
        if self.careful.is_none()
            && let Some(p) = &mut rank.profile
        {
            p.push(TaskProfile { task: id, start_ns: start, end_ns: self.begin.elapsed().as_nanos() as u64 });
        }
    }
    fn stream_done(&mut self, g: Gid) -> Flow {
        let s = &mut self.ranks[g.rank as usize].streams[g.stream as usize];
        s.state = State::Done;
        if std::mem::take(&mut s.again) {
            let time = s.time;
            if let Some(o) = &mut self.order {
                o.restarted(g);
            }
            self.start(g, time);
        }
        Flow::Leave
    }

    fn kernel(&mut self, g: Gid, id: u32, dim: u32, key: u64, start: u64) -> Result<Flow> {
        let t = id as usize;
        if let Some(c) = self.careful.as_deref_mut() {
            c.kernel(self.ranks, self.order.as_mut(), g, id, dim, key)?;
        } else {
            let rank = &self.ranks[g.rank as usize];
            let kernel = &rank.plan.kernels[rank.plan.tasks[t].kernel as usize];
            let call = rank.bound.call(t);
            let alone =
                (dim == 1 && self.ready.is_empty() && self.flying.is_empty()) || !rank.plan.tasks[t].events.is_empty();
            let enough = if dim > 1 { TEAM_WORK } else { SOLO_WORK };
            let large = !alone && rank.plan.tasks[t].work >= enough && self.flying.is_empty();
            // Once the helpers are awake, they are also offered work that would not be worth waking
            // them.
            if let Some(seat) = self.seat
                && (large || (self.called && !alone))
                && let Some(slot) = seat.publish(kernel, call, dim, key)
            {
                if large {
                    seat.call();
                    self.called = true;
                }
                self.flying.push(Flying { slot, g, task: id, start });
                self.ranks[g.rank as usize].streams[g.stream as usize].state = State::Running;
                self.count_kernel(g, t, dim);
                return Ok(Flow::Leave);
            }
            for block in 0..dim {
                if let Err(e) = kernel.run(call, block, dim, key) {
                    return Err(self.blame(g, id, e));
                }
            }
        }
        self.count_kernel(g, t, dim);
        Ok(Flow::Next)
    }
    #[inline]
    fn count_kernel(&mut self, g: Gid, t: usize, dim: u32) {
        let rank = &mut self.ranks[g.rank as usize];
        rank.counters.kernels += 1;
        rank.counters.blocks += u64::from(dim);
        rank.counters.device_tiling += u64::from(rank.plan.tasks[t].kind == TaskType::PREPROCESS_KERNEL);
    }
    /// Helps until one pending launch is done, then moves its stream on.
    fn land(&mut self) -> Result<()> {
        let Some(team) = self.seat.map(Seat::team) else { return Ok(()) };
        let mut wait = Spin::default();
        loop {
            if let Some(k) = self.flying.iter().position(|f| team.done(f.slot)) {
                let f = self.flying.swap_remove(k);
                if let Err(e) = team.take(f.slot) {
                    return Err(self.blame(f.g, f.task, e));
                }
                let next = self.ranks[f.g.rank as usize].streams[f.g.stream as usize].at + 1;
                self.finished(f.g, f.task, f.start, next);
                self.make_ready(f.g);
                return Ok(());
            }
            if !team.help(End::Front) {
                wait.turn();
            }
        }
    }

    fn activate(&mut self, g: Gid, id: u32, stream: u32) -> Result<()> {
        let time = self.ranks[g.rank as usize].streams[g.stream as usize].time;
        self.ranks[g.rank as usize].counters.activations += 1;
        let to = Gid { rank: g.rank, stream };
        if let Some(o) = &mut self.order {
            let state = self.ranks[to.rank as usize].streams[to.stream as usize].state;
            o.activate(g, to, !matches!(state, State::Asleep | State::Done));
        }
        match self.start(to, time) {
            Activation::Starts | Activation::Later => Ok(()),
            Activation::Twice => {
                let m = format!("stream {stream} is activated again before it came to its last activation");
                Err(self.blame(g, id, Error::new(ErrorKind::DEVICE, m)))
            }
        }
    }
    fn update(&mut self, g: Gid, id: u32, target: u32) -> Result<()> {
        let rank = &mut self.ranks[g.rank as usize];
        rank.counters.updates += 1;
        let plan = &rank.plan;
        let key = rank.bound.read(plan, id as usize, 0, 8) as u64;
        let wide = if plan.args[plan.tasks[id as usize].args.start as usize + 1].bytes >= 8 { 8 } else { 4 };
        let blocks = rank.bound.read(plan, id as usize, 1, wide);
        let of = &plan.tasks[target as usize];
        let s = &rank.streams[of.stream as usize];
        let passed = s.at > of.position || s.state == State::Done || (s.at == of.position && s.state == State::Running);
        let blocks_ok = u32::try_from(blocks).ok().filter(|b| (1..=MAX_BLOCKS).contains(b));
        let error = match (passed, blocks_ok, of.op) {
            (true, ..) => format!("it updates {}, which has run already", plan.describe(target)),
            (_, None, _) => {
                format!("the tiling gives {blocks} blocks for node `{}`, a launch has 1 to {MAX_BLOCKS}", of.node)
            }
            (_, Some(block_dim), Op::Updatable(u)) => {
                let updated = self.order.as_mut().map(|o| o.tick(g));
                let latch = &mut rank.latches[u as usize];
                (latch.task, latch.updated) = (Patch { block_dim, tiling_key: key }, updated);
                return Ok(());
            }
            _ => "its target is no updatable kernel".to_owned(),
        };
        Err(self.blame(g, id, Error::new(ErrorKind::DEVICE, error)))
    }

    #[cold]
    fn not_updated(&self, g: Gid, id: u32, u: u32) -> Error {
        let rank = &self.ranks[g.rank as usize];
        let node = &rank.plan.tasks[id as usize].node;
        let mut d = Diagnostic::error(format!(
            "the kernel of node `{node}` starts with the placeholder of block_dim, 0xFFFFFFFF"
        ));
        d = if rank.latches[u as usize].task.is_placeholder() {
            d.note("no UPDATE of this task has run")
        } else {
            let n = rank.plan.soc.prefetch_num;
            d.note(format!(
                "its UPDATE ran after the stream had read the task ahead: {} reads {n} tasks ahead",
                rank.plan.soc.name
            ))
        };
        rank.plan.blame(id, d.of(ErrorKind::DEVICE))
    }
    #[cold]
    fn blame(&self, g: Gid, id: u32, e: Error) -> Error {
        self.ranks[g.rank as usize].plan.blame(id, e)
    }
    #[cold]
    fn endless(&self, g: Gid, id: u32) -> Error {
        let m = format!("the run did not end within {} tasks: a loop goes on for ever", self.max_tasks);
        self.blame(g, id, Error::new(ErrorKind::DEVICE, m))
    }

    /// Called when nothing is ready: the run is over or deadlocked.
    fn finish(&mut self) -> Result<()> {
        let over = self.ranks.iter().all(|r| {
            if r.plan.has_end {
                r.ended
            } else {
                r.streams.iter().all(|s| matches!(s.state, State::Done | State::Asleep))
            }
        });
        if !over {
            return Err(self.deadlock());
        }
        if let Some(c) = self.careful.as_deref_mut() {
            c.end(self.ranks)?;
        }
        Ok(())
    }
    #[cold]
    fn deadlock(&self) -> Error {
        let mut d = Diagnostic::error("deadlock: no task can start, and END_GRAPH was not reached");
        let many = self.ranks.len() > 1;
        for (r, rank) in self.ranks.iter().enumerate() {
            let plan = &rank.plan;
            let name = |s: usize| if many { format!("rank {r} stream {s}") } else { format!("stream {s}") };
            let state = |s: u32| {
                let st = &rank.streams[s as usize];
                match st.state {
                    State::Asleep => "was never activated".to_owned(),
                    State::Done => "is done".to_owned(),
                    _ => format!(
                        "stands at task {}",
                        plan.streams[s as usize].tasks.get(st.at as usize).map_or(0, |t| *t)
                    ),
                }
            };
            let who = |records: &dyn Fn(&Task) -> bool| {
                let all: Vec<String> = plan
                    .tasks
                    .iter()
                    .enumerate()
                    .filter(|(_, t)| records(t))
                    .take(3)
                    .map(|(i, t)| {
                        format!("node `{}` (task {i}, stream {}, which {})", t.node, t.stream, state(t.stream))
                    })
                    .collect();
                if all.is_empty() { "no task of this model".to_owned() } else { all.join(", ") }
            };
            for (s, st) in rank.streams.iter().enumerate() {
                let id = plan.streams[s].tasks.get(st.at as usize).copied().unwrap_or(0);
                let at = format!(
                    "{} waits at node `{}` (task {id})",
                    name(s),
                    plan.tasks.get(id as usize).map_or("", |t| t.node.as_str())
                );
                d = match st.state {
                    State::Event(e) => d.note(format!(
                        "{at} for event {e}; recorded by {}",
                        who(&|t| t.op == Op::Record(e) || t.records().contains(&e))
                    )),
                    State::Notify(n) => {
                        let own = |t: &Task| matches!(t.op, Op::NotifyRecord { notify, .. } if notify == n);
                        d.note(format!("{at} for notify {n}; recorded by {}", who(&own)))
                    }
                    State::Asleep => {
                        let has_end = plan.streams[s]
                            .tasks
                            .iter()
                            .any(|t| matches!(plan.tasks[*t as usize].op, Op::End | Op::Exit));
                        let wakes =
                            |t: &Task| matches!(t.op, Op::Active(x) | Op::Switch { stream: x, .. } if x as usize == s);
                        let end = if has_end { ", which has END_GRAPH," } else { "" };
                        d.note(format!("{}{end} was never activated; activated by {}", name(s), who(&wakes)))
                    }
                    _ => d,
                };
            }
        }
        d.of(ErrorKind::DEVICE)
    }
}

fn latch(rank: &mut RankState, order: Option<&Order>, g: Gid, from: u64, to: u64) {
    let Some(order) = order else { return };
    for &(_, id) in within(&rank.plan.streams[g.stream as usize].updatable, from, to) {
        if let Op::Updatable(u) = rank.plan.tasks[id as usize].op {
            rank.latches[u as usize].latch(order, g);
        }
    }
}
