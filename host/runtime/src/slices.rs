//! FFTS+ tasks: the node's engine loads the kernel of each context for one slice, then all kernels
//! go to the device as one context graph.
use crate::arguments::arguments;
use crate::covered;
use crate::error::RuntimeError;
use crate::place::NULL;
use crate::request::{request, resolved};
use crate::several::{self, Bound, Several, keep, own_task};
use ge_model::context_graph::{self, ContextGraph, ContextInfo, SliceInfo};
use ge_model::launch::Launch;
use ge_model::{NodeInfo, TaskInfo};
use ge_plugin_api::abi::RVec;
use ge_plugin_api::chain::{Link, Shape};
use ge_plugin_api::device::{DeviceTask, Place};
use ge_plugin_api::engine::ArgInfo;
use ge_plugin_api::kernel::{Access, LoadedKernel};
use ge_plugin_api::slices::{self, Context, SliceArg, sliced};
use ge_plugin_api::task::TILING_SINK_BLOCK_DIM;
use std::collections::HashMap;
use std::sync::OnceLock;

/// Loads the contexts of a task. Returns the kernel of their graph and the device task that uses
/// it.
pub(crate) fn bind(s: &Several<'_>, index: usize, t: &TaskInfo) -> Result<(LoadedKernel, DeviceTask), RuntimeError> {
    let damaged = |what: String| RuntimeError::Damaged { what: format!("task {index}: {what}") };
    let (graph, launches) = context_graph::decode(&t.private).map_err(|e| damaged(e.to_string()))?;
    let mut graphs: HashMap<&str, (u32, HashMap<&str, u32>)> = HashMap::new();
    for name in [graph.graph.as_str(), graph.tail.as_str()].into_iter().filter(|n| !n.is_empty()) {
        let at = s.m.graphs.iter().position(|g| g.name == name);
        let at = at.ok_or_else(|| damaged(format!("its graph `{name}` is missing")))?;
        let nodes = s.m.graphs[at].nodes.iter().map(|n| n.name.as_str()).zip(0u32..).collect();
        graphs.insert(name, (at as u32, nodes));
    }
    let load = |k: u32, graph: &str, suffix: &str, spots: &[SliceInfo], bytes: fn(&SliceInfo) -> u64| {
        let l = launches.get(k as usize).ok_or_else(|| damaged(format!("it has no launch {k}")))?;
        let own = t.nodes.get(l.node as usize).ok_or_else(|| damaged(format!("it has no node {}", l.node)))?;
        let (gi, at) = graphs.get(graph).ok_or_else(|| damaged("a graph of its slices is missing".into()))?;
        let at = at.get(format!("{own}{suffix}").as_str());
        let at = at.ok_or_else(|| damaged(format!("its node `{own}` is missing in `{graph}`")))?;
        link(s, (index, t), l, (*gi, *at), &spots.iter().map(bytes).collect::<Vec<_>>())
    };
    let mut contexts = Vec::with_capacity(graph.contexts.len());
    for c in &graph.contexts {
        let kernel = match c.launch {
            None => None,
            Some((full, tail)) => {
                let short = (!graph.tail.is_empty())
                    .then(|| load(tail, &graph.tail, "_tail", &c.args, |a| a.tail_bytes))
                    .transpose()?;
                Some((load(full, &graph.graph, "", &c.args, |a| a.bytes)?, short))
            }
        };
        contexts.push(context(c, kernel));
    }
    task_of(s, (index, t), &graph, contexts)
}

/// One node that runs as a kernel for each slice, as a plan has it.
pub(crate) struct Sliced {
    /// The context graph, which has one context.
    pub(crate) graph: ContextGraph,
    /// The launch of that context.
    pub(crate) launch: Launch,
    /// The arguments of the launch.
    pub(crate) args: Vec<ArgInfo>,
    /// The node with the types and shapes of a slice.
    pub(crate) node: NodeInfo,
}

/// Does the same as [`bind`] for a task that a plan has made; keeps its kernel in `cell`.
pub(crate) fn bind_made(
    s: &Several<'_>,
    index: usize,
    t: &TaskInfo,
    of: &Sliced,
    cell: &OnceLock<Bound>,
) -> Result<(LoadedKernel, DeviceTask), RuntimeError> {
    let link = if let Some(b) = cell.get().filter(|b| b.is_for(&of.args)) {
        link_of(&of.node, b.kernel(), &b.task(t.stream, RVec::new()))
    } else {
        let spots = of.args.iter().map(|a| Place { bytes: a.bytes, ..NULL }).collect();
        let own = own_task(t, &of.launch, 0);
        let (kernel, bound) = several::kept(s, cell, &of.node, index, &own, (of.args.clone(), spots))?;
        link_of(&of.node, kernel, &bound)
    };
    if link.kernel.access.len() != of.args.len() {
        return Err(RuntimeError::Damaged { what: format!("the kernel of `{}` does not fit its slice", of.node.name) });
    }
    let mut link = Some(link);
    let contexts = of.graph.contexts.iter().map(|c| context(c, link.take().map(|l| (l, None)))).collect();
    task_of(s, (index, t), &of.graph, contexts)
}

/// Builds a context with its kernels.
fn context(c: &ContextInfo, kernel: Option<(Link, Option<Link>)>) -> Context {
    // Data contexts only describe data; they run no kernel.
    let own = if kernel.is_some() { &c.args[..] } else { &[] };
    Context {
        kernel,
        args: own.iter().map(spot).collect(),
        bytes: own.iter().map(|a| a.bytes).collect(),
        tail_bytes: own.iter().map(|a| a.tail_bytes).collect(),
        successors: c.successors.clone(),
        pred_cnt: c.pred_cnt,
    }
}

/// Builds the kernel of a context graph and the device task that uses it.
fn task_of(
    s: &Several<'_>,
    (index, t): (usize, &TaskInfo),
    graph: &ContextGraph,
    contexts: Vec<Context>,
) -> Result<(LoadedKernel, DeviceTask), RuntimeError> {
    let damaged = |what: String| RuntimeError::Damaged { what: format!("task {index}: {what}") };
    let node = s.m.node(t.graph, t.node).ok_or_else(|| damaged("it belongs to no node".into()))?;
    let (args, spots) = arguments(s.m, s.places, t, node)?;
    let bytes: Vec<u64> = spots.iter().map(|p| p.bytes).collect();
    let list = slices::ContextGraph { threads: graph.threads, window: graph.window, contexts };
    let of_kind = |(k, a): (usize, &ArgInfo)| match a.kind.as_str() {
        "o" => covered::access(&list, k, bytes[k]),
        "w" => Access::WRITE,
        _ => Access::READ,
    };
    let access: Vec<Access> = args.iter().enumerate().map(of_kind).collect();
    let is_written = |c: &Context| {
        let links = c.kernel.iter().flat_map(|(a, b)| [Some(a), b.as_ref()]).flatten();
        let mut all = links.flat_map(|l| c.args.iter().zip(l.kernel.access.iter()));
        all.any(|(s, a)| *a != Access::READ && access.get(s.arg) == Some(&Access::READ))
    };
    if list.contexts.iter().any(is_written) {
        return Err(damaged("a context writes to an input".into()));
    }
    let kernel = sliced(list, access, &bytes).map_err(|e| RuntimeError::Border(e.at_node(&node.name, &node.op)))?;
    Ok((kernel, resolved(t, node, &args, spots, Vec::new())))
}

fn spot(a: &SliceInfo) -> SliceArg {
    match usize::try_from(a.arg) {
        Ok(arg) if a.arg != u32::MAX => SliceArg { arg, offset: a.offset, step: a.step, lane: a.lane },
        _ => SliceArg::NOTHING,
    }
}

/// Loads the kernel of a launch for arguments of these sizes in bytes.
fn link(
    s: &Several<'_>,
    task: (usize, &TaskInfo),
    l: &Launch,
    at: (u32, u32),
    bytes: &[u64],
) -> Result<Link, RuntimeError> {
    let damaged = |what: String| RuntimeError::Damaged { what };
    let ((index, t), (gi, ni)) = (task, at);
    let node = s.m.node(gi, ni).ok_or_else(|| damaged("a node of a slice is missing".into()))?;
    let own = TaskInfo { graph: gi, ..own_task(t, l, ni) };
    let args = infos(s, &own, node, bytes)?;
    let spots: Vec<Place> = args.iter().map(|a| Place { bytes: a.bytes, ..NULL }).collect();
    let request = request(s.m, s.kernels, &own, node, args.clone(), s.options)?;
    let (kernel, bound) = keep(s, node, index, &request, resolved(&own, node, &args, spots, Vec::new()))?;
    if bound.block_dim == TILING_SINK_BLOCK_DIM || kernel.access.len() != bytes.len() {
        return Err(damaged(format!("the kernel of `{}` does not fit its slice", node.name)));
    }
    Ok(link_of(node, kernel, &bound))
}

/// A kernel in the form in which a context launches it.
fn link_of(node: &NodeInfo, kernel: LoadedKernel, bound: &DeviceTask) -> Link {
    Link {
        kernel,
        node: node.name.clone(),
        op: node.op.clone(),
        first: 0,
        shape: Shape::Fixed { block_dim: bound.block_dim, tiling_key: bound.tiling_key },
        tiling: bound.tiling.to_vec(),
    }
}

/// Describes the arguments of a launch: types and shapes of the slice's node, sizes from `bytes`.
fn infos(s: &Several<'_>, t: &TaskInfo, node: &NodeInfo, bytes: &[u64]) -> Result<Vec<ArgInfo>, RuntimeError> {
    let mut out = arguments(s.m, s.places, t, node)?.0;
    if out.len() != bytes.len() {
        let what = format!("`{}` has {} arguments, its context {}", node.name, out.len(), bytes.len());
        return Err(RuntimeError::Damaged { what });
    }
    out.iter_mut().zip(bytes).for_each(|(a, b)| a.bytes = *b);
    Ok(out)
}
