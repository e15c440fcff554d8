//! Task lists that each break one rule.
use crate::mode;
use ge_plugin_api::{Error, Result};
use ge_plugin_api::engine::{LoadRequest, RunningParams, Workspace};
use ge_plugin_api::kernel::{Access, BlockArgs, BlockKernel, KernelCtx, LoadedKernel, block_kernel};
use ge_plugin_api::task::{KernelTask, StreamSlot, Task, TaskType};

/// Running parameters of the engine's nodes.
pub fn params() -> RunningParams {
    let workspaces = if mode("huge_workspace") { vec![Workspace { bytes: 1 << 60, ..Workspace::default() }] } else { Vec::new() };
    let task_count = if mode("fewer_tasks") { 2 } else { 0 };
    RunningParams { workspaces: workspaces.into(), task_count, ..RunningParams::default() }
}

/// The task list of a node.
pub fn list() -> Vec<Task> {
    let mut k = KernelTask::new("bad_copy", if mode("blocks_overlap") { 2 } else { 1 }, "{i0*}{o0*}");
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
        // SAFETY: unsound on purpose: this mode must crash.
        if mode("segv_kernel") {
            unsafe { std::ptr::null_mut::<u8>().write_volatile(1) }
        }
        if mode("abort_kernel") {
            std::process::abort();
        }
        if mode("overflow_kernel") {
            super::deep(0);
        }
        if mode("exit_kernel") {
            std::process::exit(0);
        }
        if mode("panic_kernel") {
            panic!("no number today");
        }
        if mode("error_kernel") {
            return Err(Error::internal("the sums do not add up"));
        }
        if mode("slow_cancelled_kernel") {
            // When it is cancelled, this kernel takes 1.3 s to return.
            std::thread::sleep(std::time::Duration::from_millis(20));
            if ge_plugin_api::services::cancelled() {
                std::thread::sleep(std::time::Duration::from_millis(1300));
            }
        }
        if mode("scratch_beyond") {
            call.scratch::<f32>(64).fill(1.0);
        }
        if mode("prints") {
            println!("a kernel says hello");
        }
        let x = call.input::<u8>(0)?;
        let mine = call.part(x.len(), 64);
        if mode("reads_beyond") {
            // SAFETY: unsound on purpose: this mode reads beyond its input.
            std::hint::black_box(unsafe { x.as_ptr().add(1 << 12).read_volatile() });
        }
        if mode("blocks_overlap") {
            call.output::<u8>(1, 0..x.len())?.copy_from_slice(x);
            return Ok(());
        }
        if mode("half_written") {
            call.output::<u8>(1, 0..x.len() / 2)?.fill(1);
            return Ok(());
        }
        if mode("unsteady_kernel") {
            static N: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(1);
            let n = N.fetch_add(1, std::sync::atomic::Ordering::Relaxed) / 3;
            call.output::<u8>(1, mine.clone())?.fill(n);
            return Ok(());
        }
        if mode("output_twice") {
            call.output::<u8>(1, mine.clone())?.fill(1);
        }
        call.output::<u8>(1, mine.clone())?.copy_from_slice(&x[mine]);
        Ok(())
    }
}

/// Modes in which the engine has a host kernel for `Relu`.
pub const HOST_MODES: [&str; 5] = ["host_right", "host_wrong", "host_shape", "host_panics", "host_unsteady"];

/// `Relu` of f32 on the host.
pub fn host_relu(ctx: &mut KernelCtx<'_>) -> Result<()> {
    if mode("host_panics") {
        panic!("nothing folds here");
    }
    let x = ctx.input(0)?;
    let dims: Vec<u64> = if mode("host_shape") { x.dims.iter().rev().copied().collect() } else { x.dims.to_vec() };
    static N: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);
    let more = if mode("host_unsteady") { f32::from(N.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) } else { 0.0 };
    let given: Vec<f32> = x.values::<f32>()?.to_vec();
    let mut y = ctx.alloc_output(0, &dims)?;
    for (y, x) in y.values::<f32>()?.iter_mut().zip(given) {
        *y = if mode("host_wrong") { x.abs() } else { x.max(0.0) } + more;
    }
    Ok(())
}

/// Loads the kernel of a task, with the fault that the mode asks for.
pub fn kernel(request: &LoadRequest) -> Result<LoadedKernel> {
    let mut lens = request.arg_bytes()?;
    if mode("long_output") {
        lens[1] = 1 << 20;
    }
    if mode("long_input") {
        lens[0] = 1 << 20;
    }
    let mut access = vec![Access::READ, Access::WRITE];
    if mode("few_arguments") {
        lens.truncate(1);
        access.truncate(1);
    }
    let scratch = if mode("scratch_beyond") { 64 } else { 0 };
    let kernel = block_kernel(Box::new(Copy), lens, access, scratch);
    Ok(if mode("exchanged") { LoadedKernel { ctx: std::ptr::null_mut(), ..kernel } } else { kernel })
}
