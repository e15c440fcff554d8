//! `ge tune MODEL -o FILE`: measures other ways to divide the work of a model's kernels and keeps
//! those that are faster on this machine.
use super::compile::BuildFlags;
use super::inputs::{DeviceFlags, InputFlags, gather};
use super::run::{Target, open};
use crate::commands::flags::{CompileFlags, Global};
use crate::commands::talk::{print, print_json};
use crate::session::model::random_inputs;
use crate::session::tuned::{Entry, Tuning, kernel};
use crate::session::{Model, Session};
use crate::{Diagnostic, Error, Result};
use clap::Args;
use ge_model::CompiledModel;
use ge_plugin_api::kernel::{HostTensor, TensorView};
use ge_plugin_api::types::AttrValue;
use ge_runtime::request::TUNING;
use ge_runtime::{RunOptions, machine, work};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  ge tune model.onnx -o tuned.json && ge compile model.onnx -o model.om --set ge.x.tuning_file=tuned.json"
)]
pub struct TuneArgs {
    /// A model or an OM file, of known sizes
    model: PathBuf,
    /// The tuning file; what it says of other kernels and processors stays
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    flags: CompileFlags,
    /// Seconds to measure for, about
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0)]
    budget: f64,
    /// Threads of the pool
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    #[command(flatten)]
    inputs: InputFlags,
    #[command(flatten)]
    device: DeviceFlags,
}

/// A kernel whose work can be divided in several ways.
struct Tunable {
    /// The nodes with this kernel: graph and index.
    nodes: Vec<(usize, usize)>,
    /// The ways; the default (`None`) is the first.
    ways: Vec<Option<String>>,
    /// The shortest time of each way, summed over all nodes, in ns.
    least: Vec<u64>,
}

/// A way is kept if it takes at most this share of the default's time.
const WORTH: f64 = 0.97;
/// Number of rounds; each round measures every way once.
const ROUNDS: u32 = 3;

/// Runs the command.
pub fn run(global: &Global, a: &TuneArgs) -> Result<u8> {
    if !(a.budget > 0.0 && a.budget <= 86_400.0) {
        return Err(Error::usage("`--budget` takes seconds from above 0 to 86400"));
    }
    if let Some(n) = a.threads {
        ge_plugin::services::set_jobs(usize::from(n));
    }
    // A file of another kind, or one that cannot be written, is rejected before anything is
    // measured.
    crate::files::check_writable(&a.output)?;
    let mut file = if a.output.exists() { Tuning::read(&a.output)? } else { Tuning::default() };
    let given = a.inputs.given(global);
    let target = Target { model: &a.model, flags: &a.flags, build: &BuildFlags::default(), device: &a.device, given };
    let (session, compiled, _) = open(global, &target)?;
    if compiled.is_dynamic() || compiled.gears.is_some() {
        return Err(Diagnostic::error(
            "a model whose sizes only a run tells cannot be tuned: its kernels are built for each size",
        )
        .help("name one size of each input: `ge tune MODEL -o FILE --input-shape \"x:1,3,224,224\"`")
        .raise(ge_codes::MODEL_OPTION));
    }
    let inputs = match given {
        Some(given) => gather(&compiled, &given)?,
        None => random_inputs(&compiled, a.inputs.random.unwrap_or(1))?,
    };
    let mut all = tunables(&session, &compiled);
    let begin = Instant::now();
    let budget = Duration::from_secs_f64(a.budget);
    measure(&session, &compiled, &inputs, &mut all, budget)?;
    let cpu = machine::name();
    let measured: BTreeMap<String, Option<Entry>> = all.iter().map(|(k, t)| (k.clone(), best(cpu, k, t))).collect();
    let better = measured.values().flatten().count();
    let (before, after) = confirm(&session, &compiled, &inputs, cpu, &measured, budget / 10)?;
    // If the kept ways make the whole model slower, although each is faster alone, none is kept.
    let kept = if after <= before { better } else { 0 };
    let measured = if kept == better { measured } else { measured.into_keys().map(|k| (k, None)).collect() };
    file.put(cpu, measured);
    let text = serde_json::to_string_pretty(&file).map_err(|e| Error::internal(e.to_string()))?;
    crate::files::write_atomic(&a.output, format!("{text}\n").as_bytes())?;
    let seconds = begin.elapsed().as_secs_f64();
    let nodes = |t: &Tunable| t.nodes.len();
    if global.json {
        print_json(&json!({
            "schema": 1, "model": compiled.name, "file": a.output.display().to_string(), "cpu": cpu, "seconds": seconds,
            "kernels": all.len(), "nodes": all.values().map(nodes).sum::<usize>(), "better": better, "kept": kept,
            "before_ms": before, "after_ms": if kept == 0 { before } else { after },
        }))?;
    } else {
        print(&format!(
            "{}: {} kernels of {} nodes can be divided in several ways, {kept} are better otherwise on {cpu}; a run takes {before:.3} ms without and {:.3} ms with them ({seconds:.1} s); wrote {}\n",
            compiled.name,
            all.len(),
            all.values().map(nodes).sum::<usize>(),
            if kept == 0 { before } else { after },
            a.output.display()
        ))?;
    }
    Ok(0)
}

/// The kernels that can be divided in several ways, by their description.
fn tunables(session: &Session, m: &CompiledModel) -> BTreeMap<String, Tunable> {
    let mut all: BTreeMap<String, Tunable> = BTreeMap::new();
    for (g, graph) in m.graphs.iter().enumerate() {
        for (i, n) in graph.nodes.iter().enumerate() {
            let Some(engine) = session.registry().engine(&n.engine) else { continue };
            let Some(key) = kernel(&graph.nodes, n) else { continue };
            if let Some(known) = all.get_mut(&key) {
                known.nodes.push((g, i));
                continue;
            }
            let ways = work::schedules(engine, m, g as u32, i as u32);
            if !ways.is_empty() {
                let ways: Vec<Option<String>> = std::iter::once(None).chain(ways.into_iter().map(Some)).collect();
                let least = vec![u64::MAX; ways.len()];
                all.insert(key, Tunable { nodes: vec![(g, i)], ways, least });
            }
        }
    }
    all
}

/// The model with the schedules that `way` returns.
fn with_ways(
    m: &CompiledModel,
    all: &BTreeMap<String, Tunable>,
    way: impl Fn(&str, &Tunable) -> Option<String>,
) -> CompiledModel {
    let mut m = m.clone();
    for (key, t) in all {
        let schedule = way(key, t);
        for (g, i) in &t.nodes {
            let attrs = &mut m.graphs[*g].nodes[*i].attrs;
            match &schedule {
                Some(s) => attrs.set(TUNING, AttrValue::from(vec![machine::name().to_owned(), s.clone()])),
                None => {
                    attrs.remove(TUNING);
                }
            }
        }
    }
    m
}

fn once(model: &Model, inputs: &[HostTensor], profile: bool) -> Result<ge_runtime::RunOutcome> {
    if ge_plugin::services::is_cancelled() {
        return Err(Error::cancelled());
    }
    let views: Vec<TensorView<'_>> = inputs.iter().map(HostTensor::view).collect();
    model.run_views(&views, RunOptions { profile })
}

/// Measures the ways inside the running model: the first way of all kernels in one model, their
/// second way in the next, and so on, in turns.
fn measure(
    session: &Session,
    m: &CompiledModel,
    inputs: &[HostTensor],
    all: &mut BTreeMap<String, Tunable>,
    budget: Duration,
) -> Result<()> {
    let most = all.values().map(|t| t.ways.len()).max().unwrap_or(0);
    let slice = budget / ROUNDS / (most.max(1) as u32);
    for _ in 0..ROUNDS {
        for k in 0..most {
            let begin = Instant::now();
            let model = session.load(with_ways(m, all, |_, t| t.ways.get(k).cloned().flatten()))?;
            // The first run is not counted: it touches memory that later runs find ready.
            once(&model, inputs, false)?;
            while {
                let ran = once(&model, inputs, true)?;
                note(m, &ran.report, all, k);
                begin.elapsed() < slice
            } {}
        }
    }
    Ok(())
}

/// Records the times of the kernels in a run with their `k`th ways.
fn note(m: &CompiledModel, report: &ge_plugin_api::device::RunReport, all: &mut BTreeMap<String, Tunable>, k: usize) {
    let mut ns: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for t in &report.tasks {
        if let Some(task) = m.tasks.get(t.task as usize).filter(|t| !t.kernel_name.is_empty()) {
            *ns.entry((task.graph, task.node)).or_default() += t.end_ns.saturating_sub(t.start_ns);
        }
    }
    for t in all.values_mut().filter(|t| k < t.ways.len()) {
        let of: Vec<u64> = t.nodes.iter().filter_map(|(g, i)| ns.get(&(*g as u32, *i as u32)).copied()).collect();
        if !of.is_empty() {
            t.least[k] = t.least[k].min(of.iter().sum());
        }
    }
}

/// The best way of a kernel; `None` if that is the default.
fn best(cpu: &str, key: &str, t: &Tunable) -> Option<Entry> {
    let (own, others) = t.least.split_first()?;
    let (k, least) = others.iter().enumerate().min_by_key(|(_, ns)| **ns)?;
    if *least == u64::MAX || *own == u64::MAX || *least as f64 > *own as f64 * WORTH {
        return None;
    }
    let us = |ns: u64| (ns as f64 / 1e3 / t.nodes.len() as f64 * 100.0).round() / 100.0;
    let schedule = t.ways.get(k + 1)?.clone()?;
    let (cpu, kernel) = (cpu.to_owned(), key.to_owned());
    Some(Entry { cpu, kernel, schedule, us: us(*least), default_us: us(*own) })
}

/// The shortest times of a whole run without and with the best ways, measured in turns, in ms.
fn confirm(
    session: &Session,
    m: &CompiledModel,
    inputs: &[HostTensor],
    cpu: &str,
    measured: &BTreeMap<String, Option<Entry>>,
    budget: Duration,
) -> Result<(f64, f64)> {
    let mut tuned = m.clone();
    let mut file = Tuning::default();
    file.put(cpu, measured.clone());
    file.apply(&mut tuned);
    let (plain, tuned) = (session.load(m.clone())?, session.load(tuned)?);
    let mut least = [f64::INFINITY; 2];
    let begin = Instant::now();
    let mut turns = 0;
    while turns < 3 || begin.elapsed() < budget {
        for (least, model) in least.iter_mut().zip([&plain, &tuned]) {
            let start = Instant::now();
            once(model, inputs, false)?;
            *least = least.min(start.elapsed().as_secs_f64() * 1e3);
        }
        turns += 1;
    }
    Ok((least[0], least[1]))
}
