//! Tasks as an engine's builder emits them: what TASK_INFO holds for each node, before streams and
//! events have numbers. Source: facts 7.2 (task types and payloads), 5 (tiling sink).
use crate::abi::{ROption, RString, RVec, StableAbi};
use crate::open_code;

open_code! {
    /// Task types, by the names and numbers of facts 7.2.
    pub struct TaskType: u32 {
        /// Runs a kernel.
        KERNEL = 0 "KERNEL",
        /// Records an event.
        EVENT_RECORD = 1 "EVENT_RECORD",
        /// Waits for an event, then resets it.
        EVENT_WAIT = 2 "EVENT_WAIT",
        /// Start of a fused group.
        FUSION_START = 3 "FUSION_START",
        /// End of a fused group.
        FUSION_END = 4 "FUSION_END",
        /// A kernel of the old AI CPU form.
        KERNEL_EX = 5 "KERNEL_EX",
        /// A collective.
        HCCL = 6 "HCCL",
        /// Activates a stream if a comparison holds.
        STREAM_SWITCH = 7 "STREAM_SWITCH",
        /// Activates a stream.
        STREAM_ACTIVE = 8 "STREAM_ACTIVE",
        /// Defines a label.
        LABEL_SET = 9 "LABEL_SET",
        /// Old switch by label.
        LABEL_SWITCH = 10 "LABEL_SWITCH",
        /// Old jump.
        LABEL_GOTO = 11 "LABEL_GOTO",
        /// A profiling point.
        PROFILER_TRACE = 12 "PROFILER_TRACE",
        /// Copies memory.
        MEMCPY_ASYNC = 13 "MEMCPY_ASYNC",
        /// Records a notify.
        NOTIFY_RECORD = 14 "NOTIFY_RECORD",
        /// Waits for a notify, then resets it.
        NOTIFY_WAIT = 15 "NOTIFY_WAIT",
        /// Copies with a reduction into the destination.
        REDUCE_ASYNC = 16 "REDUCE_ASYNC",
        /// RDMA send.
        RDMA_SEND = 17 "RDMA_SEND",
        /// Resets an event.
        EVENT_RESET = 18 "EVENT_RESET",
        /// The end of the model.
        END_GRAPH = 19 "END_GRAPH",
        /// Switch among N streams.
        STREAM_SWITCH_N = 20 "STREAM_SWITCH_N",
        /// RDMA doorbell.
        RDMA_DB_SEND = 21 "RDMA_DB_SEND",
        /// Copies memory by addresses that can be refreshed.
        MEMCPY_ADDR_ASYNC = 22 "MEMCPY_ADDR_ASYNC",
        /// Jumps to a label by an index read at run time.
        STREAM_LABEL_SWITCH_BY_INDEX = 23 "STREAM_LABEL_SWITCH_BY_INDEX",
        /// Jumps to a label.
        STREAM_LABEL_GOTO = 24 "STREAM_LABEL_GOTO",
        /// Leaves the model.
        MODEL_EXIT = 25 "MODEL_EXIT",
        /// A kernel chosen at run time by tiling key.
        ALL_KERNEL = 26 "ALL_KERNEL",
        /// A profiling point, extended.
        PROFILER_TRACE_EX = 27 "PROFILER_TRACE_EX",
        /// FFTS.
        FFTS = 28 "FFTS",
        /// FFTS+ task graph.
        FFTS_PLUS = 29 "FFTS_PLUS",
        /// DSA.
        DSA = 30 "DSA",
        /// Cache hint.
        CMO = 31 "CMO",
        /// Cache barrier.
        BARRIER = 32 "BARRIER",
        /// Reads the float status.
        NPU_GET_FLOAT_STATUS = 33 "NPU_GET_FLOAT_STATUS",
        /// Clears the float status.
        NPU_CLEAR_FLOAT_STATUS = 34 "NPU_CLEAR_FLOAT_STATUS",
        /// Image unit.
        DVPP = 35 "DVPP",
        /// Reads the debug float status.
        NPU_GET_DEBUG_FLOAT_STATUS = 36 "NPU_GET_DEBUG_FLOAT_STATUS",
        /// Clears the debug float status.
        NPU_CLEAR_DEBUG_FLOAT_STATUS = 37 "NPU_CLEAR_DEBUG_FLOAT_STATUS",
        /// Cache hint by address.
        CMO_ADDR = 38 "CMO_ADDR",
        /// A kernel of the vector core.
        VECTOR_KERNEL = 39 "VECTOR_KERNEL",
        /// A vector-core kernel chosen at run time.
        VECTOR_ALL_KERNEL = 40 "VECTOR_ALL_KERNEL",
        /// Updates block_dim and tiling key of a task ahead.
        UPDATE = 41 "UPDATE",
        /// Nothing, on purpose.
        NOP = 42 "NOP",
        /// A tiling function on the device.
        PREPROCESS_KERNEL = 43 "PREPROCESS_KERNEL",
        /// Several kernels as one.
        SUPER_KERNEL = 44 "SUPER_KERNEL",
        /// Records a memory event.
        MEM_EVENT_RECORD = 45 "MEM_EVENT_RECORD",
        /// Waits for a memory event.
        MEM_EVENT_WAIT = 46 "MEM_EVENT_WAIT",
        /// A fused kernel.
        FUSION_KERNEL = 47 "FUSION_KERNEL",
        /// Launch, second form.
        KERNEL_LAUNCH_V2 = 48 "KERNEL_LAUNCH_V2",
        /// Collective unit kernel.
        CCU_KERNEL = 49 "CCU_KERNEL",
        /// A vendor's own kernel.
        CUSTOM_KERNEL = 50 "CUSTOM_KERNEL",
    }
}

open_code! {
    /// Kernel types (`kernel_type` of the task).
    pub struct KernelType: u32 {
        /// AI Core, TBE or AscendC.
        TE = 2 "TE",
        /// AI CPU, custom.
        CUST_AI_CPU = 7 "CUST_AI_CPU",
        /// AI CPU.
        AI_CPU = 6 "AI_CPU",
        /// Host CPU.
        HOST_CPU = 8 "HOST_CPU",
        /// Mixed AIC and AIV.
        MIX_AICORE = 10 "MIX_AICORE",
        /// Vector core.
        MIX_VECTOR_CORE = 11 "MIX_VECTOR_CORE",
    }
}

open_code! {
    /// What a context of an FFTS+ task is, by the run-time's codes.
    pub struct ContextType: u32 {
        /// A kernel of the cube cores.
        AICORE = 0 "AICORE",
        /// A kernel of the vector cores.
        AIV = 1 "AIV",
        /// A kernel of cube and vector cores that is launched on the cube cores.
        MIX_AIC = 6 "MIX_AIC",
        /// A kernel of cube and vector cores that is launched on the vector cores.
        MIX_AIV = 7 "MIX_AIV",
        /// Brings data near before they are read.
        FLUSH_DATA = 9 "FLUSH_DATA",
        /// Drops data that nobody reads any more.
        INVALIDATE_DATA = 10 "INVALIDATE_DATA",
        /// Writes data back that others read.
        WRITEBACK_DATA = 11 "WRITEBACK_DATA",
        /// Begins the slices.
        AT_START = 0x300 "AT_START",
        /// Ends a slice, and begins the next of its window.
        AT_END = 0x301 "AT_END",
        /// Hands on to more contexts than one has room for.
        LABEL = 0x302 "LABEL",
    }
}

impl ContextType {
    /// Whether a kernel of this context runs on cube and vector cores together.
    pub fn is_mixed(self) -> bool {
        matches!(self, ContextType::MIX_AIC | ContextType::MIX_AIV)
    }
    /// Whether it launches a kernel.
    pub fn is_kernel(self) -> bool {
        matches!(self, ContextType::AICORE | ContextType::AIV) || self.is_mixed()
    }
    /// The type of a kernel of this context that is launched by a task of its own.
    pub fn kernel_type(self) -> KernelType {
        match self {
            ContextType::MIX_AIC => KernelType::MIX_AICORE,
            ContextType::MIX_AIV => KernelType::MIX_VECTOR_CORE,
            _ => KernelType::TE,
        }
    }
}

/// The placeholder of block_dim until UPDATE sets it (001 §4.3).
pub const TILING_SINK_BLOCK_DIM: u32 = 0xFFFF_FFFF;

/// On which stream of the node a task stands.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct StreamSlot(pub i32);
impl StreamSlot {
    /// The node's own stream.
    pub const MAIN: StreamSlot = StreamSlot(-1);
    /// The k-th attached stream that the node asked for.
    pub const fn attached(k: i32) -> StreamSlot {
        StreamSlot(k)
    }
}
impl Default for StreamSlot {
    fn default() -> Self {
        StreamSlot::MAIN
    }
}

/// A kernel launch.
#[repr(C)]
#[derive(Clone, Debug, Default, PartialEq, StableAbi)]
pub struct KernelTask {
    /// Name in the kernel store.
    pub kernel_name: RString,
    /// Library on the device, or empty.
    pub so_name: RString,
    /// Kernel type.
    pub kernel_type: u32,
    /// Blocks.
    pub block_dim: u32,
    /// Which variant of the kernel.
    pub tiling_key: u64,
    /// Tiling data.
    pub tiling: RVec<u8>,
    /// Arguments, in the grammar of facts 5 (`{i0*}{o0*}{ws0*}`).
    pub args_format: RString,
    /// How blocks are scheduled (0 normal, 1 all blocks at once).
    pub schedule_mode: u32,
}

impl KernelTask {
    /// A launch of a kernel by its name in the kernel store, with so many blocks and these
    /// arguments (`{i0*}{o0*}`).
    pub fn new(kernel_name: &str, block_dim: u32, args_format: &str) -> KernelTask {
        KernelTask {
            kernel_name: kernel_name.into(),
            kernel_type: KernelType::TE.code(),
            block_dim,
            args_format: args_format.into(),
            ..KernelTask::default()
        }
    }
}

/// One task of a node. `kind` says which of the other fields count.
#[repr(C)]
#[derive(Clone, Debug, Default, PartialEq, StableAbi)]
pub struct Task {
    /// Type.
    pub kind: u32,
    /// On which of the node's streams.
    pub stream: StreamSlot,
    /// SQEs it takes on its stream; 0 is 1.
    pub sqe_num: u32,
    /// Kernel launch (KERNEL, VECTOR_KERNEL, PREPROCESS_KERNEL, SUPER_KERNEL, CUSTOM_KERNEL, DVPP
    /// …).
    pub kernel: ROption<KernelTask>,
    /// Which of the node's sync resources (EVENT_RECORD/WAIT, NOTIFY_RECORD/WAIT that the engine
    /// itself emits).
    pub sync_slot: u32,
    /// Numbers by type: MEMCPY_ASYNC \[kind\]; STREAM_ACTIVE \[which of active_stream_list\];
    /// STREAM_SWITCH [condition, data type, which of active_stream_list]; LABEL_SET \[label\];
    /// STREAM_LABEL_GOTO \[label\]; STREAM_LABEL_SWITCH_BY_INDEX \[labels…\]; UPDATE [index of the
    /// task in the node's list that it updates]; HCCL: the host appends the ids of the node's sync
    /// resources.
    pub numbers: RVec<i64>,
    /// Operands in the grammar of `args_format`, for types without a kernel (MEMCPY `{i0*}{o0*}`).
    pub operands: RString,
    /// The engine's own bytes, handed to its executor as they are.
    pub private: RVec<u8>,
    /// Nodes it stands for where it is more than one (SUPER_KERNEL, FFTS_PLUS).
    pub nodes: RVec<RString>,
}

impl Task {
    /// A task of a type on the node's own stream.
    pub fn new(kind: TaskType) -> Task {
        Task { kind: kind.code(), ..Task::default() }
    }
    /// A kernel launch on the node's own stream.
    pub fn kernel(kernel: KernelTask) -> Task {
        Task { kernel: ROption::RSome(kernel), ..Task::new(TaskType::KERNEL) }
    }
    /// A copy within the device: source and destination as items of an args format
    /// (`{i0*}`, `{ws0*}`, `{o0*}`).
    pub fn memcpy(from: &str, to: &str) -> Task {
        /// Memory of the device to memory of the device.
        const DEVICE_TO_DEVICE: i64 = 3;
        Task {
            numbers: vec![DEVICE_TO_DEVICE].into(),
            operands: format!("{from}{to}").into(),
            ..Task::new(TaskType::MEMCPY_ASYNC)
        }
    }
    /// Records the event that is the node's sync resource
    /// `slot` ([`RunningParams::sync`](crate::engine::RunningParams)).
    pub fn record(slot: u32) -> Task {
        Task { sync_slot: slot, ..Task::new(TaskType::EVENT_RECORD) }
    }
    /// Waits for the event that is the node's sync resource `slot`.
    pub fn wait(slot: u32) -> Task {
        Task { sync_slot: slot, ..Task::new(TaskType::EVENT_WAIT) }
    }
    /// Records the notify that is the node's sync resource `slot`.
    pub fn notify(slot: u32) -> Task {
        Task { sync_slot: slot, ..Task::new(TaskType::NOTIFY_RECORD) }
    }
    /// Waits for the notify that is the node's sync resource `slot`.
    pub fn wait_notify(slot: u32) -> Task {
        Task { sync_slot: slot, ..Task::new(TaskType::NOTIFY_WAIT) }
    }
    /// Nothing, on purpose.
    pub fn nop() -> Task {
        Task::new(TaskType::NOP)
    }
    /// The type.
    pub fn kind(&self) -> TaskType {
        TaskType(self.kind)
    }
    /// On another of the node's streams.
    pub fn on(mut self, stream: StreamSlot) -> Task {
        self.stream = stream;
        self
    }
}

impl Default for TaskType {
    fn default() -> Self {
        TaskType::KERNEL
    }
}
