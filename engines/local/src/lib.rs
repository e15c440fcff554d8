//! DNN_VM_GE_LOCAL: operators without a task.
//!
//! Rooms: [`store`] says which operators it takes and why not the others, [`build`] what it wants
//! of the memory plan. There is no `execute`: nothing of this engine reaches a device.
#![deny(unsafe_code)]

/// What it takes.
pub mod store;
/// What it says of memory.
pub mod build;

use ge_plugin_api::Result;
use ge_plugin_api::engine::{Engine, EngineInfo, RunningParams, Support, Target, flags};
use ge_plugin_api::view::Node;

/// The engine.
pub struct Local;

impl Engine for Local {
    fn info(&self) -> EngineInfo {
        EngineInfo {
            name: "DNN_VM_GE_LOCAL".into(),
            kernel_lib: "DNN_VM_GE_LOCAL_OP_STORE".into(),
            user_name: "GeLocal".into(),
            cost: 9,
            flags: flags::SKIP_ASSIGN_STREAM | flags::ATTACH | flags::NO_TASK | flags::STRUCTURAL,
            scheduler_id: "TS_1".into(),
            optimizer_priority: 100,
        }
    }
    fn op_types(&self) -> Vec<String> {
        store::types().map(str::to_owned).collect()
    }
    fn supports(&self, node: &Node<'_>) -> Support {
        match store::refusal(node) {
            None => Support::Yes,
            Some(reason) => Support::no(reason),
        }
    }
    fn calc_op_running_param(&self, node: &Node<'_>, _: &Target) -> Result<RunningParams> {
        Ok(build::running_params(node))
    }
}

mod plugin;
