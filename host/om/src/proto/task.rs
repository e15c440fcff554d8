//! The messages of `proto/task.proto`, as prost makes them.
// Written by `cargo xtask protobuf`, not by hand. From host/om/proto/task.proto
// 28bfa8703a5b29914c8c99b0a1e24083598ad4583a81f820fb7cfc09c19ec2d3
// 3eab2883429c9c0470f40a1517dee1ba8ed378b453ed359debb1183fd8805580
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ModelTaskDef {
    #[prost(string, tag = "1")]
    pub version: ::prost::alloc::string::String,
    #[prost(btree_map = "string, string", tag = "9")]
    pub attr: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        ::prost::alloc::string::String,
    >,
    #[prost(message, repeated, tag = "10")]
    pub task: ::prost::alloc::vec::Vec<TaskDef>,
    #[prost(uint64, tag = "11")]
    pub memory_size: u64,
    #[prost(uint32, tag = "12")]
    pub stream_num: u32,
    #[prost(uint32, tag = "13")]
    pub event_num: u32,
    #[prost(uint64, tag = "14")]
    pub weight_size: u64,
    #[prost(bytes = "bytes", repeated, tag = "15")]
    pub op: ::prost::alloc::vec::Vec<::prost::bytes::Bytes>,
    #[prost(uint64, tag = "16")]
    pub base_addr: u64,
    #[prost(uint64, tag = "17")]
    pub weight_addr: u64,
    #[prost(uint32, tag = "18")]
    pub batch_num: u32,
}
/// One task; `type` says which payload is set (see `task_type.rs`).
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct TaskDef {
    #[prost(uint32, tag = "1")]
    pub id: u32,
    #[prost(uint32, tag = "2")]
    pub r#type: u32,
    #[prost(uint32, tag = "10")]
    pub stream_id: u32,
    #[prost(uint32, tag = "11")]
    pub event_id: u32,
    #[prost(uint32, tag = "12")]
    pub notify_id: u32,
    #[prost(uint32, tag = "13")]
    pub sqe_num: u32,
    #[prost(message, optional, boxed, tag = "20")]
    pub kernel: ::core::option::Option<::prost::alloc::boxed::Box<KernelDef>>,
    #[prost(message, optional, boxed, tag = "21")]
    pub kernel_ex: ::core::option::Option<::prost::alloc::boxed::Box<KernelExDef>>,
    #[prost(message, optional, boxed, tag = "25")]
    pub kernel_hccl: ::core::option::Option<::prost::alloc::boxed::Box<KernelHcclDef>>,
    #[prost(message, optional, boxed, tag = "26")]
    pub event_ex: ::core::option::Option<::prost::alloc::boxed::Box<EventExDef>>,
    #[prost(message, optional, boxed, tag = "28")]
    pub log_timestamp: ::core::option::Option<
        ::prost::alloc::boxed::Box<LogTimeStampDef>,
    >,
    #[prost(uint32, tag = "30")]
    pub label_id: u32,
    #[prost(message, optional, boxed, tag = "31")]
    pub memcpy_async: ::core::option::Option<::prost::alloc::boxed::Box<MemcpyAsyncDef>>,
    #[prost(message, optional, boxed, tag = "32")]
    pub stream_switch: ::core::option::Option<
        ::prost::alloc::boxed::Box<StreamSwitchDef>,
    >,
    #[prost(message, optional, boxed, tag = "33")]
    pub stream_active: ::core::option::Option<
        ::prost::alloc::boxed::Box<StreamActiveDef>,
    >,
    #[prost(bytes = "bytes", tag = "34")]
    pub private_def: ::prost::bytes::Bytes,
    #[prost(uint64, tag = "35")]
    pub ops_kernel_store_ptr: u64,
    #[prost(message, optional, boxed, tag = "36")]
    pub stream_switch_n: ::core::option::Option<
        ::prost::alloc::boxed::Box<StreamSwitchNDef>,
    >,
    #[prost(message, optional, boxed, tag = "37")]
    pub label_set: ::core::option::Option<::prost::alloc::boxed::Box<LabelSetDef>>,
    #[prost(message, optional, boxed, tag = "38")]
    pub label_goto_ex: ::core::option::Option<
        ::prost::alloc::boxed::Box<LabelGotoExDef>,
    >,
    #[prost(message, optional, boxed, tag = "39")]
    pub label_switch_by_index: ::core::option::Option<
        ::prost::alloc::boxed::Box<LabelSwitchByIndexDef>,
    >,
    #[prost(message, optional, boxed, tag = "40")]
    pub kernel_with_handle: ::core::option::Option<
        ::prost::alloc::boxed::Box<KernelDefWithHandle>,
    >,
    #[prost(message, optional, boxed, tag = "41")]
    pub ffts_task: ::core::option::Option<::prost::alloc::boxed::Box<FftsTaskDef>>,
    #[prost(message, optional, boxed, tag = "42")]
    pub ffts_plus_task: ::core::option::Option<
        ::prost::alloc::boxed::Box<FftsPlusTaskDef>,
    >,
    #[prost(message, optional, boxed, tag = "43")]
    pub dsa_task: ::core::option::Option<::prost::alloc::boxed::Box<DsaTaskDef>>,
    #[prost(message, optional, boxed, tag = "44")]
    pub cmo_task: ::core::option::Option<::prost::alloc::boxed::Box<CmoTaskDef>>,
    #[prost(message, optional, boxed, tag = "45")]
    pub cmo_barrier_task: ::core::option::Option<
        ::prost::alloc::boxed::Box<CmoBarrierTaskDef>,
    >,
    #[prost(message, optional, boxed, tag = "46")]
    pub npu_get_float_status: ::core::option::Option<
        ::prost::alloc::boxed::Box<NpuGetFloatStatusDef>,
    >,
    #[prost(message, optional, boxed, tag = "47")]
    pub npu_clear_float_status: ::core::option::Option<
        ::prost::alloc::boxed::Box<NpuClearFloatStatusDef>,
    >,
    #[prost(message, optional, boxed, tag = "48")]
    pub dvpp_task: ::core::option::Option<::prost::alloc::boxed::Box<DvppTaskDef>>,
    #[prost(message, optional, boxed, tag = "49")]
    pub npu_get_float_debug_status: ::core::option::Option<
        ::prost::alloc::boxed::Box<NpuGetFloatDebugStatusDef>,
    >,
    #[prost(message, optional, boxed, tag = "50")]
    pub npu_clear_float_debug_status: ::core::option::Option<
        ::prost::alloc::boxed::Box<NpuClearFloatDebugStatusDef>,
    >,
    #[prost(message, optional, boxed, tag = "51")]
    pub cmo_addr_task: ::core::option::Option<
        ::prost::alloc::boxed::Box<CmoAddrTaskDef>,
    >,
    #[prost(message, optional, boxed, tag = "52")]
    pub update_pc_task: ::core::option::Option<
        ::prost::alloc::boxed::Box<UpdatePcTaskDef>,
    >,
    #[prost(message, optional, boxed, tag = "53")]
    pub fusion_task: ::core::option::Option<::prost::alloc::boxed::Box<FusionTaskDef>>,
}
/// Which operator a kernel belongs to (`op_index` is the node id) and the form of its arguments.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct KernelContext {
    #[prost(uint32, tag = "1")]
    pub kernel_type: u32,
    #[prost(uint32, tag = "2")]
    pub op_id: u32,
    #[prost(uint32, tag = "3")]
    pub kernel_func_id: u32,
    #[prost(uint32, tag = "4")]
    pub op_index: u32,
    #[prost(bool, tag = "5")]
    pub is_flowtable: bool,
    #[prost(bytes = "bytes", tag = "6")]
    pub args_offset: ::prost::bytes::Bytes,
    #[prost(uint32, tag = "7")]
    pub args_count: u32,
    #[prost(uint32, repeated, tag = "8")]
    pub origin_op_index: ::prost::alloc::vec::Vec<u32>,
    #[prost(string, tag = "10")]
    pub args_format: ::prost::alloc::string::String,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ArgsInfo {
    #[prost(enumeration = "args_info::ArgsType", tag = "1")]
    pub arg_type: i32,
    #[prost(enumeration = "args_info::ArgsFormat", tag = "2")]
    pub arg_format: i32,
    #[prost(int32, tag = "3")]
    pub start_index: i32,
    #[prost(uint32, tag = "4")]
    pub size: u32,
}
/// Nested message and enum types in `ArgsInfo`.
pub mod args_info {
    #[derive(
        Clone,
        Copy,
        Debug,
        PartialEq,
        Eq,
        Hash,
        PartialOrd,
        Ord,
        ::prost::Enumeration
    )]
    #[repr(i32)]
    pub enum ArgsType {
        Input = 0,
        Output = 1,
    }
    impl ArgsType {
        /// String value of the enum field names used in the ProtoBuf definition.
        ///
        /// The values are not transformed in any way and thus are considered stable
        /// (if the ProtoBuf definition does not change) and safe for programmatic use.
        pub fn as_str_name(&self) -> &'static str {
            match self {
                Self::Input => "INPUT",
                Self::Output => "OUTPUT",
            }
        }
        /// Creates an enum from field names used in the ProtoBuf definition.
        pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
            match value {
                "INPUT" => Some(Self::Input),
                "OUTPUT" => Some(Self::Output),
                _ => None,
            }
        }
    }
    /// One or two hops from the argument to the data.
    #[derive(
        Clone,
        Copy,
        Debug,
        PartialEq,
        Eq,
        Hash,
        PartialOrd,
        Ord,
        ::prost::Enumeration
    )]
    #[repr(i32)]
    pub enum ArgsFormat {
        DirectAddr = 0,
        SecondaryAddr = 1,
    }
    impl ArgsFormat {
        /// String value of the enum field names used in the ProtoBuf definition.
        ///
        /// The values are not transformed in any way and thus are considered stable
        /// (if the ProtoBuf definition does not change) and safe for programmatic use.
        pub fn as_str_name(&self) -> &'static str {
            match self {
                Self::DirectAddr => "DIRECT_ADDR",
                Self::SecondaryAddr => "SECONDARY_ADDR",
            }
        }
        /// Creates an enum from field names used in the ProtoBuf definition.
        pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
            match value {
                "DIRECT_ADDR" => Some(Self::DirectAddr),
                "SECONDARY_ADDR" => Some(Self::SecondaryAddr),
                _ => None,
            }
        }
    }
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct KernelDef {
    #[prost(message, optional, tag = "1")]
    pub context: ::core::option::Option<KernelContext>,
    #[prost(bool, tag = "2")]
    pub is_block_task_prefetch: bool,
    #[prost(string, tag = "10")]
    pub stub_func: ::prost::alloc::string::String,
    #[prost(uint32, tag = "11")]
    pub block_dim: u32,
    #[prost(uint32, tag = "12")]
    pub args_size: u32,
    #[prost(bytes = "bytes", tag = "13")]
    pub args: ::prost::bytes::Bytes,
    #[prost(bytes = "bytes", tag = "14")]
    pub sm_desc: ::prost::bytes::Bytes,
    #[prost(bytes = "bytes", tag = "15")]
    pub flowtable: ::prost::bytes::Bytes,
    #[prost(string, tag = "16")]
    pub so_name: ::prost::alloc::string::String,
    #[prost(string, tag = "17")]
    pub kernel_name: ::prost::alloc::string::String,
    #[prost(bytes = "bytes", tag = "18")]
    pub kernel_ext_info: ::prost::bytes::Bytes,
    #[prost(uint32, tag = "19")]
    pub kernel_ext_info_size: u32,
    #[prost(message, repeated, tag = "20")]
    pub args_info: ::prost::alloc::vec::Vec<ArgsInfo>,
    #[prost(uint32, tag = "21")]
    pub schedule_mode: u32,
    #[prost(uint32, tag = "22")]
    pub block_dim_offset: u32,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct KernelDefWithHandle {
    #[prost(message, optional, tag = "1")]
    pub context: ::core::option::Option<KernelContext>,
    #[prost(bool, tag = "2")]
    pub is_block_task_prefetch: bool,
    #[prost(uint64, tag = "10")]
    pub handle: u64,
    #[prost(string, tag = "11")]
    pub dev_func: ::prost::alloc::string::String,
    #[prost(uint32, tag = "12")]
    pub block_dim: u32,
    #[prost(uint32, tag = "13")]
    pub args_size: u32,
    #[prost(bytes = "bytes", tag = "14")]
    pub args: ::prost::bytes::Bytes,
    #[prost(bytes = "bytes", tag = "15")]
    pub sm_desc: ::prost::bytes::Bytes,
    #[prost(string, tag = "16")]
    pub original_kernel_key: ::prost::alloc::string::String,
    #[prost(string, tag = "17")]
    pub node_info: ::prost::alloc::string::String,
    #[prost(message, repeated, tag = "18")]
    pub args_info: ::prost::alloc::vec::Vec<ArgsInfo>,
    #[prost(uint32, tag = "19")]
    pub schedule_mode: u32,
    #[prost(uint32, tag = "20")]
    pub block_dim_offset: u32,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct KernelExDef {
    #[prost(uint32, tag = "1")]
    pub flags: u32,
    #[prost(uint32, tag = "4")]
    pub op_index: u32,
    #[prost(uint32, tag = "12")]
    pub args_size: u32,
    #[prost(bytes = "bytes", tag = "13")]
    pub args: ::prost::bytes::Bytes,
    #[prost(bytes = "bytes", tag = "14")]
    pub task_info: ::prost::bytes::Bytes,
    #[prost(uint32, tag = "15")]
    pub task_info_size: u32,
    #[prost(bytes = "bytes", tag = "16")]
    pub kernel_ext_info: ::prost::bytes::Bytes,
    #[prost(uint32, tag = "17")]
    pub kernel_ext_info_size: u32,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct KernelHcclDef {
    #[prost(uint32, tag = "8")]
    pub op_index: u32,
    #[prost(string, tag = "9")]
    pub hccl_type: ::prost::alloc::string::String,
    #[prost(int32, repeated, tag = "10")]
    pub input_zero_copy_flag: ::prost::alloc::vec::Vec<i32>,
    #[prost(int32, repeated, tag = "11")]
    pub output_zero_copy_flag: ::prost::alloc::vec::Vec<i32>,
    #[prost(uint32, tag = "12")]
    pub aiv_block_dim: u32,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct EventExDef {
    #[prost(uint32, tag = "1")]
    pub op_index: u32,
    #[prost(uint32, tag = "2")]
    pub event_type: u32,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct LogTimeStampDef {
    #[prost(uint64, tag = "1")]
    pub logid: u64,
    #[prost(bool, tag = "2")]
    pub notify: bool,
    #[prost(uint32, tag = "3")]
    pub flat: u32,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct MemcpyAsyncDef {
    #[prost(uint64, tag = "1")]
    pub dst: u64,
    #[prost(uint64, tag = "2")]
    pub dst_max: u64,
    #[prost(uint64, tag = "3")]
    pub src: u64,
    #[prost(uint64, tag = "4")]
    pub count: u64,
    #[prost(uint32, tag = "5")]
    pub kind: u32,
    #[prost(uint32, tag = "6")]
    pub op_index: u32,
    #[prost(string, tag = "7")]
    pub args_format: ::prost::alloc::string::String,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct StreamSwitchDef {
    #[prost(uint32, tag = "1")]
    pub op_index: u32,
    #[prost(uint32, tag = "2")]
    pub true_stream_id: u32,
    #[prost(int64, tag = "3")]
    pub value: i64,
    #[prost(uint64, tag = "4")]
    pub value_ptr: u64,
    #[prost(uint32, tag = "5")]
    pub data_type: u32,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct StreamActiveDef {
    #[prost(uint32, tag = "1")]
    pub op_index: u32,
    #[prost(uint32, tag = "2")]
    pub active_stream_id: u32,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct StreamSwitchNDef {
    #[prost(uint32, tag = "1")]
    pub op_index: u32,
    #[prost(uint32, tag = "2")]
    pub size: u32,
    #[prost(int64, repeated, tag = "3")]
    pub target_value: ::prost::alloc::vec::Vec<i64>,
    #[prost(uint32, repeated, tag = "4")]
    pub true_stream_id: ::prost::alloc::vec::Vec<u32>,
    #[prost(uint32, tag = "5")]
    pub element_size: u32,
    #[prost(uint32, tag = "6")]
    pub data_type: u32,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct LabelSetDef {
    #[prost(uint32, tag = "1")]
    pub op_index: u32,
    #[prost(uint32, tag = "2")]
    pub label_id: u32,
    #[prost(uint32, tag = "3")]
    pub model_id: u32,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct LabelGotoExDef {
    #[prost(uint32, tag = "1")]
    pub op_index: u32,
    #[prost(uint32, tag = "2")]
    pub label_id: u32,
    #[prost(uint32, tag = "3")]
    pub model_id: u32,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct LabelSwitchByIndexDef {
    #[prost(uint32, tag = "1")]
    pub op_index: u32,
    #[prost(uint32, tag = "2")]
    pub label_max: u32,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct UpdatePcTaskDef {
    #[prost(uint32, tag = "1")]
    pub op_index: u32,
    #[prost(uint32, tag = "2")]
    pub stream_id: u32,
    #[prost(string, tag = "3")]
    pub args_format: ::prost::alloc::string::String,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct NpuGetFloatStatusDef {
    #[prost(uint64, tag = "1")]
    pub output_addr: u64,
    #[prost(uint32, tag = "2")]
    pub output_size: u32,
    #[prost(uint32, tag = "3")]
    pub mode: u32,
    #[prost(uint32, tag = "4")]
    pub op_index: u32,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct NpuClearFloatStatusDef {
    #[prost(uint32, tag = "1")]
    pub mode: u32,
    #[prost(uint32, tag = "2")]
    pub op_index: u32,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct NpuGetFloatDebugStatusDef {
    #[prost(uint64, tag = "1")]
    pub output_addr: u64,
    #[prost(uint32, tag = "2")]
    pub output_size: u32,
    #[prost(uint32, tag = "3")]
    pub mode: u32,
    #[prost(uint32, tag = "4")]
    pub op_index: u32,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct NpuClearFloatDebugStatusDef {
    #[prost(uint32, tag = "1")]
    pub mode: u32,
    #[prost(uint32, tag = "2")]
    pub op_index: u32,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DvppTaskDef {
    #[prost(uint32, tag = "1")]
    pub op_index: u32,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct CmoTaskDef {
    #[prost(uint32, tag = "1")]
    pub cmo_type: u32,
    #[prost(uint32, tag = "2")]
    pub logic_id: u32,
    #[prost(uint32, tag = "3")]
    pub op_code: u32,
    #[prost(uint32, tag = "4")]
    pub qos: u32,
    #[prost(uint32, tag = "5")]
    pub part_id: u32,
    #[prost(uint32, tag = "6")]
    pub pmg: u32,
    #[prost(uint32, tag = "7")]
    pub num_inner: u32,
    #[prost(uint32, tag = "8")]
    pub num_outer: u32,
    #[prost(uint32, tag = "9")]
    pub length_inner: u32,
    #[prost(uint64, tag = "10")]
    pub source_addr: u64,
    #[prost(uint32, tag = "11")]
    pub strider_outer: u32,
    #[prost(uint32, tag = "12")]
    pub strider_inner: u32,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct CmoAddrTaskDef {
    #[prost(uint32, tag = "1")]
    pub cmo_op_code: u32,
    #[prost(uint32, tag = "2")]
    pub op_index: u32,
    #[prost(uint32, tag = "3")]
    pub num_inner: u32,
    #[prost(uint32, tag = "4")]
    pub num_outer: u32,
    #[prost(uint64, tag = "5")]
    pub src: u64,
    #[prost(uint32, tag = "6")]
    pub length_inner: u32,
    #[prost(uint32, tag = "7")]
    pub stride_outer: u32,
    #[prost(uint32, tag = "8")]
    pub stride_inner: u32,
    #[prost(uint32, tag = "9")]
    pub resv0: u32,
    #[prost(uint32, tag = "10")]
    pub resv1: u32,
    #[prost(string, tag = "11")]
    pub args_format: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct CmoBarrierTaskDef {
    #[prost(uint32, tag = "1")]
    pub logic_id_num: u32,
    #[prost(message, repeated, tag = "2")]
    pub barrier_info: ::prost::alloc::vec::Vec<CmoBarrierInfoDef>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct CmoBarrierInfoDef {
    #[prost(uint32, tag = "1")]
    pub cmo_type: u32,
    #[prost(uint32, tag = "2")]
    pub logic_id: u32,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DsaTaskDef {
    #[prost(uint32, tag = "1")]
    pub op_index: u32,
    #[prost(uint32, tag = "2")]
    pub start: u32,
    #[prost(uint32, tag = "3")]
    pub sqe_type: u32,
    #[prost(uint32, tag = "4")]
    pub distribution_type: u32,
    #[prost(uint32, tag = "5")]
    pub data_type: u32,
    #[prost(uint32, tag = "6")]
    pub alg_type: u32,
    #[prost(uint32, tag = "7")]
    pub input_vld: u32,
    #[prost(uint32, tag = "8")]
    pub input_value_addr_flag: u32,
    #[prost(uint32, tag = "9")]
    pub input1_value_or_ptr: u32,
    #[prost(uint32, tag = "10")]
    pub input2_value_or_ptr: u32,
    #[prost(uint32, tag = "11")]
    pub seed_value_or_ptr: u32,
    #[prost(uint32, tag = "12")]
    pub random_count_value_or_ptr: u32,
    #[prost(message, optional, tag = "13")]
    pub args: ::core::option::Option<DsaTaskArgsDef>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DsaTaskArgsDef {
    #[prost(uint64, tag = "1")]
    pub output_addr: u64,
    #[prost(uint64, tag = "2")]
    pub workspace_philox_count_addr: u64,
    #[prost(uint64, tag = "3")]
    pub workspace_input_addr: u64,
    #[prost(bytes = "bytes", tag = "4")]
    pub seed_value_or_addr: ::prost::bytes::Bytes,
    #[prost(bytes = "bytes", tag = "5")]
    pub random_count_value_or_addr: ::prost::bytes::Bytes,
    #[prost(bytes = "bytes", tag = "6")]
    pub input1_value_or_addr: ::prost::bytes::Bytes,
    #[prost(bytes = "bytes", tag = "7")]
    pub input2_value_or_addr: ::prost::bytes::Bytes,
}
/// The first FFTS generation: kept as far as inspection needs it, payloads of threads stay unknown fields.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FftsTaskDef {
    #[prost(uint32, tag = "1")]
    pub op_index: u32,
    #[prost(uint32, tag = "2")]
    pub ffts_type: u32,
    #[prost(uint32, tag = "3")]
    pub addr_size: u32,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct FftsPlusTaskDef {
    #[prost(uint32, tag = "1")]
    pub op_index: u32,
    #[prost(uint32, tag = "2")]
    pub addr_size: u32,
    #[prost(message, optional, tag = "3")]
    pub ffts_plus_sqe: ::core::option::Option<FftsPlusSqeDef>,
    #[prost(message, repeated, tag = "4")]
    pub ffts_plus_ctx: ::prost::alloc::vec::Vec<FftsPlusCtxDef>,
    #[prost(message, repeated, tag = "5")]
    pub additional_data: ::prost::alloc::vec::Vec<AdditionalDataDef>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct AdditionalDataDef {
    #[prost(uint32, tag = "1")]
    pub data_type: u32,
    #[prost(uint32, repeated, tag = "2")]
    pub context_id: ::prost::alloc::vec::Vec<u32>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FftsPlusSqeDef {
    #[prost(message, optional, tag = "1")]
    pub sqe_header: ::core::option::Option<StarsSqeHeaderDef>,
    #[prost(uint32, tag = "2")]
    pub wrr_ratio: u32,
    #[prost(uint32, tag = "3")]
    pub sqe_index: u32,
    #[prost(uint32, tag = "4")]
    pub total_context_num: u32,
    #[prost(uint32, tag = "5")]
    pub ready_context_num: u32,
    #[prost(uint32, tag = "6")]
    pub preload_context_num: u32,
    #[prost(uint32, tag = "7")]
    pub prefetch_ost_num: u32,
    #[prost(uint32, tag = "8")]
    pub cmaint_ost_num: u32,
    #[prost(uint32, tag = "9")]
    pub aic_prefetch_lower: u32,
    #[prost(uint32, tag = "10")]
    pub aic_prefetch_upper: u32,
    #[prost(uint32, tag = "11")]
    pub aiv_prefetch_lower: u32,
    #[prost(uint32, tag = "12")]
    pub aiv_prefetch_upper: u32,
    #[prost(uint32, tag = "13")]
    pub data_split_unit: u32,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct StarsSqeHeaderDef {
    #[prost(uint32, tag = "1")]
    pub l1_lock: u32,
    #[prost(uint32, tag = "2")]
    pub l1_unlock: u32,
    #[prost(uint32, tag = "3")]
    pub block_dim: u32,
}
/// One context of the task graph; `context_type` says which body is set.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FftsPlusCtxDef {
    #[prost(uint32, tag = "1")]
    pub op_index: u32,
    #[prost(string, tag = "2")]
    pub uniq_ctx_name: ::prost::alloc::string::String,
    #[prost(uint32, tag = "3")]
    pub context_type: u32,
    #[prost(uint32, tag = "4")]
    pub context_id: u32,
    #[prost(enumeration = "ffts_plus_ctx_def::OpType", tag = "5")]
    pub op_type: i32,
    #[prost(message, optional, boxed, tag = "6")]
    pub aic_aiv_ctx: ::core::option::Option<
        ::prost::alloc::boxed::Box<FftsPlusAicAivCtxDef>,
    >,
    #[prost(message, optional, boxed, tag = "7")]
    pub mix_aic_aiv_ctx: ::core::option::Option<
        ::prost::alloc::boxed::Box<FftsPlusMixAicAivCtxDef>,
    >,
    #[prost(message, optional, boxed, tag = "8")]
    pub sdma_ctx: ::core::option::Option<::prost::alloc::boxed::Box<FftsPlusSdmaCtxDef>>,
    #[prost(message, optional, boxed, tag = "9")]
    pub notify_ctx: ::core::option::Option<
        ::prost::alloc::boxed::Box<FftsPlusNotifyCtxDef>,
    >,
    #[prost(message, optional, boxed, tag = "10")]
    pub write_value_ctx: ::core::option::Option<
        ::prost::alloc::boxed::Box<FftsPlusWriteValueCtxDef>,
    >,
    #[prost(message, optional, boxed, tag = "11")]
    pub aicpu_ctx: ::core::option::Option<
        ::prost::alloc::boxed::Box<FftsPlusAicpuCtxDef>,
    >,
    #[prost(message, optional, boxed, tag = "12")]
    pub data_ctx: ::core::option::Option<::prost::alloc::boxed::Box<FftsPlusDataCtxDef>>,
    #[prost(message, optional, boxed, tag = "13")]
    pub at_start_ctx: ::core::option::Option<
        ::prost::alloc::boxed::Box<FftsPlusAtStartCtxDef>,
    >,
    #[prost(message, optional, boxed, tag = "14")]
    pub at_end_ctx: ::core::option::Option<
        ::prost::alloc::boxed::Box<FftsPlusAtEndCtxDef>,
    >,
    #[prost(message, optional, boxed, tag = "15")]
    pub label_ctx: ::core::option::Option<
        ::prost::alloc::boxed::Box<FftsPlusLabelCtxDef>,
    >,
    #[prost(message, optional, boxed, tag = "16")]
    pub case_switch_ctx: ::core::option::Option<
        ::prost::alloc::boxed::Box<FftsPlusCaseSwitchCtxDef>,
    >,
    #[prost(message, optional, boxed, tag = "17")]
    pub case_default_ctx: ::core::option::Option<
        ::prost::alloc::boxed::Box<FftsPlusCaseDefaultCtxDef>,
    >,
    #[prost(message, optional, boxed, tag = "18")]
    pub cond_switch_ctx: ::core::option::Option<
        ::prost::alloc::boxed::Box<FftsPlusCondSwitchCtxDef>,
    >,
    #[prost(message, optional, boxed, tag = "19")]
    pub cache_persist_ctx: ::core::option::Option<
        ::prost::alloc::boxed::Box<FftsPlusCachePersistCtxDef>,
    >,
    #[prost(message, optional, boxed, tag = "20")]
    pub dsa_ctx: ::core::option::Option<::prost::alloc::boxed::Box<FftsPlusDsaCtxDef>>,
}
/// Nested message and enum types in `FftsPlusCtxDef`.
pub mod ffts_plus_ctx_def {
    #[derive(
        Clone,
        Copy,
        Debug,
        PartialEq,
        Eq,
        Hash,
        PartialOrd,
        Ord,
        ::prost::Enumeration
    )]
    #[repr(i32)]
    pub enum OpType {
        Normal = 0,
        Atomic = 1,
    }
    impl OpType {
        /// String value of the enum field names used in the ProtoBuf definition.
        ///
        /// The values are not transformed in any way and thus are considered stable
        /// (if the ProtoBuf definition does not change) and safe for programmatic use.
        pub fn as_str_name(&self) -> &'static str {
            match self {
                Self::Normal => "NORMAL",
                Self::Atomic => "ATOMIC",
            }
        }
        /// Creates an enum from field names used in the ProtoBuf definition.
        pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
            match value {
                "NORMAL" => Some(Self::Normal),
                "ATOMIC" => Some(Self::Atomic),
                _ => None,
            }
        }
    }
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FftsPlusAicAivCtxDef {
    #[prost(uint32, tag = "1")]
    pub successor_num: u32,
    #[prost(uint32, tag = "2")]
    pub aten: u32,
    #[prost(uint32, tag = "3")]
    pub prefetch_config: u32,
    #[prost(uint32, tag = "4")]
    pub pred_cnt_init: u32,
    #[prost(uint32, tag = "5")]
    pub pred_cnt: u32,
    #[prost(uint32, repeated, tag = "6")]
    pub successor_list: ::prost::alloc::vec::Vec<u32>,
    #[prost(uint32, tag = "7")]
    pub schem: u32,
    #[prost(uint32, tag = "8")]
    pub atm: u32,
    #[prost(uint32, tag = "9")]
    pub prefetch_enable_bitmap: u32,
    #[prost(uint32, tag = "10")]
    pub prefetch_once_bitmap: u32,
    #[prost(uint32, tag = "11")]
    pub pmg: u32,
    #[prost(uint32, tag = "12")]
    pub ns: u32,
    #[prost(uint32, tag = "13")]
    pub part_id: u32,
    #[prost(uint32, tag = "14")]
    pub qos: u32,
    #[prost(uint32, tag = "15")]
    pub thread_id: u32,
    #[prost(uint32, tag = "16")]
    pub thread_dim: u32,
    #[prost(uint32, tag = "17")]
    pub non_tail_block_dim: u32,
    #[prost(uint32, tag = "18")]
    pub tail_block_dim: u32,
    #[prost(uint32, tag = "19")]
    pub task_param_ptr_offset: u32,
    #[prost(uint32, tag = "20")]
    pub save_task_addr: u32,
    #[prost(uint64, repeated, tag = "21")]
    pub task_addr: ::prost::alloc::vec::Vec<u64>,
    #[prost(uint64, repeated, tag = "22")]
    pub task_addr_offset: ::prost::alloc::vec::Vec<u64>,
    #[prost(uint32, tag = "23")]
    pub input_output_count: u32,
    #[prost(string, repeated, tag = "24")]
    pub kernel_name: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    #[prost(uint32, repeated, tag = "25")]
    pub src_slot: ::prost::alloc::vec::Vec<u32>,
    #[prost(uint32, tag = "26")]
    pub policy_pri: u32,
    #[prost(uint32, tag = "27")]
    pub thread_window_size: u32,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FftsPlusMixAicAivCtxDef {
    #[prost(uint32, tag = "1")]
    pub successor_num: u32,
    #[prost(uint32, tag = "2")]
    pub aten: u32,
    #[prost(uint32, tag = "3")]
    pub prefetch_config: u32,
    #[prost(uint32, tag = "4")]
    pub pred_cnt_init: u32,
    #[prost(uint32, tag = "5")]
    pub pred_cnt: u32,
    #[prost(uint32, repeated, tag = "6")]
    pub successor_list: ::prost::alloc::vec::Vec<u32>,
    #[prost(uint32, tag = "7")]
    pub schem: u32,
    #[prost(uint32, tag = "8")]
    pub atm: u32,
    #[prost(uint32, tag = "9")]
    pub prefetch_enable_bitmap: u32,
    #[prost(uint32, tag = "10")]
    pub prefetch_once_bitmap: u32,
    #[prost(uint32, tag = "11")]
    pub pmg: u32,
    #[prost(uint32, tag = "12")]
    pub ns: u32,
    #[prost(uint32, tag = "13")]
    pub part_id: u32,
    #[prost(uint32, tag = "14")]
    pub qos: u32,
    #[prost(uint32, tag = "15")]
    pub non_tail_block_ratio_n: u32,
    #[prost(uint32, tag = "16")]
    pub tail_block_ratio_n: u32,
    #[prost(uint32, tag = "17")]
    pub thread_id: u32,
    #[prost(uint32, tag = "18")]
    pub thread_dim: u32,
    #[prost(uint32, tag = "19")]
    pub non_tail_block_dim: u32,
    #[prost(uint32, tag = "20")]
    pub tail_block_dim: u32,
    #[prost(uint32, tag = "21")]
    pub aic_task_param_ptr_offset: u32,
    #[prost(uint32, tag = "22")]
    pub aiv_task_param_ptr_offset: u32,
    #[prost(string, repeated, tag = "23")]
    pub kernel_name: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    #[prost(uint64, repeated, tag = "24")]
    pub task_addr: ::prost::alloc::vec::Vec<u64>,
    #[prost(uint64, repeated, tag = "25")]
    pub task_addr_offset: ::prost::alloc::vec::Vec<u64>,
    #[prost(uint32, tag = "26")]
    pub input_output_count: u32,
    #[prost(uint32, tag = "27")]
    pub save_task_addr: u32,
    #[prost(uint32, repeated, tag = "28")]
    pub src_slot: ::prost::alloc::vec::Vec<u32>,
    #[prost(uint32, tag = "29")]
    pub policy_pri: u32,
    #[prost(uint32, tag = "30")]
    pub thread_window_size: u32,
    #[prost(string, tag = "31")]
    pub args_format: ::prost::alloc::string::String,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FftsPlusSdmaCtxDef {
    #[prost(uint32, tag = "1")]
    pub successor_num: u32,
    #[prost(uint32, tag = "2")]
    pub aten: u32,
    #[prost(uint32, tag = "3")]
    pub pred_cnt_init: u32,
    #[prost(uint32, tag = "4")]
    pub pred_cnt: u32,
    #[prost(uint32, repeated, tag = "5")]
    pub successor_list: ::prost::alloc::vec::Vec<u32>,
    #[prost(uint32, tag = "6")]
    pub atm: u32,
    #[prost(uint32, tag = "7")]
    pub pmg: u32,
    #[prost(uint32, tag = "8")]
    pub ns: u32,
    #[prost(uint32, tag = "9")]
    pub part_id: u32,
    #[prost(uint32, tag = "10")]
    pub qos: u32,
    #[prost(uint32, tag = "11")]
    pub thread_id: u32,
    #[prost(uint32, tag = "12")]
    pub thread_dim: u32,
    #[prost(uint32, tag = "13")]
    pub sdma_sqe_header: u32,
    #[prost(uint32, tag = "14")]
    pub src_stream_id: u32,
    #[prost(uint32, tag = "15")]
    pub src_sub_stream_id: u32,
    #[prost(uint32, tag = "16")]
    pub dst_stream_id: u32,
    #[prost(uint32, tag = "17")]
    pub dst_sub_stream_id: u32,
    #[prost(uint64, tag = "18")]
    pub src_addr_base: u64,
    #[prost(uint32, tag = "19")]
    pub src_addr_offset: u32,
    #[prost(uint64, tag = "20")]
    pub dst_addr_base: u64,
    #[prost(uint32, tag = "21")]
    pub dst_addr_offset: u32,
    #[prost(uint32, tag = "22")]
    pub non_tail_data_len: u32,
    #[prost(uint32, tag = "23")]
    pub tail_data_len: u32,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FftsPlusNotifyCtxDef {
    #[prost(uint32, tag = "1")]
    pub successor_num: u32,
    #[prost(uint32, tag = "2")]
    pub aten: u32,
    #[prost(uint32, tag = "3")]
    pub pred_cnt_init: u32,
    #[prost(uint32, tag = "4")]
    pub pred_cnt: u32,
    #[prost(uint32, repeated, tag = "5")]
    pub successor_list: ::prost::alloc::vec::Vec<u32>,
    #[prost(uint32, tag = "6")]
    pub satm: u32,
    #[prost(uint32, tag = "7")]
    pub atm: u32,
    #[prost(uint32, tag = "8")]
    pub thread_id: u32,
    #[prost(uint32, tag = "9")]
    pub thread_dim: u32,
    #[prost(uint32, tag = "10")]
    pub notify_id_base: u32,
    #[prost(uint32, tag = "11")]
    pub auto_window: u32,
    #[prost(uint32, repeated, tag = "12")]
    pub notify_id: ::prost::alloc::vec::Vec<u32>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FftsPlusWriteValueCtxDef {
    #[prost(uint32, tag = "1")]
    pub successor_num: u32,
    #[prost(uint32, tag = "2")]
    pub aten: u32,
    #[prost(uint32, tag = "3")]
    pub pred_cnt_init: u32,
    #[prost(uint32, tag = "4")]
    pub pred_cnt: u32,
    #[prost(uint32, repeated, tag = "5")]
    pub successor_list: ::prost::alloc::vec::Vec<u32>,
    #[prost(uint32, tag = "6")]
    pub atm: u32,
    #[prost(uint32, tag = "7")]
    pub thread_id: u32,
    #[prost(uint32, tag = "8")]
    pub thread_dim: u32,
    #[prost(uint32, tag = "9")]
    pub aw_size: u32,
    #[prost(uint32, tag = "10")]
    pub aw_snoop: u32,
    #[prost(uint32, tag = "11")]
    pub aw_cache: u32,
    #[prost(uint32, tag = "12")]
    pub aw_prot: u32,
    #[prost(uint32, tag = "13")]
    pub aw_va: u32,
    #[prost(uint32, tag = "14")]
    pub ar_size: u32,
    #[prost(uint32, tag = "15")]
    pub ar_snoop: u32,
    #[prost(uint32, tag = "16")]
    pub ar_cache: u32,
    #[prost(uint32, tag = "17")]
    pub ar_prot: u32,
    #[prost(uint32, tag = "18")]
    pub ar_va: u32,
    #[prost(uint64, tag = "19")]
    pub write_addr_base: u64,
    #[prost(uint32, tag = "20")]
    pub write_addr_offset: u32,
    #[prost(uint32, repeated, tag = "21")]
    pub write_value: ::prost::alloc::vec::Vec<u32>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FftsPlusAicpuCtxDef {
    #[prost(uint32, tag = "1")]
    pub successor_num: u32,
    #[prost(uint32, tag = "2")]
    pub aten: u32,
    #[prost(uint32, tag = "3")]
    pub pred_cnt_init: u32,
    #[prost(uint32, tag = "4")]
    pub pred_cnt: u32,
    #[prost(uint32, repeated, tag = "5")]
    pub successor_list: ::prost::alloc::vec::Vec<u32>,
    #[prost(uint32, tag = "6")]
    pub atm: u32,
    #[prost(uint32, tag = "7")]
    pub sqe_index: u32,
    #[prost(uint32, tag = "8")]
    pub kernel_type: u32,
    #[prost(uint32, tag = "9")]
    pub bm: u32,
    #[prost(uint32, tag = "10")]
    pub topic_type: u32,
    #[prost(uint32, tag = "11")]
    pub qos: u32,
    #[prost(uint32, tag = "12")]
    pub thread_id: u32,
    #[prost(uint32, tag = "13")]
    pub thread_dim: u32,
    #[prost(uint32, tag = "14")]
    pub non_tail_block_dim: u32,
    #[prost(uint32, tag = "15")]
    pub tail_block_dim: u32,
    #[prost(uint32, tag = "16")]
    pub sub_topic_id: u32,
    #[prost(uint32, tag = "17")]
    pub topic_id: u32,
    #[prost(uint32, tag = "18")]
    pub group_id: u32,
    #[prost(uint32, tag = "19")]
    pub task_param_offset: u32,
    #[prost(message, optional, tag = "20")]
    pub kernel: ::core::option::Option<AicpuKernelDef>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct AicpuKernelDef {
    #[prost(uint32, tag = "1")]
    pub args_size: u32,
    #[prost(bytes = "bytes", tag = "2")]
    pub args: ::prost::bytes::Bytes,
    #[prost(string, tag = "3")]
    pub so_name: ::prost::alloc::string::String,
    #[prost(string, tag = "4")]
    pub kernel_name: ::prost::alloc::string::String,
    #[prost(bytes = "bytes", tag = "5")]
    pub kernel_ext_info: ::prost::bytes::Bytes,
    #[prost(uint32, tag = "6")]
    pub kernel_ext_info_size: u32,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FftsPlusDataCtxDef {
    #[prost(uint32, tag = "1")]
    pub successor_num: u32,
    #[prost(uint32, tag = "2")]
    pub aten: u32,
    #[prost(uint32, tag = "3")]
    pub cnt_init: u32,
    #[prost(uint32, tag = "4")]
    pub cnt: u32,
    #[prost(uint32, repeated, tag = "5")]
    pub successor_list: ::prost::alloc::vec::Vec<u32>,
    #[prost(uint32, tag = "6")]
    pub atm: u32,
    #[prost(uint32, tag = "7")]
    pub pmg: u32,
    #[prost(uint32, tag = "8")]
    pub ns: u32,
    #[prost(uint32, tag = "9")]
    pub part_id: u32,
    #[prost(uint32, tag = "10")]
    pub qos: u32,
    #[prost(uint32, tag = "11")]
    pub orig_consumer_counter: u32,
    #[prost(uint32, tag = "12")]
    pub run_consumer_counter: u32,
    #[prost(uint32, tag = "13")]
    pub thread_id: u32,
    #[prost(uint32, tag = "14")]
    pub thread_dim: u32,
    #[prost(uint64, tag = "15")]
    pub addr_base: u64,
    #[prost(uint32, tag = "16")]
    pub addr_offset: u32,
    #[prost(uint32, tag = "17")]
    pub non_tail_num_outter: u32,
    #[prost(uint32, tag = "18")]
    pub non_tail_num_inner: u32,
    #[prost(uint32, tag = "19")]
    pub non_tail_len_inner: u32,
    #[prost(uint32, tag = "20")]
    pub non_tail_stride_outter: u32,
    #[prost(uint32, tag = "21")]
    pub non_tail_stride_inner: u32,
    #[prost(uint32, tag = "22")]
    pub tail_num_outter: u32,
    #[prost(uint32, tag = "23")]
    pub tail_num_inner: u32,
    #[prost(uint32, tag = "24")]
    pub tail_len_inner: u32,
    #[prost(uint32, tag = "25")]
    pub tail_stride_outter: u32,
    #[prost(uint32, tag = "26")]
    pub tail_stride_inner: u32,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FftsPlusAtStartCtxDef {
    #[prost(uint32, tag = "1")]
    pub successor_num: u32,
    #[prost(uint32, tag = "2")]
    pub aten: u32,
    #[prost(uint32, tag = "3")]
    pub pred_cnt_init: u32,
    #[prost(uint32, tag = "4")]
    pub pred_cnt: u32,
    #[prost(uint32, repeated, tag = "5")]
    pub successor_list: ::prost::alloc::vec::Vec<u32>,
    #[prost(uint32, tag = "6")]
    pub thread_id: u32,
    #[prost(uint32, tag = "7")]
    pub thread_dim: u32,
    #[prost(uint32, tag = "8")]
    pub thread_id_init: u32,
    #[prost(uint32, tag = "9")]
    pub thread_window_size: u32,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FftsPlusAtEndCtxDef {
    #[prost(uint32, tag = "1")]
    pub at_start_slot_num: u32,
    #[prost(uint32, tag = "2")]
    pub out_label_slot_num: u32,
    #[prost(uint32, tag = "3")]
    pub aten: u32,
    #[prost(uint32, tag = "4")]
    pub pred_cnt_init: u32,
    #[prost(uint32, tag = "5")]
    pub pred_cnt: u32,
    #[prost(uint32, repeated, tag = "6")]
    pub succ_at_start_slot: ::prost::alloc::vec::Vec<u32>,
    #[prost(uint32, repeated, tag = "7")]
    pub succ_out_label_slot: ::prost::alloc::vec::Vec<u32>,
    #[prost(uint32, tag = "8")]
    pub thread_id: u32,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FftsPlusLabelCtxDef {
    #[prost(uint32, tag = "1")]
    pub successor_num: u32,
    #[prost(uint32, tag = "2")]
    pub aten: u32,
    #[prost(uint32, tag = "3")]
    pub pred_cnt_init: u32,
    #[prost(uint32, tag = "4")]
    pub pred_cnt: u32,
    #[prost(uint32, repeated, tag = "5")]
    pub successor_list: ::prost::alloc::vec::Vec<u32>,
    #[prost(uint32, tag = "6")]
    pub thread_id: u32,
    #[prost(uint32, tag = "7")]
    pub thread_dim: u32,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FftsPlusCaseSwitchCtxDef {
    #[prost(uint32, tag = "1")]
    pub successor_num: u32,
    #[prost(uint32, tag = "2")]
    pub aten: u32,
    #[prost(uint32, tag = "3")]
    pub start_label_id: u32,
    #[prost(uint32, tag = "4")]
    pub label_list_len: u32,
    #[prost(uint32, tag = "5")]
    pub pred_cnt_init: u32,
    #[prost(uint32, tag = "6")]
    pub pred_cnt: u32,
    #[prost(uint32, repeated, tag = "7")]
    pub successor_list: ::prost::alloc::vec::Vec<u32>,
    #[prost(uint32, tag = "8")]
    pub atm: u32,
    #[prost(uint32, tag = "9")]
    pub thread_id: u32,
    #[prost(uint32, tag = "10")]
    pub thread_dim: u32,
    #[prost(uint32, tag = "11")]
    pub ar_size: u32,
    #[prost(uint32, tag = "12")]
    pub snoop: u32,
    #[prost(uint32, tag = "13")]
    pub ar_cache: u32,
    #[prost(uint32, tag = "14")]
    pub ar_prot: u32,
    #[prost(uint32, tag = "15")]
    pub va: u32,
    #[prost(uint64, tag = "16")]
    pub load_addr0_base: u64,
    #[prost(uint32, tag = "17")]
    pub ld0_en: u32,
    #[prost(uint32, tag = "18")]
    pub load_addr0_offset: u32,
    #[prost(uint64, tag = "19")]
    pub load_addr1_base: u64,
    #[prost(uint32, tag = "20")]
    pub ld1_en: u32,
    #[prost(uint32, tag = "21")]
    pub load_addr1_offset: u32,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FftsPlusCaseDefaultCtxDef {
    #[prost(uint32, tag = "1")]
    pub successor_num: u32,
    #[prost(uint32, tag = "2")]
    pub aten: u32,
    #[prost(uint32, tag = "3")]
    pub start_label_id: u32,
    #[prost(uint32, tag = "4")]
    pub label_list_len: u32,
    #[prost(uint32, tag = "5")]
    pub pred_cnt_init: u32,
    #[prost(uint32, tag = "6")]
    pub pred_cnt: u32,
    #[prost(uint32, repeated, tag = "7")]
    pub successor_list: ::prost::alloc::vec::Vec<u32>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FftsPlusCondSwitchCtxDef {
    #[prost(uint32, tag = "1")]
    pub true_successor_num: u32,
    #[prost(uint32, tag = "2")]
    pub false_successor_num: u32,
    #[prost(uint32, tag = "3")]
    pub aten: u32,
    #[prost(uint32, tag = "4")]
    pub condition: u32,
    #[prost(uint32, tag = "5")]
    pub pred_cnt_init: u32,
    #[prost(uint32, tag = "6")]
    pub pred_cnt: u32,
    #[prost(uint32, repeated, tag = "7")]
    pub true_successor_list: ::prost::alloc::vec::Vec<u32>,
    #[prost(uint32, repeated, tag = "8")]
    pub false_successor_list: ::prost::alloc::vec::Vec<u32>,
    #[prost(uint32, tag = "9")]
    pub atm: u32,
    #[prost(uint32, tag = "10")]
    pub thread_id: u32,
    #[prost(uint32, tag = "11")]
    pub thread_dim: u32,
    #[prost(uint32, tag = "12")]
    pub ar_size: u32,
    #[prost(uint32, tag = "13")]
    pub snoop: u32,
    #[prost(uint32, tag = "14")]
    pub ar_cache: u32,
    #[prost(uint32, tag = "15")]
    pub ar_prot: u32,
    #[prost(uint32, tag = "16")]
    pub va: u32,
    #[prost(uint64, tag = "17")]
    pub load_addr0_base: u64,
    #[prost(uint32, tag = "18")]
    pub ld0_en: u32,
    #[prost(uint32, tag = "19")]
    pub load_addr0_offset: u32,
    #[prost(uint64, tag = "20")]
    pub load_addr1_base: u64,
    #[prost(uint32, tag = "21")]
    pub ld1_en: u32,
    #[prost(uint32, tag = "22")]
    pub load_addr1_offset: u32,
    #[prost(uint32, tag = "23")]
    pub cmp_value_1: u32,
    #[prost(uint32, tag = "24")]
    pub cmp_value_2: u32,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FftsPlusCachePersistCtxDef {
    #[prost(uint32, tag = "1")]
    pub successor_num: u32,
    #[prost(uint32, tag = "2")]
    pub aten: u32,
    #[prost(uint32, tag = "3")]
    pub prefetch_config: u32,
    #[prost(uint32, tag = "4")]
    pub pred_cnt_init: u32,
    #[prost(uint32, tag = "5")]
    pub pred_cnt: u32,
    #[prost(uint32, repeated, tag = "6")]
    pub successor_list: ::prost::alloc::vec::Vec<u32>,
    #[prost(uint32, tag = "7")]
    pub persistent_size: u32,
    #[prost(uint32, tag = "8")]
    pub persistent_en: u32,
    #[prost(uint32, tag = "9")]
    pub persistent_id: u32,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FftsPlusDsaCtxDef {
    #[prost(uint32, tag = "1")]
    pub successor_num: u32,
    #[prost(uint32, tag = "2")]
    pub aten: u32,
    #[prost(uint32, tag = "3")]
    pub pred_cnt_init: u32,
    #[prost(uint32, tag = "4")]
    pub pred_cnt: u32,
    #[prost(uint32, repeated, tag = "5")]
    pub successor_list: ::prost::alloc::vec::Vec<u32>,
    #[prost(uint32, tag = "6")]
    pub atm: u32,
    #[prost(uint32, tag = "7")]
    pub address_offset: u32,
    #[prost(uint32, tag = "8")]
    pub thread_id: u32,
    #[prost(uint32, tag = "9")]
    pub thread_dim: u32,
    #[prost(uint32, tag = "10")]
    pub start: u32,
    #[prost(uint32, tag = "11")]
    pub distribution_type: u32,
    #[prost(uint32, tag = "12")]
    pub data_type: u32,
    #[prost(uint32, tag = "13")]
    pub alg_type: u32,
    #[prost(uint32, tag = "14")]
    pub input_vld: u32,
    #[prost(uint32, tag = "15")]
    pub input_value_addr_flag: u32,
    #[prost(uint32, tag = "16")]
    pub input1_value_or_ptr: u32,
    #[prost(uint32, tag = "17")]
    pub input2_value_or_ptr: u32,
    #[prost(uint32, tag = "18")]
    pub seed_value_or_ptr: u32,
    #[prost(uint32, tag = "19")]
    pub random_count_value_or_ptr: u32,
    #[prost(message, optional, tag = "20")]
    pub args: ::core::option::Option<DsaTaskArgsDef>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct FusionTaskDef {
    #[prost(uint32, tag = "1")]
    pub op_index: u32,
    #[prost(string, tag = "2")]
    pub args_format: ::prost::alloc::string::String,
    #[prost(uint32, tag = "3")]
    pub kfc_args_format_offset: u32,
    #[prost(message, repeated, tag = "4")]
    pub fusion_sub_task_info: ::prost::alloc::vec::Vec<FusionSubTaskInfo>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct FusionSubTaskInfo {
    #[prost(enumeration = "fusion_sub_task_info::FusionType", tag = "1")]
    pub r#type: i32,
    #[prost(message, optional, tag = "2")]
    pub task: ::core::option::Option<FusionSubTaskDef>,
}
/// Nested message and enum types in `FusionSubTaskInfo`.
pub mod fusion_sub_task_info {
    #[derive(
        Clone,
        Copy,
        Debug,
        PartialEq,
        Eq,
        Hash,
        PartialOrd,
        Ord,
        ::prost::Enumeration
    )]
    #[repr(i32)]
    pub enum FusionType {
        HcomCpu = 0,
        Aicpu = 1,
        Aicore = 2,
        Ccu = 3,
        End = 4,
    }
    impl FusionType {
        /// String value of the enum field names used in the ProtoBuf definition.
        ///
        /// The values are not transformed in any way and thus are considered stable
        /// (if the ProtoBuf definition does not change) and safe for programmatic use.
        pub fn as_str_name(&self) -> &'static str {
            match self {
                Self::HcomCpu => "HCOM_CPU",
                Self::Aicpu => "AICPU",
                Self::Aicore => "AICORE",
                Self::Ccu => "CCU",
                Self::End => "END",
            }
        }
        /// Creates an enum from field names used in the ProtoBuf definition.
        pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
            match value {
                "HCOM_CPU" => Some(Self::HcomCpu),
                "AICPU" => Some(Self::Aicpu),
                "AICORE" => Some(Self::Aicore),
                "CCU" => Some(Self::Ccu),
                "END" => Some(Self::End),
                _ => None,
            }
        }
    }
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct FusionSubTaskDef {
    #[prost(oneof = "fusion_sub_task_def::SubTaskInfo", tags = "1, 2, 3")]
    pub sub_task_info: ::core::option::Option<fusion_sub_task_def::SubTaskInfo>,
}
/// Nested message and enum types in `FusionSubTaskDef`.
pub mod fusion_sub_task_def {
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum SubTaskInfo {
        #[prost(message, tag = "1")]
        AicoreFusionTaskInfo(super::AicoreFusionTaskInfo),
        #[prost(message, tag = "2")]
        AicpuFusionTaskInfo(super::AicpuFusionTaskInfo),
        #[prost(message, tag = "3")]
        CcuTaskGroup(super::CcuTaskGroup),
    }
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct AicoreFusionTaskInfo {
    #[prost(message, optional, tag = "1")]
    pub context: ::core::option::Option<KernelContext>,
    #[prost(bool, tag = "2")]
    pub is_all_kernel: bool,
    #[prost(message, optional, tag = "3")]
    pub config: ::core::option::Option<LaunchConfig>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct AicpuFusionTaskInfo {
    #[prost(message, optional, tag = "1")]
    pub context: ::core::option::Option<KernelContext>,
    #[prost(uint32, tag = "2")]
    pub flags: u32,
    #[prost(uint32, tag = "3")]
    pub block_dim: u32,
    #[prost(string, tag = "4")]
    pub so_name: ::prost::alloc::string::String,
    #[prost(string, tag = "5")]
    pub kernel_name: ::prost::alloc::string::String,
    #[prost(bytes = "bytes", tag = "6")]
    pub kernel_ext_info: ::prost::bytes::Bytes,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct CcuTaskGroup {
    #[prost(message, repeated, tag = "1")]
    pub ccu_task_info: ::prost::alloc::vec::Vec<CcuTaskInfo>,
    #[prost(string, repeated, tag = "2")]
    pub group: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct CcuTaskInfo {
    #[prost(uint32, tag = "1")]
    pub die_id: u32,
    #[prost(uint32, tag = "2")]
    pub mission_id: u32,
    #[prost(uint32, tag = "3")]
    pub timeout: u32,
    #[prost(uint32, tag = "4")]
    pub inst_start_id: u32,
    #[prost(uint32, tag = "5")]
    pub inst_cnt: u32,
    #[prost(uint32, tag = "6")]
    pub key: u32,
    #[prost(uint32, tag = "7")]
    pub arg_size: u32,
    #[prost(uint64, repeated, tag = "9")]
    pub args: ::prost::alloc::vec::Vec<u64>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct LaunchConfig {
    #[prost(message, repeated, tag = "1")]
    pub launch_attribute: ::prost::alloc::vec::Vec<LaunchAttribute>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct LaunchAttribute {
    #[prost(enumeration = "launch_attribute::LaunchAttributeId", tag = "1")]
    pub id: i32,
    #[prost(message, optional, tag = "2")]
    pub value: ::core::option::Option<LaunchAttributeValue>,
}
/// Nested message and enum types in `LaunchAttribute`.
pub mod launch_attribute {
    #[derive(
        Clone,
        Copy,
        Debug,
        PartialEq,
        Eq,
        Hash,
        PartialOrd,
        Ord,
        ::prost::Enumeration
    )]
    #[repr(i32)]
    pub enum LaunchAttributeId {
        Blockdim = 0,
        DynamicShareMemSize = 1,
        Group = 2,
        Qos = 3,
        Partid = 4,
        Schemmode = 5,
        BlockdimOffset = 6,
        Dumpflag = 7,
        Max = 8,
    }
    impl LaunchAttributeId {
        /// String value of the enum field names used in the ProtoBuf definition.
        ///
        /// The values are not transformed in any way and thus are considered stable
        /// (if the ProtoBuf definition does not change) and safe for programmatic use.
        pub fn as_str_name(&self) -> &'static str {
            match self {
                Self::Blockdim => "BLOCKDIM",
                Self::DynamicShareMemSize => "DYNAMIC_SHARE_MEM_SIZE",
                Self::Group => "GROUP",
                Self::Qos => "QOS",
                Self::Partid => "PARTID",
                Self::Schemmode => "SCHEMMODE",
                Self::BlockdimOffset => "BLOCKDIM_OFFSET",
                Self::Dumpflag => "DUMPFLAG",
                Self::Max => "MAX",
            }
        }
        /// Creates an enum from field names used in the ProtoBuf definition.
        pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
            match value {
                "BLOCKDIM" => Some(Self::Blockdim),
                "DYNAMIC_SHARE_MEM_SIZE" => Some(Self::DynamicShareMemSize),
                "GROUP" => Some(Self::Group),
                "QOS" => Some(Self::Qos),
                "PARTID" => Some(Self::Partid),
                "SCHEMMODE" => Some(Self::Schemmode),
                "BLOCKDIM_OFFSET" => Some(Self::BlockdimOffset),
                "DUMPFLAG" => Some(Self::Dumpflag),
                "MAX" => Some(Self::Max),
                _ => None,
            }
        }
    }
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct LaunchAttributeValue {
    #[prost(
        oneof = "launch_attribute_value::AttributeValue",
        tags = "1, 2, 3, 4, 5, 6, 7, 8"
    )]
    pub attribute_value: ::core::option::Option<launch_attribute_value::AttributeValue>,
}
/// Nested message and enum types in `LaunchAttributeValue`.
pub mod launch_attribute_value {
    #[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
    pub struct Group {
        #[prost(uint32, tag = "1")]
        pub group_dim: u32,
        #[prost(uint32, tag = "2")]
        pub group_block_dim: u32,
    }
    #[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum AttributeValue {
        #[prost(uint32, tag = "1")]
        BlockDim(u32),
        #[prost(uint32, tag = "2")]
        DynamicShareMemSize(u32),
        #[prost(message, tag = "3")]
        Group(Group),
        #[prost(uint32, tag = "4")]
        Qos(u32),
        #[prost(uint32, tag = "5")]
        PartId(u32),
        #[prost(uint32, tag = "6")]
        SchemModel(u32),
        #[prost(uint32, tag = "7")]
        BlockDimOffset(u32),
        #[prost(uint32, tag = "8")]
        DumpFlag(u32),
    }
}
