//! The library's exports.
#![allow(unsafe_code, missing_docs)]
use ge_plugin_api::author::SimpleEngine;
use ge_plugin_api::engine::flags;

ge_plugin_api::ge_plugin! {
    name: "onnx_ml", kinds: ["engine", "ops", "frontend"], provides: ["OnnxMlEngine"]
}

ge_plugin_api::register_engine!(|| {
    let engine = SimpleEngine::new(crate::ENGINE).cost(3).user_name("OnnxMl");
    Box::new(engine.flags(flags::AICPU | flags::ATTACH))
});
