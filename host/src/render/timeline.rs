//! The timeline of a run as Chrome trace JSON, which Perfetto opens: one track per physical stream,
//! flow arrows for events, and a counter track for memory (DESIGN 5).
use ge_model::{CompiledModel, NodeInfo, SlotInfo};
use ge_plugin_api::device::{MemoryKind, RunReport, TaskProfile};
use ge_plugin_api::task::TaskType;
use ge_runtime::HostStep;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};

/// One run of one rank, or one launch of a model of unknown shapes.
pub struct Lane<'a> {
    /// Name of the lane.
    pub name: String,
    /// The model.
    pub model: &'a CompiledModel,
    /// What the device reported.
    pub report: &'a RunReport,
}

/// The lanes of ranks that run the same model.
pub fn ranks<'a>(model: &'a CompiledModel, reports: &'a [RunReport]) -> Vec<Lane<'a>> {
    let name =
        |rank: usize| if reports.len() == 1 { model.name.clone() } else { format!("{} rank {rank}", model.name) };
    reports.iter().enumerate().map(|(rank, report)| Lane { name: name(rank), model, report }).collect()
}

/// The trace of the ranks of one run; each rank is a process in the trace.
pub fn trace(lanes: &[Lane<'_>]) -> Value {
    let mut events = Vec::new();
    let mut counters: BTreeMap<String, u64> = BTreeMap::from([("host_tiling".to_owned(), 0)]);
    for (rank, lane) in lanes.iter().enumerate() {
        let name = lane.name.as_str();
        events.push(json!({"ph": "M", "name": "process_name", "pid": rank, "tid": 0, "args": {"name": name}}));
        for (i, s) in lane.model.streams.physical.iter().enumerate() {
            let label = lane.model.streams.logical.get(s.logical as usize).map_or("", |l| l.label.as_str());
            let space = if label.is_empty() { "" } else { " " };
            events.push(json!({"ph": "M", "name": "thread_name", "pid": rank, "tid": i, "args": {"name": format!("stream {i}{space}{label}")}}));
            events.push(
                json!({"ph": "M", "name": "thread_sort_index", "pid": rank, "tid": i, "args": {"sort_index": i}}),
            );
        }
        for p in &lane.report.tasks {
            if let Some(e) = slice(lane.model, rank, p) {
                events.push(e);
            }
        }
        flows(lane, rank, &mut events);
        memory(lane, rank, &mut events);
        for c in &lane.report.counters {
            *counters.entry(c.name.to_string()).or_default() += c.value;
        }
    }
    let elapsed = lanes.iter().map(|l| l.report.elapsed_ns).max().unwrap_or(0);
    let mut other: Map<String, Value> = counters.into_iter().map(|(k, v)| (k, json!(v))).collect();
    other.insert("elapsed_ns".into(), json!(elapsed));
    other.insert("ranks".into(), json!(lanes.len()));
    json!({"traceEvents": events, "displayTimeUnit": "ns", "otherData": other})
}

/// Adds the host's steps to a trace as another process.
pub fn add_host(trace: &mut Value, steps: &[HostStep]) {
    if steps.is_empty() {
        return;
    }
    let pid = trace["otherData"]["ranks"].as_u64().unwrap_or(0);
    if let Value::Array(events) = &mut trace["traceEvents"] {
        events.push(json!({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": "host"}}));
        events.extend(steps.iter().map(|s| {
            json!({
                "ph": "X", "name": s.node, "cat": "host", "pid": pid, "tid": 0, "ts": us(s.start_ns),
                "dur": us(s.end_ns.saturating_sub(s.start_ns)),
                "args": {"type": "HOST", "node": s.node, "op": s.op, "graph": s.graph},
            })
        }));
    }
    let last = steps.iter().map(|s| s.end_ns).max().unwrap_or(0);
    let elapsed = trace["otherData"]["elapsed_ns"].as_u64().unwrap_or(0);
    trace["otherData"]["elapsed_ns"] = json!(elapsed.max(last));
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

fn slice(m: &CompiledModel, rank: usize, p: &TaskProfile) -> Option<Value> {
    let t = m.tasks.get(p.task as usize)?;
    let node = m.node(t.graph, t.node);
    let kind = TaskType(t.kind).name();
    let shown = node.filter(|_| !t.kernel_name.is_empty()).map_or(kind, |n| n.name.as_str());
    let mut args = json!({"task": p.task, "type": kind, "node": node.map(|n| &n.name), "op": node.map(|n| &n.op), "engine": node.map(|n| &n.engine)});
    if let Value::Object(a) = &mut args {
        if !t.kernel_name.is_empty() {
            a.insert("kernel".into(), json!(t.kernel_name));
            a.insert("block_dim".into(), json!(t.block_dim));
        }
        if let Some(id) = t.sync_id {
            a.insert("id".into(), json!(id));
        }
    }
    let category = node.map_or("", |n| n.engine.as_str());
    Some(json!({
        "ph": "X", "name": shown, "cat": category, "pid": rank, "tid": t.stream, "ts": us(p.start_ns),
        "dur": us(p.end_ns.saturating_sub(p.start_ns)), "args": args,
    }))
}

/// Draws an arrow from each record to the wait that it releases: the k-th record of an id belongs
/// to its k-th wait.
fn flows(lane: &Lane<'_>, rank: usize, events: &mut Vec<Value>) {
    let mut sides: BTreeMap<(bool, u32), [Vec<(u64, u32)>; 2]> = BTreeMap::new();
    for p in &lane.report.tasks {
        let Some(t) = lane.model.tasks.get(p.task as usize) else { continue };
        let (notify, side) = match TaskType(t.kind) {
            TaskType::EVENT_RECORD => (false, 0),
            TaskType::EVENT_WAIT => (false, 1),
            TaskType::NOTIFY_RECORD => (true, 0),
            TaskType::NOTIFY_WAIT => (true, 1),
            _ => continue,
        };
        let Some(id) = t.sync_id else { continue };
        // Both count at their end: a wait ends because of the record.
        sides.entry((notify, id)).or_default()[side].push((p.end_ns, t.stream));
    }
    let mut next = 0u64;
    for ((notify, id), [mut records, mut waits]) in sides {
        records.sort_unstable();
        waits.sort_unstable();
        for (r, w) in records.iter().zip(&waits) {
            let name = format!("{} {id}", if notify { "notify" } else { "event" });
            let flow = format!("{rank}.{next}");
            next += 1;
            events.push(
                json!({"ph": "s", "id": flow, "name": name, "cat": "sync", "pid": rank, "tid": r.1, "ts": us(r.0)}),
            );
            events.push(json!({"ph": "f", "bp": "e", "id": flow, "name": name, "cat": "sync", "pid": rank, "tid": w.1, "ts": us(w.0)}));
        }
    }
}

/// Bytes of the feature map that hold a live value, by memory kind, over time.
fn memory(lane: &Lane<'_>, rank: usize, events: &mut Vec<Value>) {
    let times = node_times(lane.model, lane.report);
    let mut changes: BTreeMap<(u8, u64), i64> = BTreeMap::new();
    let mut add = |memory: u8, from: u64, to: u64, bytes: u64| {
        let bytes = i64::try_from(bytes).unwrap_or(0);
        *changes.entry((memory, from)).or_default() += bytes;
        *changes.entry((memory, to)).or_default() -= bytes;
    };
    for (gi, g) in lane.model.graphs.iter().enumerate() {
        let ends = last_use(g.nodes.as_slice(), gi as u32, &times, lane.report.elapsed_ns);
        for (ni, n) in g.nodes.iter().enumerate() {
            let Some((start, end)) = times.get(&(gi as u32, ni as u32)) else { continue };
            for s in n.slots.iter().filter(|s| s.space == SlotInfo::FEATURE && s.ref_input.is_none()) {
                add(s.memory, *start, ends[ni].max(*end), s.size);
            }
            for w in n.workspaces.iter().filter(|s| s.space == SlotInfo::FEATURE) {
                add(w.memory, *start, *end, w.size);
            }
        }
    }
    let mut held: BTreeMap<u8, i64> = BTreeMap::new();
    for ((memory, at), change) in changes {
        let now = held.entry(memory).or_default();
        *now += change;
        let name = format!("memory {}", MemoryKind(memory).name());
        events.push(json!({"ph": "C", "name": name, "pid": rank, "tid": 0, "ts": us(at), "args": {"bytes": *now}}));
    }
}

/// Start and end of each node's tasks, in nanoseconds.
pub fn node_times(m: &CompiledModel, report: &RunReport) -> HashMap<(u32, u32), (u64, u64)> {
    let mut out: HashMap<(u32, u32), (u64, u64)> = HashMap::new();
    for p in &report.tasks {
        let Some(t) = m.tasks.get(p.task as usize) else { continue };
        let e = out.entry((t.graph, t.node)).or_insert((p.start_ns, p.end_ns));
        *e = (e.0.min(p.start_ns), e.1.max(p.end_ns));
    }
    out
}

/// When each node's outputs are last read. A node without a task passes the time of its readers on
/// to its inputs.
fn last_use(nodes: &[NodeInfo], graph: u32, times: &HashMap<(u32, u32), (u64, u64)>, run_end: u64) -> Vec<u64> {
    let mut ends = vec![0u64; nodes.len()];
    for (i, n) in nodes.iter().enumerate().rev() {
        let used = match times.get(&(graph, i as u32)) {
            Some((_, end)) => *end,
            None if n.outputs.is_empty() => run_end,
            None => ends[i],
        };
        for v in n.inputs.iter().flatten() {
            if let Some(e) = ends.get_mut(v.node as usize) {
                *e = (*e).max(used);
            }
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use ge_model::{GraphInfo, PhysicalInfo, TaskInfo, ValueAt};

    #[test]
    fn a_trace_has_a_track_a_stream_a_flow_an_event_and_memory_that_falls_back_to_nothing() {
        let slot = SlotInfo { space: SlotInfo::FEATURE, size: 512, ..SlotInfo::default() };
        let a =
            NodeInfo { name: "a".into(), slots: vec![slot], outputs: vec![Default::default()], ..NodeInfo::default() };
        let b =
            NodeInfo { name: "b".into(), inputs: vec![Some(ValueAt { node: 0, output: 0 })], ..NodeInfo::default() };
        let task = |kind: TaskType, node, stream, sync_id| TaskInfo {
            kind: kind.code(),
            node,
            stream,
            sync_id,
            kernel_name: if kind == TaskType::KERNEL { "k".into() } else { String::new() },
            ..TaskInfo::default()
        };
        let mut m = CompiledModel { name: "m".into(), ..CompiledModel::default() };
        m.graphs = vec![GraphInfo { nodes: vec![a, b], ..GraphInfo::default() }];
        m.streams.physical = vec![PhysicalInfo::default(), PhysicalInfo::default()];
        m.tasks = vec![
            task(TaskType::KERNEL, 0, 0, None),
            task(TaskType::EVENT_RECORD, 0, 0, Some(3)),
            task(TaskType::EVENT_WAIT, 1, 1, Some(3)),
            task(TaskType::KERNEL, 1, 1, None),
        ];
        let times = [(0, 10), (10, 12), (0, 13), (13, 20)];
        let tasks = times
            .iter()
            .enumerate()
            .map(|(i, (s, e))| TaskProfile { task: i as u32, start_ns: *s, end_ns: *e })
            .collect();
        let report = RunReport { tasks, elapsed_ns: 20, ..RunReport::default() };
        let t = trace(&[Lane { name: String::new(), model: &m, report: &report }]);
        let of = |ph: &str| t["traceEvents"].as_array().expect("a list").iter().filter(|e| e["ph"] == ph).count();
        assert_eq!((of("X"), of("s"), of("f")), (4, 1, 1));
        let memory: Vec<i64> = t["traceEvents"]
            .as_array()
            .expect("a list")
            .iter()
            .filter(|e| e["ph"] == "C")
            .filter_map(|e| e["args"]["bytes"].as_i64())
            .collect();
        assert_eq!(memory, [512, 0]);
        assert_eq!(t["otherData"]["host_tiling"], 0);
    }
}
