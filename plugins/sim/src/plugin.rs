//! The exports of the plugin library.
#![allow(unsafe_code, missing_docs)]
ge_plugin_api::ge_plugin! { name: "sim", kinds: ["device"], provides: ["sim"] }
ge_plugin_api::register_device!(|| Box::new(crate::device::Sim));
