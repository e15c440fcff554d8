//! The tasks of a model as a timetable: start and end of each in simulated time, per stream.
//!
//! Costs come from the SoC file and from the engines. Loops and jumps are followed once, in the
//! order of the tasks; waits for another rank take no time.
use ge_model::{CompiledModel, TaskInfo};
use ge_plugin_api::task::TaskType;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

/// The tasks of each stream, in order.
fn by_stream(m: &CompiledModel) -> Vec<Vec<usize>> {
    let mut queues = vec![Vec::new(); m.streams.physical.len()];
    for (i, t) in m.tasks.iter().enumerate() {
        if let Some(q) = queues.get_mut(t.stream as usize) {
            q.push(i);
        }
    }
    queues
}

/// Start and end of each task in ns; `None` if its stream waits for something that never comes.
pub fn times(m: &CompiledModel) -> Vec<Option<(u64, u64)>> {
    let mut out = vec![None; m.tasks.len()];
    let queues = by_stream(m);
    let own: HashSet<(bool, u32)> = m.tasks.iter().flat_map(records).collect();
    let mut recorded: HashMap<(bool, u32), VecDeque<u64>> = HashMap::new();
    let mut woken: Vec<Option<u64>> = m.streams.physical.iter().map(|p| p.head.then_some(0)).collect();
    let mut at = vec![0usize; queues.len()];
    let mut clock = vec![0u64; queues.len()];
    loop {
        let mut moved = false;
        for (q, queue) in queues.iter().enumerate() {
            let Some(start) = woken[q] else { continue };
            if at[q] == 0 {
                clock[q] = clock[q].max(start);
            }
            while let Some(&i) = queue.get(at[q]) {
                let t = &m.tasks[i];
                let needs: Vec<(bool, u32)> = waits(t).filter(|k| own.contains(k)).collect();
                if needs.iter().any(|k| recorded.get(k).is_none_or(VecDeque::is_empty)) {
                    break;
                }
                let ready =
                    needs.iter().filter_map(|k| recorded.get_mut(k).and_then(VecDeque::pop_front)).max().unwrap_or(0);
                let start = clock[q].max(ready);
                let end = start.saturating_add(cost(m, t));
                out[i] = Some((start, end));
                clock[q] = end;
                for k in records(t) {
                    recorded.entry(k).or_default().push_back(end);
                }
                let wakes = match TaskType(t.kind) {
                    TaskType::STREAM_ACTIVE => t.numbers.first(),
                    TaskType::STREAM_SWITCH => t.numbers.get(2),
                    _ => None,
                };
                if let Some(w) = wakes.and_then(|w| usize::try_from(*w).ok()).and_then(|w| woken.get_mut(w)) {
                    w.get_or_insert(end);
                }
                at[q] += 1;
                moved = true;
            }
        }
        if !moved {
            return out;
        }
    }
}

/// A record and the wait that it releases.
pub struct Pair {
    /// True for a notify, false for an event.
    pub notify: bool,
    /// Id of the event or notify.
    pub id: u32,
    /// Index of the task that records.
    pub record: usize,
    /// Index of the task that waits.
    pub wait: usize,
}

/// Matches records with waits: for each id, the k-th record with the k-th wait, in task order.
pub fn pairs(m: &CompiledModel) -> Vec<Pair> {
    let mut sides: BTreeMap<(bool, u32), [Vec<usize>; 2]> = BTreeMap::new();
    for (i, t) in m.tasks.iter().enumerate() {
        records(t).for_each(|k| sides.entry(k).or_default()[0].push(i));
        waits(t).for_each(|k| sides.entry(k).or_default()[1].push(i));
    }
    let each = |((notify, id), [records, waits]): ((bool, u32), [Vec<usize>; 2])| {
        records.into_iter().zip(waits).map(move |(record, wait)| Pair { notify, id, record, wait })
    };
    sides.into_iter().flat_map(each).collect()
}

/// The task at the other end, for each record and wait of a task.
type Others = HashMap<(usize, bool, u32), usize>;

/// Formats the timetable as text.
pub fn text(m: &CompiledModel) -> String {
    let times = times(m);
    let others: Others = pairs(m)
        .into_iter()
        .flat_map(|p| [((p.record, p.notify, p.id), p.wait), ((p.wait, p.notify, p.id), p.record)])
        .collect();
    let on = by_stream(m);
    let us = |ns: u64| format!("{:.2}", ns as f64 / 1e3);
    let ends = times.iter().flatten().map(|t| t.1).max().unwrap_or(0);
    let mut out = format!(
        "{} tasks on {} streams of {}, {} us by the simulated clock (loops once)\n",
        m.tasks.len(),
        m.streams.physical.len(),
        m.soc.name,
        us(ends)
    );
    for (s, p) in m.streams.physical.iter().enumerate() {
        let mine = &on[s];
        let attached = m.streams.logical.get(p.logical as usize).is_some_and(|l| l.attached);
        let kind = if attached { "attached" } else { "main" };
        let asleep = if p.head { "" } else { ", sleeps until activated" };
        out.push_str(&format!("stream {s} ({kind}, logical {}): {} tasks{asleep}\n", p.logical, mine.len()));
        out.push_str("    start us     end us   task  what\n");
        for &i in mine {
            let (from, to) = times[i].map_or(("-".to_owned(), "-".to_owned()), |(a, b)| (us(a), us(b)));
            out.push_str(&format!("{from:>12} {to:>10} {i:>6}  {}\n", what(m, i, &others)));
            out.push_str(&super::contexts::text(m, &m.tasks[i]).unwrap_or_default());
        }
    }
    out
}

fn what(m: &CompiledModel, i: usize, others: &Others) -> String {
    let t = &m.tasks[i];
    let node = |t: &TaskInfo| m.node(t.graph, t.node).map_or(String::new(), |n| n.name.clone());
    let mut text = format!("{} {}", TaskType(t.kind), node(t));
    let other = |(notify, id): (bool, u32)| {
        others.get(&(i, notify, id)).map_or_else(
            || " another rank".to_owned(),
            |o| format!(" stream {} `{}`", m.tasks[*o].stream, node(&m.tasks[*o])),
        )
    };
    for key in waits(t) {
        text.push_str(&format!(" #{} from{}", key.1, other(key)));
    }
    for key in records(t) {
        text.push_str(&format!(" #{} to{}", key.1, other(key)));
    }
    if !t.kernel_name.is_empty() {
        let blocks = if t.block_dim == u32::MAX { "?".to_owned() } else { t.block_dim.to_string() };
        text.push_str(&format!(" {} x{blocks}", t.kernel_name));
    }
    if !t.nodes.is_empty() {
        text.push_str(&format!(" of {}", t.nodes.join(", ")));
    }
    text
}

fn id(t: &TaskInfo, kinds: [TaskType; 2]) -> Option<(bool, u32)> {
    let kind = TaskType(t.kind);
    Some((kind == kinds[1], t.sync_id.filter(|_| kinds.contains(&kind))?))
}

/// Events (false) and notifies (true) that a task waits for, either as a wait task or by address.
fn waits(t: &TaskInfo) -> impl Iterator<Item = (bool, u32)> {
    let own = id(t, [TaskType::EVENT_WAIT, TaskType::NOTIFY_WAIT]);
    own.into_iter().chain(by_address(t, TaskType::SUPER_KERNEL))
}
fn records(t: &TaskInfo) -> impl Iterator<Item = (bool, u32)> {
    let own = id(t, [TaskType::EVENT_RECORD, TaskType::NOTIFY_RECORD]);
    own.into_iter().chain(by_address(t, TaskType::PREPROCESS_KERNEL))
}
fn by_address(t: &TaskInfo, kind: TaskType) -> Vec<(bool, u32)> {
    let ids = t.numbers.iter().filter(|_| TaskType(t.kind) == kind);
    ids.filter_map(|e| u32::try_from(*e).ok()).map(|e| (false, e)).collect()
}

fn cost(m: &CompiledModel, t: &TaskInfo) -> u64 {
    let soc = &m.soc;
    match TaskType(t.kind) {
        TaskType::EVENT_WAIT | TaskType::NOTIFY_WAIT | TaskType::EVENT_RESET => soc.event_wait_ns,
        TaskType::LABEL_SET | TaskType::END_GRAPH | TaskType::MODEL_EXIT => 0,
        _ if !t.kernel_name.is_empty() => soc.task_launch_ns.saturating_add(t.time_ns),
        TaskType::MEMCPY_ASYNC | TaskType::MEMCPY_ADDR_ASYNC | TaskType::REDUCE_ASYNC => soc.task_launch_ns,
        _ => soc.event_record_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ge_model::PhysicalInfo;

    #[test]
    fn a_wait_starts_when_its_record_has_ended() {
        let mut m = CompiledModel::default();
        (m.soc.task_launch_ns, m.soc.event_record_ns, m.soc.event_wait_ns) = (3000, 500, 400);
        m.streams.physical = vec![PhysicalInfo { head: true, ..Default::default() }; 2];
        let task = |kind: TaskType, stream, sync_id, kernel: &str| TaskInfo {
            kind: kind.code(),
            stream,
            sync_id,
            kernel_name: kernel.into(),
            time_ns: 100,
            ..TaskInfo::default()
        };
        m.tasks = vec![
            task(TaskType::EVENT_WAIT, 0, Some(0), ""),
            task(TaskType::KERNEL, 1, None, "k"),
            task(TaskType::EVENT_RECORD, 1, Some(0), ""),
            task(TaskType::EVENT_WAIT, 1, Some(7), ""),
        ];
        let all = [Some((3600, 4000)), Some((0, 3100)), Some((3100, 3600)), Some((3600, 4000))];
        assert_eq!(times(&m), all);
        let text = text(&m);
        assert!(text.contains("4 tasks on 2 streams") && text.contains("KERNEL  k x0"), "{text}");
        assert!(text.contains("#0 from stream 1") && text.contains("#7 from another rank"), "{text}");
    }
}
