//! Engines: what a library offers for each engine it names: op store, graph optimizers, kernel
//! builder, task executor, host kernels. Source: DESIGN 1, facts 3.3.
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

/// Flags of an engine; ors of the constants (facts 1.3, DESIGN 1).
pub mod flags {
    /// Its nodes have streams of their own (HCCL).
    pub const INDEPENDENT: u64 = 1;
    /// May share the stream of any predecessor.
    pub const ATTACH: u64 = 1 << 1;
    /// Takes part in no stream assignment (GE_LOCAL, HOST_CPU, ffts_plus).
    pub const SKIP_ASSIGN_STREAM: u64 = 1 << 2;
    /// Owns a stream in dynamic graphs.
    pub const OWNS_STREAM_DYNAMIC: u64 = 1 << 3;
    /// An AI CPU engine: a node with a task on it is a fallback.
    pub const AICPU: u64 = 1 << 4;
    /// A composite engine (ffts_plus); atomic otherwise.
    pub const COMPOSITE: u64 = 1 << 5;
    /// Runs on the host, not the device.
    pub const HOST_RUNTIME: u64 = 1 << 6;
    /// Its nodes have no task (GE_LOCAL).
    pub const NO_TASK: u64 = 1 << 7;
    /// Its host kernels fold constants.
    pub const FOLDS_CONSTANTS: u64 = 1 << 8;
    /// Takes structural nodes (Data, Const, NetOutput …).
    pub const STRUCTURAL: u64 = 1 << 9;
    /// The tasks of synchronisation, streams and labels belong to it (DNN_VM_RTS).
    pub const RUNTIME_TASKS: u64 = 1 << 10;
    /// Its core type is the vector core (taken by `ge.x.core_type`).
    pub const VECTOR_CORE: u64 = 1 << 11;
    /// Its core type is the AI core.
    pub const AI_CORE: u64 = 1 << 12;
    /// A composite engine that takes part only where `ge.x.composite_engines` names it.
    pub const ON_DEMAND: u64 = 1 << 13;
}

/// Nodes that a composite engine wants in one subgraph have this attribute with one name, others
/// are not cut with them.
pub const COMPOSITE_SCOPE: &str = "_composite_scope";

/// What an engine is.
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
    /// Name (`AIcoreEngine`).
    pub name: RString,
    /// Name of its kernel library (`_op_kernel_lib`).
    pub kernel_lib: RString,
    /// User's name in exclude lists (`AiCore`), or empty.
    pub user_name: RString,
    /// Compute cost: lower is chosen first (facts 1.3).
    pub cost: u32,
    /// Bitwise or of [`flags`].
    pub flags: u64,
    /// Unit of scheduling; equal for all engines of one device in practice.
    pub scheduler_id: RString,
    /// Priority among graph optimizers, lower first (facts 3.2).
    pub optimizer_priority: u32,
}

impl EngineInfo {
    /// An engine by name and compute cost: its kernel library has its name, no flags, last among
    /// graph optimizers.
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
    /// Where a graph optimizer is called (facts 3.3).
    pub struct Hook: u8 {
        /// At the start of compilation.
        OPTIMIZE_GRAPH_INIT = 0 "OptimizeGraphInit",
        /// Quantisation preparation.
        OPTIMIZE_GRAPH_PREPARE = 1 "OptimizeGraphPrepare",
        /// After normalisation.
        AFTER_GRAPH_NORMALIZATION = 2 "OptimizeAfterGraphNormalization",
        /// Fusion on the whole original graph.
        ORIGINAL_GRAPH = 3 "OptimizeOriginalGraph",
        /// Precision.
        ORIGINAL_GRAPH_JUDGE_INSERT = 4 "OptimizeOriginalGraphJudgeInsert",
        /// Format.
        ORIGINAL_GRAPH_JUDGE_FORMAT_INSERT = 5 "OptimizeOriginalGraphJudgeFormatInsert",
        /// After stage 1.
        AFTER_STAGE1 = 6 "OptimizeAfterStage1",
        /// On each of its subgraphs.
        FUSED_GRAPH = 7 "OptimizeFusedGraph",
        /// On the merged whole graph.
        WHOLE_GRAPH = 8 "OptimizeWholeGraph",
        /// Before the build.
        GRAPH_BEFORE_BUILD = 9 "OptimizeGraphBeforeBuild",
        /// On the graph with streams.
        STREAM_GRAPH = 10 "OptimizeStreamGraph",
        /// On the whole graph with streams and sync.
        STREAMED_WHOLE_GRAPH = 11 "OptimizeStreamedWholeGraph",
        /// Before the subgraph hook.
        SUBGRAPH_PRE_PROC = 12 "OptimizeSubgraphPreProc",
        /// After the subgraph hook.
        SUBGRAPH_POST_PROC = 13 "OptimizeSubgraphPostProc",
    }
}

/// Types and formats that a kernel builder offers for a node, with a cost; the host chooses over
/// the whole graph.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub struct Variant {
    /// Type of each input; UNKNOWN: as it comes.
    pub input_types: RVec<DType>,
    /// Format of each input.
    pub input_formats: RVec<Format>,
    /// Type of each output; UNKNOWN: as inferred.
    pub output_types: RVec<DType>,
    /// Format of each output.
    pub output_formats: RVec<Format>,
    /// Relative cost (ns is a good unit).
    pub cost: u64,
}

/// An attached stream that a node wants (002/004 attached streams, facts 1.7).
#[repr(C)]
#[derive(Clone, Debug, Default, PartialEq, StableAbi)]
pub struct AttachedStream {
    /// `_attached_resource_name`.
    pub name: RString,
    /// Reuse key; empty: the name alone.
    pub reuse_key: RString,
    /// Inputs whose values are needed on it.
    pub depend_value_inputs: RVec<u32>,
    /// Whether it must be given.
    pub required: bool,
    /// Whether it may be shared over main streams.
    pub force_reuse: bool,
}

/// An event or notify that a node's own tasks need.
#[repr(C)]
#[derive(Clone, Debug, Default, PartialEq, StableAbi)]
pub struct SyncResource {
    /// Name.
    pub name: RString,
    /// Whether it is a notify (an event otherwise).
    pub notify: bool,
    /// Reuse key; empty: never shared.
    pub reuse_key: RString,
}

/// A workspace that a node wants.
#[repr(C)]
#[derive(Clone, Debug, Default, PartialEq, StableAbi)]
pub struct Workspace {
    /// Bytes.
    pub bytes: u64,
    /// Memory kind (HBM 0).
    pub memory: u8,
    /// Whether it must start zeroed (atomic clean).
    pub zeroed: bool,
    /// Whether its memory must not be reused by others (session scope).
    pub no_reuse: bool,
}

/// What `calc_op_running_param` says of a node.
#[repr(C)]
#[derive(Clone, Debug, Default, PartialEq, StableAbi)]
pub struct RunningParams {
    /// Bytes of each output; 0: the data bytes of its descriptor.
    pub output_bytes: RVec<u64>,
    /// Workspaces.
    pub workspaces: RVec<Workspace>,
    /// Attached streams wanted.
    pub attached: RVec<AttachedStream>,
    /// Sync resources wanted.
    pub sync: RVec<SyncResource>,
    /// Output k may be put in the memory of input `inplace[k]` (-1: no).
    pub inplace: RVec<i32>,
    /// Tasks on the main stream, where it is known before they are generated; 0: counted.
    pub task_count: u32,
}

/// A compiled kernel, for the kernel store.
#[repr(C)]
#[derive(Clone, Debug, Default, PartialEq, StableAbi)]
pub struct KernelBinary {
    /// Name, equal for equal kernels: the builder's own key over type, parameters and variant.
    pub name: RString,
    /// What the executor hands to the device: for the simulator a kernel id with its compiled
    /// parameters.
    pub binary: RVec<u8>,
}

impl KernelBinary {
    /// A kernel by name and bytes. Two kernels of one engine with one name must have the same
    /// bytes.
    pub fn new(name: impl Into<String>, binary: impl Into<Vec<u8>>) -> KernelBinary {
        KernelBinary { name: name.into().into(), binary: binary.into().into() }
    }
}

/// For what a kernel is compiled.
#[repr(C)]
#[derive(Clone, Debug, StableAbi)]
pub struct Target {
    /// The SoC.
    pub soc: SocSpec,
    /// Whether results must be the same bit by bit whatever the split.
    pub deterministic: bool,
    /// Whether the compile is online (a device can be asked).
    pub online: bool,
    /// Ranks that the model is made for; 1 without communication.
    pub rank_size: u32,
}

/// What a kernel builder's `generate_task` gets beside the node.
#[repr(C)]
#[derive(Clone, Debug, StableAbi)]
pub struct TaskContext {
    /// For what.
    pub target: Target,
    /// The kernel that `compile` made, if any.
    pub kernel: ROption<KernelBinary>,
    /// Rank of this model and size of its group, for collectives.
    pub rank_size: u32,
}

/// What an argument of a launch is.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub struct ArgInfo {
    /// Letter of the args format: `i`, `o`, `w` (workspace), `t` (tiling) and further ones as text.
    pub kind: RString,
    /// Its index.
    pub index: u32,
    /// Descriptor of the input or output; None for others.
    pub desc: ROption<TensorDesc>,
    /// Bytes that may be touched.
    pub bytes: u64,
}

/// What an executor gets at load for one task with a kernel.
#[repr(C)]
#[derive(Clone, Debug, StableAbi)]
pub struct LoadRequest {
    /// Node's name.
    pub node: RString,
    /// Operator type.
    pub op: RString,
    /// Attributes of the node as the OM keeps them.
    pub attrs: AttrMap,
    /// The launch.
    pub task: Task,
    /// Binary of the kernel from the kernel store.
    pub binary: RVec<u8>,
    /// Arguments in `args_format` order.
    pub args: RVec<ArgInfo>,
    /// Rank of this model and number of ranks.
    pub rank: u32,
    /// Number of ranks.
    pub rank_size: u32,
}

impl LoadRequest {
    /// The launch; an error where the task has none.
    ///
    /// # Errors
    /// `damaged`: the OM names a kernel for a task that launches none.
    pub fn launch(&self) -> Result<&crate::task::KernelTask> {
        self.task
            .kernel
            .as_ref()
            .into_option()
            .ok_or_else(|| Error::damaged(format!("the task of `{}` launches no kernel", self.node)))
    }
    /// Which argument of the launch an input (`i`), an output (`o`) or a workspace
    /// (`w`) is: `request.arg("i", 0)`.
    ///
    /// # Errors
    /// `damaged`: the launch does not have it.
    pub fn arg(&self, kind: &str, index: u32) -> Result<usize> {
        let at = self.args.iter().position(|a| a.kind.as_str() == kind && a.index == index);
        at.ok_or_else(|| Error::damaged(format!("a task of `{}` has no argument `{kind}{index}`", self.node)))
    }
    /// Type and shape of an input (`i`) or output (`o`) of the launch.
    ///
    /// # Errors
    /// `damaged`: the launch does not have it.
    pub fn desc(&self, kind: &str, index: u32) -> Result<&TensorDesc> {
        let desc = self.args[self.arg(kind, index)?].desc.as_ref().into_option();
        desc.ok_or_else(|| Error::damaged(format!("`{kind}{index}` of `{}` has no type and shape", self.node)))
    }
    /// Bytes of each argument, in `args_format` order, for [`crate::kernel::block_kernel`]: what
    /// type and shape of an input or output need, else what may be touched.
    ///
    /// # Errors
    /// `damaged`: an argument has less than its type and shape need.
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

/// One engine. Only `info`, `op_types` and `supports` are required; the rest have the defaults of
/// an engine without them.
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
    /// What it is.
    fn info(&self) -> EngineInfo;
    /// Operator types of its op store.
    fn op_types(&self) -> Vec<String>;
    /// Whether it takes a node: type, types of inputs and outputs, formats, attributes; a reason
    /// for each refusal, and a cost where it is dearer than the engine's own.
    fn supports(&self, node: &Node<'_>) -> Support;
    /// Graph optimizer: records edits of nodes it owns. Called at each [`Hook`] in priority order.
    /// # Errors
    /// Why the graph cannot be compiled by this engine; the compilation ends with it.
    fn optimize(&self, hook: Hook, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        let _ = (hook, graph, patch);
        Ok(())
    }
    /// Types and formats that it offers for a node; empty: as it is.
    /// # Errors
    /// What is wrong with the node; a node that has no other form is an empty list.
    fn variants(&self, node: &Node<'_>, target: &Target) -> Result<Vec<Variant>> {
        let _ = (node, target);
        Ok(Vec::new())
    }
    /// Output sizes, workspaces, streams and sync wanted.
    /// # Errors
    /// `unsupported`: the node's sizes are beyond the engine. The node goes to the next engine that
    /// takes it.
    fn calc_op_running_param(&self, node: &Node<'_>, target: &Target) -> Result<RunningParams> {
        let _ = (node, target);
        Ok(RunningParams::default())
    }
    /// Compiles the node's kernel; None where it has none.
    /// # Errors
    /// `unsupported`: there is no kernel for these types and shapes. The node goes to the next
    /// engine that takes it.
    fn compile(&self, node: &Node<'_>, target: &Target) -> Result<Option<KernelBinary>> {
        let _ = (node, target);
        Ok(None)
    }
    /// The node's own task list; empty for nodes without a task.
    /// # Errors
    /// Why the node has no task list; the compilation ends with it.
    fn generate_task(&self, node: &Node<'_>, context: &TaskContext) -> Result<Vec<Task>> {
        let _ = (node, context);
        Ok(Vec::new())
    }
    /// A last look at the node's tasks once streams are physical.
    /// # Errors
    /// Why the tasks cannot run on these streams; the compilation ends with it.
    fn update_task(&self, node: &Node<'_>, tasks: Vec<Task>) -> Result<Vec<Task>> {
        let _ = node;
        Ok(tasks)
    }
    /// Estimated run time of the node in nanoseconds, for planning; 0 where it is not known. Nodes
    /// of one operator with the same descriptors, attributes and constant inputs have one kernel:
    /// the host may ask for one of them alone.
    fn time_ns(&self, node: &Node<'_>, soc: &SocSpec) -> u64 {
        let _ = (node, soc);
        0
    }
    /// Arithmetic operations of the node's kernel, an addition and a multiplication one each: what
    /// `ge bench --per-node` holds against the machine's peak. 0 where it is not known.
    fn operations(&self, node: &Node<'_>) -> u64 {
        let _ = node;
        0
    }
    /// Other ways in which the node's kernel may divide its work, by names of the engine's own; each
    /// gives the same bits. `ge tune` measures them, and a load has the one that is best on the
    /// machine as the attribute `_schedule`.
    fn schedules(&self, node: &Node<'_>) -> Vec<String> {
        let _ = node;
        Vec::new()
    }
    /// The cores that the node's kernel runs on, as a context of an FFTS+ task has them: AICORE
    /// (cube), AIV (vector), or both, MIX_AIC and MIX_AIV.
    fn core(&self, node: &Node<'_>) -> ContextType {
        let _ = node;
        ContextType::AIV
    }
    /// Operators with a tiling function and where it runs: "host" or "aicpu".
    fn tilings(&self) -> Vec<(String, String)> {
        Vec::new()
    }
    /// Loads the kernel of a task; the default executor registers and binds it.
    /// # Errors
    /// `damaged`: the binary is none that this engine wrote, or the arguments do not fit it.
    fn load_kernel(&self, request: &LoadRequest) -> Result<LoadedKernel> {
        Err(Error::internal(format!("engine has no kernel for {}", request.op)))
    }
    /// Loads a task onto the device. The default loads the kernel, registers it and binds the task
    /// as it is.
    /// # Errors
    /// As [`Engine::load_kernel`], and what the device refuses.
    fn load_task(&self, request: &LoadRequest, device: &mut ModelSink<'_>) -> Result<()> {
        let kernel = self.load_kernel(request)?;
        device.bind_kernel(request, kernel)
    }
    /// The host kernel of an operator type, for folding and host execution.
    fn host_kernel(&self, op: &str) -> Option<&dyn HostKernel> {
        let _ = op;
        None
    }
}

abi_object! {
    /// An [`Engine`] of a plugin, as the host calls it.
    object EngineObject of dyn Engine;
    /// ABI function table of [`Engine`].
    table EngineTable, EngineTableRef;
    /// What it is.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    call info() -> Result<EngineInfo> => RResult<EngineInfo, Error> = |e| Ok(e.info());
    /// Operator types of its op store.
    raw op_types() -> Result<RVec<RString>> => RResult<RVec<RString>, Error> =
        |e| Ok(e.op_types().into_iter().map(RString::from).collect());
    /// Whether it takes a node, without a cost of the node's.
    raw supports(node: &Node<'_> => RawNodeRef) -> Result<first::Support> => RResult<first::Support, Error> =
        |e| Ok(e.supports(&node).into());
    /// Edits that its graph optimizer records at a hook.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    call optimize(hook: Hook => Hook, graph: &Graph<'_> => RawGraph)
        -> Result<Vec<Edit>> => RResult<RVec<Edit>, Error> = |e| {
            let mut patch = Patch::new(&graph);
            e.optimize(hook, &graph, &mut patch)?;
            Ok(patch.into_edits().into())
        };
    /// Types and formats that it offers for a node.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    call variants(node: &Node<'_> => RawNodeRef, target: &Target => *const Target)
        -> Result<Vec<Variant>> => RResult<RVec<Variant>, Error> =
        |e| e.variants(&node, target);
    /// Output sizes, workspaces, streams and sync wanted.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    call calc_op_running_param(node: &Node<'_> => RawNodeRef, target: &Target => *const Target)
        -> Result<RunningParams> => RResult<RunningParams, Error> = |e| e.calc_op_running_param(&node, target);
    /// The node's kernel.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    call compile(node: &Node<'_> => RawNodeRef, target: &Target => *const Target)
        -> Result<Option<KernelBinary>> => RResult<ROption<KernelBinary>, Error> = |e| e.compile(&node, target);
    /// The node's task list.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    call generate_task(node: &Node<'_> => RawNodeRef, context: &TaskContext => *const TaskContext)
        -> Result<Vec<Task>> => RResult<RVec<Task>, Error> = |e| e.generate_task(&node, context);
    /// A last look at the node's tasks.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    call update_task(node: &Node<'_> => RawNodeRef, tasks: Vec<Task> => RVec<Task>)
        -> Result<Vec<Task>> => RResult<RVec<Task>, Error> = |e| e.update_task(&node, tasks);
    /// Run time of the node in ns; 0: not known.
    call time_ns(node: &Node<'_> => RawNodeRef, soc: &SocSpec => *const SocSpec) -> u64 => u64 = |e| e.time_ns(&node, soc);
    /// The cores that the node's kernel runs on.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    call core(node: &Node<'_> => RawNodeRef) -> Result<ContextType> => RResult<ContextType, Error> = |e| Ok(e.core(&node));
    /// Operators with a tiling function and where it runs, alternating.
    raw tilings() -> Result<RVec<RString>> => RResult<RVec<RString>, Error> =
        |e| Ok(e.tilings().into_iter().flat_map(|(a, b)| [RString::from(a), RString::from(b)]).collect());
    /// Loads a task onto a device model.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    call load_task(request: &LoadRequest => *const LoadRequest, device: DeviceModelRef => DeviceModelRef)
        -> Result<()> => RResult<(), Error> = |e| e.load_task(request, &mut ModelSink::new(&device));
    /// Whether there is a host kernel for an operator.
    call has_host_kernel(op: &str => RawSlice<u8>) -> bool => bool = |e| e.host_kernel(op).is_some();
    /// Runs a host kernel: the tensors it made, None for outputs that were given.
    [last_prefix_field]
    raw run_host_kernel(call: &HostCall => *const HostCall, given: &[ROption<RawTensor>] => RawSlice<ROption<RawTensor>>)
        -> Result<RVec<ROption<HostTensor>>> => RResult<RVec<ROption<HostTensor>>, Error> = |e| run_host(e, call, given);
    /// Since 1.2: whether it takes a node, and at which cost.
    raw supports_at(node: &Node<'_> => RawNodeRef) -> Result<Support> => RResult<Support, Error> =
        |e| Ok(e.supports(&node));
    /// Since 1.2: arithmetic operations of the node's kernel.
    raw operations(node: &Node<'_> => RawNodeRef) -> Result<u64> => RResult<u64, Error> = |e| Ok(e.operations(&node));
    /// Since 1.2: other ways in which its kernel may divide its work.
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
            // SAFETY: the caller gives each output's memory to this call alone.
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
    // SAFETY: by the caller's contract.
    unsafe { core::slice::from_raw_parts_mut(t.data, t.len) }
}
fn view<'a>(t: &RawTensor) -> TensorView<'a> {
    // SAFETY: the host keeps inputs alive and unchanged for the call.
    unsafe {
        TensorView {
            dtype: t.dtype,
            dims: t.dims.get(),
            bytes: if t.len == 0 { &[] } else { core::slice::from_raw_parts(t.data, t.len) },
        }
    }
}

impl EngineObject {
    /// Whether it takes a node, and at which cost.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn supports(&self, node: &Node<'_>) -> Result<Support> {
        let raw = RawNodeRef::of(node);
        // SAFETY: pointer and table belong together; the node lives for the call.
        unsafe {
            match self.table().supports_at() {
                Some(f) => f(self.ptr(), raw).into_result(),
                None => (self.table().supports())(self.ptr(), raw).into_result().map(Support::from),
            }
        }
    }
    /// Arithmetic operations of the node's kernel; 0: not known.
    ///
    /// # Errors
    /// `panic` where it panicked.
    pub fn operations(&self, node: &Node<'_>) -> Result<u64> {
        let raw = RawNodeRef::of(node);
        // SAFETY: as above.
        unsafe { self.table().operations().map_or(Ok(0), |f| f(self.ptr(), raw).into_result()) }
    }
    /// Other ways in which the node's kernel may divide its work.
    ///
    /// # Errors
    /// `panic` where it panicked.
    pub fn schedules(&self, node: &Node<'_>) -> Result<Vec<String>> {
        let raw = RawNodeRef::of(node);
        // SAFETY: as above.
        let all = unsafe { self.table().schedules().map_or(Ok(RVec::new()), |f| f(self.ptr(), raw).into_result()) };
        Ok(all?.into_iter().map(String::from).collect())
    }
    /// Operator types of its op store.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn op_types(&self) -> Result<Vec<String>> {
        // SAFETY: pointer and table belong together.
        Ok(unsafe { (self.table().op_types())(self.ptr()) }.into_result()?.into_iter().map(String::from).collect())
    }
    /// Operators with a tiling function and where it runs.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn tilings(&self) -> Result<Vec<(String, String)>> {
        // SAFETY: as above.
        let flat = unsafe { (self.table().tilings())(self.ptr()) }.into_result()?;
        Ok(flat.chunks_exact(2).map(|c| (c[0].to_string(), c[1].to_string())).collect())
    }
    /// Runs a host kernel that allocates its outputs of the given types.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn run_host_kernel(
        &self,
        op: &str,
        node: &str,
        attrs: &AttrMap,
        inputs: &[Option<TensorView<'_>>],
        outputs: &[DType],
    ) -> Result<Vec<HostTensor>> {
        let call = host_call(op, node, attrs, inputs, outputs);
        // SAFETY: as above; inputs live for the call.
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
    /// Registers a kernel and binds the request's task with it.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
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
