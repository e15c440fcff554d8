//! The library's exports.
#![allow(unsafe_code, missing_docs)]
ge_plugin_api::ge_plugin! { name: "local", kinds: ["engine"], provides: ["DNN_VM_GE_LOCAL"] }
ge_plugin_api::register_engine!(|| Box::new(crate::Local));
