//! DNN_VM_GE_LOCAL: operators without a task.
#![allow(missing_docs)]
ge_plugin_api::ge_plugin! { name: "local", kinds: ["engine"], provides: ["DNN_VM_GE_LOCAL"] }
