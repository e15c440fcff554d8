//! The last look at a compiled model, by code that shares nothing with the planners: records and waits are paired, and what streams
//! and pairs are then known to order must honour every edge and every reuse of memory.
//!
//! - **Streams and events**: no deadlock; a record is waited for once; every data and control edge follows from stream order and
//!   events, nodes without a task bridged; END_GRAPH passes no unfinished work. The pairs are those of one way through the queues.
//!   Where an id serves several pairs, the wait of each is known to be over before the next record and before the next wait: so
//!   no schedule has other pairs, what holds here holds in all of them, and where this way ends every way does.
//! - **Memory** (ReuseChecker, facts 2.6 h): a range is written anew only after every use of what lay there, in the order in which
//!   tasks are known to run; what shares memory on purpose (views, in place, no-task concat) counts as one, and what is written in place
//!   of an input is looked at in `over_checker`.
//!
//! Cost: tasks times streams, and a search in an interval map for each block.
use ge_model::{CompiledModel, NodeInfo, SlotInfo};
use ge_plugin_api::task::{TILING_SINK_BLOCK_DIM, TaskType};
use ge_plugin_api::types::AttrValue;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// Why a plan does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanFault {
    /// Nothing can go on before the end.
    #[error("the streams wait for each other: {}", waiting.join("; "))]
    Deadlock {
        /// Who waits for what.
        waiting: Vec<String>,
    },
    /// An id is recorded while its last record is not waited for yet.
    #[error("event {id} is recorded again by `{node}` before it was waited for")]
    Recorded {
        /// Id.
        id: u32,
        /// Recorder.
        node: String,
    },
    /// Two waits for one id of which either may take a record.
    #[error("`{first}` and `{second}` may wait for event {id} at the same time, either takes the record")]
    Taken {
        /// Id.
        id: u32,
        /// Who should take it first.
        first: String,
        /// Who may take it instead.
        second: String,
    },
    /// An edge that nothing guarantees.
    #[error("`{to}` may start before `{from}` has ended")]
    Edge {
        /// Producer.
        from: String,
        /// Consumer.
        to: String,
    },
    /// END_GRAPH passes unfinished work.
    #[error("the model may end before stream {stream} has finished")]
    End {
        /// Stream.
        stream: usize,
    },
    /// Two blocks that may live at the same time share addresses.
    #[error("`{second}` may write over the memory of `{first}` at {memory} offset {offset} while it is still in use")]
    Overlap {
        /// Who holds the memory.
        first: String,
        /// Who writes over it.
        second: String,
        /// Memory kind.
        memory: String,
        /// First shared byte.
        offset: u64,
    },
    /// A stream that is woken while it may still be at work.
    #[error("`{node}` wakes stream {stream}, which may still be at work from the time before")]
    Woken {
        /// The stream.
        stream: usize,
        /// Who wakes it.
        node: String,
    },
    /// Jumps that lead round and round.
    #[error("the control flow around `{node}` does not end")]
    Endless {
        /// A node in it.
        node: String,
    },
    /// A record that nobody waits for in the run in which it is made.
    #[error("event {id} may be left recorded when the model ends, for the next run to find")]
    Left {
        /// Id.
        id: u32,
    },
    /// More than the SoC has.
    #[error("{found} {what}, the SoC has {most}")]
    Limit {
        /// Of what.
        what: String,
        /// How many there are.
        found: usize,
        /// How many there may be.
        most: u32,
    },
    /// Two accesses to a variable that may run in another order than that of the imported graph.
    #[error("`{second}` may reach a variable before `{first}` is over, against the order of the imported graph")]
    Effect {
        /// What is first in the graph.
        first: String,
        /// What comes behind it.
        second: String,
    },
    /// A part that does not lie where its whole, its reference or its run says.
    #[error("`{node}`: {what}")]
    Place {
        /// The node.
        node: String,
        /// What lies wrong.
        what: String,
    },
}

/// Proves a compiled model's plans.
pub fn check(m: &CompiledModel) -> Result<(), PlanFault> {
    super::task_checker::check(m)?;
    let run = Run::simulate(m)?;
    run.edges(m)?;
    run.end(m)?;
    super::place_checker::check(m)?;
    run.memory(m)?;
    super::over_checker::check(m, &run.stands)?;
    super::effects_checker::check(m, &run.stands)?;
    super::flow_checker::check(m)
}

/// The tasks of one node on one stream: start clock of the first, index of the last.
#[derive(Clone)]
pub(super) struct Stand {
    /// The stream.
    pub stream: usize,
    /// For every stream how many of its tasks are over when the first task starts.
    pub start: Vec<u32>,
    /// Position of the last task on the stream.
    pub last: u32,
}

struct Run {
    /// By graph and node: where its own tasks stand.
    stands: Vec<Vec<Vec<Stand>>>,
    end: Option<(usize, Vec<u32>)>,
    lengths: Vec<u32>,
    /// Streams that run only if a switch says so.
    conditional: Vec<bool>,
}

/// The stream that a task wakes.
fn wakes(t: &ge_model::TaskInfo) -> Option<usize> {
    let number = match TaskType(t.kind) {
        TaskType::STREAM_ACTIVE => t.numbers.first(),
        TaskType::STREAM_SWITCH => t.numbers.get(2),
        _ => None,
    };
    number.and_then(|w| usize::try_from(*w).ok())
}

/// Tasks that wake each stream for the first time: one that stands behind the stream's own first task ends a turn of a loop.
fn wakers(m: &CompiledModel) -> Vec<Vec<usize>> {
    let mut out = vec![Vec::new(); m.streams.physical.len()];
    let mut begun = vec![false; out.len()];
    for (i, t) in m.tasks.iter().enumerate() {
        if let Some(b) = begun.get_mut(t.stream as usize) {
            *b = true;
        }
        let Some(w) = wakes(t) else { continue };
        if let Some(list) = out.get_mut(w).filter(|list| list.is_empty() || !begun[w]) {
            list.push(i);
        }
    }
    out
}

/// Streams that run only if a switch says so: some switch stands on every way to them.
fn conditional(m: &CompiledModel, wakers: &[Vec<usize>]) -> Vec<bool> {
    let mut over: Vec<Option<BTreeSet<usize>>> = wakers.iter().map(|w| w.is_empty().then(BTreeSet::new)).collect();
    loop {
        let mut changed = false;
        for s in 0..over.len() {
            let ways = wakers[s].iter().filter_map(|w| {
                let t = &m.tasks[*w];
                let mut way = over.get(t.stream as usize)?.clone()?;
                way.extend((TaskType(t.kind) == TaskType::STREAM_SWITCH).then_some(*w));
                Some(way)
            });
            let common = ways.reduce(|a, b| a.intersection(&b).copied().collect());
            if common.is_some() && common != over[s] {
                over[s] = common;
                changed = true;
            }
        }
        if !changed {
            return over.into_iter().map(|o| o.is_some_and(|o| !o.is_empty())).collect();
        }
    }
}

fn is_record(t: TaskType) -> bool {
    matches!(t, TaskType::EVENT_RECORD | TaskType::NOTIFY_RECORD)
}
fn is_wait(t: TaskType) -> bool {
    matches!(t, TaskType::EVENT_WAIT | TaskType::NOTIFY_WAIT)
}

impl Run {
    fn simulate(m: &CompiledModel) -> Result<Run, PlanFault> {
        let s = m.streams.physical.len();
        // A task of several nodes is a step for each of them.
        let at: Vec<HashMap<&str, usize>> =
            m.graphs.iter().map(|g| g.nodes.iter().enumerate().map(|(i, n)| (n.name.as_str(), i)).collect()).collect();
        let mut queues: Vec<Vec<(usize, usize)>> = vec![Vec::new(); s];
        for (i, t) in m.tasks.iter().enumerate() {
            let of = |n: &String| at.get(t.graph as usize).and_then(|g| g.get(n.as_str()).copied());
            let nodes: Vec<usize> = t.nodes.iter().filter_map(of).collect();
            let nodes = if nodes.is_empty() { vec![t.node as usize] } else { nodes };
            queues[t.stream as usize].extend(nodes.into_iter().map(|n| (i, n)));
        }
        let updates = m.tasks.iter().filter(|t| TaskType(t.kind) == TaskType::UPDATE);
        let updated: std::collections::HashSet<(u32, u32)> = updates.map(|t| (t.graph, t.node)).collect();
        // Where the tiling of each node ends, and where what its update reads is made.
        let mut tilings: HashMap<(usize, usize), Vec<(usize, u32)>> = HashMap::new();
        let mut made: HashMap<(usize, usize), Vec<(usize, u32)>> = HashMap::new();
        // What streams with updated kernels knew behind each of their last tasks.
        let mut trail: HashMap<usize, VecDeque<Vec<u32>>> = HashMap::new();
        let reach = m.soc.prefetch_num as usize + 1;
        for (s, queue) in queues.iter().enumerate() {
            for (at, (i, node)) in queue.iter().enumerate() {
                let t = &m.tasks[*i];
                if TaskType(t.kind) == TaskType::PREPROCESS_KERNEL {
                    made.entry((t.graph as usize, *node)).or_default().push((s, at as u32));
                }
                if read_ahead(t) && updated.contains(&(t.graph, t.node)) {
                    trail.entry(s).or_default();
                }
                if ends_tiling(t, updated.contains(&(t.graph, *node as u32))) {
                    tilings.entry((t.graph as usize, *node)).or_default().push((s, at as u32));
                }
            }
        }
        let mut run = Run {
            stands: m.graphs.iter().map(|g| vec![Vec::new(); g.nodes.len()]).collect(),
            end: None,
            lengths: queues.iter().map(|q| q.len() as u32).collect(),
            conditional: Vec::new(),
        };
        // Notifies that other ranks record are not ordered by this model alone: a wait on one that it never records passes.
        let own: std::collections::HashSet<(bool, u32)> = m
            .tasks
            .iter()
            .filter(|t| is_record(TaskType(t.kind)))
            .filter_map(|t| Some((notify(t.kind), t.sync_id?)))
            .chain(m.events.iter().map(|e| (e.notify, e.id)))
            .collect();
        let mut clocks: Vec<Vec<u32>> = vec![vec![0; s]; s];
        let mut at = vec![0usize; s];
        let mut awake: Vec<bool> = m.streams.physical.iter().map(|p| p.head).collect();
        let mut left = wakers(m);
        run.conditional = conditional(m, &left);
        // Branches end at different wakers of one stream, of which one comes: here all do, and the stream starts behind the last.
        let branches: Vec<bool> =
            left.iter().map(|w| w.iter().all(|i| run.conditional[m.tasks[*i].stream as usize])).collect();
        let mut recorded: HashMap<(bool, u32), Vec<u32>> = HashMap::new();
        let mut waiting: HashMap<(bool, u32), usize> = HashMap::new();
        // The last wait for each id: node, stream and place.
        let mut served: HashMap<(bool, u32), (usize, usize, u32)> = HashMap::new();
        let again = |served: &HashMap<(bool, u32), (usize, usize, u32)>, key: &(bool, u32), clock: &[u32]| {
            served.get(key).filter(|(_, s, at)| clock[*s] <= *at).map(|(i, ..)| *i)
        };
        let called_node = |g: u32, n: usize| m.node(g, n as u32).map_or_else(String::new, |n| n.name.clone());
        let called = |i: usize| m.node(m.tasks[i].graph, m.tasks[i].node).map_or_else(String::new, |n| n.name.clone());
        let mut todo: Vec<usize> = (0..s).rev().filter(|i| awake[*i]).collect();
        while let Some(q) = todo.pop() {
            while let Some(&(i, node)) = queues[q].get(at[q]) {
                let t = &m.tasks[i];
                let kind = TaskType(t.kind);
                let name = || m.node(t.graph, t.node).map_or_else(String::new, |n| n.name.clone());
                let key = (notify(t.kind), t.sync_id.unwrap_or(0));
                if is_wait(kind) && own.contains(&key) {
                    let Some(clock) = recorded.remove(&key) else {
                        waiting.insert(key, q);
                        break;
                    };
                    if let Some(first) = again(&served, &key, &clocks[q]) {
                        return Err(PlanFault::Taken { id: key.1, first: called(first), second: name() });
                    }
                    served.insert(key, (i, q, at[q] as u32));
                    join(&mut clocks[q], &clock);
                }
                // Events by their addresses: a super kernel waits at its first step, a tiling function records.
                if kind == TaskType::SUPER_KERNEL && (at[q] == 0 || queues[q][at[q] - 1].0 != i) {
                    let ids = || t.numbers.iter().filter_map(|e| u32::try_from(*e).ok()).map(|e| (false, e));
                    if let Some(key) = ids().find(|key| !recorded.contains_key(key)) {
                        waiting.insert(key, q);
                        break;
                    }
                    for key in ids() {
                        if let Some(first) = again(&served, &key, &clocks[q]) {
                            return Err(PlanFault::Taken { id: key.1, first: called(first), second: name() });
                        }
                        served.insert(key, (i, q, at[q] as u32));
                    }
                    for clock in ids().filter_map(|key| recorded.remove(&key)).collect::<Vec<_>>() {
                        join(&mut clocks[q], &clock);
                    }
                }
                if takes_tiling(t) {
                    let over = |(s, at): &(usize, u32)| clocks[q][*s] > *at;
                    // A kernel that is updated is read ahead of its turn, when its stream comes so near.
                    let near = match read_ahead(t) && updated.contains(&(t.graph, t.node)) {
                        true => trail.get(&q).filter(|l| l.len() >= reach).and_then(|l| l.get(l.len() - reach)),
                        false => Some(&clocks[q]),
                    };
                    let known = |(s, at): &(usize, u32)| near.is_some_and(|c| c[*s] > *at);
                    if !tilings.get(&(t.graph as usize, node)).into_iter().flatten().all(|t| over(t) && known(t)) {
                        let name = called_node(t.graph, node);
                        return Err(PlanFault::Edge { from: format!("{name} (attached)"), to: name });
                    }
                }
                if kind == TaskType::UPDATE {
                    let made = made.get(&(t.graph as usize, node)).into_iter().flatten();
                    if !made.copied().all(|(s, at)| clocks[q][s] > at) {
                        let name = called_node(t.graph, node);
                        return Err(PlanFault::Edge { from: format!("{name} (tiling)"), to: name });
                    }
                }
                // Tiling for a super kernel writes a context of its own and ends before the super kernel begins.
                let beside =
                    kind == TaskType::PREPROCESS_KERNEL && !t.numbers.is_empty() && !t.args_format.contains("{ws");
                // Of a node that wakes several streams each of them is behind its own task alone.
                let further =
                    kind == TaskType::STREAM_ACTIVE && run.stands[t.graph as usize][node].iter().any(|s| s.stream == q);
                if !is_record(kind) && !is_wait(kind) && !beside && !further {
                    run.note(t.graph as usize, node, q, &clocks[q], at[q] as u32);
                }
                if kind == TaskType::END_GRAPH {
                    run.end = Some((q, clocks[q].clone()));
                }
                at[q] += 1;
                clocks[q][q] = at[q] as u32;
                if let Some(l) = trail.get_mut(&q) {
                    l.push_back(clocks[q].clone());
                    if l.len() > reach {
                        l.pop_front();
                    }
                }
                if is_record(kind) {
                    let open = again(&served, &key, &clocks[q]).is_some();
                    if recorded.insert(key, clocks[q].clone()).is_some() || open {
                        return Err(PlanFault::Recorded { id: key.1, node: name() });
                    }
                    if let Some(w) = waiting.remove(&key) {
                        todo.push(w);
                    }
                }
                if kind == TaskType::PREPROCESS_KERNEL {
                    for key in t.numbers.iter().filter_map(|e| u32::try_from(*e).ok()).map(|e| (false, e)) {
                        let open = again(&served, &key, &clocks[q]).is_some();
                        if recorded.insert(key, clocks[q].clone()).is_some() || open {
                            return Err(PlanFault::Recorded { id: key.1, node: name() });
                        }
                        if let Some(w) = waiting.remove(&key) {
                            todo.push(w);
                        }
                    }
                }
                if let Some(w) = wakes(t).filter(|w| *w < s) {
                    left[w].retain(|k| *k != i);
                    if !awake[w] {
                        let clock = clocks[q].clone();
                        join(&mut clocks[w], &clock);
                    }
                    if (left[w].is_empty() || !branches[w]) && !std::mem::replace(&mut awake[w], true) {
                        todo.push(w);
                    }
                }
            }
        }
        let stuck: Vec<String> = (0..s)
            .filter(|q| at[*q] < queues[*q].len())
            .map(|q| {
                let t = &m.tasks[queues[q][at[q]].0];
                let node = m.node(t.graph, t.node).map_or("", |n| n.name.as_str());
                format!("stream {q} at {} of `{node}`, event {}", TaskType(t.kind), t.sync_id.unwrap_or(0))
            })
            .collect();
        if !stuck.is_empty() {
            return Err(PlanFault::Deadlock { waiting: stuck });
        }
        // What is left recorded the next run would take for its own.
        match recorded.keys().min() {
            Some((_, id)) => Err(PlanFault::Left { id: *id }),
            None => Ok(run),
        }
    }

    fn note(&mut self, graph: usize, node: usize, stream: usize, clock: &[u32], index: u32) {
        let list = &mut self.stands[graph][node];
        match list.iter_mut().find(|s| s.stream == stream) {
            Some(s) => s.last = index,
            None => list.push(Stand { stream, start: clock.to_vec(), last: index }),
        }
    }

    /// Every edge: what must be over when a node starts, through nodes without tasks.
    fn edges(&self, m: &CompiledModel) -> Result<(), PlanFault> {
        for (gi, g) in m.graphs.iter().enumerate() {
            // For nodes without tasks: per stream the last task (and its node) that must be over; shared where nothing changes.
            let mut through: Vec<Vec<(usize, u32, u32)>> = vec![Vec::new(); g.nodes.len()];
            for (i, n) in g.nodes.iter().enumerate() {
                let mine = &self.stands[gi][i];
                let mut need: Vec<(usize, u32, u32)> = Vec::new();
                for p in n.inputs.iter().flatten().map(|v| v.node).chain(n.controls.iter().copied()) {
                    let stands = &self.stands[gi][p as usize];
                    if stands.is_empty() {
                        need.extend_from_slice(&through[p as usize]);
                    } else {
                        need.extend(stands.iter().map(|s| (s.stream, s.last, p)));
                    }
                }
                let Some(main) = mine.iter().find(|s| Some(s.stream as u32) == n.stream).or(mine.first()) else {
                    // Keep the latest of each stream.
                    need.sort_unstable_by_key(|(s, last, _)| (*s, std::cmp::Reverse(*last)));
                    need.dedup_by_key(|(s, ..)| *s);
                    through[i] = need;
                    continue;
                };
                for (stream, last, p) in need {
                    if main.start[stream] <= last {
                        return Err(PlanFault::Edge { from: g.nodes[p as usize].name.clone(), to: n.name.clone() });
                    }
                }
                // What works beside the node reads the values of some inputs.
                for k in value_inputs(n) {
                    let Some(p) = n.inputs.get(k).copied().flatten().map(|v| v.node) else { continue };
                    let before = &self.stands[gi][p as usize];
                    let passed = through[p as usize].iter().filter(|_| before.is_empty()).map(|t| (t.0, t.1));
                    let ends: Vec<(usize, u32)> = before.iter().map(|s| (s.stream, s.last)).chain(passed).collect();
                    let over = |t: &Stand| ends.iter().all(|(stream, last)| t.start[*stream] > *last);
                    if !mine.iter().filter(|t| t.stream != main.stream).all(over) {
                        return Err(PlanFault::Edge { from: g.nodes[p as usize].name.clone(), to: n.name.clone() });
                    }
                }
            }
        }
        Ok(())
    }

    fn end(&self, m: &CompiledModel) -> Result<(), PlanFault> {
        let Some((own, clock)) = &self.end else { return Ok(()) };
        for (q, over) in clock.iter().enumerate() {
            // What stands behind END_GRAPH on its own stream, and records that nothing waits for, are no work of a node.
            let work = m.tasks.iter().filter(|t| t.stream as usize == q).rposition_work();
            // What a switch may leave asleep is joined by no one.
            if q != *own && !self.conditional[q] && work.is_some_and(|w| *over <= w) && self.lengths[q] > 0 {
                return Err(PlanFault::End { stream: q });
            }
        }
        Ok(())
    }

    fn memory(&self, m: &CompiledModel) -> Result<(), PlanFault> {
        for (gi, g) in m.graphs.iter().enumerate() {
            let mut blocks = Blocks::gather(gi, &g.nodes);
            blocks.apart(&g.nodes)?;
            let lent = if gi == 0 { Lent::of(m) } else { Lent::default() };
            blocks.list.sort_by_key(|b| b.first);
            let mut held: BTreeMap<(u8, u64), (u64, usize)> = BTreeMap::new();
            for b in 0..blocks.list.len() {
                let block = &blocks.list[b];
                if block.size == 0 {
                    continue;
                }
                let (memory, from, to) = (block.memory, block.offset, block.offset + block.size);
                // What lies in the range: from the block before it on.
                let start = held
                    .range(..=(memory, from))
                    .next_back()
                    .filter(|((k, _), (end, _))| *k == memory && *end > from)
                    .map(|(k, _)| *k);
                let keys: Vec<(u8, u64)> =
                    start.into_iter().chain(held.range((memory, from + 1)..(memory, to)).map(|(k, _)| *k)).collect();
                for key in keys {
                    let Some((end, old)) = held.remove(&key) else { continue };
                    if let Some(fault) = self.unordered(m, (gi, &lent), &blocks.list[old], block, key.1.max(from)) {
                        return Err(fault);
                    }
                    if key.1 < from {
                        held.insert(key, (from, old));
                    }
                    if end > to {
                        held.insert((memory, to), (end, old));
                    }
                }
                held.insert((memory, from), (to, b));
            }
        }
        Ok(())
    }

    /// A fault if not every use of `old` is over before `new` is first touched.
    fn unordered(
        &self,
        m: &CompiledModel,
        (gi, lent): (usize, &Lent),
        old: &Block,
        new: &Block,
        offset: u64,
    ) -> Option<PlanFault> {
        let stands = &self.stands[gi];
        // What works beside its node touches no output, but a workspace may be for it.
        let own = |f: u32, s: &Stand| Some(s.stream as u32) == m.graphs[gi].nodes[f as usize].stream;
        let touching = |f: &u32| {
            let all = &stands[*f as usize];
            let alone = if new.work { None } else { all.iter().find(|s| own(*f, s)) };
            alone.map_or(all.as_slice(), std::slice::from_ref)
        };
        let mut firsts = new.firsts.iter().flat_map(touching).peekable();
        // What is there without a task is there from the start: nothing may have lain under it.
        let ok = firsts.peek().is_some()
            && lent.allows(old, new)
            && firsts.all(|f| old.users.iter().flat_map(|u| &stands[*u as usize]).all(|s| f.start[s.stream] > s.last));
        if ok {
            return None;
        }
        let name = |i: u32| m.graphs[gi].nodes[i as usize].name.clone();
        Some(PlanFault::Overlap {
            first: name(old.first),
            second: name(new.first),
            memory: ge_plugin_api::device::MemoryKind(new.memory).name().to_owned(),
            offset,
        })
    }
}

/// Whether a task is a kernel that is launched with what a tiling function leaves in a context.
pub(super) fn takes_tiling(t: &ge_model::TaskInfo) -> bool {
    let makes = matches!(TaskType(t.kind), TaskType::PREPROCESS_KERNEL | TaskType::UPDATE);
    !makes && t.args_format.contains("{tiling_context")
}

/// Whether a task is a kernel that its stream reads before it is its turn.
fn read_ahead(t: &ge_model::TaskInfo) -> bool {
    takes_tiling(t) && t.block_dim == TILING_SINK_BLOCK_DIM
}

/// Whether a task is the last of a node's tiling: the one that updates its kernel, where there is one.
pub(super) fn ends_tiling(t: &ge_model::TaskInfo, updated: bool) -> bool {
    match TaskType(t.kind) {
        TaskType::UPDATE => true,
        TaskType::PREPROCESS_KERNEL => !updated,
        _ => false,
    }
}

/// Inputs whose values a node's attached work reads.
pub(super) fn value_inputs(n: &NodeInfo) -> Vec<usize> {
    let Some(AttrValue::List(list)) = n.attrs.get("_attached_stream_info_list") else { return Vec::new() };
    let said = |d: &AttrValue| {
        let key = "_attached_resource_depend_value_list_int";
        d.as_dict()?.iter().find(|e| e.key.as_str() == key)?.value.as_ints().map(<[i64]>::to_vec)
    };
    list.iter().filter_map(said).flatten().filter_map(|i| usize::try_from(i).ok()).collect()
}

fn notify(kind: u32) -> bool {
    matches!(TaskType(kind), TaskType::NOTIFY_RECORD | TaskType::NOTIFY_WAIT)
}
fn join(a: &mut [u32], b: &[u32]) {
    for (x, y) in a.iter_mut().zip(b) {
        *x = (*x).max(*y);
    }
}

trait Work {
    /// Position of the last task that is no record.
    fn rposition_work(self) -> Option<u32>;
}
impl<'a, I: Iterator<Item = &'a ge_model::TaskInfo>> Work for I {
    fn rposition_work(self) -> Option<u32> {
        self.enumerate().filter(|(_, t)| !is_record(TaskType(t.kind))).last().map(|(i, _)| i as u32)
    }
}

/// What the caller lends, from the model's options alone.
#[derive(Default)]
struct Lent {
    inputs: Vec<u32>,
    outputs: Vec<u32>,
    pairs: Vec<(u32, u32)>,
}

impl Lent {
    fn of(m: &CompiledModel) -> Lent {
        let text = |name: &str| m.options.get(name).map_or("", String::as_str);
        let list = |t: &str| t.split(',').filter_map(|i| i.trim().parse().ok()).collect();
        let pair =
            |p: &str| p.split_once(',').and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)));
        Lent {
            inputs: list(text("ge.exec.inputReuseMemIndexes")),
            outputs: list(text("ge.exec.outputReuseMemIndexes")),
            pairs: text("ge.exec.outputReuseInputMemIndexes").split('|').filter_map(pair).collect(),
        }
    }
    /// Whether `new` may lie where `old`, which is over, has lain: the caller's memory is for what it is for, unless it is lent.
    fn allows(&self, old: &Block, new: &Block) -> bool {
        let paired = |i: &u32| self.pairs.iter().any(|p| p.0 == *i);
        let leaves = |i: &u32| match new.outputs.as_slice() {
            [k] => self.pairs.contains(&(*i, *k)),
            _ => self.inputs.contains(i) && !paired(i),
        };
        let follows = |k: &u32| self.outputs.contains(k) || old.inputs.iter().any(|i| self.pairs.contains(&(*i, *k)));
        old.outputs.is_empty() && old.inputs.iter().all(leaves) && new.outputs.iter().all(follows)
    }
}

/// One run of addresses and everybody who touches it.
struct Block {
    memory: u8,
    offset: u64,
    size: u64,
    /// The node that first touches it.
    first: u32,
    /// Nodes of which one is the first to touch it: all producers of what was joined.
    firsts: Vec<u32>,
    /// Nodes that touch it, the first included.
    users: Vec<u32>,
    /// Bytes that one node's own value takes: begin, end, node. What is joined on purpose lies beside each other, never over.
    own: Vec<(u64, u64, u32)>,
    /// Inputs of the model that lie in it.
    inputs: Vec<u32>,
    /// Outputs of the model that lie in it: it lives to the end.
    outputs: Vec<u32>,
    /// Whether it has a workspace in it.
    work: bool,
    /// The block that it has become a part of.
    part_of: Option<usize>,
}

/// The block that holds block `b` now.
fn holder(list: &[Block], mut b: usize) -> usize {
    while let Some(up) = list[b].part_of {
        b = up;
    }
    b
}

struct Blocks {
    list: Vec<Block>,
}

impl Blocks {
    /// Values of their own within one block lie beside each other.
    fn apart(&mut self, nodes: &[NodeInfo]) -> Result<(), PlanFault> {
        for b in &mut self.list {
            b.own.sort_unstable();
            if let Some(pair) = b.own.windows(2).find(|p| p[0].1 > p[1].0) {
                let name = |i: u32| nodes[i as usize].name.clone();
                let what = format!("it lies over `{}` in one run", name(pair[0].2));
                return Err(PlanFault::Place { node: name(pair[1].2), what });
            }
        }
        Ok(())
    }

    fn gather(gi: usize, nodes: &[NodeInfo]) -> Blocks {
        let mut list: Vec<Block> = Vec::new();
        // Block of each output.
        let mut of: Vec<Vec<Option<usize>>> = Vec::with_capacity(nodes.len());
        // Workspaces of each node: the first of a clearing node is what it covers.
        let mut cleaned: HashMap<u32, Vec<usize>> = HashMap::new();
        for (i, n) in nodes.iter().enumerate() {
            let mut mine = Vec::with_capacity(n.slots.len());
            for s in &n.slots {
                if s.space != SlotInfo::FEATURE {
                    mine.push(None);
                    continue;
                }
                let shared = s
                    .ref_input
                    .and_then(|k| n.inputs.get(k as usize).copied().flatten())
                    .and_then(|v| of[v.node as usize].get(v.output as usize).copied().flatten());
                if let Some(b) = shared {
                    list[b].users.push(i as u32);
                    // A view may reach beyond what it views (padding); the block is what all of them cover.
                    let end = (list[b].offset + list[b].size).max(s.offset + s.size);
                    let start = list[b].offset.min(s.offset);
                    list[b].offset = start;
                    list[b].size = end - start;
                    mine.push(Some(b));
                    continue;
                }
                mine.push(Some(list.len()));
                let input = (gi == 0 && matches!(n.op.as_str(), "Data" | "RefData" | "AippData"))
                    .then(|| u32::try_from(n.attrs.int("index").unwrap_or(0)).unwrap_or(u32::MAX));
                list.push(Block {
                    memory: s.memory,
                    offset: s.offset,
                    size: s.size,
                    first: i as u32,
                    firsts: vec![i as u32],
                    users: vec![i as u32],
                    own: vec![(s.offset, s.offset + tight(s, n.outputs.get(mine.len() - 1)), i as u32)],
                    inputs: input.into_iter().collect(),
                    outputs: Vec::new(),
                    work: false,
                    part_of: None,
                });
            }
            for w in n.workspaces.iter().filter(|w| w.space == SlotInfo::FEATURE) {
                cleaned.entry(i as u32).or_default().push(list.len());
                list.push(Block {
                    memory: w.memory,
                    offset: w.offset,
                    size: w.size,
                    first: i as u32,
                    firsts: vec![i as u32],
                    users: vec![i as u32],
                    own: vec![(w.offset, w.offset + w.size, i as u32)],
                    inputs: Vec::new(),
                    outputs: Vec::new(),
                    work: true,
                    part_of: None,
                });
            }
            of.push(mine);
            for v in n.inputs.iter().flatten() {
                if let Some(b) = of[v.node as usize].get(v.output as usize).copied().flatten() {
                    list[b].users.push(i as u32);
                }
            }
        }
        let outputs = nodes.iter().filter(|n| gi == 0 && n.op == "NetOutput").flat_map(|n| n.inputs.iter().enumerate());
        for (k, v) in outputs {
            let block = v.and_then(|v| of[v.node as usize].get(v.output as usize).copied().flatten());
            if let Some(b) = block {
                list[b].outputs.push(k as u32);
            }
        }
        join_no_task(nodes, &of, &mut list);
        join_cleaned(nodes, &of, &cleaned, &mut list);
        Blocks { list }
    }
}

/// A no-task concat or split and what it joins share their memory on purpose: its inputs' (outputs') blocks become one with it.
fn join_no_task(nodes: &[NodeInfo], of: &[Vec<Option<usize>>], list: &mut [Block]) {
    for (i, n) in nodes.iter().enumerate() {
        if !n.attrs.flag("_no_task") && !matches!(n.op.as_str(), "PhonyConcat" | "PhonySplit") {
            continue;
        }
        let around: Vec<usize> = n
            .inputs
            .iter()
            .flatten()
            .filter_map(|v| of[v.node as usize].get(v.output as usize).copied().flatten())
            .chain(of[i].iter().copied().flatten())
            .collect();
        let Some(&whole) = around.iter().min_by_key(|b| list[**b].first) else { continue };
        for b in around {
            merge(list, whole, b);
        }
    }
}

/// A node that clears memory beforehand and the atomic outputs of those that wait for it are one.
fn join_cleaned(nodes: &[NodeInfo], of: &[Vec<Option<usize>>], cleaned: &HashMap<u32, Vec<usize>>, list: &mut [Block]) {
    for (i, n) in nodes.iter().enumerate() {
        let outputs = n.attrs.ints("atomic_output_index").unwrap_or_default();
        let spaces = n.attrs.ints("_atomic_workspace_index").unwrap_or_default();
        if outputs.is_empty() && spaces.is_empty() {
            continue;
        }
        let clears = |c: &&u32| {
            nodes
                .get(**c as usize)
                .is_some_and(|p| matches!(p.op.as_str(), "AtomicAddrClean" | "MemSet") && p.inputs.is_empty())
        };
        let Some(&whole) = n.controls.iter().find(clears).and_then(|c| cleaned.get(c)?.first()) else { continue };
        let clean = list[whole].first;
        list[whole].own.retain(|o| o.2 != clean);
        let index = |k: &i64| usize::try_from(*k).ok();
        let mine = outputs.iter().filter_map(|k| of[i].get(index(k)?).copied().flatten());
        let own = cleaned.get(&(i as u32));
        let blocks: Vec<usize> = mine.chain(spaces.iter().filter_map(|k| own?.get(index(k)?).copied())).collect();
        for b in blocks {
            merge(list, whole, b);
            // The clearing node comes first; the value is no first touch of its own.
            let whole = holder(list, whole);
            let first = list[whole].first;
            list[whole].firsts.retain(|f| *f != i as u32 || *f == first);
        }
    }
}

/// Block `b` becomes part of `whole`.
fn merge(list: &mut [Block], whole: usize, b: usize) {
    let (whole, b) = (holder(list, whole), holder(list, b));
    if b == whole || list[b].size == 0 {
        return;
    }
    list[b].part_of = Some(whole);
    let users = std::mem::take(&mut list[b].users);
    let (firsts, own) = (std::mem::take(&mut list[b].firsts), std::mem::take(&mut list[b].own));
    let (inputs, outputs) = (std::mem::take(&mut list[b].inputs), std::mem::take(&mut list[b].outputs));
    let work = list[b].work;
    let (offset, end, first) = (list[b].offset, list[b].offset + list[b].size, list[b].first);
    list[b].size = 0;
    let w = &mut list[whole];
    let start = w.offset.min(offset);
    w.size = (w.offset + w.size).max(end) - start;
    w.offset = start;
    w.work |= work;
    w.inputs.extend(inputs);
    w.outputs.extend(outputs);
    w.first = w.first.min(first);
    w.users.extend(users);
    w.firsts.extend(firsts);
    w.own.extend(own);
}

/// Bytes of an output that its data take.
fn tight(s: &SlotInfo, d: Option<&ge_plugin_api::types::TensorDesc>) -> u64 {
    d.and_then(|d| d.data_bytes()).unwrap_or(s.size).min(s.size)
}
