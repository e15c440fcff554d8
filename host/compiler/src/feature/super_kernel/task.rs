//! The task of a chain: the launches of its nodes one after the other. The arguments of node `k`
//! follow a marker `{skn<k>}`.
use crate::error::{CompileError, Result};
use ge_model::launch::{self, Launch};
use ge_plugin_api::diagnostic::Diagnostic;
use ge_plugin_api::task::{KernelTask, TILING_SINK_BLOCK_DIM, Task, TaskType};

/// Joins the launches of a chain's nodes, which are given with their names. `cores` is the number
/// of blocks of a node whose block count is only known to its tiling. Fails if a node has no task
/// or a task that is not a kernel.
pub fn join(scope: &str, nodes: &[(String, Vec<Task>)], cores: u32) -> Result<Task> {
    let mut launches: Vec<Launch> = Vec::new();
    let (mut args, mut blocks, mut kernel_type) = (String::new(), 1, 0);
    for (at, (name, tasks)) in nodes.iter().enumerate() {
        if tasks.is_empty() {
            return Err(no_kernel(name, "no kernel"));
        }
        for t in tasks {
            let is_kernel = matches!(t.kind(), TaskType::KERNEL | TaskType::VECTOR_KERNEL);
            let Some(k) = t.kernel.as_ref().into_option().filter(|_| is_kernel) else {
                return Err(no_kernel(name, t.kind().name()));
            };
            args.push_str(&format!("{{skn{at}}}{}", k.args_format));
            blocks = blocks.max(if k.block_dim == TILING_SINK_BLOCK_DIM { cores.max(1) } else { k.block_dim });
            kernel_type = k.kernel_type;
            launches.push(Launch::of(at as u32, t.kind, k));
        }
    }
    Ok(Task {
        private: launch::encode(&launches).into(),
        nodes: nodes.iter().map(|n| n.0.as_str().into()).collect(),
        kind: TaskType::SUPER_KERNEL.code(),
        ..Task::kernel(KernelTask {
            kernel_name: format!("super_kernel_{scope}").into(),
            kernel_type,
            block_dim: blocks,
            args_format: args.into(),
            ..KernelTask::default()
        })
    })
}

fn no_kernel(node: &str, what: &str) -> CompileError {
    let text = format!("the engine of `{node}` gives {what} to a super kernel, which takes kernels of AI cores alone");
    CompileError::model(ge_codes::LIES, Diagnostic::error(text).node(node, ""))
}
