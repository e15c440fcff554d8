//! The engine. Source of cost and flags: facts 1.3.
use ge_plugin_api::engine::{Engine, EngineInfo, Support, flags};
use ge_plugin_api::view::Node;

/// The engine.
pub struct Dvpp;

impl Engine for Dvpp {
    fn info(&self) -> EngineInfo {
        EngineInfo {
            name: "DNN_VM_DVPP".into(),
            kernel_lib: "DNN_VM_DVPP_OP_STORE".into(),
            user_name: "Dvpp".into(),
            cost: 5,
            flags: flags::ATTACH,
            scheduler_id: "TS_1".into(),
            optimizer_priority: 4,
        }
    }
    fn op_types(&self) -> Vec<String> {
        Vec::new()
    }
    fn supports(&self, _: &Node<'_>) -> Support {
        Support::no("type")
    }
}
