//! Simulates one run of a model's queues: pairs records with waits, and finds for each node what is
//! over when it starts.
use super::PlanFault;
use super::stand::{Stand, ends_tiling, is_record, is_wait, join, notify, read_ahead, takes_tiling};
use ge_model::CompiledModel;
use ge_plugin_api::task::TaskType;
use std::collections::{BTreeSet, HashMap, VecDeque};

/// What the run has shown.
pub(crate) struct Run {
    /// By graph and node: the positions of its tasks.
    pub stands: Vec<Vec<Vec<Stand>>>,
    /// The stream of END_GRAPH, and what is over when it is reached.
    pub end: Option<(usize, Vec<u32>)>,
    /// Number of tasks on each stream.
    pub lengths: Vec<u32>,
    /// For each stream, the switches (by task) that must all select it for it to run; empty for
    /// most streams.
    pub conditions: Vec<BTreeSet<usize>>,
}

/// The stream that a task wakes, if any.
fn wakes(t: &ge_model::TaskInfo) -> Option<usize> {
    let number = match TaskType(t.kind) {
        TaskType::STREAM_ACTIVE => t.numbers.first(),
        TaskType::STREAM_SWITCH => t.numbers.get(2),
        _ => None,
    };
    number.and_then(|w| usize::try_from(*w).ok())
}

/// Tasks that wake each stream for the first time. A waker that comes after the stream's own first
/// task only ends a loop iteration and is left out.
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

/// For each stream, the switches that are on every path to it: it runs only if all of them select
/// it.
fn conditions(m: &CompiledModel, wakers: &[Vec<usize>]) -> Vec<BTreeSet<usize>> {
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
            return over.into_iter().map(Option::unwrap_or_default).collect();
        }
    }
}

impl Run {
    /// Runs the queues.
    ///
    /// # Errors
    /// Returns a violation of rules 1 to 4 or 9.
    pub fn simulate(m: &CompiledModel) -> Result<Run, PlanFault> {
        let s = m.streams.physical.len();
        // A task of several nodes counts as one step for each of them.
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
        // For streams with updated kernels: what they knew after each of their last tasks.
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
            conditions: Vec::new(),
        };
        // Notifies recorded by other ranks are not ordered by this model alone: a wait for one that
        // the model never records passes.
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
        run.conditions = conditions(m, &left);
        // Branches end at different wakers of one stream, of which only one runs; here all of them
        // run. About a stream that always runs together with it, the woken stream knows what every
        // waker knows; about one that runs only in some branches, what any waker knows.
        let mut alternatives: Vec<Vec<Vec<u32>>> = vec![Vec::new(); s];
        let branches: Vec<bool> =
            left.iter().map(|w| w.iter().all(|i| !run.conditions[m.tasks[*i].stream as usize].is_empty())).collect();
        let mut recorded: HashMap<(bool, u32), Vec<u32>> = HashMap::new();
        let mut waiting: HashMap<(bool, u32), usize> = HashMap::new();
        // The last wait for each id: task, stream and position.
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
                // Events named by address: a super kernel waits at its first step, and a tiling
                // function records.
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
                    // A kernel that is updated is prefetched before its turn, when its stream comes
                    // within the prefetch distance.
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
                // Tiling for a super kernel writes its own context and ends before the super kernel
                // begins.
                let beside =
                    kind == TaskType::PREPROCESS_KERNEL && !t.numbers.is_empty() && !t.args_format.contains("{ws");
                // If a node wakes several streams, only its first such task counts as its position.
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
                        alternatives[w].push(clocks[q].clone());
                        let all = &alternatives[w];
                        let clock: Vec<u32> = (0..s)
                            .map(|k| {
                                let each = all.iter().map(|c| c[k]);
                                let always = branches[w] && run.conditions[k].is_subset(&run.conditions[w]);
                                if always { each.min() } else { each.max() }.unwrap_or(0)
                            })
                            .collect();
                        clocks[w] = clock;
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
        // The next run would mistake a leftover record for its own.
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
}
