//! What all paths through a model's tasks share: queues, labels, and what nodes need.
use crate::stand::{is_record, is_wait, value_inputs};
use ge_model::CompiledModel;
use ge_plugin_api::task::TaskType;
use std::collections::{HashMap, HashSet};

/// What all walks read.
pub(super) struct Frame {
    pub(super) queues: Vec<Vec<usize>>,
    /// Stream and position of each label.
    pub(super) labels: HashMap<i64, (usize, usize)>,
    /// For each root node: the nodes with tasks that it needs, found through nodes without tasks.
    pub(super) needs: Vec<Vec<u32>>,
    /// For each root node: the nodes with tasks whose values its attached work reads.
    pub(super) reads: Vec<Vec<u32>>,
    /// Nodes whose kernels are updated once their tiling is known.
    pub(super) updated: HashSet<u32>,
    /// Root nodes that each task belongs to.
    pub(super) of_task: Vec<Vec<u32>>,
    /// Events that tasks of the model wait for, and those that it records, as (notify, id).
    pub(super) waited: HashSet<(bool, u32)>,
    pub(super) recorded: HashSet<(bool, u32)>,
}

impl Frame {
    pub(super) fn of(m: &CompiledModel) -> Frame {
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
        // An event of the plan is recorded by this model, or never.
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

fn key(t: &ge_model::TaskInfo) -> (bool, u32) {
    (matches!(TaskType(t.kind), TaskType::NOTIFY_RECORD | TaskType::NOTIFY_WAIT), t.sync_id.unwrap_or(0))
}
/// What a task waits for before it begins, including events that it names by address.
pub(super) fn waits_of(t: &ge_model::TaskInfo) -> Vec<(bool, u32)> {
    match TaskType(t.kind) {
        k if is_wait(k) => vec![key(t)],
        TaskType::SUPER_KERNEL => by_address(t),
        _ => Vec::new(),
    }
}
/// What a task records when it ends.
pub(super) fn records_of(t: &ge_model::TaskInfo) -> Vec<(bool, u32)> {
    match TaskType(t.kind) {
        k if is_record(k) => vec![key(t)],
        TaskType::PREPROCESS_KERNEL => by_address(t),
        _ => Vec::new(),
    }
}
fn by_address(t: &ge_model::TaskInfo) -> Vec<(bool, u32)> {
    t.numbers.iter().filter_map(|e| u32::try_from(*e).ok()).map(|e| (false, e)).collect()
}
