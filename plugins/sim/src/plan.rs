//! A sealed model: tasks in the order of their streams. They are checked once, so that a run does
//! only the checks it must.
use crate::label;
use crate::launch::kernel::Kernel;
use crate::memory::reduce::{Reduction, width};
use ge_plugin_api::abi::ROption;
use ge_plugin_api::device::{Allocation, DeviceTask, ModelSpec, SocSpec};
use ge_plugin_api::kernel::Access;
use ge_plugin_api::task::{TILING_SINK_BLOCK_DIM, TaskType};
use ge_plugin_api::types::DType;
use ge_plugin_api::{Diagnostic, Error, ErrorKind, Result};
use std::ops::Range;

/// Greatest number of blocks of a launch: the limit of the hardware's field.
pub const MAX_BLOCKS: u32 = 65_535;
/// SQEs that an event wait takes: the wait and the reset (facts 1.2).
const WAIT_SQES: u32 = 2;

/// Comparison of a STREAM_SWITCH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterEqual,
    /// `<`
    Less,
    /// `<=`
    LessEqual,
}
impl Compare {
    /// The comparison with this number (facts 8.6).
    pub fn from_code(code: i64) -> Option<Compare> {
        use Compare::*;
        [Equal, NotEqual, Greater, GreaterEqual, Less, LessEqual].get(usize::try_from(code).ok()?).copied()
    }
    /// Whether the comparison holds for `a` and `b`.
    pub fn holds(self, a: i64, b: i64) -> bool {
        match self {
            Compare::Equal => a == b,
            Compare::NotEqual => a != b,
            Compare::Greater => a > b,
            Compare::GreaterEqual => a >= b,
            Compare::Less => a < b,
            Compare::LessEqual => a <= b,
        }
    }
}

/// The action of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Launches a kernel with a fixed number of blocks.
    Kernel,
    /// Launches a kernel whose block count and key are set by UPDATE; the number is the index of
    /// its latch.
    Updatable(u32),
    /// Records an event.
    Record(u32),
    /// Waits for an event, then resets it.
    Wait(u32),
    /// Resets an event.
    Reset(u32),
    /// Records a notify of a rank.
    NotifyRecord {
        /// Id of the notify.
        notify: u32,
        /// Rank that owns the notify.
        rank: u32,
    },
    /// Waits for a notify of this rank, then resets it.
    NotifyWait(u32),
    /// Activates a stream.
    Active(u32),
    /// Activates a stream if a comparison of two values holds.
    Switch {
        /// Comparison.
        compare: Compare,
        /// Size in bytes of each value.
        bytes: u8,
        /// Stream to activate.
        stream: u32,
    },
    /// The position of a label.
    Label,
    /// Jumps to a position on its stream.
    Goto(u32),
    /// Jumps to one of several consecutive positions in [`Plan::targets`], by an index read from
    /// memory.
    SwitchByIndex {
        /// Index of the first target.
        first: u32,
        /// Number of labels.
        count: u32,
    },
    /// Copies memory.
    Copy,
    /// Combines source and destination by a reduction.
    Reduce {
        /// Reduction.
        kind: Reduction,
        /// Element type.
        dtype: DType,
    },
    /// Sets block count and key of another task.
    Update(u32),
    /// Does nothing.
    Nop,
    /// Ends the model.
    End,
    /// Leaves the model: no further task starts.
    Exit,
}

/// A task of a sealed model.
pub struct Task {
    /// Its action.
    pub op: Op,
    /// Its task type, for messages.
    pub kind: TaskType,
    /// Id of its stream.
    pub stream: u32,
    /// Position on the stream.
    pub position: u32,
    /// Index of its kernel in [`Plan::kernels`].
    pub kernel: u32,
    /// Number of blocks.
    pub block_dim: u32,
    /// Tiling key.
    pub tiling_key: u64,
    /// Tiling data passed to the kernel.
    pub tiling: Vec<u8>,
    /// Range of its arguments in [`Plan::args`].
    pub args: Range<u32>,
    /// Name of its node.
    pub node: String,
    /// Operator type of its node.
    pub node_op: String,
    /// Name of its engine.
    pub engine: String,
    /// Run time in nanoseconds on the simulated clock.
    pub time_ns: u64,
    /// Total bytes of its arguments, as a measure of its work.
    pub work: u64,
    /// Events that the kernel itself uses by their addresses: it waits for them before it starts
    /// (SUPER_KERNEL) or records them when it has ended (PREPROCESS_KERNEL).
    pub events: Vec<u32>,
}
impl Task {
    /// Events that its kernel itself waits for.
    pub fn waits(&self) -> &[u32] {
        if self.kind == TaskType::SUPER_KERNEL { &self.events } else { &[] }
    }
    /// Events that its kernel itself records.
    pub fn records(&self) -> &[u32] {
        if self.kind == TaskType::PREPROCESS_KERNEL { &self.events } else { &[] }
    }
}

/// An argument of a task.
#[derive(Clone, Copy, Debug)]
pub struct Arg {
    /// Size in bytes.
    pub bytes: u64,
    /// How the task accesses it.
    pub access: Access,
    /// Whether it is an output of the task's node, according to the host.
    pub output: bool,
    /// Index of its allocation, or `u32::MAX` for a placeholder.
    pub allocation: u32,
    /// Rank whose model has the allocation.
    pub rank: u32,
}

/// The source of an argument's address.
#[derive(Clone, Copy, Debug)]
pub struct Relocation {
    /// Index of the argument in [`Plan::args`].
    pub argument: u32,
    /// Rank whose model has the allocation.
    pub rank: u32,
    /// Index of the allocation in that rank's model.
    pub allocation: u32,
    /// Byte offset in the allocation.
    pub offset: u64,
}

/// A stream of a sealed model.
pub struct Stream {
    /// Whether it starts at launch.
    pub head: bool,
    /// Priority; 0 goes first.
    pub priority: u8,
    /// Ids of its tasks, in order.
    pub tasks: Vec<u32>,
    /// Tasks on this stream that need an UPDATE, as (position, task id), by ascending position.
    pub updatable: Vec<(u32, u32)>,
}

/// A sealed model.
pub struct Plan {
    /// Name of the model.
    pub name: String,
    /// SoC that the model runs on.
    pub soc: SocSpec,
    /// Tasks, indexed by id.
    pub tasks: Vec<Task>,
    /// Streams, indexed by id.
    pub streams: Vec<Stream>,
    /// Registered kernels.
    pub kernels: Vec<Kernel>,
    /// Arguments of all tasks.
    pub args: Vec<Arg>,
    /// Addresses to resolve for each run.
    pub relocations: Vec<Relocation>,
    /// Memory that a run must provide.
    pub allocations: Vec<Allocation>,
    /// Targets of SWITCH_BY_INDEX jumps, as positions on their stream.
    pub targets: Vec<u32>,
    /// Number of events.
    pub events: u32,
    /// Number of notifies.
    pub notifies: u32,
    /// Number of tasks whose block count is set by UPDATE.
    pub updatable: u32,
    /// Whether it has an END_GRAPH or MODEL_EXIT.
    pub has_end: bool,
    /// Rank of this model in its group.
    pub rank: u32,
    /// Number of ranks in the group; 0 counts as 1.
    pub rank_size: u32,
    /// Key that identifies the group.
    pub group: u64,
}

impl Plan {
    /// Number of ranks that run together, at least 1.
    pub fn ranks(&self) -> usize {
        self.rank_size.max(1) as usize
    }
    /// Bytes that a copy or reduction moves: the smaller of its two ranges, rounded down to whole
    /// elements for a reduction.
    pub fn copy_bytes(&self, t: &Task) -> u64 {
        let a = t.args.start as usize;
        let n = self.args[a].bytes.min(self.args[a + 1].bytes);
        match t.op {
            Op::Reduce { dtype, .. } => n - n % width(dtype).unwrap_or(1),
            _ => n,
        }
    }
    /// Describes a task for messages.
    pub fn describe(&self, task: u32) -> String {
        let t = &self.tasks[task as usize];
        format!("task {task} ({}) of node `{}` on stream {}", t.kind, t.node, t.stream)
    }
    /// Adds node, task, stream and engine of a task to an error.
    pub fn blame(&self, task: u32, e: Error) -> Error {
        let t = &self.tasks[task as usize];
        let mut place = format!("task {task} ({}) on stream {}, engine {}", t.kind, t.stream, t.engine);
        if self.rank_size > 1 {
            place.push_str(&format!(", rank {}", self.rank));
        }
        e.at_node(&t.node, &t.node_op).with(|d| d.note(place))
    }
}

/// A model that tasks are being bound to.
pub struct Builder {
    spec: ModelSpec,
    kernels: Vec<Kernel>,
    tasks: Vec<DeviceTask>,
}

fn damaged(t: &DeviceTask, id: usize, message: String) -> Error {
    let what = format!("task {id} ({}) {message}", TaskType(t.kind));
    Diagnostic::error(what).node(t.node.as_str(), t.op.as_str()).of(ErrorKind::DAMAGED)
}

/// Maximum number of announced tasks that memory is reserved for.
const RESERVED: usize = 256;

impl Builder {
    /// Starts a model from its specification; checks its counts against the limits of the SoC.
    pub fn new(spec: ModelSpec) -> Result<Builder> {
        let soc = &spec.soc;
        let limit = |what: &str, n: usize, max: u32| {
            if n > max as usize {
                let m = format!("model `{}` has {n} {what}, {} has {max}", spec.name, soc.name);
                return Err(Error::new(ErrorKind::DEVICE, m));
            }
            Ok(())
        };
        let huge = spec.streams.iter().filter(|s| s.huge).count();
        limit("streams", spec.streams.len() - huge, soc.streams_normal)?;
        limit("huge streams", huge, soc.streams_huge)?;
        limit("events", spec.events as usize, soc.max_events)?;
        limit("notifies", spec.notifies as usize, soc.max_notifies)?;
        if spec.rank_size > 1 && spec.rank >= spec.rank_size {
            return Err(Error::usage(format!("rank {} of a group of {}", spec.rank, spec.rank_size)));
        }
        if spec.rank_size > 4096 {
            return Err(Error::usage(format!("a group of {} ranks is more than 4096", spec.rank_size)));
        }
        // The numbers are only announced: they reserve no more than a usual model needs.
        let announced = spec.streams.iter().map(|s| s.tasks as usize).fold(0, usize::saturating_add).min(RESERVED);
        Ok(Builder { spec, kernels: Vec::with_capacity(announced), tasks: Vec::with_capacity(announced) })
    }
    /// Registers a kernel and returns its id.
    pub fn register(&mut self, kernel: Kernel) -> Result<u32> {
        self.kernels.push(kernel);
        u32::try_from(self.kernels.len() - 1).map_err(|_| Error::damaged("too many kernels"))
    }
    /// Checks a task on its own, binds it and returns its id.
    pub fn bind(&mut self, task: DeviceTask) -> Result<u32> {
        let id = self.tasks.len();
        let bad = |m: String| Err(damaged(&task, id, m));
        if task.stream as usize >= self.spec.streams.len() {
            return bad(format!("is on stream {}, the model has {}", task.stream, self.spec.streams.len()));
        }
        let own = self.spec.rank;
        for (k, a) in task.args.iter().enumerate() {
            if a.allocation == u32::MAX && a.bytes == 0 {
                continue;
            }
            let elsewhere = a.rank != u32::MAX && a.rank != own;
            if elsewhere && a.rank >= self.spec.rank_size {
                return bad(format!("names rank {} in argument {k}, the group has {}", a.rank, self.spec.rank_size));
            }
            // The ranks of a group run the same model; joining the group checks that their
            // allocations are equal.
            let Some(all) = self.spec.allocations.get(a.allocation as usize) else {
                return bad(format!(
                    "names allocation {} in argument {k}, the model has {}",
                    a.allocation,
                    self.spec.allocations.len()
                ));
            };
            if a.offset.checked_add(a.bytes).is_none_or(|end| end > all.bytes) {
                return bad(format!(
                    "touches bytes {} to {} in argument {k}, the {} has {}",
                    a.offset,
                    a.offset.saturating_add(a.bytes),
                    all.kind,
                    all.bytes
                ));
            }
        }
        match &task.kernel {
            ROption::RSome(k) => {
                let Some(kernel) = self.kernels.get(*k as usize) else {
                    return bad(format!("names kernel {k}, the model has {}", self.kernels.len()));
                };
                if kernel.access().len() != task.args.len() {
                    return bad(format!(
                        "has {} arguments, its kernel says how it touches {}",
                        task.args.len(),
                        kernel.access().len()
                    ));
                }
                if task.block_dim != TILING_SINK_BLOCK_DIM && !(1..=MAX_BLOCKS).contains(&task.block_dim) {
                    return bad(format!("has {} blocks, a launch has 1 to {MAX_BLOCKS}", task.block_dim));
                }
            }
            ROption::RNone if !task.access.is_empty() && task.access.len() != task.args.len() => {
                return bad(format!("says how it touches {} of {} arguments", task.access.len(), task.args.len()));
            }
            ROption::RNone => {}
        }
        self.tasks.push(task);
        u32::try_from(id).map_err(|_| Error::damaged("too many tasks"))
    }

    /// Ends binding: checks ids, limits, labels and streams together and returns the plan.
    pub fn seal(self) -> Result<Plan> {
        let Builder { spec, kernels, tasks: bound } = self;
        let soc = spec.soc.clone();
        let mut streams: Vec<Stream> = Vec::new();
        for s in &spec.streams {
            let priority = s.priority.min(7) as u8;
            let tasks = Vec::with_capacity((s.tasks as usize).min(bound.len()));
            streams.push(Stream { head: s.head, priority, tasks, updatable: Vec::new() });
        }
        for (id, t) in bound.iter().enumerate() {
            streams[t.stream as usize].tasks.push(id as u32);
        }
        let labels = label::Labels::collect(&bound, &streams, spec.labels)?;
        let mut used = Used::new(&spec);
        let mut targets = Vec::new();
        let all = bound.iter().map(|t| t.args.len()).sum();
        let (mut args, mut relocations) = (Vec::with_capacity(all), Vec::with_capacity(all));
        let mut tasks = Vec::with_capacity(bound.len());
        let mut position = vec![0u32; streams.len()];
        let mut sqes = vec![0u64; streams.len()];
        let (mut updatable, mut has_end) = (0, false);
        for (id, t) in bound.iter().enumerate() {
            let op = resolve(id, t, &bound, &spec, &labels, &mut used, &mut targets)?;
            let op = if let (Op::Kernel, TILING_SINK_BLOCK_DIM) = (op, t.block_dim) {
                updatable += 1;
                streams[t.stream as usize].updatable.push((position[t.stream as usize], id as u32));
                Op::Updatable(updatable - 1)
            } else {
                op
            };
            has_end |= matches!(op, Op::End | Op::Exit);
            let events = by_address(id, t, op, &spec, &mut used)?;
            let first = args.len() as u32;
            let access: &[Access] = match &t.kernel {
                ROption::RSome(k) => kernels[*k as usize].access(),
                ROption::RNone => &t.access,
            };
            for (k, a) in t.args.iter().enumerate() {
                let access = access.get(k).copied().unwrap_or_else(|| default_access(op, k));
                let rank = if a.rank == u32::MAX { spec.rank } else { a.rank };
                if a.allocation != u32::MAX {
                    let argument = args.len() as u32;
                    relocations.push(Relocation { argument, rank, allocation: a.allocation, offset: a.offset });
                }
                let output = t.access.len() == t.args.len() && t.access[k] == Access::WRITE;
                args.push(Arg { bytes: a.bytes, access, output, allocation: a.allocation, rank });
            }
            let s = t.stream as usize;
            tasks.push(Task {
                op,
                kind: TaskType(t.kind),
                stream: t.stream,
                position: position[s],
                kernel: t.kernel.as_ref().into_option().copied().unwrap_or(0),
                block_dim: t.block_dim,
                tiling_key: t.tiling_key,
                tiling: Vec::new(),
                args: first..args.len() as u32,
                node: String::new(),
                node_op: String::new(),
                engine: String::new(),
                time_ns: t.time_ns,
                work: t.args.iter().map(|a| a.bytes).fold(0, u64::saturating_add),
                events,
            });
            position[s] += 1;
            sqes[s] += u64::from(if matches!(op, Op::Wait(_)) { WAIT_SQES } else { 1 });
        }
        used.check(&spec)?;
        for (task, of) in tasks.iter_mut().zip(bound) {
            task.tiling = of.tiling.into();
            (task.node, task.node_op, task.engine) = (of.node.into(), of.op.into(), of.engine.into());
        }
        for (i, (s, n)) in spec.streams.iter().zip(&sqes).enumerate() {
            if *n == 0 {
                let m = format!("stream {i} of model `{}` has no task: stream ids have a gap", spec.name);
                return Err(Error::damaged(m));
            }
            let max = if s.huge { soc.tasks_huge } else { soc.tasks_normal };
            if !soc.unlimited_depth && *n > u64::from(max) {
                let kind = if s.huge { "a huge" } else { "a normal" };
                let m = format!(
                    "stream {i} of model `{}` has {n} tasks, {kind} stream of {} holds {max}",
                    spec.name, soc.name
                );
                return Err(Error::new(ErrorKind::DEVICE, m));
            }
        }
        if !streams.is_empty() && streams.iter().all(|s| !s.head) {
            return Err(Error::damaged(format!("no stream of model `{}` starts at launch", spec.name)));
        }
        label::refuse_endless(&streams, &tasks, &targets)?;
        Ok(Plan {
            name: spec.name.to_string(),
            soc,
            tasks,
            streams,
            kernels,
            args,
            relocations,
            allocations: spec.allocations.to_vec(),
            targets,
            events: spec.events,
            notifies: spec.notifies,
            updatable,
            has_end,
            rank: if spec.rank_size > 1 { spec.rank } else { 0 },
            rank_size: spec.rank_size,
            group: spec.group,
        })
    }
}

/// How a task without a kernel accesses its arguments if it does not declare it.
fn default_access(op: Op, k: usize) -> Access {
    match (op, k) {
        (Op::Copy, 1) => Access::WRITE,
        (Op::Reduce { .. }, 1) => Access::READ_WRITE,
        _ => Access::READ,
    }
}

/// The events and notifies that tasks use; their ids must have no gaps.
struct Used {
    events: Vec<bool>,
    notifies: Vec<bool>,
}
impl Used {
    fn new(spec: &ModelSpec) -> Used {
        Used { events: vec![false; spec.events as usize], notifies: vec![false; spec.notifies as usize] }
    }
    fn check(&self, spec: &ModelSpec) -> Result<()> {
        for (what, used) in [("event", &self.events), ("notify", &self.notifies)] {
            if let Some(gap) = used.iter().position(|u| !u) {
                let m = format!(
                    "{what} {gap} of {} in model `{}` is named by no task: {what} ids have a gap",
                    used.len(),
                    spec.name
                );
                return Err(Error::damaged(m));
            }
        }
        Ok(())
    }
}

/// The events that a kernel uses by their addresses.
fn by_address(id: usize, t: &DeviceTask, op: Op, spec: &ModelSpec, used: &mut Used) -> Result<Vec<u32>> {
    let kind = TaskType(t.kind);
    if !matches!(op, Op::Kernel) || !matches!(kind, TaskType::SUPER_KERNEL | TaskType::PREPROCESS_KERNEL) {
        return Ok(Vec::new());
    }
    let event = |n: &i64| {
        let e = usize::try_from(*n).ok().filter(|e| *e < spec.events as usize);
        let e = e.ok_or_else(|| damaged(t, id, format!("names event {n}, the model has {}", spec.events)))?;
        used.events[e] = true;
        Ok(e as u32)
    };
    t.numbers.iter().map(event).collect()
}

fn resolve(
    id: usize,
    t: &DeviceTask,
    bound: &[DeviceTask],
    spec: &ModelSpec,
    labels: &label::Labels,
    used: &mut Used,
    targets: &mut Vec<u32>,
) -> Result<Op> {
    let bad = |m: String| Err(damaged(t, id, m));
    let number = |k: usize| t.numbers.get(k).copied().ok_or_else(|| damaged(t, id, format!("lacks number {k}")));
    let below = |what: &str, n: i64, max: usize| {
        u32::try_from(n)
            .ok()
            .filter(|n| (*n as usize) < max)
            .ok_or_else(|| damaged(t, id, format!("names {what} {n}, the model has {max}")))
    };
    let args = |n: usize| {
        if t.args.len() < n {
            Err(damaged(t, id, format!("has {} arguments, it needs {n}", t.args.len())))
        } else {
            Ok(())
        }
    };
    let mut event = |k: usize| -> Result<u32> {
        let e = below("event", number(k)?, spec.events as usize)?;
        used.events[e as usize] = true;
        Ok(e)
    };
    if t.kernel.is_some() {
        return Ok(Op::Kernel);
    }
    Ok(match TaskType(t.kind) {
        TaskType::EVENT_RECORD | TaskType::MEM_EVENT_RECORD => Op::Record(event(0)?),
        TaskType::EVENT_WAIT | TaskType::MEM_EVENT_WAIT => Op::Wait(event(0)?),
        TaskType::EVENT_RESET => Op::Reset(event(0)?),
        TaskType::NOTIFY_RECORD => {
            let notify = below("notify", number(0)?, spec.notifies as usize)?;
            used.notifies[notify as usize] = true;
            let rank = match t.numbers.get(1).copied().unwrap_or(-1) {
                -1 => spec.rank,
                r => below("rank", r, spec.rank_size.max(1) as usize)?,
            };
            Op::NotifyRecord { notify, rank: if spec.rank_size > 1 { rank } else { 0 } }
        }
        TaskType::NOTIFY_WAIT => {
            let notify = below("notify", number(0)?, spec.notifies as usize)?;
            used.notifies[notify as usize] = true;
            Op::NotifyWait(notify)
        }
        TaskType::STREAM_ACTIVE => {
            let stream = below("stream", number(0)?, spec.streams.len())?;
            if stream == t.stream {
                return bad("activates its own stream".into());
            }
            Op::Active(stream)
        }
        TaskType::STREAM_SWITCH => {
            args(2)?;
            let code = number(0)?;
            let Some(compare) = Compare::from_code(code) else {
                return bad(format!("compares by condition {code}, there are 0 to 5"));
            };
            let bytes = match number(1)? {
                0 => 4,
                1 => 8,
                d => return bad(format!("compares data type {d}, there are 0 (i32) and 1 (i64)")),
            };
            if t.args[..2].iter().any(|a| a.bytes < bytes) {
                return bad(format!("compares values of {bytes} bytes, its arguments have less"));
            }
            let stream = below("stream", number(2)?, spec.streams.len())?;
            if stream == t.stream {
                return bad("activates its own stream".into());
            }
            Op::Switch { compare, bytes: bytes as u8, stream }
        }
        TaskType::LABEL_SET => Op::Label,
        TaskType::STREAM_LABEL_GOTO => Op::Goto(labels.position(id, t, number(0)?)?),
        TaskType::STREAM_LABEL_SWITCH_BY_INDEX => {
            args(1)?;
            if t.args[0].bytes < 4 || t.numbers.is_empty() {
                return bad("needs an index of four bytes and at least one label".into());
            }
            let first = targets.len() as u32;
            for l in &t.numbers {
                targets.push(labels.position(id, t, *l)?);
            }
            Op::SwitchByIndex { first, count: t.numbers.len() as u32 }
        }
        TaskType::MEMCPY_ASYNC | TaskType::MEMCPY_ADDR_ASYNC => {
            args(2)?;
            Op::Copy
        }
        TaskType::REDUCE_ASYNC => {
            args(2)?;
            let (code, dtype) = (number(0)?, number(1)?);
            let Some(kind) = Reduction::from_code(code) else {
                return bad(format!("reduces by {code}, there are 0 (sum), 1 (max), 2 (min), 3 (prod)"));
            };
            let dtype = u8::try_from(dtype).map(DType).unwrap_or(DType::UNKNOWN);
            if width(dtype).is_none() {
                return bad(format!("cannot reduce elements of type {dtype}"));
            }
            let (a, b) = (&t.args[0], &t.args[1]);
            let apart = a.offset + a.bytes <= b.offset
                || b.offset + b.bytes <= a.offset
                || a.allocation != b.allocation
                || a.rank != b.rank;
            if !apart && a.offset != b.offset {
                return bad("reduces between ranges that overlap in part".into());
            }
            Op::Reduce { kind, dtype }
        }
        TaskType::UPDATE => {
            if !spec.soc.model_task_update {
                let m = format!("task {id} (UPDATE): {} cannot update tasks of a model", spec.soc.name);
                return Err(Diagnostic::error(m).node(t.node.as_str(), t.op.as_str()).of(ErrorKind::DEVICE));
            }
            args(2)?;
            if t.args[0].bytes < 8 || t.args[1].bytes < 4 {
                return bad("needs eight bytes of tiling key and four of block_dim".into());
            }
            let target = below("task", number(0)?, bound.len())?;
            let of = &bound[target as usize];
            if of.kernel.is_none() || of.block_dim != TILING_SINK_BLOCK_DIM {
                return bad(format!("updates task {target}, which is no kernel with placeholder blocks"));
            }
            let registered = of.kernel.as_ref().into_option().map(|k| i64::from(*k));
            match (of.kind == TaskType::FFTS_PLUS.code(), t.numbers.get(1)) {
                (false, None) => {}
                (true, Some(handle)) if registered == Some(*handle) => {}
                (false, Some(h)) => return bad(format!("has the FFTS+ handle {h} for task {target}, which is none")),
                (true, None) => return bad(format!("updates FFTS+ task {target} without its handle")),
                (true, Some(h)) => return bad(format!("has the handle {h} of another task than {target}")),
            }
            Op::Update(target)
        }
        TaskType::NOP
        | TaskType::PROFILER_TRACE
        | TaskType::PROFILER_TRACE_EX
        | TaskType::CMO
        | TaskType::CMO_ADDR
        | TaskType::BARRIER
        | TaskType::FUSION_START
        | TaskType::FUSION_END => Op::Nop,
        TaskType::END_GRAPH => Op::End,
        TaskType::MODEL_EXIT => Op::Exit,
        other => return bad(format!("has no kernel, and device `sim` has no other way to run {other}")),
    })
}
