//! Models that are not compiled yet: the graph as the front end builds it, and the nodes that no
//! enabled engine can run (`--support`).
use super::super::compile::import_model;
use crate::commands::flags::{CompileFlags, Global};
use crate::render::Progress;
use crate::session::import::{self, FileKind};
use crate::session::{Session, SessionOptions, survey};
use crate::{Error, ErrorKind, Result};
use ge_compiler::feature::tiling_sink::gate::NAME as SINK_GATE;
use ge_compiler::pass::Records;
use ge_compiler::pipeline::{Stage, run_range};
use ge_plugin::Want;
use serde_json::{Map, Value, json};
use std::path::Path;

fn session(global: &Global, flags: &CompileFlags, want: Want) -> Result<Session> {
    Session::new(SessionOptions {
        plugins: global.plugins.clone(),
        options: flags.gather()?,
        soc: flags.soc.clone(),
        want,
        ..SessionOptions::default()
    })
}

fn read(session: Option<&Session>, path: &Path, flags: &CompileFlags) -> Result<Option<ge_ir::Model>> {
    let bytes = import::map(path)?;
    let imports = import::parse_input_shapes(&flags.shapes()?)?;
    match (import::kind_of(&bytes), session) {
        (FileKind::Text, _) => import::parse_text(path, &bytes).map(Some),
        (FileKind::Foreign, Some(s)) => import::import(s.registry(), path, bytes, &imports).map(Some),
        _ => Ok(None),
    }
}

/// The JSON document of a model.
pub fn document(global: &Global, path: &Path, flags: &CompileFlags) -> Result<Value> {
    let model = match read(None, path, flags)? {
        Some(m) => m,
        None => {
            let s = session(global, flags, Want::kinds(&["frontend", "ops"]))?;
            read(Some(&s), path, flags)?.ok_or_else(|| Error::usage("an OM file is no source of a model"))?
        }
    };
    let root = model.root();
    let default = |n: &ge_ir::Node| match n.attr(ge_model::DEFAULT_VALUE) {
        Some(ge_ir::AttrValue::Tensor(t)) => Some(t.clone()),
        _ => None,
    };
    let input = |n: &&ge_ir::Node| Some(super::io(n.name(), n.outputs().first()?, default(n).as_ref()));
    let inputs: Vec<Value> = root.data_nodes().iter().filter_map(input).collect();
    let outputs: Vec<Value> = root
        .net_output()
        .into_iter()
        .flat_map(|n| n.inputs())
        .filter_map(|v| Some(super::io(root.get(v.node)?.name(), root.desc(*v)?, None)))
        .collect();
    let graphs: Vec<Value> = model
        .graphs()
        .iter()
        .enumerate()
        .map(|(gi, g)| {
            let name = |id| g.get(id).map_or("", ge_ir::Node::name);
            let nodes: Vec<Value> = g
                .nodes()
                .enumerate()
                .map(|(i, n)| {
                    let inputs: Vec<String> = n
                        .inputs()
                        .iter()
                        .map(|v| if g.get(v.node).is_none() { "_".to_owned() } else { format!("{}:{}", name(v.node), v.output) })
                        .collect();
                    let outputs: Vec<Value> = n
                        .outputs()
                        .iter()
                        .map(|d| json!({"dtype": d.dtype.name(), "shape": super::shape(d), "format": d.format.name()}))
                        .collect();
                    json!({
                        "id": i, "name": n.name(), "type": n.op(), "inputs": inputs,
                        "control_inputs": n.controls().iter().map(|c| name(*c)).collect::<Vec<_>>(), "outputs": outputs,
                        "attrs": n.attrs().sorted().into_iter().map(|a| (a.key.as_str().to_owned(), super::attr(&a.value))).collect::<Map<_, _>>(),
                        "subgraphs": n.subgraphs(),
                    })
                })
                .collect();
            let (i, o) = if gi == 0 { (inputs.clone(), outputs.clone()) } else { (Vec::new(), Vec::new()) };
            json!({"name": g.name(), "inputs": i, "outputs": o, "nodes": nodes})
        })
        .collect();
    let name = path.file_stem().map_or_else(|| "main".to_owned(), |s| s.to_string_lossy().into_owned());
    Ok(json!({"schema": 1, "kind": "model", "name": name, "graphs": graphs}))
}

/// Formats the document as text.
pub fn text(doc: &Value) -> String {
    let s = |v: &Value| v.as_str().unwrap_or("").to_owned();
    let mut out = format!("{}, a model (not compiled)\n", s(&doc["name"]));
    for (gi, g) in doc["graphs"].as_array().into_iter().flatten().enumerate() {
        if gi == 0 {
            for (what, key) in [("input ", "inputs"), ("output", "outputs")] {
                for i in g[key].as_array().into_iter().flatten() {
                    let default = &i["default"]["shape"];
                    let default =
                        if default.is_array() { format!(", default {}", sizes(default)) } else { String::new() };
                    let shape = sizes(&i["shape"]);
                    out.push_str(&format!("  {what} {}: {}{shape}{default}\n", s(&i["name"]), s(&i["dtype"])));
                }
            }
        }
        out.push_str(&format!("graph {}\n", s(&g["name"])));
        for n in g["nodes"].as_array().into_iter().flatten() {
            out.push_str(&format!("  {}\n", node_line(n)));
        }
    }
    out
}

/// Every node that front end, prototypes or engines refuse, as text and JSON; empty if the model
/// can be compiled up to engine placement. Also says why tiling that reads values does not run on
/// the device.
pub fn support(global: &Global, path: &Path, flags: &CompileFlags) -> Result<(String, Value)> {
    let s = session(global, flags, Want::All)?;
    let progress = Progress::new(global.progress, global.quiet, 1);
    progress.stage("support", 0);
    let mut records = Records::default();
    let options = flags.gather()?;
    let toolbox = s.toolbox(&options, false)?;
    let whole = || import_model(&s, path, flags);
    let imported = whole()?;
    let tried = if imported.refused.is_empty() {
        run_range(imported.model, &toolbox, &options.resolved()?, Stage::Import, Stage::Place, &mut records)
            .map(|_| ())
            .map_err(|e| e.into_error())
    } else {
        Err(Error::all(ErrorKind::UNSUPPORTED, imported.refused))
    };
    progress.finish();
    let refused = match tried {
        Ok(()) => Vec::new(),
        Err(e) if survey::concerns(&e) => survey::complete(e, whole()?, &toolbox).diagnostics.to_vec(),
        Err(e) if e.kind == ErrorKind::UNSUPPORTED => e.diagnostics.to_vec(),
        Err(e) => return Err(e),
    };
    let mut text = String::new();
    let mut rows = Vec::new();
    for d in &refused {
        text.push_str(&format!("{}\n", d.message));
        if !d.found.is_empty() {
            text.push_str(&format!("  found {}, expected {}\n", d.found, d.expected));
        }
        for n in &d.notes {
            text.push_str(&format!("  {n}\n"));
        }
        rows.push(json!({
            "node": d.node.as_str(), "op": d.op.as_str(), "code": d.code.as_str(), "message": d.message.as_str(), "found": d.found.as_str(),
            "expected": d.expected.as_str(), "reasons": d.notes.iter().map(|n| n.as_str()).collect::<Vec<_>>(), "help": d.help.as_str(),
        }));
    }
    if rows.is_empty() {
        text.push_str("every node is supported\n");
    }
    let sinks = records.refusals.iter().flat_map(|(node, list)| list.iter().map(move |(by, why)| (node, by, why)));
    let sinks: Vec<Value> = sinks
        .filter(|(_, by, _)| *by == SINK_GATE)
        .map(|(node, _, why)| {
            text.push_str(&format!("tiling of `{node}` stays off the device: {why}\n"));
            json!({"node": node, "reason": why})
        })
        .collect();
    let model = path.display().to_string();
    Ok((
        text,
        json!({"schema": 1, "model": model, "supported": rows.is_empty(), "refused": rows, "tiling_sink_refused": sinks}),
    ))
}

/// A shape as text: open sizes are `?`, as in graph texts and in `--input-shape`.
fn sizes(shape: &Value) -> String {
    let Some(list) = shape.as_array() else { return "[...]".into() };
    let one = |d: &Value| if d.as_i64().is_some_and(|n| n >= 0) { d.to_string() } else { "?".to_owned() };
    format!("[{}]", list.iter().map(one).collect::<Vec<_>>().join(","))
}

/// One line for a node of a listed graph: name, operator, types and shapes of its outputs.
pub fn node_line(node: &Value) -> String {
    let s = |v: &Value| v.as_str().unwrap_or("").to_owned();
    let outs: Vec<String> = node["outputs"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|o| format!("{}{}", s(&o["dtype"]), sizes(&o["shape"])))
        .collect();
    format!("{:<40} {:<20} {}", s(&node["name"]), s(&node["type"]), outs.join(", "))
}
