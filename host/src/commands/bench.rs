//! `ge bench MODEL_OR_OM`: latency, throughput, load and compile time, memory, time by node.
use super::compile::BuildFlags;
use super::inputs::{DeviceFlags, InputFlags, gather};
use super::run::{Target, open};
use crate::commands::flags::{CompileFlags, Global};
use crate::commands::talk::{print, print_json};
use crate::session::{Model, Session};
use crate::{Error, Result};
use clap::Args;
use ge_model::CompiledModel;
use ge_plugin_api::kernel::{HostTensor, TensorView};
use ge_runtime::RunOptions;
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
    /// Time by node, from a profiled run
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
    // The plugins stay loaded for ever; the session is held for the models that it made.
    _session: Session,
    model: Model,
    inputs: Vec<HostTensor>,
    compile_ms: f64,
    load_ms: f64,
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
        let inputs = match given {
            Some(given) => gather(&compiled, &given)?,
            None => crate::session::model::random_inputs(&compiled, a.inputs.random.unwrap_or(1))?,
        };
        let start = Instant::now();
        let model = session.load(compiled)?;
        let load_ms = ms(start.elapsed());
        Ok(Subject {
            path: path.to_owned(),
            _session: session,
            model,
            inputs,
            compile_ms,
            load_ms,
            times_ms: Vec::new(),
        })
    }
    fn run(&self, options: RunOptions) -> Result<ge_runtime::RunOutcome> {
        if ge_plugin::services::is_cancelled() {
            return Err(Error::cancelled());
        }
        let views: Vec<TensorView<'_>> = self.inputs.iter().map(HostTensor::view).collect();
        self.model.run_views(&views, options)
    }
    fn measure(&mut self) -> Result<()> {
        let start = Instant::now();
        self.run(RunOptions::default())?;
        self.times_ms.push(ms(start.elapsed()));
        Ok(())
    }
}

/// Runs it.
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
            s.run(RunOptions::default())?;
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

/// The value below which a share of the sorted list lies.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len().max(1)) - 1;
    sorted.get(at).copied().unwrap_or(0.0)
}

fn document(s: &Subject, threads: usize, per_node: bool) -> Result<Value> {
    let mut times = s.times_ms.clone();
    times.sort_by(f64::total_cmp);
    let sum: f64 = times.iter().sum();
    let n = times.len().max(1) as f64;
    let m = s.model.info();
    let memory = m
        .memory
        .spaces
        .iter()
        .map(|s| s.size)
        .fold(m.memory.weights.saturating_add(m.memory.variables), u64::saturating_add);
    let nodes = if per_node { nodes(s, m)? } else { Vec::new() };
    Ok(json!({
        "schema": 1, "model": m.name, "file": s.path.display().to_string(), "threads": threads, "iterations": times.len(),
        "latency_ms": {
            "min": times.first().copied().unwrap_or(0.0), "median": quantile(&times, 0.5), "mean": sum / n,
            "p90": quantile(&times, 0.9), "p99": quantile(&times, 0.99), "max": times.last().copied().unwrap_or(0.0),
        },
        "throughput_per_s": if sum > 0.0 { n * 1e3 / sum } else { 0.0 }, "load_ms": s.load_ms, "compile_ms": s.compile_ms,
        "peak_rss_bytes": super::compile::peak_bytes(), "device_memory_bytes": memory, "nodes": nodes,
    }))
}

/// Profiled runs behind the figures by node; their mean is shown.
const PROFILED: u32 = 5;

fn nodes(s: &Subject, m: &CompiledModel) -> Result<Vec<Value>> {
    let mut ns = vec![0u64; m.tasks.len()];
    for _ in 0..PROFILED {
        for t in &s.run(RunOptions { profile: true })?.report.tasks {
            if let Some(n) = ns.get_mut(t.task as usize) {
                *n += t.end_ns.saturating_sub(t.start_ns);
            }
        }
    }
    let mut out: Vec<(u32, u32, u64)> = Vec::new();
    for (t, ns) in m.tasks.iter().zip(ns).filter(|(t, _)| !t.kernel_name.is_empty()) {
        match out.iter_mut().rev().take(8).find(|o| (o.0, o.1) == (t.graph, t.node)) {
            Some(o) => o.2 += ns,
            None => out.push((t.graph, t.node, ns)),
        }
    }
    Ok(out
        .into_iter()
        .filter_map(|(g, n, ns)| {
            let node = m.node(g, n)?;
            Some(json!({"name": node.name, "engine": node.engine, "us": ns as f64 / 1e3 / f64::from(PROFILED)}))
        })
        .collect())
}

fn text(doc: &Value) -> String {
    let f = |v: &Value| v.as_f64().unwrap_or(0.0);
    // Two builds of one model have one name: their files tell them apart.
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
    for n in doc["nodes"].as_array().into_iter().flatten() {
        let (name, engine) = (n["name"].as_str().unwrap_or(""), n["engine"].as_str().unwrap_or(""));
        out.push_str(&format!("  {name:<40} {engine:<20} {:>10.2} us\n", f(&n["us"])));
    }
    if doc["compare"].is_object() {
        out.push_str(&one(&doc["compare"]));
        out.push_str(&verdict(&doc["file"], &doc["compare"]["file"], f(&doc["ratio"])));
    }
    out
}

/// Which of two is faster, by their medians' ratio, in words.
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
