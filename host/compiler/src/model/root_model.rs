//! `GeRootModel`: everything that a compilation decided, ready to be written as an OM.
use crate::memory::MemoryPlan;
use crate::model::weights::Weights;
use crate::options::Options;
use crate::pass::Records;
use crate::place::Placement;
use crate::split::PhysicalPlan;
use crate::streams::StreamPlan;
use crate::sync::SyncPlan;
use crate::tasks::StoredKernel;
use ge_ir::Model;
use ge_plugin_api::device::SocSpec;

/// The compiled model.
pub struct GeRootModel {
    /// Name.
    pub name: String,
    /// The final graphs.
    pub model: Model,
    /// Nodes that run in slices.
    pub calls: crate::feature::ffts_plus::Calls,
    /// Engine of each node.
    pub placement: Placement,
    /// Names of the engines by id.
    pub engines: Vec<String>,
    /// Name of the engine of records and waits.
    pub runtime_engine: String,
    /// Logical streams.
    pub streams: StreamPlan,
    /// Memory.
    pub memory: MemoryPlan,
    /// Events and notifies.
    pub sync: SyncPlan,
    /// Physical streams and the tasks on them.
    pub physical: PhysicalPlan,
    /// Kernels by name.
    pub kernels: Vec<StoredKernel>,
    /// Weights.
    pub weights: Weights,
    /// What passes did and refused.
    pub records: Records,
    /// Options that were not at their default.
    pub options: Options,
    /// Plugins.
    pub plugins: Vec<ge_model::PluginInfo>,
    /// SoC.
    pub soc: SocSpec,
    /// Ranks of the group that the model is compiled for (0: as many as run it).
    pub rank_size: u32,
}
