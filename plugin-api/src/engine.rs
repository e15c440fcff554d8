//! Engines: what a library provides for each of its engines, namely an op store, graph optimizers,
//! a kernel builder, a task executor and host kernels. Source: DESIGN 1, facts 3.3.
use crate::abi::erase::RawSlice;
use crate::abi::table::abi_object;
use crate::abi::{ROption, RResult, RString, RVec, StableAbi};
use crate::device::{DeviceModelRef, ModelSink, SocSpec};
use crate::diagnostic::{Error, Result};
use crate::kernel::{HostCall, HostKernel, HostTensor, KernelCtx, LoadedKernel, RawTensor, TensorView};
use crate::open_code;
use crate::patch::{Edit, Patch};
pub use crate::support::Support;
use crate::support::first;
use crate::task::{ContextType, KernelTask, Task};
use crate::types::{AttrMap, DType, Format, TensorDesc};
use crate::view::{Graph, Node, RawGraph, RawNodeRef};

/// Flags of an engine, combined with bitwise or (facts 1.3, DESIGN 1).
pub mod flags {
    /// The engine's nodes have their own streams (HCCL).
    pub const INDEPENDENT: u64 = 1;
    /// Its nodes may share the stream of any predecessor.
    pub const ATTACH: u64 = 1 << 1;
    /// Its nodes take no part in stream assignment (GE_LOCAL, HOST_CPU, ffts_plus).
    pub const SKIP_ASSIGN_STREAM: u64 = 1 << 2;
    /// It has its own stream in dynamic graphs.
    pub const OWNS_STREAM_DYNAMIC: u64 = 1 << 3;
    /// It is an AI CPU engine; a node that gets a task on it counts as a fallback.
    pub const AICPU: u64 = 1 << 4;
    /// It is a composite engine (ffts_plus). Engines without this flag are atomic.
    pub const COMPOSITE: u64 = 1 << 5;
    /// It runs on the host, not on the device.
    pub const HOST_RUNTIME: u64 = 1 << 6;
    /// Its nodes have no task (GE_LOCAL).
    pub const NO_TASK: u64 = 1 << 7;
    /// Its host kernels are used to fold constants.
    pub const FOLDS_CONSTANTS: u64 = 1 << 8;
    /// It takes structural nodes (Data, Const, NetOutput …).
    pub const STRUCTURAL: u64 = 1 << 9;
    /// It owns the tasks for synchronisation, streams and labels (DNN_VM_RTS).
    pub const RUNTIME_TASKS: u64 = 1 << 10;
    /// Its kernels run on vector cores (`ge.x.core_type` selects them).
    pub const VECTOR_CORE: u64 = 1 << 11;
    /// Its kernels run on AI cores.
    pub const AI_CORE: u64 = 1 << 12;
    /// A composite engine that takes part only if `ge.x.composite_engines` names it.
    pub const ON_DEMAND: u64 = 1 << 13;
}

/// Attribute that groups nodes for a composite engine: nodes with the same value go into one
/// subgraph, and nodes with another value or without the attribute stay out of it.
pub const COMPOSITE_SCOPE: &str = "_composite_scope";

/// Description of an engine.
/// # Examples
/// ```
/// use ge_plugin_api::engine::EngineInfo;
///
/// let info = EngineInfo { user_name: "Acme".into(), ..EngineInfo::new("AcmeEngine", 2) };
/// assert_eq!((info.name.as_str(), info.cost), ("AcmeEngine", 2));
/// ```
#[repr(C)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub struct EngineInfo {
    /// Engine name (`AIcoreEngine`).
    pub name: RString,
    /// Name of its kernel library (`_op_kernel_lib`).
    pub kernel_lib: RString,
    /// Name by which users exclude the engine (`AiCore`), or empty.
    pub user_name: RString,
    /// Compute cost: the host prefers engines with a lower cost (facts 1.3).
    pub cost: u32,
    /// Bitwise or of [`flags`].
    pub flags: u64,
    /// Scheduler that runs its tasks; in practice the same for all engines of one device.
    pub scheduler_id: RString,
    /// Priority of its graph optimizer: lower values run first (facts 3.2).
    pub optimizer_priority: u32,
}

impl EngineInfo {
    /// Describes an engine by name and compute cost. Its kernel library has the same name, it has
    /// no flags, and its optimizer priority is 100.
    pub fn new(name: &str, cost: u32) -> EngineInfo {
        EngineInfo {
            name: name.into(),
            kernel_lib: name.into(),
            user_name: RString::new(),
            cost,
            flags: 0,
            scheduler_id: "TS_1".into(),
            optimizer_priority: 100,
        }
    }
}

open_code! {
    /// The point at which a graph optimizer is called (facts 3.3).
    pub struct Hook: u8 {
        /// At the start of compilation.
        OPTIMIZE_GRAPH_INIT = 0 "OptimizeGraphInit",
        /// To prepare quantisation.
        OPTIMIZE_GRAPH_PREPARE = 1 "OptimizeGraphPrepare",
        /// After the graph is normalised.
        AFTER_GRAPH_NORMALIZATION = 2 "OptimizeAfterGraphNormalization",
        /// For fusions on the whole original graph.
        ORIGINAL_GRAPH = 3 "OptimizeOriginalGraph",
        /// To settle precision.
        ORIGINAL_GRAPH_JUDGE_INSERT = 4 "OptimizeOriginalGraphJudgeInsert",
        /// To settle formats.
        ORIGINAL_GRAPH_JUDGE_FORMAT_INSERT = 5 "OptimizeOriginalGraphJudgeFormatInsert",
        /// After stage 1.
        AFTER_STAGE1 = 6 "OptimizeAfterStage1",
        /// On each subgraph of the engine.
        FUSED_GRAPH = 7 "OptimizeFusedGraph",
        /// On the merged whole graph.
        WHOLE_GRAPH = 8 "OptimizeWholeGraph",
        /// Before the model is built.
        GRAPH_BEFORE_BUILD = 9 "OptimizeGraphBeforeBuild",
        /// On the graph once streams are assigned.
        STREAM_GRAPH = 10 "OptimizeStreamGraph",
        /// On the whole graph once streams and synchronisation are assigned.
        STREAMED_WHOLE_GRAPH = 11 "OptimizeStreamedWholeGraph",
        /// Before `FUSED_GRAPH`.
        SUBGRAPH_PRE_PROC = 12 "OptimizeSubgraphPreProc",
        /// After `FUSED_GRAPH`.
        SUBGRAPH_POST_PROC = 13 "OptimizeSubgraphPostProc",
    }
}

/// One combination of types and formats that an engine offers for a node, with its cost. The host
/// chooses among the combinations over the whole graph.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub struct Variant {
    /// Type of each input; `UNKNOWN` accepts the type that it has.
    pub input_types: RVec<DType>,
    /// Format of each input.
    pub input_formats: RVec<Format>,
    /// Type of each output; `UNKNOWN` keeps the inferred type.
    pub output_types: RVec<DType>,
    /// Format of each output.
    pub output_formats: RVec<Format>,
    /// Relative cost; nanoseconds are a good unit.
    pub cost: u64,
}

/// An attached stream that a node requests (002/004 attached streams, facts 1.7).
#[repr(C)]
#[derive(Clone, Debug, Default, PartialEq, StableAbi)]
pub struct AttachedStream {
    /// Value of `_attached_resource_name`.
    pub name: RString,
    /// Nodes with the same name and reuse key share the stream; an empty key leaves only the name.
    pub reuse_key: RString,
    /// Inputs whose values are needed on the stream.
    pub depend_value_inputs: RVec<u32>,
    /// Whether the stream is required; the host skips requests that are not.
    pub required: bool,
    /// Whether nodes on different main streams may share it.
    pub force_reuse: bool,
}

/// An event or notify that a node's own tasks need.
#[repr(C)]
#[derive(Clone, Debug, Default, PartialEq, StableAbi)]
pub struct SyncResource {
    /// Value of `_attached_resource_name`.
    pub name: RString,
    /// `true` for a notify, `false` for an event.
    pub notify: bool,
    /// Nodes of one stream with the same reuse key may share it; if empty, it is never shared.
    pub reuse_key: RString,
}

/// A workspace that a node requests.
#[repr(C)]
#[derive(Clone, Debug, Default, PartialEq, StableAbi)]
pub struct Workspace {
    /// Size in bytes.
    pub bytes: u64,
    /// Code of the [`MemoryKind`](crate::device::MemoryKind); 0 is HBM.
    pub memory: u8,
    /// Whether the memory must be zeroed before the node runs (atomic clean).
    pub zeroed: bool,
    /// Whether no other tensor may reuse the memory (session scope).
    pub no_reuse: bool,
}

/// Run-time needs of a node, as `calc_op_running_param` returns them.
#[repr(C)]
#[derive(Clone, Debug, Default, PartialEq, StableAbi)]
pub struct RunningParams {
    /// Bytes of each output; 0 means the data size of its descriptor.
    pub output_bytes: RVec<u64>,
    /// Requested workspaces.
    pub workspaces: RVec<Workspace>,
    /// Requested attached streams.
    pub attached: RVec<AttachedStream>,
    /// Requested events and notifies.
    pub sync: RVec<SyncResource>,
    /// Output `k` may use the memory of input `inplace[k]`; -1 if it may not.
    pub inplace: RVec<i32>,
    /// Number of tasks on the main stream if it is known before they are generated, else 0; the
    /// host then counts them.
    pub task_count: u32,
}

/// A compiled kernel for the kernel store.
#[repr(C)]
#[derive(Clone, Debug, Default, PartialEq, StableAbi)]
pub struct KernelBinary {
    /// Name, the same for equal kernels: the builder's own key over operator type, parameters and
    /// variant.
    pub name: RString,
    /// What the executor passes to the device; for the simulator a kernel id with its compiled
    /// parameters.
    pub binary: RVec<u8>,
}

impl KernelBinary {
    /// A kernel with this name and binary. Two kernels of one engine with the same name must have
    /// the same bytes.
    pub fn new(name: impl Into<String>, binary: impl Into<Vec<u8>>) -> KernelBinary {
        KernelBinary { name: name.into().into(), binary: binary.into().into() }
    }
}

/// What a kernel is compiled for.
#[repr(C)]
#[derive(Clone, Debug, StableAbi)]
pub struct Target {
    /// SoC to compile for.
    pub soc: SocSpec,
    /// Whether results must be bit-identical however the work is split.
    pub deterministic: bool,
    /// Whether the compilation is online, so that a device can be queried.
    pub online: bool,
    /// Number of ranks that the model is compiled for; 1 without communication.
    pub rank_size: u32,
}

/// Input of `generate_task` besides the node.
#[repr(C)]
#[derive(Clone, Debug, StableAbi)]
pub struct TaskContext {
    /// What the task is generated for.
    pub target: Target,
    /// The kernel that `compile` returned, if any.
    pub kernel: ROption<KernelBinary>,
    /// Number of ranks in the group of this model, for collectives.
    pub rank_size: u32,
}

/// One argument of a kernel launch.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub struct ArgInfo {
    /// Kind as in the args format: `i` (input), `o` (output), `w` (workspace), `t` (tiling) or
    /// another text.
    pub kind: RString,
    /// Index among the arguments of this kind.
    pub index: u32,
    /// Descriptor of an input or output; `None` for other kinds.
    pub desc: ROption<TensorDesc>,
    /// Number of bytes that the kernel may access.
    pub bytes: u64,
}

/// What an executor gets when it loads one task with a kernel.
#[repr(C)]
#[derive(Clone, Debug, StableAbi)]
pub struct LoadRequest {
    /// Name of the node.
    pub node: RString,
    /// Operator type.
    pub op: RString,
    /// Attributes of the node as stored in the OM, with those that the host adds at load.
    pub attrs: AttrMap,
    /// The task to load.
    pub task: Task,
    /// Kernel binary from the kernel store.
    pub binary: RVec<u8>,
    /// Arguments in `args_format` order.
    pub args: RVec<ArgInfo>,
    /// Rank of this model.
    pub rank: u32,
    /// Number of ranks.
    pub rank_size: u32,
}

impl LoadRequest {
    /// The kernel launch of the task.
    ///
    /// # Errors
    /// Returns `damaged` if the task launches no kernel.
    pub fn launch(&self) -> Result<&crate::task::KernelTask> {
        self.task
            .kernel
            .as_ref()
            .into_option()
            .ok_or_else(|| Error::damaged(format!("the task of `{}` launches no kernel", self.node)))
    }
    /// Index in `args` of an input (`i`), output (`o`) or workspace (`w`): `request.arg("i", 0)`.
    ///
    /// # Errors
    /// Returns `damaged` if the launch has no such argument.
    pub fn arg(&self, kind: &str, index: u32) -> Result<usize> {
        let at = self.args.iter().position(|a| a.kind.as_str() == kind && a.index == index);
        at.ok_or_else(|| Error::damaged(format!("a task of `{}` has no argument `{kind}{index}`", self.node)))
    }
    /// Type and shape of an input (`i`) or output (`o`) of the launch.
    ///
    /// # Errors
    /// Returns `damaged` if the launch has no such argument, or the argument has no descriptor.
    pub fn desc(&self, kind: &str, index: u32) -> Result<&TensorDesc> {
        let desc = self.args[self.arg(kind, index)?].desc.as_ref().into_option();
        desc.ok_or_else(|| Error::damaged(format!("`{kind}{index}` of `{}` has no type and shape", self.node)))
    }
    /// Bytes of each argument, in `args_format` order, for [`crate::kernel::block_kernel`]: the
    /// size that the type and shape of an input or output need, else the size that the kernel may
    /// access.
    ///
    /// # Errors
    /// Returns `damaged` if an argument has fewer bytes than its type and shape need.
    pub fn arg_bytes(&self) -> Result<Vec<u64>> {
        let need = |a: &ArgInfo| match a.desc.as_ref().into_option().and_then(TensorDesc::data_bytes) {
            Some(need) if need > a.bytes => {
                let (node, kind, index, found) = (&self.node, &a.kind, a.index, a.bytes);
                Err(Error::damaged(format!("`{kind}{index}` of `{node}` has {found} bytes, it needs {need}")))
            }
            Some(need) => Ok(need),
            None => Ok(a.bytes),
        };
        self.args.iter().map(need).collect()
    }
}

/// One engine. Only `info`, `op_types` and `supports` are required; the defaults of the other
/// methods are those of an engine without the feature.
/// # Examples
/// ```
/// use ge_plugin_api::engine::{Engine, EngineInfo, Support};
/// use ge_plugin_api::view::Node;
///
/// /// Takes `Relu` of static shapes; without a kernel it computes nothing yet.
/// struct SmallEngine;
///
/// impl Engine for SmallEngine {
///     fn info(&self) -> EngineInfo {
///         EngineInfo::new("SmallEngine", 3)
///     }
///     fn op_types(&self) -> Vec<String> {
///         vec!["Relu".to_owned()]
///     }
///     fn supports(&self, node: &Node<'_>) -> Support {
///         match node.input_desc(0).and_then(|d| d.shape.count()) {
///             Some(_) => Support::Yes,
///             None => Support::no("the shape of input 0 is not static"),
///         }
///     }
/// }
/// assert_eq!(SmallEngine.info().cost, 3);
/// ```
pub trait Engine: Send + Sync {
    /// Name, cost and flags of the engine.
    fn info(&self) -> EngineInfo;
    /// Operator types in its op store.
    fn op_types(&self) -> Vec<String>;
    /// Whether the engine supports a node, judged by operator type, input and output types, formats
    /// and attributes. A refusal needs a reason; a cost is needed only if it is higher than the
    /// engine's own.
    fn supports(&self, node: &Node<'_>) -> Support;
    /// Graph optimizer: records edits of nodes that the engine owns. The host calls it at each
    /// [`Hook`], engines in priority order.
    /// # Errors
    /// Returns an error if the engine cannot compile the graph; the compilation then fails.
    fn optimize(&self, hook: Hook, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        let _ = (hook, graph, patch);
        Ok(())
    }
    /// Types and formats that the engine offers for a node; empty to keep the node as it is.
    /// # Errors
    /// Returns an error if the node is invalid. A node without another form is an empty list, not
    /// an error.
    fn variants(&self, node: &Node<'_>, target: &Target) -> Result<Vec<Variant>> {
        let _ = (node, target);
        Ok(Vec::new())
    }
    /// Output sizes, workspaces, streams and sync resources that the node needs.
    /// # Errors
    /// Returns `unsupported` if the engine cannot handle the node's sizes. The node then goes to
    /// the next engine that supports it.
    fn calc_op_running_param(&self, node: &Node<'_>, target: &Target) -> Result<RunningParams> {
        let _ = (node, target);
        Ok(RunningParams::default())
    }
    /// Compiles the node's kernel; `None` if the node has none.
    /// # Errors
    /// Returns `unsupported` if there is no kernel for these types and shapes. The node then goes
    /// to the next engine that supports it.
    fn compile(&self, node: &Node<'_>, target: &Target) -> Result<Option<KernelBinary>> {
        let _ = (node, target);
        Ok(None)
    }
    /// Generates the node's tasks; empty for nodes without a task.
    /// # Errors
    /// Returns an error if the tasks cannot be generated; the compilation then fails.
    fn generate_task(&self, node: &Node<'_>, context: &TaskContext) -> Result<Vec<Task>> {
        let _ = (node, context);
        Ok(Vec::new())
    }
    /// Adjusts the node's tasks once physical streams are assigned.
    /// # Errors
    /// Returns an error if the tasks cannot run on these streams; the compilation then fails.
    fn update_task(&self, node: &Node<'_>, tasks: Vec<Task>) -> Result<Vec<Task>> {
        let _ = node;
        Ok(tasks)
    }
    /// Estimated run time of the node in nanoseconds, for planning; 0 if it is not known. Nodes of
    /// one operator with the same descriptors, attributes and constant inputs share one kernel, so
    /// the host may ask for only one of them.
    fn time_ns(&self, node: &Node<'_>, soc: &SocSpec) -> u64 {
        let _ = (node, soc);
        0
    }
    /// Number of arithmetic operations of the node's kernel; an addition and a multiplication count
    /// as one each. `ge bench --per-node` compares it with the machine's peak. 0 if it is not
    /// known.
    fn operations(&self, node: &Node<'_>) -> u64 {
        let _ = node;
        0
    }
    /// Alternative schedules of the node's kernel, under names that the engine chooses. All of them
    /// give bit-identical results. `ge tune` measures them, and at load the attribute `_schedule`
    /// names the one that is fastest on the machine.
    fn schedules(&self, node: &Node<'_>) -> Vec<String> {
        let _ = node;
        Vec::new()
    }
    /// The cores that the node's kernel runs on, as the type of an FFTS+ context: AICORE (cube),
    /// AIV (vector), or MIX_AIC or MIX_AIV (both).
    fn core(&self, node: &Node<'_>) -> ContextType {
        let _ = node;
        ContextType::AIV
    }
    /// Operators that have a tiling function, each with where it runs: "host" or "aicpu".
    fn tilings(&self) -> Vec<(String, String)> {
        Vec::new()
    }
    /// Loads the kernel of a task. The default `load_task` registers and binds it.
    /// # Errors
    /// Returns `damaged` if this engine did not write the binary, or the arguments do not fit it.
    fn load_kernel(&self, request: &LoadRequest) -> Result<LoadedKernel> {
        Err(Error::internal(format!("engine has no kernel for {}", request.op)))
    }
    /// Loads a task onto the device. The default loads the kernel, registers it and binds the task
    /// unchanged.
    /// # Errors
    /// Fails if [`Engine::load_kernel`] fails, or the device rejects the kernel or task.
    fn load_task(&self, request: &LoadRequest, device: &mut ModelSink<'_>) -> Result<()> {
        let kernel = self.load_kernel(request)?;
        device.bind_kernel(request, kernel)
    }
    /// The host kernel of an operator type, for constant folding and execution on the host; `None`
    /// if there is none.
    fn host_kernel(&self, op: &str) -> Option<&dyn HostKernel> {
        let _ = op;
        None
    }
}

abi_object! {
    /// Handle by which the host calls a plugin's [`Engine`].
    object EngineObject of dyn Engine;
    /// ABI function table of [`Engine`].
    table EngineTable, EngineTableRef;
    /// Name, cost and flags of the engine.
    ///
    /// # Errors
    /// Returns `panic` if the plugin panicked.
    call info() -> Result<EngineInfo> => RResult<EngineInfo, Error> = |e| Ok(e.info());
    /// Operator types in its op store.
    raw op_types() -> Result<RVec<RString>> => RResult<RVec<RString>, Error> =
        |e| Ok(e.op_types().into_iter().map(RString::from).collect());
    /// Whether it supports a node, without a cost for the node.
    raw supports(node: &Node<'_> => RawNodeRef) -> Result<first::Support> => RResult<first::Support, Error> =
        |e| Ok(e.supports(&node).into());
    /// The edits that its graph optimizer records at a hook.
    ///
    /// # Errors
    /// Returns the plugin's error, or `panic` if the plugin panicked.
    call optimize(hook: Hook => Hook, graph: &Graph<'_> => RawGraph)
        -> Result<Vec<Edit>> => RResult<RVec<Edit>, Error> = |e| {
            let mut patch = Patch::new(&graph);
            e.optimize(hook, &graph, &mut patch)?;
            Ok(patch.into_edits().into())
        };
    /// Types and formats that it offers for a node.
    ///
    /// # Errors
    /// Returns the plugin's error, or `panic` if the plugin panicked.
    call variants(node: &Node<'_> => RawNodeRef, target: &Target => *const Target)
        -> Result<Vec<Variant>> => RResult<RVec<Variant>, Error> =
        |e| e.variants(&node, target);
    /// Output sizes, workspaces, streams and sync resources that the node needs.
    ///
    /// # Errors
    /// Returns the plugin's error, or `panic` if the plugin panicked.
    call calc_op_running_param(node: &Node<'_> => RawNodeRef, target: &Target => *const Target)
        -> Result<RunningParams> => RResult<RunningParams, Error> = |e| e.calc_op_running_param(&node, target);
    /// Compiles the node's kernel; `None` if the node has none.
    ///
    /// # Errors
    /// Returns the plugin's error, or `panic` if the plugin panicked.
    call compile(node: &Node<'_> => RawNodeRef, target: &Target => *const Target)
        -> Result<Option<KernelBinary>> => RResult<ROption<KernelBinary>, Error> = |e| e.compile(&node, target);
    /// Generates the node's tasks.
    ///
    /// # Errors
    /// Returns the plugin's error, or `panic` if the plugin panicked.
    call generate_task(node: &Node<'_> => RawNodeRef, context: &TaskContext => *const TaskContext)
        -> Result<Vec<Task>> => RResult<RVec<Task>, Error> = |e| e.generate_task(&node, context);
    /// Adjusts the node's tasks once physical streams are assigned.
    ///
    /// # Errors
    /// Returns the plugin's error, or `panic` if the plugin panicked.
    call update_task(node: &Node<'_> => RawNodeRef, tasks: Vec<Task> => RVec<Task>)
        -> Result<Vec<Task>> => RResult<RVec<Task>, Error> = |e| e.update_task(&node, tasks);
    /// Estimated run time of the node in nanoseconds; 0 if it is not known.
    call time_ns(node: &Node<'_> => RawNodeRef, soc: &SocSpec => *const SocSpec) -> u64 => u64 = |e| e.time_ns(&node, soc);
    /// The cores that the node's kernel runs on.
    ///
    /// # Errors
    /// Returns `panic` if the plugin panicked.
    call core(node: &Node<'_> => RawNodeRef) -> Result<ContextType> => RResult<ContextType, Error> = |e| Ok(e.core(&node));
    /// Operators that have a tiling function, alternating with where it runs.
    raw tilings() -> Result<RVec<RString>> => RResult<RVec<RString>, Error> =
        |e| Ok(e.tilings().into_iter().flat_map(|(a, b)| [RString::from(a), RString::from(b)]).collect());
    /// Loads a task onto a device model.
    ///
    /// # Errors
    /// Returns the plugin's error, or `panic` if the plugin panicked.
    call load_task(request: &LoadRequest => *const LoadRequest, device: DeviceModelRef => DeviceModelRef)
        -> Result<()> => RResult<(), Error> = |e| e.load_task(request, &mut ModelSink::new(&device));
    /// Whether there is a host kernel for an operator.
    call has_host_kernel(op: &str => RawSlice<u8>) -> bool => bool = |e| e.host_kernel(op).is_some();
    /// Runs a host kernel. Returns the tensors that it allocated; `None` for outputs whose memory
    /// was given.
    [last_prefix_field]
    raw run_host_kernel(call: &HostCall => *const HostCall, given: &[ROption<RawTensor>] => RawSlice<ROption<RawTensor>>)
        -> Result<RVec<ROption<HostTensor>>> => RResult<RVec<ROption<HostTensor>>, Error> = |e| run_host(e, call, given);
    /// Since 1.2: whether it supports a node, and at which cost.
    raw supports_at(node: &Node<'_> => RawNodeRef) -> Result<Support> => RResult<Support, Error> =
        |e| Ok(e.supports(&node));
    /// Since 1.2: number of arithmetic operations of the node's kernel.
    raw operations(node: &Node<'_> => RawNodeRef) -> Result<u64> => RResult<u64, Error> = |e| Ok(e.operations(&node));
    /// Since 1.2: alternative schedules of the node's kernel.
    raw schedules(node: &Node<'_> => RawNodeRef) -> Result<RVec<RString>> => RResult<RVec<RString>, Error> =
        |e| Ok(e.schedules(&node).into_iter().map(RString::from).collect());
}

fn run_host(e: &dyn Engine, call: &HostCall, given: &[ROption<RawTensor>]) -> Result<RVec<ROption<HostTensor>>> {
    let Some(kernel) = e.host_kernel(&call.op) else {
        return Err(Error::internal(format!("no host kernel for {}", call.op)));
    };
    let inputs = call.inputs.iter().map(|i| if let ROption::RSome(t) = i { Some(view(t)) } else { None }).collect();
    let mut ctx = KernelCtx::new(&call.op, &call.node, &call.attrs, inputs, &call.outputs);
    for (i, g) in given.iter().enumerate() {
        if let ROption::RSome(t) = g {
            // SAFETY: the caller gives the memory of each output to this call alone.
            let (dims, bytes) = unsafe { (t.dims.get().to_vec(), mem_mut(t)) };
            ctx.give_output(i, t.dtype, dims, bytes);
        }
    }
    kernel.run(&mut ctx)?;
    Ok(ctx.into_made().into_iter().map(ROption::from).collect())
}
unsafe fn mem_mut<'a>(t: &RawTensor) -> &'a mut [u8] {
    if t.len == 0 {
        return &mut [];
    }
    // SAFETY: guaranteed by the caller's contract.
    unsafe { core::slice::from_raw_parts_mut(t.data, t.len) }
}
fn view<'a>(t: &RawTensor) -> TensorView<'a> {
    // SAFETY: the host keeps the inputs alive and unchanged during the call.
    unsafe {
        TensorView {
            dtype: t.dtype,
            dims: t.dims.get(),
            bytes: if t.len == 0 { &[] } else { core::slice::from_raw_parts(t.data, t.len) },
        }
    }
}

impl EngineObject {
    /// Whether the engine supports a node, and at which cost.
    ///
    /// # Errors
    /// Returns `panic` if the plugin panicked.
    pub fn supports(&self, node: &Node<'_>) -> Result<Support> {
        let raw = RawNodeRef::of(node);
        // SAFETY: pointer and table belong together; the node outlives the call.
        unsafe {
            match self.table().supports_at() {
                Some(f) => f(self.ptr(), raw).into_result(),
                None => (self.table().supports())(self.ptr(), raw).into_result().map(Support::from),
            }
        }
    }
    /// Number of arithmetic operations of the node's kernel; 0 if it is not known.
    ///
    /// # Errors
    /// Returns `panic` if the plugin panicked.
    pub fn operations(&self, node: &Node<'_>) -> Result<u64> {
        let raw = RawNodeRef::of(node);
        // SAFETY: as above.
        unsafe { self.table().operations().map_or(Ok(0), |f| f(self.ptr(), raw).into_result()) }
    }
    /// Alternative schedules of the node's kernel; empty if the plugin is older than interface 1.2.
    ///
    /// # Errors
    /// Returns `panic` if the plugin panicked.
    pub fn schedules(&self, node: &Node<'_>) -> Result<Vec<String>> {
        let raw = RawNodeRef::of(node);
        // SAFETY: as above.
        let all = unsafe { self.table().schedules().map_or(Ok(RVec::new()), |f| f(self.ptr(), raw).into_result()) };
        Ok(all?.into_iter().map(String::from).collect())
    }
    /// Operator types in the engine's op store.
    ///
    /// # Errors
    /// Returns `panic` if the plugin panicked.
    pub fn op_types(&self) -> Result<Vec<String>> {
        // SAFETY: pointer and table belong together.
        Ok(unsafe { (self.table().op_types())(self.ptr()) }.into_result()?.into_iter().map(String::from).collect())
    }
    /// Operators that have a tiling function, each with where it runs.
    ///
    /// # Errors
    /// Returns `panic` if the plugin panicked.
    pub fn tilings(&self) -> Result<Vec<(String, String)>> {
        // SAFETY: as above.
        let flat = unsafe { (self.table().tilings())(self.ptr()) }.into_result()?;
        Ok(flat.chunks_exact(2).map(|c| (c[0].to_string(), c[1].to_string())).collect())
    }
    /// Runs a host kernel that allocates its outputs, which have the given types.
    ///
    /// # Errors
    /// Returns the plugin's error, `panic` if the plugin panicked, or `plugin` if the kernel did
    /// not make an output.
    pub fn run_host_kernel(
        &self,
        op: &str,
        node: &str,
        attrs: &AttrMap,
        inputs: &[Option<TensorView<'_>>],
        outputs: &[DType],
    ) -> Result<Vec<HostTensor>> {
        let call = host_call(op, node, attrs, inputs, outputs);
        // SAFETY: as above; the inputs outlive the call.
        let made = unsafe { (self.table().run_host_kernel())(self.ptr(), &call, RawSlice::empty()) }.into_result()?;
        made.into_iter()
            .enumerate()
            .map(|(i, t)| {
                t.into_option().ok_or_else(|| {
                    Error::new(crate::diagnostic::ErrorKind::PLUGIN, format!("kernel of {op} made no output {i}"))
                })
            })
            .collect()
    }
}

fn host_call(op: &str, node: &str, attrs: &AttrMap, inputs: &[Option<TensorView<'_>>], outputs: &[DType]) -> HostCall {
    HostCall {
        op: op.into(),
        node: node.into(),
        attrs: attrs.clone(),
        inputs: inputs
            .iter()
            .map(|i| {
                ROption::from(i.map(|v| RawTensor {
                    dtype: v.dtype,
                    dims: RawSlice::of(v.dims),
                    data: v.bytes.as_ptr() as *mut u8,
                    len: v.bytes.len(),
                }))
            })
            .collect(),
        outputs: outputs.into(),
    }
}

impl ModelSink<'_> {
    /// Registers a kernel and binds the task of the request to it.
    ///
    /// # Errors
    /// Returns the error of [`ModelSink::register`] or [`ModelSink::bind`].
    pub fn bind_kernel(&mut self, request: &LoadRequest, kernel: LoadedKernel) -> Result<()> {
        let (block_dim, key, tiling) = match &request.task.kernel {
            ROption::RSome(KernelTask { block_dim, tiling_key, tiling, .. }) => {
                (*block_dim, *tiling_key, tiling.clone())
            }
            ROption::RNone => (1, 0, RVec::new()),
        };
        let id = self.register(kernel)?;
        self.bind(id, block_dim, key, tiling)
    }
}
