//! `CpuEngine`: one engine over the operator table. The three engines differ only in name, cost and
//! flags (facts 1.3).
use super::{TABLE, supports};
use crate::op::Op;
use ge_plugin_api::abi::RString;
use ge_plugin_api::author::simple::{host_kernel_on_device, plain_args_format};
use ge_plugin_api::device::SocSpec;
use ge_plugin_api::engine::{Engine, EngineInfo, KernelBinary, LoadRequest, Support, Target, TaskContext, flags};
use ge_plugin_api::kernel::{HostKernel, KernelCtx, LoadedKernel};
use ge_plugin_api::register_engine;
use ge_plugin_api::task::{KernelTask, KernelType, Task};
use ge_plugin_api::types::Format;
use ge_plugin_api::view::Node;
use ge_plugin_api::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

struct Kernel(Op);
impl HostKernel for Kernel {
    fn run(&self, ctx: &mut KernelCtx<'_>) -> Result<()> {
        self.0.run(ctx)
    }
}

/// One of the three engines.
pub struct CpuEngine {
    info: EngineInfo,
    kernels: BTreeMap<&'static str, Kernel>,
}

impl CpuEngine {
    fn new(name: &str, lib: &str, user_name: &str, cost: u32, flags: u64, optimizer_priority: u32) -> CpuEngine {
        let info = EngineInfo {
            name: name.into(),
            kernel_lib: lib.into(),
            user_name: user_name.into(),
            cost,
            flags,
            scheduler_id: RString::from("TS_1"),
            optimizer_priority,
        };
        CpuEngine { info, kernels: TABLE.iter().map(|(name, op)| (*name, Kernel(*op))).collect() }
    }
    /// `DNN_VM_AICPU_ASCEND`, cost 3: the fallback.
    pub fn aicpu_ascend() -> CpuEngine {
        CpuEngine::new("DNN_VM_AICPU_ASCEND", "aicpu_ascend_kernel", "AiCpuAscend", 3, flags::ATTACH | flags::AICPU, 3)
    }
    /// `DNN_VM_AICPU`, cost 4.
    pub fn aicpu() -> CpuEngine {
        CpuEngine::new("DNN_VM_AICPU", "aicpu_tf_kernel", "AiCpu", 4, flags::ATTACH | flags::AICPU, 1)
    }
    /// `DNN_VM_HOST_CPU`, cost 10: folds constants and runs host-scheduled parts.
    pub fn host_cpu() -> CpuEngine {
        let f = flags::SKIP_ASSIGN_STREAM | flags::ATTACH | flags::HOST_RUNTIME | flags::FOLDS_CONSTANTS;
        CpuEngine::new("DNN_VM_HOST_CPU", "DNN_VM_HOST_CPU_OP_STORE", "HostCpu", 10, f, 13)
    }
}

/// Whether a node only gives its input's bytes another shape, of known size. An engine without
/// tasks does that for free, so this engine must not win by its lower cost. A node of unknown size
/// needs a kernel.
fn is_view(node: &Node<'_>) -> bool {
    const VIEWS: [&str; 11] = [
        "Reshape",
        "Flatten",
        "FlattenV2",
        "Squeeze",
        "SqueezeV2",
        "SqueezeV3",
        "Unsqueeze",
        "UnsqueezeV2",
        "UnsqueezeV3",
        "ExpandDims",
        "SameSize",
    ];
    let (Some(x), [y]) = (node.input_desc(0), node.outputs()) else { return false };
    VIEWS.contains(&node.op())
        && x.dtype == y.dtype
        && (x.format, y.format) == (Format::ND, Format::ND)
        && x.data_bytes().is_some_and(|b| y.data_bytes() == Some(b))
}

impl Engine for CpuEngine {
    fn info(&self) -> EngineInfo {
        self.info.clone()
    }
    fn op_types(&self) -> Vec<String> {
        self.kernels.keys().map(|k| (*k).to_owned()).collect()
    }
    fn supports(&self, node: &Node<'_>) -> Support {
        if is_view(node) {
            return Support::no("it is a view of input 0: it needs no kernel");
        }
        supports(node)
    }
    fn compile(&self, node: &Node<'_>, _: &Target) -> Result<Option<KernelBinary>> {
        // In the simulator, the binary of a kernel is the operator type; attributes travel with the
        // node.
        let name = format!("{}_{}", self.info.name, node.op());
        Ok(Some(KernelBinary { name: name.into(), binary: node.op().as_bytes().into() }))
    }
    fn generate_task(&self, node: &Node<'_>, context: &TaskContext) -> Result<Vec<Task>> {
        let kernel_name = context.kernel.as_ref().map(|k| k.name.clone()).unwrap_or_default();
        Ok(vec![Task::kernel(KernelTask {
            kernel_name,
            kernel_type: KernelType::AI_CPU.code(),
            block_dim: 1,
            args_format: plain_args_format(node, 0).into(),
            ..KernelTask::default()
        })])
    }
    fn operations(&self, node: &Node<'_>) -> u64 {
        super::work::operations(node).unwrap_or(0)
    }
    fn time_ns(&self, node: &Node<'_>, soc: &SocSpec) -> u64 {
        soc.task_launch_ns.saturating_add(super::work::time_ns(node))
    }
    fn load_kernel(&self, request: &LoadRequest) -> Result<LoadedKernel> {
        let op = TABLE.get(request.op.as_str());
        let op = op.ok_or_else(|| Error::damaged(format!("{} has no kernel for {}", self.info.name, request.op)))?;
        host_kernel_on_device(Arc::new(Kernel(*op)), request)
    }
    fn host_kernel(&self, op: &str) -> Option<&dyn HostKernel> {
        self.kernels.get(op).map(|k| k as &dyn HostKernel)
    }
}

register_engine!(|| Box::new(CpuEngine::aicpu_ascend()));
register_engine!(|| Box::new(CpuEngine::aicpu()));
register_engine!(|| Box::new(CpuEngine::host_cpu()));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_engines_with_their_costs_and_flags() {
        let mut engines = ge_plugin_api::author::registry::engines();
        let infos: Vec<_> = engines.iter_mut().map(|e| e.info().unwrap()).collect();
        let seen: Vec<_> =
            infos.iter().map(|i| (i.name.as_str(), i.cost, i.flags & flags::FOLDS_CONSTANTS != 0)).collect();
        assert_eq!(
            seen,
            [("DNN_VM_AICPU", 4, false), ("DNN_VM_AICPU_ASCEND", 3, false), ("DNN_VM_HOST_CPU", 10, true)]
        );
        assert!(engines[2].has_host_kernel("Add") && !engines[2].has_host_kernel("NoSuchOperator"));
    }
}
