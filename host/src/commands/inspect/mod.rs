//! `ge inspect MODEL_OR_OM`: shows the contents of a model, as text and as JSON (DESIGN 4).
mod foreign;
mod memory;
mod source;
mod rounds;
mod svg;
mod contexts;
mod exec;
mod timetable;

use super::compile::BuildFlags;
use crate::commands::flags::{CompileFlags, Global};
use crate::commands::talk::{print, print_json};
use crate::session::import::{self, FileKind};
use crate::session::{decode_om, open_om};
use crate::{Error, Result};
use clap::Args;
use ge_model::{CompiledModel, NodeInfo, SlotInfo, StreamAllocationSummary, UNKNOWN_SHAPE};
use ge_plugin_api::device::MemoryKind;
use ge_plugin_api::task::TaskType;
use ge_plugin_api::types::{AttrValue, ConstTensor, Dim, TensorDesc};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  ge inspect model.om --json")]
pub struct InspectArgs {
    /// A model or an OM file
    model: PathBuf,
    #[command(flatten)]
    flags: CompileFlags,
    /// Every node that front end, prototypes or engines refuse
    #[arg(long)]
    support: bool,
    /// Versions and plugins only
    #[arg(long)]
    header: bool,
    /// Draws an OM: tasks on their streams, values in memory, or what of them `--what` names
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Parts: summary,gears,graph,engines,streams,events,memory,tasks,weights,options,passes,exec
    #[arg(long, value_name = "PARTS", value_delimiter = ',', value_parser = clap::builder::PossibleValuesParser::new(PARTS), hide_possible_values = true)]
    what: Vec<String>,
}

const PARTS: &[&str] = &[
    "summary", "gears", "graph", "engines", "streams", "events", "memory", "tasks", "weights", "options", "passes",
    "exec",
];

/// Runs the command.
pub fn run(global: &Global, a: &InspectArgs) -> Result<u8> {
    let is_om = import::kind_of(&import::map(&a.model)?) == FileKind::Om;
    if a.support {
        if is_om {
            return Err(Error::usage(
                "an OM file is compiled: every node of it had its engine; `--support` is for models",
            ));
        }
        let (text, doc) = source::support(global, &a.model, &a.flags)?;
        // Exit code for scripts: 1 if a node is refused.
        let supported = doc["supported"] == true;
        return show(global, &doc, || text).map(|_| u8::from(!supported));
    }
    if !is_om {
        if a.header || a.svg.is_some() {
            return Err(Error::usage("`--header` and `--svg` are for OM files: compile the model first"));
        }
        let doc = source::document(global, &a.model, &a.flags)?;
        return show(global, &doc, || source::text(&doc));
    }
    let file = open_om(&a.model)?;
    if file.origin() == ge_om::reader::Origin::Foreign {
        let doc = foreign::document(&file);
        let part = if a.header { doc["header"].clone() } else { doc };
        return show(global, &part, || if a.header { foreign::header_text(&part) } else { foreign::text(&part) });
    }
    let m = decode_om(&a.model, &file)?;
    super::unused::check(global, &a.model, (&a.flags, &BuildFlags::default()), &m)?;
    if a.header {
        let doc = json!({"schema": 1, "kind": "om", "name": m.name, "version": m.version, "soc": m.soc.name.as_str(), "plugins": m.plugins, "header": foreign::header(&file)});
        return show(global, &doc, || {
            let mut text = format!("{} for {}, compiled by ge {}\n", m.name, m.soc.name, m.version);
            for p in &m.plugins {
                text.push_str(&format!("  plugin {} {} ({})\n", p.name, p.version, p.kinds.join(",")));
            }
            text.push_str(&foreign::header_text(&doc["header"]));
            text
        });
    }
    let asked = a.what.iter().any(|w| w == "exec");
    // The tasks of a model of unknown shapes are made by its runs: what is drawn is how.
    let drawn = a.svg.is_some() && (asked || a.what.is_empty() && m.is_dynamic());
    let exec = (asked || drawn).then(|| exec::of(global, &m)).transpose()?;
    if let Some(path) = &a.svg {
        let text = match exec.as_ref().filter(|_| drawn) {
            Some(e) => rounds::draw(&m, e),
            None => svg::draw(&m, svg::Panels::of(&a.what)),
        };
        crate::files::write_atomic(path, text.as_bytes())?;
    }
    let mut doc = document(&m);
    let exec = exec.filter(|_| asked);
    if global.json {
        if let Some(e) = &exec {
            doc["exec"] = exec::json(e);
        }
        print_json(&select(doc, &a.what))?;
    } else {
        let parts: Vec<&str> =
            if a.what.is_empty() { vec!["summary"] } else { a.what.iter().map(String::as_str).collect() };
        let mut text = String::new();
        for p in parts {
            if let Some(e) = exec.as_ref().filter(|_| p == "exec") {
                text.push_str(&exec::text(e));
                continue;
            }
            text.push_str(&text_of(&m, p));
            // The summary already has a line for each part of known shape, and the options are not
            // per part. All other sections are printed for each part as well.
            for part in m.parts.iter().filter(|_| !matches!(p, "summary" | "options")) {
                text.push_str(&format!("part {}\n{}", part.name, text_of(part, p)));
            }
        }
        print(&text)?;
    }
    Ok(0)
}

fn show(global: &Global, doc: &Value, text: impl FnOnce() -> String) -> Result<u8> {
    if global.json {
        print_json(doc)?
    } else {
        print(&text())?
    }
    Ok(0)
}

fn select(doc: Value, what: &[String]) -> Value {
    let Value::Object(all) = doc else { return Value::Null };
    if what.is_empty() {
        return Value::Object(all);
    }
    let keys: Vec<&str> = what
        .iter()
        .flat_map(|w| match w.as_str() {
            "summary" => &["plugins", "streams", "memory", "gears", "constant_inputs"][..],
            "gears" => &["gears"][..],
            "graph" | "engines" => &["graphs"][..],
            "streams" => &["streams"][..],
            "events" => &["events", "event_num", "notify_num", "rank_notify_num"][..],
            "memory" | "weights" => &["memory"][..],
            "tasks" => &["tasks"][..],
            "options" => &["options"][..],
            "exec" => &["exec", "ranges"][..],
            _ => &["passes"][..],
        })
        .copied()
        .collect();
    let inner = |(k, v): (String, Value)| match v {
        Value::Array(parts) if k == "parts" => (k, Value::Array(parts.into_iter().map(|p| select(p, what)).collect())),
        v => (k, v),
    };
    Value::Object(
        all.into_iter()
            .map(inner)
            .filter(|(k, _)| {
                matches!(k.as_str(), "schema" | "kind" | "name" | "version" | "soc" | "parts")
                    || keys.contains(&k.as_str())
            })
            .collect(),
    )
}

/// The gears: sizes, branch, event ids, and bytes of feature maps that hold the gear's nodes. Gears
/// share what they have in common.
fn gears(m: &CompiledModel) -> Vec<Value> {
    let Some(gears) = &m.gears else { return Vec::new() };
    let own = |k: usize| m.graphs.iter().flat_map(|g| &g.nodes).filter(move |n| m.gear_of(n) == Some(k));
    let one = |(k, g): (usize, &ge_model::Gear)| {
        let dims: Map<String, Value> = gears.dims.iter().zip(&g.sizes).map(|(d, n)| (d.clone(), json!(n))).collect();
        let names: BTreeSet<&str> = own(k).map(|n| n.name.as_str()).collect();
        let inside = |e: &&ge_model::EventInfo| names.contains(e.send.as_str()) && names.contains(e.recv.as_str());
        let events: BTreeSet<u32> = m.events.iter().filter(inside).map(|e| e.id).collect();
        let slots = own(k).flat_map(|n| n.slots.iter().chain(&n.workspaces));
        let mut held: Vec<(u64, u64)> = slots
            .filter(|s| s.space == ge_model::SlotInfo::FEATURE && !s.zero_copy && s.memory == 0)
            .map(|s| (s.offset, s.offset + s.size))
            .collect();
        held.sort_unstable();
        let mut memory = 0;
        let mut end = 0;
        for (from, to) in held {
            memory += to.saturating_sub(from.max(end));
            end = end.max(to);
        }
        let nodes = own(k).count();
        json!({"dims": dims, "graph": g.graph, "inputs": g.inputs, "outputs": g.outputs, "nodes": nodes, "events": events, "memory": memory})
    };
    gears.list.iter().enumerate().map(one).collect()
}

/// The whole JSON document of DESIGN 4.
pub fn document(m: &CompiledModel) -> Value {
    let graphs: Vec<Value> = m
        .graphs
        .iter()
        .enumerate()
        .map(|(gi, g)| {
            let (inputs, outputs): (Vec<Value>, Vec<Value>) = if gi == 0 {
                (
                    m.inputs.iter().enumerate().map(|(k, i)| io(&i.name, &i.desc, default_of(m, k))).collect(),
                    m.outputs.iter().map(|i| io(&i.name, &i.desc, None)).collect(),
                )
            } else {
                (Vec::new(), Vec::new())
            };
            let nodes: Vec<Value> = g.nodes.iter().enumerate().map(|(i, n)| node(m, gi, i, n)).collect();
            json!({"name": g.name, "shape": if g.attrs.flag(UNKNOWN_SHAPE) { "unknown" } else { "known" }, "inputs": inputs, "outputs": outputs, "nodes": nodes})
        })
        .collect();
    let of_ranks = rank_notifies(m);
    let parts: Vec<Value> = m.parts.iter().map(document).collect();
    let options: Map<String, Value> = m.options.iter().map(|(k, v)| (k.clone(), Value::String(v.clone()))).collect();
    json!({
        "schema": 1, "kind": "om", "name": m.name, "version": m.version, "soc": m.soc.name.as_str(), "options": options, "plugins": m.plugins,
        "graphs": graphs, "streams": streams(m),
        "events": m.events.iter().map(|e| json!({"id": e.id, "kind": if e.notify { "notify" } else { "event" }, "send": e.send, "recv": e.recv})).collect::<Vec<_>>(),
        "gears": gears(m),
        "constant_inputs": m.constant_inputs().iter().map(|(name, shape)| json!({"name": name, "shape": shape})).collect::<Vec<_>>(),
        "ranges": m.ranges.iter().map(|(k, r)| (k.clone(), json!([r.0, r.1]))).collect::<Map<_, _>>(),
        "event_num": m.event_num, "notify_num": m.notify_num - of_ranks, "rank_notify_num": of_ranks, "memory": memory::document(m), "tasks": tasks(m),
        "passes": m.passes, "parts": parts,
    })
}

/// Number of notifies that ranks use to signal each other within a collective. No task of this
/// model alone records or waits for them, so they are not in `events`.
fn rank_notifies(m: &CompiledModel) -> u32 {
    let listed: BTreeSet<u32> = m.events.iter().filter(|e| e.notify).map(|e| e.id).collect();
    m.notify_num.saturating_sub(listed.len() as u32)
}

fn shape(d: &TensorDesc) -> Value {
    if d.shape.is_unranked() {
        return Value::Null;
    }
    Value::Array(d.shape.dims().iter().map(|x| x.size().map_or(json!(-1), |s| json!(s))).collect())
}
/// The default value of an input, if it has one.
fn default_of(m: &CompiledModel, input: usize) -> Option<&ConstTensor> {
    m.default_inputs().into_iter().find(|(k, _)| *k == input).map(|(_, value)| value)
}

/// An input or output as JSON: open sizes are -1, with their name if they have one; an input with a
/// default also shows the default's sizes.
fn io(name: &str, d: &TensorDesc, default: Option<&ConstTensor>) -> Value {
    let mut v = json!({"name": name, "dtype": d.dtype.name(), "shape": shape(d)});
    if let (false, Value::Object(o)) = (d.shape.is_static(), &mut v) {
        let dim = |x: &Dim| x.symbol_name().map_or_else(|| x.size().map_or(json!(-1), |s| json!(s)), |n| json!(n));
        let dims = if d.shape.is_unranked() { Value::Null } else { d.shape.dims().iter().map(dim).collect() };
        o.insert("dims".into(), dims);
    }
    if let (Some(t), Value::Object(o)) = (default, &mut v) {
        o.insert("default".into(), json!({"shape": t.dims.as_slice()}));
    }
    v
}

/// Converts an attribute to JSON.
pub fn attr(v: &AttrValue) -> Value {
    match v {
        AttrValue::Int(i) => json!(i),
        AttrValue::Float(f) => json!(f),
        AttrValue::Bool(b) => json!(b),
        AttrValue::Str(s) => json!(s.as_str()),
        AttrValue::Type(d) => json!(d.name()),
        AttrValue::Ints(l) => json!(l.as_slice()),
        AttrValue::Floats(l) => json!(l.as_slice()),
        AttrValue::Strs(l) => Value::Array(l.iter().map(|s| json!(s.as_str())).collect()),
        AttrValue::List(l) => Value::Array(l.iter().map(attr).collect()),
        AttrValue::Dict(d) => Value::Object(d.iter().map(|e| (e.key.to_string(), attr(&e.value))).collect()),
        AttrValue::Graph(g) => json!(format!("@{g}")),
        AttrValue::Tensor(t) => json!(format!("dense<{}{:?}>", t.dtype, t.dims.as_slice())),
    }
}

fn output(d: &TensorDesc, s: &SlotInfo, op: &str) -> Value {
    let memory = if s.space == SlotInfo::FEATURE { MemoryKind(s.memory).name() } else { "HBM" };
    let offset = if s.space == SlotInfo::FEATURE && !matches!(op, "Const" | "Constant" | "Variable" | "FileConstant") {
        json!(s.offset)
    } else {
        Value::Null
    };
    let mut v = json!({
        "dtype": d.dtype.name(), "shape": shape(d), "format": d.format.name(), "origin_shape": d.origin_shape().dims().iter().map(|x| x.size().map_or(-1, |s| s as i64)).collect::<Vec<_>>(),
        "origin_format": d.origin_format().name(), "memory": memory, "offset": offset, "size": s.size, "zero_copy": s.zero_copy,
    });
    if let (Some(k), Value::Object(o)) = (s.ref_input, &mut v) {
        o.insert("ref_input".into(), json!(k));
    }
    v
}

fn node(m: &CompiledModel, gi: usize, id: usize, n: &NodeInfo) -> Value {
    let name = |i: u32| m.graphs[gi].nodes.get(i as usize).map_or("", |n| n.name.as_str());
    let refusals: Map<String, Value> = n.refusals.iter().map(|(who, why)| (who.clone(), json!(why))).collect();
    json!({
        "id": id, "name": n.name, "type": n.op, "engine": n.engine, "stream_id": n.stream, "logical_stream_id": n.logical_stream,
        "attached_stream_ids": n.attached_streams, "no_task": n.attrs.flag("_no_task"),
        "inputs": n.inputs.iter().map(|v| v.map_or_else(|| "_".to_owned(), |v| format!("{}:{}", name(v.node), v.output))).collect::<Vec<_>>(),
        "control_inputs": n.controls.iter().map(|c| name(*c)).collect::<Vec<_>>(),
        "outputs": n.outputs.iter().zip(&n.slots).map(|(d, s)| output(d, s, &n.op)).collect::<Vec<_>>(),
        "workspaces": n.workspaces.iter().map(|s| json!({"memory": MemoryKind(s.memory).name(), "offset": s.offset, "size": s.size})).collect::<Vec<_>>(),
        "attrs": n.attrs.sorted().into_iter().map(|a| (a.key.as_str().to_owned(), attr(&a.value))).collect::<Map<_, _>>(),
        "subgraphs": n.subgraphs, "refusals": refusals,
    })
}

fn streams(m: &CompiledModel) -> Value {
    let summary = StreamAllocationSummary::of(m);
    let logical: Vec<Value> = summary
        .all_logical_stream_infos()
        .iter()
        .map(|l| {
            json!({
                "id": l.logical_stream_id(), "user_label": l.usr_stream_label(), "attached": l.attached_stream_ids(),
                "physical": l.physical_stream_ids(), "hccl_followed": l.hccl_followed_stream_num(), "nodes": l.all_nodes(),
            })
        })
        .collect();
    let mut nodes: Vec<Vec<&str>> = vec![Vec::new(); m.streams.physical.len()];
    for n in m.graphs.iter().flat_map(|g| g.nodes.iter()) {
        let mut on: Vec<u32> = n.stream.iter().chain(&n.attached_streams).copied().collect();
        on.sort_unstable();
        on.dedup();
        for s in on {
            if let Some(list) = nodes.get_mut(s as usize) {
                list.push(n.name.as_str());
            }
        }
    }
    let mut tasks = vec![0usize; m.streams.physical.len()];
    for t in &m.tasks {
        if let Some(n) = tasks.get_mut(t.stream as usize) {
            *n += 1;
        }
    }
    let items: Vec<Value> = m
        .streams
        .physical
        .iter()
        .enumerate()
        .map(|(i, p)| {
            let l = m.streams.logical.get(p.logical as usize);
            json!({
                "id": i, "logical_id": p.logical, "label": l.map_or("", |l| l.label.as_str()),
                "kind": if l.is_some_and(|l| l.attached) { "attached" } else { "main" },
                "sleeps": !p.head, "huge": p.huge, "priority": p.priority, "tasks": tasks[i], "nodes": nodes[i],
            })
        })
        .collect();
    json!({
        "logical": m.streams.logical.len(), "main": m.streams.logical.iter().filter(|l| !l.attached).count(),
        "attached": summary.attached_stream_ids(),
        "physical": m.streams.physical.len(), "huge": m.streams.physical.iter().enumerate().filter(|(_, p)| p.huge).map(|(i, _)| i).collect::<Vec<_>>(),
        "hccl_followed": summary.hccl_followed_stream_nums(), "single": m.streams.single,
        "assigned_by_stream_pass": m.streams.assigned_by_stream_pass, "logical_items": logical, "items": items,
    })
}

fn tasks(m: &CompiledModel) -> Vec<Value> {
    let times = timetable::times(m);
    m.tasks
        .iter()
        .enumerate()
        .map(|(i, t)| {
            let kind = TaskType(t.kind);
            let event = matches!(kind, TaskType::EVENT_RECORD | TaskType::EVENT_WAIT);
            let mut v = json!({
                "index": i, "type": kind.name(), "node": m.node(t.graph, t.node).map(|n| n.name.as_str()), "stream_id": t.stream,
                "event_id": if event { json!(t.sync_id) } else { Value::Null }, "block_dim": t.block_dim, "args_format": t.args_format,
                "kernel_name": t.kernel_name, "so_name": t.so_name, "kernel_type": t.kernel_type,
            });
            if let Value::Object(o) = &mut v {
                if let Some((start, end)) = times[i] {
                    o.insert("start_ns".into(), json!(start));
                    o.insert("end_ns".into(), json!(end));
                }
                if !event && t.sync_id.is_some() {
                    o.insert("notify_id".into(), json!(t.sync_id));
                }
                if !t.nodes.is_empty() {
                    o.insert("nodes".into(), json!(t.nodes));
                }
                if let Some(target) = m.update_target(t) {
                    o.insert("updates".into(), json!(target));
                }
                if let Some(c) = contexts::json(m, t) {
                    o.insert("ffts_plus".into(), c);
                }
            }
            v
        })
        .collect()
}

/// The summary of document 004 as text: totals, the logical streams, and the physical streams of
/// each.
fn stream_lines(m: &CompiledModel) -> String {
    let summary = StreamAllocationSummary::of(m);
    let mut tasks = vec![0usize; m.streams.physical.len()];
    for t in &m.tasks {
        if let Some(n) = tasks.get_mut(t.stream as usize) {
            *n += 1;
        }
    }
    let attached = summary.attached_stream_ids();
    let mut out = format!(
        "{} logical streams ({} attached), {} physical, {} events, {} notifies{}{}\n",
        summary.all_logical_stream_infos().len(),
        attached.len(),
        summary.physical_stream_nums(),
        m.event_num,
        m.notify_num,
        if m.streams.single { ", single-stream mode" } else { "" },
        if summary.is_assigned_by_stream_pass() { ", changed by a stream pass" } else { "" },
    );
    for l in summary.all_logical_stream_infos() {
        let label = m.streams.logical.get(l.logical_stream_id() as usize).map_or("", |l| l.label.as_str());
        let kind = if attached.contains(&l.logical_stream_id()) { "attached " } else { "" };
        out.push_str(&format!("{kind}logical {}: {} nodes", l.logical_stream_id(), l.all_nodes().len()));
        for (what, name) in [("label", label), ("user's label", l.usr_stream_label())] {
            if !name.is_empty() {
                out.push_str(&format!(", {what} `{name}`"));
            }
        }
        out.push('\n');
        for p in l.physical_stream_ids() {
            let Some(s) = m.streams.physical.get(*p as usize) else { continue };
            let huge = if s.huge { ", huge" } else { "" };
            let sleeps = if s.head { "" } else { ", sleeps until it is activated" };
            out.push_str(&format!("  stream {p}: {} tasks{huge}{sleeps}\n", tasks[*p as usize]));
        }
    }
    out
}

fn gear_lines(m: &CompiledModel) -> String {
    let line = |(k, g): (usize, &Value)| {
        let shown = m.gears.as_ref().map(|g| g.shown(k)).unwrap_or_default();
        match m.is_dynamic() {
            // Memory and events of such a gear belong to the plans that the runs make.
            true => format!("  gear   {shown}: {} nodes, planned by each run\n", g["nodes"]),
            false => format!("  gear   {shown}: {} bytes, events {}\n", g["memory"], g["events"]),
        }
    };
    gears(m).iter().enumerate().map(line).collect()
}

fn text_of(m: &CompiledModel, part: &str) -> String {
    let mut out = String::new();
    match part {
        "summary" => {
            out.push_str(&format!("{} for {}, compiled by ge {}\n", m.name, m.soc.name, m.version));
            for (k, i) in m.inputs.iter().enumerate() {
                let default = default_of(m, k).map(|t| format!(", default {}", t.shape())).unwrap_or_default();
                out.push_str(&format!("  input  {}: {}{}{default}\n", i.name, i.desc.dtype, i.desc.shape));
            }
            for (name, dims) in m.constant_inputs() {
                out.push_str(&format!("  const  {name}: an input with `ge compile --input-shape \"{name}:{dims}\"`\n"));
            }
            for o in &m.outputs {
                out.push_str(&format!("  output {}: {}{}\n", o.name, o.desc.dtype, o.desc.shape));
            }
            out.push_str(&gear_lines(m));
            let nodes: usize = m.graphs.iter().map(|g| g.nodes.len()).sum();
            out.push_str(&format!(
                "  {nodes} nodes, {} tasks on {} streams, {} events\n",
                m.tasks.len(),
                m.streams.physical.len(),
                m.event_num
            ));
            if let Some(o) = m.outside() {
                let nodes = o.graphs.iter().map(|g| g.nodes.len()).sum::<usize>();
                out.push_str(&format!("  any    {}: sizes of no gear, {nodes} nodes, planned by each run\n", o.name));
            }
            for p in m.parts.iter().filter(|p| !p.is_dynamic()) {
                out.push_str(&format!(
                    "  part   {}: {} nodes of known shape, {} tasks on {} streams, {} bytes of memory\n",
                    p.name,
                    p.graphs.iter().map(|g| g.nodes.len()).sum::<usize>(),
                    p.tasks.len(),
                    p.streams.physical.len(),
                    p.memory.spaces.iter().map(|s| s.size).sum::<u64>()
                ));
            }
            for s in &m.memory.spaces {
                out.push_str(&format!(
                    "  memory {}: {} bytes, {} zero copy, lower bound {}, by {}\n",
                    s.memory, s.size, s.zero_copy, s.lower_bound, s.assigner
                ));
            }
            out.push_str(&format!("  weights: {} bytes\n", m.memory.weights));
            if m.memory.variables > 0 {
                out.push_str(&format!("  variables: {} bytes\n", m.memory.variables));
            }
        }
        "gears" if m.gears.is_none() => out.push_str("no gears (`ge compile --dim NAME=SIZE,…` makes them)\n"),
        "gears" => out.push_str(&gear_lines(m)),
        "graph" | "engines" => {
            for g in &m.graphs {
                out.push_str(&format!("graph {}\n", g.name));
                for n in &g.nodes {
                    let outs: Vec<String> = n.outputs.iter().map(|d| format!("{}{}", d.dtype, d.shape)).collect();
                    out.push_str(&format!("  {:<40} {:<20} {:<20} {}\n", n.name, n.op, n.engine, outs.join(", ")));
                    if part == "engines" {
                        for (who, why) in &n.refusals {
                            out.push_str(&format!("      {who}: {why}\n"));
                        }
                    }
                }
            }
        }
        "streams" => {
            out.push_str(&stream_lines(m));
        }
        "events" => {
            for e in &m.events {
                out.push_str(&format!(
                    "{} {}: {} -> {}\n",
                    if e.notify { "notify" } else { "event" },
                    e.id,
                    e.send,
                    e.recv
                ));
            }
        }
        "memory" => out.push_str(&memory::text(m)),
        "tasks" => {
            out.push_str(&timetable::text(m));
        }
        "weights" => {
            out.push_str(&format!("weights: {} bytes, variables: {} bytes\n", m.memory.weights, m.memory.variables))
        }
        "options" => {
            if m.options.is_empty() {
                out.push_str("every option has its default (`ge compile --help-options` lists them)\n");
            }
            for (k, v) in &m.options {
                out.push_str(&format!("{k} = {v}\n"));
            }
        }
        _ => {
            for p in &m.passes {
                out.push_str(&format!("{} {}: {} changes\n", p.stage, p.name, p.changes));
                for f in &p.fusions {
                    let into = if f.after.is_empty() { "nothing".to_owned() } else { f.after.join(", ") };
                    out.push_str(&format!("  {} -> {into}\n", f.before.join(", ")));
                }
            }
        }
    }
    out
}
