//! The files of `ge plan streams`: a graph in, a plan out, and the offsets of outputs under that
//! plan.

use super::dag::{COST_LIMIT, Dag, DagError, DagNode, Kind, Rules, StreamAssignment};
use super::memory::live_sum;
use super::offsets::offsets;
use super::{Aim, EventCost, ParallelOptions, plan_parallel};
use crate::events::check::{PlanFault, PlanView, check_plan};
use crate::events::transitive::Event;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Which planner runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamMode {
    /// One stream per engine as document 004 has it.
    Engine,
    /// At most so many streams of plain nodes, from the graph's own parallelism.
    Parallel(usize),
}

/// Options of [`plan_streams_file`].
#[derive(Debug, Clone)]
pub struct PlanStreamsOptions {
    /// The planner.
    pub mode: StreamMode,
    /// Cost of a record and of a wait, in ns each.
    pub event_cost: u64,
    /// What the plan is chosen for, in [`StreamMode::Parallel`].
    pub aim: Aim,
    /// Where the offsets of the nodes' outputs under this plan are written (`.gz` too).
    pub memory: Option<PathBuf>,
}

/// Memory of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanMemory {
    /// Bytes that the outputs need under the plan's own order.
    pub arena: u64,
    /// Greatest sum of outputs that live at once on one stream in the order of the file.
    pub one_stream: u64,
}

/// What was planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanStreamsReport {
    /// Nodes of the graph.
    pub nodes: usize,
    /// Distinct edges of the graph.
    pub edges: usize,
    /// Streams of the plan.
    pub streams: usize,
    /// Events of the plan, the least for its streams and order.
    pub events: usize,
    /// Run time of the plan in ns.
    pub makespan: u64,
    /// Run time on one stream in ns.
    pub work: u64,
    /// Memory, where offsets were asked for.
    pub memory: Option<PlanMemory>,
}

/// Why a plan could not be made.
#[derive(Debug, Error)]
pub enum PlanFileError {
    /// A file could not be opened, read or written.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// `read` or `write`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The input is no JSON of the form expected.
    #[error("{path}:{line}:{column}: {message}")]
    Form {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong.
        message: String,
    },
    /// The input is JSON of the form, but says something impossible.
    #[error("{path}: {message}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong, by the names of the file.
        message: String,
    },
    /// The plan did not pass its own check: a fault of this program.
    #[error("the plan made is not sound: {0}")]
    Unsound(#[from] PlanFault),
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
}

/// The name of a node: a whole number or a string.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
enum Id {
    Number(i64),
    Text(String),
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Id::Number(k) => write!(f, "{k}"),
            Id::Text(t) => write!(f, "{t}"),
        }
    }
}

#[derive(Debug, Deserialize)]
struct NodeForm {
    id: Id,
    engine: Option<String>,
    #[serde(default = "one")]
    cost: u64,
    label: Option<String>,
    #[serde(default)]
    out_bytes: u64,
    #[serde(default)]
    keep: bool,
}

fn one() -> u64 {
    1
}

#[derive(Debug, Deserialize)]
struct GraphForm {
    nodes: Vec<NodeForm>,
    edges: Vec<(Id, Id)>,
    independent_engines: Option<Vec<String>>,
    engine_slots: Option<IndexMap<String, u32>>,
    max_streams: Option<usize>,
}

/// A graph as the file has it, in the terms of the planners.
#[derive(Debug)]
pub struct StreamGraph {
    names: Vec<Id>,
    /// Engines by index, as named in the file; nodes without one have the engine "".
    pub engines: Vec<String>,
    /// Labels by index.
    pub labels: Vec<String>,
    /// The graph.
    pub dag: Dag,
    /// Its rules.
    pub rules: Rules,
}

/// Reads a graph from a `.json` or `.json.gz` file (told by its first bytes).
///
/// # Errors
/// An unreadable file, JSON of another form (with line and column), a repeated or unknown id, a
/// cycle.
pub fn read_graph(path: &Path) -> Result<StreamGraph, PlanFileError> {
    let io = |source| PlanFileError::Io { what: "read", path: path.to_owned(), source };
    let raw = std::fs::read(path).map_err(io)?;
    let text = if raw.starts_with(&[0x1f, 0x8b]) {
        let mut out = Vec::new();
        MultiGzDecoder::new(raw.as_slice()).read_to_end(&mut out).map_err(io)?;
        out
    } else {
        raw
    };
    let form: GraphForm = serde_json::from_slice(&text).map_err(|e| PlanFileError::Form {
        path: path.to_owned(),
        line: e.line(),
        column: e.column(),
        message: plain_message(&e),
    })?;
    graph_of(form).map_err(|message| PlanFileError::Content { path: path.to_owned(), message })
}

/// serde_json's words without the place, which the error has on its own.
fn plain_message(e: &serde_json::Error) -> String {
    let full = e.to_string();
    let place = format!(" at line {} column {}", e.line(), e.column());
    full.strip_suffix(&place).unwrap_or(&full).to_owned()
}

fn graph_of(form: GraphForm) -> Result<StreamGraph, String> {
    let mut index: HashMap<String, u32> = HashMap::with_capacity(form.nodes.len());
    let mut engines: IndexMap<String, ()> = IndexMap::new();
    let mut labels: IndexMap<String, ()> = IndexMap::new();
    let (mut names, mut nodes) = (Vec::new(), Vec::new());
    for f in form.nodes {
        let k = u32::try_from(nodes.len()).map_err(|_| "more than 4,294,967,295 nodes".to_owned())?;
        if index.insert(f.id.to_string(), k).is_some() {
            return Err(format!("node id {} stands twice", f.id));
        }
        let (engine, _) = engines.insert_full(f.engine.unwrap_or_default(), ());
        let label = f.label.filter(|l| !l.is_empty()).map(|l| labels.insert_full(l, ()).0 as u32);
        names.push(f.id);
        nodes.push(DagNode {
            cost: f.cost,
            engine: engine as u32,
            label,
            out_bytes: f.out_bytes,
            keep: f.keep,
            follow: None,
        });
    }
    let mut edges = Vec::with_capacity(form.edges.len());
    for (k, (a, b)) in form.edges.iter().enumerate() {
        let find = |id: &Id| {
            // a whole number is most often its own index
            if let Id::Number(k) = id
                && let Some(at) = usize::try_from(*k).ok().filter(|&at| names.get(at) == Some(id))
            {
                return Ok(at as u32);
            }
            index
                .get(&id.to_string())
                .copied()
                .ok_or_else(|| format!("edge {k} names node {id}, which is not in `nodes`"))
        };
        edges.push((find(a)?, find(b)?));
    }
    let dag = Dag::new(nodes, &edges).map_err(|e| match e {
        DagError::Cycle { node } => format!("the edges form a cycle through node {}", names[node as usize]),
        DagError::CostOverflow { .. } => format!("the costs add up to more than {COST_LIMIT} ns"),
        other => other.to_string(),
    })?;
    let independent_names = form.independent_engines;
    let independent = engines
        .keys()
        .map(|e| match &independent_names {
            Some(list) => list.contains(e),
            None => super::engine::flags::EngineFlags::of(e).independent,
        })
        .collect();
    let slots = engines.keys().map(|e| form.engine_slots.as_ref().and_then(|s| s.get(e).copied())).collect();
    if let Some((name, _)) = form.engine_slots.iter().flatten().find(|(_, s)| **s == 0) {
        return Err(format!("engine_slots of {name} is 0: its nodes could never run"));
    }
    let rules = Rules { independent, slots, labels: labels.len(), max_streams: form.max_streams.filter(|&m| m > 0) };
    Ok(StreamGraph { names, engines: engines.into_keys().collect(), labels: labels.into_keys().collect(), dag, rules })
}

#[derive(Serialize)]
struct EventForm<'a> {
    id: usize,
    send_node: &'a Id,
    recv_node: &'a Id,
}

#[derive(Serialize)]
struct PlanForm<'a> {
    streams: IndexMap<String, u32>,
    order: Vec<&'a Id>,
    events: Vec<EventForm<'a>>,
}

/// Reads a graph, plans it, checks the plan with the independent checker and writes it, whole or
/// not at all.
///
/// `cancel` is asked between the steps; true ends the work without an output.
///
/// # Errors
/// See [`PlanFileError`]; no output file is left behind.
pub fn plan_streams_file(
    input: &Path,
    output: &Path,
    options: &PlanStreamsOptions,
    cancel: &dyn Fn() -> bool,
) -> Result<PlanStreamsReport, PlanFileError> {
    let graph = read_graph(input)?;
    let stop = || if cancel() { Err(PlanFileError::Cancelled) } else { Ok(()) };
    stop()?;
    let content = |e: DagError| PlanFileError::Content { path: input.to_owned(), message: e.to_string() };
    let plan = match options.mode {
        StreamMode::Parallel(plain) => plan_parallel(
            &graph.dag,
            &graph.rules,
            &ParallelOptions { plain, events: EventCost::each(options.event_cost), aim: options.aim },
        ),
        StreamMode::Engine => super::engine::plan_engines(&graph.dag, &graph.rules, &graph.engines, options.event_cost),
    }
    .map_err(content)?;
    stop()?;
    check_made(&graph, &plan.assignment.stream, &plan.assignment.order, &plan.events)?;
    let form = PlanForm {
        streams: graph.names.iter().map(Id::to_string).zip(plan.assignment.stream.iter().copied()).collect(),
        order: plan.assignment.order.iter().map(|&v| &graph.names[v as usize]).collect(),
        events: plan
            .events
            .iter()
            .enumerate()
            .map(|(id, e)| EventForm {
                id,
                send_node: &graph.names[e.send as usize],
                recv_node: &graph.names[e.recv as usize],
            })
            .collect(),
    };
    stop()?;
    let memory = match &options.memory {
        Some(path) => Some(write_offsets(path, &graph, &plan.assignment)?),
        None => None,
    };
    write_json(output, &form)?;
    Ok(PlanStreamsReport {
        memory,
        nodes: graph.dag.len(),
        edges: graph.dag.edges.len(),
        streams: plan.assignment.streams,
        events: plan.events.len(),
        makespan: plan.makespan,
        work: graph.dag.work(),
    })
}

/// Places the outputs under the plan's order and writes `id,size,offset`, a line for each output
/// that has bytes.
fn write_offsets(path: &Path, graph: &StreamGraph, a: &StreamAssignment) -> Result<PlanMemory, PlanFileError> {
    let dag = &graph.dag;
    let (offsets, arena) = offsets(dag, a);
    let mut text = String::from("id,size,offset\n");
    for (v, offset) in offsets {
        let size = dag.nodes[v as usize].out_bytes;
        text.push_str(&format!("{},{size},{offset}\n", graph.names[v as usize]));
    }
    write_packed(path, text.into_bytes())?;
    Ok(PlanMemory { arena, one_stream: live_sum(dag, &dag.topo) })
}

/// Proves a plan sound before it leaves.
fn check_made(graph: &StreamGraph, stream: &[u32], order: &[u32], events: &[Event]) -> Result<(), PlanFault> {
    let mut names: BTreeMap<Kind, u64> = BTreeMap::new();
    let mut reserve = Vec::with_capacity(graph.dag.len());
    for node in &graph.dag.nodes {
        let next = names.len() as u64;
        reserve.push(match graph.rules.kind(node) {
            Kind::Plain => None,
            kind => Some(*names.entry(kind).or_insert(next)),
        });
    }
    let together: Vec<u64> = names.iter().filter(|(k, _)| matches!(k, Kind::Label(_))).map(|(_, &v)| v).collect();
    let pairs: Vec<(u32, u32)> = events.iter().map(|e| (e.send, e.recv)).collect();
    check_plan(&PlanView {
        nodes: graph.dag.len(),
        edges: &graph.dag.edges,
        stream,
        order,
        events: &pairs,
        joins: &[],
        event_ids: &[],
        branches: &[],
        reserve: &reserve,
        together: &together,
        max_streams: graph.rules.max_streams,
    })
}

/// Writes beside the target and renames; `.gz` in the name packs it.
fn write_json<T: Serialize>(path: &Path, form: &T) -> Result<(), PlanFileError> {
    let io = |source| PlanFileError::Io { what: "write", path: path.to_owned(), source };
    let mut text = serde_json::to_vec(form).map_err(|e| io(e.into()))?;
    text.push(b'\n');
    write_packed(path, text)
}

fn write_packed(path: &Path, mut text: Vec<u8>) -> Result<(), PlanFileError> {
    let io = |source| PlanFileError::Io { what: "write", path: path.to_owned(), source };
    if path.extension().is_some_and(|e| e == "gz") {
        let mut gz = GzEncoder::new(Vec::new(), flate2::Compression::default());
        gz.write_all(&text).map_err(io)?;
        text = gz.finish().map_err(io)?;
    }
    write_atomic(path, &text).map_err(io)
}

fn write_atomic(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let name = path.file_name().ok_or_else(|| std::io::Error::other("the path names no file"))?;
    let mut part = std::ffi::OsString::from(".");
    part.push(name);
    part.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(part);
    let done = std::fs::File::create(&part)
        .and_then(|mut f| f.write_all(bytes).and_then(|()| f.sync_all()))
        .and_then(|()| std::fs::rename(&part, path));
    if done.is_err() {
        // the error that matters is the one above
        let _ = std::fs::remove_file(&part);
    }
    done
}
