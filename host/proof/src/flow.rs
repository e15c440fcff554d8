//! Control flow by labels, taken turn by turn, by code of its own: the tasks are run as queues
//! whose jumps go where a counter says (no turn of a loop, one, two; every branch), and in each of
//! these runs
//!
//! - nothing waits for ever, no event is recorded twice, and none is left for the next run to find;
//! - a stream is woken again only after all that it did is known to be over, and all is over before
//!   END_GRAPH;
//! - a node starts after those that it needs, as they last ran; what is written is written after
//!   all who last touched it.
//!
//! Cost: tasks run times streams, at most 8 times; a model without labels costs nothing.
use super::PlanFault;
use super::stand::{ends_tiling, is_record, is_wait, join, takes_tiling, value_inputs};
use ge_model::{CompiledModel, SlotInfo};
use ge_plugin_api::task::TaskType;
use std::collections::{HashMap, HashSet};

/// Runs that are tried.
const WALKS: usize = 8;
/// So often each task may run in one of them, on average: loops take a few turns each, those within
/// others as many in each of them.
const STEPS: u64 = 4096;

/// Proves the order of a model's control flow.
pub(crate) fn check(m: &CompiledModel) -> Result<(), PlanFault> {
    let jumps = |k: u32| matches!(TaskType(k), TaskType::STREAM_LABEL_GOTO | TaskType::STREAM_LABEL_SWITCH_BY_INDEX);
    if !m.tasks.iter().any(|t| jumps(t.kind)) {
        return Ok(());
    }
    let frame = Frame::of(m);
    (0..WALKS).try_for_each(|k| Walk::new(m, &frame).run(k))
}

/// What all walks read.
struct Frame {
    queues: Vec<Vec<usize>>,
    /// Stream and place of each label.
    labels: HashMap<i64, (usize, usize)>,
    /// For each node of the root those with tasks that it needs, through those without.
    needs: Vec<Vec<u32>>,
    /// For each node of the root those with tasks whose values its attached work reads.
    reads: Vec<Vec<u32>>,
    /// Nodes whose kernels are updated once their tiling is known.
    updated: HashSet<u32>,
    /// Nodes of the root that each task is of.
    of_task: Vec<Vec<u32>>,
    /// Events that tasks of the model wait for, and those that they record.
    waited: HashSet<(bool, u32)>,
    recorded: HashSet<(bool, u32)>,
}

impl Frame {
    fn of(m: &CompiledModel) -> Frame {
        let mut f = Frame {
            queues: vec![Vec::new(); m.streams.physical.len()],
            labels: HashMap::new(),
            needs: Vec::new(),
            reads: Vec::new(),
            updated: HashSet::new(),
            of_task: Vec::with_capacity(m.tasks.len()),
            waited: HashSet::new(),
            recorded: HashSet::new(),
        };
        let nodes = m.graphs.first().map_or(&[][..], |g| &g.nodes);
        let mut has_task = vec![false; nodes.len()];
        let several = m.tasks.iter().any(|t| !t.nodes.is_empty());
        let named = nodes.iter().enumerate().filter(|_| several);
        let by_name: HashMap<&str, u32> = named.map(|(i, n)| (n.name.as_str(), i as u32)).collect();
        for (i, t) in m.tasks.iter().enumerate() {
            let s = t.stream as usize;
            match TaskType(t.kind) {
                TaskType::LABEL_SET => {
                    f.labels.insert(t.numbers.first().copied().unwrap_or(-1), (s, f.queues[s].len()));
                }
                _ => {
                    f.waited.extend(waits_of(t));
                    f.recorded.extend(records_of(t));
                }
            }
            f.queues[s].push(i);
            let mut of: Vec<u32> = t.nodes.iter().filter_map(|n| by_name.get(n.as_str()).copied()).collect();
            if of.is_empty() {
                of.push(t.node);
            }
            of.retain(|n| t.graph == 0 && (*n as usize) < nodes.len());
            of.iter().for_each(|n| has_task[*n as usize] = true);
            if TaskType(t.kind) == TaskType::UPDATE {
                f.updated.extend(&of);
            }
            f.of_task.push(of);
        }
        // A pair of the plan is recorded here, or never.
        f.recorded.extend(m.events.iter().map(|e| (e.notify, e.id)));
        for n in nodes {
            let mut mine: Vec<u32> = Vec::new();
            for p in n.inputs.iter().flatten().map(|v| v.node).chain(n.controls.iter().copied()) {
                match has_task[p as usize] {
                    true => mine.push(p),
                    false => mine.extend_from_slice(&f.needs[p as usize]),
                }
            }
            mine.sort_unstable();
            mine.dedup();
            let values = value_inputs(n).into_iter().filter_map(|k| n.inputs.get(k).copied().flatten());
            let mut reads: Vec<u32> = Vec::new();
            for p in values.map(|v| v.node) {
                match has_task[p as usize] {
                    true => reads.push(p),
                    false => reads.extend_from_slice(&f.needs[p as usize]),
                }
            }
            f.needs.push(mine);
            f.reads.push(reads);
        }
        f
    }
}

/// A moment of a stream: how many tasks it had done.
type Moment = (usize, u32);

/// Who last touched the memory that begins at a place.
#[derive(Default)]
struct Touched {
    wrote: Option<(u32, Moment)>,
    read: Vec<(u32, Moment)>,
}

struct Walk<'m> {
    m: &'m CompiledModel,
    f: &'m Frame,
    clocks: Vec<Vec<u32>>,
    done: Vec<u32>,
    at: Vec<usize>,
    awake: Vec<bool>,
    recorded: HashMap<(bool, u32), Vec<u32>>,
    /// The last wait for each id, and who waited.
    served: HashMap<(bool, u32), (usize, Moment)>,
    arrivals: HashMap<usize, usize>,
    /// When each node of the root last ended, and whether it is running.
    last: Vec<Option<Moment>>,
    /// Tasks that may still run: a plan whose jumps lead round and round ends too.
    left: u64,
    /// How often each node's own work that takes its tiling from a context has begun.
    begun: HashMap<u32, u32>,
    /// Attached work of each node by stream: how often it ended, and when the last time.
    beside: HashMap<(u32, usize), (u32, Moment)>,
    touched: HashMap<(u8, u64), Touched>,
}

impl<'m> Walk<'m> {
    fn new(m: &'m CompiledModel, f: &'m Frame) -> Walk<'m> {
        let s = f.queues.len();
        Walk {
            m,
            f,
            clocks: vec![vec![0; s]; s],
            done: vec![0; s],
            at: vec![0; s],
            awake: m.streams.physical.iter().map(|p| p.head).collect(),
            recorded: HashMap::new(),
            served: HashMap::new(),
            arrivals: HashMap::new(),
            last: vec![None; f.needs.len()],
            left: STEPS * m.tasks.len() as u64,
            begun: HashMap::new(),
            beside: HashMap::new(),
            touched: HashMap::new(),
        }
    }
    fn name(&self, task: usize) -> String {
        let t = &self.m.tasks[task];
        self.m.node(t.graph, t.node).map_or_else(String::new, |n| n.name.clone())
    }
    fn node_name(&self, n: u32) -> String {
        self.m.graphs[0].nodes[n as usize].name.clone()
    }
    fn knows(&self, q: usize, m: Moment) -> bool {
        m.0 == q || self.clocks[q][m.0] >= m.1
    }

    /// The last wait for an id, where it is not known to be over.
    fn open(&self, q: usize, key: &(bool, u32)) -> Option<usize> {
        self.served.get(key).filter(|(_, m)| !self.knows(q, *m)).map(|(task, _)| *task)
    }

    fn run(mut self, turn: usize) -> Result<(), PlanFault> {
        loop {
            let mut moved = false;
            for q in 0..self.at.len() {
                while self.awake[q] && self.at[q] < self.f.queues[q].len() {
                    let task = self.f.queues[q][self.at[q]];
                    match self.step(q, task, turn)? {
                        Step::Waits => break,
                        Step::Over => {
                            moved = true;
                            self.awake[q] = self.at[q] < self.f.queues[q].len();
                        }
                        Step::Ended => return self.ended(),
                    }
                }
            }
            if !moved {
                let waits = |q: &usize| self.awake[*q] && self.at[*q] < self.f.queues[*q].len();
                let who = |q: usize| format!("stream {q} at `{}`", self.name(self.f.queues[q][self.at[q]]));
                return Err(PlanFault::Deadlock { waiting: (0..self.at.len()).filter(waits).map(who).collect() });
            }
        }
    }

    fn step(&mut self, q: usize, task: usize, turn: usize) -> Result<Step, PlanFault> {
        let t = &self.m.tasks[task];
        let kind = TaskType(t.kind);
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            return Err(PlanFault::Endless { node: self.name(task) });
        }
        let waits = waits_of(t);
        // What another rank records comes in any case.
        if waits.iter().any(|k| self.f.recorded.contains(k) && !self.recorded.contains_key(k)) {
            return Ok(Step::Waits);
        }
        for k in waits {
            let Some(clock) = self.recorded.remove(&k) else { continue };
            if let Some(first) = self.open(q, &k) {
                return Err(PlanFault::Taken { id: k.1, first: self.name(first), second: self.name(task) });
            }
            self.served.insert(k, (task, (q, self.done[q] + 1)));
            join(&mut self.clocks[q], &clock);
        }
        let f = self.f;
        let works = !is_wait(kind) && !is_record(kind);
        let own = |n: &&u32| self.m.graphs[0].nodes[**n as usize].stream == Some(t.stream);
        let (mine, aside): (Vec<&u32>, Vec<&u32>) = f.of_task[task].iter().filter(|_| works).partition(own);
        for n in &mine {
            self.begins(q, **n)?;
            self.tiled(q, task, **n)?;
        }
        for n in &aside {
            self.needed(q, **n, &f.reads[**n as usize])?;
        }
        self.done[q] += 1;
        self.clocks[q][q] = self.done[q];
        for n in mine {
            self.ends(q, *n);
        }
        for n in aside {
            let ended = self.beside.entry((*n, q)).or_insert((0, (q, 0)));
            *ended = (ended.0 + u32::from(ends_tiling(t, f.updated.contains(n))), (q, self.done[q]));
        }
        self.at[q] += 1;
        for k in records_of(t).into_iter().filter(|k| f.waited.contains(k)) {
            let open = self.open(q, &k).is_some();
            if self.recorded.insert(k, self.clocks[q].clone()).is_some() || open {
                return Err(PlanFault::Recorded { id: k.1, node: self.name(task) });
            }
        }
        match kind {
            TaskType::STREAM_ACTIVE | TaskType::STREAM_SWITCH => {
                let to = if kind == TaskType::STREAM_ACTIVE { t.numbers.first() } else { t.numbers.get(2) };
                let to = to.and_then(|s| usize::try_from(*s).ok()).filter(|s| *s < self.at.len());
                if let Some(w) = to {
                    if self.clocks[q][w] < self.done[w] || self.awake[w] {
                        return Err(PlanFault::Woken { stream: w, node: self.name(task) });
                    }
                    let clock = self.clocks[q].clone();
                    join(&mut self.clocks[w], &clock);
                    (self.at[w], self.awake[w]) = (0, !self.f.queues[w].is_empty());
                }
            }
            TaskType::STREAM_LABEL_GOTO => self.jump(q, task, t.numbers.first())?,
            TaskType::STREAM_LABEL_SWITCH_BY_INDEX => {
                let arrived = self.arrivals.entry(task).or_default();
                let k = (*arrived + turn) / 2 % t.numbers.len().max(1);
                *arrived += 1;
                self.jump(q, task, t.numbers.get(k))?;
            }
            TaskType::END_GRAPH => {
                return match (0..self.at.len()).find(|s| self.clocks[q][*s] < self.done[*s] || self.unfinished(q, *s)) {
                    Some(stream) => Err(PlanFault::End { stream }),
                    None => Ok(Step::Ended),
                };
            }
            _ => {}
        }
        Ok(Step::Over)
    }

    /// Whether a stream that is awake has work to do still.
    fn unfinished(&self, own: usize, s: usize) -> bool {
        let rest = self.f.queues[s].get(self.at[s]..).unwrap_or(&[]);
        s != own && self.awake[s] && rest.iter().any(|t| !is_record(TaskType(self.m.tasks[*t].kind)))
    }
    fn ended(&self) -> Result<(), PlanFault> {
        match self.recorded.keys().min() {
            Some((_, id)) => Err(PlanFault::Left { id: *id }),
            None => Ok(()),
        }
    }
    fn jump(&mut self, q: usize, task: usize, label: Option<&i64>) -> Result<(), PlanFault> {
        match label.and_then(|l| self.f.labels.get(l)) {
            Some((s, at)) if *s == q => {
                self.at[q] = *at;
                Ok(())
            }
            _ => Err(PlanFault::Place { node: self.name(task), what: "it jumps to a label of another stream".into() }),
        }
    }

    /// What a node needs is over.
    fn needed(&self, q: usize, node: u32, needs: &[u32]) -> Result<(), PlanFault> {
        match needs.iter().find(|p| self.last[**p as usize].is_some_and(|m| !self.knows(q, m))) {
            Some(p) => Err(PlanFault::Edge { from: self.node_name(*p), to: self.node_name(node) }),
            None => Ok(()),
        }
    }
    /// A kernel that takes its tiling from a context starts behind the attached work of this turn,
    /// which writes it.
    fn tiled(&mut self, q: usize, task: usize, node: u32) -> Result<(), PlanFault> {
        if !takes_tiling(&self.m.tasks[task]) {
            return Ok(());
        }
        let turn = self.begun.entry(node).or_default();
        *turn += 1;
        let turn = *turn;
        let of_it = self.m.graphs[0].nodes[node as usize].attached_streams.iter().map(|s| *s as usize);
        let over = |s: usize| self.beside.get(&(node, s)).is_some_and(|(n, m)| *n >= turn && self.knows(q, *m));
        if of_it.clone().all(over) {
            return Ok(());
        }
        let name = self.node_name(node);
        Err(PlanFault::Edge { from: format!("{name} (attached)"), to: name })
    }
    /// A node's task starts: those that it needs are over.
    fn begins(&mut self, q: usize, node: u32) -> Result<(), PlanFault> {
        self.needed(q, node, &self.f.needs[node as usize])?;
        let n = &self.m.graphs[0].nodes[node as usize];
        let fault = |w: &Self, first: u32, place: (u8, u64)| PlanFault::Overlap {
            first: w.node_name(first),
            second: w.node_name(node),
            memory: ge_plugin_api::device::MemoryKind(place.0).name().to_owned(),
            offset: place.1,
        };
        for place in n.slots.iter().filter_map(place) {
            let Some(t) = self.touched.get(&place) else { continue };
            if let Some((who, _)) = t.read.iter().chain(&t.wrote).find(|(_, m)| !self.knows(q, *m)) {
                return Err(fault(self, *who, place));
            }
        }
        for place in self.inputs(node) {
            if let Some((who, _)) = self.touched.get(&place).and_then(|t| t.wrote).filter(|w| !self.knows(q, w.1)) {
                return Err(fault(self, who, place));
            }
        }
        Ok(())
    }
    fn inputs(&self, node: u32) -> Vec<(u8, u64)> {
        let nodes = &self.m.graphs[0].nodes;
        let values = nodes[node as usize].inputs.iter().flatten();
        values.filter_map(|v| place(nodes[v.node as usize].slots.get(v.output as usize)?)).collect()
    }
    fn ends(&mut self, q: usize, node: u32) {
        let now = (q, self.done[q]);
        self.last[node as usize] = Some(now);
        for place in self.inputs(node) {
            let t = self.touched.entry(place).or_default();
            // The latest of each stream says all of it.
            t.read.retain(|(_, m)| m.0 != q);
            t.read.push((node, now));
        }
        for place in self.m.graphs[0].nodes[node as usize].slots.iter().filter_map(place) {
            self.touched.insert(place, Touched { wrote: Some((node, now)), read: Vec::new() });
        }
    }
}

enum Step {
    Waits,
    Over,
    Ended,
}

fn place(s: &SlotInfo) -> Option<(u8, u64)> {
    (s.space == SlotInfo::FEATURE && s.size > 0).then_some((s.memory, s.offset))
}
fn key(t: &ge_model::TaskInfo) -> (bool, u32) {
    (matches!(TaskType(t.kind), TaskType::NOTIFY_RECORD | TaskType::NOTIFY_WAIT), t.sync_id.unwrap_or(0))
}
/// What a task waits for before it begins: events by their addresses too.
fn waits_of(t: &ge_model::TaskInfo) -> Vec<(bool, u32)> {
    match TaskType(t.kind) {
        k if is_wait(k) => vec![key(t)],
        TaskType::SUPER_KERNEL => by_address(t),
        _ => Vec::new(),
    }
}
/// What a task records when it ends.
fn records_of(t: &ge_model::TaskInfo) -> Vec<(bool, u32)> {
    match TaskType(t.kind) {
        k if is_record(k) => vec![key(t)],
        TaskType::PREPROCESS_KERNEL => by_address(t),
        _ => Vec::new(),
    }
}
fn by_address(t: &ge_model::TaskInfo) -> Vec<(bool, u32)> {
    t.numbers.iter().filter_map(|e| u32::try_from(*e).ok()).map(|e| (false, e)).collect()
}
