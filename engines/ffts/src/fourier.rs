//! FFTEngine: Fourier transforms of any length. They are planned once at load, and their lines are
//! divided among blocks.
use crate::kernel::{self, Lines};
use crate::plan::{OPS, Plan};
use ge_plugin_api::author::simple::plain_args_format;
use ge_plugin_api::device::SocSpec;
use ge_plugin_api::engine::{
    Engine, EngineInfo, KernelBinary, LoadRequest, RunningParams, Support, Target, TaskContext,
};
use ge_plugin_api::kernel::LoadedKernel;
use ge_plugin_api::task::{KernelTask, KernelType, Task};
use ge_plugin_api::view::Node;
use ge_plugin_api::{Error, Result};

/// Minimum number of elementary operations that justifies a block.
const GRAIN: u64 = 32 * 1024;
/// Elementary operations per core per nanosecond, for planning.
const OPS_PER_NS: u64 = 4;

/// The engine `FFTEngine`.
pub struct FftEngine;

fn plan(node: &Node<'_>) -> Result<Plan> {
    Plan::of_node(node).map_err(|why| Error::unsupported(why).at_node(node.name(), node.op()))
}

fn blocks(plan: &Plan, cores: u32) -> u32 {
    let worth = (plan.work() / GRAIN).clamp(1, u64::from(cores.max(1)));
    u32::try_from(worth.min(plan.lines().max(1))).unwrap_or(1)
}

impl Engine for FftEngine {
    fn info(&self) -> EngineInfo {
        EngineInfo {
            name: "FFTEngine".into(),
            kernel_lib: "FFTEngine".into(),
            user_name: String::new().into(),
            cost: 2,
            flags: 0,
            scheduler_id: "TS_1".into(),
            optimizer_priority: 51,
        }
    }
    fn op_types(&self) -> Vec<String> {
        OPS.iter().map(|o| (*o).to_owned()).collect()
    }
    fn supports(&self, node: &Node<'_>) -> Support {
        match Plan::of_node(node) {
            Ok(_) => Support::Yes,
            Err(why) => Support::no(why),
        }
    }
    fn calc_op_running_param(&self, node: &Node<'_>, _: &Target) -> Result<RunningParams> {
        plan(node)?;
        Ok(RunningParams { task_count: 1, ..RunningParams::default() })
    }
    fn compile(&self, node: &Node<'_>, _: &Target) -> Result<Option<KernelBinary>> {
        let binary = plan(node)?.encode();
        let digest =
            binary.iter().fold(0xcbf2_9ce4_8422_2325u64, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        Ok(Some(KernelBinary { name: format!("fft_{}_{digest:016x}", node.op()).into(), binary: binary.into() }))
    }
    fn generate_task(&self, node: &Node<'_>, context: &TaskContext) -> Result<Vec<Task>> {
        let plan = plan(node)?;
        Ok(vec![Task::kernel(KernelTask {
            kernel_name: context.kernel.as_ref().map(|k| k.name.clone()).unwrap_or_default(),
            kernel_type: KernelType::TE.code(),
            block_dim: blocks(&plan, context.target.soc.aic_cores),
            args_format: plain_args_format(node, 0).into(),
            ..KernelTask::default()
        })])
    }
    fn time_ns(&self, node: &Node<'_>, soc: &SocSpec) -> u64 {
        match Plan::of_node(node) {
            Ok(p) => soc.task_launch_ns + p.work() / u64::from(blocks(&p, soc.aic_cores)) / OPS_PER_NS,
            Err(_) => 0,
        }
    }
    fn load_kernel(&self, request: &LoadRequest) -> Result<LoadedKernel> {
        let plan = Plan::decode(&request.binary)
            .ok_or_else(|| Error::damaged("unknown kernel binary of FFTEngine").at_node(&request.node, &request.op))?;
        let lines = Lines::new(plan, request).map_err(|e| e.at_node(&request.node, &request.op))?;
        Ok(kernel::on_device(lines, request))
    }
}
