//! A drawing of a compiled model: tasks on their streams with arrows for events, and memory offsets over the same order. Time is
//! the planner's: engines' estimates, in-order streams, waits for records.
use ge_model::{CompiledModel, SlotInfo};
use ge_plugin_api::task::TaskType;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

const WIDTH: f64 = 1400.0;
const LEFT: f64 = 90.0;
const LANE: f64 = 26.0;
const MEMORY: f64 = 320.0;
/// More tasks than this are drawn without names.
const NAMED: usize = 400;

/// Start and end of every task by the estimates.
fn times(m: &CompiledModel) -> Vec<(u64, u64)> {
    let mut streams = vec![0u64; m.streams.physical.len()];
    let mut records: BTreeMap<(bool, u32), Vec<u64>> = BTreeMap::new();
    let mut taken: BTreeMap<(bool, u32), usize> = BTreeMap::new();
    let mut out = vec![(0, 0); m.tasks.len()];
    let mut queues: Vec<Vec<usize>> = vec![Vec::new(); streams.len()];
    for (i, t) in m.tasks.iter().enumerate() {
        if let Some(q) = queues.get_mut(t.stream as usize) {
            q.push(i);
        }
    }
    let mut at = vec![0usize; queues.len()];
    // A stream that is woken starts then.
    let mut awake: Vec<bool> = m.streams.physical.iter().map(|p| p.head).collect();
    // Each round runs every stream until it waits for a record that has not come.
    loop {
        let mut moved = false;
        for s in 0..queues.len() {
            if !awake[s] {
                continue;
            }
            while let Some(&i) = queues[s].get(at[s]) {
                let t = &m.tasks[i];
                let kind = TaskType(t.kind);
                let notify = matches!(kind, TaskType::NOTIFY_RECORD | TaskType::NOTIFY_WAIT);
                let key = (notify, t.sync_id.unwrap_or(0));
                let start = streams[s];
                let mut end = start.saturating_add(t.time_ns.max(m.soc.task_launch_ns).max(1));
                if matches!(kind, TaskType::EVENT_WAIT | TaskType::NOTIFY_WAIT) {
                    let k = taken.entry(key).or_default();
                    let Some(r) = records.get(&key).and_then(|r| r.get(*k)) else { break };
                    *k += 1;
                    end = end.max(*r);
                }
                let wakes = match kind {
                    TaskType::STREAM_ACTIVE => t.numbers.first(),
                    TaskType::STREAM_SWITCH => t.numbers.get(2),
                    _ => None,
                };
                if let Some(w) = wakes.and_then(|w| usize::try_from(*w).ok()).filter(|w| *w < awake.len()) {
                    if !std::mem::replace(&mut awake[w], true) {
                        streams[w] = streams[w].max(end);
                    }
                }
                if matches!(kind, TaskType::EVENT_RECORD | TaskType::NOTIFY_RECORD) {
                    records.entry(key).or_default().push(end);
                }
                out[i] = (start, end);
                streams[s] = end;
                at[s] += 1;
                moved = true;
            }
        }
        if !moved {
            return out;
        }
    }
}

fn escape(s: &str) -> String {
    s.chars()
        .filter(|c| !c.is_control())
        .collect::<String>()
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

fn colour(text: &str) -> String {
    let hash = text.bytes().fold(5381u32, |h, b| h.wrapping_mul(33) ^ u32::from(b));
    format!("hsl({},55%,70%)", hash % 360)
}

/// The drawing.
pub fn draw(m: &CompiledModel) -> String {
    let times = times(m);
    let end = times.iter().map(|t| t.1).max().unwrap_or(1).max(1);
    let x = |ns: u64| LEFT + ns as f64 / end as f64 * (WIDTH - LEFT - 20.0);
    let lanes = m.streams.physical.len();
    let y = |s: u32| 40.0 + f64::from(s) * LANE;
    let top = 40.0 + lanes as f64 * LANE + 40.0;
    let height = top + MEMORY + 40.0;
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"10\">"
    );
    let _ = writeln!(
        out,
        "<defs><marker id=\"a\" markerWidth=\"6\" markerHeight=\"6\" refX=\"5\" refY=\"3\" orient=\"auto\"><path d=\"M0,0L6,3L0,6z\"/></marker></defs>"
    );
    let _ = writeln!(
        out,
        "<text x=\"10\" y=\"18\" font-size=\"14\">{} for {}: {} tasks, {} streams, {} ns by the estimates</text>",
        escape(&m.name),
        escape(&m.soc.name),
        m.tasks.len(),
        lanes,
        end
    );
    for s in 0..lanes as u32 {
        let _ = writeln!(
            out,
            "<text x=\"10\" y=\"{}\">stream {s}</text><line x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{1}\" y2=\"{1}\" stroke=\"#ddd\"/>",
            y(s) + 14.0,
            y(s) + LANE - 3.0
        );
    }
    let mut sides: BTreeMap<(bool, u32), [Vec<usize>; 2]> = BTreeMap::new();
    for (i, t) in m.tasks.iter().enumerate() {
        let (start, stop) = times[i];
        let node = m.node(t.graph, t.node);
        let name = node.map_or("", |n| n.name.as_str());
        let kind = TaskType(t.kind).name();
        let (left, width) = (x(start), (x(stop) - x(start)).max(0.5));
        let _ = writeln!(
            out,
            "<rect x=\"{left:.2}\" y=\"{}\" width=\"{width:.2}\" height=\"{}\" fill=\"{}\"><title>{} {} {}</title></rect>",
            y(t.stream),
            LANE - 6.0,
            colour(node.map_or(kind, |n| n.op.as_str())),
            i,
            escape(kind),
            escape(name)
        );
        if m.tasks.len() <= NAMED && width > 30.0 {
            let fit: String =
                name.chars().rev().take((width / 6.0) as usize).collect::<Vec<_>>().into_iter().rev().collect();
            let _ = writeln!(out, "<text x=\"{:.2}\" y=\"{}\">{}</text>", left + 2.0, y(t.stream) + 14.0, escape(&fit));
        }
        let side = match TaskType(t.kind) {
            TaskType::EVENT_RECORD => Some((false, 0)),
            TaskType::EVENT_WAIT => Some((false, 1)),
            TaskType::NOTIFY_RECORD => Some((true, 0)),
            TaskType::NOTIFY_WAIT => Some((true, 1)),
            _ => None,
        };
        if let (Some((notify, side)), Some(id)) = (side, t.sync_id) {
            sides.entry((notify, id)).or_default()[side].push(i);
        }
    }
    for ((notify, id), [records, waits]) in &sides {
        for (r, w) in records.iter().zip(waits) {
            let (a, b) = (&m.tasks[*r], &m.tasks[*w]);
            let what = if *notify { "notify" } else { "event" };
            let _ = writeln!(
                out,
                "<line x1=\"{:.2}\" y1=\"{}\" x2=\"{:.2}\" y2=\"{}\" stroke=\"#333\" marker-end=\"url(#a)\"><title>{what} {id}</title></line>",
                x(times[*r].1),
                y(a.stream) + 10.0,
                x(times[*w].1),
                y(b.stream) + 10.0
            );
        }
    }
    memory(m, &times, end, top, &x, &mut out);
    out.push_str("</svg>\n");
    out
}

/// Boxes of values: from the task that writes to the last that reads, at their offsets.
fn memory(m: &CompiledModel, times: &[(u64, u64)], end: u64, top: f64, x: &dyn Fn(u64) -> f64, out: &mut String) {
    let size = m.memory.spaces.iter().map(|s| s.size).max().unwrap_or(0).max(1);
    let y = |offset: u64| top + offset as f64 / size as f64 * MEMORY;
    let _ = writeln!(
        out,
        "<text x=\"10\" y=\"{}\">memory</text><text x=\"10\" y=\"{}\">{} bytes</text>",
        top + 10.0,
        top + MEMORY,
        size
    );
    let mut of: HashMap<(u32, u32), (u64, u64)> = HashMap::new();
    for (t, (a, b)) in m.tasks.iter().zip(times) {
        let e = of.entry((t.graph, t.node)).or_insert((*a, *b));
        *e = (e.0.min(*a), e.1.max(*b));
    }
    for (gi, g) in m.graphs.iter().enumerate() {
        let mut ends = vec![0u64; g.nodes.len()];
        for (i, n) in g.nodes.iter().enumerate().rev() {
            let used = match of.get(&(gi as u32, i as u32)) {
                Some((_, e)) => *e,
                None if n.outputs.is_empty() => end,
                None => ends[i],
            };
            for v in n.inputs.iter().flatten() {
                if let Some(e) = ends.get_mut(v.node as usize) {
                    *e = (*e).max(used);
                }
            }
        }
        for (i, n) in g.nodes.iter().enumerate() {
            let Some((start, stop)) = of.get(&(gi as u32, i as u32)) else { continue };
            for s in n.slots.iter().filter(|s| s.space == SlotInfo::FEATURE && s.size > 0) {
                let (a, b) = (x(*start), x(ends[i].max(*stop)));
                let _ = writeln!(
                    out,
                    "<rect x=\"{a:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{:.2}\" fill=\"{}\" fill-opacity=\"0.7\" stroke=\"#555\" stroke-width=\"0.3\"><title>{} offset {} size {}</title></rect>",
                    y(s.offset),
                    (b - a).max(0.5),
                    (s.size as f64 / size as f64 * MEMORY).max(0.5),
                    colour(&n.op),
                    escape(&n.name),
                    s.offset,
                    s.size
                );
            }
        }
    }
}
