//! `ge compare MODEL_A MODEL_B`: compares what every node computes, and shows the first tensor that
//! differs and by how much. The second side may be reference files. Tensors are matched by the
//! names that the model gives them, graph outputs by position.
mod difference;
mod forms;
mod keys;
mod reference;

use super::compile::BuildFlags;
use super::inputs::{DeviceFlags, InputFlags};
use super::run::{Target, open};
use super::tensors::{Computed, OUTPUT, named, ours};
use crate::commands::flags::{CompileFlags, Global};
use crate::commands::talk::{print, print_json};
use crate::{Diagnostic, Error, Result};
use clap::Args;
use difference::{Difference, Tolerance, difference};
use forms::{Form, Held};
use ge_model::CompiledModel;
use ge_plugin_api::kernel::HostTensor;
use ge_runtime::{LoadOptions, RunOptions};
use keys::{Found, Keys};
use reference::{Entry, Reference};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
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

/// The tensors of one model: nodes in the graph's order, then graph outputs.
struct Side {
    inputs: Vec<String>,
    nodes: Vec<Computed>,
    outputs: Vec<Computed>,
    /// The form of each output, in graph order.
    forms: Vec<Form>,
}

/// The side that the first model is compared with.
enum Other {
    Model(Side),
    Files(Reference),
}

/// One pair of compared tensors.
struct Pair<'a> {
    of: &'a Computed,
    other_engine: String,
    outcome: Outcome,
}

/// The compared pairs, and the tensors that only one side has.
#[derive(Default)]
struct Verdict<'a> {
    pairs: Vec<Pair<'a>>,
    only_a: Vec<String>,
    only_b: Vec<String>,
}

enum Outcome {
    Same,
    Differs(Difference),
    /// They cannot be compared; with the reason.
    Apart(String),
}

/// Runs the comparison. Returns 1 if anything differs.
pub fn run(global: &Global, a: &CompareArgs) -> Result<u8> {
    let tolerance = Tolerance { rtol: a.rtol, atol: a.atol };
    let one = compute(global, a, &a.model_a)?;
    let other = match Reference::open(&a.model_b)? {
        Some(files) => Other::Files(files),
        None => Other::Model(compute(global, a, &a.model_b)?),
    };
    let verdict = match &other {
        Other::Files(files) => against_files(&one, files, tolerance)?,
        Other::Model(side) => against_model(&one, side, tolerance),
    };
    if verdict.pairs.is_empty() {
        let help = "tensors are paired by the model's names, or by `NODE_OUTPUT.npy` as --dump-tensors writes them; outputs also \
                    by position (`output_0.npy`)";
        let few = |names: &[String]| match names {
            [] => "no tensor".to_owned(),
            names => names.iter().take(6).cloned().collect::<Vec<_>>().join(", "),
        };
        return Err(Diagnostic::error("nothing of the two can be compared: no tensor has its name on both sides")
            .found(few(&verdict.only_b), few(&verdict.only_a))
            .help(help)
            .raise(ge_codes::NOTHING_TO_COMPARE));
    }
    if global.json {
        print_json(&document(a, &verdict))?;
    } else {
        print(&text(global, &verdict))?;
    }
    Ok(u8::from(verdict.pairs.iter().any(|p| !matches!(p.outcome, Outcome::Same))))
}

/// Compiles the model if needed and runs it once with all tensors captured.
fn compute(global: &Global, a: &CompareArgs, path: &Path) -> Result<Side> {
    let target = Target {
        model: path,
        flags: &a.flags,
        build: &BuildFlags::default(),
        device: &a.device,
        given: a.inputs.given(global),
    };
    let (session, compiled, _) = open(global, &target)?;
    let inputs = a.inputs.items(global, &a.flags, &compiled, (0, 1))?;
    let context = session.open_device(&compiled.soc.clone())?;
    let options = LoadOptions { rank_size: 1, capture: true, ..LoadOptions::default() };
    let model = session.load_on(compiled, context, &options)?;
    let (outcome, made) = model.run_items(&inputs, RunOptions::default())?;
    let m: &CompiledModel = model.info();
    let names: Vec<&str> = m.outputs.iter().map(|o| o.name.as_str()).collect();
    let (outputs, forms) = forms::outputs(&names, made)?;
    Ok(Side {
        inputs: m.inputs.iter().map(|i| i.name.clone()).collect(),
        nodes: named(model.ran(&outcome), outcome.captured),
        outputs,
        forms,
    })
}

/// Compares two models. Nodes are matched by the names that the model gives their tensors, else by
/// node names; a tensor computed several times is matched turn by turn. If several tensors have the
/// same name and turn (branches may use a name again), those of the same node are matched. Outputs
/// are matched by position.
fn against_model<'a>(one: &'a Side, other: &'a Side, tolerance: Tolerance) -> Verdict<'a> {
    let same = |a: &Computed, b: &Computed| match (a.names.is_empty(), b.names.is_empty()) {
        (true, true) => a.node == b.node && a.output == b.output,
        _ => a.names.iter().any(|n| b.names.contains(n)),
    };
    let key = |t: &Computed| if t.names.is_empty() { vec![t.shown()] } else { t.names.clone() };
    let mut by_name: HashMap<(String, u64), Vec<usize>> = HashMap::new();
    for (i, t) in other.nodes.iter().enumerate() {
        key(t).into_iter().for_each(|n| by_name.entry((n, t.turn)).or_default().push(i));
    }
    let mut out = Verdict::default();
    let mut met = vec![false; other.nodes.len()];
    for a in &one.nodes {
        let of_name = key(a).into_iter().flat_map(|n| by_name.get(&(n, a.turn))).flatten().copied();
        let fit: Vec<usize> = of_name.filter(|i| !met[*i] && same(a, &other.nodes[*i])).collect();
        let own = |i: &&usize| (&other.nodes[**i].node, other.nodes[**i].output) == (&a.node, a.output);
        let Some(&i) = fit.iter().find(own).or(fit.first()) else {
            out.only_a.push(in_turn(a.shown(), a.turn));
            continue;
        };
        met[i] = true;
        out.pair(a, &other.nodes[i].tensor, &other.nodes[i].engine, tolerance);
    }
    out.only_b.extend(other.nodes.iter().zip(&met).filter(|(_, met)| !**met).map(|(t, _)| in_turn(t.shown(), t.turn)));
    for (a, b) in one.forms.iter().zip(&other.forms) {
        out.forms(a, &b.held);
    }
    let place = |t: &Computed| (t.output, t.element);
    for a in &one.outputs {
        match other.outputs.iter().find(|b| place(a) == place(b)) {
            Some(b) => out.pair(a, &b.tensor, "", tolerance),
            None => out.only_a.push(a.shown()),
        }
    }
    let alone = other.outputs.iter().filter(|b| one.outputs.iter().all(|a| place(a) != place(b)));
    out.only_b.extend(alone.map(Computed::shown));
    out
}

/// The name of a tensor with the turn of its loop; the first turn is not told.
fn in_turn(name: String, turn: u64) -> String {
    if turn > 1 { format!("{name} (turn {turn})") } else { name }
}

/// Compares a model with files: every name in the files must refer to one tensor or to none. A name
/// that refers to several is an error.
fn against_files<'a>(one: &'a Side, files: &Reference, tolerance: Tolerance) -> Result<Verdict<'a>> {
    let mut out = Verdict::default();
    if let Some(only) = files.only() {
        let [a] = one.outputs.as_slice() else { return Err(files.several_outputs()) };
        out.pair(a, &files.tensor(&only, &a.tensor)?, "", tolerance);
        return Ok(out);
    }
    let keys = Keys::of(&one.nodes, &one.outputs);
    let mut met: Vec<(usize, Entry)> = Vec::new();
    let entries = files.entries();
    let names: Vec<String> = entries.iter().map(|e| e.name.clone()).collect();
    for f in one.forms.iter().filter(|f| matches!(f.held, Held::Sequence(_))) {
        match f.elements_in(&names) {
            0 => {}
            n => out.forms(f, &Held::Sequence(n)),
        }
    }
    for entry in entries {
        match keys.find(&entry) {
            Found::One(i) => met.push((i, entry)),
            // Files of a whole model contain its inputs, too.
            Found::None if one.inputs.contains(&entry.name) => {}
            Found::None => out.only_b.push(in_turn(entry.name, entry.turn.unwrap_or(1))),
            Found::Several(list) => {
                let shown = |i: &usize| describe(keys.tensor(*i));
                return Err(files.ambiguous(&entry.name, &list.iter().map(shown).collect::<Vec<_>>()));
            }
        }
    }
    met.sort();
    for (i, entry) in &met {
        let a = keys.tensor(*i);
        out.pair(a, &files.tensor(entry, &a.tensor)?, "", tolerance);
    }
    let met: BTreeSet<usize> = met.into_iter().map(|m| m.0).collect();
    // If an output was compared, the node that computes it needs no entry of its own.
    let of_met = || met.iter().map(|i| keys.tensor(*i));
    let outputs: BTreeSet<&String> = of_met().filter(|t| t.op == OUTPUT).flat_map(|t| &t.names).collect();
    let turns: BTreeSet<(&String, u64)> = of_met().flat_map(|t| t.names.iter().map(|n| (n, t.turn))).collect();
    let said = |t: &Computed| t.names.iter().any(|n| outputs.contains(n) || turns.contains(&(n, t.turn)));
    let missing = (0..keys.len()).filter(|i| !met.contains(i)).map(|i| keys.tensor(i)).filter(|t| !said(t));
    out.only_a = missing.map(|t| in_turn(t.shown(), t.turn)).collect();
    Ok(out)
}

/// Describes a tensor: its name in the model, and the node that computes it.
fn describe(t: &Computed) -> String {
    let own = ours(&t.node, t.output);
    match t.op.as_str() {
        OUTPUT => format!("`{}` (graph output {})", t.shown(), t.output),
        op if t.shown() == own => format!("`{own}` ({op})"),
        op => format!("`{}` ({op} `{own}`)", t.shown()),
    }
}

impl<'a> Verdict<'a> {
    /// Compares outputs where either side is not a tensor: both must be of the same kind and
    /// length.
    fn forms(&mut self, a: &'a Form, b: &Held) {
        if matches!((&a.held, b), (Held::Tensor, Held::Tensor)) {
            return;
        }
        let outcome = if a.held == *b { Outcome::Same } else { Outcome::Apart(format!("{} and {b}", a.held)) };
        self.pairs.push(Pair { of: &a.whole, other_engine: String::new(), outcome });
    }
    fn pair(&mut self, of: &'a Computed, other: &HostTensor, engine: &str, tolerance: Tolerance) {
        let outcome = difference(&of.tensor, other, tolerance);
        self.pairs.push(Pair { of, other_engine: engine.to_owned(), outcome });
    }
}

fn text(global: &Global, v: &Verdict<'_>) -> String {
    let mut out = String::new();
    let mut differ = 0;
    for p in &v.pairs {
        let t = p.of;
        let own = ours(&t.node, t.output);
        let op = if t.shown() == own { t.op.clone() } else { format!("{} `{own}`", t.op) };
        let who = match (t.op.as_str(), t.engine == p.other_engine || p.other_engine.is_empty()) {
            (OUTPUT, _) => "graph output".to_owned(),
            (_, true) => format!("{op}, {}", t.engine),
            (_, false) => format!("{op}, {} and {}", t.engine, p.other_engine),
        };
        let name = in_turn(t.shown(), t.turn);
        let no_task = if t.no_task && t.op != OUTPUT { ", no task" } else { "" };
        let what = match &p.outcome {
            Outcome::Same if global.verbose > 0 => format!("same: `{name}` ({who}{no_task})"),
            Outcome::Same => continue,
            Outcome::Apart(why) => format!("`{name}` ({who}{no_task}): {why}"),
            Outcome::Differs(d) => format!("`{name}` ({who}{no_task}): {d}"),
        };
        if !matches!(p.outcome, Outcome::Same) {
            out.push_str(if differ == 0 { "first difference: " } else { "then: " });
            differ += 1;
        }
        out.push_str(&what);
        out.push('\n');
    }
    let few = if global.verbose > 0 { usize::MAX } else { 8 };
    for (which, names) in [("the first", &v.only_a), ("the second", &v.only_b)] {
        if !names.is_empty() {
            let list = names.iter().take(few).cloned().collect::<Vec<_>>().join(", ");
            let more = if names.len() > few { ", … (-v lists all)" } else { "" };
            out.push_str(&format!("only in {which} ({}): {list}{more}\n", names.len()));
        }
    }
    let count = v.pairs.len();
    let tensors = if count == 1 { "tensor" } else { "tensors" };
    out.push_str(&match differ {
        0 => format!("same: {count} {tensors} compared"),
        n => format!("different: {n} of {count} {tensors} compared"),
    });
    let unmatched = [(v.only_a.len(), "first"), (v.only_b.len(), "second")];
    let unmatched = unmatched.iter().filter(|u| u.0 > 0).map(|(n, side)| format!("{n} of the {side}"));
    let unmatched = unmatched.collect::<Vec<_>>().join(" and ");
    out.push_str(&if unmatched.is_empty() { "\n".into() } else { format!(", {unmatched} without a counterpart\n") });
    out
}

fn document(a: &CompareArgs, verdict: &Verdict<'_>) -> Value {
    let one = |p: &Pair<'_>| {
        let t = p.of;
        let mut v = json!({
            "tensor": t.shown(), "names": t.names, "node": t.node, "output": t.output, "type": t.op, "engine_a": t.engine,
            "engine_b": p.other_engine, "no_task": t.no_task, "turn": t.turn, "same": matches!(p.outcome, Outcome::Same),
        });
        match &p.outcome {
            Outcome::Same => {}
            Outcome::Apart(why) => v["reason"] = json!(why),
            Outcome::Differs(d) => {
                let all = BTreeMap::from([
                    ("element", json!(d.at)),
                    ("a", d.a.json()),
                    ("b", d.b.json()),
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
    let pairs = &verdict.pairs;
    let first = pairs.iter().find(|p| !matches!(p.outcome, Outcome::Same)).map(one);
    json!({
        "schema": 1, "model_a": a.model_a.display().to_string(), "model_b": a.model_b.display().to_string(),
        "rtol": a.rtol, "atol": a.atol, "same": first.is_none(), "compared": pairs.len(),
        "unmatched_model": verdict.only_a, "unmatched_reference": verdict.only_b, "first_difference": first, "first": first,
        "nodes": pairs.iter().map(one).collect::<Vec<_>>(), "only_a": verdict.only_a, "only_b": verdict.only_b,
    })
}

/// The error for a file that cannot be read.
fn unreadable(path: &Path, e: impl std::fmt::Display) -> Error {
    Diagnostic::error(format!("cannot read `{}`: {e}", path.display())).raise(ge_codes::UNREADABLE)
}
