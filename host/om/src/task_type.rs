//! `TaskType`: the numbers of `TaskDef.type` and their names (facts 7.2).

use std::fmt;
use std::str::FromStr;

macro_rules! task_types {
    ($($variant:ident $name:literal,)*) => {
        /// The action of a task; `as u32` is the number in `TaskDef.type`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u32)]
        #[non_exhaustive]
        pub enum TaskType {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl TaskType {
            /// All types, in order of their numbers, which start at 0.
            pub const ALL: &'static [TaskType] = &[$(TaskType::$variant,)*];

            /// The name used in texts and in `ge inspect --json`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(TaskType::$variant => $name,)*
                }
            }
        }
    };
}

task_types! {
    Kernel "KERNEL",
    EventRecord "EVENT_RECORD",
    EventWait "EVENT_WAIT",
    FusionStart "FUSION_START",
    FusionEnd "FUSION_END",
    KernelEx "KERNEL_EX",
    Hccl "HCCL",
    StreamSwitch "STREAM_SWITCH",
    StreamActive "STREAM_ACTIVE",
    LabelSet "LABEL_SET",
    LabelSwitch "LABEL_SWITCH",
    LabelGoto "LABEL_GOTO",
    ProfilerTrace "PROFILER_TRACE",
    MemcpyAsync "MEMCPY_ASYNC",
    NotifyRecord "NOTIFY_RECORD",
    NotifyWait "NOTIFY_WAIT",
    ReduceAsync "REDUCE_ASYNC",
    RdmaSend "RDMA_SEND",
    EventReset "EVENT_RESET",
    EndGraph "END_GRAPH",
    StreamSwitchN "STREAM_SWITCH_N",
    RdmaDbSend "RDMA_DB_SEND",
    MemcpyAddrAsync "MEMCPY_ADDR_ASYNC",
    StreamLabelSwitchByIndex "STREAM_LABEL_SWITCH_BY_INDEX",
    StreamLabelGoto "STREAM_LABEL_GOTO",
    ModelExit "MODEL_EXIT",
    AllKernel "ALL_KERNEL",
    ProfilerTraceEx "PROFILER_TRACE_EX",
    Ffts "FFTS",
    FftsPlus "FFTS_PLUS",
    Dsa "DSA",
    Cmo "CMO",
    Barrier "BARRIER",
    NpuGetFloatStatus "NPU_GET_FLOAT_STATUS",
    NpuClearFloatStatus "NPU_CLEAR_FLOAT_STATUS",
    Dvpp "DVPP",
    NpuGetDebugFloatStatus "NPU_GET_DEBUG_FLOAT_STATUS",
    NpuClearDebugFloatStatus "NPU_CLEAR_DEBUG_FLOAT_STATUS",
    CmoAddr "CMO_ADDR",
    VectorKernel "VECTOR_KERNEL",
    VectorAllKernel "VECTOR_ALL_KERNEL",
    Update "UPDATE",
    Nop "NOP",
    PreprocessKernel "PREPROCESS_KERNEL",
    SuperKernel "SUPER_KERNEL",
    MemEventRecord "MEM_EVENT_RECORD",
    MemEventWait "MEM_EVENT_WAIT",
    FusionKernel "FUSION_KERNEL",
    KernelLaunchV2 "KERNEL_LAUNCH_V2",
    CcuKernel "CCU_KERNEL",
    CustomKernel "CUSTOM_KERNEL",
}

impl TaskType {
    /// Converts the number in `TaskDef.type`; `None` for a number without a name.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// Returns the number in `TaskDef.type`.
    #[must_use]
    pub fn number(self) -> u32 {
        self as u32
    }
}

impl fmt::Display for TaskType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Error: the name of a task type is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no task type is called {name}")]
pub struct UnknownTaskType {
    /// The unknown name.
    pub name: String,
}

impl FromStr for TaskType {
    type Err = UnknownTaskType;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.iter().find(|task| task.name() == name).copied();
        found.ok_or_else(|| UnknownTaskType { name: name.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_the_published_order() {
        for (number, name) in [(0, "KERNEL"), (13, "MEMCPY_ASYNC"), (29, "FFTS_PLUS"), (43, "PREPROCESS_KERNEL")] {
            assert_eq!(TaskType::from_number(number).unwrap().name(), name);
        }
        for task in TaskType::ALL {
            assert_eq!(TaskType::from_number(task.number()), Some(*task));
            assert_eq!(task.name().parse(), Ok(*task));
        }
        assert_eq!(TaskType::from_number(51), None);
        assert!("EVENT".parse::<TaskType>().is_err());
    }
}
