//! `HostcpuEngineUpdatePass`: in a graph whose shapes are known only at run time, runs the small
//! arithmetic that computes sizes on the host, where the sizes are. Otherwise it would go to the
//! device and back for a few numbers.
//!
//! Before: `%s = Shape(%x)`, `%n = Mul(%s, %k)` on a device engine   After: both on the host engine
//! When: some shape of the model is unknown; every output of the node is integer or bool and has at
//! most 8 elements or is one-dimensional of unknown length; and the node reads only host values:
//! sizes (`Shape`, `ShapeN`, `Rank`, `Size`, `GatherShapes`), constants, inputs with
//! `_host_tensor`, nodes that went to the host, or inputs of a subgraph whose caller passes one of
//! these.
//! Refuses: nodes that the user has bound with `_engine`; types that the host engine does not take;
//! `RandomUniform`, whose random numbers belong to the device. `MapIndex` moves regardless of its
//! size.
//! Keeps: everything but `_engine` and `_op_kernel_lib`.
//! Source: 003 §4.2, facts 3.2. Cost: each node once.
use super::Placement;
use crate::error::Result;
use crate::ids::NodeKey;
use crate::pass::{PassRecord, Records};
use crate::prepare::subgraphs::own_inputs;
use crate::toolbox::{EngineEntry, EngineId, Toolbox};
use ge_ir::{DType, Model, Node, NodeId, TensorDesc};
use ge_plugin_api::engine::flags;
use std::collections::HashSet;
use std::time::Instant;

/// Name of the pass in records.
pub const NAME: &str = "HostcpuEngineUpdatePass";
/// Maximum number of elements of a small output.
const SMALL: u64 = 8;
/// Operators that read only the sizes of a tensor, not its values.
const SIZES: [&str; 5] = ["Shape", "ShapeN", "Rank", "Size", "GatherShapes"];
/// Attribute of an input that is in host memory.
const HOST_TENSOR: &str = "_host_tensor";

/// Nodes that the user has bound to an engine. Must be called before the placer writes its own
/// choice.
pub fn bound(model: &Model) -> HashSet<NodeKey> {
    let graphs = model.graphs().iter().enumerate();
    graphs
        .flat_map(|(gi, g)| g.nodes().filter(|n| n.attr("_engine").is_some()).map(move |n| NodeKey::new(gi, n.id())))
        .collect()
}

fn is_small(d: &TensorDesc) -> bool {
    let whole = d.dtype.is_int() || d.dtype == DType::BOOL;
    let row = d.shape.rank() == Some(1) && d.shape.sizes().is_none();
    whole && (row || d.shape.count().is_some_and(|c| c <= SMALL))
}

/// Moves nodes that belong on the host; nodes in `bound` stay.
pub fn run(
    model: &mut Model,
    placement: &mut Placement,
    bound: &HashSet<NodeKey>,
    toolbox: &Toolbox,
    records: &mut Records,
) -> Result<()> {
    let start = Instant::now();
    let is_open = |n: &Node| n.outputs().iter().any(|d| !d.shape.is_static());
    if !model.graphs().iter().any(|g| g.nodes().any(is_open)) {
        return Ok(());
    }
    let host = toolbox.engines.iter().position(|e| e.excluded.is_none() && e.info.flags & flags::HOST_RUNTIME != 0);
    let Some(host) = host else { return Ok(()) };
    let (id, entry) = (EngineId(host as u16), &toolbox.engines[host]);
    let mut on_host: HashSet<NodeKey> = HashSet::new();
    let mut moved: Vec<NodeKey> = Vec::new();
    let parents = model.parents();
    // Callers come before the graphs that they call.
    for gi in callers_first(model) {
        let caller = parents.get(model.graphs()[gi].name()).copied();
        let context = toolbox.lend(model, gi);
        let view = context.graph();
        for n in model.graphs()[gi].nodes() {
            let key = NodeKey::new(gi, n.id());
            if is_source(model, caller, n, &on_host) {
                on_host.insert(key);
            } else if !bound.contains(&key) && belongs(model, gi, n, &on_host) {
                if takes(entry, &view.node(n.id()))? {
                    on_host.insert(key);
                    moved.push(key);
                } else {
                    records.refuse(n.name(), NAME, format!("{} does not take it", entry.info.name));
                }
            }
        }
    }
    drop(parents);
    for key in &moved {
        placement.engine[*key] = id;
        let g = &mut model.graphs_mut()[key.graph as usize];
        g.set_attr(key.node, "_engine", entry.info.name.clone());
        g.set_attr(key.node, "_op_kernel_lib", entry.info.kernel_lib.clone());
    }
    records.runs.push(PassRecord {
        stage: "place",
        pass: NAME.into(),
        micros: start.elapsed().as_micros() as u64,
        visits: model.node_count() as u64,
        changes: moved.len() as u64,
    });
    Ok(())
}

fn takes(e: &EngineEntry, node: &ge_plugin_api::view::Node<'_>) -> Result<bool> {
    Ok(e.object.supports(node)?.takes())
}

/// Whether a value is on the host without a node that runs there: constants, marked inputs, and
/// inputs for which the caller passes a host value.
fn is_source(model: &Model, caller: Option<(usize, NodeId)>, n: &Node, on_host: &HashSet<NodeKey>) -> bool {
    if n.is_const() {
        return true;
    }
    if n.op() != "Data" {
        return false;
    }
    let Some((outer, call)) = caller else { return n.attrs().flag(HOST_TENSOR) };
    let index = n.attrs().int("index").and_then(|i| usize::try_from(i).ok());
    let arg = model.graphs()[outer].get(call).zip(index).and_then(|(c, i)| c.input(own_inputs(c.op())? + i));
    arg.is_some_and(|v| on_host.contains(&NodeKey::new(outer, v.node)))
}

fn belongs(model: &Model, gi: usize, n: &Node, on_host: &HashSet<NodeKey>) -> bool {
    let runs = !n.outputs().is_empty() && n.subgraphs().is_empty() && !matches!(n.op(), "NetOutput" | "RandomUniform");
    if !runs || !(n.op() == "MapIndex" || n.outputs().iter().all(is_small)) {
        return false;
    }
    if SIZES.contains(&n.op()) {
        let g = &model.graphs()[gi];
        return (0..n.inputs().len()).any(|i| g.input_desc(n, i).is_some_and(|d| !d.shape.is_static()));
    }
    let mut given = n.inputs().iter().filter(|v| !v.is_absent()).map(|v| NodeKey::new(gi, v.node)).peekable();
    let constant = |k: &NodeKey| model.graphs()[gi].get(k.node).is_some_and(Node::is_const);
    let some = n.inputs().iter().any(|v| !v.is_absent() && !constant(&NodeKey::new(gi, v.node)));
    some && given.peek().is_some() && given.all(|k| on_host.contains(&k))
}

/// Indices of the graphs, each after the one that calls it.
fn callers_first(model: &Model) -> Vec<usize> {
    let mut out: Vec<usize> = Vec::new();
    let mut seen = vec![false; model.graphs().len()];
    let parents = model.parents();
    for first in 0..model.graphs().len() {
        let mut todo = vec![first];
        // A called graph waits for its caller, except the root.
        if first > 0 && parents.contains_key(model.graphs()[first].name()) {
            continue;
        }
        while let Some(gi) = todo.pop() {
            if std::mem::replace(&mut seen[gi], true) {
                continue;
            }
            out.push(gi);
            let called: Vec<&str> = model.graphs()[gi].nodes().flat_map(|n| n.subgraphs()).collect();
            todo.extend(called.into_iter().rev().filter_map(|s| model.graph_index(s)));
        }
    }
    out
}
