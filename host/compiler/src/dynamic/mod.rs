//! In: a model with unknown shapes after stage 1. Out: the `CompiledModel` whose graphs executor v2
//! runs (003 §4.2, facts 8.8).
//!
//! Nothing is planned or tiled here: each run asks the engines, with its own sizes. The file keeps
//! the graphs, the constants, the engine that is asked first for each node, and each node's logical
//! stream if the user asks for several streams (004 §4.2).
/// Gears that leave something to the run.
mod gears;
/// Logical streams of the graphs.
mod streams;

pub use gears::open as open_gears;

use crate::error::{CompileError, Result, VariableFault};
use crate::ids::NodeKey;
use crate::model::weights::{self, Weights};
use crate::options::Options;
use crate::output_names;
use crate::pass::Records;
use crate::toolbox::{EngineId, EngineRanks, Toolbox};
use bytes::Bytes;
use ge_ir::verify::STRUCTURE;
use ge_ir::{AttrValue, Graph, Key, Model, Node, TensorDesc};
use ge_model::{CompiledModel, GraphInfo, IoInfo, MemoryInfo, NodeInfo, PassInfo, SlotInfo, UNKNOWN_SHAPE, ValueAt};
use ge_plugin_api::diagnostic::Diagnostic;
use ge_plugin_api::engine::flags as engine_flags;
use ge_plugin_api::ops::{VALUE, flags};
use ge_plugin_api::types::tensor::Container;
use std::collections::{HashMap, HashSet};

/// Attribute of the root graph: ranges of unknown sizes, keyed by symbol or by `input:dimension`.
pub const RANGES: &str = "_dim_ranges";

/// Maximum number of nodes that an error names.
const NAMED: usize = 10;
/// Alignment of the offsets of variables, in bytes.
const ALIGN: u64 = 512;

/// Checks that executor v2 can run the model.
///
/// # Errors
/// Fails if some nodes can only be held by a planned model, or if no engine computes them. The
/// error names the nodes.
pub fn check(model: &Model, toolbox: &Toolbox) -> Result<()> {
    refuse(model, toolbox)?;
    computable(model, toolbox, toolbox.ranks()?)
}

/// Builds the model that executor v2 runs from a model that [`check`] has accepted.
///
/// # Errors
/// Fails if the constants or the variables cannot be laid out.
pub fn assemble(
    name: &str,
    model: Model,
    toolbox: &Toolbox,
    options: &Options,
    records: &Records,
) -> Result<CompiledModel> {
    let weights = weights::merge(&model)?;
    let ranks = toolbox.ranks()?;
    let mut m = CompiledModel {
        name: name.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        soc: toolbox.target.soc.clone(),
        options: options.given().clone(),
        plugins: toolbox.plugins.clone(),
        rank_size: 1,
        weights: weights.segments.iter().map(|(at, b)| (*at, Bytes::from_owner(b.clone()))).collect(),
        memory: MemoryInfo { weights: weights.bytes, ..MemoryInfo::default() },
        passes: passes(records),
        ..CompiledModel::default()
    };
    io(model.root(), &mut m);
    gears::describe(&model, &mut m);
    if let Some(AttrValue::Dict(list)) = model.root().attrs().get(RANGES) {
        for e in list {
            if let Some([low, high]) = e.value.as_ints() {
                m.ranges.insert(e.key.to_string(), (*low as u64, *high as u64));
            }
        }
    }
    for (gi, g) in model.graphs().iter().enumerate() {
        m.graphs.push(graph(g, gi, &weights, toolbox, ranks));
    }
    m.memory.variables = lay_out_variables(&mut m)?;
    streams::assign(&model, toolbox, options, &mut m);
    Ok(m)
}

/// Gives each variable its place and returns the total size of the variables in bytes. Only the
/// root graph has variables.
fn lay_out_variables(m: &mut CompiledModel) -> Result<u64> {
    let mut end = 0u64;
    for n in m.graphs.iter_mut().take(1).flat_map(|g| &mut g.nodes).filter(|n| n.op == "Variable") {
        let too_large = || CompileError::from(VariableFault::TooLarge { name: n.name.clone() });
        let size = n.outputs.first().and_then(TensorDesc::data_bytes).ok_or_else(too_large)?;
        let next =
            size.max(1).checked_next_multiple_of(ALIGN).and_then(|s| end.checked_add(s)).ok_or_else(too_large)?;
        n.slots = vec![SlotInfo { space: SlotInfo::VARIABLES, offset: end, size, ..SlotInfo::default() }];
        end = next;
    }
    Ok(end)
}

/// Fails if the model has nodes that only a planned model can hold.
fn refuse(model: &Model, toolbox: &Toolbox) -> Result<()> {
    let why = |n: &Node| -> Option<&'static str> {
        let f = toolbox.op_flags(n.op_key());
        if n.op() == "AnnData" {
            return Some("is memory of a plan");
        }
        (f & flags::COMMUNICATION != 0).then_some("exchanges data with other ranks")
    };
    let all: Vec<(&Node, &str)> =
        model.graphs().iter().flat_map(|g| g.nodes()).filter_map(|n| Some((n, why(n)?))).collect();
    if all.is_empty() {
        return Ok(());
    }
    let mut d =
        Diagnostic::error(format!("{} of {} nodes cannot run where shapes are unknown", all.len(), model.node_count()))
            .atc("E10001");
    for (n, why) in all.iter().take(NAMED) {
        d = d.note(format!("`{}` ({}) {why}", n.name(), n.op()));
    }
    if all.len() > NAMED {
        d = d.note(format!("and {} more", all.len() - NAMED));
    }
    let help = "give the open sizes with `--input-shape`: with all sizes known these nodes can be compiled";
    Err(CompileError::model(ge_codes::OPEN_SIZES, d.help(help)))
}

/// Fails if no enabled engine has a kernel for some operator, whatever the sizes. The error names
/// all such nodes.
fn computable(model: &Model, toolbox: &Toolbox, ranks: &EngineRanks) -> Result<()> {
    let structural: HashSet<Key> = STRUCTURE.iter().map(|s| Key::new(s)).collect();
    let tensor = |d: &TensorDesc| d.container == Container::TENSOR;
    let has_kernel = |op: Key| {
        let with_tasks = |e: &EngineId| {
            let e = toolbox.engine(*e);
            e.excluded.is_none() && e.info.flags & engine_flags::NO_TASK == 0
        };
        ranks.of(op).iter().any(with_tasks) || toolbox.engines.iter().any(|e| e.object.has_host_kernel(op.as_str()))
    };
    let mut known: HashMap<Key, bool> = HashMap::new();
    let mut all: Vec<Diagnostic> = Vec::new();
    for g in model.graphs() {
        for n in g.nodes().filter(|n| !structural.contains(&n.op_key())) {
            // The executor itself handles sequences and optionals.
            let given = (0..n.inputs().len()).filter_map(|i| g.input_desc(n, i));
            // Views need no kernel, and nodes with subgraphs are calls.
            let own = n.op().starts_with("Optional")
                || toolbox.op_flags(n.op_key()) & flags::VIEW != 0
                || !n.subgraphs().is_empty();
            let plain = given.chain(n.outputs()).all(tensor) && !own;
            if plain && !*known.entry(n.op_key()).or_insert_with(|| has_kernel(n.op_key())) {
                let text = format!("no enabled engine can run `{}` ({})", n.name(), n.op());
                all.push(Diagnostic::error(text).code(ge_codes::NO_ENGINE).node(n.name(), n.op()));
            }
        }
    }
    if all.is_empty() {
        return Ok(());
    }
    Err(CompileError::Model { code: ge_codes::NO_ENGINE, all })
}

fn graph(g: &Graph, gi: usize, weights: &Weights, toolbox: &Toolbox, ranks: &EngineRanks) -> GraphInfo {
    let at: HashMap<ge_ir::NodeId, u32> = g.order().iter().copied().zip(0u32..).collect();
    let place = |id: ge_ir::NodeId| at.get(&id).copied().unwrap_or(u32::MAX);
    let mut attrs = g.attrs().clone();
    attrs.remove(RANGES);
    attrs.set(UNKNOWN_SHAPE, true);
    let nodes = g.nodes().map(|n| {
        let size = |d: &TensorDesc| n.attrs().tensor("value").and_then(|t| t.byte_len()).or_else(|| d.data_bytes());
        let slot = |d: &TensorDesc| match weights.of.get(&NodeKey::new(gi, n.id())) {
            Some(offset) => SlotInfo {
                space: SlotInfo::WEIGHTS,
                offset: *offset,
                size: size(d).unwrap_or(0),
                ..SlotInfo::default()
            },
            None => SlotInfo::default(),
        };
        let input = |v: &ge_ir::ValueRef| (!v.is_absent()).then(|| ValueAt { node: place(v.node), output: v.output });
        NodeInfo {
            name: n.name().to_owned(),
            op: n.op().to_owned(),
            engine: engine(n, toolbox, ranks),
            inputs: n.inputs().iter().map(input).collect(),
            controls: n.controls().iter().map(|c| place(*c)).collect(),
            outputs: n.outputs().iter().map(plain).collect(),
            slots: n.outputs().iter().map(slot).collect(),
            attrs: n.attrs().to_map(),
            subgraphs: n.subgraphs().into_iter().map(str::to_owned).collect(),
            ..NodeInfo::default()
        }
    });
    GraphInfo { name: g.name().to_owned(), nodes: nodes.collect(), attrs }
}

/// A copy of a descriptor without the attribute that only inference needs.
fn plain(d: &TensorDesc) -> TensorDesc {
    let mut d = d.clone();
    d.attrs.remove(VALUE);
    d
}

/// Name of the engine that is asked first: the one that the node states, else the cheapest engine
/// with tasks that knows the type, else the structural engine.
fn engine(n: &Node, toolbox: &Toolbox, ranks: &EngineRanks) -> String {
    if let Some(e) = n.attrs().str("_engine") {
        return e.to_owned();
    }
    let usable = |e: &&EngineId| {
        let e = toolbox.engine(**e);
        e.excluded.is_none() && e.info.flags & (engine_flags::NO_TASK | engine_flags::HOST_RUNTIME) == 0
    };
    let best = ranks.of(n.op_key()).iter().find(usable);
    let best = best.copied().or_else(|| toolbox.structural_engine());
    best.map_or_else(String::new, |e| toolbox.engine(e).info.name.to_string())
}

fn passes(records: &Records) -> Vec<PassInfo> {
    let mut out: Vec<PassInfo> = Vec::new();
    for r in records.runs.iter().filter(|r| r.changes > 0) {
        match out.iter_mut().find(|p| p.stage == r.stage && p.name == r.pass) {
            Some(p) => p.changes += r.changes,
            None => out.push(PassInfo {
                stage: r.stage.to_owned(),
                name: r.pass.clone(),
                changes: r.changes,
                fusions: Vec::new(),
            }),
        }
    }
    out
}

fn io(g: &Graph, m: &mut CompiledModel) {
    for n in g.data_nodes() {
        m.inputs.push(IoInfo {
            name: n.name().to_owned(),
            desc: n.outputs().first().map(plain).unwrap_or_default(),
            slot: SlotInfo::default(),
        });
    }
    let Some(out) = g.net_output() else { return };
    for (v, name) in out.inputs().iter().zip(output_names::of(g, out)) {
        m.outputs.push(IoInfo { name, desc: g.desc(*v).map(plain).unwrap_or_default(), slot: SlotInfo::default() });
    }
}
