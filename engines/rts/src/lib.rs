//! DNN_VM_RTS: runtime services, namely streams, labels, events and copies.
//!
//! [`store`] decides which operators the engine takes, [`build`] makes their task lists, and
//! [`execute`] loads those that need a kernel.
#![deny(unsafe_code)]

/// Operators that the engine takes.
pub mod store;
/// Task lists of nodes.
pub mod build;
/// Kernels that run on the device.
pub mod execute;

use ge_plugin_api::Result;
use ge_plugin_api::abi::ROption;
use ge_plugin_api::device::{ModelSink, SocSpec};
use ge_plugin_api::engine::{
    Engine, EngineInfo, KernelBinary, LoadRequest, RunningParams, Support, Target, TaskContext, flags,
};
use ge_plugin_api::kernel::LoadedKernel;
use ge_plugin_api::task::Task;
use ge_plugin_api::view::Node;

/// The engine `DNN_VM_RTS`.
pub struct Rts;

impl Engine for Rts {
    fn info(&self) -> EngineInfo {
        EngineInfo {
            name: "DNN_VM_RTS".into(),
            kernel_lib: "DNN_VM_RTS_OP_STORE".into(),
            user_name: "Rts".into(),
            cost: 2,
            flags: flags::ATTACH | flags::RUNTIME_TASKS,
            scheduler_id: "TS_1".into(),
            optimizer_priority: 100,
        }
    }
    fn op_types(&self) -> Vec<String> {
        store::OPS.iter().map(|o| o.name.to_owned()).collect()
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
    fn compile(&self, node: &Node<'_>, target: &Target) -> Result<Option<KernelBinary>> {
        build::compile(node, target)
    }
    fn generate_task(&self, node: &Node<'_>, context: &TaskContext) -> Result<Vec<Task>> {
        build::tasks(node, context)
    }
    fn time_ns(&self, node: &Node<'_>, _: &SocSpec) -> u64 {
        build::time_ns(node)
    }
    fn load_kernel(&self, request: &LoadRequest) -> Result<LoadedKernel> {
        execute::clear::load(request)
    }
    fn load_task(&self, request: &LoadRequest, device: &mut ModelSink<'_>) -> Result<()> {
        match &request.task.kernel {
            ROption::RSome(_) => device.bind_kernel(request, self.load_kernel(request)?),
            ROption::RNone => {
                let task = device.resolved().clone();
                device.bind_task(task).map(|_| ())
            }
        }
    }
}

mod plugin;
