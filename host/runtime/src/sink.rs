//! Tiling sink at run time (document 001 §5): the extended attributes that tasks of a node leave
//! for each other, and the tiling contexts that tiling functions read on the device.
use crate::arguments::{arguments, value_inputs};
use crate::error::RuntimeError;
use crate::place::Places;
use crate::spot::{Of, Spot};
use ge_model::CompiledModel;
use ge_plugin::OpenDevice;
use ge_plugin_api::author::tiling_sink::{Platform, TilingContext};
use ge_plugin_api::device::{Base, Place};
use ge_plugin_api::task::{KernelType, TaskType};
use ge_plugin_api::types::attr::DictEntry;
use ge_plugin_api::types::{AttrMap, AttrValue};
use std::collections::BTreeMap;

/// Attribute under which a kernel that waits for its tiling records its task. UPDATE reads it.
pub const TASK_INFO: &str = "_tiling_sink_task_info";
/// Attribute with the addresses of a node's tiling context.
pub const CONTEXT_ADDR: &str = "_tiling_context_addr";

/// A kernel that was bound with a placeholder for its number of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TilingSinkTaskInfo {
    /// Task number on the device.
    pub task_id: u32,
    /// Stream of the task.
    pub stream: u32,
    /// For an FFTS+ task, the handle of its registered kernel.
    pub ffts_task_handle: Option<u32>,
}

impl TilingSinkTaskInfo {
    fn to_attr(self) -> AttrValue {
        let numbers = [("task_id", Some(self.task_id)), ("stream", Some(self.stream))];
        let numbers = numbers.into_iter().chain([("ffts_task_handle", self.ffts_task_handle)]);
        let entries = numbers.filter_map(|(k, v)| Some(DictEntry { key: k.into(), value: v?.into() }));
        AttrValue::Dict(entries.collect())
    }
    fn from_attr(v: &AttrValue) -> Option<TilingSinkTaskInfo> {
        let entries = v.as_dict()?;
        let number = |k: &str| u32::try_from(entries.iter().find(|e| e.key.as_str() == k)?.value.as_int()?).ok();
        Some(TilingSinkTaskInfo {
            task_id: number("task_id")?,
            stream: number("stream")?,
            ffts_task_handle: number("ffts_task_handle"),
        })
    }
}

/// Device addresses of the parts of a node's tiling context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TilingContextAddr {
    /// The whole context.
    pub tiling_context: u64,
    /// Tiling data, including their header.
    pub tiling_data: u64,
    /// Tiling key.
    pub tiling_key: u64,
    /// Number of blocks.
    pub block_dim: u64,
    /// The operator's type.
    pub op_type: u64,
}

impl TilingContextAddr {
    pub(crate) fn to_attr(self) -> AttrValue {
        let parts = [
            ("tiling_context", self.tiling_context),
            ("tiling_data", self.tiling_data),
            ("tiling_key", self.tiling_key),
            ("block_dim", self.block_dim),
            ("op_type", self.op_type),
        ];
        let entry = |(k, v): (&str, u64)| DictEntry { key: k.into(), value: AttrValue::Int(v as i64) };
        AttrValue::Dict(parts.into_iter().map(entry).collect())
    }
}

/// Extended attributes of nodes. They pass information between the tasks of a node during binding
/// and stay as long as the model is loaded.
#[derive(Default)]
pub(crate) struct ExtAttrs(pub(crate) BTreeMap<Of, AttrMap>);

impl ExtAttrs {
    /// Records a kernel that was bound with placeholder blocks. A node may have several.
    pub(crate) fn bound(&mut self, of: Of, info: TilingSinkTaskInfo) {
        let attrs = self.0.entry(of).or_default();
        let mut all = match attrs.get(TASK_INFO) {
            Some(AttrValue::List(l)) => l.to_vec(),
            _ => Vec::new(),
        };
        all.push(info.to_attr());
        attrs.set(TASK_INFO, AttrValue::List(all.into()));
    }
    /// What the kernel with this task number recorded; `None` if it is not bound yet.
    pub(crate) fn task_info(&self, of: Of, task_id: u32) -> Option<TilingSinkTaskInfo> {
        let Some(AttrValue::List(all)) = self.0.get(&of)?.get(TASK_INFO) else { return None };
        all.iter().filter_map(TilingSinkTaskInfo::from_attr).find(|i| i.task_id == task_id)
    }
}

/// Addresses of the parts of the context at `spot`, in memory that begins at `base`.
pub(crate) fn addresses(spot: Spot, base: u64) -> TilingContextAddr {
    let of = |item: &str| base + spot.part(item).map_or(0, |(at, _)| at);
    TilingContextAddr {
        tiling_context: of("tiling_context"),
        tiling_data: of("tiling_context.tiling_data"),
        tiling_key: of("tiling_context.tiling_key"),
        block_dim: of("tiling_context.block_dim"),
        op_type: of("*op_type"),
    }
}

/// A node's tiling context as the host fills it, except for the addresses of its workspaces.
pub(crate) struct Filled {
    pub(crate) of: Of,
    pub(crate) spot: Spot,
    context: TilingContext,
    workspaces: Vec<Place>,
}

/// The tiling contexts of a model, and the allocation that contains them.
#[derive(Default)]
pub(crate) struct Contexts {
    pub(crate) allocation: u32,
    pub(crate) list: Vec<Filled>,
}

impl Contexts {
    pub(crate) fn new(m: &CompiledModel, places: &Places) -> Result<Contexts, RuntimeError> {
        let deterministic = m.options.get("ge.deterministic").is_some_and(|v| v == "1");
        let mut list = Vec::new();
        for (of, spot) in places.contexts() {
            let Some(node) = m.node(of.0, of.1) else { continue };
            let tiling =
                m.tasks.iter().find(|t| (t.graph, t.node) == *of && t.kind == TaskType::PREPROCESS_KERNEL.code());
            let args =
                tiling.map(|t| arguments(m, places, t, node)).transpose()?.map(|(args, _)| args).unwrap_or_default();
            let by_value = value_inputs(node);
            let read = |(k, a): (usize, &ge_plugin_api::engine::ArgInfo)| {
                let reads = a.kind.as_str() == "i" && by_value.contains(&i64::from(a.index));
                reads.then_some((a.index, k as u32))
            };
            let context = TilingContext {
                deterministic,
                deterministic_level: u32::from(deterministic),
                platform: Platform {
                    aic_cores: m.soc.aic_cores,
                    aiv_cores: m.soc.aiv_cores,
                    prefetch_num: m.soc.prefetch_num,
                    custom: tiling.is_some_and(|t| t.kernel_type == KernelType::CUST_AI_CPU.code()),
                    memory_bytes: m.soc.memory_bytes,
                },
                op_type: node.op.clone(),
                inputs: node.inputs.len() as u32,
                outputs: node.outputs.len() as u32,
                values: args.iter().enumerate().filter_map(read).collect(),
                ..TilingContext::default()
            };
            let workspaces = node.workspaces.iter().map(|w| places.of(m, w, w.size)).collect::<Result<_, _>>()?;
            list.push(Filled { of: *of, spot: *spot, context, workspaces });
        }
        Ok(Contexts { allocation: places.context_memory(), list })
    }

    /// Fills the contexts of one set of feature maps. `bases` holds the bases of all allocations of
    /// the model, including those of the set.
    pub(crate) fn fill(&self, device: &OpenDevice, bases: &[Base]) -> Result<(), RuntimeError> {
        let base = |allocation: u32| bases.get(allocation as usize).map_or(0, |b| b.address);
        for f in &self.list {
            let at = |p: &Place| if p.allocation == u32::MAX { 0 } else { base(p.allocation) + p.offset };
            let context = TilingContext { workspaces: f.workspaces.iter().map(at).collect(), ..f.context.clone() };
            for (part, bytes) in context.host_parts(f.spot.beyond)? {
                device.copy_in(base(self.allocation) + f.spot.at + part as u64, &bytes)?;
            }
        }
        Ok(())
    }
}
