//! `ge bench MODEL_OR_OM`: latency, throughput, load and compile time, memory, and time per node.
mod nodes;

use super::compile::BuildFlags;
use super::inputs::shapes::{self, Sizes};
use super::inputs::{DeviceFlags, InputFlags};
use super::run::{Target, open};
use crate::commands::flags::{CompileFlags, Global};
use crate::commands::talk::{print, print_json};
use crate::session::model::Item;
use crate::session::{Model, Session};
use crate::{Error, Result};
use clap::Args;
use ge_model::CompiledModel;
use ge_plugin_api::kernel::{HostTensor, TensorView};
use ge_plugin_api::types::tensor::Container;
use ge_runtime::RunOptions;
use ge_runtime::work::NodeWork;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  ge bench model.om --iterations 100 --per-node")]
pub struct BenchArgs {
    /// A model or an OM file
    model: PathBuf,
    #[command(flatten)]
    flags: CompileFlags,
    /// Runs before the clock starts
    #[arg(long, value_name = "N", default_value_t = 10)]
    warmup: u64,
    /// Runs that are measured
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    iterations: u64,
    /// Measures for this long instead
    #[arg(long, value_name = "SECONDS", conflicts_with = "iterations")]
    duration: Option<f64>,
    /// Threads of the pool
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    #[command(flatten)]
    inputs: InputFlags,
    /// Sizes of the inputs, of random numbers: "x:8,3,224,224;y:8"
    #[arg(long, value_name = "SHAPES", conflicts_with_all = ["dir", "named", "shapes"])]
    shape: Option<String>,
    /// A file of such sizes, a line each, which take turns
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dir", "named"])]
    shapes: Option<PathBuf>,
    /// Time, bytes and operations by node, from profiled runs, and the share of what this machine
    /// reaches
    #[arg(long)]
    per_node: bool,
    /// Alternates with another model and gives the ratio of the medians
    #[arg(long, value_name = "OTHER")]
    compare: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceFlags,
}

/// A model that is ready to be measured.
struct Subject {
    path: PathBuf,
    // Kept because the model needs its session; plugins are never unloaded.
    session: Session,
    model: Model,
    cases: Vec<Case>,
    compile_ms: f64,
    load_ms: f64,
}

/// One set of inputs to measure.
struct Case {
    /// The sizes that the user asked for, if any.
    shape: Option<String>,
    inputs: Vec<Item>,
    times_ms: Vec<f64>,
}

fn ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1e3
}

impl Subject {
    fn new(global: &Global, a: &BenchArgs, path: &Path) -> Result<Subject> {
        let start = Instant::now();
        let given = a.inputs.given(global);
        let target = Target { model: path, flags: &a.flags, build: &BuildFlags::default(), device: &a.device, given };
        let (session, compiled, made) = open(global, &target)?;
        let compile_ms = if made { ms(start.elapsed()) } else { 0.0 };
        let seed = a.inputs.random.unwrap_or(1);
        let sizes = match (&a.shape, &a.shapes) {
            (Some(text), _) => vec![shapes::parse(text)?],
            (None, Some(file)) => shapes::read(file)?,
            (None, None) => Vec::new(),
        };
        let case = |shape: Option<String>, inputs: Vec<HostTensor>| {
            let inputs = inputs.into_iter().map(Item::Tensor).collect();
            Case { shape, inputs, times_ms: Vec::new() }
        };
        let cases = match given {
            Some(_) => {
                let inputs = a.inputs.items(global, &a.flags, &compiled, (0, 1))?;
                vec![Case { shape: None, inputs, times_ms: Vec::new() }]
            }
            None if sizes.is_empty() => vec![case(None, Sizes::asked(&a.flags)?.inputs(&compiled, seed)?)],
            None => {
                let all = sizes.iter().map(|s| Ok(case(Some(s.text.clone()), s.inputs(&compiled, seed)?)));
                all.collect::<Result<Vec<Case>>>()?
            }
        };
        let start = Instant::now();
        let model = session.load(compiled)?;
        let load_ms = ms(start.elapsed());
        Ok(Subject { path: path.to_owned(), session, model, cases, compile_ms, load_ms })
    }
    fn run(&self, case: usize, options: RunOptions) -> Result<ge_runtime::RunOutcome> {
        if ge_plugin::services::is_cancelled() {
            return Err(Error::cancelled());
        }
        let inputs = &self.cases[case].inputs;
        let views: Option<Vec<TensorView<'_>>> = inputs.iter().map(|i| i.tensor().map(HostTensor::view)).collect();
        let tensors = self.model.info().outputs.iter().all(|o| o.desc.container == Container::TENSOR);
        match views.filter(|_| tensors) {
            Some(views) => self.model.run_views(&views, options),
            None => self.model.run_items(inputs, options).map(|r| r.0),
        }
    }
    /// Runs each case once.
    fn warm_up(&self) -> Result<()> {
        (0..self.cases.len()).try_for_each(|k| {
            self.model.give_back(self.run(k, RunOptions::default())?.outputs);
            Ok(())
        })
    }
    /// Measures each case once.
    fn measure(&mut self) -> Result<()> {
        for k in 0..self.cases.len() {
            let start = Instant::now();
            let outcome = self.run(k, RunOptions::default())?;
            self.cases[k].times_ms.push(ms(start.elapsed()));
            // Return the outputs so that the next run reuses their memory.
            self.model.give_back(outcome.outputs);
        }
        Ok(())
    }
    /// The work of a node in a model that this one launches.
    fn work(&self, m: &CompiledModel, graph: u32, node: u32) -> NodeWork {
        let engine = m.node(graph, node).and_then(|n| self.session.registry().engine(&n.engine));
        engine.and_then(|e| ge_runtime::work::of(e, m, graph, node)).unwrap_or_default()
    }
}

/// Runs the command.
pub fn run(global: &Global, a: &BenchArgs) -> Result<u8> {
    if let Some(d) = a.duration {
        if !(d > 0.0 && d <= 86_400.0) {
            return Err(Error::usage("`--duration` takes seconds from above 0 to 86400"));
        }
    }
    if let Some(n) = a.threads {
        ge_plugin::services::set_jobs(usize::from(n));
    }
    let mut all = vec![Subject::new(global, a, &a.model)?];
    if let Some(other) = &a.compare {
        all.push(Subject::new(global, a, other)?);
    }
    for _ in 0..a.warmup {
        for s in &all {
            s.warm_up()?;
        }
    }
    let begin = Instant::now();
    let mut round = 0u64;
    loop {
        let over = match a.duration {
            Some(d) => round > 0 && begin.elapsed().as_secs_f64() >= d,
            None => round >= a.iterations,
        };
        if over {
            break;
        }
        for s in &mut all {
            s.measure()?;
        }
        round += 1;
    }
    let threads =
        a.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get().min(16)), usize::from);
    let mut doc = document(&all[0], threads, a.per_node)?;
    if let (Some(other), Value::Object(o)) = (all.get(1), &mut doc) {
        let theirs = document(other, threads, a.per_node)?;
        let (x, y) = (&o["latency_ms"]["median"], &theirs["latency_ms"]["median"]);
        let ratio = match (x.as_f64(), y.as_f64()) {
            (Some(x), Some(y)) if y > 0.0 => json!(x / y),
            _ => Value::Null,
        };
        o.insert("compare".into(), theirs);
        o.insert("ratio".into(), ratio);
    }
    if global.json {
        print_json(&doc)?
    } else {
        print(&text(&doc))?
    }
    Ok(0)
}

/// The quantile of a sorted list; `share` is from 0 to 1.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len().max(1)) - 1;
    sorted.get(at).copied().unwrap_or(0.0)
}

fn document(s: &Subject, threads: usize, per_node: bool) -> Result<Value> {
    let times: Vec<f64> = s.cases.iter().flat_map(|c| c.times_ms.iter().copied()).collect();
    let sum: f64 = times.iter().sum();
    let n = times.len().max(1) as f64;
    let m = s.model.info();
    let memory = m
        .memory
        .spaces
        .iter()
        .map(|s| s.size)
        .fold(m.memory.weights.saturating_add(m.memory.variables), u64::saturating_add);
    let mut doc = json!({
        "schema": 1, "model": m.name, "file": s.path.display().to_string(), "threads": threads, "iterations": times.len(),
        "latency_ms": latency(times),
        "throughput_per_s": if sum > 0.0 { n * 1e3 / sum } else { 0.0 }, "load_ms": s.load_ms, "compile_ms": s.compile_ms,
        "peak_rss_bytes": super::compile::peak_bytes(), "device_memory_bytes": memory, "nodes": [],
    });
    if s.cases.iter().any(|c| c.shape.is_some()) {
        let one = |c: &Case| json!({"shape": c.shape, "latency_ms": latency(c.times_ms.clone())});
        doc["shapes"] = s.cases.iter().map(one).collect();
    }
    if per_node {
        let peak = nodes::Peak::of(&s.session, &m.soc)?;
        doc["peak"] = peak.map_or(Value::Null, |p| p.json());
        for k in 0..s.cases.len() {
            let of = nodes::nodes(s, k, peak.as_ref())?;
            if let Some(shape) = doc.get_mut("shapes").and_then(|all| all.get_mut(k)) {
                shape["nodes"] = of.clone().into();
            }
            if k == 0 {
                doc["nodes"] = of.into();
            }
        }
    }
    Ok(doc)
}

fn latency(mut times: Vec<f64>) -> Value {
    times.sort_by(f64::total_cmp);
    let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
    json!({
        "min": times.first().copied().unwrap_or(0.0), "median": quantile(&times, 0.5), "mean": mean,
        "p90": quantile(&times, 0.9), "p99": quantile(&times, 0.99), "max": times.last().copied().unwrap_or(0.0),
    })
}

fn text(doc: &Value) -> String {
    let f = |v: &Value| v.as_f64().unwrap_or(0.0);
    // Two builds of one model have the same name, so they are shown with their files.
    let both = doc["compare"].is_object();
    let one = |d: &Value| {
        let l = &d["latency_ms"];
        format!(
            "{}{}: {} runs, median {:.3} ms (min {:.3}, mean {:.3}, p90 {:.3}, p99 {:.3}, max {:.3}), {:.1} a second\n  load {:.1} ms, compile {:.1} ms, device memory {} bytes, peak {} bytes\n",
            d["model"].as_str().unwrap_or(""),
            if both { format!(" ({})", d["file"].as_str().unwrap_or("")) } else { String::new() },
            d["iterations"],
            f(&l["median"]),
            f(&l["min"]),
            f(&l["mean"]),
            f(&l["p90"]),
            f(&l["p99"]),
            f(&l["max"]),
            f(&d["throughput_per_s"]),
            f(&d["load_ms"]),
            f(&d["compile_ms"]),
            d["device_memory_bytes"],
            d["peak_rss_bytes"]
        )
    };
    let mut out = one(doc);
    let shapes = doc["shapes"].as_array().map_or(&[][..], Vec::as_slice);
    for s in shapes {
        let l = &s["latency_ms"];
        let shape = s["shape"].as_str().unwrap_or("");
        out.push_str(&format!(
            "  {shape}: median {:.3} ms (min {:.3}, p99 {:.3})\n",
            f(&l["median"]),
            f(&l["min"]),
            f(&l["p99"])
        ));
        out.push_str(&table(&s["nodes"]));
    }
    if shapes.is_empty() {
        out.push_str(&table(&doc["nodes"]));
    }
    if doc["peak"].is_object() {
        let p = &doc["peak"];
        out.push_str(&format!(
            "  this machine reaches {:.1} GFLOP/s in f32, {:.1} in bf16, {:.1} G operations a second on bytes, {:.1} GB/s of \
             memory copied, {:.1} GB/s read\n",
            f(&p["flops_per_s"]) / 1e9,
            f(&p["bf16_ops_per_s"]) / 1e9,
            f(&p["byte_ops_per_s"]) / 1e9,
            f(&p["bytes_per_s"]) / 1e9,
            f(&p["bytes_read_per_s"]) / 1e9
        ));
    }
    if doc["compare"].is_object() {
        out.push_str(&one(&doc["compare"]));
        out.push_str(&verdict(&doc["file"], &doc["compare"]["file"], f(&doc["ratio"])));
    }
    out
}

/// The table of nodes with their times; the last column is the share of the machine's peak.
fn table(nodes: &Value) -> String {
    let mut out = String::new();
    for n in nodes.as_array().into_iter().flatten() {
        let text = |key: &str| n[key].as_str().unwrap_or("").to_owned();
        let some = |key: &str, by: f64, unit: &str| match n[key].as_f64() {
            Some(v) => format!("{:>9.2} {unit}", v / by),
            None => format!("{:>9} {unit}", "-"),
        };
        out.push_str(&format!(
            "  {:<40} {:<16} {:<14} {:>10.2} us {:>5.1} % {} {} {}\n",
            text("name"),
            text("op"),
            text("engine"),
            n["us"].as_f64().unwrap_or(0.0),
            n["time_share"].as_f64().unwrap_or(0.0) * 100.0,
            some("bytes", 1e6, "MB"),
            some("flops", 1e6, "MFLOP"),
            some("share", 0.01, "% of the roofline"),
        ));
    }
    out
}

/// Says which of two models is faster, by the ratio of their medians.
fn verdict(a: &Value, b: &Value, ratio: f64) -> String {
    let (a, b) = (a.as_str().unwrap_or("A"), b.as_str().unwrap_or("B"));
    if ratio <= 0.0 {
        return "the medians cannot be compared: one is zero\n".into();
    }
    let (fast, slow, times) = if ratio <= 1.0 { (a, b, 1.0 / ratio) } else { (b, a, ratio) };
    if times < 1.005 {
        return format!("{a} and {b} are equally fast (ratio of the medians {ratio:.3})\n");
    }
    format!("{fast} is {times:.2}x as fast as {slow} (ratio of the medians {ratio:.3})\n")
}

#[cfg(test)]
mod tests {
    use super::{quantile, verdict};
    use serde_json::json;
    #[test]
    fn the_faster_of_two_is_named_by_its_file() {
        let said = |r| verdict(&json!("a.om"), &json!("b.om"), r);
        assert!(said(0.5).starts_with("a.om is 2.00x as fast as b.om"));
        assert!(said(1.36).starts_with("b.om is 1.36x as fast as a.om"));
        assert!(said(1.001).contains("equally fast"));
    }
    #[test]
    fn quantiles_are_values_of_the_list() {
        let v = [1.0, 2.0, 3.0, 4.0];
        assert_eq!([0.5, 0.9, 0.99].map(|q| quantile(&v, q)), [2.0, 4.0, 4.0]);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }
}
