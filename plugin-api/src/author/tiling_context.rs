//! The device's tiling context (document 001 §5.1): one buffer for each node whose tiling runs on
//! the device. The loader fills in what the host knows, and a tiling function what it computes;
//! both sides access it by this layout.
//!
//! | header: bytes of tiling data, room for them | tiling data | 16 workspace addresses | context | compute node info |
//!
//! The room for tiling data is what the operator asks for (attribute `op_para_size`), but at least
//! 16 KiB; everything behind it moves back by what exceeds 16 KiB.
use crate::diagnostic::{Error, Result};
use crate::kernel::BlockArgs;

/// Operator attribute: the maximum size of its tiling data in bytes.
pub const OP_PARA_SIZE: &str = "op_para_size";
/// Bytes of room for tiling data if an operator asks for no more.
pub const TILING_DATA_BYTES: usize = 16 * 1024;
/// The most room for tiling data that an operator may ask for, in bytes.
pub const MOST_TILING_DATA_BYTES: usize = 1024 * 1024;
/// Size of the header before the tiling data: their length, the room for them, then unused bytes.
pub const HEADER_BYTES: usize = 64;
/// Number of workspace addresses in a context.
pub const WORKSPACE_SLOTS: usize = 16;
/// Offset of the workspace addresses.
pub const WORKSPACES_AT: usize = HEADER_BYTES + TILING_DATA_BYTES;
/// Offset of the tiling key, eight bytes.
pub const KEY_AT: usize = WORKSPACES_AT + 8 * WORKSPACE_SLOTS;
/// Offset of block_dim, eight bytes.
pub const BLOCK_DIM_AT: usize = KEY_AT + 8;
/// Offset of the event word, eight bytes: a super kernel waits for its tiling on this address.
pub const EVENT_AT: usize = KEY_AT + 16;
/// Offset of the flags of deterministic computation: whether it is on, and its level, four bytes
/// each.
pub const DETERMINISTIC_AT: usize = KEY_AT + 24;
/// Offset of the platform: number of AI cores, of vector cores and of prefetched tasks, whether the
/// operator is a custom one (four bytes each), and device memory (eight bytes).
pub const PLATFORM_AT: usize = KEY_AT + 32;
/// Offset of the compute node info, which starts with the operator type as a zero-terminated
/// string.
pub const NODE_INFO_AT: usize = KEY_AT + 64;
/// Bytes for the operator type with its terminating zero.
pub const OP_TYPE_BYTES: usize = 64;
/// Bytes of a tiling context with all its parts, without additional room for tiling data.
pub const CONTEXT_BYTES: usize = NODE_INFO_AT + 256;

/// Most inputs read by value that fit into the compute node info.
const VALUES: usize = (256 - OP_TYPE_BYTES - 12) / 8;

/// By how many bytes the parts behind the tiling data move back for an operator that asks for this
/// many bytes; `None` if it asks for more than an operator may have, or for a negative number.
pub fn beyond(op_para_size: Option<i64>) -> Option<usize> {
    let asked = usize::try_from(op_para_size.unwrap_or(0)).ok().filter(|n| *n <= MOST_TILING_DATA_BYTES)?;
    Some(asked.max(TILING_DATA_BYTES).next_multiple_of(64) - TILING_DATA_BYTES)
}

/// The platform as a tiling function sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Platform {
    /// Number of AI cores.
    pub aic_cores: u32,
    /// Number of vector cores.
    pub aiv_cores: u32,
    /// Number of tasks that are prefetched on a stream.
    pub prefetch_num: u32,
    /// Whether the tiling function was loaded for a custom operator; otherwise it is built in.
    pub custom: bool,
    /// Device memory in bytes.
    pub memory_bytes: u64,
}

/// Everything that a context holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TilingContext {
    /// Tiling data; valid once a tiling function has run.
    pub data: Vec<u8>,
    /// Room for tiling data in bytes.
    pub capacity: u64,
    /// Addresses of the node's workspaces.
    pub workspaces: Vec<u64>,
    /// Tiling key; valid once a tiling function has run.
    pub tiling_key: u64,
    /// Number of blocks; valid once a tiling function has run.
    pub block_dim: u64,
    /// Whether results must not depend on how the work is split.
    pub deterministic: bool,
    /// Level of deterministic computation.
    pub deterministic_level: u32,
    /// The platform.
    pub platform: Platform,
    /// Operator type.
    pub op_type: String,
    /// Number of the node's inputs.
    pub inputs: u32,
    /// Number of the node's outputs.
    pub outputs: u32,
    /// Inputs read by value: the input's index, and the index of the tiling function's argument
    /// that holds its address in the current run.
    pub values: Vec<(u32, u32)>,
}

impl TilingContext {
    /// What the host writes: offsets and bytes in a context whose parts are moved back by `beyond`.
    /// Tiling data, key, block count and event belong to the device and are left as they are.
    ///
    /// # Errors
    /// Returns a `failed` error if there are too many workspaces or inputs by value.
    pub fn host_parts(&self, beyond: usize) -> Result<[(usize, Vec<u8>); 3]> {
        if self.workspaces.len() > WORKSPACE_SLOTS || self.values.len() > VALUES {
            let (w, v) = (self.workspaces.len(), self.values.len());
            return Err(Error::failed(format!(
                "a tiling context holds {WORKSPACE_SLOTS} workspaces and {VALUES} inputs by value, found {w} and {v}"
            )));
        }
        let mut slots = vec![0u8; 8 * WORKSPACE_SLOTS];
        for (slot, address) in slots.chunks_exact_mut(8).zip(&self.workspaces) {
            slot.copy_from_slice(&address.to_le_bytes());
        }
        let p = &self.platform;
        let numbers = [
            u32::from(self.deterministic),
            self.deterministic_level,
            p.aic_cores,
            p.aiv_cores,
            p.prefetch_num,
            u32::from(p.custom),
        ];
        let mut rest: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        rest.extend_from_slice(&p.memory_bytes.to_le_bytes());
        rest.resize(NODE_INFO_AT - DETERMINISTIC_AT, 0);
        let name = self.op_type.as_bytes();
        rest.extend_from_slice(&name[..name.len().min(OP_TYPE_BYTES - 1)]);
        rest.resize(NODE_INFO_AT - DETERMINISTIC_AT + OP_TYPE_BYTES, 0);
        let counts = [self.inputs, self.outputs, self.values.len() as u32];
        let numbers = counts.into_iter().chain(self.values.iter().flat_map(|(input, argument)| [*input, *argument]));
        rest.extend(numbers.flat_map(u32::to_le_bytes));
        rest.resize(CONTEXT_BYTES - DETERMINISTIC_AT, 0);
        let room = (TILING_DATA_BYTES + beyond) as u64;
        Ok([(8, room.to_le_bytes().to_vec()), (WORKSPACES_AT + beyond, slots), (DETERMINISTIC_AT + beyond, rest)])
    }

    /// Reads a whole context; `None` if the bytes are not a context.
    pub fn decode(all: &[u8]) -> Option<TilingContext> {
        let beyond = all.len().checked_sub(CONTEXT_BYTES)?;
        let u32_at = |at: usize| Some(u32::from_le_bytes(*all.get(at..)?.first_chunk()?));
        let u64_at = |at: usize| Some(u64::from_le_bytes(*all.get(at..)?.first_chunk()?));
        let room = TILING_DATA_BYTES + beyond;
        let bytes = usize::try_from(u64_at(0)?).ok().filter(|n| *n <= room)?;
        let slots: Vec<u64> =
            (0..WORKSPACE_SLOTS).map(|k| u64_at(WORKSPACES_AT + beyond + 8 * k)).collect::<Option<_>>()?;
        let used = slots.iter().rposition(|a| *a != 0).map_or(0, |k| k + 1);
        let platform = PLATFORM_AT + beyond;
        let info = NODE_INFO_AT + beyond;
        let name = all.get(info..info + OP_TYPE_BYTES)?.split(|b| *b == 0).next()?;
        let numbers = info + OP_TYPE_BYTES;
        let count = usize::try_from(u32_at(numbers + 8)?).ok().filter(|n| *n <= VALUES)?;
        let value = |k: usize| Some((u32_at(numbers + 12 + 8 * k)?, u32_at(numbers + 16 + 8 * k)?));
        Some(TilingContext {
            data: all.get(HEADER_BYTES..HEADER_BYTES + bytes)?.to_vec(),
            capacity: u64_at(8)?,
            workspaces: slots[..used].to_vec(),
            tiling_key: u64_at(KEY_AT + beyond)?,
            block_dim: u64_at(BLOCK_DIM_AT + beyond)?,
            deterministic: u32_at(DETERMINISTIC_AT + beyond)? != 0,
            deterministic_level: u32_at(DETERMINISTIC_AT + beyond + 4)?,
            platform: Platform {
                aic_cores: u32_at(platform)?,
                aiv_cores: u32_at(platform + 4)?,
                prefetch_num: u32_at(platform + 8)?,
                custom: u32_at(platform + 12)? != 0,
                memory_bytes: u64_at(platform + 16)?,
            },
            op_type: String::from_utf8_lossy(name).into_owned(),
            inputs: u32_at(numbers)?,
            outputs: u32_at(numbers + 4)?,
            values: (0..count).map(value).collect::<Option<_>>()?,
        })
    }
}

/// Reads the context at argument `arg` of a tiling function, as the loader filled it in.
///
/// # Errors
/// Returns an error if the argument is not a filled tiling context.
pub fn read_context(call: &BlockArgs<'_>, arg: usize) -> Result<TilingContext> {
    let found = call.look::<u8, _>(arg, TilingContext::decode)?;
    found.filter(|c| !c.op_type.is_empty()).ok_or_else(|| Error::failed(format!("argument {arg} is no tiling context")))
}

/// Writes the results of a tiling function into the context at argument `arg` of a launch.
///
/// # Errors
/// Returns an error if the argument is not a tiling context, or has no room for `data`.
pub fn write_context(call: &BlockArgs<'_>, arg: usize, key: u64, block_dim: u32, data: &[u8]) -> Result<()> {
    let beyond = call.len(arg).checked_sub(CONTEXT_BYTES);
    let beyond = beyond.ok_or_else(|| Error::failed(format!("argument {arg} is no tiling context")))?;
    let room = TILING_DATA_BYTES + beyond;
    if data.len() > room {
        return Err(Error::failed(format!("{} bytes of tiling data, a context holds {room}", data.len())));
    }
    let mut context = call.writer::<u8>(arg)?;
    let (len, key, block_dim) =
        ((data.len() as u64).to_le_bytes(), key.to_le_bytes(), u64::from(block_dim).to_le_bytes());
    let fields = [(0, &len[..]), (HEADER_BYTES, data), (KEY_AT + beyond, &key), (BLOCK_DIM_AT + beyond, &block_dim)];
    for (at, bytes) in fields {
        let to = context.part(at, bytes.len());
        to.ok_or_else(|| Error::failed(format!("argument {arg} is no tiling context")))?.copy_from_slice(bytes);
    }
    Ok(())
}

/// The tiling data at argument `arg` of a launch (`{tiling_context.tiling_data}`).
///
/// # Errors
/// Returns an error if the argument holds no tiling data.
pub fn tiling_data<'a>(call: &BlockArgs<'a>, arg: usize) -> Result<&'a [u8]> {
    let all: &[u8] = call.input(arg)?;
    let found = all.split_first_chunk::<8>().and_then(|(len, _)| {
        let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
        all.get(HEADER_BYTES..HEADER_BYTES.checked_add(len)?)
    });
    found.ok_or_else(|| Error::failed("the tiling context holds no tiling data"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_host_writes_is_what_the_device_reads() {
        let context = TilingContext {
            workspaces: vec![0x1000, 0x2000],
            deterministic: true,
            deterministic_level: 1,
            platform: Platform { aic_cores: 24, aiv_cores: 48, prefetch_num: 8, custom: true, memory_bytes: 64 << 30 },
            op_type: "GroupedMatmul".into(),
            inputs: 3,
            outputs: 1,
            values: vec![(2, 5)],
            ..TilingContext::default()
        };
        for asked in [None, Some(8), Some(16 * 1024), Some(40_000)] {
            let beyond = beyond(asked).expect("it has room");
            let room = asked.unwrap_or(0).max(16 * 1024) as u64;
            assert_eq!((TILING_DATA_BYTES + beyond) as u64, room.next_multiple_of(64));
            let mut all = vec![0u8; CONTEXT_BYTES + beyond];
            for (at, bytes) in context.host_parts(beyond).expect("it fits") {
                all[at..at + bytes.len()].copy_from_slice(&bytes);
            }
            let capacity = (TILING_DATA_BYTES + beyond) as u64;
            assert_eq!(TilingContext::decode(&all), Some(TilingContext { capacity, ..context.clone() }));
        }
        assert_eq!(beyond(Some(MOST_TILING_DATA_BYTES as i64 + 1)), None);
        assert_eq!(beyond(Some(-1)), None);
        assert_eq!(TilingContext::decode(&[0; CONTEXT_BYTES - 1]), None);
        assert!(TilingContext { workspaces: vec![1; 17], ..TilingContext::default() }.host_parts(0).is_err());
    }
}
