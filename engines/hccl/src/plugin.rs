//! The library's exports.
#![allow(unsafe_code, missing_docs)]
ge_plugin_api::ge_plugin! { name: "hccl", kinds: ["engine"], provides: ["DNN_HCCL"] }
ge_plugin_api::register_engine!(|| Box::new(crate::engine::Hccl));
