//! DNN_VM_GE_LOCAL: operators without a task.
//!
//! [`store`] decides which operators the engine takes and why it refuses others, and [`build`]
//! states what it needs from the memory plan. There is no `execute`: nothing of this engine reaches
//! a device.
#![deny(unsafe_code)]

/// Operators that the engine takes.
pub mod store;
/// What the engine needs from the memory plan.
pub mod build;

use ge_plugin_api::Result;
use ge_plugin_api::engine::{Engine, EngineInfo, RunningParams, Support, Target, flags};
use ge_plugin_api::view::Node;

/// The engine `DNN_VM_GE_LOCAL`.
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
