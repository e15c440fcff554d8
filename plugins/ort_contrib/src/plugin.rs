//! The library's exports.
#![allow(unsafe_code, missing_docs)]
use ge_plugin_api::author::SimpleEngine;
use ge_plugin_api::engine::flags;

ge_plugin_api::ge_plugin! {
    name: "ort_contrib", kinds: ["engine", "ops", "frontend"], provides: ["OrtContribEngine"]
}

ge_plugin_api::register_engine!(|| {
    let engine = SimpleEngine::new(crate::ENGINE).cost(3).user_name("OrtContrib");
    Box::new(engine.flags(flags::AICPU | flags::ATTACH))
});
