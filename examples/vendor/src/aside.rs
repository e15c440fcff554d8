//! `AcmeSquareSum(x) -> y`: `x * x + x`. The squares are computed on an attached stream beside the
//! node's own, which waits for them.
use ge_plugin_api::device::SocSpec;
use ge_plugin_api::engine::{AttachedStream, SyncResource};
use ge_plugin_api::prelude::*;

register_op!(|| OpDef::new("AcmeSquareSum", infer::same).input("x", &[DType::F32], "T").output("y", &[DType::F32], "T"));

struct AcmeAside;
register_engine!(|| Box::new(AcmeAside));

/// Name of the stream, and of the event that signals that its work is done.
const NAME: &str = "acme_squares";

fn bytes(node: &Node<'_>) -> Result<u64, String> {
    node.input_desc(0).and_then(|d| d.data_bytes()).ok_or_else(|| "the shape is not static".to_owned())
}

impl Engine for AcmeAside {
    fn info(&self) -> EngineInfo {
        EngineInfo::new("AcmeAside", 1)
    }
    fn op_types(&self) -> Vec<String> {
        vec!["AcmeSquareSum".into()]
    }
    fn supports(&self, node: &Node<'_>) -> Support {
        bytes(node).map_or_else(Support::no, |_| Support::Yes)
    }
    fn calc_op_running_param(&self, node: &Node<'_>, _: &Target) -> Result<RunningParams> {
        let workspace = Workspace { bytes: bytes(node).map_err(Error::unsupported)?, ..Workspace::default() };
        let stream = AttachedStream { name: NAME.into(), required: true, ..AttachedStream::default() };
        let event = SyncResource { name: NAME.into(), ..SyncResource::default() };
        Ok(RunningParams {
            workspaces: vec![workspace].into(),
            attached: vec![stream].into(),
            sync: vec![event].into(),
            ..RunningParams::default()
        })
    }
    fn compile(&self, _: &Node<'_>, _: &Target) -> Result<Option<KernelBinary>> {
        Ok(Some(KernelBinary::new("acme_square_sum", b"aside")))
    }
    fn generate_task(&self, _: &Node<'_>, _: &TaskContext) -> Result<Vec<Task>> {
        let aside = StreamSlot::attached(0);
        let squares = KernelTask::new("acme_square_sum", 1, "{i0*}{ws0*}");
        let sum = KernelTask { tiling_key: 1, ..KernelTask::new("acme_square_sum", 1, "{i0*}{ws0*}{o0*}") };
        // On the attached stream: the squares, then the record. On the node's own: first the wait.
        Ok(vec![Task::kernel(squares).on(aside), Task::record(0).on(aside), Task::wait(0), Task::kernel(sum)])
    }
    fn time_ns(&self, _: &Node<'_>, _: &SocSpec) -> u64 {
        2_000
    }
    fn load_kernel(&self, request: &LoadRequest) -> Result<LoadedKernel> {
        let sum = request.launch()?.tiling_key == 1;
        let access: &[Access] = match sum {
            true => &[Access::READ, Access::READ, Access::WRITE],
            false => &[Access::READ, Access::WRITE],
        };
        Ok(block_kernel(Box::new(Phase { sum }), request.arg_bytes()?, access.to_vec(), 0))
    }
}

struct Phase {
    sum: bool,
}
impl BlockKernel for Phase {
    fn run(&self, call: &BlockArgs<'_>) -> Result<()> {
        let x = call.input::<f32>(0)?;
        if !self.sum {
            call.output::<f32>(1, 0..x.len())?.iter_mut().zip(x).for_each(|(s, x)| *s = x * x);
            return Ok(());
        }
        let squares = call.input::<f32>(1)?;
        for ((y, s), x) in call.output::<f32>(2, 0..x.len())?.iter_mut().zip(squares).zip(x) {
            *y = s + x;
        }
        Ok(())
    }
}
