//! Binds tasks to the device: the executor of the node's engine binds kernels, a task of several
//! launches becomes one device task, and run-time tasks are passed on unchanged.
use crate::again::Again;
use crate::arguments::arguments;
use crate::error::RuntimeError;
use crate::numbering::Numbering;
use crate::request::{request, resolved, tiled};
use crate::several::{self, Made, Several};
use crate::sink::ExtAttrs;
use crate::slices;
use ge_model::TaskInfo;
use ge_plugin::kernels::KeptKernel;
use ge_plugin_api::abi::ROption;
use ge_plugin_api::device::DeviceTask;
use ge_plugin_api::task::{TILING_SINK_BLOCK_DIM, TaskType};
use std::sync::Arc;

/// Binds a task. `ext` holds what earlier tasks left for this one. `kept` receives a form of the
/// task that other plans can bind again, where that is possible. For a kernel that waits for its
/// UPDATE task, returns `Some` with the kernel's handle, if it has one (001 §5.2, §5.5).
pub(crate) fn bind(
    s: &Several<'_>,
    numbering: &Numbering,
    ext: &ExtAttrs,
    (index, t): (usize, &TaskInfo),
    kept: Option<&mut Vec<Again>>,
) -> Result<Option<Option<u32>>, RuntimeError> {
    let Several { m, places, engines, kernels, device, options, made } = *s;
    let node = m
        .node(t.graph, t.node)
        .ok_or_else(|| RuntimeError::Damaged { what: format!("task {index} belongs to no node") })?;
    match made.get(index) {
        Some(Made::Launch(cells, at)) => {
            let cell = &cells[*at];
            let found = match several::again(s, cell, node, t)? {
                Some(again) => Ok(again),
                None => several::kept(s, cell, node, index, t, arguments(m, places, t, node)?),
            };
            // If the executor gives more than one kernel and its task, or fails, it is asked again
            // below.
            if let Ok((kernel, task)) = found {
                if let (Some(kept), true) = (kept, cell.get().is_some()) {
                    kept.push(Again::Launch {
                        of: Arc::clone(cells),
                        at: *at,
                        stream: t.stream,
                        args: task.args.clone(),
                    });
                }
                let handle = device.register(kernel)?;
                device.bind(DeviceTask { kernel: ROption::RSome(handle), ..task })?;
                return Ok(None);
            }
        }
        Some(Made::Slices(sliced, cell)) => {
            let (kernel, task) = slices::bind_made(s, index, t, sliced, cell)?;
            let kernel = KeptKernel::new(kernel);
            let handle = device.register(kernel.lend())?;
            let task = DeviceTask { kernel: ROption::RSome(handle), ..task };
            if let Some(kept) = kept {
                kept.push(Again::Kernel(kernel, task.clone()));
            }
            device.bind(task)?;
            return Ok(None);
        }
        _ => {}
    }
    let mut numbers = t.numbers.clone();
    if let Some(id) = t.sync_id {
        numbers.insert(0, i64::from(id));
    }
    if t.kind == TaskType::UPDATE.code() {
        let lacks =
            |what: &str| RuntimeError::Damaged { what: format!("task {index} (UPDATE) of `{}` {what}", node.name) };
        let target = m.update_target(t).ok_or_else(|| lacks("has no task to update"))?;
        let number = numbering.on_device(target);
        let info = number.and_then(|n| ext.task_info((t.graph, t.node), n));
        let info = info.ok_or_else(|| lacks("stands before the task that it updates"))?;
        numbers = [Some(info.task_id), info.ffts_task_handle].into_iter().flatten().map(i64::from).collect();
    }
    if t.kind == TaskType::SUPER_KERNEL.code() && !t.private.is_empty() {
        let task = several::bind(s, index, t)?;
        device.bind(DeviceTask { numbers: numbers.into(), ..task })?;
        return Ok(None);
    }
    if t.kind == TaskType::FFTS_PLUS.code() && !t.private.is_empty() {
        let (kernel, task) = slices::bind(s, index, t)?;
        let handle = device.register(kernel)?;
        device.bind(DeviceTask { kernel: ROption::RSome(handle), ..task })?;
        return Ok(None);
    }
    if t.kind == TaskType::PREPROCESS_KERNEL.code() && tiled(m, t).is_none() {
        return Err(RuntimeError::Damaged {
            what: format!(
                "task {index} (PREPROCESS_KERNEL) of `{}` computes the tiling of no kernel: no task of the node has the placeholder \
                 {TILING_SINK_BLOCK_DIM:#X} for its blocks",
                node.name
            ),
        });
    }
    let (args, spots) = arguments(m, places, t, node)?;
    let is_kernel = !t.kernel_name.is_empty();
    let resolved = resolved(t, node, &args, spots, numbers);
    let engine_name = if is_kernel || !t.private.is_empty() || t.kind == TaskType::HCCL.code() {
        &node.engine
    } else {
        &engines.runtime_tasks
    };
    let engine = engines.get(engine_name, node)?;
    if !is_kernel && engine_name == &engines.runtime_tasks {
        if let Some(kept) = kept {
            kept.push(Again::Plain(resolved.clone()));
        }
        device.bind(resolved)?;
        return Ok(None);
    }
    let request = request(m, kernels, t, node, args, options)?;
    let handle = if t.kind == TaskType::FFTS_PLUS.code() {
        let (kernel, task) = several::keep(s, node, index, &request, resolved)?;
        let handle = device.register(kernel)?;
        device.bind(DeviceTask { kernel: ROption::RSome(handle), ..task })?;
        Some(handle)
    } else {
        let at = |e: ge_plugin_api::Error| RuntimeError::Border(e.at_node(&node.name, &node.op));
        engine.load_task(&request, index, device, resolved).map_err(at)?;
        None
    };
    Ok((is_kernel && t.block_dim == TILING_SINK_BLOCK_DIM).then_some(handle))
}
