//! The context graph of an FFTS+ task: slices and windows, what each context is, and which contexts
//! wait for it.
use ge_model::context_graph::{self, ContextGraph};
use ge_model::launch::Launch;
use ge_model::{CompiledModel, TaskInfo};
use ge_plugin_api::task::ContextType;
use serde_json::{Value, json};

fn graph(m: &CompiledModel, t: &TaskInfo) -> Option<(ContextGraph, Vec<Launch>)> {
    context_graph::of_task(t, m.node(t.graph, t.node).map_or("", |n| &n.name))
}

/// The context graph as JSON.
pub fn json(m: &CompiledModel, t: &TaskInfo) -> Option<Value> {
    let (g, launches) = graph(m, t)?;
    let of = |k: u32| launches.get(k as usize);
    let contexts: Vec<Value> = g
        .contexts
        .iter()
        .enumerate()
        .map(|(id, c)| {
            let (full, tail) = c.launch.map_or((None, None), |(a, b)| (of(a), of(b)));
            json!({
                "id": id, "type": ContextType(c.kind).name(), "node": c.name, "pred_cnt": c.pred_cnt, "successors": c.successors,
                "kernel_name": full.map(|l| l.kernel_name.as_str()), "tail_kernel_name": tail.map(|l| l.kernel_name.as_str()),
                "non_tail_block_dim": full.map(|l| l.block_dim), "tail_block_dim": tail.map(|l| l.block_dim),
                "args": c.args.iter().map(|a| json!({
                    "arg": if a.arg == u32::MAX { Value::Null } else { json!(a.arg) }, "offset": a.offset, "step": a.step,
                    "per": if a.lane { "lane" } else { "slice" }, "bytes": a.bytes, "tail_bytes": a.tail_bytes,
                })).collect::<Vec<_>>(),
            })
        })
        .collect();
    Some(json!({
        "extent": g.extent, "slice": g.rows, "threads": g.threads, "window": g.window, "slice_bytes": g.lane_bytes,
        "working_set": g.lane_bytes * u64::from(g.window), "whole_bytes": g.whole_bytes, "contexts": contexts,
    }))
}

/// The context graph as text: a line for the slicing if there is one, and one line per context.
pub fn text(m: &CompiledModel, t: &TaskInfo) -> Option<String> {
    let (g, _) = graph(m, t)?;
    let cut = format!(
        "{:>31}{} slices of {} of {}, {} under way; between nodes {} bytes instead of {}\n",
        "",
        g.threads,
        g.rows,
        g.extent,
        g.window,
        g.lane_bytes * u64::from(g.window),
        g.whole_bytes
    );
    let mut out = if t.private.is_empty() { String::new() } else { cut };
    for (id, c) in g.contexts.iter().enumerate() {
        let next: Vec<String> = c.successors.iter().map(u32::to_string).collect();
        let next = if next.is_empty() { String::new() } else { format!(" -> {}", next.join(", ")) };
        let name = if c.name.is_empty() { String::new() } else { format!(" {}", c.name) };
        out.push_str(&format!("{:>31}#{id} {}{name}, waits for {}{next}\n", "", ContextType(c.kind), c.pred_cnt));
    }
    Some(out)
}
