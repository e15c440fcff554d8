//! Loading: allocations, streams and tasks of a compiled model onto a device.
use crate::capture::Captures;
use crate::error::RuntimeError;
use crate::map_pool::MapPool;
use crate::numbering::{Counted, Numbering};
use crate::place::{NULL, Places};
use crate::several::{self, Several};
use crate::sink::{Contexts, ExtAttrs, TilingSinkTaskInfo};
use crate::slices;
use crate::stream_pool::{ModelId, StreamHandle, StreamPool, StreamWish};
use crate::tasks;
use crate::variables::{Bound, Variables};
use bytes::Bytes;
use ge_model::{CompiledModel, NodeInfo, TaskInfo, launch};
use ge_plugin::EngineHandle;
use ge_plugin_api::abi::{ROption, RVec};
use ge_plugin_api::device::{
    AllocationKind, Base, ContextObject, DeviceTask, MemoryKind, ModelObject, ModelSpec, Place, StreamSpec,
};
use ge_plugin_api::engine::{ArgInfo, LoadRequest};
use ge_plugin_api::kernel::Access;
use ge_plugin_api::task::{KernelTask, StreamSlot, TILING_SINK_BLOCK_DIM, Task, TaskType};
use ge_plugin_api::types::AttrValue;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

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
    /// Streams that models of one device share.
    pub streams: Arc<StreamPool>,
    /// Priority of all its streams on the device, 0 first; None: as the model has it.
    pub priority: Option<u32>,
    /// Feature maps that plans of one model share; None: each model keeps its own.
    pub maps: Option<Arc<MapPool>>,
    /// Variables that models of one session share.
    pub variables: Arc<Variables>,
    /// How the device was opened: names and values. Engines see each as the attribute
    /// `_device_NAME` of what they load.
    pub device: Arc<[(String, String)]>,
}

/// A model on a device: `Send + Sync`, runs of several threads go side by side.
pub struct LoadedModel {
    pub(crate) compiled: CompiledModel,
    pub(crate) device: Arc<ModelObject>,
    /// Which tasks of the model those of the device are.
    pub(crate) numbering: Numbering,
    pub(crate) context: Arc<ContextObject>,
    pub(crate) bases: Vec<Base>,
    pub(crate) allocations: Vec<ge_plugin_api::device::Allocation>,
    /// Where feature maps come from, where several models share them.
    pub(crate) maps: Option<Arc<MapPool>>,
    /// Feature maps that no run uses at the moment.
    pub(crate) idle: Mutex<Vec<Vec<Base>>>,
    pub(crate) captures: Captures,
    /// What tasks of nodes left for each other, and the tiling contexts.
    pub(crate) ext: ExtAttrs,
    pub(crate) contexts: Contexts,
    /// Inputs that have one legal value: number and bytes.
    pub(crate) fixed: Vec<(usize, ge_plugin_api::types::ConstTensor)>,
    owned: Vec<u64>,
    registered: Vec<u64>,
    /// Its variables, by name.
    pub(crate) variables: Vec<Bound>,
    /// Its streams of the pool; given back when it is unloaded.
    pool: Arc<StreamPool>,
    model: Option<ModelId>,
    handles: Vec<StreamHandle>,
    /// Keeps the mapped weights alive.
    _weights: Bytes,
}

impl LoadedModel {
    /// Loads a model: weights are taken as they are mapped where the device can, tasks are bound by
    /// their engines, once.
    pub fn load(
        compiled: CompiledModel,
        engines: &Engines,
        context: Arc<ContextObject>,
        options: &LoadOptions,
    ) -> Result<LoadedModel, RuntimeError> {
        if !compiled.external.is_empty() && compiled.weights.is_empty() {
            return Err(RuntimeError::Damaged {
                what: "the weights in files beside the model were not fetched".into(),
            });
        }
        tasks::check(&compiled, engines)?;
        let mut places = Places::new(&compiled)?;
        let variables = options.variables.bind(&compiled, options.rank)?;
        let fixed = compiled.fixed_inputs().into_iter().map(|(k, t)| (k, t.clone())).collect();
        let captures = if options.capture { Captures::new(&compiled, &mut places)? } else { Captures::default() };
        let mut per_stream = vec![0u32; compiled.streams.physical.len()];
        for (i, t) in compiled.tasks.iter().enumerate() {
            let n = per_stream.get_mut(t.stream as usize).ok_or_else(|| RuntimeError::Damaged {
                what: format!("task {i} is on stream {}, the model has {}", t.stream, compiled.streams.physical.len()),
            })?;
            *n += 1 + captures.count_after(i) as u32;
        }
        let priority = |p: &ge_model::PhysicalInfo| options.priority.unwrap_or(p.priority);
        let wishes: Vec<StreamWish> = compiled
            .streams
            .physical
            .iter()
            .zip(&per_stream)
            .map(|(p, n)| StreamWish { priority: priority(p), flag: u32::from(p.huge), tasks: *n })
            .collect();
        // A SoC without numbers of its own has no limit.
        let has = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
        let most = match compiled.soc.streams_normal {
            0 => 0,
            n => has(n).saturating_add(has(compiled.soc.streams_huge)),
        };
        let taken = Taken::new(options.streams.clone(), Arc::as_ptr(&context) as u64, most, &wishes)?;
        // The copies are ours, not the model's: they must not make it pass the SoC's limits.
        let mut soc = compiled.soc.clone();
        soc.unlimited_depth |= !captures.is_empty();
        let spec = ModelSpec {
            name: compiled.name.as_str().into(),
            soc,
            streams: compiled
                .streams
                .physical
                .iter()
                .zip(&per_stream)
                .map(|(p, n)| StreamSpec { head: p.head, huge: p.huge, priority: priority(p), tasks: *n })
                .collect(),
            events: compiled.event_num,
            notifies: compiled.notify_num,
            labels: compiled.label_num,
            allocations: places.allocations.clone().into(),
            rank: options.rank,
            rank_size: options.rank_size.max(1),
            group: options.group,
        };
        let device = Arc::new(context.create_model(spec)?);
        let counted = Counted::new(device.clone());
        let bound = ModelObject::from_box(Box::new(counted.clone()));
        let mut numbering = Numbering::default();
        let kernels: HashMap<&str, &Bytes> = compiled.kernels.iter().map(|k| (k.name.as_str(), &k.binary)).collect();
        let several = Several { m: &compiled, places: &places, engines, kernels: &kernels, device: &bound, options };
        let contexts = Contexts::new(&compiled, &places)?;
        let mut ext = ExtAttrs::default();
        for (i, t) in compiled.tasks.iter().enumerate() {
            let kernel = bind(&several, &numbering, &ext, i, t)?;
            numbering.bound(i, counted.bound());
            if let (Some(handle), Some(task_id)) = (kernel, numbering.on_device(i)) {
                ext.bound(
                    (t.graph, t.node),
                    TilingSinkTaskInfo { task_id, stream: t.stream, ffts_task_handle: handle },
                );
            }
            for copy in captures.tasks(&compiled, i, t) {
                bound.bind(copy)?;
            }
            numbering.copied(counted.bound());
        }
        device.seal()?;
        let (pool, model, handles) = taken.keep();
        let weights = compiled.weights.first().map(|(_, b)| b.clone()).unwrap_or_default();
        let mut loaded = LoadedModel {
            allocations: places.allocations,
            bases: Vec::new(),
            maps: options.maps.clone(),
            idle: Mutex::new(Vec::new()),
            captures,
            numbering,
            ext,
            contexts,
            fixed,
            owned: Vec::new(),
            registered: Vec::new(),
            variables,
            pool,
            model,
            handles,
            _weights: weights,
            compiled,
            device,
            context,
        };
        loaded.bases = loaded.shared_bases()?;
        Ok(loaded)
    }

    /// What it is.
    pub fn compiled(&self) -> &CompiledModel {
        &self.compiled
    }

    /// Its physical streams as the device's pool has them: models that are loaded side by side may
    /// share some.
    pub fn device_streams(&self) -> &[StreamHandle] {
        &self.handles
    }

    /// Bases of what all runs share: the weights.
    fn shared_bases(&mut self) -> Result<Vec<Base>, RuntimeError> {
        let mut out = Vec::with_capacity(self.allocations.len());
        for a in &self.allocations {
            out.push(match a.kind {
                AllocationKind::WEIGHTS if a.bytes > 0 => {
                    let address = self._weights.as_ptr() as u64;
                    match self.context.register_host_memory(address, self._weights.len() as u64, true)? {
                        Some(at) => {
                            self.registered.push(at);
                            Base { address: at, bytes: self._weights.len() as u64 }
                        }
                        None => {
                            let at = self.context.alloc(MemoryKind::HBM, a.bytes)?;
                            self.owned.push(at);
                            self.context.copy_in(at, &self._weights)?;
                            Base { address: at, bytes: a.bytes }
                        }
                    }
                }
                _ => Base { address: 0, bytes: 0 },
            });
        }
        Ok(out)
    }
}

/// Streams taken from the pool for a model that is not loaded yet: given back unless kept.
struct Taken {
    pool: Arc<StreamPool>,
    model: Option<ModelId>,
    handles: Vec<StreamHandle>,
}

impl Taken {
    fn new(pool: Arc<StreamPool>, device: u64, most: usize, wishes: &[StreamWish]) -> Result<Taken, RuntimeError> {
        let (model, handles) = pool.acquire_streams(device, most, wishes)?;
        Ok(Taken { pool, model: Some(model), handles })
    }
    fn keep(mut self) -> (Arc<StreamPool>, Option<ModelId>, Vec<StreamHandle>) {
        (self.pool.clone(), self.model.take(), std::mem::take(&mut self.handles))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(m) = self.model.take() {
            self.pool.release(m);
        }
    }
}

impl Drop for LoadedModel {
    fn drop(&mut self) {
        if let Some(m) = self.model.take() {
            self.pool.release(m);
        }
        let idle = std::mem::take(&mut *self.idle.lock().unwrap_or_else(|e| e.into_inner()));
        let maps = idle.iter().flatten().map(|b| b.address).filter(|a| *a != 0);
        // Freeing can only fail for a device that is lost, whose memory is gone with it.
        for a in maps.chain(self.owned.iter().copied()) {
            let _ = self.context.free(a);
        }
        for a in &self.registered {
            let _ = self.context.unregister_host_memory(*a);
        }
    }
}

/// Binds a task. `ext`: what the tasks before it left for it. A kernel that waits for its UPDATE
/// gives its handle, if it has one, for what it leaves in turn (001 §5.2, §5.5).
fn bind(
    s: &Several<'_>,
    numbering: &Numbering,
    ext: &ExtAttrs,
    index: usize,
    t: &TaskInfo,
) -> Result<Option<Option<u32>>, RuntimeError> {
    let Several { m, places, engines, kernels, device, options } = *s;
    let node = m
        .node(t.graph, t.node)
        .ok_or_else(|| RuntimeError::Damaged { what: format!("task {index} belongs to no node") })?;
    let mut numbers = t.numbers.clone();
    if let Some(id) = t.sync_id {
        numbers.insert(0, i64::from(id));
    }
    if t.kind == TaskType::UPDATE.code() {
        let lacks =
            |what: &str| RuntimeError::Damaged { what: format!("task {index} (UPDATE) of `{}` {what}", node.name) };
        let target = m.update_target(t).ok_or_else(|| lacks("has no task to update"))?;
        let number = numbering.on_device(target);
        let info = number.and_then(|n| ext.task_info((t.graph, t.node), n));
        let info = info.ok_or_else(|| lacks("stands before the task that it updates"))?;
        numbers = [Some(info.task_id), info.ffts_task_handle].into_iter().flatten().map(i64::from).collect();
    }
    if t.kind == TaskType::SUPER_KERNEL.code() && !t.private.is_empty() {
        let task = several::bind(s, index, t)?;
        device.bind(DeviceTask { numbers: numbers.into(), ..task })?;
        return Ok(None);
    }
    if t.kind == TaskType::FFTS_PLUS.code() && !t.private.is_empty() {
        device.bind(slices::bind(s, index, t)?)?;
        return Ok(None);
    }
    if t.kind == TaskType::PREPROCESS_KERNEL.code() && tiled(m, t).is_none() {
        return Err(RuntimeError::Damaged {
            what: format!(
                "task {index} (PREPROCESS_KERNEL) of `{}` computes the tiling of no kernel: no task of the node has the placeholder \
                 {TILING_SINK_BLOCK_DIM:#X} for its blocks",
                node.name
            ),
        });
    }
    let (args, spots) = arguments(m, places, t, node)?;
    let is_kernel = !t.kernel_name.is_empty();
    let resolved = resolved(t, node, &args, spots, numbers);
    let engine_name = if is_kernel || !t.private.is_empty() || t.kind == TaskType::HCCL.code() {
        &node.engine
    } else {
        &engines.runtime_tasks
    };
    let engine = engines.get(engine_name, node)?;
    if !is_kernel && engine_name == &engines.runtime_tasks {
        device.bind(resolved)?;
        return Ok(None);
    }
    let request = request(m, kernels, t, node, args, options)?;
    let handle = if t.kind == TaskType::FFTS_PLUS.code() {
        let (kernel, task) = several::keep(s, node, index, &request, resolved)?;
        let handle = device.register(kernel)?;
        device.bind(DeviceTask { kernel: ROption::RSome(handle), ..task })?;
        Some(handle)
    } else {
        let at = |e: ge_plugin_api::Error| RuntimeError::Border(e.at_node(&node.name, &node.op));
        engine.load_task(&request, index, device, resolved).map_err(at)?;
        None
    };
    Ok((is_kernel && t.block_dim == TILING_SINK_BLOCK_DIM).then_some(handle))
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

/// The kernel whose tiling a PREPROCESS_KERNEL computes: the node's own task with placeholder
/// blocks, or its launch in a task of several.
fn tiled(m: &CompiledModel, t: &TaskInfo) -> Option<String> {
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

/// The arguments of a task in `args_format` order, and where they lie.
pub(crate) fn arguments(
    m: &CompiledModel,
    places: &Places,
    t: &TaskInfo,
    node: &NodeInfo,
) -> Result<(Vec<ArgInfo>, Vec<Place>), RuntimeError> {
    let mut args = Vec::new();
    let mut spots = Vec::new();
    let damaged = |what: String| RuntimeError::Damaged { what };
    for item in t.args_format.split_inclusive('}') {
        let Some(inner) = item.strip_prefix('{').and_then(|i| i.strip_suffix('}')) else {
            return Err(damaged(format!("`{}` is no args format (node `{}`)", t.args_format, node.name)));
        };
        let plain = inner.strip_suffix('*').unwrap_or(inner);
        let index = |prefix: &str| {
            plain
                .strip_prefix(prefix)
                .filter(|d| d.len() <= 6 && d.bytes().all(|b| b.is_ascii_digit()))
                .and_then(|d| d.parse::<u32>().ok())
        };
        let (kind, n, found) = if let Some(n) = index("ws") {
            let w = node
                .workspaces
                .get(n as usize)
                .ok_or_else(|| damaged(format!("`{}` has no workspace {n}", node.name)))?;
            ("w", n, Some((None, places.of(m, w, w.size)?)))
        } else if let Some(n) = index("i") {
            let v = places.input(m, t.graph, node, n as usize)?;
            ("i", n, v.map(|(d, p)| (Some(d), p)))
        } else if let Some(n) = index("o") {
            let v = places
                .output(m, node, n as usize)?
                .ok_or_else(|| damaged(format!("`{}` has no output {n}", node.name)))?;
            ("o", n, Some((Some(v.0), v.1)))
        } else {
            (plain, 0, places.context(t.graph, t.node, plain).map(|p| (None, p)))
        };
        let (desc, place) = found.unwrap_or((None, NULL));
        args.push(ArgInfo { kind: kind.into(), index: n, desc: desc.cloned().into(), bytes: place.bytes });
        spots.push(place);
    }
    if t.kind == TaskType::PREPROCESS_KERNEL.code() {
        // A tiling function sees every input's and output's descriptor by its context, and the
        // values that tiling reads.
        let values = value_inputs(node);
        for i in 0..node.inputs.len() {
            let Some((d, p)) = places.input(m, t.graph, node, i)? else { continue };
            let place = if values.contains(&(i as i64)) { p } else { NULL };
            args.push(ArgInfo { kind: "i".into(), index: i as u32, desc: Some(d.clone()).into(), bytes: p.bytes });
            spots.push(place);
        }
        for k in 0..node.outputs.len() {
            let Some((d, p)) = places.output(m, node, k)? else { continue };
            args.push(ArgInfo { kind: "o".into(), index: k as u32, desc: Some(d.clone()).into(), bytes: p.bytes });
            spots.push(NULL);
        }
    }
    Ok((args, spots))
}

/// Inputs whose values the node's tiling reads, as its attached streams say.
pub(crate) fn value_inputs(node: &NodeInfo) -> Vec<i64> {
    let Some(AttrValue::List(list)) = node.attrs.get("_attached_stream_info_list") else { return Vec::new() };
    let named = |d: &AttrValue| {
        let e = d.as_dict()?.iter().find(|e| e.key.as_str() == "_attached_resource_depend_value_list_int")?;
        Some(e.value.as_ints()?.to_vec())
    };
    list.iter().filter_map(named).flatten().collect()
}
