//! `ge compare MODEL_A MODEL_B`: what every node computes, side by side: the first tensor that differs, and by how much.
//! The second side may be reference files. Nodes are paired by name, graph outputs by position.
mod difference;
mod reference;

use super::inputs::{DeviceFlags, InputFlags};
use super::run::{Target, open};
use super::{CompileFlags, Global, print, print_json};
use crate::{Diagnostic, Error, ErrorKind, Result};
use clap::Args;
use difference::{Difference, Tolerance, difference};
use ge_model::CompiledModel;
use ge_plugin_api::kernel::{HostTensor, TensorView};
use ge_runtime::{LoadOptions, RunOptions};
use reference::Reference;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  ge compare a.om b.om --random 1\n  ge compare model.om reference.npz --inputs in")]
pub struct CompareArgs {
    /// A model or an OM file
    model_a: PathBuf,
    /// A model, an OM file, a .npz or .npy file, or a folder of .npy files
    model_b: PathBuf,
    #[command(flatten)]
    flags: CompileFlags,
    #[command(flatten)]
    inputs: InputFlags,
    /// Relative tolerance
    #[arg(long, default_value_t = 1e-3)]
    rtol: f64,
    /// Absolute tolerance
    #[arg(long, default_value_t = 1e-5)]
    atol: f64,
    #[command(flatten)]
    device: DeviceFlags,
}

/// A tensor of a run: whose it is and what it is.
struct Computed {
    /// Node and output; a graph output has its own name and its position.
    key: (String, u32),
    op: String,
    engine: String,
    /// Whether the node has no task: what it stands for was written by others.
    no_task: bool,
    tensor: HostTensor,
}

/// What one model computed: nodes in the graph's order, then graph outputs.
struct Side {
    nodes: Vec<Computed>,
    outputs: Vec<Computed>,
}

/// The side that the first model is held against.
enum Other {
    Model(Side),
    Files(Reference),
}

/// One pair.
struct Pair {
    node: String,
    output: u32,
    op: String,
    engines: (String, String),
    no_task: bool,
    outcome: Outcome,
}

enum Outcome {
    Same,
    Differs(Difference),
    /// They cannot be held against each other: why.
    Apart(String),
}

/// Compares; 1 where something differs.
pub fn run(global: &Global, a: &CompareArgs) -> Result<u8> {
    let tolerance = Tolerance { rtol: a.rtol, atol: a.atol };
    let one = compute(global, a, &a.model_a)?;
    let other = match Reference::open(&a.model_b)? {
        Some(files) => Other::Files(files),
        None => Other::Model(compute(global, a, &a.model_b)?),
    };
    let mut pairs = Vec::new();
    let mut alone = Vec::new();
    for (t, is_output) in one.nodes.iter().map(|t| (t, false)).chain(one.outputs.iter().map(|t| (t, true))) {
        match counterpart(t, is_output, &other, one.outputs.len())? {
            Some((tensor, engine)) => pairs.push(Pair {
                node: t.key.0.clone(),
                output: t.key.1,
                op: t.op.clone(),
                engines: (t.engine.clone(), engine),
                no_task: t.no_task,
                outcome: difference(&t.tensor, &tensor, tolerance),
            }),
            None => alone.push(shown(&t.key.0, t.key.1)),
        }
    }
    if pairs.is_empty() {
        let help = "nodes are paired by name (`NODE_OUTPUT.npy`, as --dump-tensors writes them), outputs by position (`output_0.npy`)";
        return Err(Diagnostic::error("nothing of the two can be compared: no node has its name on both sides")
            .code("GE-E0804")
            .found(other.names().into_iter().take(6).collect::<Vec<_>>().join(", "), alone.join(", "))
            .help(help)
            .of(ErrorKind::USAGE));
    }
    let only_b = match &other {
        Other::Files(_) => Vec::new(),
        Other::Model(side) => {
            let here: BTreeSet<&(String, u32)> = one.nodes.iter().map(|t| &t.key).collect();
            side.nodes.iter().filter(|t| !here.contains(&t.key)).map(|t| shown(&t.key.0, t.key.1)).collect()
        }
    };
    if global.json {
        print_json(&document(a, &pairs, &alone, &only_b))?;
    } else {
        print(&text(global, &pairs, &alone, &only_b))?;
    }
    Ok(u8::from(pairs.iter().any(|p| !matches!(p.outcome, Outcome::Same))))
}

fn shown(node: &str, output: u32) -> String {
    if output == 0 { node.to_owned() } else { format!("{node}:{output}") }
}

/// Compiles where needed, runs once with everything captured.
fn compute(global: &Global, a: &CompareArgs, path: &Path) -> Result<Side> {
    let target = Target { model: path, flags: &a.flags, device: &a.device, given: a.inputs.given() };
    let (session, compiled, _) = open(global, &target)?;
    let inputs = a.inputs.tensors(&compiled, 0, 1)?;
    let context = session.open_device(&compiled.soc.clone())?;
    let options = LoadOptions { rank_size: 1, capture: true, ..LoadOptions::default() };
    let model = session.load_on(compiled, context, &options)?;
    let views: Vec<TensorView<'_>> = inputs.iter().map(HostTensor::view).collect();
    let outcome = model.run_views(&views, RunOptions::default())?;
    let m: &CompiledModel = model.info();
    let tasks: BTreeSet<(u32, u32)> = m.tasks.iter().map(|t| (t.graph, t.node)).collect();
    let mut nodes = Vec::new();
    for c in outcome.captured {
        let Some(n) = m.node(c.graph, c.node) else { continue };
        nodes.push(Computed {
            key: (n.name.clone(), c.output),
            op: n.op.clone(),
            engine: n.engine.clone(),
            no_task: !tasks.contains(&(c.graph, c.node)),
            tensor: c.tensor,
        });
    }
    let output = |(k, t): (usize, HostTensor)| Computed {
        key: (m.outputs.get(k).map_or_else(String::new, |o| o.name.clone()), k as u32),
        op: "NetOutput".into(),
        engine: String::new(),
        no_task: true,
        tensor: t,
    };
    let outputs = outcome.outputs.into_iter().enumerate().map(output).collect();
    Ok(Side { nodes, outputs })
}

impl Other {
    fn names(&self) -> Vec<String> {
        match self {
            Other::Files(f) => f.names(),
            Other::Model(s) => s.nodes.iter().map(|t| shown(&t.key.0, t.key.1)).collect(),
        }
    }
}

/// What the other side has for a tensor, and which engine computed it.
fn counterpart(t: &Computed, is_output: bool, other: &Other, outputs: usize) -> Result<Option<(HostTensor, String)>> {
    let (name, k) = (&t.key.0, t.key.1);
    match other {
        Other::Files(f) => {
            let found =
                if is_output { f.output(name, k, outputs == 1, &t.tensor)? } else { f.node(name, k, &t.tensor)? };
            Ok(found.map(|tensor| (tensor, String::new())))
        }
        Other::Model(side) => {
            let list = if is_output { &side.outputs } else { &side.nodes };
            let same = |o: &&Computed| o.key.1 == k && (is_output || o.key.0 == *name);
            Ok(list.iter().find(same).map(|o| (o.tensor.clone(), o.engine.clone())))
        }
    }
}

fn text(global: &Global, pairs: &[Pair], only_a: &[String], only_b: &[String]) -> String {
    let mut out = String::new();
    let mut first = true;
    let mut differ = 0;
    for p in pairs {
        let who = match (p.op.as_str(), p.engines.0 == p.engines.1 || p.engines.1.is_empty()) {
            ("NetOutput", _) => "graph output".to_owned(),
            (op, true) => format!("{op}, {}", p.engines.0),
            (op, false) => format!("{op}, {} and {}", p.engines.0, p.engines.1),
        };
        let name = shown(&p.node, p.output);
        let no_task = if p.no_task && p.op != "NetOutput" { ", no task" } else { "" };
        let what = match &p.outcome {
            Outcome::Same if global.verbose > 0 => format!("same: `{name}` ({who}{no_task})"),
            Outcome::Same => continue,
            Outcome::Apart(why) => format!("`{name}` ({who}{no_task}): {why}"),
            Outcome::Differs(d) => format!("`{name}` ({who}{no_task}): {d}"),
        };
        if !matches!(p.outcome, Outcome::Same) {
            differ += 1;
            out.push_str(if first { "first difference: " } else { "then: " });
            first = false;
        }
        out.push_str(&what);
        out.push('\n');
    }
    let list = |names: &[String]| names.iter().take(8).cloned().collect::<Vec<_>>().join(", ");
    for (which, names) in [("the first", only_a), ("the second", only_b)] {
        if !names.is_empty() && (global.verbose > 0 || differ > 0) {
            let more = if names.len() > 8 { ", …" } else { "" };
            out.push_str(&format!("only in {which} ({}): {}{more}\n", names.len(), list(names)));
        }
    }
    let count = pairs.len();
    out.push_str(&match differ {
        0 => format!("same: {count} tensors compared\n"),
        n => format!("different: {n} of {count} tensors compared\n"),
    });
    out
}

fn document(a: &CompareArgs, pairs: &[Pair], only_a: &[String], only_b: &[String]) -> Value {
    let one = |p: &Pair| {
        let mut v = json!({
            "node": p.node, "output": p.output, "type": p.op, "engine_a": p.engines.0, "engine_b": p.engines.1,
            "no_task": p.no_task, "same": matches!(p.outcome, Outcome::Same),
        });
        match &p.outcome {
            Outcome::Same => {}
            Outcome::Apart(why) => v["reason"] = json!(why),
            Outcome::Differs(d) => {
                let all = BTreeMap::from([
                    ("element", json!(d.at)),
                    ("a", json!(d.a)),
                    ("b", json!(d.b)),
                    ("max_abs", json!(d.max_abs)),
                    ("max_rel", json!(d.max_rel)),
                    ("elements", json!(d.count)),
                    ("of", json!(d.of)),
                ]);
                all.into_iter().for_each(|(k, x)| v[k] = x);
            }
        }
        v
    };
    let first = pairs.iter().find(|p| !matches!(p.outcome, Outcome::Same)).map(one);
    json!({
        "schema": 1, "model_a": a.model_a.display().to_string(), "model_b": a.model_b.display().to_string(),
        "rtol": a.rtol, "atol": a.atol, "same": first.is_none(), "compared": pairs.len(), "first": first,
        "nodes": pairs.iter().map(one).collect::<Vec<_>>(), "only_a": only_a, "only_b": only_b,
    })
}

/// A failure to read a side's file.
fn unreadable(path: &Path, e: impl std::fmt::Display) -> Error {
    Diagnostic::error(format!("cannot read `{}`: {e}", path.display())).code("GE-E0305").of(ErrorKind::USAGE)
}
