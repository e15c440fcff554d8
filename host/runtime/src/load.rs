//! Loads the allocations, streams and tasks of a compiled model onto a device.
use crate::again::Again;
use crate::bind::bind;
use crate::capture::Captures;
use crate::error::RuntimeError;
use crate::executor::Maps;
use crate::fixed::FixedInputs;
use crate::map_pool::MapPool;
use crate::numbering::{Counted, Numbering};
use crate::place::Places;
use crate::ports::Ports;
use crate::request::{Engines, LoadOptions};
use crate::several::{Made, Several};
use crate::sink::{Contexts, ExtAttrs, TilingSinkTaskInfo};
use crate::spare::Spare;
use crate::stream_allocator::{AcquiredStreams, StreamAllocator};
use crate::stream_pool::{ModelId, StreamHandle, StreamPool, StreamWish};
use crate::tasks;
use crate::variables::Bound;
use crate::weights::Weights;
use bytes::Bytes;
use ge_model::{CompiledModel, NodeInfo};
use ge_plugin::{OpenDevice, OpenModel};
use ge_plugin_api::device::{Allocation, AllocationKind, Base, ModelObject, ModelSpec, SocSpec, StreamSpec};
use ge_plugin_api::types::TensorDesc;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// A model on a device. It is `Send + Sync`; runs from several threads execute in parallel.
pub struct LoadedModel {
    pub(crate) compiled: CompiledModel,
    pub(crate) device: Arc<OpenModel>,
    /// Maps task numbers of the device to those of the model.
    pub(crate) numbering: Numbering,
    pub(crate) context: Arc<OpenDevice>,
    pub(crate) bases: Vec<Base>,
    pub(crate) allocations: Vec<Allocation>,
    /// Pool of feature maps, if several models share it.
    pub(crate) maps: Option<Arc<MapPool>>,
    /// Memory for outputs, used before new memory is allocated.
    pub(crate) spare: Arc<Spare>,
    /// Sets of feature maps that no run uses at the moment.
    pub(crate) idle: Mutex<Vec<Maps>>,
    /// The copies of what nodes write, if the model was loaded with `capture`.
    pub(crate) captures: Option<Captures>,
    /// What the tasks of nodes left for each other, and the tiling contexts.
    pub(crate) ext: ExtAttrs,
    pub(crate) contexts: Contexts,
    /// Inputs that have only one legal value.
    pub(crate) fixed: FixedInputs,
    /// Variables of the model, by name.
    pub(crate) variables: Vec<Bound>,
    pub(crate) streams: Streams,
    /// Inputs and outputs of a run.
    pub(crate) ports: Ports,
    pub(crate) weights: Weights,
}

/// What is known of a plan's tasks before it is loaded.
pub(crate) struct Planned<'p> {
    /// What is known of each task.
    pub(crate) made: &'p [Made<'p>],
    /// Where tasks are kept for the next plan.
    pub(crate) kept: Option<&'p mut Vec<Again>>,
    /// Marks the kept tasks that have changed; the model then contains only those.
    pub(crate) others: Option<&'p [bool]>,
}

impl LoadedModel {
    /// Loads a model. The device uses the mapped weights in place where it can. Engines bind their
    /// tasks once, here.
    pub fn load(
        compiled: CompiledModel,
        engines: &Engines,
        context: Arc<OpenDevice>,
        options: &LoadOptions,
    ) -> Result<LoadedModel, RuntimeError> {
        tasks::check(&compiled, engines)?;
        LoadedModel::load_made(compiled, engines, context, options, Planned { made: &[], kept: None, others: None })
    }

    /// Loads a model whose tasks are known to follow the rules of task lists. Tasks of a plan are:
    /// they were checked when the engines gave them.
    pub(crate) fn load_made(
        mut compiled: CompiledModel,
        engines: &Engines,
        context: Arc<OpenDevice>,
        options: &LoadOptions,
        planned: Planned<'_>,
    ) -> Result<LoadedModel, RuntimeError> {
        let Planned { made, mut kept, others } = planned;
        if !compiled.external.is_empty() && compiled.weights.is_empty() {
            return Err(RuntimeError::Damaged {
                what: "the weights in files beside the model were not fetched".into(),
            });
        }
        let mut places = Places::new(&compiled)?;
        let variables = options.variables.bind(&compiled, options.rank)?;
        let fixed = FixedInputs::of(&compiled);
        let captures = options.capture.then(|| Captures::new(&compiled, &mut places)).transpose()?;
        let streams: Vec<u32> = match (&kept, others) {
            (Some(kept), Some(_)) => kept.iter().map(Again::stream).collect(),
            _ => compiled.tasks.iter().map(|t| t.stream).collect(),
        };
        let mut per_stream = vec![0u32; compiled.streams.physical.len()];
        for (i, stream) in streams.into_iter().enumerate() {
            let n = per_stream.get_mut(stream as usize).ok_or_else(|| RuntimeError::Damaged {
                what: format!("task {i} is on stream {stream}, the model has {}", compiled.streams.physical.len()),
            })?;
            *n += 1 + captures.as_ref().map_or(0, |c| c.count_after(i)) as u32;
        }
        let priority = |p: &ge_model::PhysicalInfo| options.priority.unwrap_or(p.priority);
        let wishes: Vec<StreamWish> = compiled
            .streams
            .physical
            .iter()
            .zip(&per_stream)
            .map(|(p, n)| StreamWish { priority: priority(p), flag: u32::from(p.huge), tasks: *n })
            .collect();
        let streams = match &options.run_streams {
            Some(of_runs) => Streams::OfRuns(of_runs.clone(), wishes),
            None => {
                let (pool, most) = (options.streams.clone(), most_streams(&compiled.soc));
                Streams::Own(Taken::new(pool, device_number(&context), most, &wishes)?)
            }
        };
        // The copies belong to the loader, not to the model: they must not exceed the SoC's limits.
        let mut soc = compiled.soc.clone();
        soc.unlimited_depth |= captures.is_some();
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
        let several =
            Several { m: &compiled, places: &places, engines, kernels: &kernels, device: &bound, options, made };
        let contexts = Contexts::new(&compiled, &places)?;
        let mut ext = ExtAttrs::default();
        if let (Some(kept), Some(others)) = (&mut kept, others) {
            let lost = || ge_plugin_api::Error::internal("a plan lacks a task of the one that it was made of");
            let (mut own, mut one) = (compiled.tasks.iter().enumerate(), Vec::with_capacity(1));
            for (i, (again, other)) in kept.iter_mut().zip(others).enumerate() {
                if *other {
                    bind(&several, &numbering, &ext, own.next().ok_or_else(lost)?, Some(&mut one))?;
                    *again = one.pop().ok_or_else(lost)?;
                } else {
                    again.bind(&counted)?;
                }
                numbering.bound(i, counted.bound());
            }
        } else {
            for (i, t) in compiled.tasks.iter().enumerate() {
                let kernel = bind(&several, &numbering, &ext, (i, t), kept.as_deref_mut())?;
                numbering.bound(i, counted.bound());
                if let (Some(handle), Some(task_id)) = (kernel, numbering.on_device(i)) {
                    ext.bound(
                        (t.graph, t.node),
                        TilingSinkTaskInfo { task_id, stream: t.stream, ffts_task_handle: handle },
                    );
                }
                if let Some(captures) = &captures {
                    captures.bind(&compiled, &counted, i, t.stream)?;
                    numbering.copied(counted.bound());
                }
            }
        }
        device.seal()?;
        if others.is_some() {
            only_borders(&mut compiled);
        }
        let room = |a: &Allocation| if a.kind == AllocationKind::WEIGHTS { a.bytes } else { 0 };
        let weights = compiled.weights.first().map(|(_, b)| b.clone()).unwrap_or_default();
        let weights = Weights::load(weights, places.allocations.iter().map(room).sum(), context.clone())?;
        // The bases that all runs share; each run adds its own.
        let base = |a| if room(a) > 0 { weights.base() } else { Base { address: 0, bytes: 0 } };
        let bases = places.allocations.iter().map(base).collect();
        Ok(LoadedModel {
            allocations: places.allocations,
            bases,
            maps: options.maps.clone(),
            spare: options.spare.clone(),
            idle: Mutex::new(Vec::new()),
            captures,
            numbering,
            ext,
            contexts,
            fixed,
            variables,
            streams,
            ports: Ports::new(&compiled),
            weights,
            compiled,
            device,
            context,
        })
    }

    /// The compiled model.
    pub fn compiled(&self) -> &CompiledModel {
        &self.compiled
    }

    /// The model's physical streams in the device's pool. Models that are loaded at the same time
    /// may share some. Empty if each run takes its own streams.
    pub fn device_streams(&self) -> &[StreamHandle] {
        match &self.streams {
            Streams::Own(taken) => &taken.handles,
            Streams::OfRuns(..) => &[],
        }
    }
}

/// Drops what only binding needs from the description of a plan that was made from another one.
/// Many such plans are kept, and the next one reuses the memory. What errors of a run name stays:
/// the nodes that make outputs, and the one with the largest value.
fn only_borders(plan: &mut CompiledModel) {
    (plan.tasks, plan.kernels) = (Vec::new(), Vec::new());
    let CompiledModel { graphs, outputs, .. } = plan;
    let Some(nodes) = graphs.first_mut().map(|g| &mut g.nodes) else { return };
    let bytes = |n: &NodeInfo| n.outputs.iter().filter_map(TensorDesc::data_bytes).max().unwrap_or(0);
    let largest = (0..nodes.len()).max_by_key(|k| bytes(&nodes[*k]));
    let mut k = 0;
    nodes.retain(|n| {
        k += 1;
        Some(k - 1) == largest || outputs.iter().any(|o| o.name == n.name)
    });
    nodes.shrink_to_fit();
}

/// Number of streams that a SoC has for all models, normal and huge together. 0 for a SoC that
/// states no number: no limit.
pub(crate) fn most_streams(soc: &SocSpec) -> usize {
    let has = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
    match soc.streams_normal {
        0 => 0,
        n => has(n).saturating_add(has(soc.streams_huge)),
    }
}

/// A number that identifies a device within the process.
pub(crate) fn device_number(context: &Arc<OpenDevice>) -> u64 {
    Arc::as_ptr(context) as u64
}

/// Where the streams of a model come from.
pub(crate) enum Streams {
    /// Streams of the pool, held from load to unload.
    Own(Taken),
    /// Each run takes streams like these from an allocator.
    OfRuns(Arc<StreamAllocator>, Vec<StreamWish>),
}

impl Streams {
    /// The streams of one run, held as long as the run lasts; `None` if the model has its own.
    ///
    /// # Errors
    /// Fails if the allocator cannot provide enough streams.
    pub(crate) fn of_run(&self) -> Result<Option<AcquiredStreams<'_>>, RuntimeError> {
        match self {
            Streams::Own(_) => Ok(None),
            Streams::OfRuns(allocator, wishes) => allocator.acquire_streams(wishes).map(Some),
        }
    }
}

/// Streams of the pool, given back on drop.
pub(crate) struct Taken {
    pool: Arc<StreamPool>,
    model: ModelId,
    handles: Vec<StreamHandle>,
}

impl Taken {
    fn new(pool: Arc<StreamPool>, device: u64, most: usize, wishes: &[StreamWish]) -> Result<Taken, RuntimeError> {
        let (model, handles) = pool.acquire_streams(device, most, wishes)?;
        Ok(Taken { pool, model, handles })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.pool.release(self.model);
    }
}

impl Drop for LoadedModel {
    fn drop(&mut self) {
        let idle = std::mem::take(&mut *self.idle.lock().unwrap_or_else(|e| e.into_inner()));
        let maps = idle.iter().flatten().map(|b| b.address).filter(|a| *a != 0);
        // Freeing can fail only if the device is lost, and then its memory is gone too.
        for a in maps {
            let _ = self.context.free(a);
        }
    }
}
