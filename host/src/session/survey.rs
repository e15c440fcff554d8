//! Lists everything in a model that is not supported, all at once: nodes that the front end cannot
//! import, nodes that their prototype rejects, and nodes that no engine runs. A compilation stops
//! at the first of these groups, but someone who has to change a model needs to know them all.
use super::import::{self, Imported};
use crate::{Diagnostic, Error, ErrorKind, Result};
use ge_compiler::Toolbox;
use ge_compiler::place::engine_placer::EnginePlacer;
use ge_ir::graph::NodeSet;
use ge_ir::verify::STRUCTURE;
use ge_ir::{DType, Graph, Key, Model, Node, ValueRef};
use std::collections::BTreeSet;

/// Error codes that mean that a node is not supported.
const CODES: &[ge_codes::Code] =
    &[ge_codes::NOT_MAPPED, ge_codes::NOT_SUPPORTED, ge_codes::NO_PROTOTYPE, ge_codes::NO_ENGINE];

/// Whether an error is about unsupported nodes.
pub fn concerns(e: &Error) -> bool {
    e.kind == ErrorKind::UNSUPPORTED
        && e.diagnostics.iter().any(|d| !d.node.is_empty() && (d.code.is_empty() || CODES.iter().any(|c| c.is(d))))
}

/// Extends an error to every unsupported node of the model, in the model's order (nodes that the
/// error already names come first among equals), each with what the source model says about it.
pub fn complete(e: Error, model: Imported, toolbox: &Toolbox) -> Error {
    let Imported { mut model, origins, refused } = model;
    let mut all: Vec<Diagnostic> = e.diagnostics.to_vec();
    let known: BTreeSet<String> = all.iter().map(|d| d.node.to_string()).collect();
    let more = refused.into_iter().chain(rest(&mut model, toolbox).unwrap_or_default());
    all.extend(more.filter(|d| !known.contains(d.node.as_str())));
    let place = all.iter().find_map(|d| d.place.clone().into_option());
    let at = |d: &Diagnostic| {
        let graphs = model.graphs().iter().flat_map(Graph::nodes);
        graphs.map(Node::name).position(|n| n == d.node.as_str()).unwrap_or(usize::MAX)
    };
    all.sort_by_cached_key(at);
    for d in &mut all {
        if d.place.is_none() {
            d.place = place.clone().into();
        }
        if d.subject == "window" {
            *d = small(&model, std::mem::take(d));
        }
        let Some(origin) = origins.get(d.node.as_str()) else { continue };
        let (op, version) = origin.split_once(", ").unwrap_or((origin, ""));
        if !d.message.contains(&format!("({op}, {version})")) {
            *d = std::mem::take(d).note(format!("in the model: {op} of {version}"));
        }
    }
    Error::all(e.kind, all)
}

/// What prototypes and engines reject, as far as types and sizes are known without constant
/// folding.
fn rest(model: &mut Model, toolbox: &Toolbox) -> Result<Vec<Diagnostic>> {
    let placer = EnginePlacer::new(toolbox, false).map_err(|e| e.into_error())?;
    let structural: Vec<Key> = STRUCTURE.iter().map(|s| Key::new(s)).collect();
    let mut out = Vec::new();
    for gi in 0..model.graphs().len() {
        let mut behind = NodeSet::new(&model.graphs()[gi]);
        for id in model.graphs()[gi].order().to_vec() {
            let Some(n) = model.graphs()[gi].get(id) else { continue };
            let reads = |v: &&ValueRef| !v.is_absent() && behind.contains(v.node);
            if import::is_refused(n) || (n.inputs().iter().any(|v| reads(&v)) && !typed(&model.graphs()[gi], n)) {
                // Unknown types behind an unsupported node are only a consequence of it.
                behind.insert(id);
                continue;
            }
            if structural.contains(&n.op_key()) {
                continue;
            }
            let context = toolbox.lend(model, gi);
            let view = context.graph();
            let node = view.node(id);
            match toolbox.infer(&node) {
                Ok(descs) => {
                    drop(context);
                    let old = model.graphs()[gi].get(id).map(|n| n.outputs().to_vec()).unwrap_or_default();
                    if descs.len() == old.len() {
                        model.graphs_mut()[gi].set_outputs(id, descs);
                    }
                }
                Err(e) => {
                    drop(context);
                    out.extend(e.into_error().diagnostics);
                    behind.insert(id);
                    continue;
                }
            }
            let g = &model.graphs()[gi];
            let Some(n) = g.get(id) else { continue };
            let sized =
                |v: &ValueRef| g.desc(*v).is_none_or(|d| d.dtype != DType::UNKNOWN && d.shape.sizes().is_some());
            let open = n.outputs().iter().any(|d| d.dtype == DType::UNKNOWN || d.shape.sizes().is_none());
            if open || !n.inputs().iter().filter(|v| !v.is_absent()).all(sized) {
                continue;
            }
            let context = toolbox.lend(model, gi);
            let view = context.graph();
            if let Some(d) = placer.refusal(&view.node(id)).map_err(|e| e.into_error())? {
                out.push(d);
                behind.insert(id);
            }
        }
    }
    Ok(out)
}

/// For a window that is larger than its input: names the model inputs that determine the size.
fn small(model: &Model, d: Diagnostic) -> Diagnostic {
    let found = model.graphs().iter().find_map(|g| g.nodes().find(|n| n.name() == d.node.as_str()).map(|n| (g, n)));
    let Some((g, n)) = found else { return d };
    let mut seen = NodeSet::new(g);
    let mut todo = vec![n.id()];
    let mut sources = Vec::new();
    while let Some(id) = todo.pop() {
        let Some(n) = g.get(id).filter(|_| seen.insert(id)) else { continue };
        if n.op() == "Data" {
            sources.push(n);
        }
        todo.extend(n.inputs().iter().filter(|v| !v.is_absent()).map(|v| v.node));
    }
    sources.sort_by_key(|n| n.id());
    let shape = |n: &&Node| n.outputs().first().map(|o| format!("`{}` {}{}", n.name(), o.dtype, o.shape));
    let shown: Vec<String> = sources.iter().filter_map(shape).collect();
    let of = n
        .input(0)
        .and_then(|v| g.desc(v))
        .map_or_else(String::new, |o| format!("it goes over {}{}; ", o.dtype, o.shape));
    let Some(first) = sources.first() else { return d };
    let help = format!("give larger sizes, for example `--input-shape \"{}:SIZE,SIZE,…\"`", first.name());
    let d = d.note(format!("{of}its sizes come from input {}", shown.join(", ")));
    if d.help.is_empty() { d.help(help) } else { d }
}

/// Whether the types of all inputs of a node are known.
fn typed(g: &Graph, n: &Node) -> bool {
    n.inputs().iter().filter(|v| !v.is_absent()).all(|v| g.desc(*v).is_some_and(|d| d.dtype != DType::UNKNOWN))
}
