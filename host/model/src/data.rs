//! The compiled model as plain data.
use bytes::Bytes;
use ge_plugin_api::device::SocSpec;
use ge_plugin_api::task::{TILING_SINK_BLOCK_DIM, TaskType};
use ge_plugin_api::types::{AttrMap, AttrValue, ConstTensor, TensorDesc};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A compiled model.
#[derive(Clone, Debug, Default)]
pub struct CompiledModel {
    /// Name.
    pub name: String,
    /// Version of the compiler.
    pub version: String,
    /// SoC it is compiled for.
    pub soc: SocSpec,
    /// Options that were not at their default.
    pub options: BTreeMap<String, String>,
    /// Plugins that took part.
    pub plugins: Vec<PluginInfo>,
    /// Graphs, root first.
    pub graphs: Vec<GraphInfo>,
    /// Inputs of the root graph, by index.
    pub inputs: Vec<IoInfo>,
    /// Outputs of the root graph, in order.
    pub outputs: Vec<IoInfo>,
    /// Streams.
    pub streams: StreamsInfo,
    /// Pairs of record and wait.
    pub events: Vec<EventInfo>,
    /// Event ids.
    pub event_num: u32,
    /// Notify ids.
    pub notify_num: u32,
    /// Label ids.
    pub label_num: u32,
    /// Memory.
    pub memory: MemoryInfo,
    /// Tasks in TASK_INFO's order.
    pub tasks: Vec<TaskInfo>,
    /// Kernels by name.
    pub kernels: Vec<KernelInfo>,
    /// Weights: what lies where, by rising offset.
    pub weights: Vec<(u64, Bytes)>,
    /// Whether it stands in a file behind a model whose weights are its own: they are written once.
    pub shares_weights: bool,
    /// Weights that lie in files beside the OM; `weights` is empty until they are fetched.
    pub external: Vec<ExternalWeight>,
    /// Ranks of the group; 0: as many as run it.
    pub rank_size: u32,
    /// Ranges of open sizes, lowest and highest: by letter, or by `input:dimension` where a size
    /// has none.
    pub ranges: BTreeMap<String, (u64, u64)>,
    /// Sizes that it has a plan for each, if it was compiled for several: inputs and outputs are
    /// open then, and behind the inputs stands one that says the sizes of the run.
    pub gears: Option<crate::Gears>,
    /// Parts of known shape of a model of unknown shapes: each is a static model of its own, which
    /// the `PartitionedCall` of the root graph runs whose `f` is the part's name (facts 7.1,
    /// `SubgraphInstanceNameToModel`). Behind a model with gears: the model that runs sizes of no
    /// gear, and behind it the parts of that one (facts 8.7).
    pub parts: Vec<CompiledModel>,
    /// What passes did: stage, pass, changes, microseconds are not kept (they would make two
    /// compilations differ).
    pub passes: Vec<PassInfo>,
}

/// A plugin that took part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginInfo {
    /// Name.
    pub name: String,
    /// Version.
    pub version: String,
    /// Kinds.
    pub kinds: Vec<String>,
    /// File name of the library.
    pub path: String,
}

/// A part of the weights that lies in a file beside the OM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalWeight {
    /// The file, relative to the OM's folder.
    pub file: String,
    /// Where the part lies in the weights.
    pub offset: u64,
    /// Its bytes: the whole file.
    pub bytes: u64,
    /// SHA-256 of the file, in hex.
    pub sha256: String,
}

/// A pass that changed something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassInfo {
    /// Stage.
    pub stage: String,
    /// Pass.
    pub name: String,
    /// Patches applied.
    pub changes: u64,
    /// What it fused, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fusions: Vec<FusionInfo>,
}

/// One fusion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FusionInfo {
    /// Names of the nodes before.
    pub before: Vec<String>,
    /// Names of the nodes after; none: they were only deleted.
    pub after: Vec<String>,
}

/// One graph.
#[derive(Clone, Debug, Default)]
pub struct GraphInfo {
    /// Name.
    pub name: String,
    /// Attributes.
    pub attrs: AttrMap,
    /// Nodes in order.
    pub nodes: Vec<NodeInfo>,
}

/// A graph input or output.
#[derive(Clone, Debug, Default)]
pub struct IoInfo {
    /// Name that the user knows.
    pub name: String,
    /// Type and shape.
    pub desc: TensorDesc,
    /// Where it lies: an input's memory is its Data node's, an output's its producer's.
    pub slot: SlotInfo,
}

/// A value: node (position in its graph) and output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueAt {
    /// Position of the node in its graph.
    pub node: u32,
    /// Output.
    pub output: u32,
}

/// One node.
#[derive(Clone, Debug, Default)]
pub struct NodeInfo {
    /// Name, unique in the model.
    pub name: String,
    /// Operator type.
    pub op: String,
    /// Engine.
    pub engine: String,
    /// Data inputs; None is an absent optional one.
    pub inputs: Vec<Option<ValueAt>>,
    /// Control inputs, positions in the graph.
    pub controls: Vec<u32>,
    /// Output descriptors.
    pub outputs: Vec<TensorDesc>,
    /// Where the outputs lie.
    pub slots: Vec<SlotInfo>,
    /// Where the workspaces lie.
    pub workspaces: Vec<SlotInfo>,
    /// Attributes (a constant's value is in the weights, not here).
    pub attrs: AttrMap,
    /// Physical stream of its tasks.
    pub stream: Option<u32>,
    /// Logical stream.
    pub logical_stream: Option<u32>,
    /// Physical attached streams.
    pub attached_streams: Vec<u32>,
    /// Names of its subgraphs.
    pub subgraphs: Vec<String>,
    /// Why passes and engines left it alone: (who, reason).
    pub refusals: Vec<(String, String)>,
}

/// Where something lies. `space` is a code of [`SlotInfo`]'s constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotInfo {
    /// Space.
    pub space: u8,
    /// Memory kind (0 HBM …) of a feature map.
    pub memory: u8,
    /// Offset.
    pub offset: u64,
    /// Bytes, padding included.
    pub size: u64,
    /// Whether it lies in a zero-copy range.
    pub zero_copy: bool,
    /// The input whose memory it shares.
    pub ref_input: Option<u32>,
}

impl SlotInfo {
    /// No memory.
    pub const NOWHERE: u8 = 0;
    /// The feature map of a memory kind.
    pub const FEATURE: u8 = 1;
    /// The weights.
    pub const WEIGHTS: u8 = 2;
    /// The variables.
    pub const VARIABLES: u8 = 3;
}
impl Default for SlotInfo {
    fn default() -> Self {
        SlotInfo { space: SlotInfo::NOWHERE, memory: 0, offset: 0, size: 0, zero_copy: false, ref_input: None }
    }
}

/// Streams of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamsInfo {
    /// Logical streams by id.
    pub logical: Vec<LogicalInfo>,
    /// Physical streams by id.
    pub physical: Vec<PhysicalInfo>,
    /// Single-stream mode.
    pub single: bool,
    /// Whether a custom stream pass changed the assignment.
    pub assigned_by_stream_pass: bool,
}

/// A logical stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogicalInfo {
    /// Stream label.
    pub label: String,
    /// User's label.
    pub user_label: String,
    /// Whether it is attached.
    pub attached: bool,
    /// Streams that hccl nodes on it make follow.
    #[serde(default)]
    pub hccl_followed: u32,
}

/// A physical stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhysicalInfo {
    /// Its logical stream.
    pub logical: u32,
    /// Whether it is huge.
    pub huge: bool,
    /// Whether it starts at launch.
    pub head: bool,
    /// Priority.
    #[serde(default)]
    pub priority: u32,
}

/// A record and its wait, by the graph's nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventInfo {
    /// Id.
    pub id: u32,
    /// Whether it is a notify.
    pub notify: bool,
    /// Sender.
    pub send: String,
    /// Receiver.
    pub recv: String,
}

/// Memory of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryInfo {
    /// Figures of each kind.
    pub spaces: Vec<SpaceInfo>,
    /// Zero-copy ranges.
    pub zero_copy: Vec<ZeroCopyInfo>,
    /// Bytes of the weights.
    pub weights: u64,
    /// Bytes of the variables.
    pub variables: u64,
    /// Who holds memory at the peak.
    pub peak: Vec<(String, u64)>,
}

/// Figures of a memory kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceInfo {
    /// Kind, by name.
    pub memory: String,
    /// Bytes, zero copy included.
    pub size: u64,
    /// Lower bound.
    pub lower_bound: u64,
    /// Bytes of zero copy.
    pub zero_copy: u64,
    /// Assigner.
    pub assigner: String,
    /// Where the pieces begin that are allocated one by one; empty: it is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pieces: Vec<u64>,
}

/// A zero-copy range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZeroCopyInfo {
    /// Whether it is an output (an input otherwise).
    pub output: bool,
    /// Its index.
    pub index: u32,
    /// Memory kind's code.
    pub memory: u8,
    /// Offset in the feature map.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// An input that the model may write over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overwritten: bool,
    /// For an output: the input whose memory it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_input: Option<u32>,
}

/// One task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskInfo {
    /// Type, a code of facts 7.2.
    pub kind: u32,
    /// Position of its node: graph and node.
    pub graph: u32,
    /// Position in the graph.
    pub node: u32,
    /// Physical stream.
    pub stream: u32,
    /// Event or notify id.
    pub sync_id: Option<u32>,
    /// Kernel name in the kernel store.
    pub kernel_name: String,
    /// Library on the device.
    pub so_name: String,
    /// Kernel type.
    pub kernel_type: u32,
    /// Blocks.
    pub block_dim: u32,
    /// Variant.
    pub tiling_key: u64,
    /// Tiling data.
    pub tiling: Bytes,
    /// Arguments.
    pub args_format: String,
    /// Schedule mode.
    pub schedule_mode: u32,
    /// SQEs.
    pub sqe_num: u32,
    /// Numbers by type (see `ge_plugin_api::task::Task::numbers`), streams and labels resolved.
    pub numbers: Vec<i64>,
    /// The engine's own bytes.
    pub private: Bytes,
    /// Nodes that it stands for, where more than one.
    pub nodes: Vec<String>,
    /// Run time for the simulated clock, from the engine.
    pub time_ns: u64,
}

/// A kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelInfo {
    /// Name.
    pub name: String,
    /// Engine that loads it.
    pub engine: String,
    /// Binary.
    pub binary: Bytes,
}

/// Attribute of a graph whose shapes are settled by each run.
pub const UNKNOWN_SHAPE: &str = "_is_unknown_shape";
/// Attribute of an `Assign` of a graph whose shapes are settled by each run: what its variable holds
/// when the run is over. Nodes that read a `Variable` of such a graph read what it held before.
pub const KEPT: &str = "_kept";

/// Attribute of an input: its value where a run gives none.
pub const DEFAULT_VALUE: &str = "_default_value";

/// Inputs that are constants for want of being asked for, of a graph's attributes: name and shape.
pub fn defaulted(attrs: &AttrMap) -> Vec<(&str, &str)> {
    let list = attrs.strs("_defaulted_inputs").unwrap_or_default();
    list.into_iter().filter_map(|e| e.rsplit_once(':')).collect()
}

impl CompiledModel {
    /// Whether its shapes are settled by each run: it has no tasks, its graphs are executed node by
    /// node.
    pub fn is_dynamic(&self) -> bool {
        self.graphs.first().is_some_and(|g| g.attrs.flag(UNKNOWN_SHAPE))
    }
    /// Inputs whose values were given when the model was compiled: number and value.
    pub fn fixed_inputs(&self) -> Vec<(usize, &ConstTensor)> {
        self.input_values("_fixed_value")
    }
    /// Inputs that have a value where a run gives none: number and value.
    pub fn default_inputs(&self) -> Vec<(usize, &ConstTensor)> {
        self.input_values(DEFAULT_VALUE)
    }
    /// Inputs of the original model that are constants of this one, because they have a value of
    /// their own and nobody asked for them when it was compiled: name, and the shape as
    /// `--input-shape` has it.
    pub fn constant_inputs(&self) -> Vec<(&str, &str)> {
        self.graphs.first().map(|g| defaulted(&g.attrs)).unwrap_or_default()
    }
    fn input_values(&self, key: &str) -> Vec<(usize, &ConstTensor)> {
        let data = self.graphs.first().into_iter().flat_map(|g| &g.nodes).filter(|n| n.op == "Data");
        data.filter_map(|n| {
            let AttrValue::Tensor(value) = n.attrs.get(key)? else { return None };
            Some((usize::try_from(n.attrs.int("index")?).ok()?, value))
        })
        .collect()
    }
    /// A node by graph and position. Graphs of parts follow those of the model itself.
    pub fn node(&self, graph: u32, node: u32) -> Option<&NodeInfo> {
        if let Some(g) = self.graphs.get(graph as usize) {
            return g.nodes.get(node as usize);
        }
        self.every_graph().nth(graph as usize)?.nodes.get(node as usize)
    }
    /// All graphs, those of parts behind those of the model itself.
    pub fn every_graph(&self) -> impl Iterator<Item = &GraphInfo> {
        self.graphs.iter().chain(self.parts.iter().flat_map(|p| &p.graphs))
    }
    /// Number of the first graph of a part among [`every_graph`](Self::every_graph).
    pub fn first_graph_of(&self, part: usize) -> usize {
        self.graphs.len() + self.parts.iter().take(part).map(|p| p.graphs.len()).sum::<usize>()
    }
    /// Tasks of the model and of its parts.
    pub fn task_count(&self) -> usize {
        self.tasks.len() + self.parts.iter().map(|p| p.tasks.len()).sum::<usize>()
    }
    /// Tasks of the same node whose blocks and key an UPDATE sets, with their positions.
    pub fn sunk<'m>(&'m self, t: &TaskInfo) -> impl Iterator<Item = (usize, &'m TaskInfo)> + use<'m> {
        let of = (t.graph, t.node);
        let waits = move |o: &TaskInfo| {
            (o.graph, o.node) == of && !o.kernel_name.is_empty() && o.block_dim == TILING_SINK_BLOCK_DIM
        };
        self.tasks.iter().enumerate().filter(move |(_, o)| waits(o))
    }
    /// Position of the task that an UPDATE is about.
    pub fn update_target(&self, t: &TaskInfo) -> Option<usize> {
        let k = t.numbers.first().filter(|_| t.kind == TaskType::UPDATE.code())?;
        Some(self.sunk(t).nth(usize::try_from(*k).ok()?)?.0)
    }
    /// The engines whose executors load tasks, each once, in task order; "" stands for tasks of the
    /// run-time engine.
    pub fn engines_needed(&self) -> Vec<&str> {
        let mut out: Vec<&str> = Vec::new();
        for t in &self.tasks {
            let nodes = self.graphs.get(t.graph as usize).map_or(&[][..], |g| &g.nodes[..]);
            // A node of an FFTS+ task stands in the graph of its slices.
            let elsewhere = |name: &String| self.graphs.iter().flat_map(|g| &g.nodes).find(|n| n.name == *name);
            let others = t.nodes.iter();
            let others = others.filter_map(|name| nodes.iter().find(|n| n.name == *name).or_else(|| elsewhere(name)));
            for n in self.node(t.graph, t.node).into_iter().chain(others) {
                if !out.contains(&n.engine.as_str()) {
                    out.push(&n.engine);
                }
            }
        }
        out
    }
}
