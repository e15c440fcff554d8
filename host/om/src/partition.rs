//! Types of partitions, by their numbers in the partition table (facts 7.1).

use std::fmt;

macro_rules! partition_types {
    ($($number:literal $variant:ident $name:literal $doc:literal;)*) => {
        /// The content of a partition.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum PartitionType {
            $(#[doc = $doc] $variant,)*
            /// A number without a name in this list.
            Other(u32),
        }

        impl PartitionType {
            /// Converts the number in the table.
            #[must_use]
            pub fn from_number(number: u32) -> Self {
                match number {
                    $($number => Self::$variant,)*
                    other => Self::Other(other),
                }
            }

            /// Returns the number in the table.
            #[must_use]
            pub fn number(self) -> u32 {
                match self {
                    $(Self::$variant => $number,)*
                    Self::Other(other) => other,
                }
            }
        }

        impl fmt::Display for PartitionType {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$variant => f.write_str($name),)*
                    Self::Other(other) => write!(f, "{other}"),
                }
            }
        }
    };
}

partition_types! {
    0 ModelDef "MODEL_DEF" "The graph, a protobuf `ge.proto.ModelDef`.";
    1 WeightsData "WEIGHTS_DATA" "The constants, raw.";
    2 TaskInfo "TASK_INFO" "The tasks, a protobuf `domi.ModelTaskDef`.";
    3 TbeKernels "TBE_KERNELS" "Kernel store of the AI core.";
    4 CustAicpuKernels "CUST_AICPU_KERNELS" "Kernel store of the AI CPU.";
    5 SoBins "SO_BINS" "Shared libraries.";
    6 FlowModel "FLOW_MODEL" "A flow of models.";
    7 FlowSubmodel "FLOW_SUBMODEL" "A model of a flow; may stand several times.";
    8 ModelInoutInfo "MODEL_INOUT_INFO" "Inputs and outputs.";
    9 StaticTaskDesc "STATIC_TASK_DESC" "Task descriptions of known shapes.";
    10 DynamicTaskDesc "DYNAMIC_TASK_DESC" "Task descriptions of unknown shapes.";
    11 TaskParam "TASK_PARAM" "Parameters of tasks.";
    12 TilingData "TILING_DATA" "Tiling results.";
    20 PreModelDesc "PRE_MODEL_DESC" "Pre-built model.";
    21 PreModelSqe "PRE_MODEL_SQE" "Queue entries of a pre-built model.";
    22 PreKernelArgs "PRE_KERNEL_ARGS" "Kernel arguments of a pre-built model.";
    23 PreModelDescExtend "PRE_MODEL_DESC_EXTEND" "Pre-built model, second part.";
    24 BundleModelInfo "BUNDLE_MODEL_INFO" "Models of a bundle.";
    25 BundleModelVarInfo "BUNDLE_MODEL_VAR_INFO" "Variables of a bundle.";
    26 CustomOps "CUSTOM_OPS" "Custom operators.";
}
