//! The positions of a node's tasks, and what tasks say of themselves; used by several parts of the
//! proof.
use ge_model::{NodeInfo, TaskInfo};
use ge_plugin_api::task::{TILING_SINK_BLOCK_DIM, TaskType};
use ge_plugin_api::types::AttrValue;

/// The tasks of one node on one stream: the start clock of the first and the index of the last.
#[derive(Clone)]
pub(crate) struct Stand {
    /// Index of the stream.
    pub stream: usize,
    /// For every stream, how many of its tasks are over when the first task starts.
    pub start: Vec<u32>,
    /// Position of the last task on the stream.
    pub last: u32,
}

pub(crate) fn is_record(t: TaskType) -> bool {
    matches!(t, TaskType::EVENT_RECORD | TaskType::NOTIFY_RECORD)
}
pub(crate) fn is_wait(t: TaskType) -> bool {
    matches!(t, TaskType::EVENT_WAIT | TaskType::NOTIFY_WAIT)
}
pub(crate) fn notify(kind: u32) -> bool {
    matches!(TaskType(kind), TaskType::NOTIFY_RECORD | TaskType::NOTIFY_WAIT)
}
pub(crate) fn join(a: &mut [u32], b: &[u32]) {
    for (x, y) in a.iter_mut().zip(b) {
        *x = (*x).max(*y);
    }
}

/// Whether a task is a kernel that is launched with what a tiling function leaves in a context.
pub(crate) fn takes_tiling(t: &TaskInfo) -> bool {
    let makes = matches!(TaskType(t.kind), TaskType::PREPROCESS_KERNEL | TaskType::UPDATE);
    !makes && t.args_format.contains("{tiling_context")
}

/// Whether a task is a kernel that its stream prefetches before its turn.
pub(crate) fn read_ahead(t: &TaskInfo) -> bool {
    takes_tiling(t) && t.block_dim == TILING_SINK_BLOCK_DIM
}

/// Whether a task is the last of a node's tiling: the one that updates the kernel, or the tiling
/// function if nothing updates it.
pub(crate) fn ends_tiling(t: &TaskInfo, updated: bool) -> bool {
    match TaskType(t.kind) {
        TaskType::UPDATE => true,
        TaskType::PREPROCESS_KERNEL => !updated,
        _ => false,
    }
}

/// Inputs whose values a node's attached work reads.
pub(crate) fn value_inputs(n: &NodeInfo) -> Vec<usize> {
    let Some(AttrValue::List(list)) = n.attrs.get("_attached_stream_info_list") else { return Vec::new() };
    let said = |d: &AttrValue| {
        let key = "_attached_resource_depend_value_list_int";
        d.as_dict()?.iter().find(|e| e.key.as_str() == key)?.value.as_ints().map(<[i64]>::to_vec)
    };
    list.iter().filter_map(said).flatten().filter_map(|i| usize::try_from(i).ok()).collect()
}
