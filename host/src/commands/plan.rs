//! `ge plan`: the memory planner on a file of buffers, and the stream planner on a graph file.
use crate::commands::flags::Global;
use crate::commands::talk::{print_json, say};
use crate::{Diagnostic, Result};
use clap::{Args, Subcommand};
use ge_planners::memory::MemoryEffort;
use ge_planners::memory::plan_file::{PlanMemoryOptions, plan_memory_file};
use std::path::PathBuf;

#[derive(Subcommand, Debug)]
pub enum PlanCommand {
    /// Offsets for buffers with lifetimes: id,lower,upper,size to id,lower,upper,size,offset
    #[command(after_help = "Example:\n  ge plan memory buffers.csv -o plan.csv --capacity 1048576")]
    Memory(MemoryArgs),
    /// Streams and events for a graph with costs
    #[command(after_help = "Example:\n  ge plan streams graph.json -o plan.json --mode parallel:4 --event-cost 1500")]
    Streams(StreamsArgs),
}

#[derive(Args, Debug)]
pub struct StreamsArgs {
    /// Graph (.json or .json.gz)
    input: PathBuf,
    /// Where the plan is written
    #[arg(short, long)]
    output: PathBuf,
    /// engine, or parallel:N
    #[arg(long, default_value = "parallel:4")]
    mode: String,
    /// Cost of a record and of a wait, in ns each
    #[arg(long, value_name = "NS", default_value_t = 0)]
    event_cost: u64,
    /// Where the offsets of the nodes' outputs under the plan are written
    #[arg(long, value_name = "OUT.csv")]
    memory: Option<PathBuf>,
    /// An option; ge.x.plan counts here (speed where not given)
    #[arg(long = "set", value_name = "NAME=VALUE")]
    sets: Vec<String>,
    /// JSON file of options
    #[arg(long, value_name = "FILE")]
    options: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct MemoryArgs {
    /// Buffers (.csv or .csv.gz)
    input: PathBuf,
    /// Where the plan is written
    #[arg(short, long)]
    output: PathBuf,
    /// Fail, naming the peak's holders, if the plan needs more bytes
    #[arg(long)]
    capacity: Option<u64>,
    /// An option; ge.x.memory_effort counts here (max where not given)
    #[arg(long = "set", value_name = "NAME=VALUE")]
    sets: Vec<String>,
    /// JSON file of options
    #[arg(long, value_name = "FILE")]
    options: Option<PathBuf>,
}

/// Runs the command.
pub fn run(global: &Global, command: &PlanCommand) -> Result<u8> {
    match command {
        PlanCommand::Memory(a) => memory(global, a),
        PlanCommand::Streams(a) => streams(global, a),
    }
}

fn streams(global: &Global, a: &StreamsArgs) -> Result<u8> {
    use ge_planners::streams::Aim;
    use ge_planners::streams::plan_file::{PlanFileError as E, PlanStreamsOptions, StreamMode, plan_streams_file};
    crate::options::check("ge.x.stream_mode", &a.mode, "--mode")?;
    let mode = match a.mode.strip_prefix("parallel:").and_then(|n| n.parse().ok()) {
        Some(n) => StreamMode::Parallel(n),
        None => StreamMode::Engine,
    };
    let given = crate::options::OptionMap::gather(&a.sets, a.options.as_deref())?;
    let aim = Aim::of(given.given().get("ge.x.plan").map_or("speed", String::as_str));
    let options = PlanStreamsOptions { mode, event_cost: a.event_cost, aim, memory: a.memory.clone() };
    let report = plan_streams_file(&a.input, &a.output, &options, &ge_plugin::services::is_cancelled).map_err(|e| {
        Diagnostic::error(e.to_string()).raise(match &e {
            E::Io { what: "read", .. } => ge_codes::UNREADABLE,
            E::Io { .. } => ge_codes::UNWRITABLE,
            E::Form { .. } | E::Content { .. } => ge_codes::DAMAGED_FILE,
            E::Cancelled => ge_codes::INTERRUPTED,
            _ => ge_codes::STREAM_PLAN,
        })
    })?;
    let speedup = if report.makespan == 0 { 1.0 } else { report.work as f64 / report.makespan as f64 };
    say(
        global,
        &format!(
            "{} nodes on {} streams, {} events, makespan {} ns, {speedup:.2} times one stream",
            report.nodes, report.streams, report.events, report.makespan
        ),
    );
    if let Some(m) = report.memory {
        say(
            global,
            &format!(
                "arena {} bytes, {:.3} times what lives at once on one stream",
                m.arena,
                m.arena as f64 / m.one_stream.max(1) as f64
            ),
        );
    }
    if global.json {
        let mut doc = serde_json::json!({"schema": 1, "nodes": report.nodes, "edges": report.edges, "streams": report.streams, "events": report.events, "makespan": report.makespan, "work": report.work});
        if let (Some(m), Some(o)) = (report.memory, doc.as_object_mut()) {
            o.insert("arena".into(), m.arena.into());
            o.insert("one_stream".into(), m.one_stream.into());
        }
        print_json(&doc)?;
    }
    Ok(0)
}

fn memory(global: &Global, a: &MemoryArgs) -> Result<u8> {
    let options = crate::options::OptionMap::gather(&a.sets, a.options.as_deref())?;
    let effort = match options.given().get("ge.x.memory_effort").map(String::as_str) {
        Some("fast") => MemoryEffort::Fast,
        Some("default") => MemoryEffort::Default,
        _ => MemoryEffort::Max,
    };
    let progress = crate::render::Progress::new(global.progress, global.quiet, 1);
    progress.stage("memory", 0);
    let show = |done: u64, total: u64| progress.at(done, total);
    let report = plan_memory_file(
        &a.input,
        &a.output,
        &PlanMemoryOptions { effort, capacity: a.capacity },
        &show,
        &ge_plugin::services::is_cancelled,
    );
    progress.finish();
    let report = report.map_err(|e| {
        use ge_planners::memory::plan_file::PlanFileError as E;
        Diagnostic::error(e.to_string()).raise(match &e {
            E::Read { .. } => ge_codes::UNREADABLE,
            E::Form { .. } | E::Limit { .. } => ge_codes::DAMAGED_FILE,
            E::Assign(_) if ge_plugin::services::is_cancelled() => ge_codes::INTERRUPTED,
            _ => ge_codes::MEMORY_PLAN,
        })
    })?;
    let ratio = if report.lower_bound == 0 { 1.0 } else { report.arena as f64 / report.lower_bound as f64 };
    say(
        global,
        &format!(
            "{} buffers, arena {} bytes, lower bound {}, ratio {ratio:.4}, by {}",
            report.buffers, report.arena, report.lower_bound, report.assigner
        ),
    );
    if global.json {
        print_json(
            &serde_json::json!({"schema": 1, "buffers": report.buffers, "arena": report.arena, "lower_bound": report.lower_bound, "assigner": report.assigner}),
        )?;
    }
    Ok(0)
}
