//! What engines and the device get of a task: its arguments with their places, the request to load
//! it, the task as it is bound.
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

/// Engines by name, as the host has them; `runtime_tasks` is the engine of event, notify, label,
/// switch and copy tasks.
pub struct Engines {
    /// Engine of a name.
    pub by_name: HashMap<String, EngineHandle>,
    /// Name of the engine that binds run-time tasks.
    pub runtime_tasks: String,
}

/// How a model is loaded.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Rank of this model.
    pub rank: u32,
    /// Number of ranks.
    pub rank_size: u32,
    /// Key of the group of ranks.
    pub group: u64,
    /// Whether runs give what every node wrote (see [`crate::capture`]).
    pub capture: bool,
    /// Threads that execute a model of open sizes, from 2 on: branches, loops and sealed parts that
    /// do not wait for each other then run side by side.
    pub cores: usize,
    /// Streams that models of one device share.
    pub streams: Arc<StreamPool>,
    /// Where runs take their streams from; None: the model has streams of the pool while it is loaded.
    pub run_streams: Option<Arc<StreamAllocator>>,
    /// Priority of all its streams on the device, 0 first; None: as the model has it.
    pub priority: Option<u32>,
    /// Feature maps that plans of one model share; None: each model keeps its own.
    pub maps: Option<Arc<MapPool>>,
    /// Variables that models of one session share.
    pub variables: Arc<Variables>,
    /// Memory of outputs that callers gave back.
    pub spare: Arc<Spare>,
    /// How the device was opened: names and values. Engines see each as the attribute
    /// `_device_NAME` of what they load.
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

/// A task as the device gets it.
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

/// What an engine's executor gets to load a task.
pub(crate) fn request(
    m: &CompiledModel,
    kernels: &HashMap<&str, &Bytes>,
    t: &TaskInfo,
    node: &NodeInfo,
    args: Vec<ArgInfo>,
    options: &LoadOptions,
) -> Result<LoadRequest, RuntimeError> {
    let is_kernel = !t.kernel_name.is_empty();
    // A tiling function is known by the kernel that it is for.
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

/// Attribute of a node: what was measured of its kernel, processor and schedule alternating.
pub const TUNING: &str = "_tuning";

/// The schedule that was found best for a node's kernel on this processor; None where its
/// instructions are kept to fewer than it has.
fn scheduled<'n>(node: &'n NodeInfo, options: &LoadOptions) -> Option<&'n str> {
    let all = node.attrs.strs(TUNING)?;
    if options.device.iter().any(|(name, _)| name == "isa") {
        return None;
    }
    let own = all.chunks_exact(2).position(|c| c[0] == crate::machine::name())?;
    Some(all[2 * own + 1])
}

/// The kernel whose tiling a PREPROCESS_KERNEL computes: the node's own task with placeholder
/// blocks, or its launch in a task of several.
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
