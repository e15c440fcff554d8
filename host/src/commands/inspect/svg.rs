//! `--svg FILE`: draws a compiled model over simulated time (`timetable`). Lanes show the tasks of
//! each stream, with an arrow from every record to its wait. Below, each kind of memory shows its
//! values at their offsets, from the task that writes a value to the last one that reads it.
//! `--what` selects: `streams`, `tasks` and `events` the lanes, `memory` the memory; without it,
//! both are drawn.
use super::timetable::{self, Pair};
use ge_model::{CompiledModel, NodeInfo, SlotInfo, TaskInfo};
use ge_plugin_api::device::MemoryKind;
use ge_plugin_api::task::TaskType;
use std::collections::HashMap;
use std::fmt::Write;

pub(super) const WIDTH: f64 = 1400.0;
const LEFT: f64 = 90.0;
pub(super) const LANE: f64 = 26.0;
/// Height of one memory panel: beside other panels, and alone.
const MEMORY: [f64; 2] = [320.0, 640.0];
const GAP: f64 = 40.0;
/// With more tasks than this, no names are drawn.
const NAMED: usize = 400;

/// The panels to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Panels {
    /// Tasks on their streams.
    pub lanes: bool,
    /// Values in memory.
    pub memory: bool,
}

impl Panels {
    /// The panels that the parts of `--what` select; both if they select none.
    pub fn of(parts: &[String]) -> Panels {
        let asked = |names: &[&str]| parts.iter().any(|p| names.contains(&p.as_str()));
        let (lanes, memory) = (asked(&["streams", "tasks", "events"]), asked(&["memory"]));
        if lanes || memory { Panels { lanes, memory } } else { Panels { lanes: true, memory: true } }
    }
}

/// Start and end of each task; `None` if it never runs.
type Times = Vec<Option<(u64, u64)>>;

struct Drawing<'m> {
    m: &'m CompiledModel,
    times: Times,
    end: u64,
    out: String,
}

/// Draws the model.
pub fn draw(m: &CompiledModel, panels: Panels) -> String {
    let times = timetable::times(m);
    let end = times.iter().flatten().map(|t| t.1).max().unwrap_or(0).max(1);
    let mut d = Drawing { m, times, end, out: String::new() };
    let lanes = if panels.lanes { m.streams.physical.len() as f64 * LANE + GAP } else { 0.0 };
    let used: Vec<(&str, u64)> =
        m.memory.spaces.iter().filter(|s| s.size > 0).map(|s| (s.memory.as_str(), s.size)).collect();
    let each = if panels.lanes { MEMORY[0] } else { MEMORY[1] };
    let spaces = if panels.memory { used.as_slice() } else { &[] };
    let height = GAP + lanes + spaces.len() as f64 * (each + GAP);
    d.put(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"10\">"
    ));
    d.put(format_args!(
        "<defs><marker id=\"a\" markerWidth=\"6\" markerHeight=\"6\" refX=\"5\" refY=\"3\" orient=\"auto\"><path d=\"M0,0L6,3L0,6z\"/></marker></defs>"
    ));
    d.put(format_args!(
        "<text x=\"10\" y=\"18\" font-size=\"14\">{} for {}: {} tasks on {} streams, {:.2} us by the simulated clock (loops once)</text>",
        escape(&m.name),
        escape(&m.soc.name),
        m.tasks.len(),
        m.streams.physical.len(),
        end as f64 / 1e3
    ));
    if panels.lanes {
        d.lanes();
        d.arrows();
    }
    if !spaces.is_empty() {
        let lives = d.lives();
        for (i, (kind, size)) in spaces.iter().enumerate() {
            d.memory(kind, *size, GAP + lanes + i as f64 * (each + GAP), each, &lives);
        }
    }
    d.out.push_str("</svg>\n");
    d.out
}

pub(super) fn escape(s: &str) -> String {
    let plain: String = s.chars().filter(|c| !c.is_control()).collect();
    plain.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

pub(super) fn colour(text: &str) -> String {
    let hash = text.bytes().fold(5381u32, |h, b| h.wrapping_mul(33) ^ u32::from(b));
    format!("hsl({},55%,70%)", hash % 360)
}

/// The last letters of a name, as many as fit into a box.
pub(super) fn name_in(name: &str, (left, top, width): (f64, f64, f64)) -> String {
    let skip = name.chars().count().saturating_sub((width / 6.0) as usize);
    let fit = escape(&name.chars().skip(skip).collect::<String>());
    format!("<text x=\"{:.2}\" y=\"{}\">{fit}</text>\n", left + 2.0, top + 14.0)
}

/// The name of a lane, and the line below its boxes, which begins at `left`.
pub(super) fn lane_named(name: &str, left: f64, top: f64) -> String {
    let (text, line) = (top + 14.0, top + LANE - 3.0);
    format!(
        "<text x=\"10\" y=\"{text}\">{name}</text><line x1=\"{left}\" x2=\"{WIDTH}\" y1=\"{line}\" y2=\"{line}\" stroke=\"#ddd\"/>\n"
    )
}

/// Vertical position of a stream's lane.
fn lane(stream: u32) -> f64 {
    GAP + f64::from(stream) * LANE
}

impl Drawing<'_> {
    fn put(&mut self, line: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.out, "{line}");
    }

    fn x(&self, ns: u64) -> f64 {
        LEFT + ns as f64 / self.end as f64 * (WIDTH - LEFT - 20.0)
    }

    fn lanes(&mut self) {
        let m = self.m;
        for s in 0..m.streams.physical.len() as u32 {
            self.out.push_str(&lane_named(&format!("stream {s}"), LEFT, lane(s)));
        }
        for (i, t) in m.tasks.iter().enumerate() {
            let Some((start, stop)) = self.times[i] else { continue };
            let node = m.node(t.graph, t.node);
            let (name, kind) = (node.map_or("", |n| n.name.as_str()), TaskType(t.kind).name());
            let (left, width) = (self.x(start), (self.x(stop) - self.x(start)).max(0.5));
            let (top, tall, fill) = (lane(t.stream), LANE - 6.0, colour(node.map_or(kind, |n| n.op.as_str())));
            self.put(format_args!(
                "<rect x=\"{left:.2}\" y=\"{top}\" width=\"{width:.2}\" height=\"{tall}\" fill=\"{fill}\"><title>{i} {} {}, {start} to {stop} ns</title></rect>",
                escape(kind),
                escape(name)
            ));
            if m.tasks.len() <= NAMED && width > 30.0 {
                self.out.push_str(&name_in(name, (left, top, width)));
            }
        }
    }

    fn arrows(&mut self) {
        let m = self.m;
        for Pair { notify, id, record, wait } in timetable::pairs(m) {
            let (Some((_, from)), Some((_, to))) = (self.times[record], self.times[wait]) else { continue };
            let (what, tasks) = (if notify { "notify" } else { "event" }, [&m.tasks[record], &m.tasks[wait]]);
            let [y1, y2] = tasks.map(|t: &TaskInfo| lane(t.stream) + 10.0);
            let (x1, x2) = (self.x(from), self.x(to));
            self.put(format_args!(
                "<line x1=\"{x1:.2}\" y1=\"{y1}\" x2=\"{x2:.2}\" y2=\"{y2}\" stroke=\"#333\" marker-end=\"url(#a)\"><title>{what} {id}</title></line>"
            ));
        }
    }

    /// The lifetime of each node's outputs, by graph. A node without a task shares the lifetime of
    /// the outputs that it refers to.
    fn lives(&self) -> Vec<Vec<Option<(u64, u64)>>> {
        let m = self.m;
        let mut runs: HashMap<(u32, u32), (u64, u64)> = HashMap::new();
        for (t, times) in m.tasks.iter().zip(&self.times) {
            let Some((a, b)) = *times else { continue };
            let e = runs.entry((t.graph, t.node)).or_insert((a, b));
            *e = (e.0.min(a), e.1.max(b));
        }
        let graph = |(gi, g): (usize, &ge_model::GraphInfo)| {
            let run = |i: usize| runs.get(&(gi as u32, i as u32)).copied();
            let mut last = vec![0u64; g.nodes.len()];
            for (i, n) in g.nodes.iter().enumerate().rev() {
                let used = match run(i) {
                    Some((_, stop)) => stop,
                    None if n.outputs.is_empty() => self.end,
                    None => last[i],
                };
                for v in n.inputs.iter().flatten() {
                    if let Some(l) = last.get_mut(v.node as usize) {
                        *l = (*l).max(used);
                    }
                }
            }
            let life = |(i, n): (usize, &NodeInfo)| match run(i) {
                Some((start, stop)) => Some((start, last[i].max(stop))),
                // Values from outside exist from the start.
                None => n.inputs.is_empty().then_some((0, last[i])),
            };
            g.nodes.iter().enumerate().map(life).collect()
        };
        m.graphs.iter().enumerate().map(graph).collect()
    }

    fn memory(&mut self, kind: &str, size: u64, top: f64, tall: f64, lives: &[Vec<Option<(u64, u64)>>]) {
        let m = self.m;
        self.put(format_args!(
            "<text x=\"10\" y=\"{}\">{}</text><text x=\"10\" y=\"{}\">{size} bytes</text>",
            top + 10.0,
            escape(kind),
            top + tall
        ));
        for (g, lives) in m.graphs.iter().zip(lives) {
            for (n, life) in g.nodes.iter().zip(lives) {
                let Some((from, to)) = *life else { continue };
                let boxes = n.slots.iter().map(|s| (s, "")).chain(n.workspaces.iter().map(|s| (s, " workspace")));
                for (s, what) in boxes.filter(|(s, _)| s.space == SlotInfo::FEATURE && s.size > 0) {
                    if MemoryKind(s.memory).name() != kind {
                        continue;
                    }
                    let (a, b) = (self.x(from), self.x(to));
                    let y = top + s.offset as f64 / size as f64 * tall;
                    let (wide, high) = ((b - a).max(0.5), (s.size as f64 / size as f64 * tall).max(0.5));
                    let (fill, own) = (colour(&n.op), if s.zero_copy { ", zero copy" } else { "" });
                    self.put(format_args!(
                        "<rect x=\"{a:.2}\" y=\"{y:.2}\" width=\"{wide:.2}\" height=\"{high:.2}\" fill=\"{fill}\" fill-opacity=\"0.7\" stroke=\"#555\" stroke-width=\"0.3\"><title>{}{what} at {}, {} bytes{own}</title></rect>",
                        escape(&n.name),
                        s.offset,
                        s.size
                    ));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ge_model::{GraphInfo, PhysicalInfo, SpaceInfo, ValueAt};

    /// `a` on stream 0, then `<b>` on stream 1, linked by one event.
    fn two_streams() -> CompiledModel {
        let mut m = CompiledModel { name: "m & n".into(), ..CompiledModel::default() };
        (m.soc.task_launch_ns, m.soc.event_record_ns, m.soc.event_wait_ns) = (3000, 500, 500);
        m.streams.physical = vec![PhysicalInfo { head: true, ..Default::default() }; 2];
        let slot = |offset| SlotInfo { space: SlotInfo::FEATURE, offset, size: 512, ..SlotInfo::default() };
        let node = |name: &str, inputs, offset| NodeInfo {
            name: name.into(),
            op: "Relu".into(),
            inputs,
            outputs: vec![Default::default()],
            slots: vec![slot(offset)],
            ..NodeInfo::default()
        };
        let b = node("<b>", vec![Some(ValueAt { node: 0, output: 0 })], 512);
        m.graphs = vec![GraphInfo { nodes: vec![node("a", Vec::new(), 0), b], ..GraphInfo::default() }];
        let task = |kind: TaskType, node, stream, sync_id, kernel: &str| TaskInfo {
            kind: kind.code(),
            node,
            stream,
            sync_id,
            kernel_name: kernel.into(),
            ..TaskInfo::default()
        };
        m.tasks = vec![
            task(TaskType::KERNEL, 0, 0, None, "k"),
            task(TaskType::EVENT_RECORD, 0, 0, Some(0), ""),
            task(TaskType::EVENT_WAIT, 1, 1, Some(0), ""),
            task(TaskType::KERNEL, 1, 1, None, "k"),
        ];
        m.memory.spaces = vec![SpaceInfo { memory: "HBM".into(), size: 1024, ..SpaceInfo::default() }];
        m
    }

    #[test]
    fn lanes_hold_tasks_and_arrows_and_memory_holds_lives() {
        let m = two_streams();
        let (lanes, memory) = (Panels { lanes: true, memory: false }, Panels { lanes: false, memory: true });
        let streams = draw(&m, lanes);
        assert_eq!(streams.matches("<rect").count(), 4, "{streams}");
        assert_eq!(streams.matches("marker-end").count(), 1, "{streams}");
        assert!(
            streams.contains("m &amp; n for ") && streams.contains("KERNEL &lt;b&gt;, 4000 to 7000 ns"),
            "{streams}"
        );
        let held = draw(&m, memory);
        assert_eq!(held.matches("<rect").count(), 2, "{held}");
        assert!(held.contains("<title>a at 0, 512 bytes</title>") && !held.contains("marker-end"), "{held}");
        // `a` lives until `<b>` has read it, which is the whole simulated time.
        assert!(held.contains("x=\"90.00\" y=\"40.00\" width=\"1290.00\""), "{held}");
        let both = draw(&m, Panels::of(&[]));
        assert_eq!(both.matches("<rect").count(), 6);
    }

    #[test]
    fn parts_choose_panels() {
        let of = |parts: &[&str]| {
            let p = Panels::of(&parts.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>());
            (p.lanes, p.memory)
        };
        assert_eq!([of(&[]), of(&["summary"])], [(true, true); 2]);
        assert_eq!([of(&["streams"]), of(&["tasks", "graph"]), of(&["events"])], [(true, false); 3]);
        assert_eq!((of(&["memory"]), of(&["streams", "memory"])), ((false, true), (true, true)));
    }
}
