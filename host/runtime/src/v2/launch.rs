//! Tiling at run time: finds the engine, kernel and tasks of a node whose sizes are now known.
use super::tools::Tools;
use crate::error::RuntimeError;
use bytes::Bytes;
use ge_model::TaskInfo;
use ge_plugin::EngineHandle;
use ge_plugin::tasks::Granted;
use ge_plugin_api::diagnostic::ErrorKind;
use ge_plugin_api::engine::{KernelBinary, Support, TaskContext, flags};
use ge_plugin_api::task::{StreamSlot, TILING_SINK_BLOCK_DIM, Task, TaskType};
use ge_plugin_api::types::TensorDesc;
use ge_plugin_api::view::Node;

/// The kernel and tasks that execute a node.
#[derive(PartialEq)]
pub(crate) struct Launch {
    /// Name of the engine.
    pub(crate) engine: String,
    /// Its kernel, for the kernel store.
    pub(crate) kernel: Option<KernelBinary>,
    /// Its tasks; the caller sets graph, node and stream.
    pub(crate) tasks: Vec<TaskInfo>,
    /// Sizes of its workspaces in bytes.
    pub(crate) workspaces: Vec<u64>,
}

/// Asks the engines for a launch of a node: first the preferred one, then the others by the cost
/// that they state. If none takes it, returns their reasons. `read` says which outputs have
/// readers, so that a task must write them.
///
/// # Errors
/// Fails if a call into a plugin fails.
pub(crate) fn find(
    tools: &Tools,
    node: &Node<'_>,
    preferred: &str,
    read: &[bool],
) -> Result<Result<Launch, Vec<String>>, RuntimeError> {
    let mut refusals = Vec::new();
    let all = tools.engines(node.op_key());
    let (first, rest): (Vec<&EngineHandle>, Vec<&EngineHandle>) = all.iter().partition(|e| e.name() == preferred);
    let order: Vec<&EngineHandle> = first.into_iter().chain(rest).filter(|e| !e.has(flags::NO_TASK)).collect();
    let own = |at: usize| if order[at].name() == preferred { 0 } else { order[at].info.cost };
    // Engines that would take the node and were not tried yet: their cost and their position.
    let (mut takers, mut asked): (Vec<(u32, usize)>, usize) = (Vec::new(), 0);
    loop {
        let best = takers.iter().min().copied();
        if asked < order.len() && best.is_none_or(|(cost, _)| own(asked) < cost) {
            let e = order[asked];
            match e.supports(node)? {
                Support::No(why) => refusals.push(format!("{}: {why}", e.name())),
                _ if e.name() == preferred => takers.push((0, asked)),
                answer => takers.extend(answer.cost(own(asked)).map(|cost| (cost, asked))),
            }
            asked += 1;
            continue;
        }
        let Some(best) = best else { return Ok(Err(refusals)) };
        takers.retain(|t| *t != best);
        match of_engine(tools, order[best.1], node, read)? {
            Ok(l) => return Ok(Ok(l)),
            Err(why) => refusals.push(format!("{}: {why}", order[best.1].name())),
        }
    }
}

fn of_engine(
    tools: &Tools,
    e: &EngineHandle,
    node: &Node<'_>,
    read: &[bool],
) -> Result<Result<Launch, String>, RuntimeError> {
    let target = &tools.target;
    let params = e.calc_op_running_param(node, target)?;
    // A node's own streams, events and zeroed memory need a plan that is made before the run.
    if !params.attached.is_empty() || !params.sync.is_empty() || params.workspaces.iter().any(|w| w.zeroed) {
        return Ok(Err("it needs streams, events or cleared memory of its own".into()));
    }
    let padded = |(said, d): (&u64, &TensorDesc)| *said > d.data_bytes().unwrap_or(u64::MAX);
    if params.output_bytes.iter().zip(node.outputs()).any(padded) {
        return Ok(Err("its outputs are larger than their data".into()));
    }
    let kernel = match e.compile(node, target) {
        Ok(k) => k,
        Err(why) if why.kind == ErrorKind::UNSUPPORTED => return Ok(Err(why.message().to_string())),
        Err(why) => return Err(why.into()),
    };
    let context = TaskContext { target: target.clone(), kernel: kernel.into(), rank_size: target.rank_size };
    let tasks = match e.generate_task(node, &context) {
        Ok(tasks) => e.update_task(node, tasks)?,
        Err(why) if why.kind == ErrorKind::UNSUPPORTED => return Ok(Err(why.message().to_string())),
        Err(why) => return Err(why.into()),
    };
    let kernel = context.kernel.into_option();
    if tasks.is_empty() {
        return Ok(Err("it has no task for these sizes".into()));
    }
    // The first output always counts as read.
    let is_read = |(k, d): (usize, &TensorDesc)| (k == 0 || read.get(k) == Some(&true)) && d.data_bytes() != Some(0);
    let read: Vec<bool> = node.outputs().iter().enumerate().map(is_read).collect();
    let stored = |name: &str| kernel.as_ref().is_some_and(|k| k.name.as_str() == name);
    let has = Granted {
        inputs: node.inputs().len(),
        read: &read,
        params: &params,
        attached: Some(0),
        sync: Some(&[]),
        stored: Some(&stored),
        soc: &target.soc,
    };
    e.check_tasks(node, &tasks, &has)?;
    let time = e.time_ns(node, &target.soc).saturating_sub(target.soc.task_launch_ns);
    let Some(tasks) = tasks.iter().map(|t| plain(t, time)).collect::<Option<Vec<TaskInfo>>>() else {
        return Ok(Err("its tasks need a plan that is made before the run".into()));
    };
    let workspaces = params.workspaces.iter().map(|w| w.bytes).collect();
    Ok(Ok(Launch { engine: e.name().to_owned(), kernel, tasks, workspaces }))
}

/// Converts a kernel launch or a copy on the node's own stream; `None` for everything else.
fn plain(t: &Task, time_ns: u64) -> Option<TaskInfo> {
    let kernels = [TaskType::KERNEL, TaskType::VECTOR_KERNEL, TaskType::CUSTOM_KERNEL];
    let mut out = TaskInfo { kind: t.kind, sqe_num: t.sqe_num, ..TaskInfo::default() };
    if t.stream != StreamSlot::MAIN || !t.nodes.is_empty() {
        return None;
    }
    out.numbers = t.numbers.to_vec();
    out.private = Bytes::copy_from_slice(&t.private);
    match t.kernel.as_ref().into_option() {
        Some(k) if kernels.contains(&t.kind()) && k.block_dim != TILING_SINK_BLOCK_DIM => {
            out.kernel_name = k.kernel_name.to_string();
            out.so_name = k.so_name.to_string();
            out.kernel_type = k.kernel_type;
            out.block_dim = k.block_dim;
            out.tiling_key = k.tiling_key;
            out.tiling = Bytes::copy_from_slice(&k.tiling);
            out.args_format = k.args_format.to_string();
            out.schedule_mode = k.schedule_mode;
            out.time_ns = time_ns;
            Some(out)
        }
        None if t.kind() == TaskType::MEMCPY_ASYNC => {
            out.args_format = t.operands.to_string();
            Some(out)
        }
        _ => None,
    }
}
