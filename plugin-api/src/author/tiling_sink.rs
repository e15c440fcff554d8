//! Tiling sink for kernel builders: the resources, the task list and the device's tiling context of
//! an operator whose tiling depends on input values. Source: document 001 §4.2, §4.3, §5.1; facts
//! 5.
//!
//! The node's list is PREPROCESS_KERNEL, EVENT_WAIT, NOP × `prefetch_num`, kernel, UPDATE,
//! EVENT_RECORD. Tiling (PREPROCESS_KERNEL), update and record are on the attached stream; wait,
//! NOPs and kernel are on the node's own stream. Where a composite engine launches the tasks
//! (`_alias_engine_name`, 001 §4.5), a kernel that uses cube and vector cores together is launched
//! by an FFTS+ task with one context; the rest of the list is the same.
use crate::abi::RVec;
use crate::device::SocSpec;
use crate::diagnostic::{Error, Result};
use crate::engine::{ArgInfo, AttachedStream, RunningParams, SyncResource, Workspace};
use crate::kernel::Access;
use crate::task::{KernelTask, KernelType, StreamSlot, TILING_SINK_BLOCK_DIM, Task, TaskType};
use crate::view::Node;

/// Attribute that marks a node whose tiling runs on the device.
pub const SINK: &str = "_tiling_sink_op";
/// Attribute that names the super kernel with which a node is to be launched (001 §4.4).
pub const SCOPE: &str = "_super_kernel_scope";
/// Attribute that names the composite engine whose tasks may launch the node's kernel, `ffts_plus`
/// (001 §4.5).
pub const ALIAS: &str = "_alias_engine_name";
/// Name of the attached stream and of the event.
pub const RESOURCE: &str = "tiling";
/// Kernel name of the tiling task.
pub const KERNEL_NAME: &str = "RunAicpuRpcSrvLaunch";
/// Size of the extra workspace that a custom operator has for the log of its tiling, in bytes.
pub const CUSTOM_LOG_BYTES: u64 = 20_480;

pub use super::tiling_context::*;

/// Where a tiling function comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner<'a> {
    /// Built in.
    BuiltIn,
    /// A custom operator.
    Custom,
    /// A library of its own: `libtiling_device_<prefix>.so`.
    Prefixed(&'a str),
}

/// Resources of a node with tiling sink: the workspaces (plus one for the tiling log unless the
/// owner is built in), and an attached stream and an event, both named "tiling".
pub fn running_params(depend_value_inputs: &[u32], workspaces: Vec<Workspace>, owner: Owner<'_>) -> RunningParams {
    let mut workspaces = workspaces;
    if owner != Owner::BuiltIn {
        workspaces.push(Workspace { bytes: CUSTOM_LOG_BYTES, ..Workspace::default() });
    }
    RunningParams {
        workspaces: workspaces.into(),
        attached: vec![AttachedStream {
            name: RESOURCE.into(),
            depend_value_inputs: depend_value_inputs.into(),
            required: true,
            ..AttachedStream::default()
        }]
        .into(),
        sync: vec![SyncResource { name: RESOURCE.into(), ..SyncResource::default() }].into(),
        ..RunningParams::default()
    }
}

/// Path of the library that holds the tiling functions on the device.
pub fn so_name(soc: &SocSpec, owner: Owner<'_>) -> String {
    let series = if soc.name.starts_with("Ascend310P") { "Ascend-310P" } else { "Ascend" };
    match owner {
        Owner::BuiltIn => format!("op_master_device/lib/{series}-v1.0-libopmaster.so"),
        Owner::Custom => "libcust_opmaster.so".into(),
        Owner::Prefixed(p) => format!("libtiling_device_{p}.so"),
    }
}

const DATA: &str = "{tiling_context.tiling_data}";

/// The kernel's args format with the device's tiling data after the last workspace, where it
/// replaces the host's tiling data if that follows there. Without a workspace the tiling data comes
/// last.
pub fn with_tiling_data(args_format: &str) -> String {
    let items: Vec<&str> = args_format.split_inclusive('}').collect();
    let mut out = String::new();
    let Some(last) = items.iter().rposition(|i| i.starts_with("{ws")) else { return format!("{args_format}{DATA}") };
    for (k, item) in items.iter().enumerate() {
        if k == last + 1 && (item.starts_with("{t_ffts") || *item == "{t}") {
            continue;
        }
        out.push_str(item);
        if k == last {
            out.push_str(DATA);
        }
    }
    out
}

/// The task list of a node with tiling sink: [`super_kernel_sequence`] if the node belongs to a
/// super kernel, otherwise [`sequence`], with [`ffts_plus`] if a composite engine launches the
/// node.
/// # Errors
/// Returns an `internal` error if `kernel` does not launch a kernel.
pub fn tasks(
    node: &Node<'_>,
    kernel: Task,
    soc: &SocSpec,
    owner: Owner<'_>,
    log_workspace: Option<usize>,
    parameters: RVec<u8>,
) -> Result<Vec<Task>> {
    if node.attr(SCOPE).is_some() {
        super_kernel_sequence(kernel, soc, owner, log_workspace, parameters)
    } else {
        let kernel = if node.attr(ALIAS).is_some() { ffts_plus(kernel) } else { kernel };
        sequence(kernel, soc, owner, log_workspace, parameters)
    }
}

/// The task list of a node with tiling sink within a super kernel (001 §4.4): the tiling on the
/// attached stream, and the kernel, which reads the key and the block count from the context and
/// waits by means of the event's address.
/// # Errors
/// Returns an `internal` error if `kernel` does not launch a kernel.
pub fn super_kernel_sequence(
    kernel: Task,
    soc: &SocSpec,
    owner: Owner<'_>,
    log_workspace: Option<usize>,
    parameters: RVec<u8>,
) -> Result<Vec<Task>> {
    const MORE: &str = "{tiling_context.tiling_key}{tiling_context.block_dim}{event_addr0*}";
    let mut kernel = placeholder(kernel)?;
    if let Some(launch) = kernel.kernel.as_mut().into_option() {
        launch.args_format = launch.args_format.replace(DATA, &format!("{DATA}{MORE}")).into();
    }
    Ok(vec![tiling_task(soc, owner, log_workspace, parameters, "{event_addr0*}"), kernel])
}

/// Turns the launch of a mixed kernel, recognised by its `kernel_type`, into an FFTS+ task with one
/// context; returns any other kernel unchanged. The kernel's first argument is the address through
/// which the cube and vector cores of one block synchronize.
pub fn ffts_plus(mut kernel: Task) -> Task {
    const MIXED: [KernelType; 2] = [KernelType::MIX_AICORE, KernelType::MIX_VECTOR_CORE];
    let is_kernel = kernel.kind() == TaskType::KERNEL;
    let launch = kernel.kernel.as_mut().into_option();
    if let Some(launch) = launch.filter(|k| is_kernel && MIXED.iter().any(|m| m.code() == k.kernel_type)) {
        launch.args_format = format!("{{ffts_addr}}{}", launch.args_format).into();
        kernel.kind = TaskType::FFTS_PLUS.code();
    }
    kernel
}

/// The launch with placeholders for block count and tiling key, and with the device's tiling data
/// among its arguments.
fn placeholder(mut kernel: Task) -> Result<Task> {
    let Some(launch) = kernel.kernel.as_mut().into_option() else {
        return Err(Error::internal("tiling sink of a task without a kernel"));
    };
    launch.block_dim = TILING_SINK_BLOCK_DIM;
    launch.tiling_key = 0;
    launch.tiling = RVec::new();
    launch.args_format = with_tiling_data(&launch.args_format).into();
    Ok(kernel)
}

fn tiling_task(
    soc: &SocSpec,
    owner: Owner<'_>,
    log_workspace: Option<usize>,
    parameters: RVec<u8>,
    placeholder: &str,
) -> Task {
    let log = log_workspace.map_or(String::new(), |n| format!("{{ws{n}*}}"));
    let kind = if owner == Owner::BuiltIn { KernelType::AI_CPU } else { KernelType::CUST_AI_CPU };
    let task = Task {
        kind: TaskType::PREPROCESS_KERNEL.code(),
        ..Task::kernel(KernelTask {
            kernel_name: KERNEL_NAME.into(),
            so_name: so_name(soc, owner).into(),
            kernel_type: kind.code(),
            block_dim: 1,
            tiling: parameters,
            args_format: format!("{{tiling_context}}{{*op_type}}{placeholder}{log}").into(),
            ..KernelTask::default()
        })
    };
    task.on(StreamSlot::attached(0))
}

/// How a tiling function accesses its arguments: it reads the operator type and the node's tensors,
/// and writes the context, the event and the workspaces.
pub fn tiling_access(args: &[ArgInfo]) -> Vec<Access> {
    let reads = |a: &ArgInfo| matches!(a.kind.as_str(), "i" | "o" | "*op_type");
    args.iter().map(|a| if reads(a) { Access::READ } else { Access::WRITE }).collect()
}

/// The task list of a node with tiling sink. `kernel` is its launch with the args format that it
/// would have without tiling sink; `parameters` are passed to the tiling function as its tiling
/// data; `log_workspace` is the index of the workspace for the custom log.
/// # Errors
/// Returns an `internal` error if `kernel` does not launch a kernel.
pub fn sequence(
    kernel: Task,
    soc: &SocSpec,
    owner: Owner<'_>,
    log_workspace: Option<usize>,
    parameters: RVec<u8>,
) -> Result<Vec<Task>> {
    let kernel = placeholder(kernel)?;
    let side = StreamSlot::attached(0);
    let tiling = tiling_task(soc, owner, log_workspace, parameters, "{}");
    let nops = usize::try_from(soc.prefetch_num).unwrap_or(0);
    let at = 2 + nops as i64;
    let update = Task {
        numbers: vec![at].into(),
        operands: "{tiling_context.tiling_key}{tiling_context.block_dim}".into(),
        ..Task::new(TaskType::UPDATE)
    };
    let mut out = vec![tiling, Task::new(TaskType::EVENT_WAIT)];
    out.extend((0..nops).map(|_| Task::new(TaskType::NOP)));
    out.push(kernel);
    out.push(update.on(side));
    out.push(Task::new(TaskType::EVENT_RECORD).on(side));
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soc(name: &str, prefetch_num: u32) -> SocSpec {
        SocSpec { name: name.into(), prefetch_num, ..SocSpec::default() }
    }
    fn launch() -> Task {
        Task::kernel(KernelTask {
            kernel_name: "k".into(),
            kernel_type: KernelType::TE.code(),
            block_dim: 7,
            tiling: vec![1].into(),
            args_format: "{i0*}{o0*}{ws0*}{t}".into(),
            ..KernelTask::default()
        })
    }

    #[test]
    fn the_list_of_a_plain_node_field_by_field() {
        for (name, nops, so) in [
            ("Ascend910B", 8, "op_master_device/lib/Ascend-v1.0-libopmaster.so"),
            ("Ascend310P", 5, "op_master_device/lib/Ascend-310P-v1.0-libopmaster.so"),
        ] {
            let list = sequence(launch(), &soc(name, nops), Owner::BuiltIn, None, vec![9].into()).expect("a list");
            let nops = nops as usize;
            assert_eq!(list.len(), nops + 5);
            let tiling = list[0].kernel.as_ref().into_option().expect("a kernel");
            assert_eq!(list[0].kind(), TaskType::PREPROCESS_KERNEL);
            assert_eq!(list[0].stream, StreamSlot::attached(0));
            assert_eq!((tiling.kernel_name.as_str(), tiling.so_name.as_str()), ("RunAicpuRpcSrvLaunch", so));
            assert_eq!(tiling.kernel_type, KernelType::AI_CPU.code());
            assert_eq!((tiling.block_dim, tiling.args_format.as_str()), (1, "{tiling_context}{*op_type}{}"));
            assert_eq!(list[1], Task::new(TaskType::EVENT_WAIT));
            assert!(list[2..2 + nops].iter().all(|t| *t == Task::new(TaskType::NOP)));
            let kernel = list[2 + nops].kernel.as_ref().into_option().expect("a kernel");
            assert_eq!((list[2 + nops].kind(), list[2 + nops].stream), (TaskType::KERNEL, StreamSlot::MAIN));
            assert_eq!((kernel.block_dim, kernel.tiling_key, kernel.tiling.len()), (0xFFFF_FFFF, 0, 0));
            assert_eq!(kernel.args_format.as_str(), "{i0*}{o0*}{ws0*}{tiling_context.tiling_data}");
            let update = &list[3 + nops];
            assert_eq!((update.kind(), update.stream), (TaskType::UPDATE, StreamSlot::attached(0)));
            assert_eq!(update.numbers.as_slice(), [2 + nops as i64]);
            assert_eq!(update.operands.as_str(), "{tiling_context.tiling_key}{tiling_context.block_dim}");
            assert_eq!(list[4 + nops], Task::new(TaskType::EVENT_RECORD).on(StreamSlot::attached(0)));
        }
    }

    #[test]
    fn custom_operators_have_a_log_and_a_library_of_their_own() {
        let p = running_params(&[2], vec![Workspace { bytes: 8, ..Workspace::default() }], Owner::Custom);
        assert_eq!(p.workspaces.iter().map(|w| w.bytes).collect::<Vec<_>>(), [8, 20_480]);
        assert_eq!((p.attached[0].name.as_str(), p.sync[0].name.as_str()), ("tiling", "tiling"));
        assert!(p.attached[0].required && !p.sync[0].notify);
        let soc = soc("Ascend910B", 8);
        let list = sequence(launch(), &soc, Owner::Custom, Some(1), RVec::new()).expect("a list");
        let tiling = list[0].kernel.as_ref().into_option().expect("a kernel");
        assert_eq!(tiling.args_format.as_str(), "{tiling_context}{*op_type}{}{ws1*}");
        assert_eq!((tiling.kernel_type, tiling.so_name.as_str()), (7, "libcust_opmaster.so"));
        assert_eq!(so_name(&soc, Owner::Prefixed("acme")), "libtiling_device_acme.so");
    }

    #[test]
    fn within_a_super_kernel_there_is_neither_wait_nor_nop_nor_update_nor_record() {
        let soc = soc("Ascend910B", 8);
        let list = super_kernel_sequence(launch(), &soc, Owner::BuiltIn, None, vec![9].into()).expect("a list");
        assert_eq!(list.iter().map(Task::kind).collect::<Vec<_>>(), [TaskType::PREPROCESS_KERNEL, TaskType::KERNEL]);
        let of = |t: &Task| t.kernel.as_ref().into_option().expect("a kernel").args_format.to_string();
        assert_eq!(
            (of(&list[0]).as_str(), list[0].stream),
            ("{tiling_context}{*op_type}{event_addr0*}", StreamSlot(0))
        );
        assert_eq!(
            of(&list[1]),
            "{i0*}{o0*}{ws0*}{tiling_context.tiling_data}{tiling_context.tiling_key}{tiling_context.block_dim}{event_addr0*}"
        );
        assert_eq!(list[1].stream, StreamSlot::MAIN);
    }

    #[test]
    fn a_mixed_kernel_is_launched_by_an_ffts_plus_task_and_any_other_as_it_is() {
        let soc = soc("Ascend910B", 8);
        assert_eq!(ffts_plus(launch()), launch());
        for (mixed, code) in [(KernelType::MIX_AICORE, 10), (KernelType::MIX_VECTOR_CORE, 11)] {
            let mut kernel = launch();
            if let Some(k) = kernel.kernel.as_mut().into_option() {
                k.kernel_type = mixed.code();
            }
            let plain = sequence(kernel.clone(), &soc, Owner::BuiltIn, None, RVec::new()).expect("a list");
            let list = sequence(ffts_plus(kernel), &soc, Owner::BuiltIn, None, RVec::new()).expect("a list");
            let differ: Vec<usize> = (0..list.len()).filter(|k| list[*k] != plain[*k]).collect();
            assert_eq!((differ.as_slice(), list[10].kind()), (&[10][..], TaskType::FFTS_PLUS));
            let k = list[10].kernel.as_ref().into_option().expect("a kernel");
            assert_eq!((k.kernel_type, k.block_dim), (code, TILING_SINK_BLOCK_DIM));
            assert_eq!(k.args_format.as_str(), "{ffts_addr}{i0*}{o0*}{ws0*}{tiling_context.tiling_data}");
        }
    }

    #[test]
    fn tiling_data_stands_behind_the_last_workspace() {
        assert_eq!(with_tiling_data("{i0*}{ws0*}{ws1*}{o0*}"), "{i0*}{ws0*}{ws1*}{tiling_context.tiling_data}{o0*}");
        assert_eq!(with_tiling_data("{i0*}{ws*}{t_ffts.tail}"), "{i0*}{ws*}{tiling_context.tiling_data}");
        assert_eq!(with_tiling_data("{i0*}{o0*}"), "{i0*}{o0*}{tiling_context.tiling_data}");
    }
}
