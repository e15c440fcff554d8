//! Launches combined in one task: the content of `private_def` of SUPER_KERNEL and FFTS_PLUS tasks,
//! encoded as kernel payloads of the published schema.
use crate::ModelError;
use bytes::Bytes;
use ge_om::proto::task::{KernelContext, KernelDef, ModelTaskDef, TaskDef};
use ge_plugin_api::task::KernelTask;
use prost::Message;

/// One launch within a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// Index of its node among the task's nodes.
    pub node: u32,
    /// Task type, a code of facts 7.2.
    pub kind: u32,
    /// Name of its kernel in the kernel store.
    pub kernel_name: String,
    /// Code of the kernel type.
    pub kernel_type: u32,
    /// Number of blocks that the kernel runs on.
    pub block_dim: u32,
    /// Tiling key: selects the variant of the kernel.
    pub tiling_key: u64,
    /// Tiling data passed to the kernel.
    pub tiling: Bytes,
    /// Arguments, relative to its node.
    pub args_format: String,
    /// How blocks are scheduled (0: normal, 1: all blocks at once).
    pub schedule_mode: u32,
}

impl Launch {
    /// Makes the launch for a node of a task from the node's kernel task of type `kind`.
    pub fn of(node: u32, kind: u32, k: &KernelTask) -> Launch {
        Launch {
            node,
            kind,
            kernel_name: k.kernel_name.to_string(),
            kernel_type: k.kernel_type,
            block_dim: k.block_dim,
            tiling_key: k.tiling_key,
            tiling: k.tiling.to_vec().into(),
            args_format: k.args_format.to_string(),
            schedule_mode: k.schedule_mode,
        }
    }
}

/// Encodes launches as bytes.
pub fn encode(launches: &[Launch]) -> Vec<u8> {
    list(launches).encode_to_vec()
}

/// Builds the message that holds the launches.
pub(crate) fn list(launches: &[Launch]) -> ModelTaskDef {
    let task = launches.iter().enumerate().map(|(i, l)| TaskDef {
        id: i as u32,
        r#type: l.kind,
        kernel: Some(Box::new(KernelDef {
            context: Some(KernelContext {
                kernel_type: l.kernel_type,
                op_index: l.node,
                args_count: l.args_format.matches('{').count() as u32,
                args_format: l.args_format.clone(),
                ..Default::default()
            }),
            kernel_name: l.kernel_name.clone(),
            block_dim: l.block_dim,
            args_size: l.tiling.len() as u32,
            args: l.tiling.clone(),
            kernel_ext_info: Bytes::copy_from_slice(&l.tiling_key.to_le_bytes()),
            kernel_ext_info_size: 8,
            schedule_mode: l.schedule_mode,
            ..Default::default()
        })),
        ..TaskDef::default()
    });
    ModelTaskDef { task: task.collect(), ..ModelTaskDef::default() }
}

/// Decodes launches.
///
/// # Errors
/// Fails if the bytes are not encoded launches.
pub fn decode(bytes: &[u8]) -> Result<Vec<Launch>, ModelError> {
    let bad = || ModelError::field("the launches of a task");
    let list = ModelTaskDef::decode(bytes).map_err(|_| bad())?;
    let launch = |d: TaskDef| {
        let k = d.kernel?;
        let context = k.context?;
        Some(Launch {
            node: context.op_index,
            kind: d.r#type,
            kernel_name: k.kernel_name,
            kernel_type: context.kernel_type,
            block_dim: k.block_dim,
            tiling_key: u64::from_le_bytes(k.kernel_ext_info.as_ref().try_into().ok()?),
            tiling: k.args,
            args_format: context.args_format,
            schedule_mode: k.schedule_mode,
        })
    };
    list.task.into_iter().map(|d| launch(d).ok_or_else(bad)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let one = Launch {
            node: 0,
            kind: 39,
            kernel_name: "k".into(),
            kernel_type: 2,
            block_dim: u32::MAX,
            tiling_key: 1 << 40,
            tiling: Bytes::from_static(b"tiling"),
            args_format: "{i0*}{o0*}".into(),
            schedule_mode: 1,
        };
        let all = [one.clone(), Launch { node: 1, block_dim: 3, ..one }];
        assert_eq!(decode(&encode(&all)).expect("launches"), all);
        assert!(decode(&[0xff, 0xff]).is_err());
        let empty = ModelTaskDef { task: vec![TaskDef::default()], ..ModelTaskDef::default() };
        assert!(decode(&empty.encode_to_vec()).is_err());
    }
}
