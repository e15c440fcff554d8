//! Files of `ge plan streams`: the input graph, the output plan, and the offsets of outputs under
//! that plan.

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

/// The greatest accepted size of a graph file when unpacked, in bytes.
const MOST_BYTES: u64 = 1 << 30;

/// The greatest accepted sum of the outputs of all nodes in bytes, each with room for alignment, so
/// that no computed place overflows.
const BYTES_LIMIT: u64 = 1 << 62;

/// Room for the alignment of one output in bytes.
const ALIGNMENT: u64 = 512;

/// The planner to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamMode {
    /// One stream for each engine, as document 004 describes.
    Engine,
    /// At most this many streams of plain nodes, from the parallelism of the graph itself.
    Parallel(usize),
}

/// Options of [`plan_streams_file`].
#[derive(Debug, Clone)]
pub struct PlanStreamsOptions {
    /// The planner to use.
    pub mode: StreamMode,
    /// Cost in nanoseconds of a record, and likewise of a wait.
    pub event_cost: u64,
    /// The aim of the plan in [`StreamMode::Parallel`].
    pub aim: Aim,
    /// File for the offsets of the nodes' outputs under this plan (optionally `.gz`); `None`: not
    /// written.
    pub memory: Option<PathBuf>,
}

/// Memory that a plan needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanMemory {
    /// Size in bytes of the arena for the outputs under the plan's own order.
    pub arena: u64,
    /// Greatest sum of outputs, in bytes, that are live at once if the nodes run on one stream in
    /// the graph's topological order.
    pub one_stream: u64,
}

/// The result of planning a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanStreamsReport {
    /// Number of nodes in the graph.
    pub nodes: usize,
    /// Number of distinct edges in the graph.
    pub edges: usize,
    /// Number of streams in the plan.
    pub streams: usize,
    /// Number of events in the plan; it is minimal for its streams and order.
    pub events: usize,
    /// Run time of the plan in nanoseconds.
    pub makespan: u64,
    /// Run time on one stream in nanoseconds.
    pub work: u64,
    /// Memory of the plan, if offsets were requested.
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
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The input is not JSON of the expected form.
    #[error("{path}:{line}:{column}: {message}")]
    Form {
        /// Path of the file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong.
        message: String,
    },
    /// The input has the expected form but is inconsistent.
    #[error("{path}: {message}")]
    Content {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong, with the names used in the file.
        message: String,
    },
    /// The options do not go together, or not with the graph.
    #[error("{path}: {message}")]
    Asked {
        /// Path of the file that it is about.
        path: PathBuf,
        /// What does not go together.
        message: String,
    },
    /// The plan did not pass its own check; this is a bug of the program.
    #[error("the plan made is not sound: {0}")]
    Unsound(#[from] PlanFault),
    /// The caller cancelled.
    #[error("interrupted")]
    Cancelled,
}

/// The name of a node: an integer or a string.
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

/// A graph read from a file, in the form that the planners use.
#[derive(Debug)]
pub struct StreamGraph {
    names: Vec<Id>,
    /// Names of the engines by index, as in the file; nodes without an engine have the engine "".
    pub engines: Vec<String>,
    /// Names of the labels by index.
    pub labels: Vec<String>,
    /// The graph itself.
    pub dag: Dag,
    /// The rules for planning it.
    pub rules: Rules,
}

/// Reads a graph from a JSON file; a gzip file is recognised by its first bytes.
///
/// # Errors
/// Fails for an unreadable file, JSON of another form (with line and column), a repeated or unknown
/// id, or a cycle.
pub fn read_graph(path: &Path) -> Result<StreamGraph, PlanFileError> {
    let io = |source| PlanFileError::Io { what: "read", path: path.to_owned(), source };
    let raw = std::fs::read(path).map_err(io)?;
    let text = if raw.starts_with(&[0x1f, 0x8b]) {
        let mut out = Vec::new();
        MultiGzDecoder::new(raw.as_slice()).take(MOST_BYTES + 1).read_to_end(&mut out).map_err(io)?;
        if out.len() as u64 > MOST_BYTES {
            let message = format!("it unpacks to more than {MOST_BYTES} bytes");
            return Err(PlanFileError::Content { path: path.to_owned(), message });
        }
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

/// The message of serde_json without the position, which the error has separately.
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
    let sizes = form.nodes.iter().map(|f| f.out_bytes.saturating_add(ALIGNMENT));
    if sizes.fold(0, u64::saturating_add) > BYTES_LIMIT {
        return Err(format!("the outputs (out_bytes) add up to more than {BYTES_LIMIT} bytes"));
    }
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
            // An integer id is most often its own index.
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

/// Reads a graph, plans it, verifies the plan with the independent checker and writes it. The
/// output file appears complete or not at all.
///
/// `cancel` is called between the steps; if it returns true, the work ends without an output.
///
/// # Errors
/// Fails with a [`PlanFileError`]; no output file is left behind.
pub fn plan_streams_file(
    input: &Path,
    output: &Path,
    options: &PlanStreamsOptions,
    cancel: &dyn Fn() -> bool,
) -> Result<PlanStreamsReport, PlanFileError> {
    if options.memory.as_ref().is_some_and(|memory| one_file(output, memory)) {
        let message = "it is to hold the plan and the offsets (--memory); name two files".to_owned();
        return Err(PlanFileError::Asked { path: output.to_owned(), message });
    }
    let graph = read_graph(input)?;
    let events = (graph.dag.edges.len() as u64).saturating_add(1).saturating_mul(2);
    if options.event_cost.saturating_mul(events) > COST_LIMIT {
        let message = format!("events of {} ns each could add up to more than {COST_LIMIT} ns", options.event_cost);
        return Err(PlanFileError::Asked { path: input.to_owned(), message });
    }
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
    let mut files = vec![(output, json(output, &form)?)];
    let mut memory = None;
    if let Some(path) = &options.memory {
        let (text, need) = offsets_text(&graph, &plan.assignment);
        files.push((path, packed(path, text)?));
        memory = Some(need);
    }
    write_all(&files)?;
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

/// Whether two paths name one file.
fn one_file(a: &Path, b: &Path) -> bool {
    let folder = |p: &Path| {
        let parent = p.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::canonicalize(parent).unwrap_or_else(|_| parent.to_owned())
    };
    a.file_name() == b.file_name() && folder(a) == folder(b)
}

/// A field of a CSV file, in quotes if it has characters that separate fields or lines.
fn field(text: String) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

/// Places the outputs under the plan's order. The text is `id,size,offset`, one line for each
/// output of non-zero size.
fn offsets_text(graph: &StreamGraph, a: &StreamAssignment) -> (Vec<u8>, PlanMemory) {
    let dag = &graph.dag;
    let (offsets, arena) = offsets(dag, a);
    let mut text = String::from("id,size,offset\n");
    for (v, offset) in offsets {
        let size = dag.nodes[v as usize].out_bytes;
        text.push_str(&format!("{},{size},{offset}\n", field(graph.names[v as usize].to_string())));
    }
    (text.into_bytes(), PlanMemory { arena, one_stream: live_sum(dag, &dag.topo) })
}

/// Verifies that a plan is sound before it is written.
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

/// The bytes of a JSON file.
fn json<T: Serialize>(path: &Path, form: &T) -> Result<Vec<u8>, PlanFileError> {
    let io = |source| PlanFileError::Io { what: "write", path: path.to_owned(), source };
    let mut text = serde_json::to_vec(form).map_err(|e| io(e.into()))?;
    text.push(b'\n');
    packed(path, text)
}

/// The bytes of a file; a name that ends in `.gz` means a compressed file.
fn packed(path: &Path, text: Vec<u8>) -> Result<Vec<u8>, PlanFileError> {
    let io = |source| PlanFileError::Io { what: "write", path: path.to_owned(), source };
    if path.extension().is_none_or(|e| e != "gz") {
        return Ok(text);
    }
    let mut gz = GzEncoder::new(Vec::new(), flate2::Compression::default());
    gz.write_all(&text).and_then(|()| gz.finish()).map_err(io)
}

/// Writes files to temporary ones beside them and renames these once all are written.
fn write_all(files: &[(&Path, Vec<u8>)]) -> Result<(), PlanFileError> {
    let mut parts: Vec<(PathBuf, &Path)> = Vec::new();
    let mut done = Ok(());
    for (path, bytes) in files {
        let name = path.file_name().unwrap_or_default();
        let mut part = std::ffi::OsString::from(".");
        part.push(name);
        part.push(format!(".{}.part", std::process::id()));
        let part = path.with_file_name(part);
        parts.push((part.clone(), path));
        done = match name.is_empty() {
            true => Err(std::io::Error::other("the path names no file")),
            false => write_synced(&part, bytes),
        }
        .map_err(|e| (*path, e));
        if done.is_err() {
            break;
        }
    }
    done = done.and_then(|()| parts.iter().try_for_each(|(part, to)| std::fs::rename(part, to).map_err(|e| (*to, e))));
    done.map_err(|(path, source)| {
        // The error to report is the one above.
        parts.iter().for_each(|(part, _)| drop(std::fs::remove_file(part)));
        PlanFileError::Io { what: "write", path: path.to_owned(), source }
    })
}

fn write_synced(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = std::fs::File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
