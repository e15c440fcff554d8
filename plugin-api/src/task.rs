//! Tasks as an engine's builder emits them: the TASK_INFO of each node, before streams and events
//! have their final ids. Source: facts 7.2 (task types and payloads), 5 (tiling sink).
use crate::abi::{ROption, RString, RVec, StableAbi};
use crate::open_code;

open_code! {
    /// Task types, with the names and numbers of facts 7.2.
    pub struct TaskType: u32 {
        /// Runs a kernel.
        KERNEL = 0 "KERNEL",
        /// Records an event.
        EVENT_RECORD = 1 "EVENT_RECORD",
        /// Waits for an event, then resets it.
        EVENT_WAIT = 2 "EVENT_WAIT",
        /// Starts a fused group.
        FUSION_START = 3 "FUSION_START",
        /// Ends a fused group.
        FUSION_END = 4 "FUSION_END",
        /// Runs a kernel of the old AI CPU form.
        KERNEL_EX = 5 "KERNEL_EX",
        /// Runs a collective operation.
        HCCL = 6 "HCCL",
        /// Activates a stream if a comparison holds.
        STREAM_SWITCH = 7 "STREAM_SWITCH",
        /// Activates a stream.
        STREAM_ACTIVE = 8 "STREAM_ACTIVE",
        /// Defines a label.
        LABEL_SET = 9 "LABEL_SET",
        /// Switches by label (old form).
        LABEL_SWITCH = 10 "LABEL_SWITCH",
        /// Jumps to a label (old form).
        LABEL_GOTO = 11 "LABEL_GOTO",
        /// Marks a profiling point.
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
        /// Ends the model.
        END_GRAPH = 19 "END_GRAPH",
        /// Activates one of N streams.
        STREAM_SWITCH_N = 20 "STREAM_SWITCH_N",
        /// RDMA doorbell.
        RDMA_DB_SEND = 21 "RDMA_DB_SEND",
        /// Copies memory by addresses that can be refreshed.
        MEMCPY_ADDR_ASYNC = 22 "MEMCPY_ADDR_ASYNC",
        /// Jumps to one of several labels by an index that is read at run time.
        STREAM_LABEL_SWITCH_BY_INDEX = 23 "STREAM_LABEL_SWITCH_BY_INDEX",
        /// Jumps to a label.
        STREAM_LABEL_GOTO = 24 "STREAM_LABEL_GOTO",
        /// Leaves the model.
        MODEL_EXIT = 25 "MODEL_EXIT",
        /// Runs a kernel variant that is chosen at run time by tiling key.
        ALL_KERNEL = 26 "ALL_KERNEL",
        /// Marks a profiling point (extended form).
        PROFILER_TRACE_EX = 27 "PROFILER_TRACE_EX",
        /// FFTS task.
        FFTS = 28 "FFTS",
        /// Runs an FFTS+ task graph.
        FFTS_PLUS = 29 "FFTS_PLUS",
        /// DSA task.
        DSA = 30 "DSA",
        /// Gives the cache a hint.
        CMO = 31 "CMO",
        /// Cache barrier.
        BARRIER = 32 "BARRIER",
        /// Reads the float status.
        NPU_GET_FLOAT_STATUS = 33 "NPU_GET_FLOAT_STATUS",
        /// Clears the float status.
        NPU_CLEAR_FLOAT_STATUS = 34 "NPU_CLEAR_FLOAT_STATUS",
        /// Task of the image unit.
        DVPP = 35 "DVPP",
        /// Reads the debug float status.
        NPU_GET_DEBUG_FLOAT_STATUS = 36 "NPU_GET_DEBUG_FLOAT_STATUS",
        /// Clears the debug float status.
        NPU_CLEAR_DEBUG_FLOAT_STATUS = 37 "NPU_CLEAR_DEBUG_FLOAT_STATUS",
        /// Gives the cache a hint by address.
        CMO_ADDR = 38 "CMO_ADDR",
        /// Runs a kernel on the vector core.
        VECTOR_KERNEL = 39 "VECTOR_KERNEL",
        /// Runs a vector-core kernel variant that is chosen at run time.
        VECTOR_ALL_KERNEL = 40 "VECTOR_ALL_KERNEL",
        /// Sets block_dim and tiling key of a task before it is read ahead.
        UPDATE = 41 "UPDATE",
        /// Does nothing, on purpose.
        NOP = 42 "NOP",
        /// Runs a tiling function on the device.
        PREPROCESS_KERNEL = 43 "PREPROCESS_KERNEL",
        /// Runs several kernels as one.
        SUPER_KERNEL = 44 "SUPER_KERNEL",
        /// Records a memory event.
        MEM_EVENT_RECORD = 45 "MEM_EVENT_RECORD",
        /// Waits for a memory event.
        MEM_EVENT_WAIT = 46 "MEM_EVENT_WAIT",
        /// Runs a fused kernel.
        FUSION_KERNEL = 47 "FUSION_KERNEL",
        /// Launches a kernel (second form).
        KERNEL_LAUNCH_V2 = 48 "KERNEL_LAUNCH_V2",
        /// Runs a kernel of the collective unit.
        CCU_KERNEL = 49 "CCU_KERNEL",
        /// Runs a vendor's own kernel.
        CUSTOM_KERNEL = 50 "CUSTOM_KERNEL",
    }
}

open_code! {
    /// Kernel types (`kernel_type` of the task).
    pub struct KernelType: u32 {
        /// AI Core kernel, from TBE or AscendC.
        TE = 2 "TE",
        /// Custom AI CPU kernel.
        CUST_AI_CPU = 7 "CUST_AI_CPU",
        /// AI CPU kernel.
        AI_CPU = 6 "AI_CPU",
        /// Host CPU kernel.
        HOST_CPU = 8 "HOST_CPU",
        /// Kernel of cube and vector cores that is launched on the cube cores.
        MIX_AICORE = 10 "MIX_AICORE",
        /// Kernel of cube and vector cores that is launched on the vector cores.
        MIX_VECTOR_CORE = 11 "MIX_VECTOR_CORE",
    }
}

open_code! {
    /// Types of the contexts of an FFTS+ task, with the codes of the run-time.
    pub struct ContextType: u32 {
        /// A kernel of the cube cores.
        AICORE = 0 "AICORE",
        /// A kernel of the vector cores.
        AIV = 1 "AIV",
        /// A kernel of cube and vector cores that is launched on the cube cores.
        MIX_AIC = 6 "MIX_AIC",
        /// A kernel of cube and vector cores that is launched on the vector cores.
        MIX_AIV = 7 "MIX_AIV",
        /// Fetches data into the cache before it is read.
        FLUSH_DATA = 9 "FLUSH_DATA",
        /// Drops data from the cache that is not read any more.
        INVALIDATE_DATA = 10 "INVALIDATE_DATA",
        /// Writes data back from the cache for other readers.
        WRITEBACK_DATA = 11 "WRITEBACK_DATA",
        /// Starts the slices.
        AT_START = 0x300 "AT_START",
        /// Ends a slice and starts the next one of its window.
        AT_END = 0x301 "AT_END",
        /// Continues the successor list of a context that has more successors than fit into it.
        LABEL = 0x302 "LABEL",
    }
}

impl ContextType {
    /// Whether a kernel of this context runs on cube and vector cores together.
    pub fn is_mixed(self) -> bool {
        matches!(self, ContextType::MIX_AIC | ContextType::MIX_AIV)
    }
    /// Whether a context of this type launches a kernel.
    pub fn is_kernel(self) -> bool {
        matches!(self, ContextType::AICORE | ContextType::AIV) || self.is_mixed()
    }
    /// The kernel type to use if its own task launches a kernel of this context type.
    pub fn kernel_type(self) -> KernelType {
        match self {
            ContextType::MIX_AIC => KernelType::MIX_AICORE,
            ContextType::MIX_AIV => KernelType::MIX_VECTOR_CORE,
            _ => KernelType::TE,
        }
    }
}

/// Placeholder value of block_dim until UPDATE sets it (001 §4.3).
pub const TILING_SINK_BLOCK_DIM: u32 = 0xFFFF_FFFF;

/// Selects one of the node's streams for a task.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct StreamSlot(pub i32);
impl StreamSlot {
    /// The node's own stream.
    pub const MAIN: StreamSlot = StreamSlot(-1);
    /// The `k`-th attached stream that the node requested, counted from 0.
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
    /// Name of the kernel in the kernel store.
    pub kernel_name: RString,
    /// Name of the library on the device, or empty.
    pub so_name: RString,
    /// Code of the [`KernelType`].
    pub kernel_type: u32,
    /// Number of blocks.
    pub block_dim: u32,
    /// Key of the kernel variant.
    pub tiling_key: u64,
    /// Tiling data.
    pub tiling: RVec<u8>,
    /// Arguments, in the grammar of facts 5 (`{i0*}{o0*}{ws0*}`).
    pub args_format: RString,
    /// How the blocks are scheduled: 0 normal, 1 all blocks at the same time.
    pub schedule_mode: u32,
}

impl KernelTask {
    /// A launch of a kernel by its name in the kernel store, with a number of blocks and arguments
    /// (`{i0*}{o0*}`).
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

/// One task of a node. `kind` determines which of the other fields are used.
#[repr(C)]
#[derive(Clone, Debug, Default, PartialEq, StableAbi)]
pub struct Task {
    /// Code of the [`TaskType`].
    pub kind: u32,
    /// The node's stream that it runs on.
    pub stream: StreamSlot,
    /// Number of SQEs that it takes on its stream; 0 means 1.
    pub sqe_num: u32,
    /// Kernel launch (KERNEL, VECTOR_KERNEL, PREPROCESS_KERNEL, SUPER_KERNEL, CUSTOM_KERNEL, DVPP
    /// …).
    pub kernel: ROption<KernelTask>,
    /// Index of the node's sync resource, for EVENT_RECORD/WAIT and NOTIFY_RECORD/WAIT tasks that
    /// the engine itself emits.
    pub sync_slot: u32,
    /// Numbers by type: MEMCPY_ASYNC \[kind\]; STREAM_ACTIVE \[index into active_stream_list\];
    /// STREAM_SWITCH [condition, data type, index into active_stream_list]; LABEL_SET \[label\];
    /// STREAM_LABEL_GOTO \[label\]; STREAM_LABEL_SWITCH_BY_INDEX \[labels…\]; UPDATE [index of the
    /// updated task in the node's task list]; HCCL: the host appends the ids of the node's sync
    /// resources.
    pub numbers: RVec<i64>,
    /// Operands in the grammar of `args_format`, for types without a kernel (MEMCPY `{i0*}{o0*}`).
    pub operands: RString,
    /// Bytes of the engine's own, which its executor gets unchanged.
    pub private: RVec<u8>,
    /// Nodes that the task stands for, if more than one (SUPER_KERNEL, FFTS_PLUS).
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
    /// A copy within the device. Source and destination are items of an args format (`{i0*}`,
    /// `{ws0*}`, `{o0*}`).
    pub fn memcpy(from: &str, to: &str) -> Task {
        /// Code of a copy from device memory to device memory.
        const DEVICE_TO_DEVICE: i64 = 3;
        Task {
            numbers: vec![DEVICE_TO_DEVICE].into(),
            operands: format!("{from}{to}").into(),
            ..Task::new(TaskType::MEMCPY_ASYNC)
        }
    }
    /// Records the event that is the node's sync resource `slot`
    /// ([`RunningParams::sync`](crate::engine::RunningParams)).
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
    /// A task that does nothing, on purpose.
    pub fn nop() -> Task {
        Task::new(TaskType::NOP)
    }
    /// The task type.
    pub fn kind(&self) -> TaskType {
        TaskType(self.kind)
    }
    /// Moves the task to another of the node's streams.
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
