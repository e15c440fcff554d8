//! The compiled model as plain data.
use bytes::Bytes;
use ge_plugin_api::device::SocSpec;
use ge_plugin_api::task::{TILING_SINK_BLOCK_DIM, TaskType};
use ge_plugin_api::types::{AttrMap, AttrValue, ConstTensor, TensorDesc};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A compiled model as the compiler builds it and the runtime loads it.
#[derive(Clone, Debug, Default)]
pub struct CompiledModel {
    /// Name of the model.
    pub name: String,
    /// Version of the compiler.
    pub version: String,
    /// The SoC that the model is compiled for.
    pub soc: SocSpec,
    /// Options that differed from their default.
    pub options: BTreeMap<String, String>,
    /// Plugins that took part in the compilation.
    pub plugins: Vec<PluginInfo>,
    /// All graphs; the root comes first.
    pub graphs: Vec<GraphInfo>,
    /// Inputs of the root graph, by index.
    pub inputs: Vec<IoInfo>,
    /// Outputs of the root graph, in order.
    pub outputs: Vec<IoInfo>,
    /// Logical and physical streams.
    pub streams: StreamsInfo,
    /// Pairs of a record and its wait.
    pub events: Vec<EventInfo>,
    /// Number of event ids.
    pub event_num: u32,
    /// Number of notify ids.
    pub notify_num: u32,
    /// Number of label ids.
    pub label_num: u32,
    /// Memory sizes and zero-copy ranges.
    pub memory: MemoryInfo,
    /// Tasks in the order of TASK_INFO.
    pub tasks: Vec<TaskInfo>,
    /// Kernels of the kernel store.
    pub kernels: Vec<KernelInfo>,
    /// Weights as (offset, bytes), by rising offset.
    pub weights: Vec<(u64, Bytes)>,
    /// Whether the model uses the weights of the first model in the file, so that the file stores
    /// them only once.
    pub shares_weights: bool,
    /// Weights that are stored in files beside the OM; `weights` stays empty until they are
    /// fetched.
    pub external: Vec<ExternalWeight>,
    /// Number of ranks in the group; 0: as many as run the model.
    pub rank_size: u32,
    /// Lowest and highest value of each open size. The key is the size's letter, or
    /// `input:dimension` for a size without a letter.
    pub ranges: BTreeMap<String, (u64, u64)>,
    /// The sets of sizes for which the model has a plan each, if it was compiled for several.
    /// Inputs and outputs are then open, and an additional last input gives the sizes of the run.
    pub gears: Option<crate::Gears>,
    /// The parts of known shape of a model of unknown shapes. Each is a static model, run by the
    /// `PartitionedCall` of the root graph whose `f` is the part's name (facts 7.1,
    /// `SubgraphInstanceNameToModel`). For a model with gears: the model that runs sizes of no
    /// gear, followed by its parts (facts 8.7).
    pub parts: Vec<CompiledModel>,
    /// The passes that changed something. Their times are not kept, because they would make two
    /// compilations differ.
    pub passes: Vec<PassInfo>,
}

/// A plugin that took part in the compilation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginInfo {
    /// Name of the plugin.
    pub name: String,
    /// Version of the plugin.
    pub version: String,
    /// Kinds of what the plugin provides.
    pub kinds: Vec<String>,
    /// File name of the library.
    pub path: String,
}

/// A part of the weights that is stored in a file beside the OM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalWeight {
    /// Path of the file, relative to the OM's folder.
    pub file: String,
    /// Offset of the part in the weights.
    pub offset: u64,
    /// Size of the part in bytes: the whole file.
    pub bytes: u64,
    /// SHA-256 of the file, in hex.
    pub sha256: String,
}

/// A pass that changed something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassInfo {
    /// Name of the stage.
    pub stage: String,
    /// Name of the pass.
    pub name: String,
    /// Number of patches applied.
    pub changes: u64,
    /// Its fusions, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fusions: Vec<FusionInfo>,
}

/// The nodes that one fusion replaced, and their replacements.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FusionInfo {
    /// Names of the replaced nodes.
    pub before: Vec<String>,
    /// Names of the new nodes; empty if the old nodes were only deleted.
    pub after: Vec<String>,
}

/// One graph of a compiled model.
#[derive(Clone, Debug, Default)]
pub struct GraphInfo {
    /// Name of the graph.
    pub name: String,
    /// Attributes of the graph.
    pub attrs: AttrMap,
    /// Nodes in execution order.
    pub nodes: Vec<NodeInfo>,
}

/// A graph input or output.
#[derive(Clone, Debug, Default)]
pub struct IoInfo {
    /// Name known to the user.
    pub name: String,
    /// Type and shape.
    pub desc: TensorDesc,
    /// Memory location: that of the Data node for an input, that of the producer for an output.
    pub slot: SlotInfo,
}

/// A value, given by its node and output index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueAt {
    /// Index of the node in its graph.
    pub node: u32,
    /// Output index.
    pub output: u32,
}

/// One node of a graph.
#[derive(Clone, Debug, Default)]
pub struct NodeInfo {
    /// Name, unique in the model.
    pub name: String,
    /// Operator type.
    pub op: String,
    /// Name of its engine.
    pub engine: String,
    /// Data inputs; `None` is an absent optional input.
    pub inputs: Vec<Option<ValueAt>>,
    /// Control inputs, as indices of nodes in the graph.
    pub controls: Vec<u32>,
    /// Output descriptors.
    pub outputs: Vec<TensorDesc>,
    /// Memory locations of the outputs.
    pub slots: Vec<SlotInfo>,
    /// Memory locations of the workspaces.
    pub workspaces: Vec<SlotInfo>,
    /// Attributes. The value of a constant is in the weights, not here.
    pub attrs: AttrMap,
    /// Physical stream of its tasks; `None` if it has none.
    pub stream: Option<u32>,
    /// Logical stream; `None` if it has none.
    pub logical_stream: Option<u32>,
    /// Physical streams that are attached to it.
    pub attached_streams: Vec<u32>,
    /// Names of its subgraphs.
    pub subgraphs: Vec<String>,
    /// Why passes and engines left the node unchanged, as (who, reason).
    pub refusals: Vec<(String, String)>,
}

/// A memory location. `space` is one of the constants of [`SlotInfo`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotInfo {
    /// Memory space: one of the constants below.
    pub space: u8,
    /// Code of the memory kind (0 HBM …) if the space is a feature map.
    pub memory: u8,
    /// Byte offset in the space.
    pub offset: u64,
    /// Size in bytes, padding included.
    pub size: u64,
    /// Whether it is in a zero-copy range.
    pub zero_copy: bool,
    /// Index of the input whose memory it shares, if any.
    pub ref_input: Option<u32>,
}

impl SlotInfo {
    /// No memory is assigned.
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
    /// Logical streams, indexed by id.
    pub logical: Vec<LogicalInfo>,
    /// Physical streams, indexed by id.
    pub physical: Vec<PhysicalInfo>,
    /// Whether the model was compiled in single-stream mode.
    pub single: bool,
    /// Whether a custom stream pass changed the assignment.
    pub assigned_by_stream_pass: bool,
}

/// One logical stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogicalInfo {
    /// Label of the stream.
    pub label: String,
    /// Label that the user gave.
    pub user_label: String,
    /// Whether it is an attached stream.
    pub attached: bool,
    /// Number of streams that follow this one for its collectives (hccl nodes).
    #[serde(default)]
    pub hccl_followed: u32,
}

/// One physical stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhysicalInfo {
    /// Id of its logical stream.
    pub logical: u32,
    /// Whether it is a huge stream.
    pub huge: bool,
    /// Whether it starts when the model is launched.
    pub head: bool,
    /// Priority of the stream.
    #[serde(default)]
    pub priority: u32,
}

/// An event or notify: a record and its wait, given by the nodes of the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventInfo {
    /// Event or notify id.
    pub id: u32,
    /// Whether it is a notify rather than an event.
    pub notify: bool,
    /// Name of the sending node.
    pub send: String,
    /// Name of the receiving node.
    pub recv: String,
}

/// Memory sizes of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryInfo {
    /// Sizes for each memory kind.
    pub spaces: Vec<SpaceInfo>,
    /// Zero-copy ranges.
    pub zero_copy: Vec<ZeroCopyInfo>,
    /// Size of the weights in bytes.
    pub weights: u64,
    /// Size of the variables in bytes.
    pub variables: u64,
    /// Who holds memory at the peak, as (name, bytes).
    pub peak: Vec<(String, u64)>,
}

/// Sizes for one memory kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceInfo {
    /// Name of the memory kind.
    pub memory: String,
    /// Size in bytes, zero-copy ranges included.
    pub size: u64,
    /// Lower bound of the size, in bytes.
    pub lower_bound: u64,
    /// Size of the zero-copy ranges in bytes.
    pub zero_copy: u64,
    /// Name of the assigner that planned it.
    pub assigner: String,
    /// Start offsets of the pieces that are allocated separately; empty if there is only one piece.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pieces: Vec<u64>,
}

/// A zero-copy range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZeroCopyInfo {
    /// Whether it belongs to an output rather than an input.
    pub output: bool,
    /// Index of the input or output.
    pub index: u32,
    /// Code of the memory kind.
    pub memory: u8,
    /// Byte offset in the feature map.
    pub offset: u64,
    /// Size in bytes.
    pub size: u64,
    /// Whether the model may overwrite this input.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overwritten: bool,
    /// For an output: index of the input whose memory it uses, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_input: Option<u32>,
}

/// One task of a compiled model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskInfo {
    /// Task type, a code of facts 7.2.
    pub kind: u32,
    /// Index of its node's graph.
    pub graph: u32,
    /// Index of its node in the graph.
    pub node: u32,
    /// Id of its physical stream.
    pub stream: u32,
    /// Event or notify id, if it records or waits.
    pub sync_id: Option<u32>,
    /// Name of its kernel in the kernel store.
    pub kernel_name: String,
    /// Name of the library on the device.
    pub so_name: String,
    /// Code of the kernel type.
    pub kernel_type: u32,
    /// Number of blocks that the kernel runs on.
    pub block_dim: u32,
    /// Tiling key: selects the variant of the kernel.
    pub tiling_key: u64,
    /// Tiling data passed to the kernel.
    pub tiling: Bytes,
    /// Arguments, in the grammar of facts 5 (`{i0*}{o0*}{ws0*}`).
    pub args_format: String,
    /// How blocks are scheduled (0: normal, 1: all blocks at once).
    pub schedule_mode: u32,
    /// Number of SQEs that the task takes on its stream.
    pub sqe_num: u32,
    /// Numbers whose meaning depends on the type (see `ge_plugin_api::task::Task::numbers`), with
    /// streams and labels resolved.
    pub numbers: Vec<i64>,
    /// Bytes that only the engine interprets.
    pub private: Bytes,
    /// Names of the nodes that it stands for, if more than one.
    pub nodes: Vec<String>,
    /// Run time in nanoseconds for the simulated clock, as the engine gave it.
    pub time_ns: u64,
}

/// A kernel of the kernel store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelInfo {
    /// Name of the kernel.
    pub name: String,
    /// Name of the engine that loads it.
    pub engine: String,
    /// Binary of the kernel.
    pub binary: Bytes,
}

/// Attribute of a graph whose shapes are determined in each run.
pub const UNKNOWN_SHAPE: &str = "_is_unknown_shape";
/// Attribute of an `Assign` in a graph whose shapes are determined in each run: the value that its
/// variable holds after the run. Nodes that read a `Variable` of such a graph read the value from
/// before the run.
pub const KEPT: &str = "_kept";

/// Attribute of an input: the value used when a run supplies none.
pub const DEFAULT_VALUE: &str = "_default_value";

/// Inputs that became constants because nobody asked for them, as (name, shape); read from a
/// graph's attributes.
pub fn defaulted(attrs: &AttrMap) -> Vec<(&str, &str)> {
    let list = attrs.strs("_defaulted_inputs").unwrap_or_default();
    list.into_iter().filter_map(|e| e.rsplit_once(':')).collect()
}

impl CompiledModel {
    /// Whether its shapes are determined in each run. Such a model has no tasks; its graphs are
    /// executed node by node.
    pub fn is_dynamic(&self) -> bool {
        self.graphs.first().is_some_and(|g| g.attrs.flag(UNKNOWN_SHAPE))
    }
    /// Inputs whose values were fixed at compile time, as (index, value).
    pub fn fixed_inputs(&self) -> Vec<(usize, &ConstTensor)> {
        self.input_values("_fixed_value")
    }
    /// Inputs with a value that is used when a run supplies none, as (index, value).
    pub fn default_inputs(&self) -> Vec<(usize, &ConstTensor)> {
        self.input_values(DEFAULT_VALUE)
    }
    /// Inputs of the original model that are constants in this one, because they have a value of
    /// their own and nobody asked for them at compile time. Each is given as (name, shape as
    /// `--input-shape` writes it).
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
    /// The node at an index of a graph. Graphs of parts are numbered after those of the model
    /// itself.
    pub fn node(&self, graph: u32, node: u32) -> Option<&NodeInfo> {
        if let Some(g) = self.graphs.get(graph as usize) {
            return g.nodes.get(node as usize);
        }
        self.every_graph().nth(graph as usize)?.nodes.get(node as usize)
    }
    /// All graphs; those of parts come after those of the model itself.
    pub fn every_graph(&self) -> impl Iterator<Item = &GraphInfo> {
        self.graphs.iter().chain(self.parts.iter().flat_map(|p| &p.graphs))
    }
    /// Index of the first graph of a part in [`every_graph`](Self::every_graph).
    pub fn first_graph_of(&self, part: usize) -> usize {
        self.graphs.len() + self.parts.iter().take(part).map(|p| p.graphs.len()).sum::<usize>()
    }
    /// Number of tasks of the model and of its parts.
    pub fn task_count(&self) -> usize {
        self.tasks.len() + self.parts.iter().map(|p| p.tasks.len()).sum::<usize>()
    }
    /// The tasks whose block count and tiling key the UPDATE task `t` sets: tasks of the same node,
    /// each with its index.
    pub fn sunk<'m>(&'m self, t: &TaskInfo) -> impl Iterator<Item = (usize, &'m TaskInfo)> + use<'m> {
        let of = (t.graph, t.node);
        let waits = move |o: &TaskInfo| {
            (o.graph, o.node) == of && !o.kernel_name.is_empty() && o.block_dim == TILING_SINK_BLOCK_DIM
        };
        self.tasks.iter().enumerate().filter(move |(_, o)| waits(o))
    }
    /// Index of the task that the UPDATE task `t` updates.
    pub fn update_target(&self, t: &TaskInfo) -> Option<usize> {
        let k = t.numbers.first().filter(|_| t.kind == TaskType::UPDATE.code())?;
        Some(self.sunk(t).nth(usize::try_from(*k).ok()?)?.0)
    }
    /// The engines whose executors load tasks, each once, in task order. An empty string stands for
    /// tasks of the run-time engine.
    pub fn engines_needed(&self) -> Vec<&str> {
        let mut out: Vec<&str> = Vec::new();
        for t in &self.tasks {
            let nodes = self.graphs.get(t.graph as usize).map_or(&[][..], |g| &g.nodes[..]);
            // A node of an FFTS+ task may be in the graph of its slices.
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
