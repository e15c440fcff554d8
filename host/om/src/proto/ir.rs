//! The messages of `proto/ge_ir.proto`, as prost makes them.
// Written by `cargo xtask protobuf`, not by hand. From host/om/proto/ge_ir.proto
// 90910b544d240cc920874d038a68a5076f125b67980288da527ede0cf0451023
// 04ba689440c72afe304484bb085f651d5a76167efbd77defe59bb021a86da3a0
/// The value of one attribute.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct AttrDef {
    #[prost(
        oneof = "attr_def::Value",
        tags = "1, 2, 3, 4, 5, 7, 10, 11, 12, 13, 14, 15, 16, 17"
    )]
    pub value: ::core::option::Option<attr_def::Value>,
}
/// Nested message and enum types in `AttrDef`.
pub mod attr_def {
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct ListValue {
        #[prost(bytes = "bytes", repeated, tag = "2")]
        pub s: ::prost::alloc::vec::Vec<::prost::bytes::Bytes>,
        #[prost(int64, repeated, tag = "3")]
        pub i: ::prost::alloc::vec::Vec<i64>,
        #[prost(float, repeated, tag = "4")]
        pub f: ::prost::alloc::vec::Vec<f32>,
        #[prost(bool, repeated, tag = "5")]
        pub b: ::prost::alloc::vec::Vec<bool>,
        #[prost(bytes = "bytes", repeated, tag = "7")]
        pub bt: ::prost::alloc::vec::Vec<::prost::bytes::Bytes>,
        #[prost(message, repeated, tag = "8")]
        pub td: ::prost::alloc::vec::Vec<super::TensorDescriptor>,
        #[prost(message, repeated, tag = "9")]
        pub t: ::prost::alloc::vec::Vec<super::TensorDef>,
        #[prost(message, repeated, tag = "10")]
        pub g: ::prost::alloc::vec::Vec<super::GraphDef>,
        #[prost(message, repeated, tag = "11")]
        pub na: ::prost::alloc::vec::Vec<super::NamedAttrs>,
        #[prost(int64, repeated, tag = "12")]
        pub dt: ::prost::alloc::vec::Vec<i64>,
        #[prost(enumeration = "list_value::ListValueType", tag = "20")]
        pub val_type: i32,
    }
    /// Nested message and enum types in `ListValue`.
    pub mod list_value {
        /// Which list is meant; the only way to tell the kind of an empty list.
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
        pub enum ListValueType {
            VtListNone = 0,
            VtListString = 1,
            VtListInt = 2,
            VtListFloat = 3,
            VtListBool = 4,
            VtListBytes = 5,
            VtListTensorDesc = 6,
            VtListTensor = 7,
            VtListGraph = 8,
            VtListNamedAttrs = 9,
            VtListDataType = 10,
        }
        impl ListValueType {
            /// String value of the enum field names used in the ProtoBuf definition.
            ///
            /// The values are not transformed in any way and thus are considered stable
            /// (if the ProtoBuf definition does not change) and safe for programmatic use.
            pub fn as_str_name(&self) -> &'static str {
                match self {
                    Self::VtListNone => "VT_LIST_NONE",
                    Self::VtListString => "VT_LIST_STRING",
                    Self::VtListInt => "VT_LIST_INT",
                    Self::VtListFloat => "VT_LIST_FLOAT",
                    Self::VtListBool => "VT_LIST_BOOL",
                    Self::VtListBytes => "VT_LIST_BYTES",
                    Self::VtListTensorDesc => "VT_LIST_TENSOR_DESC",
                    Self::VtListTensor => "VT_LIST_TENSOR",
                    Self::VtListGraph => "VT_LIST_GRAPH",
                    Self::VtListNamedAttrs => "VT_LIST_NAMED_ATTRS",
                    Self::VtListDataType => "VT_LIST_DATA_TYPE",
                }
            }
            /// Creates an enum from field names used in the ProtoBuf definition.
            pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
                match value {
                    "VT_LIST_NONE" => Some(Self::VtListNone),
                    "VT_LIST_STRING" => Some(Self::VtListString),
                    "VT_LIST_INT" => Some(Self::VtListInt),
                    "VT_LIST_FLOAT" => Some(Self::VtListFloat),
                    "VT_LIST_BOOL" => Some(Self::VtListBool),
                    "VT_LIST_BYTES" => Some(Self::VtListBytes),
                    "VT_LIST_TENSOR_DESC" => Some(Self::VtListTensorDesc),
                    "VT_LIST_TENSOR" => Some(Self::VtListTensor),
                    "VT_LIST_GRAPH" => Some(Self::VtListGraph),
                    "VT_LIST_NAMED_ATTRS" => Some(Self::VtListNamedAttrs),
                    "VT_LIST_DATA_TYPE" => Some(Self::VtListDataType),
                    _ => None,
                }
            }
        }
    }
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct ListListInt {
        #[prost(message, repeated, tag = "1")]
        pub list_list_i: ::prost::alloc::vec::Vec<list_list_int::ListInt>,
    }
    /// Nested message and enum types in `ListListInt`.
    pub mod list_list_int {
        #[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
        pub struct ListInt {
            #[prost(int64, repeated, tag = "1")]
            pub list_i: ::prost::alloc::vec::Vec<i64>,
        }
    }
    #[derive(Clone, PartialEq, ::prost::Message)]
    pub struct ListListFloat {
        #[prost(message, repeated, tag = "1")]
        pub list_list_f: ::prost::alloc::vec::Vec<list_list_float::ListFloat>,
    }
    /// Nested message and enum types in `ListListFloat`.
    pub mod list_list_float {
        #[derive(Clone, PartialEq, ::prost::Message)]
        pub struct ListFloat {
            #[prost(float, repeated, tag = "1")]
            pub list_f: ::prost::alloc::vec::Vec<f32>,
        }
    }
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Value {
        #[prost(message, tag = "1")]
        List(::prost::alloc::boxed::Box<ListValue>),
        #[prost(bytes, tag = "2")]
        S(::prost::bytes::Bytes),
        #[prost(int64, tag = "3")]
        I(i64),
        #[prost(float, tag = "4")]
        F(f32),
        #[prost(bool, tag = "5")]
        B(bool),
        #[prost(bytes, tag = "7")]
        Bt(::prost::bytes::Bytes),
        #[prost(message, tag = "10")]
        Func(::prost::alloc::boxed::Box<super::NamedAttrs>),
        #[prost(message, tag = "11")]
        Td(::prost::alloc::boxed::Box<super::TensorDescriptor>),
        #[prost(message, tag = "12")]
        T(::prost::alloc::boxed::Box<super::TensorDef>),
        #[prost(message, tag = "13")]
        G(::prost::alloc::boxed::Box<super::GraphDef>),
        #[prost(message, tag = "14")]
        ListListInt(::prost::alloc::boxed::Box<ListListInt>),
        #[prost(int64, tag = "15")]
        Dt(i64),
        #[prost(message, tag = "16")]
        ListListFloat(::prost::alloc::boxed::Box<ListListFloat>),
        #[prost(bytes, tag = "17")]
        Expression(::prost::bytes::Bytes),
    }
}
/// A named bundle of attributes: a call, or a structured value.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct NamedAttrs {
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    #[prost(btree_map = "string, message", tag = "2")]
    pub attr: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        AttrDef,
    >,
}
/// Sizes, row-major; -1 is an unknown size, a single -2 an unknown rank.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ShapeDef {
    #[prost(int64, repeated, tag = "1")]
    pub dim: ::prost::alloc::vec::Vec<i64>,
}
/// What a tensor is: type, shape, format and where its bytes stand.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct TensorDescriptor {
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    #[prost(enumeration = "DataType", tag = "2")]
    pub dtype: i32,
    #[prost(message, optional, tag = "3")]
    pub shape: ::core::option::Option<ShapeDef>,
    #[prost(string, tag = "4")]
    pub layout: ::prost::alloc::string::String,
    #[prost(btree_map = "string, message", tag = "5")]
    pub attr: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        AttrDef,
    >,
    #[prost(message, optional, tag = "6")]
    pub attr_groups: ::core::option::Option<AttrGroups>,
    #[prost(bool, tag = "9")]
    pub has_out_attr: bool,
    #[prost(int64, tag = "10")]
    pub size: i64,
    #[prost(int64, tag = "11")]
    pub weight_size: i64,
    #[prost(bool, tag = "12")]
    pub reuse_input: bool,
    #[prost(bool, tag = "13")]
    pub output_tensor: bool,
    #[prost(string, tag = "14")]
    pub device_type: ::prost::alloc::string::String,
    #[prost(bool, tag = "15")]
    pub input_tensor: bool,
    #[prost(int64, tag = "16")]
    pub real_dim_cnt: i64,
    #[prost(int64, tag = "17")]
    pub reuse_input_index: i64,
    #[prost(int64, tag = "18")]
    pub data_offset: i64,
    #[prost(int64, tag = "19")]
    pub cmps_size: i64,
    #[prost(string, tag = "20")]
    pub cmps_tab: ::prost::alloc::string::String,
    #[prost(int64, tag = "21")]
    pub cmps_tab_offset: i64,
}
/// A descriptor with its value.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct TensorDef {
    #[prost(message, optional, tag = "1")]
    pub desc: ::core::option::Option<TensorDescriptor>,
    #[prost(bytes = "bytes", tag = "2")]
    pub data: ::prost::bytes::Bytes,
}
/// One operator. `input` holds "node:output index", ":-1" for a control edge.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct OpDef {
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub r#type: ::prost::alloc::string::String,
    #[prost(string, repeated, tag = "5")]
    pub input: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    #[prost(btree_map = "string, message", tag = "10")]
    pub attr: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        AttrDef,
    >,
    #[prost(message, optional, tag = "11")]
    pub attr_groups: ::core::option::Option<AttrGroups>,
    #[prost(bool, tag = "20")]
    pub has_out_attr: bool,
    #[prost(int64, tag = "21")]
    pub id: i64,
    #[prost(int64, tag = "22")]
    pub stream_id: i64,
    #[prost(string, repeated, tag = "23")]
    pub input_name: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    #[prost(string, repeated, tag = "24")]
    pub src_name: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    #[prost(int64, repeated, tag = "25")]
    pub src_index: ::prost::alloc::vec::Vec<i64>,
    #[prost(string, repeated, tag = "26")]
    pub dst_name: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    #[prost(int64, repeated, tag = "27")]
    pub dst_index: ::prost::alloc::vec::Vec<i64>,
    #[prost(int64, repeated, tag = "28")]
    pub input_i: ::prost::alloc::vec::Vec<i64>,
    #[prost(int64, repeated, tag = "29")]
    pub output_i: ::prost::alloc::vec::Vec<i64>,
    #[prost(int64, repeated, tag = "30")]
    pub workspace: ::prost::alloc::vec::Vec<i64>,
    #[prost(int64, repeated, tag = "31")]
    pub workspace_bytes: ::prost::alloc::vec::Vec<i64>,
    #[prost(bool, repeated, tag = "32")]
    pub is_input_const: ::prost::alloc::vec::Vec<bool>,
    #[prost(message, repeated, tag = "33")]
    pub input_desc: ::prost::alloc::vec::Vec<TensorDescriptor>,
    #[prost(message, repeated, tag = "34")]
    pub output_desc: ::prost::alloc::vec::Vec<TensorDescriptor>,
    #[prost(string, repeated, tag = "35")]
    pub subgraph_name: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GraphDef {
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    #[prost(string, repeated, tag = "4")]
    pub input: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    #[prost(string, repeated, tag = "5")]
    pub output: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    #[prost(message, repeated, tag = "6")]
    pub op: ::prost::alloc::vec::Vec<OpDef>,
    #[prost(btree_map = "string, message", tag = "11")]
    pub attr: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        AttrDef,
    >,
    #[prost(message, optional, tag = "12")]
    pub attr_groups: ::core::option::Option<AttrGroups>,
}
/// `graph\[0\]` is the main graph, the others are its subgraphs.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ModelDef {
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    #[prost(uint32, tag = "2")]
    pub version: u32,
    #[prost(string, tag = "3")]
    pub custom_version: ::prost::alloc::string::String,
    #[prost(message, repeated, tag = "7")]
    pub graph: ::prost::alloc::vec::Vec<GraphDef>,
    #[prost(btree_map = "string, message", tag = "11")]
    pub attr: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        AttrDef,
    >,
    #[prost(message, optional, tag = "12")]
    pub attr_groups: ::core::option::Option<AttrGroups>,
}
/// Typed attribute groups (symbolic shapes).
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct AttrGroups {
    #[prost(message, optional, tag = "1")]
    pub other_group_def: ::core::option::Option<OtherGroupDef>,
    #[prost(message, repeated, tag = "2")]
    pub attr_group_def: ::prost::alloc::vec::Vec<AttrGroupDef>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct OtherGroupDef {
    #[prost(btree_map = "string, message", tag = "1")]
    pub attr: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        AttributeDef,
    >,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct AttributeDef {
    #[prost(oneof = "attribute_def::Value", tags = "1, 2, 3, 4, 5")]
    pub value: ::core::option::Option<attribute_def::Value>,
}
/// Nested message and enum types in `AttributeDef`.
pub mod attribute_def {
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Value {
        #[prost(bytes, tag = "1")]
        S(::prost::bytes::Bytes),
        #[prost(int64, tag = "2")]
        I(i64),
        #[prost(float, tag = "3")]
        F(f32),
        #[prost(bool, tag = "4")]
        B(bool),
        #[prost(bytes, tag = "5")]
        Bt(::prost::bytes::Bytes),
    }
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct AttrGroupDef {
    #[prost(oneof = "attr_group_def::AttrGroup", tags = "3, 4")]
    pub attr_group: ::core::option::Option<attr_group_def::AttrGroup>,
}
/// Nested message and enum types in `AttrGroupDef`.
pub mod attr_group_def {
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum AttrGroup {
        #[prost(message, tag = "3")]
        TensorAttrGroup(super::TensorDescAttrGroupsDef),
        #[prost(message, tag = "4")]
        ShapeEnvAttrGroup(super::ShapeEnvAttrGroupsDef),
    }
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct TensorDescAttrGroupsDef {
    #[prost(string, repeated, tag = "1")]
    pub origin_symbol_shape: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    #[prost(string, repeated, tag = "2")]
    pub symbolic_value: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ShapeEnvAttrGroupsDef {
    #[prost(btree_map = "string, int64", tag = "1")]
    pub symbol_to_value: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        i64,
    >,
    #[prost(btree_map = "int64, message", tag = "2")]
    pub value_to_symbol: ::prost::alloc::collections::BTreeMap<i64, SymbolInfoDef>,
    #[prost(btree_map = "string, message", tag = "3")]
    pub symbol_to_source: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        InputSourceDef,
    >,
    #[prost(btree_map = "string, message", tag = "4")]
    pub replacements: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        ReplacementDef,
    >,
    #[prost(message, repeated, tag = "5")]
    pub symbol_check_infos: ::prost::alloc::vec::Vec<SymbolCheckInfoDef>,
    #[prost(message, repeated, tag = "6")]
    pub symbol_assert_infos: ::prost::alloc::vec::Vec<SymbolCheckInfoDef>,
    #[prost(message, optional, tag = "7")]
    pub shape_setting: ::core::option::Option<ShapeEnvSettingDef>,
    #[prost(uint64, tag = "8")]
    pub unique_sym_id: u64,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SymbolInfoDef {
    #[prost(string, repeated, tag = "1")]
    pub symbols: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct InputSourceDef {
    #[prost(int32, tag = "1")]
    pub input_data_idx: i32,
    #[prost(int64, tag = "2")]
    pub dim_idx: i64,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReplacementDef {
    #[prost(string, tag = "1")]
    pub replace_expr: ::prost::alloc::string::String,
    #[prost(int32, tag = "2")]
    pub rank: i32,
}
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SymbolCheckInfoDef {
    #[prost(string, tag = "1")]
    pub expr: ::prost::alloc::string::String,
    #[prost(string, tag = "2")]
    pub file: ::prost::alloc::string::String,
    #[prost(int64, tag = "3")]
    pub line: i64,
    #[prost(string, tag = "4")]
    pub dfx: ::prost::alloc::string::String,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ShapeEnvSettingDef {
    #[prost(bool, tag = "1")]
    pub specialize_zero_one: bool,
    #[prost(int32, tag = "2")]
    pub dynamic_mode: i32,
}
/// Element types. Numbers above 31 are unknown to older readers, see `desc.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum DataType {
    DtUndefined = 0,
    DtFloat = 1,
    DtFloat16 = 2,
    DtInt8 = 3,
    DtUint8 = 4,
    DtInt16 = 5,
    DtUint16 = 6,
    DtInt32 = 7,
    DtInt64 = 8,
    DtUint32 = 9,
    DtUint64 = 10,
    DtBool = 11,
    DtDouble = 12,
    DtString = 13,
    DtDualSubInt8 = 14,
    DtDualSubUint8 = 15,
    DtComplex64 = 16,
    DtComplex128 = 17,
    DtQint8 = 18,
    DtQint16 = 19,
    DtQint32 = 20,
    DtQuint8 = 21,
    DtQuint16 = 22,
    DtResource = 23,
    DtStringRef = 24,
    DtDual = 25,
    DtVariant = 26,
    DtBf16 = 27,
    DtInt4 = 28,
    DtUint1 = 29,
    DtInt2 = 30,
    DtUint2 = 31,
    DtComplex32 = 32,
    DtHifloat8 = 33,
    DtFloat8E5m2 = 34,
    DtFloat8E4m3fn = 35,
    DtFloat8E8m0 = 36,
    DtFloat6E3m2 = 37,
    DtFloat6E2m3 = 38,
    DtFloat4E2m1 = 39,
    DtFloat4E1m2 = 40,
    DtHifloat4 = 41,
    DtHifloat4Scale = 42,
}
impl DataType {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::DtUndefined => "DT_UNDEFINED",
            Self::DtFloat => "DT_FLOAT",
            Self::DtFloat16 => "DT_FLOAT16",
            Self::DtInt8 => "DT_INT8",
            Self::DtUint8 => "DT_UINT8",
            Self::DtInt16 => "DT_INT16",
            Self::DtUint16 => "DT_UINT16",
            Self::DtInt32 => "DT_INT32",
            Self::DtInt64 => "DT_INT64",
            Self::DtUint32 => "DT_UINT32",
            Self::DtUint64 => "DT_UINT64",
            Self::DtBool => "DT_BOOL",
            Self::DtDouble => "DT_DOUBLE",
            Self::DtString => "DT_STRING",
            Self::DtDualSubInt8 => "DT_DUAL_SUB_INT8",
            Self::DtDualSubUint8 => "DT_DUAL_SUB_UINT8",
            Self::DtComplex64 => "DT_COMPLEX64",
            Self::DtComplex128 => "DT_COMPLEX128",
            Self::DtQint8 => "DT_QINT8",
            Self::DtQint16 => "DT_QINT16",
            Self::DtQint32 => "DT_QINT32",
            Self::DtQuint8 => "DT_QUINT8",
            Self::DtQuint16 => "DT_QUINT16",
            Self::DtResource => "DT_RESOURCE",
            Self::DtStringRef => "DT_STRING_REF",
            Self::DtDual => "DT_DUAL",
            Self::DtVariant => "DT_VARIANT",
            Self::DtBf16 => "DT_BF16",
            Self::DtInt4 => "DT_INT4",
            Self::DtUint1 => "DT_UINT1",
            Self::DtInt2 => "DT_INT2",
            Self::DtUint2 => "DT_UINT2",
            Self::DtComplex32 => "DT_COMPLEX32",
            Self::DtHifloat8 => "DT_HIFLOAT8",
            Self::DtFloat8E5m2 => "DT_FLOAT8_E5M2",
            Self::DtFloat8E4m3fn => "DT_FLOAT8_E4M3FN",
            Self::DtFloat8E8m0 => "DT_FLOAT8_E8M0",
            Self::DtFloat6E3m2 => "DT_FLOAT6_E3M2",
            Self::DtFloat6E2m3 => "DT_FLOAT6_E2M3",
            Self::DtFloat4E2m1 => "DT_FLOAT4_E2M1",
            Self::DtFloat4E1m2 => "DT_FLOAT4_E1M2",
            Self::DtHifloat4 => "DT_HIFLOAT4",
            Self::DtHifloat4Scale => "DT_HIFLOAT4_SCALE",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "DT_UNDEFINED" => Some(Self::DtUndefined),
            "DT_FLOAT" => Some(Self::DtFloat),
            "DT_FLOAT16" => Some(Self::DtFloat16),
            "DT_INT8" => Some(Self::DtInt8),
            "DT_UINT8" => Some(Self::DtUint8),
            "DT_INT16" => Some(Self::DtInt16),
            "DT_UINT16" => Some(Self::DtUint16),
            "DT_INT32" => Some(Self::DtInt32),
            "DT_INT64" => Some(Self::DtInt64),
            "DT_UINT32" => Some(Self::DtUint32),
            "DT_UINT64" => Some(Self::DtUint64),
            "DT_BOOL" => Some(Self::DtBool),
            "DT_DOUBLE" => Some(Self::DtDouble),
            "DT_STRING" => Some(Self::DtString),
            "DT_DUAL_SUB_INT8" => Some(Self::DtDualSubInt8),
            "DT_DUAL_SUB_UINT8" => Some(Self::DtDualSubUint8),
            "DT_COMPLEX64" => Some(Self::DtComplex64),
            "DT_COMPLEX128" => Some(Self::DtComplex128),
            "DT_QINT8" => Some(Self::DtQint8),
            "DT_QINT16" => Some(Self::DtQint16),
            "DT_QINT32" => Some(Self::DtQint32),
            "DT_QUINT8" => Some(Self::DtQuint8),
            "DT_QUINT16" => Some(Self::DtQuint16),
            "DT_RESOURCE" => Some(Self::DtResource),
            "DT_STRING_REF" => Some(Self::DtStringRef),
            "DT_DUAL" => Some(Self::DtDual),
            "DT_VARIANT" => Some(Self::DtVariant),
            "DT_BF16" => Some(Self::DtBf16),
            "DT_INT4" => Some(Self::DtInt4),
            "DT_UINT1" => Some(Self::DtUint1),
            "DT_INT2" => Some(Self::DtInt2),
            "DT_UINT2" => Some(Self::DtUint2),
            "DT_COMPLEX32" => Some(Self::DtComplex32),
            "DT_HIFLOAT8" => Some(Self::DtHifloat8),
            "DT_FLOAT8_E5M2" => Some(Self::DtFloat8E5m2),
            "DT_FLOAT8_E4M3FN" => Some(Self::DtFloat8E4m3fn),
            "DT_FLOAT8_E8M0" => Some(Self::DtFloat8E8m0),
            "DT_FLOAT6_E3M2" => Some(Self::DtFloat6E3m2),
            "DT_FLOAT6_E2M3" => Some(Self::DtFloat6E2m3),
            "DT_FLOAT4_E2M1" => Some(Self::DtFloat4E2m1),
            "DT_FLOAT4_E1M2" => Some(Self::DtFloat4E1m2),
            "DT_HIFLOAT4" => Some(Self::DtHifloat4),
            "DT_HIFLOAT4_SCALE" => Some(Self::DtHifloat4Scale),
            _ => None,
        }
    }
}
