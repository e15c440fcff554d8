//! `--per-node`: how long each node's kernels took, and how close that is to the machine's peak.
use super::Subject;
use crate::Result;
use crate::session::Session;
use ge_model::CompiledModel;
use ge_plugin_api::device::{RunReport, SocSpec};
use ge_runtime::RunOptions;
use ge_runtime::work::NodeWork;
use serde_json::{Value, json};
use std::collections::HashMap;

/// Number of profiled runs; their mean is shown.
const PROFILED: u32 = 5;

/// Peak rates of the machine, as measured by the device, per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// Operations in single precision.
    pub singles: f64,
    /// Operations on bytes.
    pub bytes: f64,
    /// Operations on bf16; the same as `singles` if the device does not report it.
    pub bf16: f64,
    /// Bytes that a copy reads and writes in total.
    pub copied: f64,
    /// Bytes that are only read; the same as `copied` if the device does not report it.
    pub read: f64,
}

impl Peak {
    /// The peak rates of the session's device; `None` if it cannot measure them.
    pub fn of(session: &Session, soc: &SocSpec) -> Result<Option<Peak>> {
        let Some(counters) = session.measured(soc)? else { return Ok(None) };
        let rate = |name: &str| counters.iter().find(|c| c.name == name).map(|c| c.value as f64).filter(|v| *v > 0.0);
        let rates = (
            rate("peak_operations_a_second"),
            rate("peak_byte_operations_a_second"),
            rate("peak_bytes_copied_a_second"),
        );
        let (Some(singles), Some(bytes), Some(copied)) = rates else { return Ok(None) };
        let bf16 = rate("peak_bf16_operations_a_second").unwrap_or(singles);
        let read = rate("peak_bytes_read_a_second").unwrap_or(copied);
        Ok(Some(Peak { singles, bytes, bf16, copied, read }))
    }

    /// The shortest possible time for the work on this machine, divided by the time it took
    /// (roofline model: Williams, Waterman, Patterson 2009).
    fn share(&self, work: &NodeWork, us: f64) -> f64 {
        let rate = match (work.on_bytes, work.on_bf16) {
            (true, _) => self.bytes,
            (_, true) => self.bf16,
            _ => self.singles,
        };
        let least = (work.operations as f64 / rate).max(work.bytes as f64 / self.copied.max(self.read));
        if us > 0.0 { least * 1e6 / us } else { 0.0 }
    }

    /// The peak rates as JSON.
    pub fn json(&self) -> Value {
        json!({
            "flops_per_s": self.singles, "byte_ops_per_s": self.bytes, "bf16_ops_per_s": self.bf16,
            "bytes_per_s": self.copied, "bytes_read_per_s": self.read,
        })
    }
}

/// One row of the table.
struct Line {
    name: String,
    op: String,
    engine: String,
    ns: u64,
    work: NodeWork,
}

/// The kernels of the model's nodes in the order in which they first ran, for the inputs of a case.
pub fn nodes(s: &Subject, case: usize, peak: Option<&Peak>) -> Result<Vec<Value>> {
    let mut lines: Vec<Line> = Vec::new();
    let mut at: HashMap<(String, String), usize> = HashMap::new();
    for _ in 0..PROFILED {
        let ran = s.run(case, RunOptions { profile: true })?;
        if ran.parts.is_empty() && ran.hosted.is_empty() {
            add(s, s.model.info(), &ran.report, &mut lines, &mut at);
        }
        for p in &ran.parts {
            add(s, p.model(), &p.report, &mut lines, &mut at);
        }
        for h in &ran.hosted {
            let line = *at.entry((h.graph.clone(), h.node.clone())).or_insert_with(|| {
                let (name, op, engine) = (h.node.clone(), h.op.clone(), "host".to_owned());
                lines.push(Line { name, op, engine, ns: 0, work: NodeWork::default() });
                lines.len() - 1
            });
            lines[line].ns += h.end_ns.saturating_sub(h.start_ns);
        }
    }
    let runs = f64::from(PROFILED);
    let whole: f64 = lines.iter().map(|l| l.ns as f64 / 1e3 / runs).sum();
    let one = |l: &Line| {
        let us = l.ns as f64 / 1e3 / runs;
        // A node in a loop runs several times per run.
        let share = peak.map(|p| p.share(&l.work, us * f64::from(PROFILED)));
        let of = |v: u64| if v == 0 { Value::Null } else { json!((v as f64 / runs).round() as u64) };
        json!({
            "name": l.name, "op": l.op, "engine": l.engine, "us": us, "time_share": if whole > 0.0 { us / whole } else { 0.0 },
            "share": share.filter(|s| *s > 0.0), "bytes": of(l.work.bytes), "flops": of(l.work.operations),
        })
    };
    Ok(lines.iter().map(one).collect())
}

/// Adds the launches of a report: each launch adds its time to its node.
fn add(
    s: &Subject,
    m: &CompiledModel,
    report: &RunReport,
    lines: &mut Vec<Line>,
    at: &mut HashMap<(String, String), usize>,
) {
    // Several tasks of a node share its work, so only the first task counts it, each time it runs.
    let mut first: HashMap<(u32, u32), u32> = HashMap::new();
    for (i, t) in m.tasks.iter().enumerate().filter(|(_, t)| !t.kernel_name.is_empty()) {
        first.entry((t.graph, t.node)).or_insert(i as u32);
    }
    for t in &report.tasks {
        let Some(task) = m.tasks.get(t.task as usize).filter(|t| !t.kernel_name.is_empty()) else { continue };
        let Some(n) = m.node(task.graph, task.node) else { continue };
        let graph = m.every_graph().nth(task.graph as usize).map_or("", |g| g.name.as_str());
        let line = *at.entry((graph.to_owned(), n.name.clone())).or_insert_with(|| {
            let (name, op, engine) = (n.name.clone(), n.op.clone(), n.engine.clone());
            lines.push(Line { name, op, engine, ns: 0, work: NodeWork::default() });
            lines.len() - 1
        });
        let line = &mut lines[line];
        line.ns += t.end_ns.saturating_sub(t.start_ns);
        if first.get(&(task.graph, task.node)) == Some(&t.task) {
            let known = s.work(m, task.graph, task.node);
            line.work.bytes += known.bytes;
            line.work.operations += known.operations;
            (line.work.on_bytes, line.work.on_bf16) = (known.on_bytes, known.on_bf16);
        }
    }
}
