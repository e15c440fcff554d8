//! What engines and the device receive for a task: the engine's load request and the device task.
use crate::error::RuntimeError;
use crate::map_pool::MapPool;
use crate::spare::Spare;
use crate::stream_allocator::StreamAllocator;
use crate::stream_pool::StreamPool;
use crate::variables::Variables;
use bytes::Bytes;
use ge_model::{CompiledModel, NodeInfo, TaskInfo, launch};
use ge_plugin::EngineHandle;
use ge_plugin_api::abi::{ROption, RVec};
use ge_plugin_api::device::{DeviceTask, Place};
use ge_plugin_api::engine::{ArgInfo, LoadRequest};
use ge_plugin_api::kernel::Access;
use ge_plugin_api::task::{KernelTask, StreamSlot, TILING_SINK_BLOCK_DIM, Task, TaskType};
use std::collections::HashMap;
use std::sync::Arc;

/// Engines by name. `runtime_tasks` is the engine of event, notify, label, switch and copy tasks.
pub struct Engines {
    /// Handle of each engine, by its name.
    pub by_name: HashMap<String, EngineHandle>,
    /// Name of the engine that binds run-time tasks.
    pub runtime_tasks: String,
}

/// Options for loading a model.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Rank of this model.
    pub rank: u32,
    /// Number of ranks; 0 counts as 1.
    pub rank_size: u32,
    /// Key of the group that the ranks belong to.
    pub group: u64,
    /// Whether runs return what every node wrote (see [`crate::capture`]).
    pub capture: bool,
    /// Threads that execute a model of unknown shapes. With 2 or more, branches, loops and sealed
    /// parts that do not depend on each other run in parallel.
    pub cores: usize,
    /// Pool of streams shared by the models of one device.
    pub streams: Arc<StreamPool>,
    /// Where runs take their streams from. `None`: the model holds streams of the pool while
    /// loaded.
    pub run_streams: Option<Arc<StreamAllocator>>,
    /// Priority of all the model's streams on the device, 0 being the highest. `None`: as compiled.
    pub priority: Option<u32>,
    /// Pool of feature maps shared by the plans of one model. `None`: each model keeps its own.
    pub maps: Option<Arc<MapPool>>,
    /// Variables shared by the models of one session.
    pub variables: Arc<Variables>,
    /// Memory of outputs that callers gave back, for reuse.
    pub spare: Arc<Spare>,
    /// Names and values of the options that the device was opened with. Engines see each of them as
    /// attribute `_device_NAME` of the nodes that they load.
    pub device: Arc<[(String, String)]>,
}

impl Engines {
    pub(crate) fn get(&self, name: &str, node: &NodeInfo) -> Result<&EngineHandle, RuntimeError> {
        self.by_name.get(name).ok_or_else(|| RuntimeError::NoEngine {
            engine: name.to_owned(),
            node: node.name.clone(),
            op: node.op.clone(),
        })
    }
}

/// Builds the device task of a task.
pub(crate) fn resolved(
    t: &TaskInfo,
    node: &NodeInfo,
    args: &[ArgInfo],
    spots: Vec<Place>,
    numbers: Vec<i64>,
) -> DeviceTask {
    DeviceTask {
        kind: t.kind,
        stream: t.stream,
        kernel: ROption::RNone,
        block_dim: t.block_dim,
        tiling_key: t.tiling_key,
        tiling: RVec::from(t.tiling.to_vec()),
        args: spots.into(),
        numbers: numbers.into(),
        node: node.name.as_str().into(),
        op: node.op.as_str().into(),
        engine: node.engine.as_str().into(),
        access: args.iter().map(|a| if a.kind.as_str() == "o" { Access::WRITE } else { Access::READ }).collect(),
        time_ns: t.time_ns,
    }
}

/// Builds the request that an engine's executor receives to load a task.
pub(crate) fn request(
    m: &CompiledModel,
    kernels: &HashMap<&str, &Bytes>,
    t: &TaskInfo,
    node: &NodeInfo,
    args: Vec<ArgInfo>,
    options: &LoadOptions,
) -> Result<LoadRequest, RuntimeError> {
    let is_kernel = !t.kernel_name.is_empty();
    // A tiling function is stored under the name of the kernel whose tiling it computes.
    let stored = if t.kind == TaskType::PREPROCESS_KERNEL.code() { tiled(m, t) } else { Some(t.kernel_name.clone()) };
    let binary = match stored.as_deref().and_then(|name| kernels.get(name)) {
        Some(b) => RVec::from(b.to_vec()),
        None if is_kernel => {
            let kernel = stored.as_deref().unwrap_or(&t.kernel_name);
            return Err(RuntimeError::Damaged {
                what: format!("kernel `{kernel}` of `{}` is not in the kernel store", node.name),
            });
        }
        None => RVec::new(),
    };
    let kernel = if is_kernel {
        ROption::RSome(KernelTask {
            kernel_name: t.kernel_name.as_str().into(),
            so_name: t.so_name.as_str().into(),
            kernel_type: t.kernel_type,
            block_dim: t.block_dim,
            tiling_key: t.tiling_key,
            tiling: RVec::from(t.tiling.to_vec()),
            args_format: t.args_format.as_str().into(),
            schedule_mode: t.schedule_mode,
        })
    } else {
        ROption::RNone
    };
    let mut attrs = node.attrs.clone();
    for (name, value) in options.device.iter() {
        attrs.set(format!("_device_{name}").as_str(), value.as_str());
    }
    if let Some(schedule) = scheduled(node, options) {
        attrs.set("_schedule", schedule);
    }
    Ok(LoadRequest {
        node: node.name.as_str().into(),
        op: node.op.as_str().into(),
        attrs,
        task: Task {
            kind: t.kind,
            stream: StreamSlot::MAIN,
            sqe_num: t.sqe_num,
            kernel,
            sync_slot: 0,
            numbers: t.numbers.clone().into(),
            operands: t.args_format.as_str().into(),
            private: RVec::from(t.private.to_vec()),
            nodes: t.nodes.iter().map(|n| n.as_str().into()).collect(),
        },
        binary,
        args: args.into(),
        rank: options.rank,
        rank_size: options.rank_size.max(1),
    })
}

/// Node attribute with the tuning results of its kernel: a list of processor names, each followed
/// by its best schedule.
pub const TUNING: &str = "_tuning";

/// The best measured schedule of a node's kernel on this processor. `None` if the device is limited
/// to fewer instruction sets than the processor has (option `isa`), or if nothing was measured on
/// it.
fn scheduled<'n>(node: &'n NodeInfo, options: &LoadOptions) -> Option<&'n str> {
    let all = node.attrs.strs(TUNING)?;
    if options.device.iter().any(|(name, _)| name == "isa") {
        return None;
    }
    let own = all.chunks_exact(2).position(|c| c[0] == crate::machine::name())?;
    Some(all[2 * own + 1])
}

/// Name of the kernel whose tiling a PREPROCESS_KERNEL task computes: that of the node's own task
/// with placeholder blocks, or of its launch in a task of several launches.
pub(crate) fn tiled(m: &CompiledModel, t: &TaskInfo) -> Option<String> {
    if let Some((_, k)) = m.sunk(t).next() {
        return Some(k.kernel_name.clone());
    }
    let name = &m.node(t.graph, t.node)?.name;
    let tasks = m.tasks.iter().filter(|o| o.graph == t.graph && !o.private.is_empty());
    let mut own = tasks.filter_map(|o| {
        let at = o.nodes.iter().position(|n| n == name)?;
        let list = launch::decode(&o.private).ok()?;
        list.into_iter().find(|l| l.node as usize == at && l.block_dim == TILING_SINK_BLOCK_DIM)
    });
    own.next().map(|l| l.kernel_name)
}
