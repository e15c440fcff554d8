//! Task lists that break one rule each.
use crate::mode;
use ge_plugin_api::Result;
use ge_plugin_api::engine::{LoadRequest, RunningParams, Workspace};
use ge_plugin_api::kernel::{Access, BlockArgs, BlockKernel, LoadedKernel, block_kernel};
use ge_plugin_api::task::{KernelTask, StreamSlot, Task, TaskType};

/// What the engine asks for.
pub fn params() -> RunningParams {
    let workspaces = if mode("huge_workspace") { vec![Workspace { bytes: 1 << 60, ..Workspace::default() }] } else { Vec::new() };
    let task_count = if mode("fewer_tasks") { 2 } else { 0 };
    RunningParams { workspaces: workspaces.into(), task_count, ..RunningParams::default() }
}

/// The list of a node.
pub fn list() -> Vec<Task> {
    let mut k = KernelTask::new("bad_copy", 1, "{i0*}{o0*}");
    let args = [
        ("wrong_input", "{i7*}{o0*}"),
        ("wrong_output", "{i0*}{o0*}{o3*}"),
        ("wrong_workspace", "{i0*}{o0*}{ws2*}"),
        ("unwritten", "{i0*}"),
        ("frobnicate", "{i0*}{frobnicate}{o0*}"),
        ("ffts_item", "{ffts_addr}{i0*}{o0*}"),
    ];
    if let Some((_, a)) = args.iter().find(|(m, _)| mode(m)) {
        k.args_format = (*a).into();
    }
    if mode("wrong_name") {
        k.kernel_name = "nobody".into();
    }
    if mode("wrong_type") {
        k.kernel_type = 3;
    }
    if mode("zero_blocks") {
        k.block_dim = 0;
    }
    let task = Task::kernel(k);
    if mode("no_task") {
        return Vec::new();
    }
    if mode("task_twice") {
        return vec![task.clone(), task];
    }
    if mode("copy_kind") {
        let copy = Task { numbers: vec![4711].into(), operands: "{i0*}{o0*}".into(), ..Task::new(TaskType::MEMCPY_ASYNC) };
        return vec![copy];
    }
    if mode("attached_stream") {
        return vec![task.on(StreamSlot::attached(0))];
    }
    if mode("wrong_sync") {
        return vec![task, Task::new(TaskType::EVENT_WAIT)];
    }
    if mode("task_type") {
        return vec![Task { kind: 999, ..task }];
    }
    if mode("many_places") {
        return vec![Task { sqe_num: 1 << 30, ..task }];
    }
    vec![task]
}

struct Copy;
impl BlockKernel for Copy {
    fn run(&self, call: &BlockArgs<'_>) -> Result<()> {
        let x = call.input::<u8>(0)?;
        let mine = call.part(x.len(), 64);
        call.output::<u8>(1, mine.clone())?.copy_from_slice(&x[mine]);
        Ok(())
    }
}

/// The kernel of a task.
pub fn kernel(request: &LoadRequest) -> Result<LoadedKernel> {
    Ok(block_kernel(Box::new(Copy), request.arg_bytes()?, vec![Access::READ, Access::WRITE], 0))
}
