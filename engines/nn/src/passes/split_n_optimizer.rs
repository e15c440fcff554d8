//! `SplitNOptimizer`: a split whose outputs are consecutive pieces of its input needs no task.
//!
//! Before: `%s = SplitD(%x) {num_split = 2, split_dim = 0}`
//! After: the same with `_no_task`, `_nopadding_continuous_output`, `_output_reuse_input`,
//! `_reuse_input_on_dim_index = 0`
//! When: all run-time axes before the split axis have size 1, nothing is padded, every piece is a
//! multiple of 32 bytes, and all its readers are AI core nodes that read it without special
//! requirements.
//! Refuses: constants, variables and reshaped or transformed graph inputs; inputs and readers
//! without a task, atomic ones, or ones with continuous memory of their own; graph outputs,
//! collectives and further splits; special memory types; graphs of unknown shapes.
//! Source: facts 6 (the original's SplitN and SplitCToN optimizers), document 000, 5.1. Cost:
//! visits each reader of each split once.
use ge_plugin_api::Result;
use ge_plugin_api::fusion::FuseInspector;
use ge_plugin_api::patch::Patch;
use ge_plugin_api::register_pass;
use ge_plugin_api::types::{AttrValue, TensorDesc, format};
use ge_plugin_api::view::{Graph, Node};

/// Why a split keeps its task.
pub type Refusal = &'static str;

const NAME: &str = "SplitNOptimizer";

register_pass!("SplitNOptimizer", OPTIMIZE_WHOLE_GRAPH, O2, "splits whose pieces lie in their input need no task", run);

/// Marks every split that can do without a task, and records why the others keep theirs.
fn run(graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
    let flag = |key: &str| graph.attrs().iter().any(|a| a.key.as_str() == key && a.value == AttrValue::Bool(true));
    if flag("_single_op_scene") || flag("_memory_discontiguous_allocation") || flag("_dynamic_shape_partitioned") {
        return Ok(());
    }
    let inspector = FuseInspector::new(graph);
    for n in graph.nodes_of(&["SplitD", "SplitVD"]).filter(|n| n.str("_engine") == Some(AI_CORE)) {
        if n.flag("_no_task") {
            continue;
        }
        if let Err(why) = check(graph, &n) {
            inspector.refuse(NAME, n.id(), why, patch);
            continue;
        }
        for key in ["_no_task", "_nopadding_continuous_output", "_output_reuse_input"] {
            patch.set_attr(n.id(), key, true);
        }
        patch.set_attr(n.id(), "_reuse_input_on_dim_index", 0i64);
    }
    Ok(())
}

const AI_CORE: &str = "AIcoreEngine";

/// Runs all checks; the first failure is the reason.
pub fn check(graph: &Graph<'_>, n: &Node<'_>) -> Result<(), Refusal> {
    let x = n.input_desc(0).ok_or("it has no input")?;
    if !x.shape.is_static() || n.outputs().iter().any(|d| !d.shape.is_static()) {
        return Err("a shape is not known");
    }
    axis(n, x)?;
    if n.outputs().len() > 1 && n.outputs().iter().any(|d| d.data_bytes().is_none_or(|b| b == 0 || b % 32 != 0)) {
        return Err("a piece is no multiple of 32 bytes");
    }
    source(graph, n)?;
    for k in 0..n.outputs().len() as u32 {
        for u in graph.users(n.value(k)) {
            let Some(reader) = graph.find(u.node) else { continue };
            plain_reader(&reader)?;
        }
    }
    if special_memory(n, n.outputs()) { Err("its outputs have a memory type of their own") } else { Ok(()) }
}

/// Checks the split axis in the run-time format: only ones before it, and no padding.
fn axis(n: &Node<'_>, x: &TensorDesc) -> Result<(), Refusal> {
    let dim = n.int("split_dim").ok_or("it has no split_dim")?;
    let (origin, shape) = (x.origin_format(), x.origin_shape());
    let rank = shape.rank().ok_or("the rank is not known")?;
    let axis = shape.axis(dim).ok_or("its split_dim is none of its axes")?;
    let place = "the split axis has no place in the run-time format";
    let real = format::axis_mapping(origin, rank, axis, x.format).and_then(|m| m.first().copied()).ok_or(place)?;
    let unit = format::axis_alignment(origin, rank, x.format, x.dtype).ok_or(place)?;
    let running = x.shape.sizes().ok_or("a run-time size is not known")?;
    if running.iter().take(real).any(|s| *s != 1) {
        return Err("an axis before the split one has a size above 1");
    }
    let merged = |a: usize| format::axis_mapping(origin, rank, a, x.format).is_some_and(|m| m.first() == Some(&real));
    if (0..rank).any(|a| a != axis && merged(a)) {
        return Err("the split axis is merged with another");
    }
    let pieces = n.outputs().iter().map(|d| d.origin_shape().sizes().and_then(|s| s.get(axis).copied()));
    for size in pieces {
        if size.is_none_or(|s| s % unit[axis].max(1) != 0) {
            return Err("a piece is padded on the split axis");
        }
    }
    Ok(())
}

/// Checks the producer of the input.
fn source(graph: &Graph<'_>, n: &Node<'_>) -> Result<(), Refusal> {
    let producer = n.input(0).and_then(|v| graph.find(v.node)).ok_or("its input has no producer")?;
    let stored = |op: &str| matches!(op, "Const" | "Constant" | "FileConstant" | "Variable" | "RefData");
    if stored(producer.op()) {
        return Err("its input is stored memory");
    }
    if matches!(producer.op(), "TransData" | "Reshape") {
        let from = producer.input(0).and_then(|v| graph.find(v.node));
        if from.is_none_or(|f| matches!(f.op(), "Data" | "AippData") || stored(f.op())) {
            return Err("its input is a graph input in another form");
        }
    }
    if virtual_op(&producer) || atomic(&producer) {
        return Err("its input has no task or is atomic");
    }
    if special_memory(&producer, producer.outputs()) {
        return Err("its input has a memory type of its own");
    }
    Ok(())
}

/// Checks that a reader can read a piece in place.
fn plain_reader(r: &Node<'_>) -> Result<(), Refusal> {
    let barred = [
        "NetOutput",
        "HcomBroadcast",
        "HcomAllGather",
        "HcomAllReduce",
        "HcomReduceScatter",
        "HcomReduce",
        "SplitD",
        "SplitVD",
    ];
    if barred.contains(&r.op()) {
        return Err("a reader is a graph output, a collective or a split");
    }
    if r.str("_engine") != Some(AI_CORE) {
        return Err("a reader is on another engine");
    }
    if virtual_op(r) || r.flag("fusion_virtual_op") || r.flag("continuous_input") || atomic(r) {
        return Err("a reader has no task, is atomic or reads a run");
    }
    Ok(())
}

fn virtual_op(n: &Node<'_>) -> bool {
    n.flag("_no_task") || n.flag("_output_reuse_input")
}
fn atomic(n: &Node<'_>) -> bool {
    n.ints("atomic_output_index").is_some_and(|l| !l.is_empty())
}
fn special_memory(n: &Node<'_>, outputs: &[TensorDesc]) -> bool {
    n.attr("_output_memory_type").is_some() || outputs.iter().any(|d| d.attrs.str("memory").is_some_and(|m| m != "HBM"))
}
