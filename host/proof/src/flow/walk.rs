//! One path through the tasks, followed for all schedules at once, with a clock of what each stream
//! knows to be over.
use super::frame::{Frame, records_of, waits_of};
use crate::PlanFault;
use crate::stand::{ends_tiling, is_record, is_wait, join, takes_tiling};
use ge_model::{CompiledModel, SlotInfo};
use ge_plugin_api::task::TaskType;
use std::collections::HashMap;

/// How often each task may run on average between two jumps with several targets. This bounds plans
/// whose jumps form an endless loop.
const STEPS: u64 = 64;

/// A moment on a stream: the stream, and the number of tasks that it has finished.
pub(super) type Moment = (usize, u32);

/// The nodes that last touched the memory that begins at a given place.
#[derive(Clone, Default)]
pub(super) struct Touched {
    pub(super) wrote: Option<(u32, Moment)>,
    pub(super) read: Vec<(u32, Moment)>,
}

/// Where a walk has stopped.
pub(super) enum Stop {
    /// At a jump with several targets.
    Switch { queue: usize, task: usize },
    /// At END_GRAPH.
    End,
}

/// A path through the tasks, as far as it was followed.
#[derive(Clone)]
pub(super) struct Walk<'m> {
    pub(super) m: &'m CompiledModel,
    pub(super) f: &'m Frame,
    pub(super) clocks: Vec<Vec<u32>>,
    pub(super) done: Vec<u32>,
    pub(super) at: Vec<usize>,
    pub(super) awake: Vec<bool>,
    pub(super) recorded: HashMap<(bool, u32), Vec<u32>>,
    /// The last wait for each id: the task and its moment.
    pub(super) served: HashMap<(bool, u32), (usize, Moment)>,
    /// When each root node last ended; `None` if it has not run yet.
    pub(super) last: Vec<Option<Moment>>,
    /// Number of tasks that may still run; it bounds plans whose jumps form an endless loop.
    pub(super) left: u64,
    /// How often each node's own work that takes its tiling from a context has begun.
    pub(super) begun: HashMap<u32, u32>,
    /// Attached work of each node by stream: how often it has ended, and when it last ended.
    pub(super) beside: HashMap<(u32, usize), (u32, Moment)>,
    pub(super) touched: HashMap<(u8, u64), Touched>,
}

impl<'m> Walk<'m> {
    pub(super) fn new(m: &'m CompiledModel, f: &'m Frame) -> Walk<'m> {
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

    /// The task of the last wait for an id, if stream `q` does not know that it is over.
    fn open(&self, q: usize, key: &(bool, u32)) -> Option<usize> {
        self.served.get(key).filter(|(_, m)| !self.knows(q, *m)).map(|(task, _)| *task)
    }

    /// Runs to the next jump with several targets, or to the end.
    pub(super) fn advance(&mut self) -> Result<Stop, PlanFault> {
        self.left = STEPS * self.m.tasks.len() as u64;
        loop {
            let mut moved = false;
            for q in 0..self.at.len() {
                while self.awake[q] && self.at[q] < self.f.queues[q].len() {
                    let task = self.f.queues[q][self.at[q]];
                    match self.step(q, task)? {
                        Step::Waits => break,
                        Step::Over => {
                            moved = true;
                            self.awake[q] = self.at[q] < self.f.queues[q].len();
                        }
                        Step::Switch => return Ok(Stop::Switch { queue: q, task }),
                        Step::Ended => return self.ended().map(|()| Stop::End),
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
    /// Number of nodes in a state.
    pub(super) fn nodes(&self) -> usize {
        self.last.len()
    }
    /// Number of targets of a jump. A jump without a label counts one, which is rejected later.
    pub(super) fn ways(&self, task: usize) -> usize {
        self.m.tasks[task].numbers.len().max(1)
    }
    /// Follows one target of a jump.
    pub(super) fn take(&mut self, queue: usize, task: usize, way: usize) -> Result<(), PlanFault> {
        let m = self.m;
        self.jump(queue, task, m.tasks[task].numbers.get(way))
    }
    /// The fault of a plan that never ends.
    pub(super) fn endless(&self, task: usize) -> PlanFault {
        PlanFault::Endless { node: self.name(task) }
    }

    fn step(&mut self, q: usize, task: usize) -> Result<Step, PlanFault> {
        let t = &self.m.tasks[task];
        let kind = TaskType(t.kind);
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            return Err(PlanFault::Endless { node: self.name(task) });
        }
        let waits = waits_of(t);
        // Events recorded by another rank always arrive.
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
            TaskType::STREAM_LABEL_SWITCH_BY_INDEX => return Ok(Step::Switch),
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

    /// Whether an awake stream other than `own` still has work to do.
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

    /// Checks that everything a node needs is over.
    fn needed(&self, q: usize, node: u32, needs: &[u32]) -> Result<(), PlanFault> {
        match needs.iter().find(|p| self.last[**p as usize].is_some_and(|m| !self.knows(q, m))) {
            Some(p) => Err(PlanFault::Edge { from: self.node_name(*p), to: self.node_name(node) }),
            None => Ok(()),
        }
    }
    /// Checks that a kernel that takes its tiling from a context starts after the attached work of
    /// the same iteration, which writes that context.
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
    /// Checks at the start of a node's task that everything it needs and overwrites is over.
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
            // The latest reader of each stream stands for all earlier ones.
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
    Switch,
    Ended,
}

fn place(s: &SlotInfo) -> Option<(u8, u64)> {
    (s.space == SlotInfo::FEATURE && s.size > 0).then_some((s.memory, s.offset))
}
