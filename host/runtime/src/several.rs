//! Tasks of several launches (SUPER_KERNEL). The engine of each node loads its launch onto a
//! stand-in model that only keeps what it receives; then all launches go to the device as one
//! chain.
use crate::arguments::{arguments, places_of};
use crate::error::RuntimeError;
use crate::place::Places;
use crate::request::{Engines, LoadOptions, request, resolved};
use crate::slices::Sliced;
use bytes::Bytes;
use ge_model::launch::{self, Launch};
use ge_model::{CompiledModel, NodeInfo, TaskInfo};
use ge_plugin::kernels::KeptKernel;
use ge_plugin_api::abi::{ROption, RVec};
use ge_plugin_api::chain::{Link, Shape, chain};
use ge_plugin_api::device::{Base, DeviceModel, DeviceTask, ModelObject, Place, RunReport};
use ge_plugin_api::engine::{ArgInfo, LoadRequest};
use ge_plugin_api::kernel::{Access, LoadedKernel};
use ge_plugin_api::task::TILING_SINK_BLOCK_DIM;
use ge_plugin_api::{Error, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

/// Everything needed to load the launches.
pub(crate) struct Several<'a> {
    pub(crate) m: &'a CompiledModel,
    pub(crate) places: &'a Places,
    pub(crate) engines: &'a Engines,
    pub(crate) kernels: &'a HashMap<&'a str, &'a Bytes>,
    pub(crate) device: &'a ModelObject,
    pub(crate) options: &'a LoadOptions,
    /// What is known of the tasks of a plan, by task.
    pub(crate) made: &'a [Made<'a>],
}

/// What is known of a task that a plan has made, rather than read from a file.
#[derive(Clone, Copy)]
pub(crate) enum Made<'a> {
    /// Nothing is known.
    Plain,
    /// A kernel launch, which another plan may have loaded already: the cells of the node's tasks,
    /// and the index of this task's cell.
    Launch(&'a Arc<[OnceLock<Bound>]>, usize),
    /// A kernel for each slice, and the cell that the slices share.
    Slices(&'a Sliced, &'a OnceLock<Bound>),
}

/// A task as an executor has bound it, without its kernel and its places. Any task of the same node
/// with the same arguments can use it, wherever the arguments lie.
pub(crate) struct Bound {
    kernel: KeptKernel,
    task: DeviceTask,
    args: Vec<ArgInfo>,
}

impl Bound {
    /// Whether it was bound for these arguments.
    pub(crate) fn is_for(&self, args: &[ArgInfo]) -> bool {
        self.args == args
    }
    /// The kernel, for another use.
    pub(crate) fn kernel(&self) -> LoadedKernel {
        self.kernel.lend()
    }
    /// The task on the given stream with its arguments at other places; the caller sets its kernel.
    pub(crate) fn task(&self, stream: u32, args: RVec<Place>) -> DeviceTask {
        DeviceTask { stream, args, ..self.task.clone() }
    }
}

/// The kernel and task of a launch if another plan has bound it for the same arguments.
pub(crate) fn again(
    s: &Several<'_>,
    cell: &OnceLock<Bound>,
    node: &NodeInfo,
    t: &TaskInfo,
) -> Result<Option<(LoadedKernel, DeviceTask)>, RuntimeError> {
    let Some(b) = cell.get() else { return Ok(None) };
    let spots = places_of(s.m, s.places, t, node, &b.args)?;
    Ok(spots.map(|spots| (b.kernel(), b.task(t.stream, spots.into()))))
}

/// The kernel and task of a launch: those that another plan has bound, or those that the executor
/// of its node gives, which are then kept in `cell`.
pub(crate) fn kept(
    s: &Several<'_>,
    cell: &OnceLock<Bound>,
    node: &NodeInfo,
    index: usize,
    t: &TaskInfo,
    (args, spots): (Vec<ArgInfo>, Vec<Place>),
) -> Result<(LoadedKernel, DeviceTask), RuntimeError> {
    if let Some(b) = cell.get().filter(|b| b.is_for(&args)) {
        return Ok((b.kernel(), b.task(t.stream, spots.into())));
    }
    let given = resolved(t, node, &args, spots.clone(), t.numbers.clone());
    let request = request(s.m, s.kernels, t, node, args, s.options)?;
    let (kernel, mut task) = keep(s, node, index, &request, given)?;
    // If the executor changed the arguments, its task cannot serve as a pattern for later ones.
    if task.args.as_slice() != spots.as_slice() {
        return Ok((kernel, task));
    }
    let args = std::mem::take(&mut task.args);
    task.kernel = ROption::RNone;
    let bound = Bound { kernel: KeptKernel::new(kernel), task, args: request.args.into() };
    let out = (bound.kernel(), bound.task(t.stream, args));
    // Another thread may have set the cell in the meantime, to the same value.
    let _ = cell.set(bound);
    Ok(out)
}

/// A stand-in model that keeps the one kernel and task that an executor gives it.
#[derive(Clone, Default)]
struct Keeper(Arc<Mutex<(Vec<LoadedKernel>, Option<DeviceTask>)>>);

impl Keeper {
    fn with<T>(&self, f: impl FnOnce(&mut (Vec<LoadedKernel>, Option<DeviceTask>)) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(|e| e.into_inner()))
    }
}

impl DeviceModel for Keeper {
    fn register(&self, kernel: LoadedKernel) -> Result<u32> {
        self.with(|k| {
            k.0.push(kernel);
            Ok(k.0.len() as u32 - 1)
        })
    }
    fn bind(&self, task: DeviceTask) -> Result<u32> {
        self.with(|k| match &k.1 {
            Some(_) => Err(Error::unsupported("an executor bound two tasks for one launch of a task of several")),
            None => {
                k.1 = Some(task);
                Ok(0)
            }
        })
    }
    fn seal(&self) -> Result<()> {
        Err(Error::internal("a launch is sealed with its task"))
    }
    fn execute(&self, _: &[Base], _: bool) -> Result<RunReport> {
        Err(Error::internal("a launch runs with its task"))
    }
}

/// Loads the launches of a task and registers their chain. Returns the device task.
pub(crate) fn bind(s: &Several<'_>, index: usize, t: &TaskInfo) -> Result<DeviceTask, RuntimeError> {
    let damaged = |what: String| RuntimeError::Damaged { what: format!("task {index}: {what}") };
    let launches = launch::decode(&t.private).map_err(|e| damaged(e.to_string()))?;
    if launches.is_empty() {
        return Err(damaged("it launches nothing".into()));
    }
    let graph = s.m.graphs.get(t.graph as usize).ok_or_else(|| damaged("its graph is missing".into()))?;
    let mut links = Vec::new();
    let (mut spots, mut access): (Vec<Place>, Vec<Access>) = (Vec::new(), Vec::new());
    for l in &launches {
        let name = t.nodes.get(l.node as usize).ok_or_else(|| damaged(format!("it has no node {}", l.node)))?;
        let at = graph.nodes.iter().position(|n| n.name == *name);
        let at = at.ok_or_else(|| damaged(format!("its node `{name}` is missing")))?;
        let (kernel, bound) = load(s, &own_task(t, l, at as u32), index, &graph.nodes[at])?;
        let (args, link_access) = (bound.args.to_vec(), kernel.access.to_vec());
        if args.len() != link_access.len() {
            return Err(damaged(format!("`{name}` has {} arguments, its kernel {}", args.len(), link_access.len())));
        }
        let infos = arguments(s.m, s.places, &own_task(t, l, at as u32), &graph.nodes[at])?.0;
        let shape = if bound.block_dim == TILING_SINK_BLOCK_DIM {
            let find = |kind: &str| {
                let at = infos.iter().position(|a: &ArgInfo| a.kind.as_str() == kind && a.bytes >= 8);
                at.ok_or_else(|| damaged(format!("`{name}` has placeholder blocks and no {kind}")))
            };
            Shape::Read { block_dim: find("tiling_context.block_dim")?, tiling_key: find("tiling_context.tiling_key")? }
        } else {
            Shape::Fixed { block_dim: bound.block_dim, tiling_key: bound.tiling_key }
        };
        links.push(Link {
            kernel,
            node: name.clone(),
            op: graph.nodes[at].op.clone(),
            first: spots.len(),
            shape,
            tiling: bound.tiling.to_vec(),
        });
        spots.extend(args);
        access.extend(link_access);
    }
    seen_within(&spots, &mut access);
    let kernel = s.device.register(chain(links, access))?;
    let node = s.m.node(t.graph, t.node).ok_or_else(|| damaged("it belongs to no node".into()))?;
    Ok(DeviceTask { kernel: ROption::RSome(kernel), ..resolved(t, node, &[], spots, Vec::new()) })
}

pub(crate) fn own_task(t: &TaskInfo, l: &Launch, node: u32) -> TaskInfo {
    TaskInfo {
        kind: l.kind,
        graph: t.graph,
        node,
        stream: t.stream,
        kernel_name: l.kernel_name.clone(),
        kernel_type: l.kernel_type,
        block_dim: l.block_dim,
        tiling_key: l.tiling_key,
        tiling: l.tiling.clone(),
        args_format: l.args_format.clone(),
        schedule_mode: l.schedule_mode,
        ..TaskInfo::default()
    }
}

fn load(
    s: &Several<'_>,
    t: &TaskInfo,
    index: usize,
    node: &NodeInfo,
) -> Result<(LoadedKernel, DeviceTask), RuntimeError> {
    let (args, spots) = arguments(s.m, s.places, t, node)?;
    let bound = resolved(t, node, &args, spots, Vec::new());
    let request = request(s.m, s.kernels, t, node, args, s.options)?;
    keep(s, node, index, &request, bound)
}

/// Asks a node's executor for a launch, which must be exactly one kernel and one task.
pub(crate) fn keep(
    s: &Several<'_>,
    node: &NodeInfo,
    index: usize,
    request: &LoadRequest,
    task: DeviceTask,
) -> Result<(LoadedKernel, DeviceTask), RuntimeError> {
    let keeper = Keeper::default();
    let model = ModelObject::from_box(Box::new(keeper.clone()));
    let engine = s.engines.get(&node.engine, node)?;
    engine
        .load_task(request, index, &model, task)
        .map_err(|e| RuntimeError::Border(e.at_node(&node.name, &node.op)))?;
    let (mut kernels, task) = keeper.with(std::mem::take);
    match (kernels.pop(), task) {
        (Some(k), Some(t)) if kernels.is_empty() => Ok((k, t)),
        _ => {
            Err(RuntimeError::Damaged { what: format!("the executor of `{}` gave no launch of one kernel", node.name) })
        }
    }
}

/// Marks as writes all reads of bytes that an earlier launch of the chain has written: these bytes
/// need not exist before the task.
fn seen_within(spots: &[Place], access: &mut [Access]) {
    let mut written: Vec<Place> = Vec::new();
    for (p, a) in spots.iter().zip(access.iter_mut()) {
        let covered = |w: &Place| {
            (w.allocation, w.rank) == (p.allocation, p.rank)
                && w.offset <= p.offset
                && p.offset.saturating_add(p.bytes) <= w.offset.saturating_add(w.bytes)
        };
        if *a != Access::READ {
            written.push(*p);
        } else if p.bytes > 0 && written.iter().any(covered) {
            *a = Access::WRITE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_chain_wrote_itself_is_not_read_from_outside() {
        let at = |offset, bytes| Place { allocation: 1, offset, bytes, rank: u32::MAX };
        let spots = [at(0, 64), at(64, 64), at(64, 32), at(0, 64), at(128, 64), at(96, 64)];
        let mut access = [Access::READ, Access::WRITE, Access::READ, Access::READ, Access::WRITE, Access::READ];
        seen_within(&spots, &mut access);
        // The last one spans two ranges and is covered by neither of them, so it stays a read.
        let (r, w) = (Access::READ, Access::WRITE);
        assert_eq!(access, [r, w, w, r, w, r]);
    }
}
