//! The library's exports.
#![allow(unsafe_code, missing_docs)]
ge_plugin_api::ge_plugin! { name: "rts", kinds: ["engine"], provides: ["DNN_VM_RTS"] }
ge_plugin_api::register_engine!(|| Box::new(crate::Rts));
