//! Engines: what a library offers for each engine it names: op store, graph optimizers, kernel
//! builder, task executor, host kernels. Source: DESIGN 1, facts 3.3.
use crate::abi::erase::{RawSlice, object};
use crate::abi::{ROption, RResult, RString, RVec, StableAbi, WithMetadata, guard, guard_value};
use crate::device::{DeviceModelRef, ModelSink, SocSpec};
use crate::diagnostic::{Error, Result};
use crate::kernel::{HostCall, HostKernel, HostTensor, KernelCtx, LoadedKernel, RawTensor, TensorView};
use crate::open_code;
use crate::patch::{Edit, Patch};
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

/// Whether an engine takes a node, and why not.
#[repr(u8)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub enum Support {
    /// It does.
    Yes,
    /// It does not, in words for the user.
    No(RString),
}
impl Support {
    /// A refusal in words.
    pub fn no(reason: impl Into<String>) -> Support {
        Support::No(reason.into().into())
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
    /// for each refusal.
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
    /// Estimated run time of the node in nanoseconds, for planning; 0 where it is not known.
    fn time_ns(&self, node: &Node<'_>, soc: &SocSpec) -> u64 {
        let _ = (node, soc);
        0
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

/// ABI function table of [`Engine`].
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = EngineTableRef)))]
#[sabi(missing_field(option))]
pub struct EngineTable {
    /// Drops the object behind the pointer.
    pub drop: unsafe extern "C" fn(*const ()),
    /// `info`.
    pub info: unsafe extern "C" fn(*const ()) -> RResult<EngineInfo, Error>,
    /// `op_types`.
    pub op_types: unsafe extern "C" fn(*const ()) -> RResult<RVec<RString>, Error>,
    /// `supports`.
    pub supports: unsafe extern "C" fn(*const (), RawNodeRef) -> RResult<Support, Error>,
    /// `optimize`: the edits.
    pub optimize: unsafe extern "C" fn(*const (), Hook, RawGraph) -> RResult<RVec<Edit>, Error>,
    /// `variants`.
    pub variants: unsafe extern "C" fn(*const (), RawNodeRef, *const Target) -> RResult<RVec<Variant>, Error>,
    /// `calc_op_running_param`.
    pub calc_op_running_param:
        unsafe extern "C" fn(*const (), RawNodeRef, *const Target) -> RResult<RunningParams, Error>,
    /// `compile`.
    pub compile: unsafe extern "C" fn(*const (), RawNodeRef, *const Target) -> RResult<ROption<KernelBinary>, Error>,
    /// `generate_task`.
    pub generate_task: unsafe extern "C" fn(*const (), RawNodeRef, *const TaskContext) -> RResult<RVec<Task>, Error>,
    /// `update_task`.
    pub update_task: unsafe extern "C" fn(*const (), RawNodeRef, RVec<Task>) -> RResult<RVec<Task>, Error>,
    /// `time_ns`.
    pub time_ns: unsafe extern "C" fn(*const (), RawNodeRef, *const SocSpec) -> u64,
    /// `core`.
    pub core: unsafe extern "C" fn(*const (), RawNodeRef) -> RResult<ContextType, Error>,
    /// `tilings`: operator and placement alternating.
    pub tilings: unsafe extern "C" fn(*const ()) -> RResult<RVec<RString>, Error>,
    /// `load_task`.
    pub load_task: unsafe extern "C" fn(*const (), *const LoadRequest, DeviceModelRef) -> RResult<(), Error>,
    /// Whether there is a host kernel for an operator.
    pub has_host_kernel: unsafe extern "C" fn(*const (), RawSlice<u8>) -> bool,
    /// Runs a host kernel: the tensors it made, None for outputs that were given.
    #[sabi(last_prefix_field)]
    pub run_host_kernel: unsafe extern "C" fn(
        *const (),
        *const HostCall,
        RawSlice<ROption<RawTensor>>,
    ) -> RResult<RVec<ROption<HostTensor>>, Error>,
}

static ENGINE_TABLE: &WithMetadata<EngineTable> = &WithMetadata::new(EngineTable {
    drop: e_drop,
    info: e_info,
    op_types: e_op_types,
    supports: e_supports,
    optimize: e_optimize,
    variants: e_variants,
    calc_op_running_param: e_params,
    compile: e_compile,
    generate_task: e_generate,
    update_task: e_update,
    time_ns: e_time,
    core: e_core,
    tilings: e_tilings,
    load_task: e_load,
    has_host_kernel: e_has_host,
    run_host_kernel: e_run_host,
});

// SAFETY of all functions below: the loader calls them with the pointer of an EngineObject of this
// library; views and references live for the call (contract of EngineTable).
unsafe fn engine<'a>(p: *const ()) -> &'a dyn Engine {
    // SAFETY: see above.
    unsafe { object::<dyn Engine>(p) }
}
unsafe extern "C" fn e_drop(p: *const ()) {
    // SAFETY: see above.
    unsafe { crate::abi::erase::drop_object::<dyn Engine>(p) }
}
unsafe extern "C" fn e_info(p: *const ()) -> RResult<EngineInfo, Error> {
    // SAFETY: see above.
    guard("Engine::info", || Ok(unsafe { engine(p) }.info()))
}
unsafe extern "C" fn e_op_types(p: *const ()) -> RResult<RVec<RString>, Error> {
    // SAFETY: see above.
    guard("Engine::op_types", || Ok(unsafe { engine(p) }.op_types().into_iter().map(RString::from).collect()))
}
unsafe extern "C" fn e_supports(p: *const (), n: RawNodeRef) -> RResult<Support, Error> {
    // SAFETY: see above.
    guard("Engine::supports", || unsafe { Ok(engine(p).supports(&n.get())) })
}
unsafe extern "C" fn e_optimize(p: *const (), hook: Hook, g: RawGraph) -> RResult<RVec<Edit>, Error> {
    guard("Engine::optimize", || {
        // SAFETY: see above.
        let (e, g) = unsafe { (engine(p), Graph::from_raw(g)) };
        let mut patch = Patch::new(&g);
        e.optimize(hook, &g, &mut patch)?;
        Ok(patch.into_edits())
    })
}
unsafe extern "C" fn e_variants(p: *const (), n: RawNodeRef, t: *const Target) -> RResult<RVec<Variant>, Error> {
    // SAFETY: see above.
    guard("Engine::variants", || unsafe { Ok(engine(p).variants(&n.get(), &*t)?.into()) })
}
unsafe extern "C" fn e_params(p: *const (), n: RawNodeRef, t: *const Target) -> RResult<RunningParams, Error> {
    // SAFETY: see above.
    guard("Engine::calc_op_running_param", || unsafe { engine(p).calc_op_running_param(&n.get(), &*t) })
}
unsafe extern "C" fn e_compile(p: *const (), n: RawNodeRef, t: *const Target) -> RResult<ROption<KernelBinary>, Error> {
    // SAFETY: see above.
    guard("Engine::compile", || unsafe { Ok(engine(p).compile(&n.get(), &*t)?.into()) })
}
unsafe extern "C" fn e_generate(p: *const (), n: RawNodeRef, c: *const TaskContext) -> RResult<RVec<Task>, Error> {
    // SAFETY: see above.
    guard("Engine::generate_task", || unsafe { Ok(engine(p).generate_task(&n.get(), &*c)?.into()) })
}
unsafe extern "C" fn e_update(p: *const (), n: RawNodeRef, tasks: RVec<Task>) -> RResult<RVec<Task>, Error> {
    // SAFETY: see above.
    guard("Engine::update_task", || unsafe { Ok(engine(p).update_task(&n.get(), tasks.into())?.into()) })
}
unsafe extern "C" fn e_time(p: *const (), n: RawNodeRef, soc: *const SocSpec) -> u64 {
    // SAFETY: see above.
    guard_value(0, || unsafe { engine(p).time_ns(&n.get(), &*soc) })
}
unsafe extern "C" fn e_core(p: *const (), n: RawNodeRef) -> RResult<ContextType, Error> {
    // SAFETY: see above.
    guard("Engine::core", || unsafe { Ok(engine(p).core(&n.get())) })
}
unsafe extern "C" fn e_tilings(p: *const ()) -> RResult<RVec<RString>, Error> {
    guard("Engine::tilings", || {
        // SAFETY: see above.
        let all = unsafe { engine(p) }.tilings();
        Ok(all.into_iter().flat_map(|(a, b)| [RString::from(a), RString::from(b)]).collect())
    })
}
unsafe extern "C" fn e_load(p: *const (), r: *const LoadRequest, d: DeviceModelRef) -> RResult<(), Error> {
    guard("Engine::load_task", || {
        // SAFETY: see above.
        let (e, r) = unsafe { (engine(p), &*r) };
        e.load_task(r, &mut ModelSink::new(&d))
    })
}
unsafe extern "C" fn e_has_host(p: *const (), op: RawSlice<u8>) -> bool {
    // SAFETY: see above; names are UTF-8.
    guard_value(false, || unsafe { engine(p).host_kernel(core::str::from_utf8_unchecked(op.get())).is_some() })
}
unsafe extern "C" fn e_run_host(
    p: *const (),
    call: *const HostCall,
    given: RawSlice<ROption<RawTensor>>,
) -> RResult<RVec<ROption<HostTensor>>, Error> {
    guard("HostKernel::run", || {
        // SAFETY: see above.
        let (e, call, given) = unsafe { (engine(p), &*call, given.get()) };
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
    })
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

crate::erased_object!(
    /// An [`Engine`] of a plugin.
    EngineObject, EngineTableRef, dyn Engine, EngineTableRef(ENGINE_TABLE.static_as_prefix())
);

/// The engine as the host calls it. All calls are safe: pointer and table belong together, views
/// live for the call.
impl EngineObject {
    /// What it is.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn info(&self) -> Result<EngineInfo> {
        // SAFETY: see the impl's doc.
        unsafe { (self.table().info())(self.ptr()) }.into_result()
    }
    /// Operator types of its op store.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn op_types(&self) -> Result<Vec<String>> {
        // SAFETY: see the impl's doc.
        Ok(unsafe { (self.table().op_types())(self.ptr()) }.into_result()?.into_iter().map(String::from).collect())
    }
    /// Whether it takes a node.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn supports(&self, node: &Node<'_>) -> Result<Support> {
        // SAFETY: see the impl's doc.
        unsafe { (self.table().supports())(self.ptr(), RawNodeRef::of(node)) }.into_result()
    }
    /// Edits that its graph optimizer records at a hook.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn optimize(&self, hook: Hook, graph: &Graph<'_>) -> Result<Vec<Edit>> {
        // SAFETY: see the impl's doc.
        unsafe { (self.table().optimize())(self.ptr(), hook, graph.raw()) }.into_result().map(Vec::from)
    }
    /// Types and formats that it offers for a node.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn variants(&self, node: &Node<'_>, target: &Target) -> Result<Vec<Variant>> {
        // SAFETY: see the impl's doc.
        unsafe { (self.table().variants())(self.ptr(), RawNodeRef::of(node), target) }.into_result().map(Vec::from)
    }
    /// Output sizes, workspaces, streams and sync wanted.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn calc_op_running_param(&self, node: &Node<'_>, target: &Target) -> Result<RunningParams> {
        // SAFETY: see the impl's doc.
        unsafe { (self.table().calc_op_running_param())(self.ptr(), RawNodeRef::of(node), target) }.into_result()
    }
    /// The node's kernel.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn compile(&self, node: &Node<'_>, target: &Target) -> Result<Option<KernelBinary>> {
        // SAFETY: see the impl's doc.
        unsafe { (self.table().compile())(self.ptr(), RawNodeRef::of(node), target) }
            .into_result()
            .map(ROption::into_option)
    }
    /// The node's task list.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn generate_task(&self, node: &Node<'_>, context: &TaskContext) -> Result<Vec<Task>> {
        // SAFETY: see the impl's doc.
        unsafe { (self.table().generate_task())(self.ptr(), RawNodeRef::of(node), context) }
            .into_result()
            .map(Vec::from)
    }
    /// A last look at the node's tasks.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn update_task(&self, node: &Node<'_>, tasks: Vec<Task>) -> Result<Vec<Task>> {
        // SAFETY: see the impl's doc.
        unsafe { (self.table().update_task())(self.ptr(), RawNodeRef::of(node), tasks.into()) }
            .into_result()
            .map(Vec::from)
    }
    /// Run time of the node in ns; 0: not known.
    pub fn time_ns(&self, node: &Node<'_>, soc: &SocSpec) -> u64 {
        // SAFETY: see the impl's doc.
        unsafe { (self.table().time_ns())(self.ptr(), RawNodeRef::of(node), soc) }
    }
    /// The cores that the node's kernel runs on.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn core(&self, node: &Node<'_>) -> Result<ContextType> {
        // SAFETY: see the impl's doc.
        unsafe { (self.table().core())(self.ptr(), RawNodeRef::of(node)) }.into_result()
    }
    /// Operators with a tiling function and where it runs.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn tilings(&self) -> Result<Vec<(String, String)>> {
        // SAFETY: see the impl's doc.
        let flat = unsafe { (self.table().tilings())(self.ptr()) }.into_result()?;
        Ok(flat.chunks_exact(2).map(|c| (c[0].to_string(), c[1].to_string())).collect())
    }
    /// Loads a task onto a device model.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn load_task(&self, request: &LoadRequest, device: DeviceModelRef) -> Result<()> {
        // SAFETY: see the impl's doc.
        unsafe { (self.table().load_task())(self.ptr(), request, device) }.into_result()
    }
    /// Whether there is a host kernel for an operator.
    pub fn has_host_kernel(&self, op: &str) -> bool {
        // SAFETY: see the impl's doc.
        unsafe { (self.table().has_host_kernel())(self.ptr(), RawSlice::of(op.as_bytes())) }
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
        // SAFETY: see the impl's doc; inputs live for the call.
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
