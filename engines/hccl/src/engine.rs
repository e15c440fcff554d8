//! The engine: builder and executor. Source of cost and flags: facts 1.3.
use crate::collective::{ANY_RANKS, Collective, reduces};
use crate::schedule::{Step, steps};
use crate::{store, transfer};
use ge_plugin_api::abi::ROption;
use ge_plugin_api::device::{DeviceTask, ModelSink, SocSpec};
use ge_plugin_api::engine::{
    Engine, EngineInfo, Hook, LoadRequest, RunningParams, Support, SyncResource, Target, TaskContext, flags,
};
use ge_plugin_api::kernel::{Access, BlockArgs, BlockKernel, block_kernel};
use ge_plugin_api::patch::Patch;
use ge_plugin_api::task::{Task, TaskType};
use ge_plugin_api::view::{Graph, Node};
use ge_plugin_api::{Error, Result};

/// Bytes per nanosecond of a transfer between ranks, for planning.
const BYTES_PER_NS: u64 = 25;

/// The engine `DNN_HCCL`.
pub struct Hccl;

/// The share of a stream that a node may take when its SQEs are counted and the size of its group
/// is unknown: one of this many parts.
const STREAM_SHARE: u32 = 8;
/// The least number of ranks that is counted for such a node.
const LEAST_RANKS: u32 = 8;

/// Copies and reductions of a node: two for each rank and input. For a group of unknown size, those
/// of as many ranks as a share of a stream of this SoC holds.
fn moves(c: &Collective, inputs: usize, soc: &SocSpec) -> u32 {
    let each = u32::try_from(inputs).unwrap_or(u32::MAX).saturating_mul(2).max(1);
    let ranks = match c.ranks {
        0 if soc.tasks_normal == 0 => ANY_RANKS,
        0 => (soc.tasks_normal / STREAM_SHARE / each).clamp(LEAST_RANKS, ANY_RANKS),
        n => n,
    };
    ranks.saturating_mul(each)
}

/// Kernel that fills its argument with zeros.
struct Zeros;

impl BlockKernel for Zeros {
    fn run(&self, call: &BlockArgs<'_>) -> Result<()> {
        call.output::<u8>(0, call.part(call.len(0), 64))?.fill(0);
        Ok(())
    }
}

fn collective(node: &Node<'_>, ranks: u32) -> Result<Collective> {
    let refused = |why: String| Error::unsupported(why).at_node(node.name(), node.op());
    if let Some(why) = store::refusal(node) {
        return Err(refused(why));
    }
    if let Some(own) = node.int("rank_size").filter(|n| *n != i64::from(ranks)) {
        return Err(refused(format!("its rank_size is {own}, other nodes of the model have {ranks}")));
    }
    let kind = store::kind(node.op()).ok_or_else(|| refused("type".into()))?;
    let c = Collective::of_node(node, kind, ranks).map_err(refused)?;
    match c.misfit(ranks).filter(|_| ranks > 0) {
        Some(why) => Err(refused(why)),
        None => Ok(c),
    }
}

impl Engine for Hccl {
    fn info(&self) -> EngineInfo {
        EngineInfo {
            name: "DNN_HCCL".into(),
            kernel_lib: "ops_kernel_info_hccl".into(),
            user_name: "Hccl".into(),
            cost: 2,
            flags: flags::INDEPENDENT | flags::OWNS_STREAM_DYNAMIC,
            scheduler_id: "TS_1".into(),
            optimizer_priority: 5,
        }
    }
    fn op_types(&self) -> Vec<String> {
        let halves = [transfer::SEND, transfer::RECEIVE];
        store::OPS.iter().map(|o| o.0).chain(halves).map(str::to_owned).collect()
    }
    fn optimize(&self, hook: Hook, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        if hook == Hook::ORIGINAL_GRAPH {
            transfer::pair(graph, patch);
        }
        Ok(())
    }
    fn supports(&self, node: &Node<'_>) -> Support {
        match store::refusal(node) {
            None => Support::Yes,
            Some(why) => Support::no(why),
        }
    }
    fn calc_op_running_param(&self, node: &Node<'_>, target: &Target) -> Result<RunningParams> {
        let c = collective(node, target.rank_size)?;
        let sync = (0..c.notifies()).map(|k| SyncResource {
            name: format!("hccl_notify_{k}").into(),
            notify: true,
            reuse_key: c.reuse_key(k).into(),
        });
        Ok(RunningParams { sync: sync.collect(), task_count: 1, ..RunningParams::default() })
    }
    fn generate_task(&self, node: &Node<'_>, context: &TaskContext) -> Result<Vec<Task>> {
        let c = collective(node, context.rank_size)?;
        let mut operands = String::new();
        (0..node.inputs().len()).for_each(|i| operands.push_str(&format!("{{i{i}*}}")));
        (0..node.outputs().len()).for_each(|k| operands.push_str(&format!("{{o{k}*}}")));
        let barriers = c.notifies() * 2;
        let moves = moves(&c, node.inputs().len(), &context.target.soc);
        Ok(vec![Task {
            operands: operands.into(),
            private: c.encode().into(),
            sqe_num: barriers.saturating_add(moves).max(1),
            ..Task::new(TaskType::HCCL)
        }])
    }
    fn time_ns(&self, node: &Node<'_>, soc: &SocSpec) -> u64 {
        let bytes = node.outputs().iter().filter_map(|d| d.data_bytes()).fold(0, u64::saturating_add);
        4 * (soc.event_record_ns + soc.event_wait_ns) + bytes / BYTES_PER_NS
    }
    fn load_task(&self, request: &LoadRequest, device: &mut ModelSink<'_>) -> Result<()> {
        let bad = |what: String| Error::damaged(format!("task of `{}`: {what}", request.node));
        let c = Collective::decode(&request.task.private).ok_or_else(|| bad("unknown private bytes".into()))?;
        let ranks = request.rank_size.max(1);
        if request.rank >= ranks || (c.ranks != 0 && c.ranks != ranks) {
            return Err(bad(format!("it is for {} ranks, rank {} of {ranks} runs it", c.ranks, request.rank)));
        }
        if let Some(why) = c.misfit(ranks) {
            return Err(Error::usage(why).at_node(&request.node, &request.op));
        }
        let notifies = &request.task.numbers;
        if notifies.len() as u64 != u64::from(c.notifies()) {
            return Err(bad(format!("{} notifies, it needs {}", notifies.len(), c.notifies())));
        }
        let base = device.resolved().clone();
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        for (a, &p) in request.args.iter().zip(base.args.iter()) {
            let data = a.desc.as_ref().into_option().and_then(|d| d.data_bytes());
            let data = data.filter(|n| *n <= p.bytes).ok_or_else(|| bad("an operand without data".into()))?;
            let place = ge_plugin_api::device::Place { bytes: data, ..p };
            if a.kind.as_str() == "o" { outputs.push(place) } else { inputs.push(place) }
        }
        let width = c.dtype.bytes_of(1).filter(|w| *w > 0).ok_or_else(|| bad(format!("elements of {}", c.dtype)))?;
        check(&c, ranks, width, &inputs, &outputs).map_err(bad)?;
        for step in steps(&c, ranks, request.rank, width, &inputs, &outputs) {
            let id = |slot: u32| notifies.get(slot as usize).copied().unwrap_or(-1);
            let kind = step.kind();
            let mut kernel = ROption::RNone;
            let (numbers, args, access) = match step {
                Step::Clear { to } => {
                    let zeros = block_kernel(Box::new(Zeros), vec![to.bytes], vec![Access::WRITE], 0);
                    kernel = ROption::RSome(device.register(zeros)?);
                    (vec![], vec![to], vec![Access::WRITE])
                }
                Step::Record { slot, rank } => (vec![id(slot), i64::from(rank)], vec![], vec![]),
                Step::Wait { slot } => (vec![id(slot), -1], vec![], vec![]),
                Step::Copy { from, to } => (vec![], vec![from, to], vec![Access::READ, Access::WRITE]),
                Step::Reduce { from, to } => {
                    let numbers = vec![i64::from(c.reduction), i64::from(c.dtype.code())];
                    (numbers, vec![from, to], vec![Access::READ, Access::READ_WRITE])
                }
            };
            device.bind_task(DeviceTask {
                kind: kind.code(),
                kernel,
                block_dim: 1,
                numbers: numbers.into(),
                args: args.into(),
                access: access.into(),
                ..base.clone()
            })?;
        }
        Ok(())
    }
}

/// Checks the sizes of the operands against what the collective moves.
fn check(
    c: &Collective,
    ranks: u32,
    width: u64,
    inputs: &[ge_plugin_api::device::Place],
    outputs: &[ge_plugin_api::device::Place],
) -> std::result::Result<(), String> {
    use crate::collective::Kind;
    if inputs.is_empty() || inputs.len() != outputs.len() || (inputs.len() > 1 && c.kind != Kind::Broadcast) {
        return Err(format!("{} inputs and {} outputs", inputs.len(), outputs.len()));
    }
    if matches!(c.kind, Kind::AllReduce | Kind::ReduceScatter) && !reduces(c.dtype) {
        return Err(format!("a reduction of {}", c.dtype));
    }
    let ranks = u64::from(ranks);
    for (x, y) in inputs.iter().zip(outputs) {
        let fits = match c.kind {
            Kind::AllReduce => x.bytes == y.bytes && c.count.checked_mul(width) == Some(x.bytes),
            Kind::Broadcast | Kind::Transfer => x.bytes == y.bytes,
            Kind::AllGather => x.bytes.checked_mul(ranks) == Some(y.bytes),
            Kind::ReduceScatter => y.bytes.checked_mul(ranks) == Some(x.bytes),
            Kind::AllToAll => x.bytes == y.bytes && x.bytes % ranks == 0,
        };
        if !fits {
            return Err(format!("{} bytes in, {} bytes out, for {ranks} ranks", x.bytes, y.bytes));
        }
    }
    Ok(())
}
