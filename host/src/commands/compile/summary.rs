//! The report on a compiled model: as text, and as the JSON document of `ge compile --json`.
use super::super::calibration;
use super::fallback::Fallback;
use crate::render::progress::group;
use crate::session::Compiled;
use std::path::Path;
use std::time::Instant;

/// Returns the text and the JSON document.
pub fn of(
    c: &Compiled,
    fallbacks: &[Fallback],
    output: &Path,
    bytes: u64,
    start: Instant,
) -> (String, serde_json::Value) {
    let m = &c.model;
    let mut engines: Vec<(String, usize, u64)> = Vec::new();
    let all = std::iter::once(m).chain(&m.parts).flat_map(|p| p.tasks.iter().map(move |t| (p, t)));
    for (p, t) in all.filter(|(_, t)| !t.kernel_name.is_empty()) {
        let Some(n) = p.node(t.graph, t.node) else { continue };
        let at = engines.iter().position(|e| e.0 == n.engine).unwrap_or_else(|| {
            engines.push((n.engine.clone(), 0, 0));
            engines.len() - 1
        });
        engines[at].1 += 1;
        engines[at].2 += t.time_ns;
    }
    let total: u64 = engines.iter().map(|e| e.2).sum();
    let share = |ns: u64| if total == 0 { 0.0 } else { ns as f64 * 100.0 / total as f64 };
    let nodes: usize = m.every_graph().map(|g| g.nodes.len()).sum();
    let mut text = format!(
        "compiled {} ({} nodes, {} tasks) to {} ({} bytes) for {}\n",
        m.name,
        group(nodes as u64),
        group(m.task_count() as u64),
        output.display(),
        group(bytes),
        m.soc.name
    );
    for (e, n, ns) in &engines {
        text.push_str(&format!("  {e}: {n} nodes, {:.0} % of the cost\n", share(*ns)));
    }
    if !fallbacks.is_empty() {
        let mut by: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
        for f in fallbacks {
            *by.entry(format!(
                "{} on {}{}",
                f.types(),
                f.engine,
                f.reasons.first().map_or(String::new(), |r| format!(" ({r})"))
            ))
            .or_default() += 1;
        }
        text.push_str(&format!("  fallbacks: {}\n", fallbacks.len()));
        for (what, n) in by {
            text.push_str(&format!("    {n} x {what}\n"));
        }
    }
    if let Some(gears) = &m.gears {
        let all: Vec<String> = (0..gears.list.len()).map(|k| gears.shown(k)).collect();
        let any = m.outside().map_or("", |_| "; other sizes by plans that each run makes");
        text.push_str(&format!("  gears: {}{any}\n", all.join("; ")));
    }
    if m.is_dynamic() {
        let open: Vec<String> =
            m.inputs.iter().filter(|i| !i.desc.is_static()).map(|i| format!("{}{}", i.name, i.desc.shape)).collect();
        let of = if open.is_empty() { "hang on values".to_owned() } else { format!("open in {}", open.join(", ")) };
        text.push_str(&format!("  sizes: {of}; engines are asked, memory and tasks planned by each run\n"));
        if m.streams.logical.len() > 1 {
            text.push_str(&format!("  streams: {} logical; events are planned by each run\n", m.streams.logical.len()));
        }
        if !m.parts.is_empty() {
            let parts: Vec<String> = m.parts.iter().map(|p| format!("{} ({} tasks)", p.name, p.tasks.len())).collect();
            text.push_str(&format!("  parts of known shape, planned now: {}\n", parts.join(", ")));
        }
    } else {
        text.push_str(&format!(
            "  streams: {} logical, {} physical; events: {}\n",
            m.streams.logical.len(),
            m.streams.physical.len(),
            m.event_num
        ));
    }
    if let Some(mode) = super::super::reduced::by_default(m) {
        text.push_str(&format!(
            "  types: f32 as f16 where its numbers allow it, for {mode} is the default on {}; --set ge.exec.precision_mode=must_keep_origin_dtype keeps the model's own\n",
            m.soc.name
        ));
    }
    if let Some(found) = &c.calibration {
        text.push_str(&format!("  {}\n", calibration::line(found)));
    }
    for s in &m.memory.spaces {
        let own = s.size - s.zero_copy;
        let ratio = if s.lower_bound == 0 { 1.0 } else { own as f64 / s.lower_bound as f64 };
        text.push_str(&format!(
            "  memory {}: {} bytes, {} zero copy; {} over {} lower bound = {ratio:.3}\n",
            s.memory,
            group(s.size),
            group(s.zero_copy),
            group(own),
            group(s.lower_bound)
        ));
    }
    text.push_str(&format!(
        "  weights: {} bytes\n  kernels: {} compiled with their subgraphs, {} alone, {} times one that was there\n  {:.2} s, peak {} MiB",
        group(m.memory.weights),
        c.kernels.fused_graph,
        c.kernels.single_op,
        c.kernels.hits,
        start.elapsed().as_secs_f32(),
        peak_mib()
    ));
    let mut json = serde_json::json!({
        "schema": 1, "model": m.name, "output": output.display().to_string(), "bytes": bytes, "soc": m.soc.name.as_str(), "nodes": nodes, "tasks": m.task_count(),
        "shape": if m.is_dynamic() { "unknown" } else { "known" },
        "engines": engines.iter().map(|(e, n, ns)| serde_json::json!({"name": e, "nodes": n, "cost_share": share(*ns)})).collect::<Vec<_>>(),
        "fallbacks": fallbacks.iter().map(|f| serde_json::json!({"node": f.node, "op": f.op, "engine": f.engine, "reasons": f.reasons})).collect::<Vec<_>>(),
        "streams": {"logical": m.streams.logical.len(), "physical": m.streams.physical.len()}, "event_num": m.event_num,
        "memory": m.memory.spaces.iter().map(|s| (s.memory.clone(), serde_json::json!({"size": s.size, "lower_bound": s.lower_bound, "zero_copy": s.zero_copy, "assigner": s.assigner}))).collect::<serde_json::Map<_, _>>(),
        "kernels": {"fused_graph": c.kernels.fused_graph, "single_op": c.kernels.single_op, "hits": c.kernels.hits},
        "weights": m.memory.weights, "seconds": start.elapsed().as_secs_f64(), "peak_rss_bytes": peak_bytes(),
        "stages": c.times.iter().map(|t| serde_json::json!({"stage": t.stage, "seconds": t.micros as f64 / 1e6})).collect::<Vec<_>>(),
    });
    if let Some(found) = &c.calibration {
        json["calibration"] = calibration::document(found);
    }
    (text, json)
}

/// Peak resident memory of this process in bytes; 0 if the system does not report it.
pub fn peak_bytes() -> u64 {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return 0 };
    let kib = status
        .lines()
        .find_map(|l| l.strip_prefix("VmHWM:"))
        .and_then(|l| l.trim().split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
fn peak_mib() -> u64 {
    peak_bytes() >> 20
}
