//! `GeRootModel`: everything that a compilation has decided, ready to be written as an OM.
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
    /// Name of the model.
    pub name: String,
    /// The final graphs.
    pub model: Model,
    /// Calls whose nodes run in slices, by the name of the call.
    pub calls: crate::feature::ffts_plus::Calls,
    /// Engine of each node.
    pub placement: Placement,
    /// Names of the engines, indexed by engine id.
    pub engines: Vec<String>,
    /// Name of the engine to which records and waits belong.
    pub runtime_engine: String,
    /// Plan of the logical streams.
    pub streams: StreamPlan,
    /// Memory plan.
    pub memory: MemoryPlan,
    /// Plan of events and notifies.
    pub sync: SyncPlan,
    /// Physical streams and the tasks on them.
    pub physical: PhysicalPlan,
    /// Kernels that the model stores.
    pub kernels: Vec<StoredKernel>,
    /// Layout of the weights.
    pub weights: Weights,
    /// What passes changed and what they refused.
    pub records: Records,
    /// Options of the compilation.
    pub options: Options,
    /// Plugins that took part.
    pub plugins: Vec<ge_model::PluginInfo>,
    /// The SoC that the model is compiled for.
    pub soc: SocSpec,
    /// Number of ranks that the model is compiled for. 0: as many as run it.
    pub rank_size: u32,
}
