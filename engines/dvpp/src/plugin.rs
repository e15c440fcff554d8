//! The library's exports.
#![allow(unsafe_code, missing_docs)]
ge_plugin_api::ge_plugin! { name: "dvpp", kinds: ["engine", "ops", "frontend"], provides: ["DNN_VM_DVPP"] }
ge_plugin_api::register_engine!(|| Box::new(crate::engine::Dvpp));
